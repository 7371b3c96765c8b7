"""The one loop of a device: stream <-> learner <-> transport.

Two tasks and a callback share one learner, and none of them awaits anything while it changes it: `_work`
takes readings and opens rounds, `_receive` handles messages, `_watch` checks deadlines.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from ..base import checks
from ..learning.doubt import Doubt
from ..learning.first_order import Step
from ..learning.forecast import Origin
from ..models.settings import weight_names
from ..watch import Feed
from . import transports
from .ahead import Ahead
from .config import STORED, AgentConfig
from .logs import Refused, tell
from .making import keep_columns, make
from .messages import PAUSE, Connection, MessageHandler
from .output import Out, Predictions
from .peers import Neighbourhood, Peer, edge_number
from .rows import RefusedRows, RowRefused, fault_of, letters_of
from .store import Store
from .streams import Reading, Scaling, Stream, stream_of
from .topics import Topics
from .transports.base import Message


@dataclass
class Status:
    """How the agent's loop is; the loop itself keeps it up to date."""

    alive_at: float = field(default_factory=time.monotonic)
    ready: bool = False  # has its neighbours, or has gone on without them
    faults: tuple[str, ...] = ()  # what keeps it from being ready although it learns

    def beat(self) -> None:
        self.alive_at = time.monotonic()


async def race(*ways: Coroutine[Any, Any, None]) -> None:
    """Run all until the first ends, and cancel the rest."""
    tasks = [asyncio.create_task(way) for way in ways]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


LOG = logging.getLogger(__name__)
T = TypeVar("T")
#: Samples over which the error is averaged.
ROLLING = 200
#: The largest error that counts, also for what is no number; the square of a larger one would overflow.
MOST_ERROR = 1e150
#: An error so many times the usual one is of an absurd reading, and tells nothing of the learner.
FAR = 1000.0


class Progress:
    """Samples, recent error and time of one agent, for its status line and /metrics.

    Parameters
    ----------
    unit : what one of the learner's labels is in the target's own unit.
    is_log_odds : predictions are log-odds of classes -1 and 1, and count as 2 P(y = 1) - 1.
    """

    def __init__(self, unit: float = 1.0, is_log_odds: bool = False) -> None:
        self.samples = 0
        self._error = 0.0  # mean squares, in the learner's unit
        self._alone: float | None = None  # with own samples only, where the model can tell
        self._unit, self._is_log_odds, self._doubt = unit, is_log_odds, Doubt(FAR)
        self.seconds = 0.0  # from the first round's start to the last one's end
        self._on_round: Callable[[float], object] = lambda _: None
        self._began_at = self._started_at = 0.0
        self._on_prediction: Callable[[float], object] = lambda _: None
        self._lags: deque[float] = deque(maxlen=ROLLING)

    def tell(self, on_round: Callable[[float], object], on_prediction: Callable[[float], object]) -> None:
        """Call these with the seconds of each round, and from each reading's arrival to its prediction."""
        self._on_round, self._on_prediction = on_round, on_prediction

    def note_prediction(self, reading: Reading) -> None:
        """It was predicted just now."""
        if reading.arrived is None:
            return
        self._lags.append(max(0.0, time.time() - reading.arrived))
        self._on_prediction(self._lags[-1])

    @property
    def lag(self) -> float | None:
        """Seconds from a reading's arrival to its prediction, of which 99 % of the last are shorter."""
        lags = sorted(self._lags.copy())
        return lags[(99 * (len(lags) - 1) + 99) // 100] if lags else None

    def start_round(self, now: float) -> None:
        """A sample is about to be learnt."""
        self._started_at = now

    def account(self, y: float, y_hat: float, step: Step | None = None) -> None:
        """It was learnt, and this had been predicted; `step` has what own samples only predicted."""
        alone = None if step is None or step.alone is None else y - self._in_unit(step.alone)
        self.note_errors(y - self._in_unit(y_hat), alone)

    def note_errors(self, missed: float, alone: float | None) -> None:
        """By how much a prediction was wrong, and by how much it had been with own samples only."""
        self.samples += 1
        if not self._doubt.believes(abs(missed), math.sqrt(self._error), self.samples):
            return
        self._error = self._moved(self._error, missed)
        if alone is not None:
            self._alone = self._moved(0.0 if self._alone is None else self._alone, alone)

    @classmethod
    def of(cls, config: AgentConfig, scaling: Scaling) -> Progress:
        """That of an agent: the paper's learner predicts log-odds where it classifies."""
        is_log_odds = config.model.predicts_log_odds and getattr(config.model, "loss", "") == "logistic"
        return cls(scaling.target_span, is_log_odds)

    @property
    def rmse(self) -> float | None:
        """Root mean squared error of recent predictions, in the target's unit; None before any."""
        return self._unit * math.sqrt(self._error) if self.samples else None

    @property
    def rmse_alone(self) -> float | None:
        """The same with own samples only, where the model can tell."""
        return None if self._alone is None else self._unit * math.sqrt(self._alone)

    def _in_unit(self, y_hat: float) -> float:
        return math.tanh(y_hat / 2) if self._is_log_odds else y_hat

    def _moved(self, error: float, miss: float) -> float:
        """A running mean squared error after one more sample."""
        share = max(1 / self.samples, 1 / ROLLING)
        return error + share * (min(MOST_ERROR, abs(miss)) ** 2 - error)

    def end_round(self) -> None:
        """Its round has ended."""
        now = time.monotonic()
        self._began_at = self._began_at or self._started_at
        self.seconds = now - self._began_at
        self._on_round(now - self._started_at)


#: How long an agent that is asked to stop waits for its open round, in seconds.
LAST_MOMENT = 2.0
#: If the clock jumps by more than so many seconds, the process was suspended; and how often to look, at most.
SUSPENDED, LOOK = 0.5, 0.05


#: A kind of `Agent.refused` that is a row of the stream; the others are messages.
READING = "reading"
#: Metrics that [http] publish = "counts" withholds.
ERRORS = ("rmse_rolling", "rmse_alone_rolling", "kernel_weight")
#: Weights in a status line.
MOST_WEIGHTS = 32
#: Seconds of work after which messages are received although more readings are ready, where nobody waits.
TURN = 0.02
#: Seconds after which a reading that waits makes an agent no longer ready.
LATE = 10.0


#: A target that counts as missing where forecasts are made.
ABSURD = RowRefused("absurd", "the target lies far beyond all before", "check the sensor; only x is used")


class Agent:
    """One learner between a stream and a transport.

    Parameters
    ----------
    config : an `AgentConfig`.
    transport : not yet open; by default the one that the configuration names.
    stream : readings; by default those that the configuration names.
    out : takes each prediction as a dict; by default it is written where the configuration says.
    """

    def __init__(
        self,
        config: AgentConfig,
        transport: transports.Transport | None = None,
        stream: AsyncIterator[Reading] | None = None,
        out: Out | None = None,
    ) -> None:
        given, (config, self.learner) = config, make(config, edge_number())
        self.config = config
        keep_columns(given, config)
        self.transport = transport or transports.make(config.transport_settings())
        self.ahead = None if config.horizon is None else Ahead(config.horizon, config.inputs)
        self.store = Store.of(config, self.ahead)
        restored, graph = self._restore(), self.store.graph
        names = self.store.names if graph else config.neighbours
        near = Neighbourhood(self.learner, config.rounds, names, graph, self.store.addresses, restored)
        self.neighbourhood = near
        self.status, self.refused = Status(), Refused(LOG)
        self.topics = Topics(config, self.transport, self.refused)
        self.rows = RefusedRows(letters_of(config))
        self.connection = Connection(self.transport, near, config, self.refused)
        parts = self.store, near, self.transport, self.refused, self.topics
        self.messages = MessageHandler(config, self.learner, *parts)
        scaling = Scaling.of(config.stream, config.inputs)
        about = scaling, config.target, self.topics, out, self.store.errors, self.store.alarms
        repeats = config.stream.kind in STORED or (restored and not config.stream.passes)
        again = self.store.readings if repeats else None
        self.predictions = Predictions(config.output, *about, again=again)
        self.progress, self.stream, self._stopping = Progress.of(config, scaling), stream, asyncio.Event()
        self._is_open = self._is_going_on = False  # a round is open; readings are being taken
        self._over: asyncio.Future[None] | None = None  # done when no round is open and no reading ready
        self._opened_at = time.monotonic()

    @property
    def peers(self) -> dict[str, Peer]:
        return self.neighbourhood.peers

    async def run(self) -> None:
        """Learn until the stream ends or `stop` is called."""
        await self.transport.open()
        try:
            self.messages.subscribe()
            await self.topics.open()
            self.messages.publish_state("init")
            receiving, keeping = self.connection.receive(self._receive), self.connection.keep()
            await race(self._work(), receiving, self._watch(), keeping, self._stopped())
        finally:
            self.messages.publish_state("done")
            await self.topics.close()
            await self.connection.close()
            self.store.close()
            self.predictions.close()
            self.rows.close()
        self.store.check_saved()

    def stop(self) -> None:
        """Stop in good order: an open round may still close, or else is learnt again after a restart."""
        self._stopping.set()

    async def _stopped(self) -> None:
        await self._stopping.wait()
        end = time.monotonic() + min(self.config.rounds.deadline, LAST_MOMENT)
        while self.neighbourhood.waits and time.monotonic() < end:
            await asyncio.sleep(PAUSE)
        if self.neighbourhood.end_round(self.config.stream.passes):
            self._save()

    # Readings

    async def _work(self) -> None:
        if self._may_wait:
            await self._meet()
        self._save()  # before the first update is sent: after a restart it must be the same learner
        self.status.ready = True
        self.messages.publish_state("ready")
        meeting = asyncio.create_task(asyncio.sleep(0) if self._may_wait else self._meet())
        try:
            await self._learn_all()
            await meeting
        finally:
            meeting.cancel()
        await self._part()

    @property
    def _may_wait(self) -> bool:
        """Whether readings wait for neighbours at the start: those of a file that ends have no haste."""
        return self.neighbourhood.in_step or self.config.stream.ends

    async def _learn_all(self) -> None:
        for reading in self.store.noted():
            await self._learn_from(reading)
        store, messages = self.store, self.topics.readings
        self.stream = self.stream or stream_of(
            self.config, store.readings, origin=store.origin, messages=messages
        )
        if isinstance(self.stream, Stream):
            self.stream.refuse_to(self.rows)
        try:
            async for reading in self.stream:
                await self._learn_from(reading)
        finally:
            if isinstance(self.stream, Stream):
                await self.stream.aclose()

    async def _learn_from(self, reading: Reading) -> None:
        """Take a reading, and those that are ready after it; returns when no round is open."""
        if not self._stopping.is_set():
            self._go_on(reading)
        if not self.neighbourhood.in_step:
            await asyncio.sleep(0)
        while self.neighbourhood.waits or self._stopping.is_set():  # in the end until we are cancelled
            self._over = asyncio.get_running_loop().create_future()
            await self._over

    def _go_on(self, reading: Reading | None = None) -> None:
        """Take readings until a round stays open or none is ready; each saves a turn of the event loop."""
        start = time.monotonic()
        self._is_going_on = True  # whoever ends a round meanwhile leaves the next reading to us
        try:
            while reading is not None:
                self._take(reading)
                is_turn_over = not self.neighbourhood.in_step and time.monotonic() - start > TURN
                reading = None if self.neighbourhood.waits or is_turn_over else self._ready()
        finally:
            self._is_going_on = False
        if not self.neighbourhood.waits and self._over is not None and not self._over.done():
            self._over.set_result(None)

    def _try_to_go_on(self) -> None:
        """Close the round if it is complete, and take the readings that are ready."""
        was_open = self._is_open
        self._close()
        if was_open and not self._is_open and not self._is_going_on:
            self._go_on(self._ready())

    def _ready(self) -> Reading | None:
        """The next reading, if one is ready and we are not stopping."""
        if self._stopping.is_set() or not isinstance(self.stream, Stream):
            return None
        return self.stream.ready()

    def _take(self, reading: Reading) -> None:
        """Use a reading, or refuse it whatever is wrong with it; either way the next is another.

        Where nobody waits it is predicted before anything that takes long.
        """
        is_early = reading.x is not None and not self.neighbourhood.in_step and self.ahead is None
        found = self._guarded(reading, self._predict) if is_early else None
        self._between_rounds()
        self.store.take(reading)
        if not is_early:
            found = self._guarded(reading, self._predict)
        if found is not None:
            self._guarded(reading, functools.partial(self._use, *found))
        if self._is_open:
            self._close_or_ask()

    def _guarded(self, reading: Reading, step: Callable[[Reading], T]) -> T | None:
        """What a step says of a reading; None if it refuses it."""
        try:
            return step(reading)
        except OSError:  # of the place that predictions are written to, not of the reading
            raise
        except Exception as error:
            self._is_open = self.neighbourhood.waits
            self.rows.note(fault_of(error), reading.index, *(reading.source or (None, reading)))
            return None

    def _predict(self, reading: Reading) -> tuple[Any, Any]:
        """The inputs and their prediction, or those that wait for this label; what is known of forecasts."""
        x, round = reading.x, self.learner.round + (self.learner.waiting and not self.neighbourhood.in_step)
        if self.ahead is not None:
            found = self.ahead.forecast(self.learner, reading)
            self.predictions.write_ahead(reading, round, found, self.ahead)
            if found.absurd:
                self.rows.note(ABSURD, reading.index, *(reading.source or (None, reading)))
            self.progress.note_prediction(reading)
            return found.rows, None
        if x is None:
            waited = self.store.labels.take(reading)
            self.predictions.write_label(reading, round, waited)
            return waited.x, waited.y_hat
        y_hat = self.learner.predict(x)
        self.predictions.write(reading, round, y_hat)
        self.progress.note_prediction(reading)
        if reading.y is None:
            self.store.labels.expect(reading, y_hat)
        return x, y_hat

    def _use(self, x: Any, y_hat: Any, reading: Reading) -> None:
        """Open a round if there is a label."""
        if self.ahead is not None:
            for row in x:
                self._learn_ahead(self.ahead, row)
        elif reading.y is not None:
            self._learn(x, reading.y, y_hat)
            if reading.x is not None:
                self.predictions.label(reading.index if reading.id is None else reading.id, reading.y)
        self.rows.note_used()

    def _learn(self, x: Any, y: float, y_hat: float) -> None:
        self._opened_at = time.monotonic()
        self.progress.start_round(self._opened_at)
        update = self.learner.observe(checks.finite_or_missing("x", x), y)
        self._is_open = True
        sent = self.messages.send(update)
        self.store.remember(update.round, sent, self._durable())
        self.progress.account(y, y_hat, self.learner.step)
        if update.round:  # the first error says nothing about the learner
            self.store.errors.note(y - y_hat)

    def _learn_ahead(self, ahead: Ahead, row: Origin) -> None:
        """A round for a forecast whose labels are known."""
        self._opened_at = time.monotonic()
        self.progress.start_round(self._opened_at)
        update, missed, alone = ahead.learn(self.learner, row)
        self._is_open = True
        self.store.remember(update.round, self.messages.send(update), self._durable())
        if math.isfinite(missed):
            self.progress.note_errors(missed, alone)

    def _close_or_ask(self) -> None:
        """Close the round that has just been opened, or ask for what it misses."""
        self._close()
        if self._is_open:
            missing = self.neighbourhood.missing()
            self.transport.expect(len(missing))
            # Updates that are known to exist are asked for at once, so that a replay runs at full speed.
            late = [peer for peer in missing if peer.round > self.learner.round]
            if late and self._is_open:
                self.messages.ask(late, PAUSE)

    def _close(self) -> None:
        """Close the open round, if there is one and it is complete."""
        if not self._is_open or not self.neighbourhood.close_if_complete():
            return
        self._is_open = False
        self.progress.end_round()
        self.status.beat()

    def _between_rounds(self) -> None:
        """Everything that changes the learner, besides readings and updates, happens here."""
        self.neighbourhood.settle()
        before, following = self.peers, self.neighbourhood.is_graph_new
        changed = self.neighbourhood.update(self.store.readings)
        if changed or self.store.due(self.learner.round):
            self._save()
        self.messages.rest()
        if following:
            self.messages.follow(before, self.peers)
            self.messages.publish_state("ready")

    # State

    def _save(self) -> None:
        self.neighbourhood.settle()
        self.predictions.flush()  # what is saved as learnt is not predicted again after a restart
        near, starts = self.neighbourhood, self.messages.identity.incarnation.starts
        stream, origin = self.stream, self.store.origin
        if isinstance(stream, Stream):
            origin = stream.origin_at(self.store.readings)
        self.store.hold(starts, near.graph, list(near.peers), near.addresses, origin)
        self.store.forget(self._durable())
        self.store.save(self.learner)

    def _check_faults(self, now: float) -> None:
        """Report what cannot be written, and try to save again even if no reading comes."""
        self.messages.note_unused()
        faults = [self.messages.check_name(now), self.store.saving.fault, self.store.noting.fault]
        faults += [*self.predictions.faults, self.topics.fault]
        faults += [self.stream.fault] if isinstance(self.stream, Stream) else []
        waiting, age = self.backlog
        faults += [f"{waiting} readings wait, the oldest for {age:.0f} s"] if age > LATE else []
        self.status.faults = tuple(filter(None, faults))
        if self.store.saving.retry_due and not self.neighbourhood.waits:
            self._save()

    def _durable(self) -> int:
        """The earliest round to which a neighbour may be restored."""
        return min([peer.durable for peer in self.peers.values()], default=self.learner.round)

    def _restore(self) -> bool:
        """Restore the last checkpoint; whether there is one."""
        found = self.store.load(self.learner)
        if found is None:
            return False
        for reason in found.skipped:
            tell(LOG, logging.WARNING, "checkpoint refused", reason=reason)
        if self.config.rounds.mode == "async":
            self.learner.reset_edges(edge_number())
        tell(LOG, logging.INFO, "resumed", round=self.learner.round, readings=self.store.readings)
        return True

    # Deadlines

    async def _meet(self) -> None:
        """Wait until every neighbour has sent a message."""
        end = time.monotonic() + self.config.rounds.start
        while not self.neighbourhood.all_met() and time.monotonic() < end:
            self.messages.hello(self.neighbourhood.wants())
            await asyncio.sleep(PAUSE * 2)
        self.neighbourhood.start()

    async def _part(self) -> None:
        """Inform the neighbours that our stream has ended, and stay while they may need our updates."""
        self.neighbourhood.end_stream()
        end = time.monotonic() + self.config.rounds.start
        while time.monotonic() < end:
            self.messages.hello({})
            await asyncio.sleep(PAUSE * 4)
            learning = self.neighbourhood.still_learning()
            if not learning:
                break
            if any(peer.is_up(time.monotonic(), 2.0) for peer in learning):
                end = time.monotonic() + self.config.rounds.start
        for _ in range(3):  # the last message may be lost
            self.messages.hello({})
            await asyncio.sleep(PAUSE)
        self.neighbourhood.end()
        self._save()

    async def _watch(self) -> None:
        tick = min(self.config.rounds.resend / 5, self.config.rounds.deadline / 5, LOOK)
        last = time.monotonic()
        while True:
            await asyncio.sleep(tick)
            now = time.monotonic()
            if now - last > tick + SUSPENDED:  # we were suspended: first receive what has arrived meanwhile
                self._opened_at = now
            last = now
            self.transport.expect(1)  # hand out whatever has arrived
            self.predictions.flush()
            self.status.beat()
            self._check_faults(now)
            if self.neighbourhood.waits:
                self._check_open_round(now - self._opened_at + tick)  # its age at the next check
            elif self.status.ready and self.neighbourhood.follows:  # also while no reading arrives
                self._between_rounds()
            if self.messages.is_hello_due(now):
                self.messages.hello(self.neighbourhood.wants_of_missing(now))

    def _check_open_round(self, age: float) -> None:
        self.neighbourhood.drop_late(age)
        if age > self.config.rounds.resend:
            self.messages.ask(self.neighbourhood.missing(), self.config.rounds.resend)
        self._try_to_go_on()

    # Messages

    def _receive(self, messages: list[Message]) -> None:
        for topic, payload in messages:
            self.messages.receive(topic, payload)
        self._try_to_go_on()
        self._keep_up()

    def _keep_up(self) -> None:
        """Where nobody waits for anybody, go through the rounds of neighbours that have more readings."""
        near = self.neighbourhood
        if near.in_step or near.done or not near.started or self._stopping.is_set():
            return
        update = self.learner.follow()
        if update is not None:
            self.store.remember(update.round, self.messages.send(update), self._durable())

    # What it tells others

    @property
    def backlog(self) -> tuple[int, float]:
        """How many readings wait, and for how many seconds the oldest does; may be asked in any thread."""
        stream = self.stream
        taken, at = stream.backlog if isinstance(stream, Stream) else (0, 0.0)
        waiting, oldest = self.topics.readings.backlog
        first = at if taken else oldest if waiting else time.time()
        return taken + waiting, 0.0 if self.config.stream.ends else max(0.0, time.time() - first)

    def lost_readings(self) -> int:
        """Messages that came while too many waited to be learnt."""
        return self.refused[READING] + self.topics.lost

    def _counts(self) -> dict[str, Any]:
        """What the status line and the live page both tell."""
        counts = self.transport.counts
        return {
            "round": self.learner.round,
            "samples": self.progress.samples,
            "rmse": self.progress.rmse,
            "rmse_alone": self.progress.rmse_alone,
            "neighbours_used": len(self.neighbourhood.used(time.monotonic())),
            "backlog": self.backlog[0],
            "lag": self.progress.lag,
            "messages_sent": counts.sent,
            "bytes_sent": counts.sent_bytes,
            "bytes_received": counts.received_bytes,
        }

    def _refused_messages(self) -> int:
        return self.refused.faulty + self.transport.counts.refused

    def summary(self) -> dict[str, Any]:
        """Rounds, errors and traffic so far, for the status line."""
        now, q = time.monotonic(), self.learner.weights
        return {
            **self._counts(),
            "seconds": self.progress.seconds,
            "kernel": int(np.argmax(q)),
            "weight": float(q.max()),
            "up": sum(peer.is_up(now, 3.0) for peer in self.peers.values()),
            "neighbours": len(self.peers),
            "trusted": sum(part > 0.5 for part in self.learner.trust.values()),
            "trust": [self.learner.trust.get(name) for name in self.peers],
            "weights": [round(float(weight), 4) for weight in q[:MOST_WEIGHTS]],
            "rounds_incomplete": self.neighbourhood.incomplete,
            "messages_refused": self._refused_messages(),
        }

    def show_status(self) -> None:
        """Tell our own live page and the neighbours how we are, and the page how the others are."""
        own, now = self.report(), time.monotonic()
        if self.config.http.publish == "counts":
            own |= {"rmse": None, "rmse_alone": None, "weights": []}
        self.messages.publish_status(own)
        feed = self.predictions.feed
        if feed is not None:
            names = [name for name, _ in own["weights"]]
            ended = {name for name, peer in self.peers.items() if peer.done is not None}
            for status in (own, *self.messages.gossip.statuses(now, names)):
                feed.status({**status, "state": "done"} if status["learner"] in ended else status)

    def report(self) -> dict[str, Any]:
        """How an agent is, for the live page and its neighbours' pages."""
        now, trust, weights = time.monotonic(), self.learner.trust, self.learner.weights
        state = "done" if self.neighbourhood.done else "ready" if self.status.ready else "init"
        names = weight_names(self.learner.model, len(weights))
        near = [
            {"name": name, "up": peer.is_up(now, 3.0) or peer.done is not None, "trust": trust.get(name)}
            for name, peer in self.peers.items()
        ]
        return {
            **self._counts(),
            "learner": self.config.name,
            "state": state,
            "weights": [[name, float(weight)] for name, weight in zip(names, weights, strict=False)],
            "neighbours": near,
            "refused": self._refused_messages(),
            "rows_refused": self.rows.total(),
            "alarms": self.store.alarms.count,
            "faults": list(self.status.faults),
        }

    def metrics(self) -> dict[str, Any]:
        """The agent's metrics, for a scrape; called from another thread, so it copies before it counts."""
        now, counts, peers = time.monotonic(), self.transport.counts, dict(self.peers)
        refused, rows = dict(self.refused), dict(self.rows)
        if lost := self.lost_readings():
            rows[READING] = lost
        refused.pop(READING, None)
        errors = {"rmse_rolling": self.progress.rmse, "rmse_alone_rolling": self.progress.rmse_alone}
        found: dict[str, Any] = {
            "rounds": self.learner.round,
            "rounds_incomplete": self.neighbourhood.incomplete,
            "samples": self.progress.samples,
            "readings_used": self.rows.used,
            "readings_refused": rows,
            "backlog": self.backlog[0],
            "backlog_age_seconds": self.backlog[1],
            "dead_letters_lost": self.rows.letters.lost,
            **{name: value for name, value in errors.items() if value is not None},
            "neighbour_up": {name: float(peer.is_up(now, 3.0)) for name, peer in peers.items()},
            "neighbour_trust": {str(name): part for name, part in dict(self.learner.trust).items()},
            "neighbours_used": len(self.neighbourhood.used(now)),
            "neighbour_age_seconds": {name: now - peer.received_at for name, peer in peers.items()},
            "bytes_sent": counts.sent_bytes,
            "bytes_received": counts.received_bytes,
            "messages_refused": {**refused, "late": self.neighbourhood.late, "transport": counts.refused},
            "kernel_weight": {str(p): float(weight) for p, weight in enumerate(self.learner.weights)},
            "name_conflict": float(bool(self.messages.identity.seen_by(now))),
            "checkpoint_round": self.store.saved,
            "checkpoint_age_seconds": now - self.store.saving.well_at,
            "saves_failed": self.store.saving.failed,
            "readings_unjournalled": self.store.noting.failed,
            "alarms": self.store.alarms.count,
            "predictions_lost": self.predictions.lost,
        }
        hidden = ERRORS if self.config.http.publish == "counts" else ()
        return {name: value for name, value in found.items() if name not in hidden}

    def show_on(
        self, feed: Feed, on_round: Callable[[float], object], on_prediction: Callable[[float], object]
    ) -> None:
        """Show predictions and the state on a live page, and tell how long rounds and predictions take."""
        self.predictions.show_on(feed)
        self.progress.tell(on_round, on_prediction)
