"""Labels at a time of their own: by the time of their reading, from files, pipes and topics of a broker."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json

import networkx as nx
import numpy as np
import pytest

import brokers
import domkl
import problems
from domkl.agent import AgentConfig, load
from domkl.agent.config import CheckpointSection, OutputSection, StreamSection
from domkl.agent.rows import JsonRows, Row, RowRefused
from domkl.agent.streams import Reading
from domkl.agent.transports import TransportSettings, make
from domkl.base.errors import InputError
from domkl.datasets.columns import Columns
from domkl.datasets.encoder import Encoder
from inmemory import AUTO, Agent, config, d, until

BY_TIME = StreamSection(labels="time")
COLUMNS = Columns(target="life", features=("heat",), time=("at",))


def run_on(agent):
    asyncio.run(asyncio.wait_for(agent.run(), 30))
    return agent


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    if brokers.MOSQUITTO is None:
        pytest.skip("mosquitto is not installed")
    with brokers.running(tmp_path_factory.mktemp("broker")) as made:
        yield made


def test_labels_by_time_outlive_restarts_and_are_those_of_the_simulator(tmp_path):
    """Three killed and started agents learn what `simulate` with that delay does."""
    X, y = problems.streams(1, 90, d)
    section = CheckpointSection(str(tmp_path), every_rounds=1, sync=False)
    one, outs = config("a", model=AUTO, stream=BY_TIME, checkpoint=section), []

    async def events(first, last):
        for n in range(first, last):
            t, is_label = divmod(n, 2)
            if not is_label:
                yield Reading(n, X[0, t], None, time=1e9 + t)
            elif t >= 3:
                yield Reading(n, None, y[0, t - 3], time=1e9 + t - 3 + 1e-4)  # the same millisecond

    for first, last in ((0, 61), (61, 120), (120, 180)):
        agent = Agent(one, stream=events(first, last), out=outs.append)
        assert agent.store.readings == first
        run_on(agent)
    run = domkl.simulate(X, y, nx.empty_graph(1), model=AUTO, delay=3)
    np.testing.assert_array_equal([record["y_hat"] for record in outs], run.y_hat[0])
    assert (len(agent.store.labels), dict(agent.rows)) == (3, {})


def lines_of(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize("columns", [COLUMNS, None], ids=["columns", "plain"])
def test_false_labels_are_refused_counted_and_change_nothing(tmp_path, columns):
    """Replayed, of the future, of no reading, without a number or a time: each is a refusal of its kind."""
    named = columns is not None

    def reading(t, heat):
        return {"at": t, "heat": heat} if named else {"time": t, "x": [heat]}

    def label(t, y):
        return {"at": t, "life": y} if named else {"time": t, "y": y}

    good = [reading(60, 1.0), reading(61, 2.0), label(60, 5.0)]
    bad = [
        label(60, 5.0),
        label(4e9, 5.0),
        label(1e12, 5.0),
        label(59.5, 5.0),
        label("soon", 5.0),
        label(61, "much"),
    ]
    bad += [label(None, 5.0)]
    path = tmp_path / "in.jsonl"
    path.write_text(lines_of(*good, *bad, label(61, 6.0)) + '{"at": NaN, "life": 1, "time": NaN, "y": 1}\n')
    if named:
        columns = dataclasses.replace(columns, kinds={"at": "time:s"})
    about = {"columns": columns} if named else {"inputs": 1}
    section = StreamSection(path=str(path), labels="time")
    given = AgentConfig("net", "a", model=AUTO, stream=section, output=OutputSection(predictions=""), **about)
    agent = run_on(Agent(given))
    assert (agent.learner.round, agent.progress.samples, len(agent.store.labels)) == (2, 2, 0)
    found = dict(agent.rows)
    assert (found["label without input"], found["future"], sum(found.values())) == (2, 1, 8)


def test_a_label_of_a_file_has_the_time_and_no_inputs(tmp_path):
    path, outs = tmp_path / "in.csv", []
    path.write_text("at,heat,life\n60,1,\n61,2,\n60,,5\n61,,7\n62,3,9\n")
    columns = dataclasses.replace(COLUMNS, kinds={"at": "time:s"})
    section = StreamSection(path=str(path), labels="time")
    given = AgentConfig("net", "a", model=AUTO, stream=section, columns=columns)
    agent = run_on(Agent(given, out=outs.append))
    assert [(record["index"], record.get("y")) for record in outs] == [(0, None), (1, None), (4, 9.0)]
    assert (agent.learner.round, dict(agent.rows)) == (3, {})


def test_a_topic_of_labels_beside_that_of_readings(broker):
    """Labels by time and by id; an old message that the broker keeps, and one that is none, teach nothing."""
    section = StreamSection(
        broker=broker.address, topic="engines/state", label_topic="engines/life", labels="time"
    )
    given = AgentConfig(
        "net", "a", model=AUTO, columns=COLUMNS, stream=section, output=OutputSection(alarm_rate=0.01)
    )
    outs, topics = [], ("engines/state", "engines/life")

    async def main():
        sensor = make(
            TransportSettings("mqtt", "net", "s", broker=broker.address, topics=topics, is_guest=True)
        )
        await sensor.open()
        when = "2026-11-19T08:00:{:02}Z".format

        def send(topic, message, **how):
            sensor.publish(topic, json.dumps(message).encode(), **how)

        send("engines/life", {"at": when(0), "life": 99}, retain=True)
        agent = Agent(given, out=outs.append)
        task = asyncio.create_task(agent.run())
        with contextlib.suppress(asyncio.TimeoutError):
            await until(lambda: agent.status.ready)
        await asyncio.sleep(0.2)
        for t in range(3):
            send("engines/state", {"at": when(t), "heat": t})
        send("engines/state", {"at": when(3), "heat": 3, "id": "x"})
        await until(lambda: len(outs) == 4)
        send("engines/life", {"at": when(1), "life": 5, "heat": 8})
        send("engines/life", {"id": "x", "life": 6})
        send("engines/life", 21.5)
        send("engines/life", {"at": when(0), "life": 4})
        send("engines/life", {"at": when(0), "life": 4})
        await until(lambda: agent.rows.read == 9)
        agent.stop()
        await asyncio.wait_for(task, 10)
        await sensor.close()
        return agent

    agent = asyncio.run(main())
    assert [(record["index"], record.get("label_of"), record.get("y")) for record in outs[4:]] == [
        (4, 1, 5.0),
        (5, None, 6.0),
        (7, 0, 4.0),
    ]
    assert agent.progress.samples == 3
    assert dict(agent.rows) == {"no time": 1, "label without input": 1}


@pytest.mark.parametrize(
    ("stream", "what"),
    [
        ('labels = "age"', "expected one of id, time"),
        ('label_topic = "a"\npath = "x.csv"', "label_topic is given without topic"),
        ('topic = "a/+"\nlabel_topic = "a/+"\nbroker = "127.0.0.1:1"', "which are readings"),
        ('topic = "a"\nlabel_topic = "#"\nbroker = "127.0.0.1:1"', "which are readings"),
        ('labels = "time"\npath = "x.parquet"', "order of time"),
        ('labels = "time"\ntopics = ["a", "b"]\nbroker = "127.0.0.1:1"', "expected label_topic"),
        ('labels = "time"\npath = "x.csv"\nhorizon = "1h"', "which are readings"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(stream, what, tmp_path):
    path = tmp_path / "a.toml"
    path.write_text(f'[columns]\ntarget = "y"\nfeatures = ["a"]\n[stream]\n{stream}\n')
    with pytest.raises(InputError, match=what):
        load(path, {})


def test_labels_of_joined_topics_come_on_a_topic_of_their_own():
    """The last values of two topics are a reading; its label comes by the time of what completed it."""
    topics = ("domkl/net/s/heat", "domkl/net/s/load")
    section = StreamSection(topics=topics, trigger=topics[1], label_topic="domkl/net/s/life", labels="time")
    columns = Columns(target="life", features=("heat", "load"), time=("at",), kinds={"at": "time:s"})
    given = config("a", model=AUTO, columns=columns, stream=section, inputs=2)
    outs = []

    async def main():
        agent = Agent(given, out=outs.append)
        task = asyncio.create_task(agent.run())
        await until(lambda: agent.status.ready)
        for t in range(5):
            agent.messages.receive(topics[0], b'{"at": %d, "heat": %d}' % (t, t))
            agent.messages.receive(topics[1], b'{"at": %d, "load": %d}' % (t, t))
        for t in (3, 0, 3):
            agent.messages.receive("domkl/net/s/life", b'{"at": %d, "life": %d}' % (t, t))
        await until(lambda: agent.rows.read == 8)
        agent.stop()
        await asyncio.wait_for(task, 10)
        return agent

    agent = asyncio.run(main())
    assert [record["index"] for record in outs] == [0, 1, 2, 3, 4]
    assert (agent.progress.samples, len(agent.store.labels)) == (2, 3)
    assert dict(agent.rows) == {"label without input": 1}


@pytest.mark.parametrize(
    "message",
    [
        {"at": 5},
        {"at": 5, "life": None},
        {"at": 5, "live": 3},
        {"at": 5, "heat": 1},
        {"x": {"heat": 1}, "at": 5, "y": 3},
        {"x": {"heat": 1}, "id": "a"},
    ],
)
@pytest.mark.parametrize("features", [("heat",), ("at", "heat"), ("at",)])
def test_nothing_on_the_topic_of_labels_is_a_reading(message, features):
    """One would take the place of the reading of that time, whose inputs it has not."""
    columns = Columns(target="life", features=features, time=("at",), kinds={"at": "time:s"})
    labels = JsonRows(Encoder(columns), by_time=True)
    payload = json.dumps(message).encode()
    if message.get("y"):
        assert labels.label(payload) == Row(None, 3.0, None, 5.0)
    else:
        with pytest.raises(RowRefused, match="no label"):
            labels.label(payload)
    assert labels.label(b'{"at": 5, "heat": 1, "life": 2}') == Row(None, 2.0, None, 5.0)
