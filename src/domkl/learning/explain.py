"""Which inputs matter to a model: overall, and to one prediction.

A model is asked here as a function of its inputs, at the last samples that it remembers. One input takes its
value from another sample, whatever the others are: of inputs that go together, such as temperatures of
neighbouring places, one learns which of them the model uses, not which of them cause the target. Inputs that
were made of one column, as the words of a category or the sine and cosine of a time, come from one sample.

    effect          how far a prediction moves (root mean square) if the input is another sample's
    contribution    the input's part in one prediction: its Shapley value, averaged over orders in which
                    inputs take their values, one after the other, starting from a sample

A model without samples, as one that was just handed over, cannot tell until it has learnt some. Draws are the
same in every call, so that the same model gives the same answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..base.types import Array

#: Predictions of samples. (n, d) -> (n,)
Function: TypeAlias = Callable[[Array], Array]
#: Inputs that belong together: their columns.
Group: TypeAlias = Sequence[int]

#: Samples that are asked about, and how many at once; orders in which inputs take their values.
DRAWS, AT_ONCE, ORDERS = 1024, 2000, 64
#: A trend that is at least that clear is named.
CLEAR = 0.5
#: On a live page: inputs that are shown, those that matter most; and how many a model may have.
MOST, MOST_INPUTS = 30, 1000


class Effects(NamedTuple):
    """How much each input matters overall, in the order of the inputs."""

    names: tuple[str, ...]
    effect: Array  # (n,) in the unit of the target
    part: Array  # (n,) of all effects' squares; they sum to 1, or are 0 where no input matters
    trend: Array  # (n,) from -1 to 1: whether predictions fall or rise with the input; NaN for a group

    def rows(self) -> list[dict[str, Any]]:
        """A row for each input, those that matter most first."""
        order = np.argsort(-self.effect, kind="stable")
        return [
            {
                "input": self.names[i],
                "part": float(self.part[i]),
                "effect": float(self.effect[i]),
                "trend": float(self.trend[i]),
            }
            for i in order
        ]

    def listed(self, factor: float = 1.0) -> list[list[Any]]:
        """Name, part, effect times `factor` and direction of the inputs that matter most, for a live page.

        Nothing where an effect is not finite, as of a model that has just met absurd values.
        """
        rows = [
            [row["input"], row["part"], factor * row["effect"], direction(row["trend"])]
            for row in self.rows()[:MOST]
        ]
        return rows if all(math.isfinite(part + effect) for _, part, effect, _ in rows) else []


class Contributions(NamedTuple):
    """What each input adds to one prediction: `base` and all of them sum to `y_hat`."""

    names: tuple[str, ...]
    base: float  # the average prediction for samples
    y_hat: float
    contribution: Array  # (n,) in the unit of the target

    def rows(self) -> list[dict[str, Any]]:
        """A row for each input, the largest contributions first."""
        order = np.argsort(-np.abs(self.contribution), kind="stable")
        return [{"input": self.names[i], "contribution": float(self.contribution[i])} for i in order]


def effects(f: Function, samples: Array, names: Sequence[str], groups: Sequence[Group]) -> Effects:
    """How far predictions move if an input, or a group of them, is that of another sample (n, d)."""
    here, other = samples[_drawn(len(samples), DRAWS)].swapaxes(0, 1)
    before, moved = _many(f, here), np.empty((len(groups), len(here)))
    for i, group in enumerate(groups):
        there = here.copy()
        there[:, list(group)] = other[:, list(group)]
        moved[i] = _many(f, there) - before
    squares = (moved**2).mean(-1)
    total = squares.sum()
    steps = _ranks(other, samples) - _ranks(here, samples)
    trend = [
        _trend(steps[:, group[0]], m) if len(group) == 1 else np.nan
        for group, m in zip(groups, moved, strict=True)
    ]
    part = squares / total if total > 0 else np.zeros_like(squares)
    return Effects(tuple(names), np.sqrt(squares), part, np.array(trend))


def contributions(
    f: Function, samples: Array, x: Array, names: Sequence[str], groups: Sequence[Group]
) -> Contributions:
    """What each input, or group of them, adds to the prediction of x (d,), beside samples (n, d)."""
    n, rng = len(groups), np.random.default_rng(0)
    start = samples[_drawn(len(samples), ORDERS)[:, 0]]
    added = np.zeros(n)
    for k in range(0, ORDERS, 2):
        order = rng.permutation(n)
        for each, row in ((order, start[k]), (order[::-1], start[k + 1])):  # what is odd cancels out
            added[each] += np.diff(_many(f, _one_by_one(row, x, [groups[i] for i in each])))
    added /= ORDERS
    y_hat = float(f(x[None])[0])
    return Contributions(tuple(names), y_hat - float(added.sum()), y_hat, added)


def _drawn(n: int, draws: int) -> npt.NDArray[np.intp]:
    """Places among n samples, each equally often, and beside each that of another. (draws, 2)"""
    rng = np.random.default_rng(0)
    each = np.concatenate([rng.permutation(n) for _ in range(-(-draws // n))])[:draws]
    return np.column_stack([each, rng.permutation(each)])


def direction(trend: float) -> str:
    """A trend in a word; none where it is not clear.

    >>> direction(0.9), direction(-0.5), direction(0.1), direction(float("nan"))
    ('rises', 'falls', '', '')
    """
    return "rises" if trend >= CLEAR else "falls" if trend <= -CLEAR else ""


def _one_by_one(start: Array, x: Array, groups: Sequence[Group]) -> Array:
    """Samples from `start` to x, each with one group more that has its value in x. (n + 1, d)"""
    rows = np.repeat(start[None], len(groups) + 1, 0)
    for i, group in enumerate(groups):
        rows[i + 1 :, list(group)] = x[list(group)]
    return rows


def _many(f: Function, X: Array) -> Array:
    """Predictions of any number of samples. (n, d) -> (n,)"""
    return np.concatenate([f(X[k : k + AT_ONCE]) for k in range(0, len(X), AT_ONCE)])


def _trend(step: Array, moved: Array) -> float:
    """Correlation of an input's steps, in parts of all samples, with what they do to predictions."""
    size = np.sqrt((step**2).mean() * (moved**2).mean())
    return float((step * moved).mean() / size) if size > 0 else 0.0


def _ranks(values: Array, samples: Array) -> Array:
    """The part of the samples that lies below each value, column by column. (k, d)"""
    columns = zip(values.T, np.sort(samples, 0).T, strict=True)
    found = [np.searchsorted(order, v, "left") + np.searchsorted(order, v, "right") for v, order in columns]
    return np.transpose(found) / (2 * len(samples))


__all__ = ["Contributions", "Effects", "contributions", "effects"]


def __dir__() -> list[str]:
    return __all__
