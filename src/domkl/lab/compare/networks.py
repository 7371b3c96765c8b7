"""Networks of domkl: each learner sees its own stream and sends estimates to its neighbours."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from typing import Any

from ...exchange.graph import Graph
from ...learning import kernels
from ...learning.first_order import Rates
from ...simulator import simulate
from ..trial import Source
from .lone import Missing, Result, Run

#: The second-order step keeps the past itself, so eta is a small ridge and needs no horizon.
NEWTON = Rates(rho=0.1, eta=0.01, eta_g=0.1)
NAMES = ("domkl, auto", "domkl, newton", "domkl, paper")


def contenders(graph: Graph, seed: int) -> dict[str, Run]:
    """Every way in which domkl's networks learn."""
    settings: tuple[dict[str, Any], ...] = ({"preset": "auto", "seed": seed}, {"step": "newton"}, {})
    return {name: _with(graph, seed, how) for name, how in zip(NAMES, settings, strict=True)}


def _with(graph: Graph, seed: int, how: dict[str, Any]) -> Run:
    return lambda source: _run(source, graph, seed, how)


def _run(source: Source, graph: Graph, seed: int, how: dict[str, Any]) -> Result:
    for option in how:
        if option not in inspect.signature(simulate).parameters:
            raise Missing(f"simulate({option}=) is not in this version of domkl")
    split, call = source.split, _simulate()
    if "preset" not in how:
        V = kernels.gaussian(split.X.shape[2], seed=seed)
        rates = NEWTON if "step" in how else Rates.paper(split.y.shape[1])
        how = {**how, "kernels": V, "rates": rates}
    start = time.process_time()
    run = call(split.X, split.y, graph, delay=split.delay, **how)
    seconds = time.process_time() - start
    numbers = getattr(run, "sent", float("nan"))
    if numbers != numbers:
        numbers = run.theta[0].size + run.L[0].size
    return Result(run.y_hat, 8.0 * numbers * float(graph.deg.mean()), seconds)


def _simulate() -> Callable[..., Any]:
    """`simulate`, whose newer options are asked for by name."""
    return simulate
