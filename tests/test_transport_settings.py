"""Brokers that die or hang, and settings of transports that cannot work."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import socket
import threading
import types

import pytest

import brokers
from domkl.agent.transports import (
    Hub,
    MemoryTransport,
    TransportSettings,
    check_name,
    make,
    security,
    sender_of,
    topic,
)
from domkl.agent.transports.names import check_pattern, matches
from domkl.agent.transports.security import is_local, parse
from domkl.agent.transports.zenoh import as_key, configuration, load
from domkl.base.errors import InputError
from nets import NAMES, NETWORK, Net, collect, linked, network, own, run, with_pair


@pytest.fixture
def mqtt(authority):
    if brokers.MOSQUITTO is None:
        pytest.skip("mosquitto is not installed")
    with network("mqtt", authority) as made:
        yield made


def test_after_a_restart_of_the_broker_everything_comes_back(mqtt):
    async def main():
        async with mqtt.learners("a", "b") as (a, b):
            b.subscribe(f"domkl/{NETWORK}/a/#")
            a.publish(own(a, "state"), b"ready", retain=True)
            await linked(a, b)
            mqtt.broker.kill()
            while a.counts.dropped == 0:
                a.publish(own(a, "theta"), b"lost")
                await asyncio.sleep(0.01)
            mqtt.broker.start()
            await linked(a, b)
            async with mqtt.learners("c") as (c,):
                c.subscribe(f"domkl/{NETWORK}/a/state")
                assert await collect(c, 1) == [(own(a, "state"), b"ready")]

    run(main())


def test_a_broker_that_hangs_does_not_fill_the_memory(mqtt):
    async def work(a, b):
        mqtt.broker.pause()
        before = a.counts.sent_bytes
        for _ in range(200):
            a.publish(own(a, "theta"), bytes(500_000))
            await asyncio.sleep(0)
        assert a.counts.dropped > 0
        assert a.counts.sent_bytes - before < 50_000_000  # 2 MB here, the rest in the system's buffers
        mqtt.broker.resume()
        await linked(a, b)

    with_pair(mqtt, work, max_bytes=2_000_000)


def test_giving_up_on_a_broker_that_says_nothing_leaves_no_thread():
    async def main(port):
        transport = make(TransportSettings("mqtt", NETWORK, "a", broker=f"127.0.0.1:{port}"))
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(transport.open(), 0.2)
        return [each for each in threading.enumerate() if each.name.startswith("paho")]

    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert run(main(silent.getsockname()[1])) == []


def test_no_broker_is_an_error_of_one_line():
    (port,) = brokers.free_ports(1)
    transport = make(TransportSettings("mqtt", NETWORK, "a", broker=f"127.0.0.1:{port}"))
    with pytest.raises(InputError, match=f"broker 127.0.0.1:{port} cannot be used: .*refused"):
        run(transport.open())


# Settings


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"kind": "udp"}, "transport is 'udp'; expected one of memory, zenoh, mqtt"),
        ({"network": "a/b"}, "network is 'a/b'"),
        ({"name": ""}, "learner is ''"),
        ({"peers": ("a", "#")}, "learner is '#'"),
        ({"max_bytes": 0}, "max_bytes is 0"),
        ({"inbox": 0}, "inbox is 0"),
    ],
)
def test_settings_are_checked_when_made(changes, text):
    with pytest.raises(InputError, match=text):
        TransportSettings(**{"kind": "memory", "network": NETWORK, "name": "a", **changes})


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "neither listen nor connect"),
        ({"listen": ("0.0.0.0:7447",)}, "0.0.0.0:7447 is not a loopback address.*domkl certs"),
        ({"connect": ("127.0.0.1:1", "example.org:7447")}, "example.org:7447 is not a loopback address"),
        ({"kind": "mqtt", "broker": "10.0.0.1:1883"}, "10.0.0.1:1883 is not a loopback address"),
        ({"listen": ("127.0.0.1:7447",), "ca": "ca.pem"}, "cert and key not given"),
        ({"listen": ("127.0.0.1",)}, "address is '127.0.0.1'; expected host:port"),
        ({"listen": ("tcp/127.0.0.1:1",)}, "address is 'tcp/127.0.0.1:1'"),
        ({"listen": ("::1:1",)}, "address is '::1:1'"),
        ({"kind": "mqtt", "broker": "localhost"}, "address is 'localhost'"),
    ],
)
def test_what_is_not_safe_or_not_an_address_is_refused(changes, text):
    settings = TransportSettings(**{"kind": "zenoh", "network": NETWORK, "name": "a", **changes})
    with pytest.raises(InputError, match=text):
        run(make(settings).open())


@pytest.mark.parametrize("kind", ["zenoh", "mqtt"])
def test_certificates_that_cannot_work_are_refused_before_connecting(authority, stranger, tmp_path, kind):
    base = Net(f"{kind}+tls", authority, dict.fromkeys(NAMES, 1), None).settings("a")
    (tmp_path / "empty.pem").write_text("")
    for changes, text in [
        ({"name": "b"}, "is the certificate of 'a'; expected that of 'b'"),
        ({"key": f"{authority}/b.key"}, "cannot be used: .*mismatch"),
        ({"cert": str(tmp_path / "none.pem")}, "cannot be used: .*No such file"),
        ({"ca": str(tmp_path / "empty.pem")}, "cannot be used"),
        ({"ca": f"{stranger}/ca.pem"}, "was not issued by"),
    ]:
        with pytest.raises(InputError, match=text):
            run(make(dataclasses.replace(base, **changes)).open())


def test_an_expired_certificate_is_refused(authority, monkeypatch):
    in_three_years = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=1000)

    class Clock:
        @staticmethod
        def now(zone):
            return in_three_years.astimezone(zone)

    fake = types.SimpleNamespace(datetime=Clock, timezone=datetime.timezone)
    monkeypatch.setattr(security, "datetime", fake)
    settings = Net("zenoh+tls", authority, dict.fromkeys(NAMES, 1), None).settings("a")
    with pytest.raises(InputError, match=r"is valid from .*; expected a valid one"):
        configuration(settings)


def test_the_insecure_way_out_is_open_and_logged(caplog):
    settings = TransportSettings("zenoh", NETWORK, "a", listen=("0.0.0.0:7447",), insecure=True)
    assert configuration(settings)["listen"]["endpoints"] == ["tcp/0.0.0.0:7447"]
    assert "0.0.0.0:7447 without TLS" in caplog.text


def test_an_address_in_use_is_an_error_of_one_line():
    async def main():
        (port,) = brokers.free_ports(1)
        first, second = (
            make(TransportSettings("zenoh", NETWORK, name, listen=(f"127.0.0.1:{port}",))) for name in "ab"
        )
        await first.open()
        with pytest.raises(InputError, match=f"127.0.0.1:{port}.*Address already in use") as caught:
            await second.open()
        assert ".rs" not in str(caught.value)
        await first.close()

    run(main())


def test_addresses():
    assert parse("[::1]:7447") == ("::1", 7447)
    assert parse("host.example:1") == ("host.example", 1)
    loopback = ["127.0.0.1:1", "127.8.9.1:1", "localhost:1", "[::1]:1"]
    assert all(map(is_local, loopback))
    assert not any(map(is_local, ["0.0.0.0:1", "[::]:1", "128.0.0.1:1", "localhost.example:1"]))


def test_topics():
    assert topic("n", "a", "theta", "x") == "domkl/n/a/theta/x"
    assert sender_of("domkl/n/a/theta") == "a"
    for bad in ("", "a b", "a/b", "é", "a" * 65, "+", "#", "$x", None):
        with pytest.raises(InputError, match="expected 1 to 64 letters"):
            check_name(bad)
    for bad in ("domkl", "domkl/n", "x/n/a/b", "domkl/n//b"):
        with pytest.raises(InputError, match="topic is"):
            sender_of(bad)
    assert as_key(check_pattern("domkl/n/+/theta/#")) == "domkl/n/*/theta/**"


@pytest.mark.parametrize(
    ("pattern", "where", "expected"),
    [
        ("domkl/n/a/#", "domkl/n/a/b/c", True),
        ("domkl/n/a/#", "domkl/n/a", True),
        ("domkl/n/a/#", "domkl/n/ab/c", False),
        ("domkl/n/+/b", "domkl/n/a/b", True),
        ("domkl/n/+/b", "domkl/n/a/b/c", False),
        ("domkl/n/+/+/#", "domkl/n/a", False),
    ],
)
def test_patterns(pattern, where, expected):
    assert matches(pattern, where) is expected
    zenoh = load()
    assert zenoh.KeyExpr(as_key(pattern)).intersects(zenoh.KeyExpr(where)) is expected


def test_hubs_are_separate_worlds():
    async def main():
        one, other = Hub(), Hub()
        a, b, c = (
            MemoryTransport(TransportSettings("memory", NETWORK, name), hub)
            for name, hub in (("a", one), ("b", one), ("c", other))
        )
        for each in (a, b, c):
            await each.open()
            each.subscribe(f"domkl/{NETWORK}/a/theta")
        a.publish(own(a, "theta"), b"x")
        assert [each.counts.received for each in (a, b, c)] == [1, 1, 0]

    run(main())


def test_messages_may_be_handed_over_by_any_thread_and_none_is_lost():
    async def main():
        a = MemoryTransport(TransportSettings("memory", NETWORK, "a"))
        await a.open()
        a.subscribe(f"domkl/{NETWORK}/b/#")
        where = topic(NETWORK, "b", "theta")

        def work():
            for i in range(1000):
                a.take(where, i.to_bytes(2, "big"))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for each in threads:
            each.start()
        found = await collect(a, 4000)
        for each in threads:
            each.join()
        assert len(found) == a.counts.received == 4000

    run(main())
