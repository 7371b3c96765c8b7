"""Files that are followed while they grow, and found again after a restart."""

from __future__ import annotations

import asyncio
import json

import pytest

from domkl.agent.config import StreamSection
from domkl.agent.sources import Tail
from domkl.agent.streams import open_stream
from readings import append, collect, plain, row


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(Tail, "pause", 0.005)


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


def following(test):
    """Run a coroutine that follows quickly, and close what it leaves."""

    async def main():
        follower = await test()
        await follower.stream.aclose()

    asyncio.run(main())


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
        return json.loads(json.dumps(stream.origin_at(stream.index)))

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
        origins.append(follower.stream.origin_at(0))
        path.rename(tmp_path / "g")
        append(path, b"a,y\n5,6\n7,8\n")
        await follower.next(1)
        origins.append(follower.stream.origin_at(0))
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
