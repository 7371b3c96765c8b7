"""State of an agent that makes restarts, its own and its neighbours', exact.

A checkpoint holds the learner between two rounds, how many readings it has learnt, and the updates it sent
since its neighbours' last checkpoints: a neighbour that is restored needs them again.

**A disk that is full or read-only does not stop the agent.** It goes on predicting and learning, and tries to
save again every few seconds (`logs.RETRY`). Should it crash meanwhile, it is restored to the last
checkpoint that was saved: a file is read again from there, but readings of a topic or of standard input since
then are lost unless they are in the journal. `durable` stays at that checkpoint, so neighbours keep their
updates since then, up to `MANY` rounds; after a longer time a replay is impossible, and the duals of its
edges are reset.
"""

from __future__ import annotations

import functools
import json
import operator
import time
from collections.abc import Callable, Iterator
from dataclasses import InitVar, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import DataError, DiskError, InputError
from ..learner import Learner, files, schema
from ..learning.conformal import Errors
from ..watch.feed import Past
from . import checkpoint
from .ahead import Ahead
from .checkpoint import Journal, Lock
from .config import AgentConfig, CheckpointSection
from .labels import AwaitedLabels
from .logs import Attempts
from .output import ReadingAlarms
from .streams import Reading

#: Own updates kept for neighbours: at least, and at most.
FEW, MANY = 64, 512


@dataclass(eq=False, repr=False)
class Store:
    """State beside the learner: in memory and, where a directory is given, in checkpoints."""

    section: CheckpointSection
    journal: InitVar[bool] = False
    name: str = ""
    network: str = ""
    alarm_rate: InitVar[float | None] = None
    ahead: Ahead | None = None  # forecasts that wait for labels, where there is a horizon
    by_time: InitVar[bool] = False  # labels may name the time of their reading

    def __post_init__(self, journal: bool, alarm_rate: float | None, by_time: bool) -> None:
        self._most = 2 * FEW  # updates to keep before dropping those that nobody needs
        self.history: dict[int, bytes] = {}  # own updates as they were sent, by round
        self.labels = AwaitedLabels(by_time)
        self.alarms = ReadingAlarms(alarm_rate)
        self.errors = Errors()  # of predictions, in the scaled unit of the labels
        self.past = Past()  # what the page shows, where there is one
        self.readings = 0  # the number of the next reading
        self.graph, self.names = 0, list[str]()  # the version of the graph, and our neighbours in it
        self.addresses: dict[str, tuple[str, ...]] = {}  # where those listen
        self.origin: Any = None  # position of the stream, as the stream describes it
        self.starts = 1  # from checkpoints, including this one: the count of our incarnation
        self.saved = self._held = 0  # the round of the last checkpoint, and how many readings it holds
        self.saving = Attempts("state cannot be saved")
        self.noting = Attempts("readings cannot be written to the journal")
        self._directory = None if self.section.directory is None else Path(self.section.directory)
        self._lock = None if self._directory is None else Lock(self._directory)
        self._journal = Journal(self._directory) if journal and self._directory is not None else None
        self._again: list[Reading] = []  # in the journal, and not yet learnt again

    @classmethod
    def of(cls, config: AgentConfig, ahead: Ahead | None = None) -> Store:
        named = config.name, config.network, config.output.alarm_rate, ahead, config.stream.labels == "time"
        return cls(config.checkpoint, config.stream.journal, *named)

    def hold(
        self, starts: int, graph: int, names: list[str], addresses: dict[str, tuple[str, ...]], origin: Any
    ) -> None:
        """Note what the next checkpoint holds of us, of the graph, and of where the stream stands."""
        self.starts, self.graph, self.names, self.addresses = starts, graph, names, addresses
        self.origin = origin

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

    def take(self, reading: Reading) -> None:
        """Journal a reading and count it as handed out: from here to its open round nothing can be saved."""
        self.note(reading)
        self.readings = reading.index + 1

    def note(self, reading: Reading) -> None:
        """Write a reading to the journal before it is learnt, where its source cannot repeat it.

        One that cannot be written is learnt all the same, and counted; a crash before the next checkpoint
        loses it.
        """
        if self._journal is None or reading in self._again[:1]:
            return
        try:
            if self._journal.round is None:
                raise DiskError("no journal without a checkpoint", "there is no checkpoint yet")
            self._journal.append(_record(reading), self.section.sync)
        except DiskError as error:
            self.noting.fail(error.reason)
        else:
            self.noting.succeed()

    def due(self, round: int) -> bool:
        """Whether a checkpoint is due; readings without labels open no round, but the journal holds them."""
        if self.saving.fault:
            return self.saving.retry_due
        if self._directory is None or (round, self.readings) == (self.saved, self._held):
            return False
        late = time.monotonic() - self.saving.well_at >= self.section.every_seconds
        learnt = min(round - self.saved, self.readings - self._held)  # others' rounds are no reason to save
        return late or learnt >= self.section.every_rounds

    def save(self, learner: Learner) -> None:
        """Write a checkpoint, only between two rounds; one that fails is counted and tried again."""
        if self._directory is None:
            return
        try:
            if holder := self._take_lock(self._directory):
                raise DiskError("the directory is in use", f"{holder} uses {self._directory}")
            self._write(self._directory, learner)
        except DiskError as error:
            self.saving.fail(error.reason)
        else:
            self.saved, self._held = learner.round, self.readings
            self.saving.succeed()

    def _write(self, directory: Path, learner: Learner) -> None:
        arrays, meta = learner.save()
        rounds = sorted(self.history)
        more, about = schema.document(
            "agent",
            {
                "name": self.name,
                "network": self.network,
                "readings": self.readings,
                "alarms": self.alarms.state(),
                "errors": self.errors.state(),
                "past": self.past.state() if self.past.is_known else None,
                "graph": {"version": self.graph, "neighbours": self.names, "addresses": self.addresses},
                "origin": json.dumps(self.origin),
                "starts": self.starts,
                "history": [[r, np.frombuffer(self.history[r], np.uint8)] for r in rounds],
                "ahead": None if self.ahead is None else self.ahead.state(),
                "labels": self.labels.state(),
            },
        )
        arrays |= more
        ours = {"learner": meta, "agent": about}
        checkpoint.save(
            directory, learner.round, arrays, ours, sync=self.section.sync, **self._hooks(learner.round)
        )

    def _hooks(self, round: int) -> dict[str, Callable[[], None]]:
        """When the journal of a checkpoint is started, so that a crash in between loses nothing: before the
        checkpoint has its name or, if the one before is of the same round and needs its journal, after."""
        if self._journal is None:
            return {}
        records = map(_record, self._again)  # those that are not yet learnt again
        start = functools.partial(self._journal.start, round, records, sync=self.section.sync)
        return {"done" if self._journal.round == round else "ready": start}

    def load(self, learner: Learner) -> checkpoint.Checkpoint | None:
        """Take the directory's lock and restore the last checkpoint; None where there is none."""
        if self._directory is None:
            return None
        self._open_directory(self._directory)
        try:
            return self._load(self._directory, learner)
        except BaseException:
            self.close()
            raise

    def _load(self, directory: Path, learner: Learner) -> checkpoint.Checkpoint | None:
        found = checkpoint.load(directory)
        if found is None:
            return None
        state = schema.read("agent", found.arrays, found.meta.get("agent", {}))
        with schema.whole("agent"):
            self._restore(state, found.round)
        learner.load(found.arrays, found.meta.get("learner", {}))
        self._open_journal()
        return found

    def _open_directory(self, directory: Path) -> None:
        """Refuse a directory that another agent uses; one that cannot be written is reported, not refused."""
        try:
            holder = self._take_lock(directory)
        except DiskError as error:
            self.saving.fail(error.reason)
            return
        if holder:
            raise InputError(
                f"{directory} is in use by {holder}; expected one agent for a state directory; "
                "stop the other, or choose another [checkpoint] directory"
            )

    def _take_lock(self, directory: Path) -> str:
        assert self._lock is not None
        if self._lock.is_held:
            return ""
        with files.writing(directory):
            files.make_directory(directory, self.section.sync)
            holder = self._lock.take()
        if not holder:
            checkpoint.sweep(directory)
        return holder

    def _restore(self, state: dict[str, Any], round: int) -> None:
        if (name := state["name"], network := state["network"]) != (self.name, self.network):
            raise DataError(
                f"the checkpoint in {self._directory} is of {name!r} in network {network!r}; "
                f"expected {self.name!r} in {self.network!r}; choose another [checkpoint] directory, "
                "or move the files away to start again"
            )
        self.alarms.restore(state["alarms"])
        self.errors.restore(state["errors"])
        if state["past"] is not None:
            self.past.restore(state["past"])
        self.history = {operator.index(round): sent.tobytes() for round, sent in state["history"]}
        self.labels.restore(state["labels"])
        if self.ahead is not None:
            self.ahead.restore(state["ahead"])
        self.readings, self.origin = state["readings"], json.loads(state["origin"])
        self.saved, self._held = round, self.readings
        graph = state["graph"]
        self.graph, self.names = graph["version"], graph["neighbours"]
        self.addresses = {name: tuple(found) for name, found in graph.get("addresses", {}).items()}
        self.starts = operator.index(state["starts"]) + 1

    def noted(self) -> Iterator[Reading]:
        """Readings from the journal since the checkpoint, to be learnt again."""
        while self._again:
            yield self._again[0]
            del self._again[0]

    def _open_journal(self) -> None:
        if self._journal is None:
            return
        # Later ones are of checkpoints that were damaged, or interrupted; two may hold the same reading.
        records = [*self._journal.resume(self.saved), *self._journal.later(self.saved)]
        found = {reading.index: reading for reading in map(_reading, records)}
        self._again = [found[index] for index in sorted(found) if index >= self.readings]

    def close(self) -> None:
        """Close files, and let another agent use the directory."""
        if self._journal is not None:
            self._journal.close()
        if self._lock is not None:
            self._lock.release()

    def check_saved(self) -> None:
        """Refuse to end in silence if the last state could not be saved."""
        if self.saving.fault:
            raise DataError(
                f"{self.saving.fault}; expected room and permission in {self._directory}; free some space; "
                f"the next start goes on from round {self.saved}"
            )


def _record(reading: Reading) -> dict[str, Any]:
    x = None if reading.x is None else [None if v != v else v for v in reading.x.tolist()]  # JSON has no NaN
    about = {"version": schema.VERSIONS["reading"], "index": reading.index}
    when = {} if reading.time is None else {"time": reading.time}
    return {**about, "x": x, "y": reading.y, "id": reading.id, **when}


def _reading(record: dict[str, Any]) -> Reading:
    schema.check_version("reading", record.get("version"))
    with schema.whole("reading"):
        x = None if record["x"] is None else np.array(record["x"], np.float64)
        time = record.get("time")
        return Reading(operator.index(record["index"]), x, record["y"], record["id"], time=time)
