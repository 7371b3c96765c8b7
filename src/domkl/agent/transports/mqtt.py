"""Transport through an MQTT 5 broker, with paho-mqtt's own thread; delivery at most once (QoS 0)."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import secrets
import socket
from collections import deque
from typing import Any

from ...base.errors import InputError
from ...base.extras import need
from ...base.secret import plain
from .base import Retained, Transport, TransportSettings
from .names import GONE, LONGEST_TOPIC, LOST
from .security import context, parse, uses_tls

#: Seconds without a message after which each end sends a ping.
KEEPALIVE = 5

#: Seconds between attempts to reconnect.
RETRY = 1

#: Most messages that may wait to be sent; their bytes are limited by `max_bytes`.
MOST_UNSENT = 4096

#: Seconds to wait for the broker when opening.
OPEN_TIMEOUT = 5.0

#: Above `max_bytes`: slightly longer messages arrive and are counted, far longer ones are cut off before.
SLACK = 65536


class MqttTransport(Transport):
    """Transport through a broker; its last will informs the others when this learner is gone."""

    def __init__(self, settings: TransportSettings):
        super().__init__(settings)
        self._paho: Any = need("paho.mqtt.client", "mqtt")
        self._client: Any = None
        self._key = secrets.token_hex(8)
        self._unsent: deque[tuple[Any, int]] = deque()
        self._unsent_bytes = 0

    async def _connect(self) -> None:
        tls = uses_tls(self.settings, (self.settings.broker,))
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        client = self._make_client(tls, answer)
        try:
            reason = await self._reach(client, answer)
        except BaseException:
            await asyncio.to_thread(_stop, client)
            raise
        if reason:
            await asyncio.to_thread(_stop, client)
            raise InputError(
                f"the MQTT broker {self.settings.broker} cannot be used: {reason}; expected one that accepts "
                f"{self.settings.user or self.settings.name}; start it, or fix broker, user, password or ca"
            )
        self._client = client

    async def _reach(self, client: Any, answer: asyncio.Future[str]) -> str:
        """Connect for the first time; returns why that failed, or "". Later paho reconnects by itself."""
        limit = need("paho.mqtt.properties", "mqtt").Properties(_packets().CONNECT)
        limit.MaximumPacketSize = self.settings.max_bytes + SLACK
        connect = functools.partial(client.connect, keepalive=KEEPALIVE, clean_start=True, properties=limit)
        try:
            await asyncio.to_thread(connect, *parse(self.settings.broker))
            client.loop_start()
            return await asyncio.wait_for(answer, OPEN_TIMEOUT)
        except (OSError, asyncio.TimeoutError) as error:
            return str(error) or "no answer"

    def _make_client(self, tls: bool, answer: asyncio.Future[str]) -> Any:
        paho = self._paho
        client = paho.Client(
            paho.CallbackAPIVersion.VERSION2,
            # Of this process alone: a broker would let two agents of one name disconnect each other for ever.
            client_id=f"{self.settings.network}-{self.settings.name}-{self._key}",
            protocol=paho.MQTTv5,
        )
        client.connect_timeout = OPEN_TIMEOUT
        client.reconnect_delay_set(RETRY, RETRY)
        if not self.settings.is_guest:  # a broker refuses clients whose will it may not publish
            client.will_set(self.state_topic, LOST, qos=0, retain=True)
        elif self.settings.will:
            client.will_set(self.settings.will, GONE, qos=0, retain=True)
        secret = self.settings.password
        if self.settings.user is not None:
            client.username_pw_set(self.settings.user, secret and plain(secret))
        client.on_socket_open = _send_at_once
        client.on_message = self._on_message
        self._tell(client, answer)
        if tls:
            client.tls_set_context(context(self.settings))
        return client

    def _tell(self, client: Any, answer: asyncio.Future[str]) -> None:
        """Resolve `answer` with why the first connection failed, or with "" if it did not."""
        loop = asyncio.get_running_loop()

        def resolve(reason: str) -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed under us
                loop.call_soon_threadsafe(_resolve, answer, reason)

        def connected(client: Any, data: Any, flags: Any, code: Any, properties: Any) -> None:
            if not code.is_failure:
                self._start_again(client)
            resolve(str(code) if code.is_failure else "")

        def disconnected(client: Any, data: Any, flags: Any, code: Any, properties: Any) -> None:
            resolve(f"it closed the connection ({code})")

        client.on_connect, client.on_disconnect = connected, disconnected

    def _start_again(self, client: Any) -> None:
        """Subscribe and publish retained messages at every connection, as a restarted broker has neither."""
        for pattern in self._patterns:
            client.subscribe(pattern, qos=0)
        for topic, payload in tuple(self._retained.items()):
            client.publish(topic, payload, qos=0, retain=True)

    async def _disconnect(self) -> None:
        client, self._client = self._client, None
        await asyncio.to_thread(_stop, client)

    @property
    def is_connected(self) -> bool:
        return self._client is not None and bool(self._client.is_connected())

    def _send(self, topic: str, payload: bytes, retain: bool) -> bool:
        if not self._client.is_connected() or self._is_congested():
            return False
        info = self._client.publish(topic, payload, qos=0, retain=retain)
        self._unsent.append((info, len(payload)))
        self._unsent_bytes += len(payload)
        return bool(info.rc == self._paho.MQTT_ERR_SUCCESS)

    def _is_congested(self) -> bool:
        """Paho's own queue has no bound for QoS 0."""
        while self._unsent and _is_done(self._unsent[0][0]):
            self._unsent_bytes -= self._unsent.popleft()[1]
        return self._unsent_bytes >= self.settings.max_bytes or len(self._unsent) >= MOST_UNSENT

    def _listen(self, pattern: str) -> None:
        self._client.subscribe(pattern, qos=0)

    def _unlisten(self, pattern: str) -> None:
        self._client.unsubscribe(pattern)

    def _on_message(self, client: Any, data: Any, message: Any) -> None:
        payload = message.payload
        try:
            topic = message.topic
        except UnicodeDecodeError:  # it would end paho's thread
            topic = "\ufffd" * (LONGEST_TOPIC + 1)  # refused and counted
        self._inbox.add(topic, Retained(payload) if message.retain else payload)


def _packets() -> Any:
    return need("paho.mqtt.packettypes", "mqtt").PacketTypes


def _resolve(answer: asyncio.Future[str], reason: str) -> None:
    if not answer.done():
        answer.set_result(reason)


def _send_at_once(client: Any, data: Any, sock: Any) -> None:
    """Send small messages without delay."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _is_done(info: Any) -> bool:
    try:
        return bool(info.is_published())
    except (RuntimeError, ValueError):  # its connection was lost
        return True


def _stop(client: Any) -> None:
    """Disconnect such that the broker publishes the last will, so that the others see it leave."""
    codes = need("paho.mqtt.reasoncodes", "mqtt").ReasonCode
    client.disconnect(reasoncode=codes(_packets().DISCONNECT, "Disconnect with will message"))
    client.loop_stop()
