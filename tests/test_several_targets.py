"""`--target a,b`: several targets of one table in one model, at the command line."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest

import domkl
from domkl import cli
from domkl.faces.saved import About


@pytest.fixture
def path(tmp_path):
    """Two learners that see u and v; load and heat are made of them, on unlike scales."""
    rng = np.random.default_rng(0)
    rows = []
    for n, (u, v) in enumerate(rng.uniform(size=(240, 2))):
        load, heat = 100 * u + rng.standard_normal(), v + 0.01 * rng.standard_normal()
        rows.append(f"{'ab'[n % 2]},{u:.5f},{v:.5f},{load:.4f},{heat:.5f}")
    (tmp_path / "t.csv").write_text("\n".join(["site,u,v,load,heat", *rows]) + "\n")
    return tmp_path / "t.csv"


def run(path, *argv):
    given = ["--data", str(path), "--target", "load,heat", "--learner-column", "site", "--size", "60"]
    return cli.main(["run", *given, *argv])


def table(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_one_model_learns_both_and_each_is_told_in_its_own_unit(path, tmp_path, capsys):
    out = tmp_path / "r"
    assert run(path, "--out", str(out), "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["target"] for one in found["targets"]] == ["load", "heat"]
    rows = table((out / "predictions.csv").read_text())
    assert list(rows[0]) == [
        *("learner", "index", "load", "load_hat", "load_low", "load_high"),
        *("heat", "heat_hat", "heat_low", "heat_high"),
    ]
    split = domkl.datasets.read_table(path, target="load", also=["heat"], learner="site").by_learner()
    both = domkl.simulate(split.X, split.y, "complete", model=domkl.Auto(size=60), dtype=np.float32)
    for k, one in enumerate(found["targets"]):
        assert [each["mse"] for each in one["learners"]] == pytest.approx(both.mse[:, k].tolist())
        assert one["network"]["rmse"] < 0.7 * split.y[..., k].std()
        inside = [float(row[f"{one['target']}_low"] or "-inf") for row in rows[100:]]
        labels = np.array([float(row[one["target"]]) for row in rows[100:]])
        assert np.mean(labels > inside) > 0.85
    pages = [(out / name).read_text() for name in ("index.html", "index-2.html")]
    assert all(f"predicting {name}" in page for name, page in zip(("load", "heat"), pages, strict=True))
    assert run(path, "--no-report") == 0
    assert all(f"predicting {name}" in capsys.readouterr().out for name in ("load",))


def test_the_model_predicts_and_explains_both_for_new_rows(path, tmp_path, capsys):
    assert run(path, "--out", str(tmp_path / "r"), "--json") == 0
    capsys.readouterr()
    (tmp_path / "new.csv").write_text("site,u,v\na,0.9,0.1\nb,0.2,0.8\n")
    model = str(tmp_path / "r" / "model.domkl")
    assert cli.main(["predict", model, "--data", str(tmp_path / "new.csv")]) == 0
    rows = table(capsys.readouterr().out)
    for row, load, heat in zip(rows, (90, 20), (0.1, 0.8), strict=True):
        assert float(row["load_low"]) < float(row["load_hat"]) < float(row["load_high"])
        assert float(row["load_hat"]) == pytest.approx(load, abs=15)
        assert float(row["heat_hat"]) == pytest.approx(heat, abs=0.15)
        assert row["load"] == row["heat"] == ""
    assert cli.main(["predict", model, "--data", str(path), "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["rmse"]) == {"load", "heat"}
    for target, cause in (("load", "u"), ("heat", "v")):
        assert cli.main(["explain", model, "--target", target, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["target"], found["inputs"][0]["input"]) == (target, cause)


def test_inspect_and_compare_know_them(path, capsys):
    given = ["--data", str(path), "--target", "load,heat", "--learner-column", "site"]
    assert cli.main(["inspect", str(path), *given[2:], "--json"]) == 0
    roles = {each["name"]: each["role"] for each in json.loads(capsys.readouterr().out)["columns"]}
    assert [name for name, role in roles.items() if role == "target"] == ["load", "heat"]
    assert cli.main(["compare", *given, "--rounds", "40", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["target"] for one in found["targets"]] == ["load", "heat"]
    for one in found["targets"]:
        rows = {row["name"]: row for row in one["rows"]}
        assert not [row["reason"] for row in rows.values() if row["reason"]]
        assert rows["domkl, auto"]["rmse_alone"] > 0
    assert found["targets"][0]["rows"][0]["rmse"] > 10 * found["targets"][1]["rows"][0]["rmse"]


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--model", "paper"], "the model is paper"),
        (["--live"], "--live is for one target"),
        (["--alarm-rate", "0.01"], "--alarm-rate is for one target"),
        (["--horizon", "1 rows"], "--target names 2 columns and a horizon is given"),
        (["--loss", "logistic"], "several targets, which are numbers"),
        (["--target", "load,load"], "expected names of their own"),
        (["--target", "load,load_hat"], "two columns of predictions are called 'load_hat'"),
        (["--target", "load,row"], "two columns of predictions are called 'row'"),
        (["--target", "load,none"], "no column 'none'"),
        (["--target", "load,site", "--drop", "heat"], "target 'site' is also dropped, a time or the learner"),
    ],
)
def test_what_several_targets_cannot_do_is_refused(path, argv, words, capsys):
    drop = [] if "paper" not in argv else ["--D", "8"]
    given = ["--data", str(path), "--target", "load,heat", "--learner-column", "site"]
    assert cli.main(["run", *given, *argv, *drop]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert len([line for line in err.splitlines() if line.startswith("domkl: ")]) == 1


def test_devices_of_one_machine_learn_one_target(path, capsys):
    given = ["--data", str(path), "--target", "load,heat", "--learner-column", "site"]
    assert cli.main(["up", *given]) == 2
    assert "--target names load, heat; expected one column" in capsys.readouterr().err


def test_a_model_made_in_python_predicts_a_file_without_its_targets(tmp_path, capsys):
    model, rng = domkl.DOMKL(model=domkl.Auto(size=40)), np.random.default_rng(0)
    for x in rng.uniform(size=(80, 2)):
        model.learn(x, [x[0], 10 * x[1]])
    model.about = About(("u", "v"))
    model.save(tmp_path / "m.domkl")
    (tmp_path / "new.csv").write_text("u,v\n0.5,0.5\n")
    assert cli.main(["predict", str(tmp_path / "m.domkl"), "--data", str(tmp_path / "new.csv")]) == 0
    (row,) = table(capsys.readouterr().out)
    assert float(row["y1_hat"]) == pytest.approx(0.5, abs=0.2)
    assert float(row["y2_hat"]) == pytest.approx(5, abs=2)


def test_labels_known_later_are_learnt_then(path, capsys):
    rows = path.read_text().splitlines()
    days = [f"2024-05-{1 + t // 24:02} {t % 24:02}:00" for t in range(243)]
    late = [f"{row},{days[t]},{days[t + 3]}" for t, row in enumerate(rows[1:])]
    path.write_text("\n".join([f"{rows[0]},when,told", *late]))
    common = ("--time", "when", "--known", "told", "--features", "u,v", "--no-report", "--json")
    given = ["run", "--data", str(path), "--target", "load,heat", "--size", "40", *common]
    assert cli.main(given) == 0
    found = json.loads(capsys.readouterr().out)["targets"]
    assert [one["rounds"] for one in found] == [240, 240]
    assert found[1]["network"]["rmse"] < 0.25


def test_an_agents_file_names_one_target(tmp_path, capsys):
    columns = 'columns = {target = "load", also = ["heat"]}\n'
    (tmp_path / "a.toml").write_text(f'name = "a"\nstream = {{kind = "stdin"}}\n{columns}')
    assert cli.main(["agent", str(tmp_path / "a.toml"), "--check"]) == 2
    assert "[columns] also has names; expected one target" in capsys.readouterr().err
