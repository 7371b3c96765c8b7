"""A user's table as streams: divided and scaled so that nothing comes from the future."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

import domkl
from domkl import Auto, KernelSpec, Paper, cli
from domkl.base.errors import DataError, InputError
from domkl.datasets import Table
from domkl.lab import trial
from domkl.lab.experiment import Experiment

MODELS = [Auto(size=64), Paper(kernels=KernelSpec(D=5))]


def made(N=360, size=1000.0):
    """Rows whose target is far from [0, 1]."""
    X = np.random.default_rng(0).uniform(-50, 50, size=(N, 2))
    return Table("t", X, size + 0.3 * X[:, 0] - X[:, 1], ("a", "b"), "y")


def streams(table, learners=None, rounds=None, model=None, **options):
    mine = Experiment("e", model=model or Auto(), learners=None if table.learners else 3)
    return trial.from_table(mine, table, "t.csv", learners, rounds, **options)


def outcome(table, model, split="interleaved"):
    mine = Experiment("e", graphs=("complete",), learners=3, model=model, paper=MODELS[1])
    return trial.carry_out(mine, trial.from_table(mine, table, "t.csv", split=split))


def test_rows_are_dealt_out_in_turn():
    table = Table("t", np.arange(11.0)[:, None], np.arange(11.0), ("a",), "y")
    source = streams(table)
    assert source.split.y.tolist() == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]
    assert source.split.left_out == 2
    assert source.notes == ("rows dealt out in turn to 3 learners",)


@pytest.mark.parametrize(("split", "first"), [("blocks", [0, 1, 2, 3]), ("random", None)])
def test_other_divisions_say_that_learners_see_the_future(split, first):
    table = Table("t", np.arange(12.0)[:, None], np.arange(12.0), ("a",), "y")
    source = streams(table, split=split)
    assert first is None or source.split.y[0].tolist() == first
    assert sorted(source.split.y.ravel()) == list(range(12))
    assert "learners see each other's future" in source.notes[0]


def test_a_learner_column_divides_by_itself():
    table = dataclasses.replace(made(12), learners=tuple("ab" * 6))
    source = streams(table, rounds=4)
    assert source.split.names == ("a", "b")
    assert source.split.X.shape == (2, 4, 2)
    assert source.notes == ("rows divided over 2 learners by the learner column",)


@pytest.mark.parametrize(("kind", "row"), [("auto", 331), ("paper", 330), ("paper", 331), ("paper", 332)])
def test_no_prediction_depends_on_a_later_row(kind, row):
    table, model = made(), MODELS[kind == "paper"]
    other = dataclasses.replace(table, X=table.X.copy(), y=table.y.copy())
    other.X[row:] *= 100.0
    other.y[row:] -= 5000.0
    before, after = (outcome(each, model).run.y_hat for each in (table, other))
    now = row // 3
    np.testing.assert_array_equal(before[:, :now], after[:, :now])
    before_row = row % 3  # learners whose reading of this round stands above the row in the file
    np.testing.assert_array_equal(before[:before_row, now], after[:before_row, now])
    assert (before[:, now + 1 :] != after[:, now + 1 :]).any()


def test_blocks_do_depend_on_later_rows():
    table = made(150)
    other = dataclasses.replace(table, y=table.y.copy())
    other.y[100:] -= 5000.0  # the block of the third learner
    before, after = (outcome(each, MODELS[0], "blocks").run.y_hat[0] for each in (table, other))
    assert (before != after).any()


def test_auto_learns_the_values_as_they_are():
    table = made(150)
    found = outcome(table, Auto(size=64))
    np.testing.assert_array_equal(found.split.y.T.ravel(), table.y)
    np.testing.assert_array_equal(found.split.X.swapaxes(0, 1).reshape(-1, 2), table.X)
    assert found.scale == 1
    run = domkl.simulate(found.split.X, found.split.y, "complete", model=Auto(size=64), dtype=np.float32)
    np.testing.assert_array_equal(found.run.mse, run.mse)


def test_the_papers_learner_sees_the_range_of_the_first_rounds_and_is_told_in_the_targets_unit():
    table = made()
    found = outcome(table, MODELS[1])
    start = table.y[:300]
    assert found.scale == pytest.approx(np.ptp(start) ** 2)
    assert (found.split.X.min(), found.split.X.max()) == (0, 1)
    assert found.split.y[:, :100].min() == 0
    assert found.split.y[:, :100].max() == 1
    np.testing.assert_allclose(found.split.y.T.ravel() * np.ptp(start) + start.min(), table.y)
    note = "inputs and target scaled by the range of the first 100 rounds, later inputs clipped"
    assert any(each.startswith(note) for each in found.notes)


def test_classes_are_never_scaled():
    table = made(150)
    table = dataclasses.replace(table, y=(table.y > 1000).astype(float))
    for model in (Auto(size=64, loss="logistic"), dataclasses.replace(MODELS[1], loss="logistic")):
        found = outcome(table, model)
        np.testing.assert_array_equal(found.split.y.T.ravel(), table.y)
        assert found.scale == 1
        assert any("inputs scaled by the range" in note for note in found.notes) == (model.kind == "paper")
    with pytest.raises(InputError, match="y holds the label 2; expected -1 and"):
        outcome(dataclasses.replace(table, y=table.y + 1), Auto(size=64, loss="logistic"))


def test_a_table_says_who_its_learners_are_or_the_caller_does():
    table = made(12)
    alone = trial.from_table(Experiment("e"), table, "t")
    assert len(alone.split.names) == 1
    assert alone.notes[0].startswith("all rows are of one learner (--learner-column says whose they are")
    mine = Experiment("e", learners=2)
    assert len(trial.from_table(mine, table, "t").split.names) == 2
    assert len(trial.from_table(mine, table, "t", 4).split.names) == 4
    with pytest.raises(InputError, match="learners is 0; expected a whole number of at least 1"):
        streams(table, 0)
    with pytest.raises(InputError, match="learners is 7 but the table has a learner column"):
        streams(dataclasses.replace(table, learners=tuple("ab" * 6)), 7)


def test_a_short_learner_does_not_silently_cost_the_others_most_rows():
    table = dataclasses.replace(made(20), learners=("a",) * 10 + ("b",) * 9 + ("c",))
    with pytest.raises(InputError, match=r"learner 'c' has 1 rows, so 17 of 20 .*--rounds 1") as error:
        streams(table)
    assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="would go unused"):
        streams(table, rounds=2)
    assert streams(table, rounds=1).split.y.shape == (3, 1)
    half = dataclasses.replace(table, learners=("a",) * 15 + ("b",) * 5)
    assert streams(half).split.left_out == 10


def test_values_that_cannot_be_computed_with_are_refused_with_their_column():
    table = made(12)
    y = np.append(table.y[:11], 1e200)
    with pytest.raises(DataError, match=r"t, column 'y': its values reach 1e\+200, too much to square"):
        streams(dataclasses.replace(table, y=y))
    X = table.X.copy()
    X[:2, 1] = 1e308, -1e308
    with pytest.raises(DataError, match=r"t, column 'b': values from -1e\+308 to 1e\+308 cannot"):
        streams(dataclasses.replace(table, X=X))


def test_a_column_says_when_the_target_was_known(tmp_path, capsys):
    """Blocks of rows are known when the block ends: before that nothing of them is used."""
    rng = np.random.default_rng(0)
    x, hours = rng.uniform(size=300), np.arange(300)
    lines = [
        f"2024-05-{1 + t // 24:02} {t % 24:02}:00,{x[t]},{5 * x[t]},"
        + (f"2024-05-{1 + (t // 12 * 12 + 12) // 24:02} {(t // 12 * 12 + 12) % 24:02}:00" if t % 5 else "")
        for t in hours
    ]
    path = tmp_path / "late.csv"
    path.write_text("\n".join(["when,x,y,measured", *lines]))
    split = domkl.datasets.read_table(path, target="y", known="measured", time="when").dataset().split(1)
    assert split.delays[0, :7].tolist() == [np.inf, 11, 10, 9, 8, np.inf, 6]
    common = ["--data", str(path), "--target", "y", "--time", "when", "--known", "measured"]
    assert cli.main(["run", *common, "--size", "40", "--json", "--no-report"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["network"]["rmse"] < 1.5
    for command in (["compare", *common], ["run", *common, "--alarm-rate", "0.01"]):
        assert cli.main(command) == 2
        assert "times of their own" in capsys.readouterr().err
