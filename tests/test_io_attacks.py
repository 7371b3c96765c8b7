"""Suppliers of rows and readers of predictions that misbehave cost neither memory, nor disk, nor time."""

from __future__ import annotations

import asyncio

import numpy as np

from domkl.agent import Agent, conversation, memory
from domkl.agent.config import CheckpointSection, StreamSection
from domkl.agent.memory import Memory
from inmemory import config
from readings import from_bytes

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
