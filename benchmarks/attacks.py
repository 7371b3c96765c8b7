"""What a lying learner sends, learns or reports instead of the truth, as short functions.

`PARAMETERS` get `Sent`, what everybody would send in a round, and return what the liars send; `NEWS` get
`Told` and return the summaries that a liar passes on; `SAMPLES` change what the liars learn from; `EDGES`
change what only a message of a device holds.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from domkl.exchange.edges import Held
from domkl.exchange.message import Update
from domkl.learning.auto import AutoRows
from domkl.learning.auto.scale import Summary

Array = np.ndarray[Any, Any]
#: Samples that the last summary of a device is of.
FINAL = 512


# Parameters


class Sent(NamedTuple):
    """A round's parameters, as everybody would send them."""

    every: Array  # (J, m, K)
    liars: Sequence[int]
    age: int  # rounds since the attack began
    rng: np.random.Generator
    kept: dict[str, Any]  # what the attack keeps from round to round
    rows: AutoRows
    around: Sequence[int]  # honest neighbours of the liars

    @property
    def true(self) -> Array:
        """What the liars would send. (n, m, K)"""
        return self.every[list(self.liars)]

    @property
    def honest(self) -> Array:
        """Mean of the honest learners' parameters. (m, K)"""
        return np.delete(self.every, list(self.liars), 0).mean(0)

    def noise(self, shape: tuple[int, ...] | None = None) -> Array:
        """Normal noise of the size of honest parameters."""
        size = float(np.sqrt((self.honest**2).mean()))
        return size * self.rng.normal(size=self.true.shape if shape is None else shape)


def huge(sent: Sent) -> Array:
    return np.full_like(sent.true, 1e6)


def flipped(sent: Sent) -> Array:
    return -sent.true


def constant(sent: Sent) -> Array:
    return np.ones_like(sent.true)


def drift(sent: Sent) -> Array:
    """A random walk, after 400 rounds as far away as the parameters are large."""
    sent.kept["walk"] = sent.kept.get("walk", 0) + 0.05 * sent.noise()
    return sent.true + sent.kept["walk"]


def noise(sent: Sent) -> Array:
    return sent.true + 3 * sent.noise()


def scaling(sent: Sent) -> Array:
    """Half a per cent more in each round."""
    return sent.true * 1.005**sent.age


def alternating(sent: Sent) -> Array:
    """Lying for ten rounds, honest for ten."""
    return -sent.true if sent.age // 10 % 2 == 0 else sent.true


def biased(sent: Sent) -> Array:
    """The mean of the honest learners, plus a bias."""
    if "bias" not in sent.kept:
        sent.kept["bias"] = 0.3 * sent.noise(sent.honest.shape)
    return np.broadcast_to(sent.honest + sent.kept["bias"], sent.true.shape)


def colluding(sent: Sent) -> Array:
    """All liars send the same parameters, of another function of the same size."""
    if "wrong" not in sent.kept:
        sent.kept["wrong"] = sent.noise(sent.honest.shape)
    return np.broadcast_to(sent.kept["wrong"], sent.true.shape)


def frozen(sent: Sent) -> Array:
    """The parameters of the attack's first round, again and again."""
    return np.array(sent.kept.setdefault("first", sent.true))


def seldom(sent: Sent) -> Array:
    """True ones, but for every fifth round."""
    return np.full_like(sent.true, 1e6) if sent.age % 5 == 4 else sent.true


def hidden(sent: Sent, times: float, but: int = 0) -> Array:
    """True on all samples by which the neighbours judge, but for some, and noise elsewhere: all-knowing."""
    z = sent.rows.trust.z[list(sent.around), but:]
    z = z.reshape(-1, sent.every.shape[-1]).astype(np.float64)
    _, values, span = np.linalg.svd(z, full_matrices=False)
    seen = span[values > 1e-6 * values.max()]
    wild = sent.noise()
    wild -= wild @ seen.T @ seen
    size = np.linalg.norm(sent.true) / max(np.linalg.norm(wild), 1e-30)
    return sent.true + times * size * wild


Lie = Callable[[Sent], Array]
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
    "now and then": seldom,
    "hidden from the last 32": functools.partial(hidden, times=1.0),
    "hidden from the last 32, x 10": functools.partial(hidden, times=10.0),
    "hidden from 31 of the last 32, x 1000": functools.partial(hidden, times=1000.0, but=1),
}
EARLY = {
    f"early: {name}": PARAMETERS[name]
    for name in ("theta = 1e6", "sign flipped", "noise", "copy with a bias", "hidden from the last 32")
}


# Samples


def larger_labels(X: Array, y: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    return X, 1e6 * y


def noisy_labels(X: Array, y: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    return X, y + 3 * y.std() * rng.normal(size=y.shape)


def flipped_labels(X: Array, y: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    return X, 2 * y.mean() - y


def larger_inputs(X: Array, y: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    return 1e3 * X, y


def shuffled_inputs(X: Array, y: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Of other samples."""
    return rng.permutation(X), y


SAMPLES = {
    "labels x 1e6": larger_labels,
    "label noise": noisy_labels,
    "labels flipped": flipped_labels,
    "inputs x 1000": larger_inputs,
    "inputs of other samples": shuffled_inputs,
    "early: labels flipped": flipped_labels,
}


# Summaries


class Told(NamedTuple):
    """What a liar knows when it passes on summaries."""

    t: int
    name: Hashable
    news: dict[Hashable, Summary]  # what it would pass on
    true: Summary  # of its whole stream
    names: Sequence[Hashable]  # of all devices


News = Callable[[Told], dict[Hashable, Summary]]


def altered(one: Summary, how: str, samples: int) -> Summary:
    """A false summary like this one."""
    middle, span = (one.low + one.high) / 2, one.high - one.low
    shape = one.shape.copy()
    if how == "no deviation":
        shape[1] = 0
        return one._replace(samples=samples, shape=shape)
    if how == "shifted":
        return one._replace(samples=samples, low=one.low + 20 * span, high=one.high + 20 * span)
    times = {"x 4": 4.0, "x 100": 100.0, "x 1000": 1000.0, "narrow": 1e-3}[how]
    return one._replace(samples=samples, low=middle - times * span / 2, high=middle + times * span / 2)


def own(told: Told, how: str) -> dict[Hashable, Summary]:
    """False summaries of its own samples, at the times of true ones."""
    if told.name not in told.news:
        return told.news
    return told.news | {told.name: altered(told.true, how, told.news[told.name].samples)}


def others(told: Told, how: str) -> dict[Hashable, Summary]:
    """False final summaries in everybody's name, from the first round on."""
    false = altered(told.true, how, FINAL)
    return told.news | (dict.fromkeys(told.names, false) if told.t == 0 else {})


def ghosts(told: Told, how: str, n: int, since: int = 0) -> dict[Hashable, Summary]:
    """Final summaries of devices that there are not."""
    false = altered(told.true, how, FINAL)
    return told.news | ({f"ghost {k}": false for k in range(n)} if told.t == since else {})


def held_back(told: Told) -> dict[Hashable, Summary]:
    return {}


def ever_newer(told: Told) -> dict[Hashable, Summary]:
    """A true final summary in each round that replaces the last one by a bit: everybody's scale changes."""
    low = told.true.low.copy()
    low.view(np.uint8)[:2] = divmod(told.t % 65536, 256)
    return told.news | {told.name: told.true._replace(samples=FINAL, low=low)}


def split(told: Told) -> dict[Hashable, Summary]:
    """Plausible final summaries in everybody's name: nobody then has the scale of a neighbour."""
    false = told.true._replace(samples=FINAL)
    return told.news | (dict.fromkeys(told.names, false) if told.t == 0 else {})


NEWS: dict[str, News] = {
    **{
        f"own summary {how}": functools.partial(own, how=how) for how in ("x 4", "x 100", "x 1000", "shifted")
    },
    "own summary without deviation": functools.partial(own, how="no deviation"),
    "own summary narrow": functools.partial(own, how="narrow"),
    "others' summaries x 100": functools.partial(others, how="x 100"),
    "others' summaries plausible": split,
    **{
        f"20 ghosts {how}": functools.partial(ghosts, how=how, n=20) for how in ("x 100", "shifted", "narrow")
    },
    "260 ghosts x 100": functools.partial(ghosts, how="x 100", n=260),
    "20 late ghosts x 100": functools.partial(ghosts, how="x 100", n=20, since=300),
    "summaries held back": held_back,
    "ever newer summaries": ever_newer,
}
#: Lies about the number of the scale in the rounds of an attack: (true numbers (J,), liars, rng) -> numbers.
NUMBERS = {"random number of the scale": lambda numbers, rng: rng.integers(1, 2**48, numbers.shape)}


# What only devices send

LARGE = 2**63 - 1


def largest_edges(update: Update, first: Update, age: int) -> Update:
    return update._replace(edges={name: Held(*[LARGE] * 5) for name in update.edges})


def replayed_edges(update: Update, first: Update, age: int) -> Update:
    """The edges of the attack's first round."""
    return update._replace(edges=first.edges)


def denied_moves(update: Update, first: Update, age: int) -> Update:
    """True numbers, but no dual has ever moved."""
    return update._replace(
        edges={name: held._replace(moved=-1, before=-1) for name, held in update.edges.items()}
    )


def odd_degrees(update: Update, first: Update, age: int) -> Update:
    """One neighbour in even rounds, and 65536 in odd ones."""
    return update._replace(degree=1 if age % 2 else 2**16)


EDGES: dict[str, Callable[[Update, Update, int], Update]] = {
    "edges at 2^63 - 1": largest_edges,
    "edges replayed": replayed_edges,
    "moves denied": denied_moves,
    "degree 1 and 65536": odd_degrees,
}
