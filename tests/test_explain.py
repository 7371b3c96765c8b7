"""Which inputs matter: exact sums, the model's own function, Friedman's inputs, groups."""

from __future__ import annotations

import json

import numpy as np
import pytest

import domkl
from domkl import cli, explain
from domkl.base.errors import InputError
from domkl.datasets.columns import Columns
from domkl.faces import models
from domkl.faces.saved import About
from domkl.learner import handed

MODELS = [domkl.Auto(size=120), domkl.Auto(size=120, loss="logistic"), domkl.Paper()]


def taught(settings, n=150, d=4, graph=None):
    rng, model = np.random.default_rng(0), domkl.DOMKL(graph, model=settings)
    shape = (n, d) if graph is None else (n, 3, d)
    for x in rng.uniform(size=shape):
        y = 3 * x[..., 0] + x[..., 1] ** 2
        model.learn(x, np.sign(y - 1.8) if settings.loss == "logistic" else y)
    return model


@pytest.mark.parametrize("settings", MODELS)
def test_contributions_and_base_sum_to_what_the_model_predicts(settings):
    model = taught(settings)
    x = np.array([0.9, 0.2, np.nan if settings.kind == "auto" else 0.4, 0.1])
    found = model.explain(x)
    assert found.y_hat == pytest.approx(model.predict(x), abs=1e-5)
    assert found.base + found.contribution.sum() == pytest.approx(found.y_hat)
    assert np.abs(found.contribution[:2]).max() > 3 * np.abs(found.contribution[2:]).max()
    assert found.rows()[0]["input"] in ("x0", "x1")


def test_every_learner_of_a_network_explains_its_own_function():
    network = taught(domkl.Auto(size=120), n=80, graph="ring")
    x = np.random.default_rng(1).uniform(size=(3, 4))
    found = network.explain(x)
    np.testing.assert_allclose([each.y_hat for each in found], network.predict(x), atol=1e-9)
    assert [each.rows()[0]["input"] for each in network.explain()] == ["x0"] * 3


def test_a_model_after_a_change_is_explained_saved_and_handed_over_as_it_predicts(tmp_path):
    rng, model = np.random.default_rng(0), domkl.DOMKL(model=domkl.Auto(size=120))
    for t, x in enumerate(rng.uniform(size=(400, 3))):
        y = 4 * x[1] + 0.05 * rng.standard_normal()
        model.learn(x, y if t < 150 else 32 + 1.8 * y)
    x = np.array([0.5, 0.9, 0.5])
    expected = model.predict(x)
    assert expected == pytest.approx(32 + 1.8 * 3.6, abs=0.5)
    assert model.explain(x).y_hat == pytest.approx(expected, abs=1e-9)
    model.save(tmp_path / "model.domkl")
    assert domkl.DOMKL.load(tmp_path / "model.domkl").predict(x) == expected
    model.hand_over(tmp_path / "handed.model")
    device = domkl.Learner(handed.read(tmp_path / "handed.model"), [], name="a")
    assert device.predict(x) == pytest.approx(expected, abs=0.2)


@pytest.mark.parametrize("seed", [0, 1])
def test_friedmans_five_inputs_of_ten_are_found_after_500_samples(seed):
    rng, model = np.random.default_rng(seed), domkl.DOMKL(model=domkl.Auto(size=200))
    for x in rng.uniform(size=(500, 10)):
        y = 10 * np.sin(np.pi * x[0] * x[1]) + 20 * (x[2] - 0.5) ** 2 + 10 * x[3] + 5 * x[4]
        model.learn(x, y + rng.standard_normal())
    found = model.explain()
    assert found.effect[:5].min() > 1.3 * found.effect[5:].max()
    assert found.part.sum() == pytest.approx(1)
    assert found.trend[3] > 0.9


def test_a_device_explains_what_it_predicts_now():
    learner, rng = domkl.Learner(domkl.Auto(size=60), [], name="a", inputs=3), np.random.default_rng(0)
    assert learner.explain() is None
    for x in rng.uniform(size=(60, 3)):
        learner.predict(x)
        learner.observe(x, 4 * x[1])
    found = learner.explain(["a", "b", "c"])
    assert found.rows()[0]["input"] == "b"
    assert found.part[1] > 0.9
    assert domkl.Learner(domkl.Paper(rates=domkl.Rates(1, 1, 1)), [], name="a", inputs=3).explain() is None


def test_effects_of_a_known_function_are_those_of_its_definition():
    samples = np.random.default_rng(0).uniform(size=(500, 3))
    found = explain.effects(lambda X: 4 * X[:, 0] - X[:, 1], samples, ["a", "b", "c"], [[0], [1], [2]])
    np.testing.assert_allclose(found.effect, [4 / np.sqrt(6), 1 / np.sqrt(6), 0], rtol=0.1)  # of uniform ones
    np.testing.assert_allclose(found.trend, [1, -1, 0], atol=0.01)
    both = explain.effects(lambda X: 4 * X[:, 0] - X[:, 1], samples, ["ab", "c"], [[0, 1], [2]])
    assert both.part.tolist() == [1, 0]


def test_a_model_that_was_handed_over_tells_nothing_until_it_knows_samples(tmp_path):
    model = taught(domkl.Auto(size=60))
    model.hand_over(tmp_path / "m.model")
    device = domkl.Learner(handed.read(tmp_path / "m.model"), [], name="a")
    assert device.explain() is None
    for x in np.random.default_rng(1).uniform(size=(20, 4)):
        device.predict(x)
        device.observe(x, 3 * x[0] + x[1] ** 2)
    assert device.explain(["a", "b", "c", "d"]).rows()[0]["input"] == "a"


def test_inputs_of_one_column_are_one():
    columns = {
        "features": ["city", "t"],
        "kinds": {"city": "category"},
        "categories": {"city": ["Oslo", "Rome"]},
    }
    about = About(("city=Oslo", "city=Rome", "t"), columns=Columns(**columns))
    assert about.groups(3) == (["city", "t"], [[0, 1], [2]])
    assert About().groups(2) == (["x0", "x1"], [[0], [1]])


def test_what_cannot_be_explained_is_refused():
    with pytest.raises(InputError, match="has learnt no sample"):
        domkl.DOMKL().explain()
    model = taught(domkl.Auto(size=60), n=5)
    with pytest.raises(InputError, match="x has shape"):
        model.explain([1.0])
    with pytest.raises(InputError, match="2 names and 1 groups"):
        models.explain(model._learning, None, ["a", "b"], [[0]])


def test_the_command_explains_a_saved_model(tmp_path, capsys):
    model, data = taught(domkl.Auto(size=60)), tmp_path / "new.csv"
    model.about = About(("a", "b", "c", "d"), "power", "kW")
    model.save(tmp_path / "m.domkl")
    data.write_text("d,c,b,a\n0.1,0.4,0.2,0.9\n0.5,0.5,0.5,0.5\n")
    given = ["explain", str(tmp_path / "m.domkl"), "--data", str(data), "--rows", "1"]
    assert cli.main(given) == 0
    assert "What matters to the prediction of power" in " ".join(capsys.readouterr().out.split())
    assert cli.main([*given, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["inputs"][0]["input"] == "a"
    row = found["rows"][0]
    assert row["base"] + sum(each["contribution"] for each in row["inputs"]) == pytest.approx(row["y_hat"])
    assert row["row"] == 2  # the line of the file
    assert row["y_hat"] == pytest.approx(model.predict([0.9, 0.2, 0.4, 0.1]))
    assert cli.main(["explain", str(data)]) == 2
    assert cli.main([*given, "--learner", "zz"]) == 2
    model.about = About()
    model.save(tmp_path / "m.domkl")
    assert cli.main(given) == 2
    assert "does not say what its inputs are called" in capsys.readouterr().err


def test_river_and_scikit_learn_give_the_same_answers():
    river, sklearn = pytest.importorskip("domkl.river"), pytest.importorskip("domkl.sklearn")
    X = np.random.default_rng(0).uniform(size=(600, 3))
    y = 2 * X[:, 1] + 0.1 * np.random.default_rng(1).standard_normal(600)
    one, other = (
        river.MultiKernelRegressor(domkl.Auto(size=60)),
        sklearn.MultiKernelRegressor(domkl.Auto(size=60)),
    )
    inside = 0
    for n, (x, label) in enumerate(zip(X, y, strict=True)):
        row = dict(zip("abc", x.tolist(), strict=True))
        inside += n >= 200 and label in one.predict_one(row, with_interval=True, coverage=0.8)
        one.learn_one(row, label)
    assert inside / 400 == pytest.approx(0.8, abs=0.06)
    other.fit(X, y)
    names = sorted(one.explain_many(), key=lambda name: -one.explain_many()[name])
    assert names[0] == "b"
    assert other.feature_importances_.argmax() == 1
    assert other.feature_importances_.sum() == pytest.approx(1)
    low, high = other.predict_interval(X[:5], 0.8).T
    np.testing.assert_allclose((low + high) / 2, other.predict(X[:5]))
    assert other.explain(X[:2]).shape == (2, 3)
    with pytest.raises(InputError, match="coverage is 2"):
        other.predict_interval(X[:1], 2)


def test_effects_of_categories_and_times_are_what_swapping_really_does():
    rng, rows = np.random.default_rng(0), []
    for n in range(900):
        store, when = "ABC"[n % 3], np.datetime64("2024-01-01") + np.timedelta64(420 * n, "m")
        y = 20 * (store == "A") + 8 * np.sin(2 * np.pi * 7 * n / 24) + rng.standard_normal()
        rows.append({"store": store, "when": str(when), "hot": float(rng.uniform()), "y": y})
    table = domkl.datasets.read_table(rows, target="y")
    model = domkl.DOMKL(model=domkl.Auto(size=100))
    for x, y in zip(table.X, table.y, strict=True):
        model.learn(x, y)
    model.about = About(table.feature_names, "y", "", table.columns)
    found, predict = model.explain(), model._learning.as_function()[0]
    before, swapped = predict(table.X), []
    for group in model.about.groups(table.X.shape[1])[1]:
        other = table.X.copy()
        other[:, group] = table.X[rng.permutation(900)][:, group]
        swapped.append(np.sqrt(np.mean((predict(other) - before) ** 2)))
    assert found.names == ("store", "when", "hot")
    np.testing.assert_allclose(found.effect[:2], swapped[:2], rtol=0.2)
    assert found.effect[2] < 0.2 * found.effect[1]
