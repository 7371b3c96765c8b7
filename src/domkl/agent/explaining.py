"""Which inputs matter to a running agent's predictions, for its page and log: overall, and to one prediction.

What it needs of the learner is copied in the agent's loop; the rest is computed in other threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator
from typing import Any

from ..base.types import Array
from ..faces.saved import About
from ..learning import explain
from ..learning.explain import Function, Usual
from ..watch.access import Rate
from .config import AgentConfig
from .logs import tell
from .loop import Agent
from .streams import Scaling, encoding_of

LOG = logging.getLogger(__name__)
#: Seconds until the first look, and between two of them at least; if one takes long, so many times as long.
FIRST, EVERY, REST = 5.0, 60.0, 100.0
#: The most inputs of a model of which single predictions are explained, and how many of those a second.
MOST_ASKED, A_SECOND = 100, 1.0


class Explaining:
    """Answers in the target's unit; inputs that were made from one column are one."""

    def __init__(self, config: AgentConfig) -> None:
        columns, encoder = encoding_of(config.columns, config.takes_missing)
        about = About() if encoder is None else About(encoder.inputs, columns=columns)
        self.is_possible = 0 < config.inputs <= explain.MOST_INPUTS
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
        return explain.effects(*model, *self._named).listed(self._span)

    def of(self, model: tuple[Function, Usual], x: Array) -> list[list[Any]]:
        """Name and contribution to the prediction of x, as it is learnt (d,); the largest first."""
        rows = explain.contributions(*model, x, *self._named).rows()[: explain.MOST]
        return [[row["input"], self._span * row["contribution"]] for row in rows]


@contextlib.asynccontextmanager
async def explained(agent: Agent) -> AsyncIterator[None]:
    """Meanwhile a page that shows readings shows which inputs matter, and a log that is asked to tells it."""
    task = asyncio.create_task(_show(agent, Explaining(agent.config)))
    try:
        yield
    finally:
        task.cancel()


async def _show(agent: Agent, explaining: Explaining) -> None:
    pause, every = FIRST, _every(agent)
    while every and explaining.is_possible:
        await asyncio.sleep(pause)
        model = agent.learner.as_function()
        if model is None:
            continue
        start, round = time.monotonic(), agent.learner.round
        try:
            found = await asyncio.to_thread(explaining.overall, model)
        except Exception as error:  # nothing that is only shown may cost more than that
            tell(LOG, logging.WARNING, "inputs cannot be explained", reason=repr(error))
            return
        if found:
            _tell(agent, round, found)
        pause = max(every, REST * (time.monotonic() - start))


def _every(agent: Agent) -> float:
    """Seconds between two looks; 0 where nobody wants any."""
    asked, is_shown = agent.config.log.inputs, agent.predictions.feed is not None
    wanted = [EVERY] if is_shown and agent.config.http.publish == "full" else []
    return min([*wanted, *([asked] if asked else [])], default=0.0)


def _tell(agent: Agent, round: int, found: list[list[Any]]) -> None:
    if agent.predictions.feed is not None:
        agent.predictions.feed.explain(agent.config.name, round, found)
    if agent.config.log.inputs:
        tell(LOG, logging.INFO, "inputs", round=round, inputs=found)
