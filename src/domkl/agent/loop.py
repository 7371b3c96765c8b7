"""The one loop of a device: stream <-> learner <-> transport.

Two tasks and a callback share one learner, and none of them waits while it changes it: `_work` takes readings
and opens rounds, `_hear_all` takes messages, `_watch` looks at the clock.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import numpy as np

from ..base.errors import InputError
from . import transports
from .config import AgentConfig
from .connection import Connection
from .conversation import PAUSE, Conversation
from .logs import Refused, tell
from .making import make
from .memory import Memory
from .neighbourhood import Neighbourhood, number
from .output import Out, Predictions
from .peers import Peer
from .post import Post
from .progress import Progress
from .service import Status
from .streams import Reading, Scaling, Stream, open_stream
from .transports.inbox import Message

LOG = logging.getLogger(__name__)
#: How long an agent that is told to stop waits for its open round, in seconds.
LAST_MOMENT = 2.0
#: An agent whose own clock jumps by as many seconds was suspended, or its machine was.
SUSPENDED = 0.5
#: Seconds between two looks at the clock, at most.
LOOK = 0.05


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
        config, self.learner = make(config, number())
        self.config = config
        self.transport = transport or transports.make(config.transport_settings())
        self.memory = Memory(config.checkpoint, config.stream.journal, config.name, config.network)
        restored = self._remember()
        names = self.memory.names if self.memory.graph else config.neighbours
        self.around = Neighbourhood(self.learner, config.rounds, names, self.memory.graph, restored)
        self.post = Post(self.transport, self.learner, self.memory.incarnation)
        self.status, self.progress, self.refused = Status(), Progress(), Refused(LOG)
        self.connection = Connection(self.transport, self.around, config)
        self.talk = Conversation(config, self.learner, self.memory, self.around, self.post, self.refused)
        scaling = Scaling.of(config.stream, config.inputs)
        self.predictions = Predictions(config.output, scaling, self.post, out, self.memory.errors)
        self.stream = stream
        self._stopping = asyncio.Event()
        self._is_open = self._is_going_on = False  # a round is; readings are being taken
        self._over: asyncio.Future[None] | None = None  # done when no round is open and no reading ready
        self._opened_at = time.monotonic()

    @property
    def peers(self) -> dict[str, Peer]:
        """The neighbours, by name."""
        return self.around.peers

    async def run(self) -> None:
        """Learn until the stream ends or `stop` is called."""
        await self.transport.open()
        try:
            self.talk.subscribe()
            self.talk.say_state("init")
            hearing, keeping = self.connection.listen(self._hear_all), self.connection.keep()
            await _race(self._work(), hearing, self._watch(), keeping, self._stopped())
        finally:
            self.talk.say_state("done")
            await self.connection.close()
            self.memory.close()
            self.predictions.lines.close()

    def stop(self) -> None:
        """End in good order: an open round has a moment to close, or is learnt again after a restart."""
        self._stopping.set()

    async def _stopped(self) -> None:
        await self._stopping.wait()
        end = time.monotonic() + min(self.config.rounds.deadline, LAST_MOMENT)
        while self.learner.waiting and time.monotonic() < end:
            await asyncio.sleep(PAUSE)
        if not self.learner.waiting:
            self._save()

    # Readings

    async def _work(self) -> None:
        await self._meet()
        self._save()  # before the first update leaves: a restart must be the same learner
        self.status.ready = True
        self.talk.say_state("ready")
        for reading in self.memory.noted():
            await self._learn_from(reading)
        if self.stream is None:
            self.stream = self._open_stream()
        try:
            async for reading in self.stream:
                await self._learn_from(reading)
        finally:
            if isinstance(self.stream, Stream):
                await self.stream.aclose()
        await self._part()

    async def _learn_from(self, reading: Reading) -> None:
        """Take a reading, and those that are ready after it; returns when no round is open."""
        if not self._stopping.is_set():
            self._go_on(reading)
        while self.learner.waiting or self._stopping.is_set():  # in the end until we are cancelled
            self._over = asyncio.get_running_loop().create_future()
            await self._over

    def _go_on(self, reading: Reading | None = None) -> None:
        """Take readings until a round stays open or none is ready; each saves a turn of the event loop."""
        self._is_going_on = True  # whoever ends a round meanwhile leaves the next reading to us
        try:
            while reading is not None:
                self._take(reading)
                reading = None if self.learner.waiting else self._ready()
        finally:
            self._is_going_on = False
        if not self.learner.waiting and self._over is not None and not self._over.done():
            self._over.set_result(None)

    def _try_to_go_on(self) -> None:
        """If nobody is waited for any more, end the round and take what is ready."""
        was_open = self._is_open
        self._close()
        if was_open and not self._is_open and not self._is_going_on:
            self._go_on(self._ready())

    def _ready(self) -> Reading | None:
        """The next reading, if it is there and we are to go on."""
        if self._stopping.is_set() or not isinstance(self.stream, Stream):
            return None
        return self.stream.ready()

    def _open_stream(self) -> Stream:
        section, memory = self.config.stream, self.memory
        return open_stream(
            section, self.config.inputs, memory.readings, origin=memory.origin, messages=self.talk.readings
        )

    def _take(self, reading: Reading) -> None:
        """Predict, and open a round where there is a label."""
        self._between_rounds()
        self.memory.note(reading)
        x, y, y_hat = reading.x, reading.y, 0.0
        if x is None:
            x, y_hat = self.memory.waiting.pop(str(reading.id), (None, 0.0))
        else:
            y_hat = self.learner.predict(x)
            self.predictions.tell(reading, self.learner.round, y_hat)
        if x is None:
            self.refused.note("label without input", id=reading.id)
        elif y is None and reading.id is not None:
            self.memory.expect_label(reading.id, x, y_hat)
        self.memory.readings = reading.index + 1  # from here to the open round nothing can be saved
        if x is not None and y is not None:
            self._learn(x, y, y_hat)

    def _learn(self, x: Any, y: float, y_hat: float) -> None:
        self._opened_at = time.monotonic()
        self.progress.start_round(self._opened_at)
        try:
            update = self.learner.observe(x, y)
        except InputError as error:
            self.refused.note("sample", reason=str(error))
            return
        sent = self.post.send(update, self.memory.durable(update.round))
        self.memory.remember(update.round, sent, self._durable())
        self.progress.account(y, y_hat)
        if update.round:  # the first error says nothing about the learner
            self.memory.errors.note(y - y_hat)
        self._is_open = True
        self._close()
        if self._is_open:
            missing = self.around.missing()
            self.transport.expect(len(missing))
            # Updates that are known to exist are asked for at once, so that a replay runs at full speed.
            late = [peer for peer in missing if peer.round > update.round]
            if late and self._is_open:
                self.talk.ask(late, PAUSE)

    def _close(self) -> None:
        """End the open round, if there is one and nobody is waited for."""
        if not self._is_open or not self.around.close_if_nobody_is_missing():
            return
        self._is_open = False
        self.progress.end_round()
        self.status.beat()

    def _between_rounds(self) -> None:
        """All that may change a learner but readings and updates happens here."""
        before, following = self.peers, self.around.wanted is not None
        changed = self.around.update(self.memory.readings)
        if changed or self.memory.due(self.learner.round):
            self._save()
        if following:
            self.post.ignore(before.keys() - self.peers.keys())
            self.post.listen(self.peers.keys() - before.keys())
            self.talk.say_state("ready")

    # Memory

    def _save(self) -> None:
        self.predictions.lines.flush()  # a restart will not predict again what is saved as learnt
        if isinstance(self.stream, Stream):
            self.memory.origin = self.stream.origin
        self.memory.graph, self.memory.names = self.around.graph, list(self.peers)
        self.memory.forget(self._durable())
        self.memory.save(self.learner)

    def _durable(self) -> int:
        """The first round to which a neighbour may go back."""
        return min([peer.durable for peer in self.peers.values()], default=self.learner.round)

    def _remember(self) -> bool:
        """Go back to the last checkpoint; whether there is one."""
        found = self.memory.load(self.learner)
        if found is None:
            return False
        for reason in found.skipped:
            tell(LOG, logging.WARNING, "checkpoint refused", reason=reason)
        if self.learner.asynchronous:
            self.learner.reset_edges(number())
        tell(LOG, logging.INFO, "resumed", round=self.learner.round, readings=self.memory.readings)
        return True

    # The clock

    async def _meet(self) -> None:
        """Wait until every neighbour has spoken."""
        end = time.monotonic() + self.config.rounds.start
        while not self.around.all_met() and time.monotonic() < end:
            self.talk.hello(self.around.wants())
            await asyncio.sleep(PAUSE * 2)
        self.around.begin()

    async def _part(self) -> None:
        """Tell the neighbours that our stream has ended, and stay while they may need what we sent."""
        self.around.let_go_of_the_lost()  # and say so, with our last word
        self.around.done = True
        end = time.monotonic() + self.config.rounds.start
        while time.monotonic() < end:
            self.talk.hello({})
            await asyncio.sleep(PAUSE * 4)
            learning = self.around.still_learning()
            if not learning:
                break
            if any(peer.up(time.monotonic(), 2.0) for peer in learning):
                end = time.monotonic() + self.config.rounds.start
        for _ in range(3):  # the last word may be lost
            self.talk.hello({})
            await asyncio.sleep(PAUSE)
        self.around.end()
        self._save()

    async def _watch(self) -> None:
        rounds = self.config.rounds
        tick = min(rounds.resend / 5, rounds.deadline / 5, LOOK)
        last = time.monotonic()
        while True:
            await asyncio.sleep(tick)
            now = time.monotonic()
            if now - last > tick + SUSPENDED:  # it was we who hung: first hear what has come meanwhile
                self._opened_at = now
            last = now
            self.transport.expect(1)  # whatever is in by now is worth hearing
            self.predictions.lines.flush()
            self.status.beat()
            if self.learner.waiting:
                self._look_at_the_open_round(now - self._opened_at + tick)  # as old as it can get till then
            if now - self.talk.hello_at > 1.0:
                self.talk.hello(self.around.wants_of_the_unheard(now))
            await self.connection.admit()

    def _look_at_the_open_round(self, age: float) -> None:
        self.around.lose(age)
        if age > self.config.rounds.resend:
            self.talk.ask(self.around.missing(), self.config.rounds.resend)
        self._try_to_go_on()

    # Others

    def _hear_all(self, messages: list[Message]) -> None:
        for topic, payload in messages:
            self.talk.hear(topic, payload)
        self._try_to_go_on()

    def summary(self) -> dict[str, Any]:
        """How it goes, for people."""
        now, q, counts = time.monotonic(), self.learner.weights, self.transport.counts
        return {
            "round": self.learner.round,
            "samples": self.progress.samples,
            "seconds": self.progress.seconds,
            "error": self.progress.error,
            "kernel": int(np.argmax(q)),
            "weight": float(q.max()),
            "up": sum(peer.up(now, 3.0) for peer in self.peers.values()),
            "neighbours": len(self.peers),
            "messages_sent": counts.sent,
            "bytes_sent": counts.sent_bytes,
            "bytes_received": counts.received_bytes,
        }


async def _race(*ways: Coroutine[Any, Any, None]) -> None:
    """Run all until the first ends, and end the rest."""
    tasks = [asyncio.create_task(way) for way in ways]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
