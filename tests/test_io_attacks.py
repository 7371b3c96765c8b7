"""Suppliers of rows and readers of predictions that misbehave cost neither memory, nor disk, nor time."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import sys
import threading
import time

import numpy as np
import pytest

from domkl.agent import Agent, labels, output, topics
from domkl.agent.config import CheckpointSection, StreamSection
from domkl.agent.making import make
from domkl.agent.output import Lines
from domkl.agent.rows import DeadLetters
from domkl.agent.sources import Tail
from domkl.agent.store import Store
from domkl.agent.streams import Reading, open_stream
from inmemory import config, until
from readings import append, collect, from_bytes, row


async def killed(task):
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


# Memory


def test_a_long_id_is_refused(tmp_path):
    rows = b"".join(b'{"x": [1, 2], "id": "%s"}\n' % (b"a" * size) for size in (256, 257, 10**6))
    rows += b'{"x": [1, 2], "id": "%s"}\n' % ("ä" * 129).encode()
    found, refused = from_bytes(tmp_path, rows)
    assert [len(id) for *_, id in found] == [256]
    assert refused == {"too long": 3}


def test_inputs_that_wait_for_labels_are_limited_in_bytes(monkeypatch):
    monkeypatch.setattr(labels, "MOST_BYTES", 10_000)
    held = labels.AwaitedLabels()
    batch = np.ones((50, 100))
    for k in range(50):
        held.expect(Reading(k, batch[k], None, str(k)), 0.5)
    waiting = held.state()["waiting"]
    assert [id for id, *_ in waiting] == [str(k) for k in range(38, 50)]  # of 800 bytes each
    assert all(x.base is None for _, x, *_ in waiting)  # or each would hold its whole batch
    held.expect(Reading(50, np.ones(10_000), None, "huge"), 0.5)
    assert [id for id, *_ in held.state()["waiting"]] == ["huge"]


def test_readings_of_a_topic_that_wait_are_limited_in_bytes(monkeypatch):
    monkeypatch.setattr(topics, "MOST_BYTES", 10_000)
    topic = StreamSection(kind="topic", topic="domkl/net/s/v")

    async def main():
        agent = Agent(config("v", stream=topic))
        for _ in range(50):
            agent.messages.receive("domkl/net/s/v", bytes(1000))
        queue = agent.topics.readings
        assert (queue.qsize(), agent.refused["reading"]) == (10, 40)
        queue.get_nowait()
        agent.messages.receive("domkl/net/s/v", b"{}")
        assert (queue.qsize(), agent.refused["reading"]) == (10, 40)

    asyncio.run(main())


# Disk


def test_the_journal_ends_although_no_row_has_a_label(tmp_path):
    """Checkpoints of the same round: the journal starts again with each, and a crash loses nothing."""
    given = {
        "stream": StreamSection(kind="topic", topic="domkl/net/s/v", journal=True),
        "checkpoint": CheckpointSection(str(tmp_path), every_seconds=0.05, sync=False),
    }

    async def main():
        agent = Agent(config("v", **given), out=len)
        task = asyncio.create_task(agent.run())
        for k in range(200):
            agent.messages.receive("domkl/net/s/v", b'{"x": [1, 2, %d], "id": %d}' % (k, k))
            await asyncio.sleep(0.002)
        await until(lambda: agent.store.readings == 200)
        await killed(task)

    asyncio.run(main())
    assert len((tmp_path / "journal-0.jsonl").read_bytes().splitlines()) < 150
    again = Agent(config("v", **given), out=len)
    left = [reading.index for reading in again.store.noted()]
    assert left == [*range(again.store.readings, 200)]
    assert len(again.store.labels) == again.store.readings > 50
    again.store.close()


def test_a_crash_between_a_checkpoint_of_the_same_round_and_its_journal_loses_nothing(tmp_path, monkeypatch):
    section = CheckpointSection(str(tmp_path), sync=False)
    held, learner = Store(section, journal=True), make(config("v"), 1)[1]
    held.load(learner)
    held.save(learner)
    for index in range(3):
        reading = Reading(index, np.ones(3), None, str(index))
        held.note(reading)
        held.readings = index + 1
    monkeypatch.setattr(held._journal, "start", lambda *_, **__: 1 / 0)
    held.readings = 2  # the third is in the journal only
    with pytest.raises(ZeroDivisionError):
        held.save(learner)
    held.close()
    again = Store(section, journal=True)
    again.load(learner)
    assert (again.readings, [reading.index for reading in again.noted()]) == (2, [2])
    again.close()


# Followed files


def turn_into(path, kind):
    """Put something that cannot be read in a file's place."""
    path.rename(path.with_name("before"))
    if kind == "directory":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(path.with_name("before") / "inside")


FAULTS = {
    "directory": "Is a directory",
    "loop": "Too many levels of symbolic links",
    "pipe": "not a regular file",
    "inside a file": "Not a directory",
}


@pytest.mark.parametrize("kind", FAULTS)
def test_a_followed_file_that_cannot_be_read_is_reported_and_tried_again(tmp_path, kind):
    path = tmp_path / "rows.csv"
    path.write_text("a,b,c,y\n1,2,3,4\n")
    section = StreamSection(kind="csv", path=str(path), follow=True)

    async def main():
        agent = Agent(config("v", stream=section), out=len)
        task = asyncio.create_task(agent.run())
        await until(lambda: agent.learner.round == 1)
        turn_into(path, kind)
        await until(lambda: agent.status.faults)
        assert agent.status.faults == (f"readings cannot be read: {path}: {FAULTS[kind]}",)
        path.rmdir() if kind == "directory" else path.unlink()
        path.write_text("a,b,c,y\n1,2,3,5\n1,2,4,6\n")
        await until(lambda: agent.learner.round == 3 and not agent.status.faults)
        assert not task.done()
        await killed(task)

    asyncio.run(asyncio.wait_for(main(), 20))


class Worn:
    """A file that fails once."""

    def __init__(self, file):
        self.file = file

    def __getattr__(self, name):
        return getattr(self.file, name)

    def read(self, size):
        raise OSError(errno.EIO, "Input/output error")


def test_reading_goes_on_where_a_fault_has_interrupted_it(tmp_path):
    path = tmp_path / "rows"
    path.write_bytes(row(0) + row(1) + b'{"x": ')
    tail = Tail(path, follow=True)
    assert len(tail.read()) == 2
    tail._file = Worn(tail._file)
    append(path, b"[7]}\n")
    assert tail.read() == []
    assert tail.reading.fault == f"readings cannot be read: {path}: Input/output error"
    assert tail.read() == [(3, row(7).rstrip())]
    assert (tail.reading.fault, tail.opened) == ("", 1)
    tail._file = Worn(tail._file)
    tail.read()
    path.write_bytes(row(8))  # another file
    assert tail.read() == [(1, row(8).rstrip())]
    assert tail.opened == 2
    tail.close()


def test_a_file_that_cannot_be_read_at_a_restart_is_not_learnt_twice(tmp_path):
    path = tmp_path / "rows"
    path.write_bytes(b"".join(map(row, range(3))))
    section = StreamSection(kind="jsonl", path=str(path), follow=True)

    async def main():
        first = open_stream(section, 1)
        await collect(first, 3)
        turn_into(path, "directory")
        again = open_stream(section, 1, 3, origin=first.origin_at(3))
        task = asyncio.create_task(collect(again, 1))
        await until(lambda: again.fault)
        path.rmdir()
        path.with_name("before").rename(path)
        append(path, row(3))
        assert (await task)[0][:2] == (3, [3.0])

    asyncio.run(asyncio.wait_for(main(), 20))


# Readers of predictions


def test_a_reader_that_hangs_does_not_hang_the_agent(tmp_path):
    """Lines wait, then are lost and counted; what the reader gets in the end is whole."""
    place = tmp_path / "pipe"
    os.mkfifo(place)
    lines = Lines(str(place))
    lines.write({"index": 0})
    assert lines.writing.fault == f"predictions cannot be written: {place}: No such device or address"
    reader = os.open(place, os.O_RDONLY | os.O_NONBLOCK)
    start, count = time.monotonic(), 1
    while not lines.lost:
        lines.write({"index": count, "text": "x" * 1000})
        count += 1
    assert time.monotonic() - start < 5.0
    assert lines.writing.fault == f"predictions cannot be written: {place}: its reader is slow"
    with open(reader, "rb") as file:
        got = file.read()
        while lines.writing.fault:
            lines.flush()
            got += file.read() or b""
    lines.close()
    assert [json.loads(line)["index"] for line in got.splitlines()] == [*range(count - 1)]


def test_a_slow_reader_of_standard_output_gets_every_line(monkeypatch):
    reader, writer = os.pipe()
    got = []

    def read():
        while data := os.read(reader, 4096):
            got.append(data)
            time.sleep(0.002)

    thread = threading.Thread(target=read)
    thread.start()
    with open(writer, "w") as out:
        monkeypatch.setattr(sys, "stdout", out)
        lines = Lines("-")
        for index in range(1000):
            lines.write({"index": index, "text": "x" * 1000})
        lines.close()
        monkeypatch.undo()
    thread.join()
    os.close(reader)
    assert (b"".join(got).count(b"\n"), lines.lost) == (1000, 0)


def test_a_hung_reader_of_standard_output_is_reported(monkeypatch):
    monkeypatch.setattr(output, "LAST_PATIENCE", 0.1)
    reader, writer = os.pipe()
    with open(writer, "w") as out:
        monkeypatch.setattr(sys, "stdout", out)
        lines = Lines("-")
        for index in range(1200):
            lines.write({"index": index, "text": "x" * 1000})
        assert lines.writing.fault == "predictions cannot be written: standard output: its reader is slow"
        assert lines.lost > 0
        lines.close()
        monkeypatch.undo()
    with open(reader, "rb") as file:
        whole = file.read().count(b"\n")
    assert whole + lines.lost == 1200


def test_dead_letters_do_not_wait_for_a_reader(tmp_path):
    place = tmp_path / "pipe"
    os.mkfifo(place)
    letters = DeadLetters(str(place))
    letters.write({"row": ""})
    reader = os.open(place, os.O_RDONLY | os.O_NONBLOCK)
    for _ in range(100):
        letters.write({"row": "x" * 1000})
    letters.close()
    os.close(reader)
    assert letters.lost > 30
