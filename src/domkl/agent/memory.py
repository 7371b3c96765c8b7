"""State of an agent that makes restarts, its own and its neighbours', exact.

A checkpoint holds the learner between two rounds, how many readings it has learnt, and the updates it sent
since its neighbours' last checkpoints: a neighbour that is restored needs them again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..base.extras import need
from ..base.types import Array
from ..learner import Learner, schema
from ..learning.conformal import Errors
from . import checkpoint
from .config import CheckpointSection
from .streams import Reading

#: Own updates kept for neighbours: at least, and at most.
FEW, MANY = 64, 512
#: The most inputs that wait for their label; the oldest is dropped first.
WAITING = 10_000


class Memory:
    """State beside the learner: in memory and, where a directory is given, in checkpoints."""

    def __init__(
        self, section: CheckpointSection, journal: bool = False, name: str = "", network: str = ""
    ) -> None:
        self.section, self.name, self.network = section, name, network
        self._most = 2 * FEW  # updates to keep before dropping those that nobody needs
        self.history: dict[int, bytes] = {}  # own updates as they were sent, by round
        self.waiting: dict[str, tuple[Array, float]] = {}  # id -> x and its prediction
        self.errors = Errors()  # of predictions, in the scaled unit of the labels
        self.readings = 0  # the number of the next reading
        self.graph, self.names = 0, list[str]()  # the version of the graph, and our neighbours in it
        self.addresses: dict[str, tuple[str, ...]] = {}  # where those listen
        self.origin: Any = None  # position of the stream, as the stream describes it
        self.incarnation = time.time_ns()
        self.saved = 0  # the round of the last checkpoint
        self._saved_at = time.monotonic()
        directory = section.directory
        if directory is not None:
            need("safetensors", "agent")  # fails now, not at the first checkpoint
        self._journal = checkpoint.Journal(directory) if journal and directory is not None else None
        self._again: list[Reading] = []  # in the journal, and not yet learnt again

    def hold_graph(self, version: int, names: list[str], addresses: dict[str, tuple[str, ...]]) -> None:
        """Note the graph that the next checkpoint holds."""
        self.graph, self.names, self.addresses = version, names, addresses

    def durable(self, round: int) -> int:
        """The round to which a restart would restore."""
        return round if self.section.directory is None else self.saved

    def remember(self, round: int, sent: bytes, durable: int) -> None:
        """Keep an update for neighbours that missed it; `durable`: none is restored to before this round."""
        self.history[round] = sent
        if len(self.history) > self._most:
            self.forget(durable)
            self._most = 2 * max(FEW, len(self.history))

    def forget(self, before: int) -> None:
        """Drop updates that no neighbour can need any more."""
        last = max(self.history, default=0)
        first = max(min(before - 1, last - FEW), last - MANY)
        self.history = {round: sent for round, sent in self.history.items() if round > first}

    def since(self, round: int, most: int) -> list[bytes]:
        """The updates from that round on, as they were sent."""
        rounds = sorted(each for each in self.history if each >= round)
        return [self.history[each] for each in rounds[:most]]

    def expect_label(self, id: str, x: Array, y_hat: float) -> None:
        """Keep an input whose label comes later."""
        self.waiting[id] = x, y_hat
        if len(self.waiting) > WAITING:
            del self.waiting[next(iter(self.waiting))]

    def note(self, reading: Reading) -> None:
        """Write a reading to the journal before it is learnt, where its source cannot repeat it."""
        if self._journal is not None and reading not in self._again[:1]:
            x = None if reading.x is None else [None if v != v else v for v in reading.x.tolist()]  # no NaN
            about = {"version": schema.VERSIONS["reading"], "index": reading.index}
            record = {**about, "x": x, "y": reading.y, "id": reading.id}
            self._journal.append(record, self.section.sync)

    def due(self, round: int) -> bool:
        """Whether a checkpoint is due."""
        if self.section.directory is None or round == self.saved:
            return False
        late = time.monotonic() - self._saved_at >= self.section.every_seconds
        return late or round - self.saved >= self.section.every_rounds

    def save(self, learner: Learner) -> None:
        """Write a checkpoint; only between two rounds."""
        if self.section.directory is None:
            return
        arrays, meta = learner.save()
        rounds = sorted(self.history)
        more, about = schema.document(
            "agent",
            {
                "name": self.name,
                "network": self.network,
                "readings": self.readings,
                "errors": {"last": self.errors.misses, "count": self.errors.n},
                "graph": {"version": self.graph, "neighbours": self.names, "addresses": self.addresses},
                "origin": json.dumps(self.origin),
                "incarnation": self.incarnation,
                "history": [[r, np.frombuffer(self.history[r], np.uint8)] for r in rounds],
                "waiting": [[id, x, y_hat] for id, (x, y_hat) in self.waiting.items()],
            },
        )
        arrays |= more
        ours = {"learner": meta, "agent": about}
        sync = self.section.sync
        checkpoint.save(self.section.directory, learner.round, arrays, ours, sync=sync)
        if self._journal is not None:
            self._rewrite(learner.round)
        self.saved, self._saved_at = learner.round, time.monotonic()

    def load(self, learner: Learner) -> checkpoint.Checkpoint | None:
        """Restore the last checkpoint; None where there is none."""
        directory = self.section.directory
        found = None if directory is None else checkpoint.load(directory)
        if found is None:
            return None
        state = schema.read("agent", found.arrays, found.meta["agent"])
        learner.load(found.arrays, found.meta["learner"])
        self.errors.misses, self.errors.n = state["errors"]["last"], state["errors"]["count"]
        self.history = {round: sent.tobytes() for round, sent in state["history"]}
        self.waiting = {id: (x, y_hat) for id, x, y_hat in state["waiting"]}
        self.readings, self.origin, self.saved = state["readings"], json.loads(state["origin"]), found.round
        graph = state["graph"]
        self.graph, self.names = graph["version"], graph["neighbours"]
        self.addresses = {name: tuple(found) for name, found in graph.get("addresses", {}).items()}
        # Messages of an earlier start must have a smaller number, even if the clock was set back.
        self.incarnation = max(self.incarnation, state["incarnation"] + 1)
        self._open_journal()
        return found

    def noted(self) -> Iterator[Reading]:
        """Readings from the journal since the checkpoint, to be learnt again."""
        while self._again:
            yield self._again[0]
            del self._again[0]

    def _open_journal(self) -> None:
        if self._journal is not None:
            later = self._journal.later(self.saved)  # of checkpoints that turned out to be damaged
            found = [_reading(record) for record in [*self._journal.resume(self.saved), *later]]
            self._again = [reading for reading in found if reading.index >= self.readings]
            self._rewrite(self.saved)

    def _rewrite(self, round: int) -> None:
        """Start the journal of a checkpoint, with the readings that are not yet learnt again."""
        assert self._journal is not None
        self._journal.start(round, sync=self.section.sync)
        again, self._again = self._again, []
        for reading in again:
            self.note(reading)
        self._again = again

    def close(self) -> None:
        """Close files."""
        if self._journal is not None:
            self._journal.close()


def _reading(record: dict[str, Any]) -> Reading:
    record = schema.migrate("reading", record["version"], record)
    x = None if record["x"] is None else np.array(record["x"], np.float64)
    return Reading(record["index"], x, record["y"], record["id"])
