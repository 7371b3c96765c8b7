"""Readings from topics of others, with a password; predictions to a topic; a broker that is flooded."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math

import pytest

import brokers
from domkl.agent import AgentConfig, certs, load
from domkl.agent import topics as foreign
from domkl.agent.config import OutputSection, StreamSection, TransportSection
from domkl.agent.transports import TransportSettings, make
from domkl.base.errors import InputError
from domkl.datasets.columns import Columns
from domkl.models.settings import Auto
from inmemory import Agent, until
from nets import needs_mosquitto

COLUMNS = Columns(target="power", features=("temp", "hall.humid"))
USERS = {"domkl": "geheim: 1", "sensor": "s"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    if brokers.MOSQUITTO is None:
        pytest.skip("mosquitto is not installed")
    with brokers.running(tmp_path_factory.mktemp("broker"), users=USERS) as made:
        yield made


def config(broker, columns=COLUMNS, output=None, **stream):
    login = {"broker": broker.address, "user": "domkl", "password": USERS["domkl"]}
    section = StreamSection(**{**login, **stream})
    about = {"columns": columns, "stream": section, "output": output or OutputSection()}
    return AgentConfig("net", "a", model=Auto(size=16), **about)


@contextlib.asynccontextmanager
async def client(broker, *topics):
    """A sensor, or somebody who reads predictions."""
    login = {"broker": broker.address, "user": "sensor", "password": "s"}
    made = make(TransportSettings("mqtt", "net", "s", topics=topics, is_guest=True, inbox=10**6, **login))
    await made.open()
    try:
        yield made
    finally:
        await made.close()


@contextlib.asynccontextmanager
async def running(given, **options):
    agent = Agent(given, **options)
    task = asyncio.create_task(agent.run())
    await until(lambda: task.done() or (agent.status.ready and agent.topics._transport.is_connected))
    await asyncio.sleep(0.1)  # until the broker has the subscription
    try:
        yield agent
    finally:
        agent.stop()
        await asyncio.wait_for(task, 10)


def test_topics_are_joined_and_predictions_are_published(broker):
    """Flat, nested and plain messages of three topics; a prediction a label, with time, target and bounds."""
    joined = {"topics": ("home/temp", "home/hall", "home/meter")}
    output = OutputSection(topic="forecast/power", retain=True, coverage=0.5, predictions="")
    topics = "home/temp", "home/hall", "home/meter", "forecast/power"

    async def main():
        async with (
            client(broker, *topics) as sensor,
            running(config(broker, output=output, **joined)) as agent,
        ):
            sensor.subscribe("forecast/power")
            for i in range(20):
                sensor.publish("home/temp", b"%d.5" % i)
                sensor.publish("home/hall", json.dumps({"humid": i % 5, "deep": {"a": [1]}}).encode())
                sensor.publish("home/meter", json.dumps({"power": math.sin(i)}).encode())
            await until(lambda: sensor.counts.received == 20)
            found = [json.loads(payload) for _, payload in await sensor.receive()]
            async with client(broker, *topics) as late:  # the broker keeps the last one
                late.subscribe("forecast/power")
                ((_, kept),) = await late.receive()
            return agent, found, json.loads(kept)

    agent, found, kept = asyncio.run(main())
    assert agent.learner.round == 20
    assert [record["y"] for record in found] == [math.sin(i) for i in range(20)]
    assert {*found[-1]} == {"index", "round", "time", "target", "y_hat", "y", "low", "high"}
    assert found[-1]["target"] == "power"
    assert found[-1]["time"].endswith("Z")
    assert found[-1]["low"] < found[-1]["y_hat"] < found[-1]["high"]
    assert kept == found[-1]


def test_each_message_is_a_reading_and_wildcards_match(broker):
    columns = Columns(target="t", features=("in.0.v", "topic"), categories={"topic": ("s/a/r", "s/b/r")})
    out = []

    async def main():
        async with client(broker, "s/a/r", "s/b/r", "s/a/other") as sensor:
            sensor.publish("s/a/r", b'{"in": [{"v": 9}], "t": 9}', retain=True)  # not seen again later
            await asyncio.sleep(0.1)
            async with running(config(broker, columns, topic="s/+/r"), out=out.append) as agent:
                sensor.publish("s/a/r", b'{"in": [{"v": 1}], "t": 2}')
                sensor.publish("s/a/other", b'{"in": [{"v": 8}], "t": 8}')
                sensor.publish("s/b/r", b'{"in": [{"v": 3}]}')
                sensor.publish("s/b/r", b"[]")
                await until(lambda: agent.rows.read == 3)
                return dict(agent.rows)

    assert asyncio.run(main()) == {"not a reading": 1}
    assert [(record["index"], record.get("y")) for record in out] == [(0, 2.0), (1, None)]


@pytest.mark.parametrize("password", ["wrong", None])
def test_a_wrong_password_is_one_line_and_not_shown(broker, password):
    given = config(broker, topic="a", password=password)
    with pytest.raises(
        InputError, match=r"cannot be used: Not authorized; expected one that accepts domkl"
    ) as error:
        asyncio.run(Agent(given, out=len).run())
    assert password is None or password not in str(error.value)


def test_a_password_is_never_shown_and_needs_tls_beyond_loopback(tmp_path, monkeypatch, capsys):
    from domkl import cli

    (tmp_path / "pw").write_text("s3cret\n")
    text = 'columns = {target = "y", features = ["u"]}\n'
    text += 'stream = {topic = "a", broker = "10.0.0.9:1883", user = "u", password_file = "pw"}\n'
    path = tmp_path / "a.toml"
    path.write_text(text)
    found = load(path, {})
    assert found.source_settings().password == "s3cret"
    assert (found.name, found.network, found.checkpoint.directory) == (
        "a",
        "domkl",
        str(tmp_path / "a.state"),
    )
    assert cli.main(["agent", str(path), "--check"]) == 2
    assert "expected TLS for a password that nobody can read; add ca" in capsys.readouterr().err
    monkeypatch.setenv("DOMKL_STREAM_PASSWORD", "s3cret")
    more = 'http = {listen = "127.0.0.1:9", token = "s3cret-s3cret-s3cret"}\n'
    more += 'output = {url = "https://example.org/in?key=s3cret"}\n'
    path.write_text(text.replace(', password_file = "pw"', ", insecure = true") + more)
    assert cli.main(["agent", str(path), "--check"]) == 0
    assert "s3cret" not in capsys.readouterr().out
    assert "s3cret" not in f"{load(path)!r}{load(path).source_settings()!r}".replace("key=s3cret", "")
    assert "s3cret" not in f"{load(path)}{load(path).http.access()}"
    monkeypatch.delenv("DOMKL_STREAM_PASSWORD")
    path.write_text(text.replace('"pw"', '"none"'))
    assert cli.main(["agent", str(path), "--check"]) == 2
    assert "none cannot be read: No such file" in capsys.readouterr().err
    path.write_text(text.replace('password_file = "pw"', "password = 12345"))
    with pytest.raises(InputError) as error:
        load(path, {})
    assert "12345" not in str(error.value)


@needs_mosquitto
def test_a_broker_may_show_a_certificate_and_ask_for_a_password(tmp_path):
    certs.make(tmp_path, ["a"])
    with brokers.running(tmp_path, users=USERS, shows=tmp_path) as made:
        given = config(made, topic="a", ca=str(tmp_path / "ca.pem"))

        async def main():
            async with running(given, out=len) as agent:
                assert not agent.topics.fault
                made.kill()
                await until(lambda: agent.status.faults)
                assert agent.status.faults == (f"no connection to the broker: {made.address}",)

        asyncio.run(main())


def test_a_flood_costs_no_memory_and_is_counted(broker, monkeypatch):
    """4,000 topics, huge and absurd payloads; the honest readings after it are all learnt."""
    monkeypatch.setattr(foreign, "MOST_READINGS", 2000)
    out, junk = (
        [],
        [b"", b"nan", b"1e999", b"{", b"[" * 5000, b'{"power": NaN}', b"9" * 400, b'{"power": {}}'],
    )
    given = config(broker, topics=("flood/#", "home/meter"), within=1e6, columns=Columns("power", ("temp",)))
    places = [f"flood/{i}/temp" if i % 2 else f"flood/{i}" for i in range(4000)]
    topics = *places, "home/meter", "flood/x/temp"

    async def main():
        async with client(broker, *topics) as sensor, running(given, out=out.append) as agent:
            sensor.publish("flood/x/temp", b"20")
            for i, place in enumerate(places):
                sensor.publish(place, b"%d" % i if i % 4 else junk[i // 4 % len(junk)])
                if i % 100 == 0:
                    await asyncio.sleep(0.001)
            sensor.publish("flood/0", bytes(900_000))
            before = -1
            while before != (before := sensor.counts.sent + agent.rows.read) or agent.topics.readings.qsize():
                await asyncio.sleep(0.1)
            for i in range(50):
                sensor.publish("home/meter", b'{"power": %d}' % i)
            await until(lambda: len(out) >= 50)
            return agent

    agent = asyncio.run(main())
    assert [record["y"] for record in out[-50:]] == [float(i) for i in range(50)]
    assert len(agent.stream._parse.held) <= 256 + 1
    assert agent.rows["too many topics"] + agent.refused["reading"] > 1000
    assert agent.rows["not a reading"] > 0
    assert agent.learner.round == len(out) == 50
    assert sum(agent.metrics()["readings_refused"].values()) >= agent.rows.total()


def test_a_key_of_zenoh_is_read_and_written_through_the_transport():
    (port,) = brokers.free_ports(1)
    place = f"127.0.0.1:{port}"
    given = AgentConfig(
        "net",
        "a",
        model=Auto(size=16),
        columns=Columns("t", ("v",)),
        stream=StreamSection(topic="plant/+/state"),
        transport=TransportSection(listen=(place,)),
        output=OutputSection(topic="plant/forecast", predictions=""),
    )

    async def main():
        topics = "plant/7/state", "plant/forecast"
        robot = make(TransportSettings("zenoh", "net", "r", connect=(place,), topics=topics))
        async with running(given) as agent:
            await robot.open()
            robot.subscribe("plant/forecast")
            found = []
            while len(found) < 3:
                robot.publish("plant/7/state", b'{"v": 1, "t": 2}')
                with contextlib.suppress(asyncio.TimeoutError):
                    found += await asyncio.wait_for(robot.receive(), 0.2)
            await robot.close()
            return agent, found

    agent, found = asyncio.run(main())
    assert agent.rows.used >= 3
    assert json.loads(found[0][1])["y"] == 2.0
