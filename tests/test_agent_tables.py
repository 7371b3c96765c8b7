"""Agents that read Parquet files and databases: order, what is new, restarts, faults, passwords."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import sqlite3
import sys
import time

import pytest

from databases import postgres
from domkl.agent import sources
from domkl.agent.config import StreamSection, load
from domkl.agent.loop import Agent
from domkl.agent.streams import open_stream
from domkl.base.errors import DataError, InputError, MissingExtra
from domkl.cli import main
from domkl.datasets.columns import Columns
from readings import collect, plain

COLUMNS = Columns(target="y", features=("a",), time="t", kinds={"t": "time:s"})
PLAIN = Columns(target="y", features=("a",))


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(sources, "LEAST_PAUSE", 0.005)
    monkeypatch.setattr(sources, "BATCH", 4)


class Log:
    """A SQLite table (t, a, y) that the test writes."""

    def __init__(self, folder):
        self.path = folder / "log.db"
        self.run("create table log (t, a, y)")

    def run(self, text, *rows):
        with contextlib.closing(sqlite3.connect(self.path)) as made:
            made.executemany(text, rows) if rows else made.execute(text)
            made.commit()

    def add(self, *times):
        self.run("insert into log values (?, ?, ?)", *((t, t, 0) for t in times))

    def section(self, **more):
        return StreamSection(**{"path": f"sqlite:{self.path}", "follow": True, **more})

    def stream(self, skip=0, columns=COLUMNS, origin=None, **more):
        return open_stream(self.section(**more), 1, skip, columns=columns, origin=origin)


async def take(stream, count):
    return [float((await asyncio.wait_for(anext(stream), 20)).x[0]) for _ in range(count)]


def test_rows_come_in_order_of_time_and_late_ones_are_refused(tmp_path):
    """Also where rows vanish, and where one is far in the future."""
    log = Log(tmp_path)

    async def follow():
        log.add(3, 1, 2, 6, 5, 4)
        stream = log.stream()
        assert await take(stream, 6) == [1, 2, 3, 4, 5, 6]
        log.add(9, 8, 2.5, 8)
        assert await take(stream, 3) == [8, 8, 9]
        assert dict(stream.refused) == {"late": 1}
        log.run("delete from log where t < 9")  # fewer rows than before
        log.add(9, 10)
        assert await take(stream, 2) == [9, 10]
        assert dict(stream.refused) == {"late": 1}
        log.add(4e9, 11)  # a clock that is wrong must not make all others late
        assert await take(stream, 1) == [11]
        log.add(12)
        assert await take(stream, 1) == [12]
        await stream.aclose()

    asyncio.run(follow())


@pytest.mark.parametrize("taken", range(1, 10))
def test_a_restart_goes_on_after_the_last_reading(tmp_path, taken):
    log = Log(tmp_path)
    log.add(*range(1, 11), 10, 10)  # three of one time

    async def restart():
        first = log.stream(follow=False)
        seen = await take(first, taken)
        origin = json.loads(json.dumps(first.origin_at(taken)))
        await first.aclose()
        log.run(f"delete from log where t <= {taken - 2}")  # of a query that gives the last rows alone
        log.add(10, 11)
        again = log.stream(taken, origin=origin, follow=False)
        found = [(index, x[0]) for index, x, _, _ in await collect(again)]
        assert [index for index, _ in found] == list(range(taken, taken + len(found)))
        return seen + [x for _, x in found]

    assert asyncio.run(restart()) == [*range(1, 11), 10, 10, 10, 11]


@pytest.mark.parametrize("columns", [COLUMNS, PLAIN])
def test_another_kind_of_source_is_read_from_its_top(tmp_path, columns):
    """A state of a table does not end an agent that reads a file from now on, nor the other way round."""
    log, path = Log(tmp_path), tmp_path / "log.csv"
    log.add(1, 2)
    path.write_text("t,a,y\n1,1,0\n2,2,0\n")

    async def turn():
        sections = [log.section(follow=False), StreamSection(path=str(path))] * 2
        origin, readings = None, 0
        for section in sections:
            stream = open_stream(section, 1, readings, columns=columns, origin=origin)
            found = await collect(stream)
            assert [x[0] for _, x, _, _ in found] == [1, 2]
            readings += len(found)
            origin = json.loads(json.dumps(stream.origin_at(readings)))
            await stream.aclose()

    asyncio.run(turn())


def test_rows_of_one_time_are_told_apart_whatever_their_order(tmp_path, monkeypatch):
    log = Log(tmp_path)

    async def restart(query):
        log.run("delete from log")
        log.run("insert into log values (?, ?, 0)", (1, 1), (2, 2), (2, 3))
        first = log.stream(follow=False, query=query)
        seen = await take(first, 3)
        origin = json.loads(json.dumps(first.origin_at(3)))
        await first.aclose()
        log.run("insert into log values (?, ?, 0)", (2, 9), (2, 0), (2, 3))
        again = log.stream(3, origin=origin, follow=False, query=query)
        return sorted([*seen, *(x[0] for _, x, _, _ in await collect(again))])

    for order in ("desc", "asc"):
        query = f"select * from log order by a {order}"
        assert asyncio.run(restart(query)) == [0, 1, 2, 3, 3, 9]
    monkeypatch.setattr(sources, "MOST_SAME", 1)
    assert asyncio.run(restart("select * from log order by rowid")) == [0, 1, 2, 3, 3, 9]


def test_without_a_time_the_last_row_tells_whether_the_table_is_the_same(tmp_path, log):
    table = Log(tmp_path)
    table.add(5, 3, 4)

    async def restart():
        stream = table.stream(columns=PLAIN)
        assert await take(stream, 3) == [5, 3, 4]
        table.add(1)
        assert await take(stream, 1) == [1]
        origin = stream.origin_at(4)
        await stream.aclose()
        again = table.stream(4, PLAIN, origin)
        table.add(2)
        assert await take(again, 1) == [2]
        table.run("delete from log where t = 5")
        table.add(7, 8)
        assert await take(again, 6) == [3, 4, 1, 2, 7, 8]
        await again.aclose()

    asyncio.run(restart())
    assert "other rows than before" in str(log())


def test_a_database_that_is_away_is_tried_again(tmp_path):
    log = Log(tmp_path)
    log.add(1)

    async def follow():
        stream = log.stream()
        assert await take(stream, 1) == [1]
        log.path.rename(tmp_path / "away.db")
        waiting = asyncio.ensure_future(anext(stream))
        end = time.monotonic() + 20
        while not stream.fault and time.monotonic() < end:
            await asyncio.sleep(0.01)
        assert "log.db: " in stream.fault
        (tmp_path / "away.db").rename(log.path)
        log.add(2)
        assert plain(await asyncio.wait_for(waiting, 20))[1] == [2]
        assert not stream.fault
        await stream.aclose()

    asyncio.run(follow())


def test_a_missing_package_is_told_at_once(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    section = StreamSection(path="postgresql://h/x", follow=True)
    with pytest.raises(MissingExtra, match=r'pip install "domkl\[postgres\]"'):
        asyncio.run(collect(open_stream(section, 1, columns=PLAIN)))


def test_bad_rows_are_counted_and_absent_columns_refused(tmp_path):
    log = Log(tmp_path)
    log.run("insert into log values (1, 1, 1), (2, 'warm', 1), ('soon', 3, 1), (4, 1e308 * 10, 1)")
    log.run("insert into log values (5, x'ff', 1), (6, 6, null), (7, 7, 9223372036854775807)")
    stream = log.stream(follow=False)
    assert [row[1] for row in asyncio.run(collect(stream))] == [[1], [6], [7]]
    assert dict(stream.refused) == {"not a number": 2, "not a time": 1, "too large": 1}
    columns = dataclasses.replace(COLUMNS, features=("b",))
    with pytest.raises(DataError, match=r"log.db: no column 'b'; expected one of t, a, y"):
        asyncio.run(collect(log.stream(columns=columns, follow=False)))


def configured(folder, text, **environ):
    (folder / "a.toml").write_text(text)
    return load(folder / "a.toml", environ)


def learn(config, stop_after=None):
    """Predictions of an agent, until its stream ends or so many were made."""
    out = []

    async def run():
        agent = Agent(config, out=out.append)
        task = asyncio.ensure_future(agent.run())
        while not task.done() and (stop_after is None or len(out) < stop_after):
            await asyncio.sleep(0.005)
        agent.stop()
        await asyncio.wait_for(task, 20)
        return agent

    return out, asyncio.run(asyncio.wait_for(run(), 60))


def test_a_parquet_file_teaches_an_agent_as_a_csv_does(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    days = range(1, 30)
    rows = [{"when": f"2024-05-{day:02d}", "wind": "NS"[day % 2], "t": float(day % 7)} for day in days]
    parquet.write_table(pyarrow.Table.from_pylist(rows[::-1]), tmp_path / "log.parquet")  # the newest first
    lines = [",".join(map(str, row.values())) for row in rows]
    (tmp_path / "log.csv").write_text("\n".join(["when,wind,t", *lines]))
    about = 'columns = {{target = "t"}}\nmodel = {{size = 20}}\nstream = {{path = "{}"}}\n'
    found = [learn(configured(tmp_path, about.format(name)))[0] for name in ("log.csv", "log.parquet")]
    assert found[0] == found[1]
    assert found[1][0]["time"] == "2024-05-01T00:00:00.000Z"


AGENT = """
inputs = 1
columns = {target = "y", features = ["a"], time = "at", kinds = {at = "time"}}
stream = {path = "%s", query = "select * from log where y >= 0", follow = true}
model = {size = 20}
output = {predictions = ""}
"""


def test_an_agent_follows_a_postgresql_query_through_a_restart(tmp_path, capsys, log):
    with postgres() as address:
        import psycopg

        def write(text):
            with psycopg.connect(address) as connection:
                connection.execute(text)

        write("create table log (at timestamptz, a float8, y float8)")
        write("insert into log select to_timestamp(i), i, 0 from generate_series(30, 1, -1) as i")
        config = configured(tmp_path, AGENT.replace("%s", address))
        out, agent = learn(config, 30)
        assert [record["index"] for record in out] == [*range(30)]
        assert out[0]["time"] == "1970-01-01T00:00:01.000Z"
        write("delete from log where a < 20")
        write("insert into log select to_timestamp(i), i, 0 from generate_series(31, 35) as i")
        out, agent = learn(config, 5)
        assert [(record["index"], record["time"][-6:-5]) for record in out[:2]] == [(30, "1"), (31, "2")]
        assert agent.rows.total() == 0
        main(["agent", str(tmp_path / "a.toml"), "--check"])
        said = capsys.readouterr().out
        assert "the first rows of postgres: 16 read, 16 can be used" in said
        for path in (tmp_path / "a.state").rglob("*"):
            assert path.is_dir() or b"secret" not in path.read_bytes()
    assert main(["agent", str(tmp_path / "a.toml"), "--check"]) == 2  # the server is away
    said += "".join(capsys.readouterr()) + str(log()) + repr(config)
    assert "secret" not in said


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        ('path = "a.csv", query = "select 1"', "query is given and path is no database"),
        ('path = "sqlite:a.db", kind = "csv"', "kind is csv and path is a database"),
        ('path = "a.csv", kind = "database"', "kind is database and path is no database"),
        ('path = "postgresql://me:se/cret@h/x"', "%2F"),
        ('topic = "a", broker = "127.0.0.1:1", within = 5.0', "within is given without topics"),
    ],
)
def test_contradictions_are_refused(tmp_path, stream, message):
    with pytest.raises(InputError, match=message) as caught:
        configured(tmp_path, f"inputs = 1\nstream = {{{stream}}}")
    assert "cret" not in str(caught.value)
