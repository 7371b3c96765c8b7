"""Networks of domkl: each learner sees its own stream and sends estimates to its neighbours."""

from __future__ import annotations

import time

from ...exchange.graph import Graph
from ...learning.first_order import Rates
from ...learning.settings import Auto, KernelSpec, ModelSettings, Paper
from ...simulator import simulate
from .. import trial
from ..trial import Source
from .contender import Contender, Result

#: The second-order step keeps the past itself, so eta is a small ridge and needs no horizon.
NEWTON = Rates(rho=0.1, eta=0.01, eta_g=0.1)


def contenders(graph: Graph, seed: int) -> list[Contender]:
    """Every model of domkl, on this network."""
    kernels = KernelSpec(seed=seed)
    models: dict[str, ModelSettings] = {
        "domkl, auto": Auto(seed=seed),
        "domkl, newton": Paper(kernels=kernels, rates=NEWTON, step="newton"),
        "domkl, paper": Paper(kernels=kernels),
    }
    return [_contender(name, model, graph) for name, model in models.items()]


def _contender(name: str, model: ModelSettings, graph: Graph) -> Contender:
    return Contender(name, "a part", lambda source: _run(source, graph, model), isinstance(model, Auto))


def _run(source: Source, graph: Graph, model: ModelSettings) -> Result:
    split, start = source.split, time.process_time()
    run = simulate(split.X, split.y, graph, model=model, delay=split.delay)
    seconds = time.process_time() - start
    alone = trial.alone(model, split, run) if graph.J > 1 else None
    return Result(run.y_hat, run.bytes * float(graph.deg.mean()), seconds, alone)
