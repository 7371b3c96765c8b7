"""What an attacker can do who speaks Zenoh or MQTT without our code."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json

import pytest

import brokers
from domkl.agent.transports import LOST, TransportSettings, make, sender_of, topic
from domkl.agent.transports.zenoh import access, configuration, load
from domkl.base.errors import InputError
from nets import NAMES, NETWORK, Net, collect, collect_one, linked, needs_mosquitto, network, own, run, settle


@pytest.fixture(params=["zenoh+tls", pytest.param("mqtt+tls", marks=needs_mosquitto)])
def secured(request, authority):
    with network(request.param, authority) as made:
        yield made


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
        ("a", ("operator",), set()),  # only the operator's certificate changes the graph
        ("operator", ("operator",), {"operator"}),
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
