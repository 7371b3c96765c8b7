"""Checks of a saved model's state: shapes and ranges of all of it, before anything is made from it.

Whatever a file claims (parameters, inputs, learners) must be what its arrays have, so that reading takes no
more memory than the file, and whoever wrote it. Each failure is a ValueError with a fact.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..base import checks
from ..exchange.graph import Graph
from ..learner.handed_check import (
    ANY,
    MOST,
    Shape,
    check_array,
    check_counts,
    check_labels,
    check_ridge,
    check_scale,
    check_sizes,
    expected,
    is_number,
    need,
    numbers,
)
from ..learning.auto import C
from ..learning.conformal import KEPT
from ..learning.settings import MOST_FREQUENCIES, Auto, KernelSpec

#: Parts that a model may do without.
OPTIONAL = ("gate", "own", "own_memory")


def check_rows(settings: Auto, state: Mapping[str, Any], d: int, graph: Graph) -> None:
    """Raise ValueError unless this is the state of `OnlineRows` with d inputs over that graph."""
    rows, J = state["rows"], graph.J
    first, now = (settings.check_inputs(rows["inputs"][name]) for name in ("first", "now"))
    need(first <= now == d, f"{d} inputs are {now}, which were {first}")
    K = rows["joint"]["state"]["theta"].shape[-1]
    for group, shapes in (*expected(rows, d, K, J, ANY), *_past(rows, J, K)):
        for name, shape in shapes.items():
            check_array(name, group[name], shape)
    for name, value in numbers({name: part for name, part in rows.items() if name not in ("known", "late")}):
        need(is_number(name, value), f"{name} is {checks.short(value)}")
    own = rows["own_memory"]
    need(
        J > 1 or (own is None and not rows["is_far"].any()), "a learner without neighbours differs from them"
    )
    check_sizes(settings, first, now, K, [*rows["memories"]["all"], *([own["memory"]] if own else [])])
    for scale in (rows["scale"], *([own["scale"]] if own else [])):
        check_scale(scale)
        need(bool((scale["width"] > checks.NARROWEST).all()), "a width is not above 0")
    check_labels(rows)
    check_ridge(rows)
    check_counts(rows)
    _check_samples(rows, d, J)
    _check_statistics(rows, d, J)
    _check_network(state["network"], graph, K)
    restarts = state["network"]["duals"]["restarts"]
    need(np.array_equal(rows["joint"]["restarts"], restarts), "its links have started again at other times")
    warm = rows["warm_up"]
    need(warm["learners"] == J and warm["diameter"] == graph.diameter, "it is of another network")


def refuse_unlike(state: Any, example: Any, name: str = "the state") -> None:
    """Refuse other fields than an example has, and arrays, numbers and texts in each other's places."""
    if isinstance(example, Mapping):
        need(isinstance(state, Mapping) and state.keys() == example.keys(), f"{name} has other fields")
        for key, each in example.items():
            if not (key in OPTIONAL and state[key] is None):
                refuse_unlike(state[key], each, key)
    elif isinstance(example, list):
        need(isinstance(state, list), f"{name} is no list")
        for each in state if name == "all" else ():
            refuse_unlike(each, example[0], name)
    elif example is None or isinstance(example, np.ndarray):
        need(state is None or isinstance(state, np.ndarray), f"{name} is no array")
    else:
        need(isinstance(state, int | float) and not isinstance(state, np.ndarray), f"{name} is no number")


def _past(rows: Mapping[str, Any], J: int, K: int) -> list[tuple[Mapping[str, Any], dict[str, Shape]]]:
    """Labels, and samples by which neighbours are judged."""
    found: list[tuple[Mapping[str, Any], dict[str, Shape]]] = [
        (kept, {"y": (len(kept["x"]), J)}) for kept in _samples(rows) if kept["x"] is not None
    ]
    judge = (rows["joint"]["own"] or {"judge": {"z": None}})["judge"]
    if judge["z"] is not None:
        n = judge["z"].shape[1]
        found.append((judge, {"z": (J, n, C.models, K), "y": (J, n), "misses": (J, n, C.models)}))
    return found


def _samples(rows: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [rows["warm_up"]["samples"], rows["memories"]["recent"]]


def _check_samples(rows: Mapping[str, Any], d: int, J: int) -> None:
    for kept in _samples(rows):
        if kept["x"] is not None:
            _check_inputs("a sample", kept["x"], (len(kept["y"]), J, d))
    for c, values in rows["late"]:
        need(type(c) is int and 0 <= c < d, f"input {checks.short(c)} came late")
        _check_inputs("late", np.asarray(values, np.float64), (len(values),))


def _check_statistics(rows: Mapping[str, Any], d: int, J: int) -> None:
    """Those for scales to come."""
    for t, each, who in rows["known"]:
        N = len(each["n"])
        need(type(t) is int and 0 <= t <= MOST and N <= J, f"statistics are of {N} learners")
        columns = dict.fromkeys(("n", "mean", "sd", "low", "high"), (N, d + 1))
        for name, shape in (columns | {"quantiles": (N, ANY, d + 1)}).items():
            check_array(name, each[name], shape)
        need(who.shape in ((1, N), (J, N)), f"statistics are for {who.shape}")


def _check_inputs(name: str, array: Any, shape: Shape) -> None:
    """Inputs may be missing."""
    need(isinstance(array, np.ndarray) and array.shape == shape, f"{name} is not of shape {shape}")
    checks.finite_or_missing(name, array)


def _check_network(state: Mapping[str, Any], graph: Graph, K: int) -> None:
    E, duals = int(graph.deg.sum()), state["duals"]
    for name in ("number", "theirs", "moved", "before"):
        check_array(name, duals["ends"][name], (E,))
        need(duals["ends"][name].dtype == np.int64, f"{name} is no count")
    for name in ("dual", "settled"):
        is_blank = duals[name].shape == (E, 0, 0)
        check_array(name, duals[name], (E, 0, 0) if is_blank else (E, C.models, K))
    need(duals["hoping"].shape == (E,) and duals["hoping"].dtype == bool, "hoping is no truth value")
    check_array("used", state["used"], (graph.J, graph.J))
    check_array("restarts", duals["restarts"], (graph.J,))
    for name, value in (*((n, duals[n]) for n in ("round", "resets")), ("judged", state["judged"])):
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
            check_array(name, group[name], shape)
    _check_inputs("rows", state["rows"], (n, d))
    for name in ("learnt", "waiting", "due"):
        need(type(state[name]) is int and 0 <= state[name] <= MOST, f"{name} is {checks.short(state[name])}")
    need(n < state["due"] <= most, f"{n} samples wait")
    scale = float(state["y_mean"]), float(state["y_scale"])
    need(abs(scale[0]) <= checks.LARGEST and 0 < scale[1] <= checks.LARGEST, "its labels have no scale")


def check_errors(state: Mapping[str, Any], J: int) -> None:
    """Raise ValueError unless these are the last errors of J learners."""
    check_array("misses", state["misses"], (J, KEPT))
    need(bool((state["misses"] >= 0).all()), "an absolute error is below 0")
    need(type(state["n"]) is int and 0 <= state["n"] <= MOST, f"n is {checks.short(state['n'])}")
