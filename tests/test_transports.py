"""One suite for every transport, then what an attacker, a broker that dies and a bad setting do."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime
import json
import pathlib
import socket
import subprocess
import sys
import threading
import time
import types

import pytest

import brokers
from domkl.agent import certs
from domkl.agent.transports import (
    LOST,
    Hub,
    MemoryTransport,
    TransportSettings,
    check_name,
    make,
    security,
    sender_of,
    topic,
)
from domkl.agent.transports.security import is_loopback, parse
from domkl.agent.transports.topics import check_pattern, matches
from domkl.agent.transports.zenoh import access, as_key, configuration, load
from domkl.base.errors import InputError

NETWORK = "field"
NAMES = ("a", "b", "c")
PATIENCE = 10.0

needs_mosquitto = pytest.mark.skipif(brokers.MOSQUITTO is None, reason="mosquitto is not installed")

KINDS = [
    "memory",
    "zenoh",
    "zenoh+tls",
    pytest.param("mqtt", marks=needs_mosquitto),
    pytest.param("mqtt+tls", marks=needs_mosquitto),
]
REMOTE = KINDS[1:]


@dataclasses.dataclass
class Net:
    """A network of one kind, and how each learner gets into it."""

    kind: str
    folder: pathlib.Path
    ports: dict[str, int]
    broker: brokers.Broker | None

    @property
    def tls(self):
        return self.kind.endswith("+tls")

    def settings(self, name, **changes):
        values = {
            "kind": self.kind.removesuffix("+tls"),
            "network": NETWORK,
            "name": name,
            "listen": (f"127.0.0.1:{self.ports[name]}",),
            "connect": tuple(f"127.0.0.1:{port}" for other, port in self.ports.items() if other < name),
            "broker": self.broker.address if self.broker else "127.0.0.1:1883",
            "peers": NAMES,
        }
        return TransportSettings(**{**values, **(self.files(name) if self.tls else {}), **changes})

    def files(self, name, folder=None):
        place = folder or self.folder
        return {"ca": f"{self.folder}/ca.pem", "cert": f"{place}/{name}.pem", "key": f"{place}/{name}.key"}

    @contextlib.asynccontextmanager
    async def learners(self, *names, **changes):
        async with contextlib.AsyncExitStack() as stack:
            made = [make(self.settings(name, **changes)) for name in names]
            for each in made:
                await each.open()
                stack.push_async_callback(each.close)
            yield made


@pytest.fixture(scope="session")
def authority(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certs")
    certs.make(folder, [*NAMES, "operator", "mallory"])
    return folder


@pytest.fixture(scope="session")
def stranger(tmp_path_factory):
    """Another CA, with a certificate in the name of a."""
    folder = tmp_path_factory.mktemp("stranger")
    certs.make(folder, ["a", "broker"])
    return folder


@contextlib.contextmanager
def network(kind, authority):
    ports = dict(zip(NAMES, brokers.free_ports(len(NAMES)), strict=True))
    with contextlib.ExitStack() as stack:
        broker = None
        if kind.startswith("mqtt"):
            tls = kind.endswith("+tls")
            broker = stack.enter_context(brokers.running(authority, tls=tls, network=NETWORK))
        yield Net(kind, authority, ports, broker)


@pytest.fixture(params=KINDS)
def net(request, authority):
    with network(request.param, authority) as made:
        yield made


@pytest.fixture(params=REMOTE)
def remote(request, authority):
    with network(request.param, authority) as made:
        yield made


@pytest.fixture(params=["zenoh+tls", pytest.param("mqtt+tls", marks=needs_mosquitto)])
def secured(request, authority):
    with network(request.param, authority) as made:
        yield made


@pytest.fixture
def mqtt(authority):
    if brokers.MOSQUITTO is None:
        pytest.skip("mosquitto is not installed")
    with network("mqtt", authority) as made:
        yield made


def run(work):
    """A coroutine to its end, but not for ever."""
    return asyncio.run(asyncio.wait_for(work, 3 * PATIENCE))


def own(transport, channel):
    return topic(NETWORK, transport.settings.name, channel)


async def linked(sender, receiver):
    """Say hello until it is heard: links and subscriptions take a moment."""
    hello = own(sender, "hello")
    for _ in range(int(PATIENCE / 0.02)):
        sender.publish(hello, b"hello")
        with contextlib.suppress(asyncio.TimeoutError):
            if any(where == hello for where, _ in await asyncio.wait_for(receiver.receive(), 0.02)):
                return
    raise AssertionError("they never heard each other")


async def collect(receiver, count):
    """So many messages, apart from hello."""
    found = []
    while len(found) < count:
        batch = await asyncio.wait_for(receiver.receive(), PATIENCE)
        found += [(where, payload) for where, payload in batch if not where.endswith("/hello")]
    return found


async def settle(receiver, seconds=0.15):
    """All that comes within some time, apart from hello."""
    found = []
    with contextlib.suppress(asyncio.TimeoutError):
        while True:
            found += await asyncio.wait_for(receiver.receive(), seconds)
    return [(where, payload) for where, payload in found if not where.endswith("/hello")]


async def pair(stack, net, **changes):
    """a and b, where b listens to a and both have heard each other."""
    a, b = await stack.enter_async_context(net.learners("a", "b", **changes))
    b.subscribe(f"domkl/{NETWORK}/a/#")
    await linked(a, b)
    await settle(b, 0.05)
    return a, b


def with_pair(net, work, **changes):
    """Run `work(a, b)` in a network of two."""

    async def main():
        async with contextlib.AsyncExitStack() as stack:
            return await work(*await pair(stack, net, **changes))

    return run(main())


@pytest.mark.parametrize("size", [0, 1, 13_775, 1_000_000])
def test_a_message_arrives_as_it_was_sent(net, size):
    payload = bytes(i % 251 for i in range(size))

    async def work(a, b):
        a.publish(own(a, "theta"), payload)
        assert await collect(b, 1) == [(own(a, "theta"), payload)]
        assert type((await collect_one(a, b, b"x"))[1]) is bytes

    with_pair(net, work)


async def collect_one(a, b, payload):
    a.publish(own(a, "theta"), payload)
    (found,) = await collect(b, 1)
    return found


def test_messages_of_a_sender_keep_their_order(net):
    async def work(a, b):
        for i in range(200):
            a.publish(own(a, "theta"), i.to_bytes(8, "big"))
            if i % 20 == 0:
                await asyncio.sleep(0)
        assert [int.from_bytes(payload, "big") for _, payload in await collect(b, 200)] == [*range(200)]

    with_pair(net, work)


def test_receive_returns_all_that_is_in(net):
    async def work(a, b):
        before = b.counts.received
        for i in range(3):
            a.publish(own(a, "theta"), bytes([i]))
        while b.counts.received < before + 3:
            await asyncio.sleep(0.005)
        assert [payload for _, payload in await b.receive()] == [b"\0", b"\1", b"\2"]

    with_pair(net, work)


def test_patterns_choose(net):
    async def main():
        async with net.learners("a", "b", "c") as (a, b, c):
            c.subscribe(f"domkl/{NETWORK}/+/theta")
            c.subscribe(f"domkl/{NETWORK}/a/theta")
            c.subscribe(f"domkl/{NETWORK}/+/hello")
            await linked(a, c)
            await linked(b, c)
            for each in (a, b):
                each.publish(own(each, "metrics"), b"not for c")
                each.publish(topic(NETWORK, each.settings.name, "theta", "deep"), b"nor this")
                each.publish(own(each, "theta"), each.settings.name.encode())
            assert sorted(set(await settle(c, 0.3))) == [(own(a, "theta"), b"a"), (own(b, "theta"), b"b")]

    run(main())


def test_unsubscribe_ends_it_and_what_was_never_subscribed_is_fine(net):
    async def work(a, b):
        b.subscribe(f"domkl/{NETWORK}/a/metrics/#")
        b.unsubscribe(f"domkl/{NETWORK}/a/#")
        b.unsubscribe(f"domkl/{NETWORK}/c/#")
        await asyncio.sleep(0.1)
        a.publish(own(a, "theta"), b"no longer wanted")
        a.publish(own(a, "metrics"), b"wanted")
        assert await settle(b, 0.3) == [(own(a, "metrics"), b"wanted")]

    with_pair(net, work)


def test_own_messages_come_back_only_to_those_who_subscribe_to_them(net):
    async def work(a, b):
        a.publish(own(a, "theta"), b"to b")
        await collect(b, 1)
        assert await settle(a, 0.05) == []
        a.subscribe(own(a, "theta"))
        await asyncio.sleep(0.1)
        a.publish(own(a, "theta"), b"to both")
        assert await collect(a, 1) == await collect(b, 1) == [(own(a, "theta"), b"to both")]

    with_pair(net, work)


def test_the_last_retained_message_awaits_a_late_subscriber(net):
    async def main():
        async with net.learners("a", "b") as (a, b):
            a.publish(own(a, "state"), b"init", retain=True)
            a.publish(own(a, "state"), b"ready", retain=True)
            a.publish(own(a, "graph"), b"gone", retain=True)
            a.publish(own(a, "graph"), b"", retain=True)
            a.publish(own(a, "theta"), b"not retained")
            b.subscribe(f"domkl/{NETWORK}/a/hello")
            await linked(a, b)
            b.subscribe(f"domkl/{NETWORK}/a/#")
            assert (await collect(b, 1))[0] == (own(a, "state"), b"ready")
            async with net.learners("c") as (c,):
                c.subscribe(f"domkl/{NETWORK}/+/state")
                assert set(await settle(c, 0.6)) == {(own(a, "state"), b"ready")}

    run(main())


def test_who_subscribes_before_the_other_is_there_hears_its_state(net):
    async def main():
        b = make(net.settings("b"))
        b.subscribe(f"domkl/{NETWORK}/+/state")
        await b.open()
        a = make(net.settings("a"))
        a.publish(own(a, "state"), b"init", retain=True)  # not open yet: kept until it is
        await a.open()
        assert (await collect(b, 1))[0] == (own(a, "state"), b"init")
        await a.close()
        await b.close()
        assert a.counts.dropped == 1

    run(main())


def test_closing_is_heard_by_the_others_and_opening_again_restores_everything(net):
    async def main():
        async with net.learners("a", "b") as (a, b):
            b.subscribe(f"domkl/{NETWORK}/a/#")
            await linked(a, b)
            a.publish(own(a, "state"), b"ready", retain=True)
            await until(b, (own(a, "state"), b"ready"))
            await a.close()
            await a.close()
            await until(b, (own(a, "state"), LOST))
            a.publish(own(a, "theta"), b"into the void")
            assert a.counts.dropped == 1
            await a.open()
            await until(b, (own(a, "state"), b"ready"))
            await b.close()
            await b.open()
            await linked(a, b)

    run(main())


async def until(receiver, message):
    """Wait for one message among others."""
    while message not in await asyncio.wait_for(receiver.receive(), PATIENCE):
        pass


def test_too_long_messages_are_refused_going_out_and_coming_in(net):
    async def main():
        async with net.learners("a") as (a,), net.learners("b", max_bytes=1000) as (b,):
            b.subscribe(f"domkl/{NETWORK}/a/#")
            await linked(a, b)
            a.publish(own(a, "theta"), bytes(1001))
            a.publish(own(a, "theta"), bytes(1000))
            assert await collect(b, 1) == [(own(a, "theta"), bytes(1000))]
            assert b.counts.refused == 1
            b.publish(own(b, "theta"), bytes(1001))
            assert (b.counts.refused, b.counts.sent) == (2, 0)

    run(main())


def test_a_far_too_long_message_harms_nobody(net):
    async def main():
        async with net.learners("a") as (a,), net.learners("b", max_bytes=1000) as (b,):
            b.subscribe(f"domkl/{NETWORK}/a/#")
            await linked(a, b)
            a.publish(own(a, "theta"), bytes(2_000_000))
            await linked(a, b)
            assert await settle(b, 0.05) == []

    run(main())


def test_a_full_inbox_keeps_the_oldest_and_counts_the_rest(net):
    async def work(a, b):
        for i in range(20):
            a.publish(own(a, "theta"), bytes([i]))
        while b.counts.refused < 15:
            await asyncio.sleep(0.005)
        assert [payload for _, payload in await b.receive()] == [bytes([i]) for i in range(5)]
        assert (await collect_one(a, b, b"again"))[1] == b"again"

    with_pair(net, work, inbox=5)


def test_a_cancelled_receive_loses_nothing(net):
    async def work(a, b):
        waiting = asyncio.create_task(b.receive())
        await asyncio.sleep(0.02)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        found = []
        for i in range(50):
            a.publish(own(a, "theta"), bytes([i]))
            with contextlib.suppress(asyncio.TimeoutError):
                found += await asyncio.wait_for(b.receive(), 0.0005)
        if len(found) < 50:
            found += await collect(b, 50 - len(found))
        assert [payload[0] for _, payload in found] == [*range(50)]

    with_pair(net, work)


def test_a_handler_gets_messages_in_the_loops_thread_also_after_opening_again(net):
    async def work(a, b):
        got, mine = [], threading.get_ident()

        def handler(messages):
            assert threading.get_ident() == mine
            got.append([payload for _, payload in messages])

        async def until(count):
            while sum(map(len, got)) < count:
                await asyncio.sleep(0.002)

        await settle(b, 0.05)
        b.deliver(handler)
        b.expect(3)
        for i in range(3):
            a.publish(own(a, "theta"), bytes([i]))
        await asyncio.wait_for(until(3), PATIENCE)
        assert got == [[b"\0", b"\1", b"\2"]]
        b.expect(1)
        await b.close()
        await b.open()
        deadline = time.monotonic() + PATIENCE
        while len(got) < 2 and time.monotonic() < deadline:
            a.publish(own(a, "theta"), b"again")
            await asyncio.sleep(0.02)
        assert got[1][0] == b"again"

    with_pair(net, work)


def test_counts_tell_messages_and_bytes(net):
    async def work(a, b):
        before = dataclasses.replace(a.counts), dataclasses.replace(b.counts)
        await collect_one(a, b, bytes(100))
        assert (a.counts.sent, a.counts.sent_bytes) == (before[0].sent + 1, before[0].sent_bytes + 100)
        assert b.counts.received == before[1].received + 1
        assert b.counts.received_bytes == before[1].received_bytes + 100

    with_pair(net, work)


def test_a_closed_transport_receives_nothing_and_says_so(net):
    async def main():
        (b,) = [make(net.settings("b"))]
        with pytest.raises(InputError, match="closed"):
            await b.receive()
        await b.close()
        await b.open()
        await b.open()
        waiting = asyncio.create_task(b.receive())
        await asyncio.sleep(0.02)
        await b.close()
        with pytest.raises(InputError, match="closed"):
            await waiting

    run(main())


def test_a_learner_speaks_under_its_own_name_only(net):
    a = make(net.settings("a"))
    for bad in (f"domkl/{NETWORK}/b/theta", f"domkl/{NETWORK}/a", f"domkl/{NETWORK}/a/+", "domkl", ""):
        with pytest.raises(InputError, match="publishes on"):
            a.publish(bad, b"")
    for bad in ("#", "domkl/#", f"other/{NETWORK}/a", f"domkl/{NETWORK}/#/a", f"domkl/{NETWORK}/a*/b"):
        with pytest.raises(InputError, match="pattern is"):
            a.subscribe(bad)


CHILD = """
import asyncio, json, sys
from domkl.agent.transports import TransportSettings, make
async def main():
    values = json.loads(sys.argv[1])
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
    transport = make(TransportSettings(**values))
    await transport.open()
    transport.publish(transport.state_topic, b"ready", retain=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""


def test_a_killed_process_is_lost_to_the_others(remote):
    async def main():
        async with remote.learners("a") as (a,):
            a.subscribe(f"domkl/{NETWORK}/b/#")
            values = json.dumps(dataclasses.asdict(remote.settings("b")))
            child = subprocess.Popen([sys.executable, "-c", CHILD, values])
            try:
                await until(a, (topic(NETWORK, "b", "state"), b"ready"))
            finally:
                child.kill()
                child.wait()
            await until(a, (topic(NETWORK, "b", "state"), LOST))

    run(main())


# --- what an attacker can do: speak Zenoh or MQTT without our code -----------------------------------


@contextlib.contextmanager
def zenoh_attacker(net, **files):
    """A plain session that connects to b; yields how to put."""
    zenoh = load()
    config = configuration(net.settings("a", listen=(), connect=(f"127.0.0.1:{net.ports['b']}",)))
    del config["access_control"]
    config["transport"]["link"]["tls"].update(files)
    if files.get("protocol"):
        config["transport"]["link"]["protocols"] = [files["protocol"]]
        config["connect"]["endpoints"] = [f"{files['protocol']}/127.0.0.1:{net.ports['b']}"]
        del config["transport"]["link"]["tls"]
    with zenoh.open(zenoh.Config.from_json5(json.dumps(config))) as session:
        yield lambda where: session.put(where, b"attack")


@contextlib.contextmanager
def mqtt_attacker(net, cert=None, key=None, client_id="x", ca=None):
    """A plain client that tries to stay connected; yields how to publish."""
    from paho.mqtt import client as paho

    client = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id=client_id, protocol=paho.MQTTv5)
    client.tls_set(ca or f"{net.folder}/ca.pem", cert, key)
    client.connect("127.0.0.1", net.broker.port)
    client.loop_start()
    try:
        yield lambda where: client.publish(where, b"attack")
    finally:
        client.disconnect()
        client.loop_stop()


def attacker(net, who, stranger):
    """An attacker with somebody's certificate: of a, of mallory, of another CA in a's name, or none."""
    place = stranger if who == "stranger" else net.folder
    name = {"stranger": "a", "nobody": None}.get(who, who)
    cert, key = (None, None) if name is None else (f"{place}/{name}.pem", f"{place}/{name}.key")
    if net.kind.startswith("mqtt"):
        return mqtt_attacker(net, cert, key)
    return zenoh_attacker(
        net, connect_certificate=cert, connect_private_key=key, enable_mtls=name is not None
    )


async def attacked(net, attack, *targets, seconds=0.6):
    """What b hears while somebody attacks and c, a legitimate learner, goes on sending."""
    async with net.learners("b", "c") as (b, c):
        b.subscribe(f"domkl/{NETWORK}/#")
        await linked(c, b)
        heard = []
        with attack as put:
            for _ in range(int(seconds / 0.05)):
                for target in targets:
                    put(topic(NETWORK, target, "theta"))
                heard += await settle(b, 0.05)
        c.publish(own(c, "theta"), b"legitimate")
        while (own(c, "theta"), b"legitimate") not in heard:
            heard += await collect(b, 1)
        return {sender_of(where) for where, payload in heard if payload == b"attack"}


@pytest.mark.parametrize(
    ("who", "targets", "accepted"),
    [
        ("a", ("a",), {"a"}),  # the attack itself works, so that the others can fail
        ("a", ("a", "c"), {"a"}),
        ("stranger", ("a",), set()),
        ("nobody", ("a",), set()),
    ],
)
def test_only_our_certificates_speak_and_only_in_their_own_name(secured, stranger, who, targets, accepted):
    assert run(attacked(secured, attacker(secured, who, stranger), *targets)) == accepted


def test_zenoh_believes_only_the_learners_it_was_told_of(authority, stranger):
    with network("zenoh+tls", authority) as net:
        assert run(attacked(net, attacker(net, "mallory", stranger), "mallory", "a")) == set()


def test_zenoh_with_tls_answers_nobody_on_plain_tcp(authority):
    with network("zenoh+tls", authority) as net:
        assert run(attacked(net, zenoh_attacker(net, protocol="tcp"), "a")) == set()


def test_zenoh_does_not_believe_whom_it_connects_to_either(authority, stranger):
    """b connects to the address of a, where somebody with another CA's certificate listens."""

    async def main(net, place):
        zenoh = load()
        config = configuration(net.settings("a", connect=()))
        del config["access_control"]
        files = {"listen_certificate": f"{place}/a.pem", "listen_private_key": f"{place}/a.key"}
        config["transport"]["link"]["tls"].update(files, root_ca_certificate=f"{authority}/ca.pem")
        with zenoh.open(zenoh.Config.from_json5(json.dumps(config))) as session:
            async with net.learners("b") as (b,):
                b.subscribe(f"domkl/{NETWORK}/#")
                for _ in range(12):
                    session.put(topic(NETWORK, "a", "theta"), b"attack")
                    if await settle(b, 0.05):
                        return True
        return False

    for place, believed in ((authority, True), (stranger, False)):
        with network("zenoh+tls", authority) as net:
            assert run(main(net, place)) is believed


def test_zenoh_admits_a_newcomer_after_the_session_was_opened(authority):
    async def main(net):
        async with net.learners("b", peers=()) as (b,), net.learners("a") as (a,):
            b.subscribe(f"domkl/{NETWORK}/a/#")
            for _ in range(10):
                a.publish(own(a, "theta"), b"?")
                assert await settle(b, 0.05) == []
            await b.admit(NAMES)
            await linked(a, b)

    with network("zenoh+tls", authority) as net:
        run(main(net))


def test_the_operator_is_heard_without_being_named(authority):
    rules = access(TransportSettings("zenoh", NETWORK, "a", peers=("b",)))
    assert rules["default_permission"] == "deny"
    assert [each["cert_common_names"] for each in rules["subjects"]] == [["b"], ["operator"]]


def test_zenoh_believes_no_forged_news_of_a_death(authority):
    """Somebody with the certificate of a declares c alive, and then not any more."""

    async def main(net):
        async with net.learners("b") as (b,):
            b.subscribe(f"domkl/{NETWORK}/#")
            zenoh = load()
            config = configuration(net.settings("a", listen=(), connect=(f"127.0.0.1:{net.ports['b']}",)))
            del config["access_control"]
            with zenoh.open(zenoh.Config.from_json5(json.dumps(config))) as session:
                tokens = [session.liveliness().declare_token(topic(NETWORK, name, "state")) for name in "ac"]
                await asyncio.sleep(0.3)
                for token in tokens:
                    token.undeclare()
                return await settle(b, 0.3)

    with network("zenoh+tls", authority) as net:
        assert run(main(net)) == [(topic(NETWORK, "a", "state"), LOST)]


@needs_mosquitto
def test_an_mqtt_client_cannot_leave_the_last_will_of_another(authority):
    async def main(net):
        async with net.learners("b") as (b,):
            b.subscribe(f"domkl/{NETWORK}/#")
            for name in "ca":
                mine = make(net.settings("a"))
                mine.state_topic = topic(NETWORK, name, "state")
                await mine.open()
                await mine.close()
            return await settle(b, 0.3)

    with network("mqtt+tls", authority) as net:
        assert run(main(net)) == [(topic(NETWORK, "a", "state"), LOST)]


@needs_mosquitto
def test_an_mqtt_client_cannot_take_over_the_session_of_another(authority):
    async def main(net):
        async with net.learners("a", "b") as (a, b):
            b.subscribe(f"domkl/{NETWORK}/a/#")
            await linked(a, b)
            files = net.files("mallory")
            with mqtt_attacker(net, files["cert"], files["key"], client_id=f"{NETWORK}-b"):
                await settle(b, 0.3)
                assert (await collect_one(a, b, b"still here"))[1] == b"still here"

    with network("mqtt+tls", authority) as net:
        run(main(net))


@needs_mosquitto
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # paho drops its socket
def test_a_broker_of_another_ca_is_refused(authority, stranger):
    with brokers.running(stranger, tls=True, network=NETWORK) as broker:
        net = Net("mqtt+tls", authority, dict.fromkeys(NAMES, 1), broker)
        with pytest.raises(InputError, match="certificate verify failed"):
            run(make(net.settings("a")).open())


@needs_mosquitto
def test_mqtt_says_that_the_broker_refused_the_certificate(authority, stranger):
    with network("mqtt+tls", authority) as net:
        settings = dataclasses.replace(net.settings("a"), **net.files("a", stranger))
        with pytest.raises(InputError, match="was not issued by"):
            run(make(settings).open())


# --- a broker that dies, or hangs --------------------------------------------------------------------


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


# --- settings ----------------------------------------------------------------------------------------


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
    assert all(map(is_loopback, loopback))
    assert not any(map(is_loopback, ["0.0.0.0:1", "[::]:1", "128.0.0.1:1", "localhost.example:1"]))


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
