"""Sources of readings: files, standard input, topics and iterables, without standing in the loop's way."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from domkl.agent import sources
from domkl.agent.config import StreamSection
from domkl.agent.streams import Reading, aiter_of, open_stream
from domkl.base.errors import DataError, InputError
from readings import all_of, append, collect, from_bytes, row


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(DataError, match="no such file; expected a file of readings"):
        open_stream(StreamSection(kind="csv", path=str(tmp_path / "none.csv")), 2)
    path = tmp_path / "rows"
    path.touch()
    stream = open_stream(StreamSection(kind="jsonl", path=str(path)), 2)
    path.unlink()
    path.mkdir()
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        asyncio.run(collect(stream))


@pytest.mark.parametrize("skip", [0, 1, 2, 3, 999, 5000, 10_000, 20_000])
def test_a_restarted_agent_skips_what_it_has_learnt(tmp_path, log, skip):
    lines = [b'{"x": [%d, 0]}' % i if i % 3 else b"bad" for i in range(10_000)]
    found, refused = from_bytes(tmp_path, b"\n".join(lines), skip=skip)
    assert [row[0] for row in found] == [i for i in range(skip, 10_000) if i % 3]
    assert all(x[0] == index for index, x, _, _ in found)
    assert refused.get("not a reading", 0) == sum(i % 3 == 0 for i in range(skip, 10_000))
    assert len(log()) < 20


def test_skipping_a_table(tmp_path):
    text = "a,b,y\n" + "".join(f"{i},0,{i}\n" for i in range(10))
    assert [r[0] for r in from_bytes(tmp_path, text.encode(), "csv", skip=7)[0]] == [7, 8, 9]
    with pytest.raises(InputError, match="skip is -1"):
        from_bytes(tmp_path, text.encode(), "csv", skip=-1)


def test_live_sources_number_on_and_skip_nothing(tmp_path):
    path = tmp_path / "in"
    path.write_bytes(b'{"x": [1, 2]}\n{"x": [3, 4]}\n')
    with path.open("rb") as file:
        found, _ = all_of(StreamSection(), skip=7, stdin=file.fileno())
    assert [row[0] for row in found] == [7, 8]


def test_live_sources_have_no_origin():
    stream = aiter_of([([1], 2)], 1)
    asyncio.run(collect(stream))
    assert stream.origin_at(0) is None


def test_the_loop_goes_on_while_a_source_is_silent(tmp_path):
    ours, theirs = os.pipe()

    async def main():
        stream = open_stream(StreamSection(), 1, stdin=ours)
        task = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0.02)
        assert not task.done()
        os.write(theirs, row(5))
        assert (await asyncio.wait_for(task, 20)).x.tolist() == [5.0]
        task = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0.02)
        task.cancel()  # as when the agent stops
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await stream.aclose()

    asyncio.run(main())
    os.close(theirs)
    for thread in threading.enumerate():
        if thread.name == "domkl-stream":
            thread.join(20)
    os.close(ours)


def test_an_agent_can_exit_while_standard_input_is_silent():
    code = """
import asyncio
from domkl.agent.streams import open_stream
from domkl.agent.config import StreamSection
async def main():
    async for reading in open_stream(StreamSection(), 1):
        print(reading.index, flush=True)
        break
asyncio.run(main())
"""
    command = [sys.executable, "-W", "error", "-c", code]
    with subprocess.Popen(command, stdin=-1, stdout=-1, stderr=-1) as process:
        process.stdin.write(row(0))
        process.stdin.flush()
        try:
            assert process.wait(30) == 0
        finally:
            process.kill()
        assert (process.stdout.read(), process.stderr.read()) == (b"0\n", b"")


def test_a_long_file_lets_the_loop_breathe(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"".join(row(i) for i in range(20_000)))
    turns = 0

    async def main():
        async def count():
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.ensure_future(count())
        stream = open_stream(StreamSection(kind="jsonl", path=str(path)), 1)
        assert len([None async for _ in stream]) == 20_000
        task.cancel()

    asyncio.run(main())
    assert turns >= path.stat().st_size // sources.CHUNK


def test_a_fault_of_the_source_reaches_the_reader():
    with open(os.devnull, "wb") as file, pytest.raises(OSError, match="Bad file descriptor"):
        all_of(StreamSection(), stdin=file.fileno())


@pytest.mark.parametrize("asynchronous", [False, True])
def test_any_iterable_is_a_stream(asynchronous):
    samples = [((1, 2), 3), (np.array([4.0, 5]), None), ("ab", 1), ([1], 2), ([1, np.nan], 2), 7, ([6, 7], 8)]

    async def later():
        for sample in samples:
            yield sample

    stream = aiter_of(later() if asynchronous else samples, 2)
    found = asyncio.run(collect(stream))
    assert found == [(0, [1.0, 2.0], 3.0, None), (1, [4.0, 5.0], None, None), (6, [6.0, 7.0], 8.0, None)]
    assert stream.refused == {"not numbers": 2, "wrong length": 1, "not finite": 1}
    assert asyncio.run(collect(aiter_of(iter(samples), 2, skip=1)))[0][0] == 1


def test_a_reading_is_plain_and_frozen():
    reading = Reading(0, np.zeros(2), 1.0)
    assert reading.id is None
    with pytest.raises(AttributeError):
        reading.y = 2.0


def test_what_is_ready_needs_no_waiting_and_comes_once(tmp_path):
    path = tmp_path / "f.jsonl"
    append(path, b"".join(row(i) for i in range(5)))

    async def main():
        stream = open_stream(StreamSection(kind="jsonl", path=str(path)), 1)
        assert stream.ready() is None
        found = [(await anext(stream)).index]
        found += [stream.ready().index, (await anext(stream)).index]
        found += [reading.index async for reading in stream]
        assert stream.ready() is None
        return found

    assert asyncio.run(main()) == [0, 1, 2, 3, 4]
