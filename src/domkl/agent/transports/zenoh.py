"""Transport from learner to learner over Zenoh, without a broker; TCP or TLS.

The settings below are measured, not guessed: with Zenoh's own defaults one learner that is cut off stalls
its healthy neighbours for seconds. Run the fault tests after every upgrade of Zenoh.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import json
import os
import re
import threading
from typing import Any

from ...base.errors import InputError
from ...base.extras import need
from .base import Transport, TransportSettings
from .names import LOST, OPERATOR, ROOT, STATE, is_topic
from .security import parse, uses_tls

#: Threads for each part of Zenoh that a neighbour which does not answer can block: at least, and at most.
FEW_WORKERS, MOST_WORKERS = 4, 16

#: Where to listen on every network of this machine, on a free port.
EVERYWHERE = "0.0.0.0:0"

#: Seconds to wait for what others retain.
FETCH_TIMEOUT = 2.0

#: Above `max_bytes`: slightly longer messages arrive and are counted, far longer ones are cut off before.
SLACK = 65536


def load(links: int = 2) -> Any:
    """The package `zenoh`, with enough threads that one bad neighbour does not block the others."""
    workers = max(FEW_WORKERS, min(links + 2, MOST_WORKERS))
    each = ",".join(f"{part}:(worker_threads:{workers})" for part in ("tx", "net", "rx"))
    os.environ.setdefault("ZENOH_RUNTIME", f"({each})")  # read once, when Zenoh first starts a thread
    return need("zenoh", "zenoh")


def configuration(settings: TransportSettings) -> dict[str, Any]:
    """Zenoh's own configuration; raises InputError if addresses or certificates cannot be used."""
    if not settings.listen + settings.connect and not settings.discover:
        raise InputError(
            "neither listen nor connect is given; expected an address to listen on or one "
            "to connect to; give listen = ['127.0.0.1:7447'] or the like"
        )
    listen = settings.listen or ((EVERYWHERE,) if settings.discover else ())
    tls = uses_tls(settings, listen + settings.connect)
    protocol = "tls" if tls else "tcp"
    queue = {
        "size": {"data": 16},  # batches of 64 KiB: with Zenoh's two, a busy machine loses messages of 1 MB
        "congestion_control": {"block": {"wait_before_close": 100_000}},  # microseconds
    }
    made: dict[str, Any] = {
        "mode": "peer",
        "listen": {"endpoints": _endpoints(protocol, listen), "exit_on_failure": True},
        "connect": {
            "endpoints": _endpoints(protocol, settings.connect),
            "exit_on_failure": False,
            "retry": {"period_init_ms": 250, "period_max_ms": 1000, "period_increase_factor": 2},
        },
        "open": {"return_conditions": {"connect_scouted": False, "declares": False}},  # peers may come later
        "scouting": {"multicast": _multicast(settings), "gossip": _gossip(settings)},
        "transport": {
            "unicast": {"open_timeout": 2000},
            "shared_memory": {"enabled": False},  # containers have little of it, and other machines none
            "link": {
                "protocols": [protocol],  # or gossip could lead from TLS to plain TCP
                "tx": {"lease": 2000, "queue": queue},
                "rx": {"max_message_size": settings.max_bytes + SLACK},
            },
        },
    }
    if tls:
        made["transport"]["link"]["tls"] = _certificates(settings)
        made["access_control"] = access(settings)
    return made


def _multicast(settings: TransportSettings) -> dict[str, Any]:
    """Off, or everybody on the local network connects to everybody: only the messages tell who is who."""
    if not settings.discover:
        return {"enabled": False}
    return {"enabled": True, "listen": True, "autoconnect": {"router": [], "peer": ["router", "peer"]}}


def _gossip(settings: TransportSettings) -> dict[str, Any]:
    """Learners pass on who is connected to them, and only the operator connects to all: with Zenoh's default
    every learner would."""
    whom = ["router", "peer"] if settings.name == OPERATOR else []
    return {"enabled": True, "multihop": False, "autoconnect": {"router": [], "peer": whom}}


def access(settings: TransportSettings) -> dict[str, Any]:
    """Access rules: each certificate may publish under its own common name only, others not at all."""
    everything = f"{ROOT}/{settings.network}/**"
    if settings.name == OPERATOR and not settings.peers:
        return {"enabled": False}
    names = sorted({*settings.peers, OPERATOR} - {settings.name})
    questions = ["declare_subscriber", "query", "declare_liveliness_subscriber", "liveliness_query"]
    statements = ["put", "delete", "reply", "declare_queryable", "liveliness_token"]
    rules = [
        _allow("ask", "ingress", questions, everything),
        _allow("tell", "egress", questions + statements, everything),
    ]
    policies = [{"rules": ["ask", "tell"], "subjects": names}]
    subjects = [{"id": name, "cert_common_names": [name]} for name in names]
    for i, key in enumerate(map(as_key, settings.topics)):  # of sensors and for predictions: anybody's
        rules += [_allow(f"{flow} {i}", flow, questions + statements, key) for flow in ("ingress", "egress")]
        policies.append({"rules": [f"ingress {i}", f"egress {i}"], "subjects": ["(anybody)"]})
    subjects += [{"id": "(anybody)"}] if settings.topics else []
    for name in names:
        rules.append(_allow(f"as {name}", "ingress", statements, f"{ROOT}/{settings.network}/{name}/**"))
        policies.append({"rules": [f"as {name}"], "subjects": [name]})
    return {
        "enabled": True,
        "default_permission": "deny",
        "rules": rules,
        "subjects": subjects,
        "policies": policies,
    }


def _allow(name: str, flow: str, messages: list[str], keys: str) -> dict[str, Any]:
    return {"id": name, "permission": "allow", "flows": [flow], "messages": messages, "key_exprs": [keys]}


def _endpoints(protocol: str, addresses: tuple[str, ...]) -> list[str]:
    for address in addresses:
        parse(address)
    return [f"{protocol}/{address}" for address in addresses]


def _certificates(settings: TransportSettings) -> dict[str, Any]:
    return {
        "root_ca_certificate": settings.ca,
        "listen_certificate": settings.cert,
        "listen_private_key": settings.key,
        "connect_certificate": settings.cert,
        "connect_private_key": settings.key,
        "enable_mtls": True,
        # A learner is its common name, wherever it is: addresses of devices change, and `access` decides.
        "verify_name_on_connect": False,
        "close_link_on_expiration": True,
    }


def as_key(pattern: str) -> str:
    """An MQTT pattern as a key expression of Zenoh."""
    return "/".join({"+": "*", "#": "**"}.get(level, level) for level in pattern.split("/"))


class ZenohTransport(Transport):
    """Transport from learner to learner; a retained message is served by its own learner while that is up."""

    def __init__(self, settings: TransportSettings):
        super().__init__(settings)
        self._zenoh: Any = load(MOST_WORKERS if settings.name == OPERATOR else len(settings.peers))
        self._session: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._publishers: dict[str, Any] = {}
        self._subscribers: dict[str, Any] = {}
        self._declared: list[Any] = []
        self._sending = threading.Lock()  # so that a retained message never overtakes its successor

    async def admit(self, peers: tuple[str, ...], connect: tuple[str, ...] | None = None) -> None:
        """Accept exactly these learners. Zenoh reads its settings once, so the session is opened again."""
        before, connect = self.settings, self.settings.connect if connect is None else connect
        self.settings = dataclasses.replace(before, peers=peers, connect=connect)
        rules = before.ca is not None and set(peers) != set(before.peers)
        if self._is_open and (rules or set(connect) != set(before.connect)):
            await self.close()
            await self.open()

    async def _connect(self) -> None:
        self._loop = asyncio.get_running_loop()
        given = json.dumps(configuration(self.settings))
        try:
            config = self._zenoh.Config.from_json5(given)
            self._session = await asyncio.to_thread(self._zenoh.open, config)
        except self._zenoh.ZError as error:
            listen = ", ".join(self.settings.listen) or "nothing"
            raise InputError(
                f"Zenoh cannot start (listening on {listen}): {_reason(error)}; expected free addresses "
                "of this machine and usable certificates; stop what uses them, or change them or the network"
            ) from None
        self._declare()

    def _declare(self) -> None:
        liveliness = self._session.liveliness()
        everyone = f"{ROOT}/{self.settings.network}/*/{STATE}"
        self._declared = [
            self._session.declare_queryable(f"{self._prefix}**", self._answer),
            liveliness.declare_subscriber(everyone, self._on_liveliness, history=True),
        ]
        for pattern in self._patterns:
            self._listen(pattern)
        self._declared.append(liveliness.declare_token(self.state_topic))

    async def _disconnect(self) -> None:
        session, self._session = self._session, None
        self._publishers, self._subscribers, self._declared = {}, {}, []
        await asyncio.to_thread(session.close)

    def _send(self, topic: str, payload: bytes, retain: bool) -> bool:
        try:
            publisher = self._publishers.get(topic) or self._publisher(topic)
            with self._sending:
                publisher.put(payload)
        except self._zenoh.ZError:
            return False
        return True

    def _publisher(self, topic: str) -> Any:
        drop = self._zenoh.CongestionControl.DROP
        # Not express: then each message, however short, takes a whole batch, and bursts lose some.
        made = self._session.declare_publisher(topic, congestion_control=drop)
        self._publishers[topic] = made
        return made

    def _listen(self, pattern: str) -> None:
        hear = functools.partial(self._on_topic, pattern) if is_topic(pattern) else self._on_sample
        self._subscribers[pattern] = self._session.declare_subscriber(as_key(pattern), hear)
        self._fetch(as_key(pattern))

    def _unlisten(self, pattern: str) -> None:
        self._subscribers.pop(pattern).undeclare()

    def _on_topic(self, topic: str, sample: Any) -> None:
        self._inbox.add(topic, sample.payload.to_bytes())  # Zenoh has refused far longer ones

    def _on_sample(self, sample: Any) -> None:
        payload = sample.payload
        if self._inbox.fits(len(payload)):
            self._inbox.add(str(sample.key_expr), payload.to_bytes())

    def _on_liveliness(self, sample: Any) -> None:
        topic = str(sample.key_expr)
        if topic == self.state_topic:
            return
        if sample.kind == self._zenoh.SampleKind.DELETE:
            if self._wants(topic):
                self._inbox.add(topic, LOST)
        elif self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop was closed under us
                self._loop.call_soon_threadsafe(self._fetch, topic.removesuffix(STATE) + "**")

    def _fetch(self, key: str) -> None:
        """Request the retained messages on `key`."""
        if self._session is None:
            return
        with contextlib.suppress(self._zenoh.ZError):
            self._session.get(
                key,
                self._on_reply,
                consolidation=self._zenoh.ConsolidationMode.NONE,
                congestion_control=self._zenoh.CongestionControl.DROP,
                timeout=FETCH_TIMEOUT,
            )

    def _on_reply(self, reply: Any) -> None:
        sample = reply.ok
        if sample is not None and self._wants(str(sample.key_expr)):
            self._on_sample(sample)

    def _answer(self, query: Any) -> None:
        with self._sending:
            for topic, payload in tuple(self._retained.items()):
                if query.key_expr.intersects(self._zenoh.KeyExpr(topic)):
                    query.reply(topic, payload)  # as congestible as the query was


def _reason(error: Exception) -> str:
    """Zenoh's message without the places in its source."""
    return re.sub(r"\.? at /\S+", "", " ".join(str(error).split()))
