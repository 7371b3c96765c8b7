"""Learners that lie: what the honest ones lose, with trust, without any defence and with published ones.

    python benchmarks/lies.py                        what is not kept yet, three seeds
    python benchmarks/lies.py --only "ring made"     only cases whose names match this
    python benchmarks/lies.py --defence Krum         plain, or one of screens.py; made streams only
    python benchmarks/lies.py --devices              lies that only a message of a device holds, on devices
    python benchmarks/lies.py --seeds 10 --over 1.1  more seeds of what has a figure above this

One liar of five on a ring and on a complete graph, two of ten on a random 4-regular one, and two around one
honest learner on a ring, whose error alone is counted there. Streams: a smooth function that all share with
a quarter of its own for each (`made`), and Conductivity dealt out (DOMKL_DATA names the directory). 1000
rounds, 200 parameters, float32. Attacks (attacks.py) last from round 300 to 700, early ones from 1 to 128,
lies about summaries and numbers of scales from the first round to 700.

Kept in results/lies.json are mean squared errors of the honest learners over those in the same network where
nobody lies: "first" in rounds 1 to 128, "during" in 300 to 700, "after" from 200 rounds after the attack on,
to 500 where it was early; "alone" and "alone first" over those of the same learners without links; "worst" is
"during", or "first" where the attack was early, of one learner.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import functools
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import attacks
import networkx as nx
import numpy as np
import together
from screens import exchange_of

import domkl
from domkl import datasets
from domkl.base.errors import PeerError
from domkl.engines.native_auto import NativeAuto
from domkl.exchange.graph import as_graph
from domkl.exchange.network import Network
from domkl.learning.auto.scale import Summary

RESULTS = Path(__file__).parent / "results" / "lies.json"
ROUNDS, START, STOP, RECOVERY = 1000, 300, 700, 200
EARLY_STOP, EARLY_LAST = 128, 500
MODEL, MOST = domkl.Auto(size=200), 1e6
Array = np.ndarray[Any, Any]


class Net(NamedTuple):
    """Who knows whom, and who lies."""

    graph: Callable[[int], nx.Graph]  # by seed
    J: int
    liars: tuple[int, ...]
    counted: tuple[int, ...] = ()  # of the honest ones; none for all


NETS = {
    "ring": Net(lambda seed: nx.cycle_graph(5), 5, (0,)),
    "complete": Net(lambda seed: nx.complete_graph(5), 5, (0,)),
    "4-regular": Net(lambda seed: nx.random_regular_graph(4, 10, seed=seed), 10, (0, 1)),
    "around one": Net(lambda seed: nx.cycle_graph(5), 5, (0, 2), (1,)),
}


class Case(NamedTuple):
    """A network, its streams and an attack."""

    net: str
    stream: str
    attack: str
    seed: int
    defence: str = "trust"

    def __str__(self) -> str:
        return f"{self.net} {self.stream} {self.attack} seed {self.seed}"

    @property
    def span(self) -> tuple[int, int]:
        """The first round of the attack, and the one after its last."""
        if self.attack.startswith("early"):
            return 1, EARLY_STOP
        return (0 if self.attack in (*attacks.NEWS, *attacks.NUMBERS) else START), STOP

    @property
    def last(self) -> int:
        """The round after which nothing is measured."""
        return EARLY_LAST if self.attack.startswith("early") else ROUNDS


@functools.lru_cache(2)
def stream(name: str, J: int, seed: int) -> tuple[Array, Array]:
    """Inputs and targets. (J, T, d), (J, T)"""
    if name == "made":
        found = together.made(0.25, seed, J=J, T=ROUNDS)
        return found.X, found.y
    part = datasets.load(name, x_scale="none", y_scale="minmax").split(J, "random", seed)
    return part.X[:, :ROUNDS], part.y[:, :ROUNDS]


class LyingRows(NativeAuto):
    """Learners of which some may pass on other summaries."""

    tell: Callable[[list[Any]], list[Any]] | None = None

    def news(self) -> list[Any]:
        found = super().news()
        return found if self.tell is None else self.tell(found)


class LyingNetwork(Network):
    """A network in which neighbours may receive other things than were sent; liars keep true books."""

    change: Callable[[dict[str, Array]], dict[str, Array]] | None = None

    def delivered(self, own: dict[str, Array]) -> dict[str, Array]:
        return own if self.change is None else self.change(own)


class Simulation:
    """Rounds of a network with the lies of a case, which may be copied between two rounds."""

    def __init__(self, case: Case) -> None:
        self.net, self.t = NETS[case.net], 0
        graph = as_graph(self.net.graph(case.seed))
        X, self.y = stream(case.stream, self.net.J, case.seed)
        self.network = LyingNetwork(graph, exchange_of(case.defence, len(self.net.liars)))
        near = self.network.neighbours
        self.rows = LyingRows(MODEL, X.shape[-1], graph.names, near.weight, near.deg, np.float32)
        if case.defence != "trust":
            self.rows.believes = self.rows.noted  # type: ignore[method-assign]
        self.X, self.labels, self.y_hat = X, self.y, np.zeros_like(self.y)

    def go(self, until: int) -> None:
        """Rounds up to this one."""
        for t in range(self.t, until):
            self.t = t
            prediction = self.rows.predict(self.X[:, t])
            self.y_hat[:, t] = prediction.y_hat[:, 0]
            outgoing = self.rows.learn(prediction, self.labels[:, t, None])
            self.rows.merge(self.network.exchange_round(self.rows, outgoing))
        self.t = until

    def lie(self, case: Case) -> None:
        """Let the case's attack begin now."""
        self.rng, self.kept, self.start = np.random.default_rng(14), {}, self.t
        liars, (_, stop) = list(self.net.liars), case.span
        if case.attack in attacks.SAMPLES:
            self.X, self.labels, when = self.X.copy(), self.y.copy(), slice(self.t, stop)
            for j in liars:
                self.X[j, when], self.labels[j, when] = attacks.SAMPLES[case.attack](
                    self.X[j, when], self.y[j, when], self.rng
                )
        if case.attack in attacks.PARAMETERS | attacks.EARLY:
            self.network.change = functools.partial(self._parameters, case.attack)
        if case.attack in attacks.NUMBERS:
            self.network.change = functools.partial(self._numbers, case.attack)
        if case.attack in attacks.NEWS:
            self.rows.tell = functools.partial(self._news, case.attack)

    def _parameters(self, attack: str, own: dict[str, Array]) -> dict[str, Array]:
        liars, near = self.net.liars, self.network.graph.neighbours
        around = sorted({i for j in liars for i in near[j]} - set(liars))
        about = self.t - self.start, self.rng, self.kept, self.rows, around
        theta = own["theta"].copy()
        false = (attacks.PARAMETERS | attacks.EARLY)[attack](attacks.Sent(theta, liars, *about))
        theta[list(liars)] = np.clip(np.nan_to_num(false), -MOST, MOST)
        return own | {"theta": theta}

    def _numbers(self, attack: str, own: dict[str, Array]) -> dict[str, Array]:
        scale, liars = own["scale"].copy(), list(self.net.liars)
        scale[liars] = attacks.NUMBERS[attack](scale[liars], self.rng)
        return own | {"scale": scale}

    def _news(self, attack: str, news: list[Any]) -> list[Any]:
        names, found = self.network.graph.names, list(news)
        for j in self.net.liars:
            if j not in self.kept:
                self.kept[j] = Summary.of(np.concatenate([self.X[j], self.y[j, :, None]], -1))
            found[j] = attacks.NEWS[attack](attacks.Told(self.t, names[j], news[j], self.kept[j], names))
        return found

    def squares(self) -> Array:
        """Squared errors of the learners that count. (n, T)"""
        return ((self.y_hat - self.y) ** 2)[list(counted(self.net))]


def counted(net: Net) -> tuple[int, ...]:
    return net.counted or tuple(j for j in range(net.J) if j not in net.liars)


@functools.lru_cache(2)
def honest(case: Case) -> tuple[Simulation, Array]:
    """A network where nobody lies: as it is when most attacks begin, and all squared errors."""
    simulation = Simulation(case)
    simulation.go(START)
    begun = copy.deepcopy(simulation)
    simulation.go(ROUNDS)
    return begun, simulation.squares()


def attacked(case: Case) -> Array:
    """Squared errors with an attack. (n, T)"""
    start, stop = case.span
    simulation = Simulation(case) if start < START else copy.deepcopy(honest(case._replace(attack="none"))[0])
    simulation.go(start)
    simulation.lie(case)
    simulation.go(stop)
    simulation.network.change = simulation.rows.tell = None
    simulation.go(case.last)
    return simulation.squares()


@functools.lru_cache(4)
def alone(name: str, J: int, seed: int) -> Array:
    """Squared errors of learners without links. (J, T)"""
    X, y = stream(name, J, seed)
    return (together.run(together.Case(X, y, None), MODEL, with_links=False).y_hat - y) ** 2


def on_devices(case: Case) -> Array:
    """Squared errors of the honest ones, as devices. (n, T)"""
    net = NETS[case.net]
    graph, (X, y), first = net.graph(case.seed), stream(case.stream, net.J, case.seed), {}
    about = {"inputs": X.shape[-1], "dtype": np.float32}
    devices = [domkl.Learner(MODEL, sorted(graph[j]), name=j, **about) for j in range(net.J)]
    y_hat = np.zeros_like(y)
    for t in range(ROUNDS):
        updates = [one.observe(X[j, t], y[j, t]) for j, one in enumerate(devices)]
        y_hat[:, t] = [one.step.y_hat for one in devices]
        for j in net.liars if START <= t < STOP and case.attack != "none" else ():
            first.setdefault(j, updates[j])
            updates[j] = attacks.EDGES[case.attack](updates[j], first[j], t - START)
        for j, one in enumerate(devices):
            for i in sorted(graph[j]):
                with contextlib.suppress(PeerError):  # as an agent does: the message does not count
                    one.receive(i, updates[i])
            if one.waiting:
                one.close()
    return ((y_hat - y) ** 2)[list(counted(net))]


def measured(case: Case) -> dict[str, float]:
    """Errors over those of the network where nobody lies, and over those alone."""
    found = on_devices(case) if case.attack in attacks.EDGES else attacked(case)
    # All defences are compared with trust where nobody lies, so that "none" shows what they cost.
    clean = honest(case._replace(attack="none", defence="trust"))[1]
    net = NETS[case.net]
    lonely = alone(case.stream, net.J, case.seed)[list(counted(net))]
    start, stop = case.span
    first, during, after = slice(1, EARLY_STOP), slice(START, STOP), slice(stop + RECOVERY, case.last)
    over = {"after": (clean, after)}
    over |= {"first": (clean, first), "alone first": (lonely, first)} if start < START else {}
    over |= {"during": (clean, during), "alone": (lonely, during)} if stop == STOP else {}
    ratios = {name: found[:, at].mean() / of[:, at].mean() for name, (of, at) in over.items()}
    when = during if stop == STOP else first
    ratios["worst"] = (found[:, when].mean(1) / clean[:, when].mean(1)).max()
    return {name: float(f"{value:.4g}") if np.isfinite(value) else 1e99 for name, value in ratios.items()}


def cases(seeds: int, defence: str, devices: bool) -> Iterator[Case]:
    """The first seed first; those with the same streams together."""
    for seed in range(seeds):
        for name in ("made", "conductivity") if defence == "trust" else ("made",):
            for net in NETS:
                found = [*attacks.PARAMETERS, *attacks.EARLY]
                if defence == "trust" and net != "around one":
                    found += [*attacks.SAMPLES, *attacks.NEWS, *attacks.NUMBERS]
                for attack in attacks.EDGES if devices else found if defence == "trust" else ["none", *found]:
                    if attack != "collusion" or len(NETS[net].liars) > 1:
                        yield Case(net, name, attack, seed, defence)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--only", default="", help="cases whose names match this")
    options.add_argument("--defence", default="trust")
    options.add_argument("--devices", action="store_true")
    options.add_argument("--again", action="store_true", help="measure what is kept, too")
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--over", type=float, default=0.0)
    args = options.parse_args()
    for case in cases(args.seeds, args.defence, args.devices):
        kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        one = kept.setdefault(case.defence, {})
        seen = [
            max(row.values()) for name, row in one.items() if name.startswith(str(case).rsplit(" ", 1)[0])
        ]
        if (
            re.search(args.only, str(case))
            and (args.again or str(case) not in one)
            and (not seen or max(seen) > args.over)
        ):
            one[str(case)] = measured(case)
            RESULTS.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
            print(case.defence, case, one[str(case)], flush=True)


if __name__ == "__main__":
    main()
