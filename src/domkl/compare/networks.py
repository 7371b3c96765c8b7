"""Networks of domkl: each learner sees its own stream and sends estimates to its neighbours."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from .. import kernels
from .._types import Array
from ..core import Rates
from ..graph import Graph
from ..simulator import simulate
from ..trial import Source
from .lone import Missing, Run

NAMES = ("domkl, auto", "domkl, newton", "domkl, paper")


def contenders(graph: Graph, seed: int) -> dict[str, Run]:
    """Every way in which domkl's networks learn."""
    settings: tuple[dict[str, Any], ...] = ({"preset": "auto", "seed": seed}, {"step": "newton"}, {})
    return {name: _with(graph, seed, how) for name, how in zip(NAMES, settings, strict=True)}


def _with(graph: Graph, seed: int, how: dict[str, Any]) -> Run:
    return lambda source: _run(source, graph, seed, how)


def _run(source: Source, graph: Graph, seed: int, how: dict[str, Any]) -> tuple[Array, float]:
    for option in how:
        if option not in inspect.signature(simulate).parameters:
            raise Missing(f"simulate({option}=) is not in this version of domkl")
    split, call = source.split, _simulate()
    if "preset" not in how:
        V = kernels.gaussian(split.X.shape[2], seed=seed)
        how = {**how, "kernels": V, "rates": Rates.paper(split.y.shape[1])}
    run = call(split.X, split.y, graph, delay=split.delay, **how)
    numbers = getattr(run, "sent", float("nan"))
    if numbers != numbers:
        numbers = run.theta[0].size + run.L[0].size
    return run.y_hat, 8.0 * numbers * float(graph.deg.mean())


def _simulate() -> Callable[..., Any]:
    """`simulate`, whose newer options are asked for by name."""
    return simulate
