"""The one loop of a device: stream <-> learner <-> transport.

Two tasks and a callback share one learner, and none of them waits while it changes it: `_work` takes readings
and opens rounds, `_hear_all` takes messages, `_watch` looks at the clock.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import numpy as np

from .. import _checks, transports, wire
from ..errors import InputError, PeerError
from ..learner import Learner
from ..transports import topics
from ..transports.inbox import Message
from .config import AgentConfig
from .logs import Limited, tell
from .memory import Memory
from .neighbourhood import Neighbourhood, number
from .output import Lines
from .peers import Peer
from .post import AT_ONCE, CHANNELS, Post
from .service import Durations, Status
from .streams import Reading, Scaling, Stream, open_stream

LOG = logging.getLogger(__name__)
#: The least time between two questions to a neighbour, or two answers, in seconds.
PAUSE = 0.02
#: Readings from a topic that may wait to be learnt.
MOST_READINGS = 10_000
#: How long an agent that is told to stop waits for its open round, in seconds.
LAST_MOMENT = 2.0
#: An agent whose own clock jumps by as many seconds was suspended, or its machine was.
SUSPENDED = 0.5
#: Versions of a graph are below this, so that every message can hold them.
LAST_VERSION = 2**62
#: Seconds between two looks at the clock, at most.
LOOK = 0.05
#: Samples over which the error is averaged.
ROLLING = 200

Out = Callable[[dict[str, Any]], None]


def make_learner(config: AgentConfig, number: int = 0) -> Learner:
    """The learner that a configuration describes."""
    return Learner(
        config.kernels.draw(config.inputs),
        config.neighbours,
        config.rates.rates(),
        loss=config.learning.make_loss(),
        hedge=config.learning.hedge,
        step=config.learning.step,
        memory=config.learning.memory,
        name=config.name,
        payload=config.payload,
        asynchronous=config.rounds.mode == "async",
        number=number,
    )


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
        self.config = config
        self.transport = transport or transports.make(config.transport_settings())
        self.learner = make_learner(config, number())
        self.memory = Memory(config.checkpoint, config.stream.journal)
        self._remember()
        names = self.memory.names if self.memory.graph else config.neighbours
        self.around = Neighbourhood(self.learner, config.rounds, names, self.memory.graph)
        self.post = Post(self.transport, self.learner, self.memory.incarnation)
        self.status, self.done = Status(), False
        self.refused: Counter[str] = Counter()
        self.round_seconds = Durations()
        self.error, self.samples = 0.0, 0
        self.seconds = self._began_at = 0.0  # from the first round's start to the last one's end
        self._stream = stream
        self._lines = Lines(config.output.predictions)
        self._out = out or self._lines.write
        self._scaling = Scaling.of(config.stream, config.inputs)
        self._readings: asyncio.Queue[bytes | None] = asyncio.Queue(MOST_READINGS)
        self._stopping = asyncio.Event()
        self._is_open = self._is_going_on = False  # a round is; readings are being taken
        self._over: asyncio.Future[None] | None = None  # done when no round is open and no reading ready
        self._opened_at = self._started_at = self._hello_at = time.monotonic()
        self._admitted = set(config.peers)
        self._limited = Limited(LOG)

    @property
    def peers(self) -> dict[str, Peer]:
        """The neighbours, by name."""
        return self.around.peers

    async def run(self) -> None:
        """Learn until the stream ends or `stop` is called."""
        await self.transport.open()
        try:
            self._subscribe()
            self._say_state("init")
            await _race(self._work(), self._listen(), self._watch(), self._stay_connected(), self._stopped())
        finally:
            self._say_state("done")
            with contextlib.suppress(InputError):
                await self.transport.close()
            self.memory.close()
            self._lines.close()

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
        self._say_state("ready")
        for reading in self.memory.noted():
            await self._learn_from(reading)
        if self._stream is None:
            self._stream = self._open_stream()
        try:
            async for reading in self._stream:
                await self._learn_from(reading)
        finally:
            if isinstance(self._stream, Stream):
                await self._stream.aclose()
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
        if self._stopping.is_set() or not isinstance(self._stream, Stream):
            return None
        return self._stream.ready()

    def _open_stream(self) -> Stream:
        section, memory = self.config.stream, self.memory
        return open_stream(
            section, self.config.inputs, memory.readings, origin=memory.origin, messages=self._readings
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
            self._tell(reading, y_hat)
        if x is None:
            self._refuse("label without input", id=reading.id)
        elif y is None and reading.id is not None:
            self.memory.expect_label(reading.id, x, y_hat)
        self.memory.readings = reading.index + 1  # from here to the open round nothing can be saved
        if x is not None and y is not None:
            self._learn(x, y, y_hat)

    def _learn(self, x: Any, y: float, y_hat: float) -> None:
        self._opened_at = self._started_at = time.monotonic()
        try:
            update = self.learner.observe(x, y)
        except InputError as error:
            self._refuse("sample", reason=str(error))
            return
        sent = self.post.send(update, self.memory.durable(update.round))
        self.memory.remember(update.round, sent, self._durable())
        self._account(y, y_hat)
        self._is_open = True
        self._close()
        if self._is_open:
            missing = self.around.missing()
            self.transport.expect(len(missing))
            # Updates that are known to exist are asked for at once, so that a replay runs at full speed.
            late = [peer for peer in missing if peer.round > update.round]
            if late and self._is_open:
                self._ask(late, PAUSE)

    def _close(self) -> None:
        """End the open round, if there is one and nobody is waited for."""
        if not self._is_open or not self.around.close_if_nobody_is_missing():
            return
        self._is_open, now = False, time.monotonic()
        self._began_at = self._began_at or self._started_at
        self.seconds = now - self._began_at
        self.round_seconds.observe(now - self._started_at)
        self.status.beat()

    def _account(self, y: float, y_hat: float) -> None:
        self.samples += 1
        share = max(1 / self.samples, 1 / ROLLING)
        self.error += share * ((y - y_hat) ** 2 - self.error)

    def _between_rounds(self) -> None:
        """All that may change a learner but readings and updates happens here."""
        before, following = self.peers, self.around.wanted is not None
        changed = self.around.update(self.memory.readings)
        if changed or self.memory.due(self.learner.round):
            self._save()
        if following:
            self.post.ignore(before.keys() - self.peers.keys())
            self.post.listen(self.peers.keys() - before.keys())
            self._say_state("ready")

    # Memory

    def _save(self) -> None:
        self._lines.flush()  # a restart will not predict again what is saved as learnt
        if isinstance(self._stream, Stream):
            self.memory.origin = self._stream.origin
        self.memory.graph, self.memory.names = self.around.graph, list(self.peers)
        self.memory.forget(self._durable())
        self.memory.save(self.learner)

    def _durable(self) -> int:
        """The first round to which a neighbour may go back."""
        return min([peer.durable for peer in self.peers.values()], default=self.learner.round)

    def _remember(self) -> None:
        """Go back to the last checkpoint."""
        found = self.memory.load(self.learner)
        if found is None:
            return
        for reason in found.skipped:
            tell(LOG, logging.WARNING, "checkpoint refused", reason=reason)
        if self.learner.asynchronous:
            self.learner.begin_anew(number())
        tell(LOG, logging.INFO, "resumed", round=self.learner.round, readings=self.memory.readings)

    # The clock

    async def _meet(self) -> None:
        """Wait until every neighbour has spoken."""
        end = time.monotonic() + self.config.rounds.start
        while not self.around.all_met() and time.monotonic() < end:
            self._hello(self.around.wants())
            await asyncio.sleep(PAUSE * 2)
        self.around.begin()

    async def _part(self) -> None:
        """Tell the neighbours that our stream has ended, and stay while they may need what we sent."""
        self.around.let_go_of_the_lost()  # and say so, with our last word
        self.done = True
        end = time.monotonic() + self.config.rounds.start
        while time.monotonic() < end:
            self._hello({})
            await asyncio.sleep(PAUSE * 4)
            learning = self.around.still_learning()
            if not learning:
                break
            if any(peer.up(time.monotonic(), 2.0) for peer in learning):
                end = time.monotonic() + self.config.rounds.start
        for _ in range(3):  # the last word may be lost
            self._hello({})
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
            self._lines.flush()
            self.status.beat()
            if self.learner.waiting:
                self._look_at_the_open_round(now - self._opened_at + tick)  # as old as it can get till then
            if now - self._hello_at > 1.0:
                self._hello(self.around.wants_of_the_unheard(now))
            await self._admit()

    def _look_at_the_open_round(self, age: float) -> None:
        self.around.lose(age)
        if age > self.config.rounds.resend:
            self._ask(self.around.missing(), self.config.rounds.resend)
        self._try_to_go_on()

    def _ask(self, peers: list[Peer], pause: float) -> None:
        """Ask for updates that are missing, but nobody too often."""
        now = time.monotonic()
        due = [peer for peer in peers if now - peer.asked_at > pause]
        for peer in due:
            peer.asked_at = now
        if due:
            self._hello({peer.name: self.learner.round for peer in due})

    async def _admit(self) -> None:
        """Let the transport know of new neighbours, where it tells learners apart."""
        senders = tuple(dict.fromkeys([*self.peers, *self.config.peers[len(self.config.neighbours) :]]))
        if set(senders) != self._admitted:
            self._admitted = set(senders)
            await self.transport.admit(senders)

    async def _stay_connected(self) -> None:
        """Open the transport again when a session is dead, or half dead, without knowing it."""
        patience = max(10.0, 2 * self.config.rounds.deadline)
        well_at = time.monotonic()
        while True:
            await asyncio.sleep(0.5)
            now = time.monotonic()
            if not self._is_deaf(now):
                well_at = now
            elif now - well_at > patience:
                tell(LOG, logging.WARNING, "neighbours are not heard; opening the transport again")
                await self._reopen()
                well_at = time.monotonic()

    def _is_deaf(self, now: float) -> bool:
        peers = self.peers.values()
        silent = bool(peers) and not any(peer.up(now, 3.0) for peer in peers)
        return silent or any(peer.is_unheard(now) for peer in peers)

    async def _reopen(self) -> None:
        with contextlib.suppress(InputError):
            await self.transport.close()
        while True:
            try:
                await self.transport.open()
                return
            except InputError as error:
                self._limited.warn("transport", "the transport stays closed", reason=str(error))
                await asyncio.sleep(1.0)

    # Messages

    async def _listen(self) -> None:
        """Hear messages; ends only if hearing one fails."""
        failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def hear(messages: list[Message]) -> None:
            try:
                self._hear_all(messages)
            except Exception as error:
                if not failed.done():
                    failed.set_exception(error)

        self.transport.deliver(hear)
        await failed

    def _hear_all(self, messages: list[Message]) -> None:
        for topic, payload in messages:
            self._hear(topic, payload)
        self._try_to_go_on()

    def _hear(self, topic: str, payload: bytes) -> None:
        if topic == self.config.stream.topic:
            self._hear_sensor(payload)
            return
        sender, channel = _origin(topic)
        if sender == topics.OPERATOR and channel == "graph":
            self._hear_operator(payload)
        elif sender not in self.peers or channel not in CHANNELS:
            self._refuse("stranger", sender=sender)
        else:
            try:
                self._hear_peer(self.peers[sender], payload)
            except PeerError as error:
                self._refuse("message", sender=sender, reason=str(error))

    def _hear_sensor(self, payload: bytes) -> None:
        if self._readings.full():
            self._refuse("reading", reason="too many wait to be learnt")
        else:
            self._readings.put_nowait(payload)

    def _hear_peer(self, peer: Peer, payload: bytes) -> None:
        message = self.post.decoder.decode(payload)
        if message.incarnation < peer.incarnation:
            self._refuse("replayed", sender=peer.name)
        elif isinstance(message, wire.Again):
            updates = [self.post.decoder.update(each).update for each in message.updates]
            self.around.receive_again(peer, updates)
        elif isinstance(message, wire.Hello):
            peer.hear(message.incarnation, message.round, message.durable)
            self._hear_hello(peer, message)
        else:
            update = message.update
            peer.hear(message.incarnation, update.round, message.durable)
            peer.direct = update.round
            self.around.agree(peer, update.heard.get(self.config.name), update.round)
            self.around.receive(peer, update)

    def _hear_hello(self, peer: Peer, hello: wire.Hello) -> None:
        peer.done = hello.round if hello.done else None
        peer.holds = self.config.name in hello.heard
        peer.knows = self.done and hello.ended.get(self.config.name) == self.learner.round
        self.around.agree(peer, hello.heard.get(self.config.name), hello.round)
        wanted, now = hello.wants.get(self.config.name), time.monotonic()
        if wanted is None or now - peer.answered_at < PAUSE / 2:
            return
        peer.answered_at = now
        updates = self.memory.since(wanted, AT_ONCE)
        if updates:
            self.post.send_again(peer.name, updates)

    def _hear_operator(self, payload: bytes) -> None:
        try:
            document = json.loads(payload)
            version = _checks.count("version", document["version"])
            links = [(str(a), str(b)) for a, b in document["links"]]
            names = [
                b if a == self.config.name else a for a, b in links if self.config.name in (a, b) and a != b
            ]
            for name in names:
                topics.check_name(name)
        except (ValueError, KeyError, TypeError, RecursionError, InputError) as error:
            self._refuse("graph", reason=str(error))
            return
        if self.around.graph < version < LAST_VERSION:
            self.around.graph, self.around.wanted = version, tuple(dict.fromkeys(names))

    def _refuse(self, kind: str, **fields: object) -> None:
        self.refused[kind] += 1
        self._limited.warn(kind, "refused", **fields)

    def _hello(self, wants: dict[str, int]) -> None:
        self._hello_at = time.monotonic()
        learner = self.learner
        heard = {str(name): held for name, held in learner.heard.items()}
        durable = self.memory.durable(learner.round)
        more = {"done": self.done, "graph": self.around.graph, "ended": self.around.ended()}
        self.post.hello(learner.round, durable, wants, heard, **more)

    def _subscribe(self) -> None:
        self.post.listen(self.peers)
        self.transport.subscribe(self.post.topic(topics.OPERATOR, "graph"))
        if self.config.stream.topic is not None:
            self.transport.subscribe(self.config.stream.topic)

    # What others see

    def _tell(self, reading: Reading, y_hat: float) -> None:
        said: dict[str, Any]
        said = {"index": reading.index, "round": self.learner.round, "y_hat": self._scaling.original(y_hat)}
        if reading.y is not None:
            said["y"] = self._scaling.original(reading.y)
        if reading.id is not None:
            said["id"] = reading.id
        self._out(said)
        if self.config.output.publish:
            self.post.say("prediction", said)

    def _say_state(self, state: str) -> None:
        said = {"state": state, "round": self.learner.round, "graph": self.around.graph}
        self.post.say(topics.STATE, said, retain=True)

    def summary(self) -> dict[str, Any]:
        """How it goes, for people."""
        now, q, counts = time.monotonic(), self.learner.state.q, self.transport.counts
        return {
            "round": self.learner.round,
            "samples": self.samples,
            "seconds": self.seconds,
            "error": self.error,
            "kernel": int(np.argmax(q)),
            "weight": float(q.max()),
            "up": sum(peer.up(now, 3.0) for peer in self.peers.values()),
            "neighbours": len(self.peers),
            "messages_sent": counts.sent,
            "bytes_sent": counts.sent_bytes,
            "bytes_received": counts.received_bytes,
        }


@functools.lru_cache(1024)
def _origin(topic: str) -> tuple[str, str]:
    """The learner that publishes on a topic, and the channel."""
    _, _, sender, channel, *_ = topic.split("/")
    return sender, channel


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
