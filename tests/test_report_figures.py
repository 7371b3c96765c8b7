"""Figures of reports: that they draw what was measured, and always the same way."""

from __future__ import annotations

import matplotlib
import numpy as np
import pytest

from domkl.base.words import number
from domkl.exchange.graph import as_graph
from domkl.lab import report
from domkl.lab.report import figures
from domkl.learning.auto import EXPERT_NAMES
from outcomes import OUTCOMES, made, paper


@pytest.fixture(scope="module")
def stations():
    return OUTCOMES["stations"]()


@pytest.fixture(scope="module", params=OUTCOMES)
def outcome(request):
    return OUTCOMES[request.param]()


def legend(drawn):
    return [text.get_text() for text in drawn.axes[0].get_legend().get_texts()]


def test_nothing_is_cut_off_at_the_edges(outcome):
    for name in ("error", "graph", *(["weights"] if len(outcome.run.q_path) else [])):
        with figures.look(name):
            drawn, _, _ = figures.FIGURES[name](outcome)
            drawn.canvas.draw()
            box = drawn.get_tightbbox()
        assert box.x0 >= 0
        assert box.x1 <= figures.WIDTH


def test_figures_are_the_same_every_time_and_leave_matplotlib_as_it_was(stations, tmp_path):
    before = dict(matplotlib.rcParams)
    first = report.write(stations, tmp_path / "a")
    again = report.write(stations, tmp_path / "b")
    assert [p.read_bytes() for p in first] == [p.read_bytes() for p in again]
    assert not list(tmp_path.glob("*/.*"))
    assert dict(matplotlib.rcParams) == before


def test_graph_of_a_hundred_learners_has_no_names():
    drawn, _, _ = figures.draw_graph(made("star", J=100, T=3))
    assert list(drawn.axes[0].texts) == []


def test_learners_stand_apart_in_every_network():
    for graph in ("ring", "path", "star", "complete"):
        for J in (1, 2, 3, 5, 30):
            places = figures.layout(as_graph(graph, J))
            gaps = np.linalg.norm(places[:, None] - places[None], axis=-1)[~np.eye(J, dtype=bool)]
            assert gaps.size == 0 or gaps.min() > 0.02
            assert np.abs(places).max() <= 1 + 1e-9


def test_rolling_error_is_the_error_of_each_window(stations):
    curves = figures.rolling(stations)
    squares = stations.scale * (stations.run.y_hat - stations.split.y) ** 2
    assert curves.rounds[0] == curves.window
    assert curves.rounds[-1] == squares.shape[1]
    for end, errors in zip(curves.rounds.astype(int), curves.errors.T, strict=True):
        np.testing.assert_allclose(errors, np.sqrt(squares[:, end - curves.window : end].mean(1)))


def test_title_of_the_error_compares_the_two_halves(stations):
    squares = stations.scale * (stations.run.y_hat - stations.split.y) ** 2
    first, second = (number(np.sqrt(half.mean())) for half in np.split(squares, 2, axis=1))
    drawn, alt, _ = figures.draw_error(stations)
    assert f"RMSE {first} °F in the first half, {second} °F in the second" in alt
    assert drawn.axes[0].get_title(loc="left").replace("\n", " ") in alt


def test_error_of_the_whole_run_stands_beside_the_others(stations):
    drawn, _, _ = figures.draw_error(stations)
    words = legend(drawn)
    known = {"paper": stations.run.mse, "alone": stations.mse_alone}
    for name, mse in {**known, **stations.baselines}.items():
        assert f"{name} {number(np.sqrt(stations.scale * mse.mean()))}" in words


def test_weights_of_kernels_end_with_those_of_the_run(stations):
    weights = figures.Weights.of(stations)
    np.testing.assert_allclose(weights.shares[-1], stations.run.q.mean(0))
    assert weights.names == [f"σ²={number(s)}" for s in stations.sigma2]
    _, alt, caption = figures.draw_weights(stations)
    p = stations.run.q.mean(0).argmax()
    assert alt.split(". ")[1].startswith(f"Kernel σ²={number(stations.sigma2[p])} ends with")
    assert "All kernels start with the same weight" in caption


def test_weights_of_experts_are_drawn_by_name():
    auto = OUTCOMES["auto"]()
    weights = figures.Weights.of(auto)
    np.testing.assert_allclose(weights.shares[:-1], auto.run.q_path.mean(1))
    assert (weights.rounds[0], weights.rounds[-1]) == (0, auto.run.y_hat.shape[1])
    drawn, alt, caption = figures.draw_weights(auto)
    heaviest = EXPERT_NAMES[auto.run.q_path[-1].mean(0).argmax()]
    assert f"“{heaviest}” ends with" in alt
    shown = {*legend(drawn)} - {"other experts"}
    assert heaviest in shown <= set(EXPERT_NAMES)
    assert all(f"“{name}”: {figures.EXPERTS[name]}" in caption for name in shown)


def test_kernels_without_sigma2_are_numbered():
    assert figures.Weights.of(OUTCOMES["given frequencies"]()).names == ["1", "2"]


def test_figures_of_classes_count_the_wrong_ones():
    classes = made(J=4, model=paper("logistic"))
    wrong = 100 * (1 - report.document(classes)["network"]["accuracy"])
    assert figures.measure(classes).samples.mean() == pytest.approx(wrong)
    drawn, alt, _ = figures.draw_graph(classes)
    assert "%" in alt
    assert drawn.axes[1].get_ylabel() == "wrong classes, %"
