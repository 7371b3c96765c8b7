from __future__ import annotations

import asyncio
import contextlib
import io
import json
import logging
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from domkl.agent import files, logs, streams
from domkl.agent.config import LogSection, StreamSection
from domkl.agent.streams import Reading, Scaling, aiter_of, open_stream
from domkl.base.errors import DataError, InputError


@pytest.fixture
def log():
    """Lines of the log as dicts."""
    text = io.StringIO()
    logger = logging.getLogger("domkl")
    before = logger.handlers[:], logger.level, logger.propagate
    logs.setup(LogSection(level="debug"), "a", text)
    yield lambda: [json.loads(line) for line in text.getvalue().splitlines()]
    logger.handlers[:], logger.propagate = before[0], before[2]
    logger.setLevel(before[1])


def plain(reading):
    return reading.index, None if reading.x is None else reading.x.tolist(), reading.y, reading.id


async def collect(stream, at_most=None):
    found = []
    async for reading in stream:
        found.append(plain(reading))
        if len(found) == at_most:
            break
    await stream.aclose()
    return found


def all_of(section, inputs=2, skip=0, **given):
    stream = open_stream(section, inputs, skip, **given)
    return asyncio.run(asyncio.wait_for(collect(stream), 20)), dict(stream.refused)


def from_bytes(tmp_path, data, kind="jsonl", inputs=2, skip=0, **settings):
    path = tmp_path / f"in.{kind}"
    path.write_bytes(data)
    return all_of(StreamSection(kind=kind, path=str(path), **settings), inputs, skip)


def from_pipe(data, **settings):
    ours, theirs = os.pipe()
    with os.fdopen(theirs, "wb") as file:
        file.write(data)
    try:
        return all_of(StreamSection(**settings), stdin=ours)
    finally:
        os.close(ours)


def from_topic(data, **settings):
    section = StreamSection(kind="topic", topic="domkl/n/s/x", **settings)

    async def main():
        messages = asyncio.Queue()
        for line in [*data.splitlines(), None]:
            messages.put_nowait(line)
        stream = open_stream(section, 2, messages=messages)
        return await collect(stream), dict(stream.refused)

    return asyncio.run(main())


def test_inputs_may_be_missing_where_the_configuration_says_so(tmp_path):
    lines = b'{"x": [1, null], "y": 1}\n{"x": {"b": null, "a": 2}}\n{"x": [1e999, 2]}\n'
    found, refused = from_bytes(tmp_path, lines, missing=True, columns=("a", "b"))
    np.testing.assert_array_equal([x for _, x, _, _ in found], [[1, np.nan], [2, np.nan]])
    assert refused == {"not a reading": 1}
    rows = b"a,b,y\n,2,3\n1, ,4\n1,x,5\n1,inf,6\n"
    found, refused = from_bytes(tmp_path, rows, "csv", missing=True)
    np.testing.assert_array_equal([x for _, x, _, _ in found], [[np.nan, 2], [1, np.nan]])
    assert refused == {"not a number": 1, "not finite": 1}


READINGS = b"""{"x": [1, 2.5], "y": 3, "id": "m1"}
{"x": {"b": 5, "a": 4, "time": 7}, "y": 6.5}

{"x": [7, 8], "other": {"deep": [1]}}
{"y": 9, "id": 17}
"""
SAID = [
    (0, [1.0, 2.5], 3.0, "m1"),
    (1, [4.0, 5.0], 6.5, None),
    (2, [7.0, 8.0], None, None),
    (3, None, 9.0, "17"),
]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_json_lines_from_a_file(tmp_path, end):
    data = READINGS.rstrip().replace(b"\n", end or b"\n") + end
    assert from_bytes(tmp_path, data, columns=("a", "b")) == (SAID, {})


def test_json_lines_from_standard_input():
    assert from_pipe(READINGS.rstrip(), columns=("a", "b")) == (SAID, {})
    assert from_pipe(b"") == ([], {})


def test_json_from_a_topic():
    assert from_topic(b"\n".join(READINGS.split()).replace(b"\n", b" ").replace(b"} {", b"}\n{")) == (
        [SAID[0], *SAID[2:]],
        {"no column": 1},
    )
    with pytest.raises(InputError, match="messages is None and kind is 'topic'; expected a queue"):
        open_stream(StreamSection(kind="topic", topic="domkl/n/s/x"), 2)


@pytest.mark.parametrize(
    ("line", "kind", "reason"),
    [
        (b"hello", "not a reading", "malformed"),
        (b"[1, 2]", "not a reading", "Expected `object`"),
        (b'{"x": [1, "2"], "y": 1}', "not a reading", "got `str` - at `$.x[1]`"),
        (b'{"x": [1, true], "y": 1}', "not a reading", "got `bool`"),
        (b'{"x": [1, null], "y": 1}', "not finite", "x[1] is nan, expected a finite number"),
        (b'{"x": [1, NaN], "y": 1}', "not a reading", "malformed"),
        (b'{"x": [1, 1e999], "y": 1}', "not a reading", "out of range"),
        (b'{"x": [1, 2], "y": "3"}', "not a reading", "at `$.y`"),
        (b'{"x": [1, 2], "y": 3', "not a reading", "truncated"),
        (b'{"x": [1, 2], "id": "\xff"}', "not a reading", ""),
        (b'{"o": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "not a reading", "recursion"),
        (b'{"x": [1, 2, 3], "y": 1}', "wrong length", "x has 3 values, expected 2"),
        (b'{"x": [], "y": 1}', "wrong length", "x has 0 values"),
        (b'{"x": {"a": 1}, "y": 1}', "no column", "x has no 'b'"),
        (b'{"y": 1}', "no x", "neither x nor a label"),
        (b'{"id": "k"}', "no x", "neither x nor a label"),
        (b"{}", "no x", "neither"),
        (b'"' + b"a" * (1 << 20), "too long", "more than 1048576 bytes"),
    ],
)
def test_a_bad_json_row_is_refused_and_takes_a_number(tmp_path, log, line, kind, reason):
    data = b'{"x": [1, 2]}\n' + line + b'\n{"x": [3, 4]}\n'
    found, refused = from_bytes(tmp_path, data, columns=("a", "b"))
    assert found == [(0, [1.0, 2.0], None, None), (2, [3.0, 4.0], None, None)]
    assert refused == {kind: 1}
    (told,) = log()
    assert (told["event"], told["level"], told["kind"], told["line"]) == ("row refused", "warning", kind, 2)
    assert reason in told["reason"]
    assert len(told["reason"]) < 600


def test_a_line_too_long_does_not_fill_the_memory():
    splitter = files.Splitter()
    for _ in range(40):
        assert splitter.feed(b"a" * files.CHUNK) == []
        assert len(splitter.rest) <= files.LONGEST + 1
    ((number, line), last) = splitter.feed(b"\nnext\n")
    assert (number, last) == (1, (2, b"next"))
    assert len(line) == files.LONGEST + 1


@pytest.mark.parametrize("comma", [",", ";", "\t"])
def test_tables(tmp_path, comma):
    text = '\ufefftime,b, a ,y\r\n10:00,2,1,3\r\n\r\n10:01,5,4,\r\n"10:02, or so",8,7,9\n'.replace(",", comma)
    found, refused = from_bytes(tmp_path, text.encode(), "csv", columns=("a", "b"))
    assert found == [(0, [1.0, 2.0], 3.0, None), (1, [4.0, 5.0], None, None), (2, [7.0, 8.0], 9.0, None)]
    assert refused == {}


def test_a_table_without_named_columns_gives_all_but_the_target(tmp_path):
    assert from_bytes(tmp_path, b"u,out,v\n1,2,3", "csv", target="out")[0] == [(0, [1.0, 3.0], 2.0, None)]


@pytest.mark.parametrize(
    ("line", "kind", "reason"),
    [
        (b"1,2", "wrong length", "the row has 2 cells, expected 3"),
        (b"1,2,3,4", "wrong length", "the row has 4 cells"),
        (b"1,x,3", "not a number", "column 'b' is 'x', expected a number"),
        (b"1,,3", "not a number", "column 'b' is empty"),
        (b"1,1_000,3", "not a number", "column 'b' is '1_000'"),
        (b"1,2,z", "not a number", "column 'y' is 'z'"),
        (b"1,nan,3", "not finite", "x[1] is nan"),
        (b"-inf,2,3", "not finite", "x[0] is -inf"),
        (b"1,2,1e999", "not finite", "y is inf"),
        (b'1,"2,3', "not a row", "unexpected end"),
        (b"1,\xff,3", "not a row", "not UTF-8"),
        (b"1," + b"2" * (1 << 20) + b",3", "too long", "bytes"),
    ],
)
def test_a_bad_table_row_is_refused_and_takes_a_number(tmp_path, log, line, kind, reason):
    found, refused = from_bytes(tmp_path, b"a,b,y\n1,2,3\n" + line + b"\n4,5,6\n", "csv")
    assert found == [(0, [1.0, 2.0], 3.0, None), (2, [4.0, 5.0], 6.0, None)]
    assert refused == {kind: 1}
    (told,) = log()
    assert (told["kind"], told["line"]) == (kind, 3)
    assert reason in told["reason"]


def test_large_numbers_whose_sum_is_too_large_are_fine(tmp_path):
    found, refused = from_bytes(tmp_path, b"a,b,y\n1.5e308,1.5e308,0\n", "csv")
    assert (found, refused) == ([(0, [1.5e308, 1.5e308], 0.0, None)], {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "the file is empty; expected a line with column names"),
        (b"a,y\n1,2\n", "header: there are 0 columns 'b', expected one; fix the file or"),
        (b"a,b,a,y\n", "header: there are 2 columns 'a'"),
        (b"a,b\n", "header: there are 0 columns 'y'"),
        (b'a,"b,y\n', "header: unexpected end"),
    ],
)
def test_a_table_whose_header_is_wrong_ends_it_at_once(tmp_path, text, message):
    with pytest.raises(DataError, match=message) as error:
        from_bytes(tmp_path, text, "csv", columns=("a", "b"))
    assert "\n" not in str(error.value)
    with pytest.raises(DataError, match="header: there are 1 inputs, expected 2"):
        from_bytes(tmp_path, b"a,y\n", "csv")


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(DataError, match="no such file; expected a file of readings"):
        open_stream(StreamSection(kind="csv", path=str(tmp_path / "none.csv")), 2)
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        all_of(StreamSection(kind="jsonl", path=str(tmp_path), follow=True))


def test_lists_of_the_wrong_length_are_refused():
    with pytest.raises(InputError, match="columns has 1 items; expected inputs = 2"):
        open_stream(StreamSection(columns=("a",)), 2)


def test_bounds_scale_and_inputs_stop_there(tmp_path):
    bounds = {"low": (0.0, -10.0), "high": (2.0, 10.0), "target_low": 10.0, "target_high": 30.0}
    data = b'{"x": [1, 0], "y": 20}\n{"x": [-5, 1.7e308], "y": 50}\n{"x": [0, 5]}\n{"y": 10, "id": "k"}'
    found, refused = from_bytes(tmp_path, data, **bounds)
    assert [row[1:3] for row in found] == [
        ([0.5, 0.5], 0.5),
        ([0.0, 1.0], 2.0),
        ([0.0, 0.75], None),
        (None, 0.0),
    ]
    assert refused == {}
    scaling = Scaling.of(StreamSection(**bounds), 2)
    assert scaling.original(scaling.y(23.0)) == pytest.approx(23)
    assert Scaling.of(StreamSection(), 2).original(5.5) == 5.5


def test_a_label_that_scaling_makes_infinite_is_refused(tmp_path):
    found, refused = from_bytes(tmp_path, b'{"x": [1, 2], "y": 1e308}', target_low=0.0, target_high=1e-5)
    assert (found, refused) == ([], {"not finite": 1})


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


class Follower:
    """A followed stream, read while the test writes."""

    def __init__(self, path, kind="jsonl", inputs=1, skip=0):
        self.path = path
        self.stream = open_stream(StreamSection(kind=kind, path=str(path), follow=True), inputs, skip)

    async def next(self, count=1):
        return [plain(await asyncio.wait_for(anext(self.stream), 20))[:2] for _ in range(count)]

    async def nothing(self):
        task = asyncio.ensure_future(anext(self.stream))
        await asyncio.sleep(0.05)
        assert not task.done()
        return task


def append(path, data):
    with path.open("ab") as file:
        file.write(data)


def following(test):
    """Run a coroutine that follows quickly, and close what it leaves."""

    async def main():
        follower = await test()
        await follower.stream.aclose()

    asyncio.run(main())


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(streams, "POLL", 0.005)


def row(i):
    return b'{"x": [%d]}\n' % i


def test_following_a_file_that_grows(tmp_path):
    path = tmp_path / "f"

    async def test():
        follower = Follower(path)
        waiting = await follower.nothing()  # not even there
        append(path, row(0) + row(1) + row(2)[:6])
        assert (await asyncio.wait_for(waiting, 20)).index == 0
        assert await follower.next() == [(1, [1.0])]
        waiting = await follower.nothing()
        append(path, row(2)[6:-1])
        await asyncio.sleep(0.05)
        assert not waiting.done()  # a line without its end may still change
        append(path, b"\n")
        assert plain(await asyncio.wait_for(waiting, 20))[:2] == (2, [2.0])
        return follower

    following(test)


def test_following_through_rotation(tmp_path, log):
    path = tmp_path / "f"

    async def test():
        append(path, row(0) + row(1))
        follower = Follower(path)
        assert await follower.next(2) == [(0, [0.0]), (1, [1.0])]
        path.rename(tmp_path / "f.1")
        waiting = await follower.nothing()
        append(tmp_path / "f.1", row(2))  # the writer has not noticed yet
        assert (await asyncio.wait_for(waiting, 20)).index == 2
        append(path, row(3))
        assert await follower.next() == [(3, [3.0])]
        return follower

    following(test)
    assert [line["event"] for line in log()] == ["file replaced or truncated, reading from its top"]


def test_following_through_truncation(tmp_path, log):
    path = tmp_path / "f"

    async def test():
        append(path, row(0) + row(1) + row(2)[:5])
        follower = Follower(path)
        assert await follower.next(2) == [(0, [0.0]), (1, [1.0])]
        waiting = await follower.nothing()
        path.write_bytes(row(7))
        assert plain(await asyncio.wait_for(waiting, 20))[:2] == (2, [7.0])
        return follower

    following(test)
    (told,) = log()
    assert (told["path"], told["unfinished_bytes"]) == (str(path), 5)


def test_following_a_table_through_rotation(tmp_path, log):
    path = tmp_path / "f.csv"

    async def test():
        append(path, b"a,y\n1,2\n")
        follower = Follower(path, "csv")
        assert await follower.next() == [(0, [1.0])]
        path.rename(tmp_path / "g")
        append(path, b"z,y\n3,4\n")  # without the column: its rows are refused, the agent goes on
        waiting = await follower.nothing()
        while not follower.stream.refused:
            await asyncio.sleep(0.01)
        path.rename(tmp_path / "h")
        append(path, b"y;a\n5;6\n")
        assert plain(await asyncio.wait_for(waiting, 20))[:3] == (2, [6.0], 5.0)
        return follower

    following(test)
    assert [line["reason"] for line in log() if line["event"] == "row refused"] == [
        "the header is unusable: there are 0 columns 'a', expected one"
    ]


def test_following_skips_too(tmp_path):
    path = tmp_path / "f"

    async def test():
        append(path, row(0) + row(1))
        follower = Follower(path, skip=3)
        waiting = await follower.nothing()
        append(path, row(2) + row(3))
        assert (await asyncio.wait_for(waiting, 20)).index == 3
        return follower

    following(test)


def restarted(path, skip, origin, kind="jsonl"):
    section = StreamSection(kind=kind, path=str(path))
    return [row[:2] for row in asyncio.run(collect(open_stream(section, 1, skip, origin=origin)))]


def learnt(path, count, kind="jsonl"):
    """The origin of the last of so many readings, as a checkpoint holds it."""

    async def main():
        stream = open_stream(StreamSection(kind=kind, path=str(path)), 1)
        await collect(stream, count)
        return json.loads(json.dumps(stream.origin))

    return asyncio.run(main())


def test_a_restart_finds_its_place_in_the_same_file(tmp_path, log):
    path = tmp_path / "f"
    path.write_bytes(b"".join(map(row, range(5))))
    origin = learnt(path, 3)
    append(path, row(5))
    assert restarted(path, 3, origin) == [(i, [float(i)]) for i in (3, 4, 5)]
    assert restarted(path, 0, origin)[0][0] == 0
    assert log() == []


def test_a_restart_after_rotation_misses_nothing_of_the_new_file(tmp_path, log):
    path = tmp_path / "f"
    path.write_bytes(b"".join(map(row, range(5))))
    origin = learnt(path, 5)
    path.unlink()  # so that the new file may even have the old one's inode
    path.write_bytes(b"".join(map(row, range(60, 90))))
    assert restarted(path, 5, origin)[:2] == [(5, [60.0]), (6, [61.0])]
    assert [line["event"] for line in log()] == ["another file since the last start, reading from its top"]
    path.write_bytes(row(0))  # begins as the old one did, but is shorter
    assert restarted(path, 5, origin) == [(5, [0.0])]


def test_the_origin_is_that_of_the_file_now_followed(tmp_path):
    path = tmp_path / "f.csv"
    origins = []

    async def test():
        append(path, b"a,y\n1,2\n3,4\n")
        follower = Follower(path, "csv")
        await follower.next(2)
        origins.append(follower.stream.origin)
        path.rename(tmp_path / "g")
        append(path, b"a,y\n5,6\n7,8\n")
        await follower.next(1)
        origins.append(follower.stream.origin)
        return follower

    following(test)
    assert [(origin.first, origin.size) for origin in origins] == [(0, 12), (2, 12)]
    assert restarted(path, 3, origins[1], "csv") == [(3, [7.0])]
    assert restarted(path, 2, origins[0], "csv") == [(2, [5.0]), (3, [7.0])]


def test_a_followed_file_may_come_later_than_a_restart(tmp_path):
    path = tmp_path / "f"

    async def test():
        section = StreamSection(kind="jsonl", path=str(path), follow=True)
        follower = Follower(path)
        follower.stream = open_stream(section, 1, 7, origin=(0, 100, "gone"))
        waiting = await follower.nothing()
        append(path, row(3))
        assert plain(await asyncio.wait_for(waiting, 20))[:2] == (7, [3.0])
        return follower

    following(test)


def test_live_sources_have_no_origin():
    stream = aiter_of([([1], 2)], 1)
    asyncio.run(collect(stream))
    assert stream.origin is None


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
    assert turns >= path.stat().st_size // files.CHUNK


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
