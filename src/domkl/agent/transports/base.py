"""Interface of a transport: the rest of domkl uses this, and never a socket."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Protocol

from ...base.errors import InputError
from .topics import check_filter, check_name

KINDS = ("memory", "zenoh", "mqtt")


@dataclasses.dataclass(frozen=True)
class TransportSettings:
    """Settings of a transport: addresses, certificates and limits.

    Parameters
    ----------
    kind
        `memory` (one process), `zenoh` (learner to learner) or `mqtt` (through a broker).
    network, name
        The network, and this learner's name in it; with certificates, the certificate's common name.
    listen, connect
        Zenoh: `host:port` addresses to listen on, and those of neighbours to connect to. Of two
        neighbours at least one must know the other's address; learners that are no neighbours are not
        connected.
    announce
        Zenoh: addresses at which others reach this learner, if not those it listens on.
    broker
        MQTT: `host:port` of the broker.
    user, password
        MQTT: name and password at the broker. They leave this machine over TLS only, unless `insecure`.
    ca, cert, key
        PEM files for mutual TLS, as `domkl certs` makes them. Without them only loopback is allowed. With a
        user of a broker `ca` alone is enough; "system" are the certificates that this machine trusts.
    revoked
        PEM file that lists revoked certificates; whoever receives messages reads it, not the transport.
    peers
        Zenoh with certificates: the learners whose messages are accepted, each under its own name
        only. The operator is always accepted. Change it later with `Transport.admit`. Only the operator
        may have none: it then accepts every certificate of the CA, to find out who is there.
    topics
        Further topics, not of learners, that may be read and written: of sensors, and for predictions.
    is_guest
        MQTT: no learner but a client of a broker of others, which says nothing about itself there.
    discover
        Zenoh: "lan" also finds learners by multicast on the local network, and connects to all it finds.
    insecure
        Allow other machines without certificates: anyone there can then read and forge.
    max_bytes
        Longer messages are refused, going out and coming in.
    inbox
        Most messages that may wait to be received, together at most four times `max_bytes`; further ones
        are refused.
    """

    kind: str
    network: str
    name: str
    listen: tuple[str, ...] = ()
    connect: tuple[str, ...] = ()
    announce: tuple[str, ...] = ()
    broker: str = "127.0.0.1:1883"
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    revoked: str | None = None
    peers: tuple[str, ...] = ()
    user: str | None = None
    password: str | None = dataclasses.field(default=None, repr=False)
    topics: tuple[str, ...] = ()
    is_guest: bool = False
    discover: str = ""
    insecure: bool = False
    max_bytes: int = 16 * 2**20
    inbox: int = 4096

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(f"transport is {self.kind!r}; expected one of {', '.join(KINDS)}; choose one")
        check_name(self.network, "network")
        for name in (self.name, *self.peers):
            check_name(name, "learner")
        for topic in self.topics:
            check_filter(topic)
        for field in ("max_bytes", "inbox"):
            if getattr(self, field) < 1:
                raise InputError(f"{field} is {getattr(self, field)}; expected at least 1; raise it")


@dataclasses.dataclass
class Counts:
    """Counters of a transport. `refused`: too long, or the inbox was full. `dropped`: not sent, because
    there was no connection or it was congested."""

    sent: int = 0
    sent_bytes: int = 0
    received: int = 0
    received_bytes: int = 0
    refused: int = 0
    dropped: int = 0


class Transport(Protocol):
    """Messages between learners. Delivery is not guaranteed: what cannot be sent now is dropped.

    A transport may be closed and opened again: subscriptions, retained messages and messages that were
    not received yet are preserved.
    """

    settings: TransportSettings
    counts: Counts

    @property
    def is_connected(self) -> bool:
        """Whether messages can be sent now, as far as this end knows."""
        ...

    async def open(self) -> None:
        """Connect; raises `InputError` if that fails (no broker, bad certificate, ...)."""

    async def close(self) -> None:
        """Disconnect: subscribers of this learner's state receive `LOST`. May be called twice."""

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Send on one of this learner's topics; does not wait, and raises no network errors.

        A retained message also reaches later subscribers; an empty payload removes it.
        """

    def subscribe(self, pattern: str) -> None:
        """Receive matching messages from now on, and those retained there.

        Retained messages, and those that several patterns match, may arrive more than once.
        """

    def unsubscribe(self, pattern: str) -> None:
        """Undo `subscribe`; an unknown pattern is ignored."""

    def expect(self, count: int) -> None:
        """Deliver messages only once `count` of them have arrived, until this is called again: saves wake-ups
        where nothing can be done with fewer. From the event loop's thread only."""

    def deliver(self, handler: Callable[[list[tuple[str, bytes]]], None]) -> None:
        """From now on pass messages to `handler`, in the event loop's thread, instead of `receive`: one turn
        of the loop less in each round."""

    async def receive(self) -> list[tuple[str, bytes]]:
        """Wait for messages, then return all so far: (topic, payload), in order for each sender."""
        ...

    async def admit(self, peers: tuple[str, ...], connect: tuple[str, ...] | None = None) -> None:
        """Accept exactly these learners and the operator, where certificates identify them, and connect to
        exactly these addresses, where learners are connected to each other (None: as before)."""
