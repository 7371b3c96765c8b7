"""An agent as a service: signals, health and metrics, and a status line in the log."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import AsyncIterator
from typing import Any

import numpy as np

from ..base.errors import DataError
from ..learning.weights import weight_names
from ..watch import Feed
from . import logs
from .asking import Asking
from .config import AgentConfig
from .explaining import explained
from .loop import Agent
from .service import Service, Snapshot

LOG = logging.getLogger(__name__)
#: A kind of `Agent.refused` that is a row of the stream; the others are messages.
READING = "reading"
#: Metrics that [http] publish = "counts" withholds.
ERRORS = ("rmse_rolling", "rmse_alone_rolling", "kernel_weight")
#: Weights in a status line.
MOST_WEIGHTS = 32
#: Seconds between two status lines, and looks in between whether the stream has ended.
EVERY, LOOKS = 1.0, 20


async def serve(config: AgentConfig) -> None:
    """Run an agent until its stream ends or it is asked to stop."""
    logs.setup(config.log, config.name)
    agent = Agent(config)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, agent.stop)
    async with _watched(agent):
        await agent.run()
    rows, lost = agent.rows, lost_readings(agent)
    reasons = [*rows.top(), *([f"{lost} {READING}, more than could wait"] if lost else [])]
    counts = {"rows": rows.read + lost, "used": rows.used, "refused": rows.total() + lost, "reasons": reasons}
    counts |= {"predictions_lost": agent.predictions.lost} if agent.predictions.lost else {}
    logs.tell(LOG, logging.INFO, "status", state="done", **summary(agent), **counts)
    _refuse_useless(agent)
    _refuse_lost(agent)


def _refuse_useless(agent: Agent) -> None:
    """End with an error where nothing of the stream was of use since the start, as with a wrong format."""
    rows = agent.rows
    if not rows.used and rows.first is not None:
        raise DataError(
            f"none of {rows.read} rows could be used; the first is {rows.first.kind}: {rows.first.reason}; "
            f"{rows.first.remedy}"
        )


def _refuse_lost(agent: Agent) -> None:
    """End with an error where a file or a pipe lacks predictions; what was read is learnt all the same."""
    lines = agent.predictions.lines
    if lines.lost:
        raise DataError(
            f"{lines.lost} predictions are lost: {lines.writing.fault or lines.writing.what}; expected room "
            "for all of them; make some; the readings were learnt all the same"
        )


def lost_readings(agent: Agent) -> int:
    """Messages that came while too many waited to be learnt."""
    return agent.refused[READING] + agent.topics.lost


def summary(agent: Agent) -> dict[str, Any]:
    """Rounds, errors and traffic so far, for the status line."""
    now, q, counts = time.monotonic(), agent.learner.weights, agent.transport.counts
    return {
        "round": agent.learner.round,
        "samples": agent.progress.samples,
        "seconds": agent.progress.seconds,
        "rmse": agent.progress.rmse,
        "rmse_alone": agent.progress.rmse_alone,
        "kernel": int(np.argmax(q)),
        "weight": float(q.max()),
        "up": sum(peer.is_up(now, 3.0) for peer in agent.peers.values()),
        "neighbours": len(agent.peers),
        "trusted": sum(part > 0.5 for part in agent.learner.trust.values()),
        "trust": [agent.learner.trust.get(name) for name in agent.peers],
        "weights": [round(float(weight), 4) for weight in q[:MOST_WEIGHTS]],
        "rounds_incomplete": agent.neighbourhood.incomplete,
        "messages_refused": sum(agent.refused.values()) + counts.refused,
        "messages_sent": counts.sent,
        "bytes_sent": counts.sent_bytes,
        "bytes_received": counts.received_bytes,
    }


@contextlib.asynccontextmanager
async def _watched(agent: Agent) -> AsyncIterator[None]:
    address = agent.config.http.address
    task = asyncio.create_task(_tell_status(agent))
    try:
        with contextlib.nullcontext() if address is None else service_of(agent, address):
            async with explained(agent):
                yield
    finally:
        task.cancel()


def service_of(agent: Agent, address: tuple[str, int]) -> Service:
    """The live page, health and metrics of an agent, served until closed."""
    config, http = agent.config, agent.config.http
    feed = Feed(
        config.network,
        target=config.target,
        unit=config.output.unit,
        own=config.name,
        inputs=config.columns.features,
        publish=http.publish,
        alarming=config.output.alarm_rate is not None,
    )
    asking = Asking(config, agent.learner, agent.predictions) if http.publish == "full" else None
    who: dict[str, Any]
    who = {"access": http.access(), "tls": http.context(config.transport)} if http.listen else {}
    service = Service(address, agent.status, lambda: snapshot(agent), feed=feed, predict=asking, **who)
    agent.predictions.feed, agent.progress.on_round = feed, service.round_seconds.observe
    logs.tell(LOG, logging.INFO, "serving the page, health and metrics", page=service.server.url)
    return service


async def _tell_status(agent: Agent) -> None:
    while True:
        show_status(agent)
        await _a_while(agent)
        logs.tell(
            LOG, logging.INFO, "status", state="ready" if agent.status.ready else "init", **summary(agent)
        )


async def _a_while(agent: Agent) -> None:
    """Until the next status line; if the stream ends meanwhile, others hear of it before we are gone."""
    for _ in range(LOOKS):
        was_done = agent.neighbourhood.done
        await asyncio.sleep(EVERY / LOOKS)
        if agent.neighbourhood.done and not was_done:
            show_status(agent)


def show_status(agent: Agent) -> None:
    """Tell our own live page and the neighbours how we are, and the page how the others are."""
    own, now = status_of(agent), time.monotonic()
    if agent.config.http.publish == "counts":
        own |= {"rmse": None, "rmse_alone": None, "weights": []}
    agent.messages.publish_status(own)
    feed = agent.predictions.feed
    if feed is not None:
        names = [name for name, _ in own["weights"]]
        ended = {name for name, peer in agent.peers.items() if peer.done is not None}
        for status in (own, *agent.messages.gossip.statuses(now, names)):
            feed.status({**status, "state": "done"} if status["learner"] in ended else status)


def status_of(agent: Agent) -> dict[str, Any]:
    """How an agent is, for the live page and its neighbours' pages."""
    now, counts, trust = time.monotonic(), agent.transport.counts, agent.learner.trust
    state = "done" if agent.neighbourhood.done else "ready" if agent.status.ready else "init"
    weights = agent.learner.weights
    names = weight_names(agent.learner.model, len(weights))
    near = [
        {"name": name, "up": peer.is_up(now, 3.0) or peer.done is not None, "trust": trust.get(name)}
        for name, peer in agent.peers.items()
    ]
    return {
        "learner": agent.config.name,
        "state": state,
        "round": agent.learner.round,
        "samples": agent.progress.samples,
        "rmse": agent.progress.rmse,
        "rmse_alone": agent.progress.rmse_alone,
        "weights": [[name, float(weight)] for name, weight in zip(names, weights, strict=False)],
        "neighbours": near,
        "messages_sent": counts.sent,
        "bytes_sent": counts.sent_bytes,
        "bytes_received": counts.received_bytes,
        "refused": sum(agent.refused.values()) + counts.refused,
        "rows_refused": agent.rows.total(),
        "alarms": agent.store.alarms.count,
        "faults": list(agent.status.faults),
    }


def snapshot(agent: Agent) -> Snapshot:
    """The agent's metrics, for a scrape; called from another thread, so it copies before it counts."""
    now, counts, peers = time.monotonic(), agent.transport.counts, dict(agent.peers)
    refused, rows = dict(agent.refused), dict(agent.rows)
    if lost := lost_readings(agent):
        rows[READING] = lost
    refused.pop(READING, None)
    errors = {"rmse_rolling": agent.progress.rmse, "rmse_alone_rolling": agent.progress.rmse_alone}
    found: dict[str, Any] = {
        "rounds": agent.learner.round,
        "rounds_incomplete": agent.neighbourhood.incomplete,
        "samples": agent.progress.samples,
        "readings_used": agent.rows.used,
        "readings_refused": rows,
        "dead_letters_lost": agent.rows.letters.lost,
        **{name: value for name, value in errors.items() if value is not None},
        "neighbour_up": {name: float(peer.is_up(now, 3.0)) for name, peer in peers.items()},
        "neighbour_trust": {str(name): part for name, part in dict(agent.learner.trust).items()},
        "neighbour_age_seconds": {name: now - peer.received_at for name, peer in peers.items()},
        "bytes_sent": counts.sent_bytes,
        "bytes_received": counts.received_bytes,
        "messages_refused": {**refused, "late": agent.neighbourhood.late, "transport": counts.refused},
        "kernel_weight": {str(p): float(weight) for p, weight in enumerate(agent.learner.weights)},
        "name_conflict": float(bool(agent.post.identity.seen_by(now))),
        "checkpoint_round": agent.store.saved,
        "checkpoint_age_seconds": now - agent.store.saving.well_at,
        "saves_failed": agent.store.saving.failed,
        "readings_unjournalled": agent.store.noting.failed,
        "alarms": agent.store.alarms.count,
        "predictions_lost": agent.predictions.lost,
    }
    hidden = ERRORS if agent.config.http.publish == "counts" else ()
    return {name: value for name, value in found.items() if name not in hidden}
