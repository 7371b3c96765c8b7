"""Messages of an agent: those it sends, what it does with those it receives, and the transport in between."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from ..base.errors import InputError, PeerError
from ..exchange.message import Update
from ..learner import Learner
from . import topology, wire
from .certs import Revoked
from .config import AgentConfig
from .gossip import Gossip
from .incarnation import Identity
from .logs import Limited, Refused, tell
from .peers import AT_ONCE, Neighbourhood, Peer, RoundRefused
from .store import Store
from .topics import Topics
from .transports import Transport, security, sender_of
from .transports.base import Message
from .transports.names import CHANNELS, OPERATOR, ROOT, STATE, STATUS, is_topic

#: Every so many updates go to those, too, who have not used any for long.
RARE = 32

#: The least time between two requests to a neighbour, or two answers, in seconds.
PAUSE = 0.02
#: Seconds between two hellos, at most.
HELLO_EVERY = 1.0
#: Seconds after which our state is published again: others see it as lost when an earlier connection of ours,
#: or another agent under our name, is gone.
STATE_EVERY = 10.0


class MessageHandler:
    """Sends and receives for an agent: to and from its neighbours, its operator and others' topics.

    Its own topics are `domkl/<network>/<name>/` and then theta (updates), rare (every `RARE`th of them),
    hello (its round, and which updates it misses), to/<neighbour> (updates that one missed), state, status
    (see `gossip`).

    **Edges rest** where nobody waits and messages are refused. Who could use none of a neighbour's last
    messages reads `rare` only, says so in its hello, and listens again when one of those is good. Who is
    heard by nobody sends nothing else. A dual needs two who listen: neither end moves that of a resting edge.
    """

    def __init__(
        self,
        config: AgentConfig,
        learner: Learner,
        store: Store,
        neighbourhood: Neighbourhood,
        transport: Transport,
        refused: Refused,
        topics: Topics,
    ) -> None:
        self.name, self.learner, self.store = config.name, learner, store
        self.neighbourhood, self.transport, self.refused = neighbourhood, transport, refused
        self.identity = Identity(config.name, store.starts)
        self._prefix, self._fingerprint = f"{ROOT}/{transport.settings.network}", learner.fingerprint
        self._theta, self._rare = self._topic(self.name, "theta"), self._topic(self.name, "rare")
        self._sent, self._resting = 0, frozenset[str]()
        self._decoder = wire.Decoder.of(learner.shapes, learner.fingerprint)
        self.hello_at = time.monotonic()  # when the last hello was sent
        self._is_hello_due = False
        self._state, self._state_at = "init", self.hello_at  # as last published
        self.topics, self.gossip = topics, Gossip(config.name)

    def _topic(self, name: str, *channel: str) -> str:
        return "/".join((self._prefix, name, *channel))

    def subscribe(self) -> None:
        """Receive from the neighbours and the operator."""
        self.follow((), self.neighbourhood.peers)
        self.transport.subscribe(self._topic(OPERATOR, "graph"))

    def follow(self, before: Iterable[str], now: Iterable[str]) -> None:
        """Receive from those who are neighbours now, and no longer from those who were before."""
        left, come = {*before}, {*now}
        for topic in self._topics_of(left - come):
            self.transport.unsubscribe(topic)
        for topic in self._topics_of(come - left):
            self.transport.subscribe(topic)

    def _topics_of(self, names: Iterable[str]) -> list[str]:
        channels = (("theta",), ("rare",), ("hello",), ("to", self.name), (STATUS,))
        return [self._topic(name, *channel) for name in sorted(names) for channel in channels]

    # Sent

    def hello(self, wants: dict[str, int]) -> None:
        """Send our round, and from which round on we miss which neighbours' updates."""
        self.hello_at, self._is_hello_due = time.monotonic(), False
        learner = self.learner
        edges = {str(name): held for name, held in learner.edges.items()}
        durable = self.store.durable(learner.round)
        near = self.neighbourhood
        about: dict[str, Any] = {"done": near.done, "graph": near.graph, "ended": near.ended()}
        about |= {"wants": wants, "edges": edges, **near.incarnations(self.hello_at)}
        mine = self.identity.incarnation
        about["rests"] = sorted(self._resting)
        hello = wire.Hello(self._fingerprint, mine, learner.round, durable, **about)
        self.transport.publish(self._topic(self.name, "hello"), wire.encode(hello))
        if self.hello_at - self._state_at > STATE_EVERY:
            self.publish_state(self._state)

    def send(self, update: Update) -> bytes:
        """Send an update to all neighbours that listen now; returns its bytes."""
        durable = self.store.durable(update.round)
        payload = self.learner.exchange.payload
        sent = wire.encode_update(update, self.identity.incarnation, durable, payload)
        self._sent += 1
        is_rare = self._sent % RARE == 0 and bool(self.neighbourhood.peers)
        if is_rare or self.neighbourhood.is_heard:
            self.transport.publish(self._rare if is_rare else self._theta, sent)
        return sent

    def rest(self) -> None:
        """Listen less to neighbours whose messages cannot be used, and again to those whose can."""
        near = self.neighbourhood
        before, self._resting = self._resting, near.resting
        for name in self._resting - before:
            self.transport.unsubscribe(self._topic(name, "theta"))
        for name in before - self._resting:
            if name in near.peers:
                self.transport.subscribe(self._topic(name, "theta"))
        if self._resting != before:
            tell(LOG, logging.INFO, "neighbours that are hardly listened to", names=sorted(self._resting))
            self._hello_soon()
        deaf = {name for name, peer in near.peers.items() if peer.rests}
        self.learner.resting = frozenset(self._resting | deaf)

    def is_hello_due(self, now: float) -> bool:
        """Whether it is time for the next regular hello, or one could not be sent at once."""
        return self._is_hello_due or now - self.hello_at > HELLO_EVERY

    def check_name(self, now: float) -> str:
        """Refuse to run under a name that another agent has; what to report where that only seems so."""
        near = self.neighbourhood.peers
        if self.identity.is_taken(now, near):
            raise InputError(
                f"another agent runs under the name {self.name!r}; expected one; stop it or rename this one"
            )
        return self.identity.conflict(now, near)

    def _hello_soon(self) -> None:
        """Send a hello now, or at the next check if there was one just before."""
        if time.monotonic() - self.hello_at > PAUSE:
            self.hello({})
        else:
            self._is_hello_due = True

    def ask(self, peers: list[Peer], pause: float) -> None:
        """Ask neighbours for missing updates, each at most once in `pause` seconds."""
        now = time.monotonic()
        due = [peer for peer in peers if peer.may_be_asked(now, pause)]
        if due:
            self.hello({peer.name: self.learner.round for peer in due})

    def publish_state(self, state: str) -> None:
        """Publish "init", "ready" or "done", with our round, the graph that we hold, and our addresses."""
        self._state, self._state_at = state, time.monotonic()
        near = self.neighbourhood
        document = {"state": state, "round": self.learner.round, "graph": near.graph}
        document |= {"neighbours": [*near.peers], "addresses": security.announced(self.transport.settings)}
        payload = msgspec.json.encode(document)
        self.transport.publish(self._topic(self.name, STATE), payload, retain=True)

    def publish_status(self, status: Mapping[str, Any]) -> None:
        """Tell the neighbours how we are, and pass on what we have received of others."""
        self.gossip.report(status, time.monotonic())
        payload = self.gossip.take_news() if self.neighbourhood.peers else None
        if payload is not None:
            self.transport.publish(self._topic(self.name, STATUS), payload)

    # Received

    def receive(self, topic: str, payload: bytes) -> None:
        """Handle one message, or refuse it."""
        if self.topics.takes(topic):
            self.topics.receive(topic, payload)
            return
        sender, channel = _origin(topic)
        if sender == OPERATOR and channel == "graph":
            self._receive_graph(payload)
        elif sender not in self.neighbourhood.peers or channel not in CHANNELS:
            self.refused.note("stranger", sender=sender)
        elif channel == STATUS:
            self._receive_guarded(self.neighbourhood.peers[sender], payload, self._receive_status)
        else:
            self._receive_guarded(self.neighbourhood.peers[sender], payload, self._receive_from)
            self.note_unused()

    def _receive_guarded(self, peer: Peer, payload: bytes, receive: Callable[[Peer, bytes], None]) -> None:
        """The one place where a neighbour's message comes in: whatever is wrong with it is its refusal."""
        try:
            receive(peer, payload)
        except RoundRefused as error:
            self.refused.note("round", sender=peer.name, reason=str(error))
        except PeerError as error:
            kind = "version" if isinstance(error, wire.OtherVersion) else "message"
            self.refused.note(kind, sender=peer.name, reason=str(error))
        except Exception as error:  # nothing that a neighbour sends may end us
            self.refused.note("fault", sender=peer.name, reason=f"{type(error).__name__}: {error}")

    def note_unused(self) -> None:
        """Count what closed rounds did not use: what our samples contradict, and all where merging failed."""
        for name in self.learner.implausible:
            self.refused.note_unused(str(name))
        for reason in self.learner.faults:
            self.refused.note("fault", reason=reason)
        self.learner.implausible.clear()
        self.learner.faults.clear()

    def _receive_graph(self, payload: bytes) -> None:
        try:
            self.neighbourhood.want(topology.decode(payload, self.transport.settings))
        except InputError as error:
            self.refused.note("graph", reason=str(error))

    def _receive_status(self, peer: Peer, payload: bytes) -> None:
        self.gossip.receive(peer.name, payload, self.neighbourhood.peers, time.monotonic())

    def _receive_from(self, peer: Peer, payload: bytes) -> None:
        message = self._decoder.decode(payload)
        if not self._is_of_current_incarnation(peer, message):
            return
        if isinstance(message, wire.Again):
            updates = [self._decoder.update(each).update for each in message.updates]
            self.neighbourhood.receive_again(peer, updates)
        elif isinstance(message, wire.Hello):
            self.neighbourhood.believe(peer, message.incarnation, message.round, message.durable)
            self._receive_hello(peer, message)
        else:
            self._receive_update(peer, message)

    def _receive_update(self, peer: Peer, message: wire.Envelope) -> None:
        update = message.update
        self.learner.check(peer.name, update, decoded=True)  # before anything of it is stored
        self.neighbourhood.believe(peer, message.incarnation, update.round, message.durable)
        peer.note_direct(update.round)
        self.neighbourhood.agree(peer, update.edges.get(self.name))
        self.neighbourhood.receive(peer, update)

    def _is_of_current_incarnation(
        self, peer: Peer, message: wire.Envelope | wire.Hello | wire.Again
    ) -> bool:
        """Whether a message counts. One of another incarnation is refused; its first hello is a greeting,
        which ours answers so that the new incarnation can name ours."""
        now, before = time.monotonic(), peer.incarnations.current
        hello = message if isinstance(message, wire.Hello) else None
        named = None if hello is None else hello.incarnations.get(self.name)
        ours = self.identity.incarnation
        refusal = peer.incarnations.judge(message.incarnation, hello is not None, named, ours, now)
        if refusal == "unconfirmed":
            if hello is None:  # not worth a warning: starts begin so
                self.refused[refusal] += 1
        elif refusal:
            self.refused.note(refusal, sender=peer.name)
        if hello is not None and refusal != "replayed":
            self._note_incarnations(peer, hello, before != peer.incarnations.current, now)
        return not refusal

    def _note_incarnations(self, peer: Peer, hello: wire.Hello, is_accepted: bool, now: float) -> None:
        is_greeting = peer.note_hello(hello.incarnation)
        named, is_rival = hello.incarnations.get(self.name), self.name in hello.rivals
        is_renewed = self.identity.note(peer.name, named, is_rival, now)
        if is_accepted or is_renewed:
            self.hello({})  # before any other message: it accepts them only after this
        elif is_greeting:
            self._hello_soon()

    def _receive_hello(self, peer: Peer, hello: wire.Hello) -> None:
        ended_at, ours = hello.round if hello.done else None, self.name
        is_heard = ours not in hello.rests
        about = hello.edges.get(ours), hello.ended.get(ours), not is_heard
        self.neighbourhood.receive_hello(peer, ended_at, *about)
        wanted = hello.wants.get(self.name)
        if wanted is not None and peer.may_be_answered(time.monotonic(), PAUSE / 2):
            self._send_again(peer.name, self.store.since(wanted, AT_ONCE))

    def _send_again(self, name: str, updates: list[bytes]) -> None:
        """Send updates again to a neighbour that missed them, byte for byte."""
        if updates:
            again = wire.encode(wire.Again(self._fingerprint, self.identity.incarnation, updates))
            self.transport.publish(self._topic(self.name, "to", name), again)


@functools.lru_cache(1024)
def _origin(topic: str) -> tuple[str, str]:
    """Name and channel of the learner that publishes on a topic."""
    _, _, sender, channel, *_ = topic.split("/")
    return sender, channel


LOG = logging.getLogger(__name__)
#: The transport is reopened after so many seconds without a message, at the earliest.
LEAST_PATIENCE = 10.0
#: Seconds between two checks.
TICK = 0.1
#: Seconds between two attempts to reopen it, and between two looks at the list of revoked certificates.
LOOK_EVERY = 1.0

Names = tuple[str, ...]


class Connection:
    """A transport, and the neighbours that should be received over it."""

    def __init__(
        self, transport: Transport, neighbourhood: Neighbourhood, config: AgentConfig, refused: Refused
    ) -> None:
        self.transport, self.neighbourhood, self.refused = transport, neighbourhood, refused
        self.revoked = Revoked(config.transport.revoked, config.transport.ca)
        self._looked_at = time.monotonic()
        self._patience = max(LEAST_PATIENCE, 2 * config.rounds.deadline)
        self._others = config.peers[len(config.neighbours) :]  # admitted, though no neighbours of ours
        self._connect = transport.settings.connect
        self._usable = self._connect  # the last addresses with which the transport could be opened
        self._admitted = set(config.peers), set(self._connect)
        self._limited = Limited(LOG)
        if transport.settings.ca is None and transport.settings.kind != "memory":
            what = "no certificates: anybody who reaches this network can forge messages and change its graph"
            tell(LOG, logging.WARNING, what)

    async def receive(self, handle: Callable[[list[Message]], None]) -> None:
        """Hand received messages to `handle`; ends only if that fails."""
        failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def handler(messages: list[Message]) -> None:
            try:
                handle(self._without_revoked(messages))
            except Exception as error:
                if not failed.done():
                    failed.set_exception(error)

        self.transport.deliver(handler)
        await failed

    def _without_revoked(self, messages: list[Message]) -> list[Message]:
        """Refuse the messages of those whose certificates were revoked."""
        if not self.revoked.names:
            return messages
        kept = []
        for message in messages:  # those of sensors may have other topics, which name no sender
            sender = sender_of(message[0]) if is_topic(message[0]) else ""
            if sender in self.revoked.names:
                self.refused.note("revoked", sender=sender)
            else:
                kept.append(message)
        return kept

    async def keep(self) -> None:
        """Follow new neighbours and addresses; reopen the transport when nothing arrives, or only a part."""
        well_at = time.monotonic()
        while True:
            await asyncio.sleep(TICK)
            await self._admit()
            now = time.monotonic()
            if not self._is_deaf(now):
                well_at = now
            elif now - well_at > self._patience:
                tell(LOG, logging.WARNING, "no messages from neighbours, reopening the transport")
                await self._reopen()
                well_at = time.monotonic()

    async def _admit(self) -> None:
        """Let the transport accept new neighbours and connect to them, and exclude who was revoked."""
        senders, connect = self._wanted()
        if (set(senders), set(connect)) == self._admitted:
            return
        self._admitted = set(senders), set(connect)
        if not await self._opened(senders, connect):
            await self._reopen()

    def _wanted(self) -> tuple[Names, Names]:
        """Whose messages to accept, and the addresses to connect to, as graph and revocations are now."""
        now = time.monotonic()
        if now - self._looked_at > LOOK_EVERY:
            self._looked_at = now
            self.revoked.reload()
        near, gone = self.neighbourhood, self.revoked.names
        senders = tuple(name for name in dict.fromkeys([*near.peers, *self._others]) if name not in gone)
        new = (address for name in near.peers for address in near.addresses.get(name, ()))
        return senders, tuple(dict.fromkeys([*self._connect, *new]))

    def _is_deaf(self, now: float) -> bool:
        peers = self.neighbourhood.peers.values()
        silent = bool(peers) and not any(peer.is_up(now, 3.0) for peer in peers)
        return silent or any(peer.lacks_updates(now) for peer in peers)

    async def _reopen(self) -> None:
        """Open the transport again; where the wanted addresses cannot be used, with the last that could."""
        await self.close()
        while True:
            senders, connect = self._wanted()
            for addresses in dict.fromkeys((connect, self._usable)):
                if await self._opened(senders, addresses):
                    self._admitted = set(senders), set(connect)
                    return
            await asyncio.sleep(LOOK_EVERY)

    async def _opened(self, senders: Names, connect: Names) -> bool:
        """Whether the transport could be opened for these neighbours, with these addresses."""
        try:
            await self.transport.admit(senders, connect)
            await self.transport.open()
        except InputError as error:
            self._limited.warn("transport", "transport cannot be opened", reason=str(error))
            return False
        self._usable = connect
        return True

    async def close(self) -> None:
        """Close the transport, whatever state it is in."""
        with contextlib.suppress(InputError):
            await self.transport.close()
