"""Which inputs matter to a model: overall, and to one prediction.

A model is asked here as a function of its inputs. Each input is drawn from its own usual values, whatever the
others are: of inputs that go together, such as temperatures of neighbouring places, one learns which of them
the model uses, not which of them cause the target. Nothing is kept for this: usual values come from the
statistics that a model has anyway.

Inputs of one column are drawn together: a category takes one of its words, as often as it has it, and the
sine and cosine of a time are of one moment.

    effect          how far a prediction moves (root mean square) if the input takes another usual value
    contribution    the input's part in one prediction: its Shapley value, averaged over orders in which
                    inputs take their values, one after the other, starting from usual ones

Draws are the same in every call, so that the same model gives the same answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..base.types import Array

#: Predictions of samples. (n, d) -> (n,)
Function: TypeAlias = Callable[[Array], Array]
#: Usual values of all inputs, at parts (n, d) of their distributions. -> (n, d)
Usual: TypeAlias = Callable[[Array], Array]
#: Inputs that belong together: their columns.
Group: TypeAlias = Sequence[int]

#: Draws of usual values, and predictions that are computed at once; orders in which inputs take their values.
DRAWS, AT_ONCE, ORDERS = 256, 2000, 64
#: Parts of distributions that are looked at, and how far from a circle sine and cosine of a time may lie.
GRID, AROUND = 257, 0.2
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
    base: float  # the average prediction for usual values
    y_hat: float
    contribution: Array  # (n,) in the unit of the target

    def rows(self) -> list[dict[str, Any]]:
        """A row for each input, the largest contributions first."""
        order = np.argsort(-np.abs(self.contribution), kind="stable")
        return [{"input": self.names[i], "contribution": float(self.contribution[i])} for i in order]


def effects(f: Function, usual: Usual, names: Sequence[str], groups: Sequence[Group]) -> Effects:
    """How far predictions move if an input, or a group of them, takes other usual values."""
    d, usual = sum(map(len, groups)), together(usual, groups)
    drawn = np.random.default_rng(0).uniform(size=(2, DRAWS, d))
    here, other = usual(drawn[0]), usual(drawn[1])
    before, moved = _many(f, here), np.empty((len(groups), DRAWS))
    for i, group in enumerate(groups):
        there = here.copy()
        there[:, list(group)] = other[:, list(group)]
        moved[i] = _many(f, there) - before
    squares = (moved**2).mean(-1)
    total = squares.sum()
    steps = drawn[1] - drawn[0]
    trend = [
        _trend(steps[:, group[0]], m) if len(group) == 1 else np.nan
        for group, m in zip(groups, moved, strict=True)
    ]
    part = squares / total if total > 0 else np.zeros_like(squares)
    return Effects(tuple(names), np.sqrt(squares), part, np.array(trend))


def contributions(
    f: Function, usual: Usual, x: Array, names: Sequence[str], groups: Sequence[Group]
) -> Contributions:
    """What each input, or group of them, adds to the prediction of x (d,)."""
    n, rng, usual = len(groups), np.random.default_rng(0), together(usual, groups)
    start = usual(rng.uniform(size=(ORDERS, len(x))))
    added = np.zeros(n)
    for k in range(0, ORDERS, 2):
        order = rng.permutation(n)
        for each, row in ((order, start[k]), (order[::-1], start[k + 1])):  # what is odd cancels out
            added[each] += np.diff(_many(f, _one_by_one(row, x, [groups[i] for i in each])))
    added /= ORDERS
    y_hat = float(f(x[None])[0])
    return Contributions(tuple(names), y_hat - float(added.sum()), y_hat, added)


def together(usual: Usual, groups: Sequence[Group]) -> Usual:
    """Usual values in which inputs of one column go together: one word of a category, one moment of a time.

    >>> values = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0]])  # of two words, one of which is rarer
    >>> usual = together(lambda parts: quantile(values, parts), [[0, 1]])
    >>> drawn = usual(np.random.default_rng(0).random((900, 2)))
    >>> bool((drawn.sum(1) == 1).all()), drawn.mean(0).round(1).tolist()
    (True, [0.2, 0.8])
    """
    several = [list(group) for group in groups if len(group) > 1]
    if not several:
        return usual
    d = sum(map(len, groups))
    seen = usual(np.repeat(np.linspace(0, 1, GRID)[:, None], d, 1))
    weights = np.r_[0.5, np.ones(GRID - 2), 0.5] / (GRID - 1)
    words = [group for group in several if (seen[0, group] == 0).all() and (seen[-1, group] == 1).all()]
    pairs = [pair for group in several for pair in zip(group[::2], group[1::2], strict=False)]
    turns = [pair for pair in pairs if abs(weights @ (seen[:, pair] ** 2).sum(1) - 1) < AROUND]

    def drawn(parts: Array) -> Array:
        found = usual(parts)
        for group in words:
            often = weights @ seen[:, group]
            often = often / often.sum() if often.sum() > 0.5 else often  # else it is often missing
            at = np.searchsorted(np.cumsum(often), parts[:, group[0]])
            found[:, group] = at[:, None] == np.arange(len(group))
        for sine, cosine in turns:
            angle = math.tau * parts[:, sine]
            if abs(weights @ seen[:, [sine, cosine]]).max() < AROUND:
                found[:, sine], found[:, cosine] = np.sin(angle), np.cos(angle)
            else:  # a part of the year only
                side = np.sign(weights @ seen[:, cosine]) or 1.0
                found[:, cosine] = side * np.sqrt(np.maximum(1 - found[:, sine] ** 2, 0))
        return found

    return drawn


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
    """Correlation of an input's steps, in parts of its distribution, with what they do to predictions."""
    size = np.sqrt((step**2).mean() * (moved**2).mean())
    return float((step * moved).mean() / size) if size > 0 else 0.0


def quantile(values: Array, parts: Array) -> Array:
    """Values at parts of distributions, of which quantiles at even steps are given. (s + 1, d), (n, d)"""
    place = parts * (len(values) - 1)
    below = np.minimum(place.astype(np.intp), max(len(values) - 2, 0))
    columns = np.arange(values.shape[1])
    low, high = values[below, columns], values[np.minimum(below + 1, len(values) - 1), columns]
    return np.asarray(low + (place - below) * (high - low))


__all__ = ["Contributions", "Effects", "contributions", "effects"]


def __dir__() -> list[str]:
    return __all__
