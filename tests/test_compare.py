"""`domkl compare`: one table, honest about who sees what, and what is left out."""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import domkl
import naive
import problems
from domkl import cli
from domkl.datasets import Columns, Table
from domkl.lab import ahead, compare, experiment, trial
from domkl.lab.central import AdaRaker, Vaw
from domkl.lab.compare import Contender, Result
from domkl.lab.experiment import Experiment
from domkl.learning import kernels
from domkl.learning.horizon import horizon
from domkl.models.settings import KernelSpec

FEW = ["compare", "--rounds", "25"]


@pytest.fixture
def mine(tmp_path):
    rng = np.random.default_rng(0)
    rows = [f"{u:.5f},{v:.5f},{1000 * (u + v):.3f}" for u, v in rng.uniform(size=(60, 2))]
    path = tmp_path / "mine.csv"
    path.write_text("\n".join(["u,v,y", *rows]) + "\n")
    return path


def document(capsys, *argv):
    assert cli.main([*argv, "--json"]) == 0
    out = capsys.readouterr()
    return json.loads(out.out), out.err


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """What the first rounds of the stations give: the document, standard error, and the folder of files."""
    folder, out, err = tmp_path_factory.mktemp("few") / "new", io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        assert cli.main([*FEW, "--out", str(folder), "--json"]) == 0
    return json.loads(out.getvalue()), err.getvalue(), folder


def test_the_table_has_ours_and_theirs(few):
    found, err, _ = few
    rows = {row["name"]: row for row in found["rows"]}
    assert {"domkl, auto", "domkl, newton", "domkl, paper", "OMKL", "VAW on the same features"} <= set(rows)
    assert "AdaRaker on the same features" in rows
    assert {"domkl auto, one learner", "domkl paper, one learner"} <= set(rows)
    assert rows["domkl, paper"]["sees"] == "a part"
    assert rows["domkl, paper"]["bytes_sent"] == 2 * 8 * (17 * 100 + 17)
    assert rows["OMKL"]["bytes_sent"] == 8 * (15 + 1)
    for row in rows.values():
        assert (row["mse"] is None) == (row["reason"] is not None)
        if row["mse"] is not None:
            assert row["rmse"] == pytest.approx(row["mse"] ** 0.5)
            assert row["us_per_sample"] > 0
            assert row["rmse"] < 100, row["name"]  # °F: no peer diverges
    shown = [row["mse"] for row in found["rows"] if row["mse"] is not None]
    assert shown == sorted(shown)
    assert "OMKL" in err


def test_networks_stand_beside_their_learners_alone(few):
    found, *_ = few
    split, networks = trial.prepare(experiment.load("three-stations"), 25).split, {}
    for row in found["rows"]:
        assert (row["mse_alone"] is None) == (not row["name"].startswith("domkl, "))
        if row["mse_alone"] is not None:
            assert row["rmse_alone"] == pytest.approx(row["mse_alone"] ** 0.5)
            networks[row["name"]] = row["mse_alone"]
    paper = domkl.Paper(kernels=KernelSpec(seed=0))
    lone = [
        domkl.simulate(split.X[[j]], split.y[[j]], [[0]], model=paper, delay=split.delay).mse
        for j in range(3)
    ]
    whole = domkl.simulate(split.X, split.y, "complete", model=domkl.Auto(), delay=split.delay)
    for kind, mean in (("paper", np.mean(lone)), ("auto", whole.alone.mean())):
        assert networks[f"domkl, {kind}"] == pytest.approx(130**2 * mean, rel=1e-3)  # auto's is in float32


def test_the_table_shows_alone_and_what_is_not_installed_with_its_install_line(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "river", None)
    assert cli.main(FEW) == 0
    out = capsys.readouterr().out
    (line,) = [line for line in out.splitlines() if "left out" in line]
    assert 'river is not installed; install it with: pip install "domkl[river]" (River ' in re.sub(
        " and this part of domkl needs it", "", line
    )
    assert line.count("River ") == 5
    assert re.search(r"^alone +the same of a network's learners, had each its own samples", out, re.MULTILINE)
    assert [head for head in out.splitlines()[1].split() if head == "alone"] == ["alone"]


def test_a_file_of_your_own_is_told_in_its_unit(capsys, mine):
    found, _ = document(capsys, "compare", "--data", str(mine), "--target", "y", "--learners", "4")
    assert (found["learners"], found["rounds"], found["features"]) == (4, 15, 2)
    assert min(row["rmse"] for row in found["rows"] if row["rmse"]) > 10
    assert found["notes"][0] == "rows dealt out in turn to 4 learners"
    assert found["notes"][1].startswith("inputs and target scaled by the range of the first 15 rounds")


def test_only_those_that_scale_by_themselves_see_the_values_as_they_are(monkeypatch):
    X = np.random.default_rng(0).uniform(0, 300, size=(40, 2))
    source = trial.from_table(Experiment("e"), Table("t", X, 5000 + X[:, 0], ("u", "v"), "y"), "t", 2)
    seen = {}

    def contender(name, scales):
        def run(given):
            seen[name] = given
            return Result(given.split.y - 1, 8.0, 1.0)

        return Contender(name, "all", run, scales)

    monkeypatch.setattr(compare, "network_contenders", lambda *_: [contender("raw", True)])
    monkeypatch.setattr(compare, "lone_contenders", lambda *_: [contender("scaled", False)])
    monkeypatch.setattr(compare, "peer_contenders", lambda *_: [])
    rows = {row.name: row for row in compare.table(source, trial.network("path", ("1", "2")))}
    np.testing.assert_array_equal(seen["raw"].split.y, source.split.y)
    assert (seen["scaled"].split.y.min(), seen["scaled"].split.y.max()) == (0, 1)
    assert rows["raw"].mse == pytest.approx(1)
    assert rows["scaled"].rmse == pytest.approx(np.ptp(X[:, 0]))  # in the target's unit


def test_categories_and_missing_cells_are_compared_or_left_out(capsys, mine):
    names, *rows = mine.read_text().splitlines()
    lines = [f"{names},day", ",0.5,1000,tuesday", *(f"{row},monday" for row in rows)]
    mine.write_text("\n".join(lines) + "\n")
    argv = ["compare", "--data", str(mine), "--target", "y"]
    assert cli.main([*argv, "--missing", "error"]) == 2
    assert "line 2, column 'u': the cell is missing" in capsys.readouterr().err
    found, _ = document(capsys, *argv)
    assert (found["learners"], found["rounds"], found["features"]) == (1, 61, 4)
    assert not [row["reason"] for row in found["rows"] if row["reason"]]
    found, _ = document(capsys, *argv, "--learners", "4", "--drop", "day", "--missing", "drop")
    assert (found["learners"], found["rounds"], found["features"]) == (4, 15, 2)


def test_the_data_of_an_experiment_are_compared(capsys, mine):
    file = mine.with_suffix(".toml")
    file.write_text(
        f'learners = 4\ngraphs = ["star"]\n[data]\npath = "{mine.name}"\n[columns]\ntarget = "y"\n'
    )
    found, _ = document(capsys, "compare", str(file), "--rounds", "5")
    assert (found["learners"], found["rounds"], found["graph"]) == (4, 5, "star")


def test_the_figure_goes_where_it_is_told(few):
    found, _, folder = few
    assert found["files"] == [str(folder / f"compare.{end}") for end in ("png", "csv", "tex", "md")]
    assert (folder / "compare.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("argv", "parts"),
    [
        (["--target", "y"], ["--target is for a file", "--data"]),
        (["--drop", "u"], ["--drop is for a file", "--data"]),
        (["--data", "x.csv", "--target", "y"], ["x.csv: no such file"]),
        (["--data", "x.csv", "--dataset", "weather"], ["both given"]),
        (["--learners", "4"], ["for the stations", "expected 3"]),
        (["--dataset", "nothing"], ["nothing"]),
        (["--graph", "wheel"], ["graph is 'wheel'"]),
    ],
)
def test_bad_input_is_one_line(capsys, argv, parts):
    assert cli.main(["compare", *argv]) == 2
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1
    assert all(part in err for part in parts)


def test_vaw_is_ridge_regression_with_the_next_sample_in_its_covariance():
    rng = np.random.default_rng(0)
    V = kernels.gaussian(2, D=4, sigma2=[0.5])
    model, X, y = Vaw(V, reg=0.3), rng.uniform(size=(30, 2)), rng.uniform(size=30)
    for x, label in zip(X, y, strict=True):
        model.learn(x, float(label))
    from domkl.learning import first_order

    new = rng.uniform(size=2)
    Z, z = first_order.features(V, X)[:, 0], first_order.features(V, new)[0]
    A = 0.3 * np.eye(8) + Z.T @ Z + np.outer(z, z)
    assert model.predict(new) == pytest.approx(float(z @ np.linalg.solve(A, Z.T @ y)), rel=1e-9)


@given(st.integers(1, 70), st.integers(1, 3), st.sampled_from([0.3, 1.0, 4.0]), st.integers(0, 999))
@settings(max_examples=40, deadline=None)
def test_adaraker_is_its_literal_twin(T, d, eta, seed):
    X, y = problems.streams(1, T, d, seed)
    V = kernels.gaussian(d, D=3, sigma2=[0.2, 1.0, 3.0], seed=seed)
    found = problems.taught(AdaRaker(V, eta), X[0], y[0])
    np.testing.assert_allclose(found, naive.adaraker(X[0], y[0], V, eta), atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_adaraker_follows_a_change_that_omkl_is_slow_to_follow(seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(2000, 2))
    y = 0.5 + 0.4 * np.sin(4 * X[:, 0]) * np.where(np.arange(2000) < 1000, 1, -1)
    V = kernels.gaussian(2, D=20, seed=seed)
    adaptive = np.mean((problems.taught(AdaRaker(V), X, y) - y)[1000:] ** 2)
    assert adaptive < 0.8 * np.mean((domkl.omkl(X, y, kernels=V).y_hat - y)[1000:] ** 2)


def test_forecasts_are_compared_lead_by_lead(tmp_path, capsys):
    """The others learn each label when its hour has come, and no sooner."""
    rng, t = np.random.default_rng(0), np.arange(120)
    y = 10 + 5 * np.sin(2 * np.pi * t / 24) + rng.standard_normal(120)
    days = [f"2024-05-{1 + k // 24:02} {k % 24:02}:00" for k in t]
    lines = [f"{when},{value:.4f}" for when, value in zip(days, y, strict=True)]
    (tmp_path / "s.csv").write_text("\n".join(["time,load", *lines]))
    argv = ["compare", "--data", str(tmp_path / "s.csv"), "--target", "load", "--horizon", "1h,6h"]
    found, _ = document(capsys, *argv, "--out", str(tmp_path / "t.csv"))
    rows = {row["name"]: row for row in found["rows"]}
    assert found["leads"] == ["1h", "6h"]
    assert {"domkl, auto", "last value", "mean of the hour", "VAW on the same features"} <= set(rows)
    assert not [row["reason"] for row in rows.values() if row["reason"]]
    run = domkl.simulate(
        np.empty((1, 120, 0)),
        np.round(y, 4)[None],
        [[0]],
        horizon="1h,6h",
        times=3600.0 * t,
        model=domkl.Auto(),
    )
    last = [np.sqrt(np.mean((np.diff(y) if h == 1 else y[h:] - y[:-h]) ** 2)) for h in (1, 6)]
    np.testing.assert_allclose(rows["last value"]["rmse"], last, rtol=1e-3)
    assert rows["domkl, auto"]["rmse"][0] == pytest.approx(np.sqrt(run.mse[0, 0]), rel=0.2)
    assert min(rows["River KNNRegressor"]["rmse"]) < last[1]
    assert (tmp_path / "t.csv").read_text().startswith('learner,sees,1h,6h,"CPU time, µs"')
    columns = Columns(target="load")
    one, six = ahead.leads(ahead.series_of(tmp_path / "s.csv", columns, horizon("1h,6h")), horizon("1h,6h"))
    assert one.told[:-1, 0].tolist() == list(range(1, 120))
    assert six.told[:-6, 0].tolist() == list(range(6, 120))
    assert np.isnan(six.y[-6:]).all()


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--horizon", "soon"], "horizon is 'soon'"),
        (["--horizon", "1h", "--learners", "2"], "--learners is given with --horizon"),
        (["--horizon", "1h", "--trials", "2"], "--trials is given with --horizon"),
        (["--future", "a"], "--future is of forecasts"),
        (["--horizon", "1h", "--target", "y"], "--target is for a file"),
        (["paper-fitted", "--horizon", "1h"], "the data are weather"),
    ],
)
def test_what_a_comparison_of_forecasts_cannot_do_is_refused(argv, words, capsys):
    assert cli.main(["compare", *argv]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert len(err.splitlines()) == 1
