"""Transports of messages: in memory, learner to learner (Zenoh), or through a broker (MQTT)."""

from __future__ import annotations

import importlib

from .base import KINDS, Counts, Hub, MemoryTransport, Transport, TransportSettings
from .names import LOST, OPERATOR, STATE, check_name, sender_of, topic

__all__ = ["KINDS", "LOST", "OPERATOR", "STATE", "Counts", "Hub", "MemoryTransport", "Transport"]
__all__ += ["TransportSettings", "check", "check_name", "make", "sender_of", "topic"]


def check(settings: TransportSettings) -> None:
    """Refuse settings that a transport could not open with: missing or invalid certificates."""
    from .security import uses_tls

    addresses = (settings.broker,) if settings.kind == "mqtt" else (*settings.listen, *settings.connect)
    if settings.kind != "memory":
        uses_tls(settings, addresses)


def make(settings: TransportSettings) -> Transport:
    """The transport that `settings` describe; not yet open."""
    module, name = KINDS[settings.kind].split(".")
    made: Transport = getattr(importlib.import_module(f".{module}", __name__), name)(settings)
    return made
