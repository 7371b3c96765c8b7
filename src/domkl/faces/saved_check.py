"""Checks of a saved model's state: shapes and ranges of all of it, before anything is made from it.

Whatever a file claims (parameters, inputs, learners) must be what its arrays have, so that reading takes no
more memory than the file, and whoever wrote it. Each failure is a ValueError with a fact.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..base import checks
from ..base.checks import need
from ..exchange.graph import Graph
from ..learning.conformal import KEPT
from ..learning.settings import MOST_FREQUENCIES, Auto, KernelSpec

#: The largest whole number: counts of rounds and samples.
MOST = 2**53
Shape = tuple[int, ...]


def check_rows(settings: Auto, state: Mapping[str, Any], d: int, graph: Graph) -> None:
    """Raise ValueError unless this is the state of `OnlineRows` with d inputs over that graph.

    Of the learners themselves only sizes: `AutoRows.restore` checks every field.
    """
    rows = state["rows"]
    need(type(state["n"]) is int and 0 <= state["n"] <= MOST, f"n is {checks.short(state['n'])}")
    settings.check_sizes(rows)
    need(rows["inputs"] == d, f"{d} inputs are {checks.short(rows['inputs'])}")
    need(np.array_equal(rows["degree"], graph.deg * (graph.J > 1)), "it is of another network")
    _check_network(state["network"], graph, rows["consensus"]["theta"].shape[-1])
    restarts = state["network"]["duals"]["restarts"]
    need(restarts.shape == (graph.J,), "its links are of another network")


def _check_inputs(name: str, array: Any, shape: Shape) -> None:
    """Inputs may be missing."""
    need(isinstance(array, np.ndarray) and array.shape == shape, f"{name} is not of shape {shape}")
    checks.finite_or_missing(name, array)


def _check_network(state: Mapping[str, Any], graph: Graph, K: int) -> None:
    E, duals = int(graph.deg.sum()), state["duals"]
    for name in ("number", "theirs", "moved", "before"):
        checks.array(name, duals["ends"][name], (E,))
        need(duals["ends"][name].dtype == np.int64, f"{name} is no count")
    for name in ("dual", "settled"):
        is_blank = duals[name].shape == (E, 0, 0)
        checks.array(name, duals[name], (E, 0, 0) if is_blank else (E, 1, K))
    need(duals["hoping"].shape == (E,) and duals["hoping"].dtype == bool, "hoping is no truth value")
    checks.array("used", state["used"], (graph.J, graph.J))
    checks.array("restarts", duals["restarts"], (graph.J,))
    for name, value in (("round", duals["round"]), ("judged", state["judged"])):
        need(type(value) is int and 0 <= value <= MOST, f"{name} is {checks.short(value)}")
    for name in ("sent", "bytes"):
        need(0 <= float(state[name]) <= checks.LARGEST, f"{name} is {checks.short(state[name])}")


def check_paper(spec: KernelSpec, state: Mapping[str, Any], d: int, most: int) -> None:
    """Raise ValueError unless this is the state of `SinglePaper` with d inputs; `most` samples may wait."""
    P, D, n = len(spec.sigma2), spec.D, state["waiting"]
    need(P * D * d <= MOST_FREQUENCIES, f"it has {P * D * d} frequencies")
    groups: list[tuple[Mapping[str, Any], dict[str, Shape]]] = [
        (state["inputs"], dict.fromkeys(("n", "mean", "squares"), (d,))),
        (state["labels"], dict.fromkeys(("n", "mean", "squares"), (1,))),
        (state["device"], {"theta": (P, 2 * D), "lam": (P, 2 * D), "L": (P,), "q": (P,)}),
        (state, {"ys": (n,)}),
    ]
    for group, shapes in groups:
        for name, shape in shapes.items():
            checks.array(name, group[name], shape)
    _check_inputs("rows", state["rows"], (n, d))
    for name in ("learnt", "waiting", "due"):
        need(type(state[name]) is int and 0 <= state[name] <= MOST, f"{name} is {checks.short(state[name])}")
    need(n < state["due"] <= most, f"{n} samples wait")
    scale = float(state["y_mean"]), float(state["y_scale"])
    need(abs(scale[0]) <= checks.LARGEST and 0 < scale[1] <= checks.LARGEST, "its labels have no scale")


def check_errors(state: Mapping[str, Any], J: int) -> None:
    """Raise ValueError unless these are the last errors of J learners."""
    checks.array("misses", state["misses"], (J, KEPT))
    need(bool((state["misses"] >= 0).all()), "an absolute error is below 0")
    need(type(state["n"]) is int and 0 <= state["n"] <= MOST, f"n is {checks.short(state['n'])}")
