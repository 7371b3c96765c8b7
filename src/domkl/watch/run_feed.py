"""The same for all learners of a simulation at once, by a few array operations a round."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from ..base.types import Array
from .feed import COLUMNS, FAR, MOST, RECENT, ROLLING, Curve, about_page


class Rolling:
    """The last rounds of J learners: predictions, labels, and what own samples only predicted.

    Parameters
    ----------
    keep : rounds that can be asked for.
    delay : rounds after which a label is known, which the simple guesses have to wait for, too.
    """

    def __init__(self, J: int, keep: int, delay: int) -> None:
        self.done, self._delay = 0, delay
        self._keep = max(keep, ROLLING) + delay + 1
        self._parts, self._held = [np.empty((3, J, 0))], 0
        self._dropped = np.zeros(J)  # the sum of the labels that are kept no more

    def add(self, y_hat: Array, y: Array, alone: Array) -> None:
        """Some more rounds. (J, B) each"""
        self._parts.append(np.array([y_hat, y, alone]))
        self.done += y.shape[1]
        self._held += y.shape[1]
        if self._held > 3 * self._keep:
            self._join()

    def _join(self) -> Array:
        """All that is kept, in one piece. (3, J, n)"""
        if len(self._parts) > 1:
            held = np.concatenate(self._parts, axis=2)
            extra = max(0, held.shape[2] - self._keep)
            self._dropped += held[1, :, :extra].sum(1)
            self._parts, self._held = [held[:, :, extra:].copy()], held.shape[2] - extra
        return self._parts[0]

    def last(self, j: int, most: int) -> tuple[range, Array]:
        """The last rounds of a learner, at most those that are kept; predictions and labels. (2, n)"""
        held = self._join()[:2, j]
        found = held[:, max(0, held.shape[1] - most) :]
        return range(self.done - found.shape[1], self.done), found

    def squares(self) -> Array | None:
        """Mean squared errors over the last ROLLING rounds, or all since a label was known. (4, J)

        They are those of the learners, with own samples only, of no change, and of the mean so far. None at
        first: before a label is known, all guesses are of nothing.
        """
        start, held = max(self._delay + 1, self.done - ROLLING), self._join()
        if start >= self.done:
            return None
        first = self.done - held.shape[2]  # the round of the first column
        judged = slice(start - first, None)
        known = slice(start - self._delay - 1 - first, self.done - self._delay - 1 - first)  # the last label
        y_hat, y, alone = held[:, :, judged]
        sums = np.cumsum(held[1, :, : known.stop], axis=1)[:, known.start :] + self._dropped[:, None]
        means = sums / np.arange(start - self._delay, self.done - self._delay)
        misses = np.minimum(np.abs(np.stack([y_hat, alone, held[1, :, known], means]) - y), MOST)
        usual = np.median(misses[0], -1, keepdims=True)
        counts = (misses[0] <= FAR * usual) | (usual == 0)  # others are of absurd readings
        return np.asarray((misses * misses).mean(-1, where=counts))


#: Bounds of a prediction hold so many of the last WINDOW errors before it.
COVERAGE, WINDOW = 0.9, 100
#: A point of the curve comes after so many times as long as the last one took.
REST = 400.0


@dataclass(eq=False, repr=False)
class RunFeed:
    """Rounds of J learners in one process, for a `Server`."""

    title: str
    names: Sequence[str]  # of the learners
    neighbours: Sequence[Sequence[int]]  # of each, as indices
    _: KW_ONLY
    target: str = ""
    unit: str = ""  # what a value times `factor` plus `offset` is in
    all_rounds: int = 0  # how many there will be; 0 if unknown
    factor: float = 1.0
    offset: float = 0.0
    delay: int = 0  # rounds after which a label is known, which the simple guesses have to wait for, too
    weights: Sequence[str] = ()  # names of the experts or kernels
    times: Array | None = None  # of all samples, seconds since 1970 (J, T), where they have any

    ranges: ClassVar[Sequence[str]] = ()  # rounds come as fast as they are computed, at no time of day

    def __post_init__(self) -> None:
        J = len(self.names)
        self.about = about_page(self.title, target=self.target, unit=self.unit, rounds=self.all_rounds)
        self.version = self.done = 0
        self._rolling, self._has_alone = Rolling(J, RECENT + WINDOW, self.delay), False
        self._weights, self._curve = np.zeros((J, 0)), Curve()
        self._points, self._next = 0, 0.0  # of the curve: how many there were, and when there may be another
        self._changing = threading.Lock()
        self.looked_at = 0  # the learner whose details were asked for last
        self._effects: dict[int, dict[str, Any]] = {}

    def rounds(self, y_hat: Array, y: Array, alone: Array, weights: Array) -> None:
        """What happened in B rounds: predictions, labels, what own samples only predicted (or nothing),
        (J, B) each; and the weights (J, n)."""
        with self._changing:
            self._has_alone, self._weights = bool(len(alone)), weights
            self._rolling.add(y_hat, y, alone if self._has_alone else y_hat)
            self.done = self._rolling.done
            self.version += 1
            now = time.perf_counter()
            if now >= self._next:
                self._trace()
                self._next = now + REST * (time.perf_counter() - now)

    def _trace(self) -> Array | None:
        """Errors of now (4, J), if there are any yet, which become a point of the curve."""
        squares, points = self._rolling.squares(), self._curve.points
        if squares is None:
            return None
        roots = np.asarray(self.factor * np.sqrt(squares))
        if not points or points[-1][0] < self.done - 1:
            if self._curve.is_due(self._points):
                self._curve.add((self.done - 1, roots))
            self._points += 1
        return roots

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
        self.about["state"] = "ended"
        self.version += 1

    # Asked by the server

    def document(self, learner: str | None, range: str | None = None) -> dict[str, Any]:
        """All learners, and details of one: the one asked for, else the first."""
        j = self.looked_at = self.names.index(learner) if learner in self.names else 0
        with self._changing:
            about: dict[str, Any] = {**self.about, "ranges": (), "range": None, "now": time.time()}
            found = self._trace()
            roots = [[None] * 4] * len(self.names) if found is None else found.T.tolist()
            rows = [self._row(i, *each) for i, each in enumerate(roots)]
            return {**about, "learners": rows, "alarms": [], "detail": self._detail(j)}

    def _row(self, j: int, rmse: Any, alone: Any, no_change: Any, mean: Any) -> dict[str, Any]:
        near = [{"name": self.names[i], "up": True, "trust": None} for i in self.neighbours[j]]
        row = {"name": self.names[j], "state": "ready", "round": self.done, "samples": self.done}
        row |= {"rmse": rmse, "rmse_alone": alone if self._has_alone else None, "no_change": no_change}
        return row | {"mean": mean, "neighbours": near, "alarms": 0, "age": 0.0}

    def _detail(self, j: int) -> dict[str, Any]:
        points = self._curve.points
        roots: list[list[Any]] = [[float(each[k, j]) for _, each in points] for k in range(4)]
        roots[1] = roots[1] if self._has_alone else [None] * len(points)
        found: dict[str, Any] = {"name": self.names[j], "errors": [[t for t, _ in points], *roots]}
        row = self._weights[j].tolist() if len(self._weights) > j else []
        names = self.weights if len(self.weights) >= len(row) else [str(p) for p in range(len(row))]
        found["weights"] = list(map(list, zip(names, row, strict=False)))
        found["effects"] = self._effects.get(j)
        return found | {"samples": self._samples(j, RECENT)}

    def _samples(self, j: int, most: int) -> list[list[Any]]:
        known, past = self._rolling.last(j, most + WINDOW + self.delay)
        y_hat, y = past * self.factor + self.offset
        wide = _widths(np.abs(y_hat - y), self.delay)[-most:]
        rounds, y_hat, y = known[-most:], y_hat[-most:], y[-most:]
        nothing = [None] * len(rounds)
        times = nothing if self.times is None else _listed(self.times[j, rounds.start : rounds.stop])
        bounds = (_listed(y_hat - wide), _listed(y_hat + wide))
        return [list(rounds), times, y_hat.tolist(), *bounds, y.tolist(), nothing]

    def records(self, learner: str | None, most: int) -> list[dict[str, Any]]:
        if not most:
            return []
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
