"""Streams keyed by device on Kafka: the recipe in examples/kafka, at librdkafka's own imitation of a cluster.

That speaks Kafka's protocol on loopback ports: topics, groups, offsets. A broker is not in Debian or PyPI.
"""

from __future__ import annotations

import importlib.util
import json
import pathlib

import numpy as np
import pytest

import domkl

kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
PATH = pathlib.Path(__file__).parent.parent / "examples" / "kafka" / "keyed.py"
pytestmark = pytest.mark.skipif(not PATH.exists(), reason="not a checkout")
KEYS = [b"north", b"south", b"west"]


@pytest.fixture(scope="module")
def recipe():
    spec = importlib.util.spec_from_file_location("keyed", PATH)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    made.MODEL = domkl.Auto(size=30)
    return made


@pytest.fixture
def servers():
    """A cluster for as long as its producer lives."""
    producer = kafka.Producer({"test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = producer.list_topics(timeout=10).brokers.values()
    yield f"{broker.host}:{broker.port}"
    producer.flush()


def send(servers, readings):
    producer = kafka.Producer({"bootstrap.servers": servers})
    for key, value in readings:
        producer.produce("readings", value if isinstance(value, bytes) else json.dumps(value), key)
    assert producer.flush(10) == 0


def predictions(servers):
    """By device, in order."""
    consumer = kafka.Consumer({"bootstrap.servers": servers, "group.id": "test"})
    topic = consumer.list_topics("predictions", timeout=10).topics["predictions"]
    found = {}
    for partition in topic.partitions:
        place = kafka.TopicPartition("predictions", partition, 0)
        end = consumer.get_watermark_offsets(place, timeout=10)[1]
        consumer.assign([place])
        for _ in range(end):
            message = consumer.poll(10)
            found.setdefault(message.key(), []).append(json.loads(message.value())["y_hat"])
    consumer.close()
    return found


def dying(recipe):
    """A worker that dies after each checkpoint, before Kafka knows of it."""
    return type("Dying", (recipe.Operator,), {"commit": lambda self: None})


def test_a_learner_a_key_survives_its_worker_with_the_same_bits(recipe, servers):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(60, 3, 2)).round(6)
    y = np.sin(3 * X[..., 0]) + X[..., 1] * np.arange(3)
    readings = [(key, {"x": X[t, k].tolist(), "y": y[t, k]}) for t in range(60) for k, key in enumerate(KEYS)]
    send(servers, readings[:90])
    first = dying(recipe)(servers, every=50)
    first.readings.unsubscribe()  # joining a group takes seconds, which the second one does
    first.readings.assign([kafka.TopicPartition("readings", k, kafka.OFFSET_BEGINNING) for k in range(4)])
    first.run(0.5, until_idle=True)
    send(servers, [*readings[90:], (b"north", b"no JSON"), (b"south", {"x": [1.0]}), (b"west", {"y": 1})])
    second = recipe.Operator(servers)
    second.run(0.5, until_idle=True)
    second.close()
    first.readings.close()
    assert second.refused == 3
    found = predictions(servers)
    for k, key in enumerate(KEYS):
        alone = domkl.Learner(recipe.MODEL, name=key.decode(), inputs=2)
        expected = []
        for x, label in zip(X[:, k], y[:, k], strict=True):
            expected.append(float(alone.predict(x)))
            alone.observe(x, label)
        assert found[key] == expected
