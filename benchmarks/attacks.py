"""Learners that lie: what they send, learn or report instead of the truth, as short functions.

Each attack on parameters gets `Sent`, what everybody would send in a round, and returns what the liars send.
It is used on theta and on the terms of a memory alike, and clipped to what the protocol admits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

import domkl
from domkl.exchange.graph import Graph
from domkl.exchange.network import Network
from domkl.learning.auto.features import Stats

#: Rounds of an attack, and how many rounds later a network is to have recovered.
START, STOP, RECOVERY = 300, 700, 200
#: Rounds of an early one: until learners compare their neighbours with most of them.
EARLY_START, EARLY_STOP = 1, 128


class Sent(NamedTuple):
    """One part of a round's messages, as everybody would send it."""

    every: np.ndarray  # (J, P, K)
    liars: Sequence[int]
    age: int  # rounds since the attack began
    rng: np.random.Generator
    kept: dict[str, Any]  # what the attack keeps from round to round

    @property
    def true(self) -> np.ndarray:
        """What the liars would send. (n, P, K)"""
        return self.every[list(self.liars)]

    @property
    def honest(self) -> np.ndarray:
        """Mean of the honest learners' parameters. (P, K)"""
        return np.delete(self.every, list(self.liars), 0).mean(0)

    @property
    def rms(self) -> float:
        """Size of an honest parameter."""
        return float(np.sqrt((self.honest**2).mean()))

    def noise(self, shape: tuple[int, ...] | None = None) -> np.ndarray:
        """Normal noise of the size of honest parameters."""
        return self.rms * self.rng.normal(size=self.true.shape if shape is None else shape)


def huge(sent: Sent) -> np.ndarray:
    return np.full_like(sent.true, 1e6)


def flipped(sent: Sent) -> np.ndarray:
    return -sent.true


def constant(sent: Sent) -> np.ndarray:
    return np.ones_like(sent.true)


def drift(sent: Sent) -> np.ndarray:
    """A random walk, after 400 rounds as far away as the parameters are large."""
    sent.kept["walk"] = sent.kept.get("walk", 0) + 0.05 * sent.noise()
    return sent.true + sent.kept["walk"]


def noise(sent: Sent) -> np.ndarray:
    return sent.true + 3 * sent.noise()


def scaling(sent: Sent) -> np.ndarray:
    """Half a per cent more in each round."""
    return sent.true * 1.005**sent.age


def alternating(sent: Sent) -> np.ndarray:
    """Honest for ten rounds, lying for ten."""
    return -sent.true if sent.age // 10 % 2 == 0 else sent.true


def biased(sent: Sent) -> np.ndarray:
    """The mean of the honest learners, plus a bias."""
    if "bias" not in sent.kept:
        sent.kept["bias"] = 0.3 * sent.noise(sent.honest.shape)
    return np.broadcast_to(sent.honest + sent.kept["bias"], sent.true.shape)


def colluding(sent: Sent) -> np.ndarray:
    """All liars send the same parameters, of another function of the same size."""
    if "wrong" not in sent.kept:
        sent.kept["wrong"] = sent.noise(sent.honest.shape)
    return np.broadcast_to(sent.kept["wrong"], sent.true.shape)


def frozen(sent: Sent) -> np.ndarray:
    """The parameters of the attack's first round, again and again."""
    return np.array(sent.kept.setdefault("first", sent.true))


def seldom(sent: Sent) -> np.ndarray:
    """True ones, but for every fifth round."""
    return np.full_like(sent.true, 1e6) if sent.age % 5 == 4 else sent.true


def admitted(values: np.ndarray, most: float) -> np.ndarray:
    """What the protocol lets through of what a liar sends."""
    return np.clip(np.nan_to_num(values), -most, most)


def larger_labels(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return 1e6 * y


def noisy_labels(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return y + 3 * y.std() * rng.normal(size=y.shape)


def false_statistics(stats: Stats, liars: Sequence[int], times: float = 1e3) -> Stats:
    """Means, spreads and ranges that are off by so many times."""
    found = Stats(*(values.astype(np.float64) for values in stats))
    rows, shift = list(liars), stats.sd[list(liars)]
    for name in ("mean", "low", "high"):
        getattr(found, name)[rows] = times * (getattr(stats, name)[rows] + shift)
    found.sd[rows] *= times
    found.quantiles[rows] = times * (stats.quantiles[rows] + shift[:, None])
    return found


Lie = Callable[[Sent], np.ndarray]
PARAMETERS: dict[str, Lie] = {
    "theta = 1e6": huge,
    "sign flipped": flipped,
    "constant": constant,
    "drift": drift,
    "noise": noise,
    "slow scaling": scaling,
    "alternating": alternating,
    "copy with a bias": biased,
    "collusion": colluding,
    "frozen": frozen,
}
LABELS = {"labels x 1e6": larger_labels, "label noise": noisy_labels}
STATISTICS = "false statistics"
#: The parameters as they are, and false terms of the memories.
TERMS = {"terms flipped": flipped, "terms now and then": seldom}
#: From the first rounds on, when a learner knows little by itself.
EARLY = {f"early: {name}": PARAMETERS[name] for name in ("sign flipped", "noise", "copy with a bias")}
ATTACKS = ("none", *PARAMETERS, *EARLY, *TERMS, *LABELS, STATISTICS)
LIES = PARAMETERS | EARLY | TERMS


def rounds_of(attack: str) -> tuple[int, int]:
    """The first round of an attack, and the one after its last."""
    return (EARLY_START, EARLY_STOP) if attack in EARLY else (START, STOP)


class Lies(Network):
    """A network in which neighbours receive from the liars what is not true, in the rounds of an attack.

    The liars themselves go on with the truth: once the attack is over, they are as honest as before.
    """

    def __init__(
        self, graph: Graph, exchange: domkl.Exchange, liars: tuple[int, ...] = (), attack: str = "none"
    ) -> None:
        super().__init__(graph, exchange)
        self.liars, self.attack, self.t = liars, attack, 0
        self.lies: dict[str, tuple[np.random.Generator, dict[str, Any]]] = {}

    def exchange_round(self, model: Any, outgoing: Any) -> dict[str, Any]:
        if self.attack == STATISTICS:
            model.statistics = {t: false_statistics(s, self.liars) for t, s in model.statistics.items()}
        self.most = model.largest
        incoming = super().exchange_round(model, outgoing)
        self.t += 1
        return incoming

    def delivered(self, own: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        start, stop = rounds_of(self.attack)
        if self.attack not in LIES or not start <= self.t < stop:
            return own
        wrong = ("terms",) if self.attack in TERMS else ("theta", "terms")
        return own | {name: self._lie(name, own[name]) for name in wrong}

    def _lie(self, name: str, every: np.ndarray) -> np.ndarray:
        rng, kept = self.lies.setdefault(name, (np.random.default_rng(14), {}))
        sent = Sent(every, self.liars, self.t - rounds_of(self.attack)[0], rng, kept)
        found = every.copy()
        found[list(self.liars)] = admitted(LIES[self.attack](sent), self.most)
        return found


@dataclass
class Streams:
    """Samples of a network; `labels` are what the learners get, `y` what is true."""

    X: np.ndarray  # (J, T, d)
    y: np.ndarray  # (J, T)
    labels: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.labels = self.y

    def attacked(self, attack: str, liars: Sequence[int]) -> Streams:
        """The same with the liars' labels changed, if the attack is on labels."""
        found = Streams(self.X, self.y)
        if attack in LABELS:
            found.labels = self.y.copy()
            when = slice(START, STOP)
            for j in liars:
                found.labels[j, when] = LABELS[attack](self.y[j, when], np.random.default_rng([14, j]))
        return found
