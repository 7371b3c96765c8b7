"""What every transport is: the rest of domkl sees this, and never a socket."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Protocol

from ...base.errors import InputError
from .topics import check_name

KINDS = ("memory", "zenoh", "mqtt")


@dataclasses.dataclass(frozen=True)
class TransportSettings:
    """How a learner reaches the others.

    Parameters
    ----------
    kind
        `memory` (one process), `zenoh` (learner to learner) or `mqtt` (through a broker).
    network, name
        Which network, and who this is in it. With certificates the name is the certificate's.
    listen, connect
        Zenoh: `host:port` addresses to listen on, and those of some learners to start from;
        the others are found from them.
    broker
        MQTT: `host:port` of the broker.
    ca, cert, key
        PEM files for mutual TLS, as `domkl certs` makes them. Without them only loopback is allowed.
    peers
        Zenoh with certificates: the learners whose messages are accepted, each under its own name
        only. The operator is always accepted. Change it later with `Transport.admit`.
    insecure
        Allow other machines without certificates: anyone there can then read and forge.
    max_bytes
        Longer messages are refused, going out and coming in.
    inbox
        So many messages may wait to be received; what comes on top is refused.
    """

    kind: str
    network: str
    name: str
    listen: tuple[str, ...] = ()
    connect: tuple[str, ...] = ()
    broker: str = "127.0.0.1:1883"
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    peers: tuple[str, ...] = ()
    insecure: bool = False
    max_bytes: int = 16 * 2**20
    inbox: int = 4096

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(f"transport is {self.kind!r}; expected one of {', '.join(KINDS)}; choose one")
        check_name(self.network, "network")
        for name in (self.name, *self.peers):
            check_name(name, "learner")
        for field in ("max_bytes", "inbox"):
            if getattr(self, field) < 1:
                raise InputError(f"{field} is {getattr(self, field)}; expected at least 1; raise it")


@dataclasses.dataclass
class Counts:
    """What a transport has done so far. `refused`: too long, or the inbox was full. `dropped`: not sent,
    because there was no connection or it was congested."""

    sent: int = 0
    sent_bytes: int = 0
    received: int = 0
    received_bytes: int = 0
    refused: int = 0
    dropped: int = 0


class Transport(Protocol):
    """Messages between learners. Delivery is not promised: what cannot be sent now is dropped.

    A transport may be closed and opened again: its subscriptions, its retained messages and what was not
    yet received stay.
    """

    settings: TransportSettings
    counts: Counts

    async def open(self) -> None:
        """Join the network; `InputError` if that cannot be done (no broker, bad certificate, ...)."""

    async def close(self) -> None:
        """Leave it: subscribers of this learner's state hear `LOST`. Closing twice is fine."""

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Send under this learner's own name, without waiting and without errors from the network.

        A retained message also reaches those who subscribe later; an empty one takes it back.
        """

    def subscribe(self, pattern: str) -> None:
        """Receive what matches from now on, and what is retained there.

        What is retained, and what several overlapping patterns match, may come more than once.
        """

    def unsubscribe(self, pattern: str) -> None:
        """Stop that; a pattern that was not subscribed to is fine."""

    def expect(self, count: int) -> None:
        """Whoever cannot go on before `count` messages are in saves time by saying so: messages are then
        handed out once there are as many, until this is called again. From the event loop's thread only."""

    def deliver(self, handler: Callable[[list[tuple[str, bytes]]], None]) -> None:
        """From now on call `handler` with all that is in, in the event loop's thread, instead of `receive`:
        a wait less in each round."""

    async def receive(self) -> list[tuple[str, bytes]]:
        """Wait for messages, then return all that are in: (topic, payload), in order for each sender."""
        ...

    async def admit(self, peers: tuple[str, ...]) -> None:
        """Accept exactly these learners and the operator, where certificates tell them apart."""
