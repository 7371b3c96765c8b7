"""Suppliers of rows and readers of predictions that misbehave cost neither memory, nor disk, nor time."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from domkl.agent import Agent, conversation, memory
from domkl.agent.config import CheckpointSection, StreamSection
from domkl.agent.making import make
from domkl.agent.memory import Memory
from domkl.agent.streams import Reading
from inmemory import config, until
from readings import from_bytes


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
    monkeypatch.setattr(memory, "WAITING_BYTES", 10_000)
    held = Memory(CheckpointSection())
    batch = np.ones((50, 100))
    for k in range(50):
        held.expect_label(str(k), batch[k], 0.5)
    assert [*held.waiting] == [str(k) for k in range(38, 50)]  # of 800 bytes each
    assert all(x.base is None for x, _ in held.waiting.values())  # or each would hold its whole batch
    held.expect_label("huge", np.ones(10_000), 0.5)
    assert [*held.waiting] == ["huge"]


def test_readings_of_a_topic_that_wait_are_limited_in_bytes(monkeypatch):
    monkeypatch.setattr(conversation, "MOST_BYTES", 10_000)
    topic = StreamSection(kind="topic", topic="domkl/net/s/v")

    async def main():
        agent = Agent(config("v", stream=topic))
        for _ in range(50):
            agent.conversation.receive("domkl/net/s/v", bytes(1000))
        queue = agent.conversation.readings
        assert (queue.qsize(), agent.refused["reading"]) == (10, 40)
        queue.get_nowait()
        agent.conversation.receive("domkl/net/s/v", b"{}")
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
            agent.conversation.receive("domkl/net/s/v", b'{"x": [1, 2, %d], "id": %d}' % (k, k))
            await asyncio.sleep(0.002)
        await until(lambda: agent.memory.readings == 200)
        await killed(task)

    asyncio.run(main())
    assert len((tmp_path / "journal-0.jsonl").read_bytes().splitlines()) < 150
    again = Agent(config("v", **given), out=len)
    left = [reading.index for reading in again.memory.noted()]
    assert left == [*range(again.memory.readings, 200)]
    assert len(again.memory.waiting) == again.memory.readings > 50
    again.memory.close()


def test_a_crash_between_a_checkpoint_of_the_same_round_and_its_journal_loses_nothing(tmp_path, monkeypatch):
    section = CheckpointSection(str(tmp_path), sync=False)
    held, learner = Memory(section, journal=True), make(config("v"), 1)[1]
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
    again = Memory(section, journal=True)
    again.load(learner)
    assert (again.readings, [reading.index for reading in again.noted()]) == (2, [2])
    again.close()
