"""Labels that become known at times of their own, as an engine's remaining life does when it has failed."""

from __future__ import annotations

from collections import deque

import numpy as np
import numpy.typing as npt

from ..base import checks
from ..base.errors import InputError
from ..base.types import Array
from ..exchange.graph import Graph
from ..models.settings import Settings
from .driver import Rounds, Sample, learn_ready
from .results import RunOptions


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
        ready = list[deque[Sample]]()
        for j, due in enumerate(self.due):
            delay = self.delays[j, self.t]
            if self.t + delay < self.delays.shape[1]:
                sample = Sample(x[j].copy(), y[j], [each[j : j + 1].copy() for each in kept])
                due.setdefault(self.t + int(delay), []).append(sample)
            ready.append(deque(due.pop(self.t, ())))
        self.learnt += learn_ready(self.model, self.network, ready)
        self.t += 1
        return prediction.y_hat, alone
