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
    ) -> None:
        J, self.names, self._near, self._expert = len(names), list(names), neighbours, list(weights)
        self.about: dict[str, Any] = {
            "title": title,
            "target": target,
            "unit": unit,
            "self": None,
            "publish": "full",
        }
        self.about |= {"inputs": [], "rounds": rounds, "state": "running"}
        self.version, self.done, self.bytes, self.sent = 0, 0, 0.0, 0.0
        self._factor, self._offset, self._delay = factor, offset, delay
        self._recent = np.full(
            (RECENT + WINDOW + delay + 1, 2, J), np.nan
        )  # predictions and labels, round by round
        self._squares = np.zeros((4, J))  # of the learners, alone, of no change, of the mean so far
        self._sum = np.zeros(J)
        self._has_alone = False
        self._weights, self._curve = np.zeros((J, 0)), Curve()
        self._changing = threading.Lock()

    def round(self, y_hat: Array, y: Array, alone: Array, weights: Array) -> None:
        """What happened in a round: predictions, labels, what own samples only predicted (or nothing), (J,)
        each; and the weights (J, n)."""
        with self._changing:
            t, size = self.done, len(self._recent)
            self._recent[t % size] = y_hat, y
            if t > self._delay:
                self._judge(t, y_hat, y, alone)
            if t >= self._delay:
                self._sum += self._recent[(t - self._delay) % size, 1]
            self._weights, self.done = weights, t + 1
            self.version += 1

    def _judge(self, t: int, y_hat: Array, y: Array, alone: Array) -> None:
        known = t - self._delay  # labels
        last = self._recent[(known - 1) % len(self._recent), 1]
        self._has_alone = bool(len(alone))
        guesses = np.array([y_hat, alone if self._has_alone else y_hat, last, self._sum / known])
        misses = np.minimum(np.abs(guesses - y), MOST)
        self._squares += max(1 / known, 1 / ROLLING) * (misses * misses - self._squares)
        if self._curve.is_due(known):
            self._curve.add((t, self._roots()))

    def _roots(self) -> Array:
        return self._factor * np.sqrt(self._squares)  # (4, J)

    def end(self) -> None:
        """There are no more rounds."""
        self.about["state"] = "ended"
        self.version += 1

    # Asked by the server

    def document(self, learner: str | None) -> dict[str, Any]:
        """All learners, and details of one: the one asked for, else the first."""
        j = self.names.index(learner) if learner in self.names else 0
        with self._changing:
            about: dict[str, Any] = {**self.about, "now": time.time(), "alarms": []}
            roots = (
                self._roots().T.tolist() if self.done > self._delay + 1 else [[None] * 4] * len(self.names)
            )
            rows = [self._row(i, *each) for i, each in enumerate(roots)]
            return {**about, "learners": rows, "detail": self._detail(j)}

    def _row(self, j: int, rmse: Any, alone: Any, no_change: Any, mean: Any) -> dict[str, Any]:
        near = [{"name": self.names[i], "up": True, "trust": None} for i in self._near[j]]
        row = {"name": self.names[j], "state": "ready", "round": self.done, "samples": self.done}
        row |= {"rmse": rmse, "rmse_alone": alone if self._has_alone else None, "no_change": no_change}
        return row | {"mean": mean, "neighbours": near, "alarms": 0, "age": 0.0}

    def _detail(self, j: int) -> dict[str, Any]:
        points = self._curve.points
        roots: list[list[Any]] = [[float(each[k, j]) for _, each in points] for k in range(4)]
        roots[1] = roots[1] if self._has_alone else [None] * len(points)
        found: dict[str, Any] = {"name": self.names[j], "errors": [[t for t, _ in points], *roots]}
        row = self._weights[j].tolist() if len(self._weights) > j else []
        names = self._expert if len(self._expert) >= len(row) else [str(p) for p in range(len(row))]
        found["weights"] = list(map(list, zip(names, row, strict=False)))
        return found | {"samples": self._samples(j, RECENT)}

    def _samples(self, j: int, most: int) -> list[list[Any]]:
        known = range(max(0, self.done - most - WINDOW - self._delay), self.done)
        y_hat, y = self._recent[[t % len(self._recent) for t in known], :, j].T * self._factor + self._offset
        wide = _widths(np.abs(y_hat - y), self._delay)[-most:]
        rounds, y_hat, y = known[-most:], y_hat[-most:], y[-most:]
        nothing = [None] * len(rounds)
        bounds = (_listed(y_hat - wide), _listed(y_hat + wide))
        return [list(rounds), nothing, y_hat.tolist(), *bounds, y.tolist(), nothing]

    def records(self, learner: str | None, most: int) -> list[dict[str, Any]]:
        """A learner's last predictions."""
        j = self.names.index(learner) if learner in self.names else 0
        with self._changing:
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
