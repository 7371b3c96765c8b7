"""What a run offers to those who look at it, and what they may call things."""

from __future__ import annotations

import io
import sys

import networkx
import numpy as np
import pytest
from matplotlib.figure import Figure as Drawing

import domkl
import problems
from domkl.base.errors import DataError, InputError
from domkl.simulator import progress

AUTO = domkl.Auto(size=16)


def test_a_run_of_thousands_of_rounds_is_drawn_with_few_points():
    X, y = problems.streams(8, 3000, 2)
    V = domkl.kernels.gaussian(2, 3)
    run = domkl.simulate(X, y, "ring", model=domkl.Paper(kernels=V), weights_every=5)
    best = domkl.metrics.hindsight(X, y, V)
    for what, labels in (
        ("error", ["80 % of 8 learners", "all"]),
        ("weights", 7),
        ("regret", ["learning regret", "discrepancy regret"]),
    ):
        axes = run.plot(what, y, best=best, axes=Drawing().subplots())
        found = [text.get_text() for text in axes.get_legend().get_texts()]
        assert found == labels or len(found) == labels, what
        assert all(len(line.get_xdata()) <= 600 for line in axes.lines)
    assert len(run.plot("error", y, learner=3, axes=Drawing().subplots()).lines) == 1
    plain = domkl.simulate(X[:, :9], y[:, :9], "ring", model=AUTO)
    for call, message in (
        (lambda: run.plot("error"), "y is not given"),
        (lambda: run.plot("regret", y), "best is not given"),
        (lambda: run.plot("loss"), "plot is 'loss'; expected one of predictions, error, weights, regret"),
        (lambda: plain.plot("weights"), "kept no weights; expected simulate"),
    ):
        with pytest.raises(InputError, match=message):
            call()


def test_regret_over_time_ends_where_the_whole_regret_is():
    X, y = problems.streams(3, 90, 2)
    V = domkl.kernels.gaussian(2, 3)
    best = domkl.metrics.hindsight(X, y, V)
    for model in (domkl.Paper(kernels=V), AUTO):
        run = domkl.simulate(X, y, "path", model=model, weights_every=20)
        found = run.regret(y, best)
        assert found.rounds.tolist() == [20, 40, 60, 80, 90]
        np.testing.assert_allclose(found.learning[:, -1], domkl.metrics.regret_a(run.y_hat, y, best))
        np.testing.assert_allclose(found.discrepancy[:, -1], domkl.metrics.regret_d(run.cv, 90))
        part = domkl.simulate(X[:, :60], y[:, :60], "path", model=model)
        if model is not AUTO:  # whose rates depend on T
            continue
        np.testing.assert_allclose(found.discrepancy[:, 2], domkl.metrics.regret_d(part.cv, 60))
        early = domkl.metrics.Hindsight(best.kernel, best.theta, best.squares[:, :60])
        np.testing.assert_allclose(found.learning[:, 2], domkl.metrics.regret_a(part.y_hat, y[:, :60], early))


def test_a_run_is_saved_and_loaded(tmp_path):
    X, y = problems.streams(3, 40, 2)
    run = domkl.simulate(X, y, [("a", "b"), ("b", "c")], model=AUTO, weights_every=10)
    run.save(tmp_path / "run.npz")
    again = domkl.Run.load(tmp_path / "run.npz")
    assert repr(again) == repr(run)
    assert (again.graph, again.weight_names) == (run.graph, run.weight_names)
    for name, value in vars(run).items():
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(getattr(again, name), value, err_msg=name)
    whole = (tmp_path / "run.npz").read_bytes()
    for number, damaged in enumerate((b"", whole[:500], b"x" * 100, whole[:-90] + b"0" * 90)):
        (tmp_path / f"{number}").write_bytes(damaged)
        with pytest.raises(DataError, match="is no file of"):
            domkl.Run.load(tmp_path / f"{number}")
    with pytest.raises(DataError, match="cannot be read: No such file"):
        domkl.Run.load(tmp_path / "absent.npz")
    with pytest.raises(InputError, match="cannot be written"):
        run.save(tmp_path / "absent" / "run.npz")


def test_a_notebook_shows_a_table_of_the_learners():
    X, y = problems.streams(2, 20, 2)
    page = domkl.simulate(X, y, [("<b>", "c")], model=AUTO)._repr_html_()
    assert page.count("<tr>") == 3
    assert "<td>&lt;b&gt;</td>" in page
    assert "<b>" not in page
    X, y = problems.streams(30, 5, 1)
    assert domkl.simulate(X, y, "ring", model=AUTO)._repr_html_().count("<tr>") == 14


def test_models_have_short_names():
    X, y = problems.streams(2, 20, 2)
    short = domkl.simulate(X, y, "path", model="paper")
    np.testing.assert_array_equal(short.y_hat, domkl.simulate(X, y, "path", model=domkl.Paper()).y_hat)
    assert repr(domkl.DOMKL(model="paper").model) == "Paper()"
    learner = domkl.Learner("auto", name="a", inputs=2)
    assert learner.fingerprint == domkl.Learner(domkl.Auto(), name="a", inputs=2).fingerprint


def test_unscaled_inputs_of_the_papers_learner_are_named():
    X, y = problems.streams(2, 20, 2)
    X[..., 1] = 1000 + 10 * X[..., 1]
    with pytest.warns(UserWarning, match=r"input 1 is up to 1[\d,.]+, and Paper's kernels .* scale them"):
        domkl.simulate(X, y, "path", model=domkl.Paper())


@pytest.mark.parametrize(
    "graph",
    [
        ["ring", "star"],
        np.ones((5, 3, 3)) - np.eye(3),
        [np.ones((3, 3)) - np.eye(3)] * 2,
        [(0, domkl.graph.as_graph("ring", 3)), (10, domkl.graph.as_graph("path", 3))],
        lambda t: "ring",
    ],
    ids=["names", "stack", "matrices", "timed", "function"],
)
def test_graphs_that_change_are_refused_with_the_reason(graph):
    X, y = problems.streams(3, 20, 2)
    with pytest.raises(InputError, match=r"the graph changes over time; .* join\(\) and leave\(\)"):
        domkl.simulate(X, y, graph, model=AUTO)


def test_directed_graphs_are_refused_with_the_reason():
    one_way = np.array([[0, 1], [0, 0]])
    for graph in (one_way, networkx.DiGraph([(0, 1)])):
        with pytest.raises(InputError, match="the two ends of a link must agree on its dual"):
            domkl.graph.as_graph(graph)


def test_the_tab_key_offers_public_names_only():
    for name in ("alarms", "conformal", "datasets", "errors", "explain", "graph", "hedge", "kernels"):
        module = getattr(domkl, name)
        assert dir(module) == sorted(module.__all__)
        assert all(hasattr(module, each) for each in module.__all__)
    assert dir(domkl) == sorted(domkl.__all__)


def test_what_a_frame_needs_is_named_as_it_is_called(monkeypatch):
    X, y = problems.streams(2, 5, 1)
    run = domkl.simulate(X, y, "path", model=AUTO)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"pandas is not installed .* pip install pandas$"):
        run.to_frame()


def test_progress_is_a_bar_in_a_terminal(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    bar = progress.watcher("simulate")
    bar(5, 10)
    bar(10, 10)
    assert sys.stderr.getvalue().count("\r") == 2
    assert sys.stderr.getvalue().endswith("█ 10 of 10 (100 %)\n")
