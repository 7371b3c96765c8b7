from __future__ import annotations

import dataclasses
import json
import os

import numpy as np
import pytest

import domkl
from domkl import Auto, Paper, RateSpec, datasets
from domkl.base.errors import DataError, InputError
from domkl.datasets import Dataset
from domkl.lab import experiment, reproduce
from domkl.lab.reproduce import Store, Task

needs_data = pytest.mark.skipif(not os.environ.get("DOMKL_DATA"), reason="DOMKL_DATA is not set")
FITTED, PRINTED = experiment.load("paper-fitted"), experiment.load("paper-printed")


def with_kernels(protocol, **changes):
    """The protocol with other kernels."""
    spec = dataclasses.replace(protocol.model.kernels, **changes)
    return dataclasses.replace(protocol, model=dataclasses.replace(protocol.model, kernels=spec))


def row(metric="mse", method="DOMKL", learner=1, value=1.0, dataset="weather", network=1, trial=0):
    return locals()


def test_all_800_printed_figures_are_there_and_have_a_table():
    printed = reproduce.printed()
    assert len(printed) == 800
    assert printed["mse", "weather", 1, "DOMKL", 1] == 0.0019
    assert printed["cv", "traffic/10", 4, "DOMKL", 2] == 0.0502
    counts = dict.fromkeys(reproduce.TABLES, 0)
    for metric, dataset, network, _, _ in printed:
        counts[reproduce.table_of(metric, dataset, network)] += 1
    assert sum(counts.values()) == 800
    assert counts["II"] == 2 * 4 * (1 + 3 * 3)
    assert counts["IX"] == 2 * 4 * 3 * 5


def test_figures_are_means_over_trials_beside_the_printed_value():
    figures = reproduce.summarise([row(value=0.001), row(value=0.003, trial=1)], [1, 2])
    (figure,) = figures
    assert (figure.table, figure.value, figure.spread, figure.trials) == ("II", 0.002, 0.001, 2)
    assert figure.ratio == pytest.approx(0.002 / 0.0019)


def test_omkl_stands_in_every_network():
    figures = reproduce.summarise([row(method="OMKL", learner=None, network=0, value=0.00133)], [1, 2])
    assert [(f.network, f.ratio) for f in figures] == [(1, 1.0), (2, 1.0)]


def test_the_plan_holds_every_run_once():
    tasks = reproduce.plan(["weather"], [1, 4], trials=2)
    assert len(tasks) == len(set(tasks)) == 7 + 2 * 3
    assert Task("weather", 0, 1) in tasks


class TestStore:
    def test_goes_on_where_it_stopped(self, tmp_path):
        path, tasks = tmp_path / "a" / "r.jsonl", [Task("weather", 1, 0), Task("weather", 1, 1)]
        Store(path, FITTED).add(tasks[0], [row()])
        again = Store(path, FITTED)
        assert again.missing(tasks) == tasks[1:]
        assert again.rows(tasks[:1])[0]["value"] == 1.0

    def test_other_settings_do_not_count_but_more_trials_do(self, tmp_path):
        path, task = tmp_path / "r.jsonl", Task("weather", 1, 0)
        Store(path, FITTED).add(task, [row()])
        assert Store(path, dataclasses.replace(FITTED, trials=99)).missing([task]) == []
        model = dataclasses.replace(FITTED.model, rates=RateSpec(kappa=0.5))
        changed = dataclasses.replace(FITTED, model=model)
        assert Store(path, changed).missing([task]) == [task]

    def test_a_half_written_line_is_run_again_and_spoils_nothing(self, tmp_path):
        path, tasks = tmp_path / "r.jsonl", [Task("weather", 1, 0), Task("weather", 1, 1)]
        Store(path, FITTED).add(tasks[0], [row()])
        whole = path.read_text()
        path.write_text(whole + whole[: len(whole) // 2])
        store = Store(path, FITTED)
        assert store.missing(tasks) == tasks[1:]
        store.add(tasks[1], [row()])
        assert Store(path, FITTED).missing(tasks) == []

    def test_results_of_other_data_do_not_count(self, tmp_path):
        path, tasks = tmp_path / "r.jsonl", [Task("weather", 1, 0), Task("weather", 1, 1)]
        Store(path, FITTED, {"weather": "old"}).add(tasks[0], [row(value=1.0)])
        new = Store(path, FITTED, {"weather": "new"})
        assert new.missing(tasks) == tasks
        new.add(tasks[1], [row(value=2.0)])
        # Where the data are not here, the version used last counts, and no mixture.
        assert Store(path, FITTED).missing(tasks) == tasks[:1]
        assert Store(path, FITTED, {"weather": "old"}).rows(tasks[:1])[0]["value"] == 1.0

    def test_results_of_another_version_do_not_count(self, tmp_path, monkeypatch):
        path, task = tmp_path / "r.jsonl", Task("weather", 1, 0)
        Store(path, FITTED).add(task, [row()])
        monkeypatch.setattr(reproduce, "__version__", "0.0.0.other")
        assert Store(path, FITTED).missing([task]) == [task]

    @pytest.mark.parametrize(
        "change",
        [
            lambda record: record.pop("task"),
            lambda record: record.pop("rows"),
            lambda record: record.update(task=["weather"]),
            lambda record: record.update(task=[["weather"], 1, 0]),
            lambda record: record.update(task=None),
            lambda record: record.update(rows=[{"metric": "mse"}]),
            lambda record: record.update(rows=[{**row(), "value": "many"}]),
            lambda record: record.update(rows=3),
        ],
    )
    def test_lines_without_their_parts_are_run_again(self, tmp_path, change):
        path, task = tmp_path / "r.jsonl", Task("weather", 1, 0)
        Store(path, FITTED).add(task, [row()])
        record = json.loads(path.read_text())
        change(record)
        path.write_text(json.dumps(record) + "\n[1]\n7\n")
        assert Store(path, FITTED).missing([task]) == [task]

    def test_a_file_of_other_bytes_is_refused_and_left_alone(self, tmp_path):
        path = tmp_path / "r.jsonl"
        path.write_bytes(b"\xff\xfe{}\n")
        with pytest.raises(DataError, match=r"r\.jsonl cannot be read: it is not UTF-8 text; .*--out"):
            Store(path, FITTED)
        assert path.read_bytes() == b"\xff\xfe{}\n"

    def test_reading_changes_nothing(self, tmp_path):
        path = tmp_path / "r.jsonl"
        path.write_text('{"half')
        path.chmod(0o444)
        Store(path, FITTED)
        assert path.read_text() == '{"half'

    def test_an_unwritable_place_is_named(self, tmp_path):
        (tmp_path / "file").write_text("")
        store = Store(tmp_path / "file" / "r.jsonl", FITTED)
        with pytest.raises(InputError, match=r"r\.jsonl cannot be written: .*choose another --out"):
            store.add(Task("weather", 1, 0), [row()])
        with pytest.raises(InputError, match=r"r\.jsonl cannot be written"):
            store.check_writable()


def figures_of(**errors):
    rows = [row(method=method.replace("_", " "), value=value) for method, value in errors.items()]
    rows += [row(metric="cv", value=0.004)]
    return reproduce.summarise([*rows, *rows], [1])  # two trials


def test_claims_are_judged_by_their_numbers():
    good = reproduce.judge(figures_of(DOMKL=1.0, DOKL2=5.5, best_kernel=0.9), [])
    bad = reproduce.judge(figures_of(DOMKL=1.0, DOKL2=4.0, best_kernel=0.5), [])
    assert [c.holds for c in good] == [True, None, True, None, True, None, None]
    assert [c.holds for c in bad] == [False, None, False, None, True, None, None]
    assert good[0].ours == pytest.approx(5.5)


def test_regret_claims_fit_the_worst_learners_exponent():
    rows = [
        row(metric="regret_a", dataset="regret", network=T, learner=j, value=j * T**power)
        for T in reproduce.LENGTHS
        for j, power in ((1, 0.9), (2000, 0.55))
    ]
    learning, discrepancy = reproduce.judge([], rows)[-2:]
    assert learning.ours == pytest.approx(0.55)
    assert learning.holds is True
    assert discrepancy.holds is None


@pytest.fixture
def made(monkeypatch):
    """A dataset in place of those from files."""
    rng = np.random.default_rng(0)
    data = Dataset("made", rng.uniform(size=(60, 2)), rng.uniform(size=60), ("a", "b"), "y")
    monkeypatch.setattr(reproduce, "_load", lambda *_: data)
    return data


@pytest.mark.parametrize("trial", [0, 2])
def test_each_trial_divides_the_rows_again_where_the_split_is_random(made, trial):
    small = with_kernels(PRINTED, D=4)
    V, split = small.model.draw(2, trial), made.split(3, "random", seed=trial)
    run = domkl.simulate(split.X, split.y, "paper1", model=Paper(kernels=V))
    rows = reproduce.perform(small, Task("made", 1, trial))
    assert [r["value"] for r in rows if (r["metric"], r["method"]) == ("mse", "DOMKL")] == run.mse.tolist()
    one = made.split(1, "random", seed=trial)
    central = domkl.omkl(one.X[0], one.y[0], kernels=V, mu=60**-0.5, eta_g=60**0.5)
    assert reproduce.perform(small, Task("made", 0, trial))[0]["value"] == central.mse


def test_another_model_than_the_papers_is_refused(made):
    mine = dataclasses.replace(FITTED, model=Auto())
    for network in (0, 1):
        with pytest.raises(InputError, match="the model of paper-fitted is auto; expected paper"):
            reproduce.perform(mine, Task("made", network, 0))


def test_the_digest_is_of_the_data(made, monkeypatch):
    before = reproduce.digest_of(FITTED, "made")
    other = dataclasses.replace(made, y=made.y + 1e-12)
    monkeypatch.setattr(reproduce, "_load", lambda *_: other)
    assert reproduce.digest_of(FITTED, "made") != before


def test_a_worker_with_other_data_is_refused(made):
    small, task = with_kernels(FITTED, D=2), Task("made", 0, 0)
    right = {"made": reproduce.digest_of(small, "made")}
    assert len(list(reproduce.run_all(small, [task], 1, right))) == 1
    with pytest.raises(DataError, match="made is another version where this task ran"):
        list(reproduce.run_all(small, [task], 1, {"made": "other"}))


@needs_data
def test_a_task_is_a_plain_run_of_domkl_and_its_single_kernels():
    small = with_kernels(FITTED, D=5)
    rows = reproduce.perform(small, Task("temperature/5", 2, 3))
    split = datasets.load("temperature/5", y_scale="max").split(3)
    V, rates = small.model.draw(5, trial=3), domkl.Rates.paper(split.y.shape[1], 0.01)
    run = domkl.simulate(split.X, split.y, "paper2", model=Paper(kernels=V, rates=rates))
    single = domkl.simulate(split.X, split.y, "paper2", model=Paper(kernels=V[4:5], rates=rates))
    found = {(r["metric"], r["method"], r["learner"]): r["value"] for r in rows}
    for j in range(3):
        assert found["mse", "DOMKL", j + 1] == run.mse[j]
        assert found["cv", "DOMKL", j + 1] == run.cv[j]
        assert found["mse", "DOKL1", j + 1] == pytest.approx(single.mse[j])
        assert found["cv", "DOKL1", j + 1] == pytest.approx(single.cv[j])
        assert found["mse", "best kernel", j + 1] == run.kernel_mse[j].min()


@needs_data
def test_the_fitted_protocol_is_near_the_printed_errors_of_domkl():
    """One trial; the whole of it is `domkl reproduce`."""
    names = [name for name in reproduce.DATASETS if name != "wave_energy"]
    rows = [
        {**task._asdict(), **r}
        for task in reproduce.plan(names, [1], 1)
        if task.network == 1 and task.dataset != "regret"
        for r in reproduce.perform(FITTED, task)
    ]
    figures = [f for f in reproduce.summarise(rows, [1]) if (f.metric, f.method) == ("mse", "DOMKL")]
    means = [np.mean([f.ratio for f in figures if f.dataset == name]) for name in names]
    assert 0.7 <= np.exp(np.mean(np.log(means))) <= 1.4
    assert all(0.4 <= mean <= 2.5 for mean in means), dict(zip(names, means, strict=True))


def test_results_are_json(tmp_path):
    store = Store(tmp_path / "r.jsonl", FITTED)
    store.add(Task("weather", 1, 0), [row()])
    assert json.loads(store.path.read_text())["task"] == ["weather", 1, 0]
