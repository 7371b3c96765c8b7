"""The one loop of a device: stream <-> learner <-> transport.

Three tasks share one learner, and none of them waits while it changes it: `_listen` takes messages,
`_work` takes readings and opens rounds, `_watch` looks at the clock.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import numpy as np

from .. import transports, wire
from ..edges import Held
from ..errors import InputError, PeerError
from ..learner import Learner, Update
from ..transports import topics
from .config import AgentConfig
from .logs import Limited, tell
from .memory import Memory
from .output import Lines
from .peers import Peer
from .service import Durations, Status
from .streams import Reading, Scaling, Stream, open_stream

LOG = logging.getLogger(__name__)
#: Updates in one answer to a neighbour that missed them.
AT_ONCE = 16
#: The least time between two questions to a neighbour, or two answers, in seconds.
PAUSE = 0.02
#: Readings from a topic that may wait to be learnt.
MOST_READINGS = 10_000
#: How long an agent that is told to stop waits for its open round, in seconds.
LAST_MOMENT = 2.0
#: An agent whose own clock jumps by as many seconds was suspended, or its machine was.
SUSPENDED = 0.5
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
        self.learner = make_learner(config, _number())
        self.memory = Memory(config.checkpoint, config.stream.journal)
        self.peers = {name: Peer(name) for name in config.neighbours}
        self.status = Status()
        self.refused: Counter[str] = Counter()
        self.round_seconds = Durations()
        self.error, self.samples = 0.0, 0
        self.seconds = self._began_at = 0.0  # from the first round's start to the last one's end
        self.done = False
        self.graph = 0  # the version of the graph
        self._new_graph: tuple[str, ...] | None = None
        self._stream = stream
        self._lines = Lines(config.output.predictions)
        self._out = out or self._lines.write
        self._scaling = Scaling.of(config.stream, config.inputs)
        self._readings: asyncio.Queue[bytes | None] = asyncio.Queue(MOST_READINGS)
        self._closed, self._stopping = asyncio.Event(), asyncio.Event()
        self._opened_at = self._hello_at = self._deaf_at = time.monotonic()
        self._cut_off = False  # neighbours no longer have what a replay needs
        self._limited = Limited(LOG)
        P, D, _ = self.learner.V.shape
        self._decoder = wire.Decoder(
            shape=(P, 2 * D),
            fingerprint=self.learner.fingerprint,
            shares_losses=self.learner.hedge != "local",
            dtype=self.learner.V.dtype,
        )

    async def run(self) -> None:
        """Learn until the stream ends or `stop` is called."""
        self._remember()
        await self.transport.open()
        try:
            self._subscribe()
            self._say_state("init")
            await _race(self._work(), self._listen(), self._watch(), self._stopped())
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
            await self._take(reading)
        if self._stream is None:
            self._stream = self._open_stream()
        try:
            async for reading in self._stream:
                await self._take(reading)
        finally:
            if isinstance(self._stream, Stream):
                await self._stream.aclose()
        await self._part()

    def _open_stream(self) -> Stream:
        section, memory = self.config.stream, self.memory
        return open_stream(
            section, self.config.inputs, memory.readings, origin=memory.origin, messages=self._readings
        )

    async def _take(self, reading: Reading) -> None:
        """Predict, and learn where there is a label; returns once the round is over."""
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
            await self._learn(x, y, y_hat)
        self.status.beat()

    async def _learn(self, x: Any, y: float, y_hat: float) -> None:
        start = self._opened_at = time.monotonic()
        try:
            update = self.learner.observe(x, y)
        except InputError as error:
            self._refuse("sample", reason=str(error))
            return
        self._send(update)
        self._account(y, y_hat)
        self._closed.clear()
        self._close_if_nobody_is_missing()
        if self.learner.waiting:
            self._ask_those_ahead()
            await self._closed.wait()
        now = time.monotonic()
        self.round_seconds.observe(now - start)
        self._began_at = self._began_at or start
        self.seconds = now - self._began_at

    def _account(self, y: float, y_hat: float) -> None:
        self.samples += 1
        share = max(1 / self.samples, 1 / ROLLING)
        self.error += share * ((y - y_hat) ** 2 - self.error)

    def _between_rounds(self) -> None:
        """All that may change a learner but readings and updates happens here."""
        changed = self._follow_graph() | self._let_go() | self._take_in() | self._catch_up()
        if changed or self.memory.due(self.learner.round):
            self._save()

    def _save(self) -> None:
        self.memory.forget(min([peer.durable for peer in self.peers.values()], default=self.learner.round))
        if isinstance(self._stream, Stream):
            self.memory.origin = self._stream.origin
        self.memory.save(self.learner, {"graph": self.graph})

    def _remember(self) -> None:
        """Go back to the last checkpoint."""
        found = self.memory.load(self.learner)
        if found is None:
            return
        self.graph = found.meta["graph"]
        if self.graph:
            self.peers = {str(name): Peer(str(name)) for name in self.learner.neighbours}
        for reason in found.skipped:
            tell(LOG, logging.WARNING, "checkpoint refused", reason=reason)
        if self.learner.asynchronous:
            self.learner.begin_anew(_number())
        tell(LOG, logging.INFO, "resumed", round=self.learner.round, readings=self.memory.readings)

    # Neighbours

    async def _meet(self) -> None:
        """Wait until every neighbour has spoken, and start from what they know if we know nothing."""
        end = time.monotonic() + self.config.rounds.start
        while not all(self._is_met(peer) for peer in self.peers.values()):
            if time.monotonic() > end:
                break
            self._hello({name: self._wanted(peer) for name, peer in self.peers.items()})
            await asyncio.sleep(PAUSE * 2)
        for peer in self.peers.values():
            if not peer.met:
                tell(LOG, logging.WARNING, "neighbour absent", neighbour=peer.name)
                peer.lose(self.config.rounds.deadline, time.monotonic())
                peer.losses = 0
        self._adopt()

    def _is_met(self, peer: Peer) -> bool:
        return peer.met and (peer.latest is not None or not self._is_new or peer.round == 0)

    @property
    def _is_new(self) -> bool:
        return self.learner.round == 0 and self.learner.step is None

    def _wanted(self, peer: Peer) -> int:
        return max(0, peer.round - 1) if self._is_new else self.learner.round

    def _adopt(self) -> None:
        known = [peer.latest for peer in self.peers.values() if peer.latest is not None]
        if self._is_new and known and max(peer.round for peer in self.peers.values()) > 0:
            newest = max(known, key=lambda update: update.round)
            if newest.round:
                self.learner.adopt(newest)
                self.learner.skip_to(newest.round + 1)
                tell(LOG, logging.INFO, "started from a neighbour", round=self.learner.round)

    def _let_go(self) -> bool:
        """Take lost neighbours and those whose stream has ended out of the learner."""
        over = [name for name in self.learner.neighbours if self._is_over(self.peers.get(str(name)))]
        for name in over:
            self.learner.leave(name)
        return bool(over)

    def _is_over(self, peer: Peer | None) -> bool:
        return peer is None or peer.lost or (peer.done is not None and self.learner.round >= peer.done)

    def _take_in(self) -> bool:
        """Take neighbours back that are in step again."""
        back = [peer for peer in self.peers.values() if self._may_join(peer)]
        for peer in back:
            peer.welcome()
            self.learner.join(peer.name, _number())
            if peer.latest is not None:
                self._receive(peer, peer.latest)
            tell(LOG, logging.INFO, "neighbour taken in", neighbour=peer.name, round=self.learner.round)
        return bool(back)

    def _may_join(self, peer: Peer) -> bool:
        out = peer.name not in self.learner.neighbours and peer.done is None and peer.latest is not None
        near = peer.round >= self.learner.round - AT_ONCE or self.learner.asynchronous
        return out and near and not peer.lost

    def _catch_up(self) -> bool:
        """Go on where the others are, if they have gone on without us."""
        to = self.learner.ahead
        if self._cut_off:
            self._cut_off = False
            self.learner.begin_anew(_number())
            to = max([to, *(peer.round for peer in self.peers.values())])
            tell(LOG, logging.WARNING, "neighbours no longer have what was missed; duals begin anew")
        if to == self.learner.round:
            return False
        if to - self.learner.round > AT_ONCE:
            self._learn_from_those_ahead(to)
        self.learner.skip_to(to)
        return True

    def _learn_from_those_ahead(self, to: int) -> None:
        """Whoever was away for long starts again from what a neighbour knows, and from what it knows itself,
        by the samples that each has learnt."""
        known = [peer.latest for peer in self.peers.values() if peer.latest is not None]
        if known:
            newest = max(known, key=lambda update: update.round)
            self.learner.adopt(newest, share=to / (to + self.memory.readings))
            tell(LOG, logging.INFO, "went on where the others are", round=to)

    def _follow_graph(self) -> bool:
        if self._new_graph is None:
            return False
        names, self._new_graph = self._new_graph, None
        for name in [name for name in self.peers if name not in names]:
            del self.peers[name]
            self.transport.unsubscribe(self._topic(name, "#"))
        for name in [name for name in names if name not in self.peers]:
            self.peers[name] = Peer(name)
            self.transport.subscribe(self._topic(name, "#"))
        tell(LOG, logging.INFO, "graph changed", version=self.graph, neighbours=list(names))
        return True

    def _close_if_nobody_is_missing(self) -> None:
        learner = self.learner
        if learner.waiting:
            gone = learner.gone
            if not any(
                name not in gone and not self._is_over(self.peers.get(str(name))) for name in learner.missing
            ):
                learner.close()
        if not learner.waiting:
            self._closed.set()

    def _ask_those_ahead(self) -> None:
        """Ask at once for updates that are known to exist: this is how a replay runs at full speed."""
        missing = [self.peers[str(name)] for name in self.learner.missing if name in self.peers]
        self._ask([peer for peer in missing if peer.round > self.learner.round])

    def _ask(self, peers: list[Peer]) -> None:
        now = time.monotonic()
        due = [peer for peer in peers if now - peer.asked_at > PAUSE]
        for peer in due:
            peer.asked_at = now
        if due:
            self._hello({peer.name: self.learner.round for peer in due})

    # The clock

    async def _watch(self) -> None:
        rounds = self.config.rounds
        tick = min(rounds.resend, rounds.deadline, 0.5) / 5
        last = time.monotonic()
        while True:
            await asyncio.sleep(tick)
            now = time.monotonic()
            if now - last > tick + SUSPENDED:  # it was we who hung: first hear what has come meanwhile
                self._opened_at = now
            last = now
            self.status.beat()
            if self.learner.waiting:
                self._look_at_the_open_round(now - self._opened_at + tick)  # as old as it can get till then
            if now - self._hello_at > 1.0:
                self._hello({})
            await self._reopen_if_deaf(now)

    def _look_at_the_open_round(self, age: float) -> None:
        missing = [self.peers[str(name)] for name in self.learner.missing if name in self.peers]
        rounds, now = self.config.rounds, time.monotonic()
        late = [peer for peer in missing if age > rounds.deadline and not self._is_excused(peer, age, now)]
        for peer in late:
            if not peer.lost:
                peer.lose(rounds.deadline, now)
                tell(LOG, logging.WARNING, "neighbour lost", neighbour=peer.name, round=self.learner.round)
        if age > rounds.resend:
            self._ask([peer for peer in missing if now - peer.asked_at > rounds.resend])
        self._close_if_nobody_is_missing()

    def _is_excused(self, peer: Peer, age: float, now: float) -> bool:
        """One that itself waits for a neighbour will go on when its own deadline has passed."""
        rounds = self.config.rounds
        return age < 3 * rounds.deadline and peer.waits(now, 2 * rounds.resend + 0.1)

    async def _reopen_if_deaf(self, now: float) -> None:
        """A session may be dead without knowing it."""
        patience = max(10.0, 2 * self.config.rounds.deadline)
        heard = max([peer.heard_at for peer in self.peers.values()], default=now)
        if now - max(heard, self._deaf_at) < patience or not self.peers:
            return
        self._deaf_at = now
        tell(LOG, logging.WARNING, "no neighbour is heard; opening the transport again")
        with contextlib.suppress(InputError):
            await self.transport.close()
        try:
            await self.transport.open()
        except InputError as error:
            tell(LOG, logging.WARNING, "the transport stays closed", reason=str(error))

    async def _part(self) -> None:
        """Tell the neighbours that our stream has ended, and stay while they may need what we sent."""
        self.done = True
        end = time.monotonic() + self.config.rounds.start
        while time.monotonic() < end:
            self._hello({})
            await asyncio.sleep(PAUSE * 4)
            learning = [peer for peer in self.peers.values() if peer.done is None and not peer.lost]
            if not learning:
                break
            if any(peer.up(time.monotonic(), 2.0) for peer in learning):
                end = time.monotonic() + self.config.rounds.start
        for _ in range(3):  # the last word may be lost
            self._hello({})
            await asyncio.sleep(PAUSE)
        self._let_go_of_those_who_ended_elsewhere()
        self._save()

    def _let_go_of_those_who_ended_elsewhere(self) -> None:
        """An edge between learners that ended at different rounds is gone; each end sees that for itself."""
        for name in self.learner.neighbours:
            if self.peers[str(name)].done != self.learner.round:
                self.learner.leave(name)

    # Messages

    async def _listen(self) -> None:
        while True:
            for topic, payload in await self.transport.receive():
                self._hear(topic, payload)
            self._close_if_nobody_is_missing()

    def _hear(self, topic: str, payload: bytes) -> None:
        if topic == self.config.stream.topic:
            self._hear_sensor(payload)
            return
        sender = topics.sender_of(topic)
        channel = topic.split("/")[3]
        if sender == topics.OPERATOR:
            self._hear_operator(channel, payload)
        elif sender not in self.peers:
            self._refuse("stranger", sender=sender)
        elif channel in ("theta", "hello", "to"):
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
        message = self._decoder.decode(payload)
        if message.incarnation < peer.incarnation:
            self._refuse("replayed", sender=peer.name)
            return
        if isinstance(message, wire.Again):
            self._hear_again(peer, message)
            return
        now = time.monotonic()
        if isinstance(message, wire.Hello):
            peer.hear(message.incarnation, message.round, message.durable, now)
            self._hear_hello(peer, message, now)
        else:
            update = message.update
            peer.hear(message.incarnation, update.round, message.durable, now)
            self._agree(peer, update.heard.get(self.config.name), update.round)
            self._receive(peer, update)

    def _agree(self, peer: Peer, held: Held | None, round: int) -> None:
        """Learn the number of the edge's other end, and which of its moves stand, as early as we can."""
        if held is not None and peer.name in self.learner.neighbours and not self.learner.waiting:
            self.learner.meet(peer.name, held, round)

    def _receive(self, peer: Peer, update: Update) -> None:
        if peer.latest is None or update.round >= peer.latest.round:
            peer.latest = update
        if peer.lost and time.monotonic() >= peer.welcome_at:
            peer.welcome()
        if peer.name in self.learner.neighbours and not self.learner.receive(peer.name, update):
            self.refused["late"] += 1

    def _hear_again(self, peer: Peer, message: wire.Again) -> None:
        updates = [self._decoder.update(payload).update for payload in message.updates]
        for update in updates:
            peer.round = max(peer.round, update.round)
            self._receive(peer, update)
        first = min([update.round for update in updates], default=0)
        if self.learner.waiting and peer.name in self.learner.missing and first > self.learner.round:
            self._cut_off = peer.lost = True

    def _hear_hello(self, peer: Peer, hello: wire.Hello, now: float) -> None:
        peer.done = hello.round if hello.done else None
        self._agree(peer, hello.heard.get(self.config.name), hello.round)
        wanted = hello.wants.get(self.config.name)
        if wanted is not None and now - peer.answered_at > PAUSE / 2:
            peer.answered_at = now
            updates = self.memory.since(wanted, AT_ONCE)
            if updates:
                again = wire.Again(self.learner.fingerprint, self.memory.incarnation, updates)
                self.transport.publish(self._topic(self.config.name, "to", peer.name), wire.encode(again))

    def _hear_operator(self, channel: str, payload: bytes) -> None:
        if channel != "graph":
            return
        try:
            document = json.loads(payload)
            version, links = int(document["version"]), [(str(a), str(b)) for a, b in document["links"]]
        except (ValueError, KeyError, TypeError) as error:
            self._refuse("graph", reason=str(error))
            return
        if version > self.graph:
            me = self.config.name
            names = [b if a == me else a for a, b in links if me in (a, b) and a != b]
            self.graph, self._new_graph = version, tuple(dict.fromkeys(names))

    def _refuse(self, kind: str, **fields: object) -> None:
        self.refused[kind] += 1
        self._limited.warn(kind, "refused", **fields)

    def _send(self, update: Update) -> None:
        durable = self.memory.durable(update.round)
        payload = wire.encode_update(update, self.memory.incarnation, durable, self.config.payload)
        self.memory.remember(update.round, payload)
        if len(self.memory.history) > 2048:
            self.memory.forget(update.round)
        self.transport.publish(self._topic(self.config.name, "theta"), payload)

    def _hello(self, wants: dict[str, int]) -> None:
        self._hello_at = time.monotonic()
        learner = self.learner
        hello = wire.Hello(
            fingerprint=learner.fingerprint,
            incarnation=self.memory.incarnation,
            round=learner.round,
            durable=self.memory.durable(learner.round),
            wants=wants,
            heard={str(name): held for name, held in learner.heard.items()},
            done=self.done,
            graph=self.graph,
        )
        self.transport.publish(self._topic(self.config.name, "hello"), wire.encode(hello))

    def _subscribe(self) -> None:
        for name in self.peers:
            self.transport.subscribe(self._topic(name, "#"))
        self.transport.subscribe(self._topic(topics.OPERATOR, "#"))
        if self.config.stream.topic is not None:
            self.transport.subscribe(self.config.stream.topic)

    def _topic(self, name: str, *channel: str) -> str:
        return "/".join(("domkl", self.config.network, name, *channel))

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
            self.transport.publish(self._topic(self.config.name, "prediction"), json.dumps(said).encode())

    def _say_state(self, state: str) -> None:
        said = {"state": state, "round": self.learner.round, "graph": self.graph}
        self.transport.publish(self._topic(self.config.name, "state"), json.dumps(said).encode(), retain=True)

    def summary(self) -> dict[str, Any]:
        """How it goes, for people."""
        now = time.monotonic()
        q = self.learner.state.q
        return {
            "round": self.learner.round,
            "samples": self.samples,
            "seconds": self.seconds,
            "error": self.error,
            "kernel": int(np.argmax(q)),
            "weight": float(q.max()),
            "up": sum(peer.up(now, 3.0) for peer in self.peers.values()),
            "neighbours": len(self.peers),
            "bytes_sent": self.transport.counts.sent_bytes,
            "bytes_received": self.transport.counts.received_bytes,
        }


def _number() -> int:
    """Of a new life; 0 is nobody's."""
    return secrets.randbelow(2**62) + 1


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
