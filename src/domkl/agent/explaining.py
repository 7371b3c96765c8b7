"""Which inputs matter to a running agent's predictions, for its live page: overall, and to one prediction.

What it needs of the learner is copied in the agent's loop; the rest is computed in other threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import AsyncIterator
from typing import Any

from ..base.types import Array
from ..faces.saved import About
from ..learning import explain
from ..learning.explain import Function, Usual
from ..watch.limits import Rate
from .config import AgentConfig
from .logs import tell
from .loop import Agent
from .scaling import Scaling
from .streams import encoding_of

LOG = logging.getLogger(__name__)
#: Seconds until the first look, and between two of them at least; if one takes long, so many times as long.
FIRST, EVERY, REST = 5.0, 60.0, 100.0
#: Inputs that are shown, those that matter most; and how many a model may have.
MOST, MOST_INPUTS = 30, 1000
#: The most inputs of a model of which single predictions are explained, and how many of those a second.
MOST_ASKED, A_SECOND = 100, 1.0


class Explaining:
    """Answers in the target's unit; inputs that were made from one column are one."""

    def __init__(self, config: AgentConfig) -> None:
        columns, encoder = encoding_of(config.columns, config.takes_missing)
        about = About() if encoder is None else About(encoder.inputs, columns=columns)
        self.is_possible = 0 < config.inputs <= MOST_INPUTS
        self._answers, self._rate = 0 < config.inputs <= MOST_ASKED, Rate(A_SECOND, burst=3)
        self._named = about.groups(config.inputs)
        self._span = Scaling.of(config.stream, config.inputs).target_span

    def may_answer(self) -> bool:
        """Whether a prediction can be explained now; TimeoutError if too many are asked for."""
        if self._answers and not self._rate.take():
            raise TimeoutError
        return self._answers

    def overall(self, model: tuple[Function, Usual]) -> list[list[Any]]:
        """Name, part, effect and direction of the inputs that matter most."""
        rows = explain.effects(*model, *self._named).rows()[:MOST]
        return [
            [row["input"], row["part"], self._span * row["effect"], explain.direction(row["trend"])]
            for row in rows
        ]

    def of(self, model: tuple[Function, Usual], x: Array) -> list[list[Any]]:
        """Name and contribution to the prediction of x, as it is learnt (d,); the largest first."""
        rows = explain.contributions(*model, x, *self._named).rows()[:MOST]
        return [[row["input"], self._span * row["contribution"]] for row in rows]


@contextlib.asynccontextmanager
async def explained(agent: Agent) -> AsyncIterator[None]:
    """Meanwhile the page shows which inputs matter, if it shows readings, too."""
    task = asyncio.create_task(_show(agent, Explaining(agent.config)))
    try:
        yield
    finally:
        task.cancel()


async def _show(agent: Agent, explaining: Explaining) -> None:
    pause = FIRST
    while agent.config.http.publish == "full" and explaining.is_possible:
        await asyncio.sleep(pause)
        feed, model = agent.predictions.feed, agent.learner.as_function()
        if feed is None or model is None:
            continue
        start, round = time.monotonic(), agent.learner.round
        try:
            found = await asyncio.to_thread(explaining.overall, model)
        except Exception as error:  # nothing that is only shown may cost more than that
            tell(LOG, logging.WARNING, "inputs cannot be explained", reason=repr(error))
            return
        if all(math.isfinite(part) and math.isfinite(effect) for _, part, effect, _ in found):
            feed.explain(agent.config.name, round, found)
        pause = max(EVERY, REST * (time.monotonic() - start))
