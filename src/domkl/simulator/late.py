"""Labels that become known at times of their own, as an engine's remaining life does when it has failed."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..base import checks
from ..base.errors import InputError
from ..base.types import Array
from ..exchange.graph import Graph
from ..models.settings import Settings
from .driver import Rounds
from .results import RunOptions


class Sample(NamedTuple):
    """What one learner has to learn once its label is known."""

    x: Array  # (d,)
    y: Array  # (m,)
    kept: list[Array]  # what the model needs of its prediction, one row


def as_delays(delay: npt.ArrayLike, rows: tuple[int, int]) -> Array:
    """After how many rounds each label is known, (J, T); infinity and NaN mean never."""
    found = np.asarray(checks.floats("delay", delay))
    found = np.broadcast_to(found, rows) if found.shape == rows[1:] else found
    checks.shape("delay", found, rows, "give one for each label, or for each round")
    whole = np.where(np.isnan(found), np.inf, found)
    finite = whole[np.isfinite(whole)]
    if (finite < 0).any() or (finite % 1 != 0).any():
        raise InputError("delay has a number below 0, or no whole one; expected rounds; fix it")
    if not (whole + np.arange(rows[1]) < rows[1]).any():
        raise InputError("no label is known before the last round; expected some; give smaller delays")
    return whole


class LateRounds(Rounds):
    """Round by round, each learner learns in each as many of its samples as have become known.

    Who knows less than others learns nothing meanwhile, but exchanges what it knows.
    """

    def __init__(
        self, settings: Settings, delays: Array, graph: Graph, d: int, T: int, how: RunOptions, m: int
    ) -> None:
        if not settings.can_go_on:
            raise InputError(
                "delay has a number for each label and the model is not Auto; expected domkl.Auto(...), or "
                "one delay for all; choose one"
            )
        super().__init__(settings, graph, d, T, how, m)
        self.is_plain, self.delays, self.t = False, delays, 0
        self.most_rounds = 1 if how.is_followed else self.most_rounds
        self.due: list[dict[int, list[Sample]]] = [{} for _ in range(graph.J)]

    def _round(self, x: Array, y: Array) -> tuple[Array, Array]:
        prediction = self.model.predict(x)
        alone = self._count(prediction, y)
        kept: list[Array] = self.model.kept(prediction)
        ready: list[deque[Sample]] = []
        for j, due in enumerate(self.due):
            delay = self.delays[j, self.t]
            if self.t + delay < self.delays.shape[1]:
                sample = Sample(x[j].copy(), y[j], [each[j : j + 1].copy() for each in kept])
                due.setdefault(self.t + int(delay), []).append(sample)
            ready.append(deque(due.pop(self.t, ())))
        while any(ready):
            self._learn([queue.popleft() if queue else None for queue in ready])
        self.t += 1
        return prediction.y_hat, alone

    def _learn(self, rows: list[Sample | None]) -> None:
        """A round of the network, from the sample of each learner that has one."""
        some = next(row for row in rows if row is not None)
        blank = some._replace(y=np.full_like(some.y, np.nan))
        taken = [row or blank for row in rows]
        model: Any = self.model
        earlier = model.restored(
            [np.concatenate(parts) for parts in zip(*(r.kept for r in taken), strict=True)]
        )
        now = model.predict(np.stack([row.x for row in taken]))
        outgoing = model.learn(now, np.stack([row.y for row in taken]), earlier)
        model.merge(self.network.exchange_round(model, outgoing))
        self.learnt += 1
