"""Neighbours that lie: what honest learners lose, with no defence, with published ones and with ours.

    python benchmarks/liars.py                          what is not kept yet, ten seeds
    python benchmarks/liars.py --jobs 2                 on two cores
    python benchmarks/liars.py --only "ring made"       only the cases whose names contain this
    python benchmarks/liars.py --column Krum            only one defence
    python benchmarks/liars.py --only newton            the paper's learner on devices; or "first order"
    python benchmarks/liars.py --seeds 2                fewer seeds

One liar of five on a ring and on a complete graph, two of ten on a random 4-regular graph, and with trust
four of twenty on a complete graph ("twenty", three seeds). 1000 rounds, attacks in rounds 300 to 700
(attacks.py). Streams: a smooth function that all share with a quarter of its own for each (`made`),
Conductivity dealt out (DOMKL_DATA names the directory), and a `sum` of functions of one input, where the
memories predict best: there a liar lies in the memories' terms alone. 200 parameters, float32.

Kept are mean squared errors of the honest learners as a multiple of those in the same network where nobody
lies: "during" the attack, "after" it (from 200 rounds after its end), and "alone", during the attack, as a
multiple of the same learners without links. "plain" is consensus with every message as it is, the screens are
in screens.py and know how many may lie; "trust" is the learner as it is now. "worst" is "during" of one
learner. Screens and "plain" are measured on the made streams. In 300 rounds a network has
settled; "early" attacks begin with the first round and end with the 128th.
"""

from __future__ import annotations

import argparse
import functools
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import together
from attacks import (
    ATTACKS,
    EARLY,
    PARAMETERS,
    RECOVERY,
    START,
    STATISTICS,
    STOP,
    TERMS,
    Lies,
    Sent,
    Streams,
    admitted,
    rounds_of,
)
from screens import SCREENS, exchange_of

import domkl
from domkl import datasets, engines
from domkl.learning.auto import AutoRows

RESULTS = Path(__file__).parent / "results" / "liars.json"
ROUNDS, SIZE, SEEDS = 1000, 200, 10
DEFENCES = ("trust", "plain", *SCREENS)
PAPER = {"kernels": domkl.KernelSpec(D=20, sigma2=(0.1, 0.3, 1.0))}
PAPERS = {
    "first order": domkl.Paper(**PAPER, rates=domkl.Rates(rho=0.3, eta=0.3, eta_g=0.3)),
    "newton": domkl.Paper(**PAPER, rates=domkl.Rates(rho=0.1, eta=0.01, eta_g=0.3), step="newton"),
}
#: The largest parameter that devices with the paper's learner accept in float64.
MOST = 1e100


class Net(NamedTuple):
    """Who knows whom, and who lies."""

    graph: Callable[[int], nx.Graph]  # by seed
    liars: tuple[int, ...]
    J: int


NETS = {
    "ring": Net(lambda seed: nx.cycle_graph(5), (0,), 5),
    "complete": Net(lambda seed: nx.complete_graph(5), (0,), 5),
    "4-regular": Net(lambda seed: nx.random_regular_graph(4, 10, seed=seed), (0, 1), 10),
    "twenty": Net(lambda seed: nx.complete_graph(20), (0, 1, 2, 3), 20),
}
#: Seeds of networks whose runs take long, which are measured with trust alone.
FEW = {"twenty": 3}


def made(J: int, seed: int) -> Streams:
    case = together.made(0.25, seed, J=J, T=ROUNDS)
    return Streams(case.X, case.y)


def conductivity(J: int, seed: int) -> Streams:
    part = datasets.load("conductivity", x_scale="none", y_scale="minmax").split(J, "random", seed)
    return Streams(part.X[:, :ROUNDS], part.y[:, :ROUNDS])


def summed(J: int, seed: int) -> Streams:
    rng = np.random.default_rng([15, seed])
    X = rng.uniform(size=(J, ROUNDS, 6))
    y = np.sin(5 * X[..., 0]) + 3 * (X[..., 1] - 0.5) ** 2 + X[..., 2] - X[..., 3] / 2
    return Streams(X, y + 0.1 * rng.standard_normal(y.shape))


STREAMS = {"made": made, "conductivity": conductivity, "sum": summed}


class Case(NamedTuple):
    """A network, its streams and an attack."""

    net: str
    stream: str
    attack: str
    seed: int
    model: str = "auto"

    def __str__(self) -> str:
        name = f"{self.net} {self.stream} {self.attack} seed {self.seed}"
        return name if self.model == "auto" else f"{self.model}: {name}"


@functools.lru_cache(4)
def streams_of(net: str, stream: str, seed: int) -> Streams:
    return STREAMS[stream](NETS[net].J, seed)


def squares(case: Case, defence: str) -> np.ndarray:
    """Squared errors of the honest learners. (J - liars, T)"""
    liars, graph = NETS[case.net].liars, NETS[case.net].graph(case.seed)
    streams = streams_of(case.net, case.stream, case.seed).attacked(case.attack, liars)
    exchange = exchange_of(defence, len(liars))
    if case.model in PAPERS:
        y_hat = fed(case, streams, exchange)
    else:
        network = Lies(domkl.graph.as_graph(graph), exchange, liars, case.attack)
        y_hat = simulated(network, streams, judges=defence == "trust")
    return np.delete((y_hat - streams.y) ** 2, list(liars), 0)


def simulated(network: Lies, streams: Streams, judges: bool) -> np.ndarray:
    """What the learners of a network predict. (J, T)"""
    J, T, d = streams.X.shape
    weight, how = (
        network.neighbours.weight,
        {"dtype": np.float32, "diagonal": engines.make_inverse("auto", 1)},
    )
    rows = AutoRows(domkl.Auto(size=SIZE), J, d, weight, J, network.diameter, **how)
    rows.judges = rows.judges if judges else ()
    y_hat = np.zeros((J, T))
    for t in range(T):
        prediction = rows.predict(streams.X[:, t])
        y_hat[:, t] = prediction.y_hat
        outgoing = rows.learn(prediction, streams.labels[:, t])
        rows.merge(network.exchange_round(rows, outgoing))
    return y_hat


def fed(case: Case, streams: Streams, exchange: domkl.Exchange) -> np.ndarray:
    """What devices with the paper's learner predict. (J, T)"""
    graph, d = NETS[case.net].graph(case.seed), streams.X.shape[-1]
    about = {"inputs": d, "exchange": exchange}
    members = [domkl.Learner(PAPERS[case.model], sorted(graph[j]), name=j, **about) for j in sorted(graph)]
    y_hat, lie = np.zeros_like(streams.y), PaperLie(case)
    for t in range(ROUNDS):
        updates = [one.observe(streams.X[j, t], streams.labels[j, t]) for j, one in enumerate(members)]
        y_hat[:, t] = [one.step.y_hat for one in members]
        updates = lie(updates, t)
        for j, one in enumerate(members):
            for i in sorted(graph[j]):
                one.receive(i, updates[i])
    return y_hat


class PaperLie:
    """The updates of a round with the liars' parameters changed."""

    def __init__(self, case: Case) -> None:
        self.liars, self.attack = NETS[case.net].liars, PARAMETERS.get(case.attack)
        self.rng, self.kept = np.random.default_rng(14), {}

    def __call__(self, updates: list[domkl.Update], t: int) -> list[domkl.Update]:
        if self.attack is None or not START <= t < STOP:
            return updates
        every = np.stack([update.theta for update in updates])
        sent = admitted(self.attack(Sent(every, self.liars, t - START, self.rng, self.kept)), MOST)
        return [
            update._replace(theta=sent[self.liars.index(j)]) if j in self.liars else update
            for j, update in enumerate(updates)
        ]


@functools.lru_cache(4)
def reference(net: str, stream: str, seed: int, model: str, defence: str) -> np.ndarray:
    """Squared errors where nobody lies."""
    return squares(Case(net, stream, "none", seed, model), defence)


@functools.lru_cache(4)
def alone(net: str, stream: str, seed: int, model: str) -> np.ndarray:
    """Squared errors of the honest learners without links."""
    streams, one = streams_of(net, stream, seed), nx.empty_graph(1)
    settings = PAPERS.get(model, domkl.Auto(size=SIZE))
    how = {"model": settings, "dtype": np.float32, "threads": 1}
    honest = np.delete(np.arange(NETS[net].J), NETS[net].liars)
    y_hat = [domkl.simulate(streams.X[[j]], streams.y[[j]], one, **how).y_hat[0] for j in honest]
    return (np.array(y_hat) - streams.y[honest]) ** 2


def measured(case: Case, defence: str) -> dict[str, float | None]:
    where = case.net, case.stream, case.seed, case.model
    found, (start, stop) = squares(case, defence), rounds_of(case.attack)
    during, after = slice(start, stop), slice(stop + RECOVERY, ROUNDS)
    # All defences are compared with the same honest network: "none" shows what a defence costs.
    clean, lonely = reference(*where, "trust" if defence == "trust" else "plain"), alone(*where)
    ratios = {
        "during": found[:, during].mean() / clean[:, during].mean(),
        "alone": found[:, during].mean() / lonely[:, during].mean(),
        "worst": (found[:, during].mean(1) / clean[:, during].mean(1)).max(),
    }
    if found.shape[1] > after.start:  # of Conductivity there are not enough rounds for twenty
        ratios["after"] = found[:, after].mean() / clean[:, after].mean()
    return {name: rounded(value) for name, value in ratios.items()}


def rounded(value: float) -> float | None:
    """Four digits; None where predictions have overflowed."""
    return float(f"{value:.4g}") if np.isfinite(value) else None


def cases(seeds: int) -> Iterator[Case]:
    """Every case, the first seed first."""
    for seed in range(seeds):
        for net in (net for net in NETS if seed < FEW.get(net, seeds)):
            for stream in STREAMS:
                for attack in ATTACKS:
                    of_terms = attack == "none" or attack in TERMS
                    if attack == "collusion" and len(NETS[net].liars) == 1:
                        continue
                    if of_terms if stream == "sum" else attack not in TERMS:
                        yield Case(net, stream, attack, seed)
    for model in PAPERS:
        for attack in ATTACKS:
            if attack not in ("collusion", STATISTICS, *TERMS, *EARLY):
                yield Case("ring", "made", attack, 0, model)


def defences_for(case: Case) -> tuple[str, ...]:
    """The paper's learner has no judge; other defences are measured on the made stream."""
    if case.model in PAPERS:
        return DEFENCES[1:]
    return DEFENCES if case.stream == "made" and case.net not in FEW else DEFENCES[:1]


def measured_together(todo: list[tuple[Case, str]]) -> list[tuple[Case, str, dict[str, float | None]]]:
    """Figures of cases with the same streams, whose runs without liars are made once."""
    return [(case, defence, measured(case, defence)) for case, defence in todo]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--again", action="store_true", help="measure what is kept, too")
    parser.add_argument("--only", default="", help="cases whose names contain this")
    parser.add_argument("--column", default="", help="only this defence")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="of the streams")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    args = parser.parse_args()
    kept: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    groups: dict[tuple[str, ...], list[tuple[Case, str]]] = {}
    for case in cases(args.seeds):
        for defence in (args.column,) if args.column else defences_for(case):
            if args.only in str(case) and (args.again or defence not in kept.get(str(case), {})):
                where = case.net, case.stream, str(case.seed), case.model, str(defence == "trust")
                groups.setdefault(where, []).append((case, defence))
    with ProcessPoolExecutor(args.jobs) as pool:
        found = [pool.submit(measured_together, todo) for todo in groups.values()]
        for future in as_completed(found):
            for case, defence, row in future.result():
                kept.setdefault(str(case), {})[defence] = row
                print(case, defence, row, flush=True)
            RESULTS.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
