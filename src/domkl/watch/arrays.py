"""The same for all learners of a simulation at once, by a few array operations a round."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.types import Array
from .errors import MOST, ROLLING, Curve
from .feed import COLUMNS, RECENT

#: Bounds of a prediction hold so many of the last WINDOW errors before it.
COVERAGE, WINDOW = 0.9, 100
#: Rounds that are looked at together, as that costs little more than one.
AT_ONCE = 16


class RunFeed:
    """Rounds of J learners in one process, for a `Server`.

    Parameters
    ----------
    title, target, unit : as in `Feed`.
    names : of the learners.
    neighbours : of each, as indices.
    rounds : how many there will be; 0 if unknown.
    factor, offset : a value times the one plus the other is in `unit`.
    delay : rounds after which a label is known, which the simple guesses have to wait for, too.
    weights : names of the experts or kernels.
    times : of all samples, seconds since 1970 (J, T), where they have any.
    """

    def __init__(
        self,
        title: str,
        names: Sequence[str],
        neighbours: Sequence[Sequence[int]],
        *,
        target: str = "",
        unit: str = "",
        rounds: int = 0,
        factor: float = 1.0,
        offset: float = 0.0,
        delay: int = 0,
        weights: Sequence[str] = (),
        times: Array | None = None,
    ) -> None:
        J, self.names, self._near, self._expert = len(names), list(names), neighbours, list(weights)
        self.about: dict[str, Any] = {
            "title": title,
            "target": target,
            "unit": unit,
            "self": None,
            "publish": "full",
        }
        self.about |= {"inputs": [], "rounds": rounds, "state": "running", "alarming": False}
        self.version = self.done = 0
        self._factor, self._offset, self._delay, self._times = factor, offset, delay, times
        self._recent = np.full(
            (RECENT + WINDOW + delay + 1, 2, J), np.nan
        )  # predictions and labels, round by round
        self._squares = np.zeros((4, J))  # of the learners, alone, of no change, of the mean so far
        self._sum = np.zeros(J)
        self._has_alone, self._taken = False, 0
        self._waiting: list[tuple[Array, Array, Array]] = []  # rounds that nobody has looked at yet
        self._weights, self._curve = np.zeros((J, 0)), Curve()
        self._changing = threading.Lock()
        self.looked_at = 0  # the learner whose details were asked for last
        self._effects: dict[int, dict[str, Any]] = {}

    def rounds(self, y_hat: Array, y: Array, alone: Array, weights: Array) -> None:
        """What happened in B rounds: predictions, labels, what own samples only predicted (or nothing),
        (J, B) each; and the weights (J, n)."""
        with self._changing:
            self._has_alone = bool(len(alone))
            self._waiting.append((y_hat, y, alone if self._has_alone else y_hat))
            self._weights = weights
            self.done += y.shape[1]
            self.version += 1
            if self.done - self._taken >= AT_ONCE:
                self._take()

    def _take(self) -> None:
        """Look at the rounds that wait."""
        if not self._waiting:
            return
        y_hat, y, alone = (np.concatenate(each, axis=1).T for each in zip(*self._waiting, strict=True))
        self._waiting.clear()
        for first in range(0, len(y), RECENT):
            some = slice(first, first + RECENT)
            self._add(y_hat[some], y[some], alone[some])

    def _add(self, y_hat: Array, y: Array, alone: Array) -> None:
        """As many rounds as are kept at most. (B, J) each"""
        rounds, size = np.arange(self._taken, self._taken + len(y)), len(self._recent)
        self._recent[rounds % size, 0], self._recent[rounds % size, 1] = y_hat, y
        self._taken += len(y)
        new = rounds[rounds >= self._delay] - self._delay  # the label that becomes known after each round
        sums = np.vstack([self._sum, self._recent[new % size, 1]]).cumsum(0)
        self._sum, known = sums[-1], new[new > 0]  # as many labels are known before each of these rounds
        if len(known):
            last, mean = self._recent[(known - 1) % size, 1], sums[:-1][new > 0] / known[:, None]
            late = slice(len(y) - len(known), None)
            self._judge(known.astype(np.float64), np.stack([y_hat[late], alone[late], last, mean]), y[late])

    def _judge(self, known: Array, guesses: Array, y: Array) -> None:
        """Follow errors of guesses (4, B, J) of y (B, J): means of all at first, then of about ROLLING."""
        misses = np.minimum(np.abs(guesses - y), MOST)
        share = np.maximum(1 / known, 1 / ROLLING)
        kept = np.append(np.cumprod(1 - share[::-1])[::-1], 1.0)  # of what was there before each round
        self._squares = kept[0] * self._squares + np.einsum("gbj,b->gj", misses * misses, share * kept[1:])
        if any(map(self._curve.is_due, known.tolist())):
            self._curve.add((self._taken - 1, self._roots()))

    def _roots(self) -> Array:
        return self._factor * np.sqrt(self._squares)  # (4, J)

    def explain(self, learner: int, round: int, inputs: list[list[Any]]) -> None:
        """Which inputs matter to a learner: rows of name, part, effect and direction, the largest first."""
        with self._changing:
            self._effects[learner] = {"round": round, "inputs": inputs}
            self.version += 1

    def explained_at(self, learner: int) -> int | None:
        """The round of the last explanation of a learner."""
        found = self._effects.get(learner)
        return None if found is None else int(found["round"])

    def end(self) -> None:
        """There are no more rounds."""
        self.about["state"] = "ended"
        self.version += 1

    # Asked by the server

    def document(self, learner: str | None) -> dict[str, Any]:
        """All learners, and details of one: the one asked for, else the first."""
        j = self.looked_at = self.names.index(learner) if learner in self.names else 0
        with self._changing:
            self._take()
            about: dict[str, Any] = {**self.about, "now": time.time(), "alarms": []}
            roots = (
                self._roots().T.tolist() if self.done > self._delay + 1 else [[None] * 4] * len(self.names)
            )
            rows = [self._row(i, *each) for i, each in enumerate(roots)]
            return {**about, "learners": rows, "detail": self._detail(j)}

    def _row(self, j: int, error: Any, alone: Any, no_change: Any, mean: Any) -> dict[str, Any]:
        near = [{"name": self.names[i], "up": True, "trust": None} for i in self._near[j]]
        row = {"name": self.names[j], "state": "ready", "round": self.done, "samples": self.done}
        row |= {"error": error, "alone": alone if self._has_alone else None, "no_change": no_change}
        return row | {"mean": mean, "neighbours": near, "alarms": 0, "age": 0.0}

    def _detail(self, j: int) -> dict[str, Any]:
        points = self._curve.points
        roots: list[list[Any]] = [[float(each[k, j]) for _, each in points] for k in range(4)]
        roots[1] = roots[1] if self._has_alone else [None] * len(points)
        found: dict[str, Any] = {"name": self.names[j], "errors": [[t for t, _ in points], *roots]}
        row = self._weights[j].tolist() if len(self._weights) > j else []
        names = self._expert if len(self._expert) >= len(row) else [str(p) for p in range(len(row))]
        found["weights"] = list(map(list, zip(names, row, strict=False)))
        found["effects"] = self._effects.get(j)
        return found | {"samples": self._samples(j, RECENT)}

    def _samples(self, j: int, most: int) -> list[list[Any]]:
        known = range(max(0, self.done - most - WINDOW - self._delay), self.done)
        y_hat, y = self._recent[[t % len(self._recent) for t in known], :, j].T * self._factor + self._offset
        wide = _widths(np.abs(y_hat - y), self._delay)[-most:]
        rounds, y_hat, y = known[-most:], y_hat[-most:], y[-most:]
        nothing = [None] * len(rounds)
        times = nothing if self._times is None else _listed(self._times[j, rounds.start : rounds.stop])
        bounds = (_listed(y_hat - wide), _listed(y_hat + wide))
        return [list(rounds), times, y_hat.tolist(), *bounds, y.tolist(), nothing]

    def records(self, learner: str | None, most: int) -> list[dict[str, Any]]:
        """A learner's last predictions."""
        j = self.names.index(learner) if learner in self.names else 0
        with self._changing:
            self._take()
            columns = self._samples(j, min(most, RECENT))
        keep = [k for k, name in enumerate(COLUMNS) if name in ("index", "y_hat", "y")]
        rows = zip(*(columns[k] for k in keep), strict=True)
        return [
            {"learner": self.names[j], **dict(zip(("index", "y_hat", "y"), row, strict=True))} for row in rows
        ]


def _widths(misses: Array, delay: int) -> Array:
    """Half-widths of each round, from WINDOW errors that were known before it; NaN where there are fewer."""
    wide = np.full(len(misses), np.nan)
    first = WINDOW + delay
    if len(misses) > first:
        windows = np.lib.stride_tricks.sliding_window_view(misses[: len(misses) - 1 - delay], WINDOW)
        rank = int(np.ceil(COVERAGE * (WINDOW + 1))) - 1
        wide[first:] = np.partition(windows, rank, axis=1)[:, rank]
    return wide


def _listed(values: Array) -> list[float | None]:
    return [None if value != value else value for value in values.tolist()]
