"""A stream keyed by device on Kafka: one `domkl.Learner` a key, whose checkpoint is the operator's state.

    pip install "domkl" confluent-kafka
    python keyed.py 127.0.0.1:9092

`readings` has a JSON object {"x": [...], "y": 1.5} under each device's name; `predictions` gets what was
predicted before each label was learnt. Learners are kept in the topic `learners`, which should be compacted
and have as many partitions as `readings`. Start as many workers as there are partitions: Kafka shares these.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import confluent_kafka as kafka

import domkl
from domkl.learner import files

MODEL = domkl.Auto(size=200)  # a state of about 0.2 MB; Kafka takes messages up to 1 MB unless told otherwise
EVERY = 500  # readings between two checkpoints
NEVER = -1


class Operator:
    """The learners of this worker's partitions."""

    def __init__(self, servers: str, group: str = "domkl", every: int = EVERY) -> None:
        self.servers, self.every = servers, every
        self.out = kafka.Producer({"bootstrap.servers": servers})
        self.readings = kafka.Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )
        self.learners: dict[bytes, domkl.Learner] = {}
        self.last: dict[bytes, int] = {}  # the offset of each one's last reading
        self.changed: dict[bytes, int] = {}  # since the last checkpoint, with their partitions
        self.seen = self.taken = self.refused = 0
        self.readings.subscribe(["readings"], on_assign=self._assigned, on_revoke=self._revoked)

    def run(self, seconds: float = 1.0, until_idle: bool = False) -> None:
        """Learn what comes; `until_idle`: until nothing came for so many seconds."""
        while True:
            message = self.readings.poll(seconds)
            if message is None and until_idle and self.taken:
                return self.checkpoint()
            if message is not None and message.error() is None:
                self.take(message)
                self.taken += 1
                if self.seen >= self.every:
                    self.checkpoint()

    def take(self, message: Any) -> None:
        """One reading; a restored learner passes over what it knows already, and bad ones are counted."""
        key, self.seen = message.key(), self.seen + 1
        if message.offset() <= self.last.get(key, NEVER):
            return
        try:
            y_hat = self._learn(key, json.loads(message.value()))
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            self.refused += 1
            print(f"reading {message.partition()}/{message.offset()}: {error}", file=sys.stderr)
            return
        self.out.produce("predictions", json.dumps({"y_hat": y_hat, "offset": message.offset()}), key)
        self.last[key], self.changed[key] = message.offset(), message.partition()

    def _learn(self, key: bytes, value: dict[str, Any]) -> float:
        """Predict, then learn."""
        learner = self.learners.get(key) or self._new(key, len(value["x"]))
        y_hat = float(learner.predict(value["x"]))
        if value.get("y") is not None:
            learner.observe(value["x"], value["y"])
        return y_hat

    def checkpoint(self) -> None:
        """Write what has changed, then tell Kafka how far we are: after a crash in between, readings come
        again, and `take` passes over them."""
        for key, partition in self.changed.items():
            learner = self.learners[key]
            arrays, about = learner.save()
            more = {"offset": self.last[key], "inputs": learner.shapes.columns - learner.targets}
            content = files.seal(arrays, {**about, **more})
            self.out.produce("learners", content, key, partition)
        self.out.flush()
        self.commit()
        self.changed, self.seen = {}, 0

    def commit(self) -> None:
        """Tell Kafka how far we are."""
        if self.seen:
            self.readings.commit(asynchronous=False)

    def close(self) -> None:
        """Checkpoint, and leave the group."""
        self.readings.close()

    def _new(self, key: bytes, inputs: int) -> domkl.Learner:
        self.learners[key] = domkl.Learner(MODEL, name=key.decode(), inputs=inputs)
        return self.learners[key]

    def _assigned(self, consumer: Any, partitions: list[Any]) -> None:
        """Take over the learners of these partitions: the last state of each key."""
        self.out.list_topics("learners", timeout=10)  # which makes it, where topics may make themselves
        states = kafka.Consumer({"bootstrap.servers": self.servers, "group.id": "unused"})
        for one in partitions:
            place = kafka.TopicPartition("learners", one.partition)
            first, end = states.get_watermark_offsets(place, timeout=10)
            if end == first:
                continue
            place.offset, newest = first, {}
            states.assign([place])
            while (message := states.poll(10)) is not None:
                newest[message.key()] = message.value()
                if message.offset() == end - 1:
                    break
            for key, content in newest.items():
                self._restore(key, content)
        states.close()

    def _restore(self, key: bytes, content: bytes) -> None:
        arrays, about = files.unseal(content)
        self._new(key, about.pop("inputs")).load(arrays, about)
        self.last[key] = about["offset"]

    def _revoked(self, consumer: Any, partitions: list[Any]) -> None:
        """Others go on with these: write them first."""
        self.checkpoint()
        self.learners, self.last = {}, {}


if __name__ == "__main__":
    operator = Operator(sys.argv[1])
    try:
        operator.run()
    except KeyboardInterrupt:
        operator.close()
