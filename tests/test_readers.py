"""Every source of rows: CSV of any dialect, JSON, frames, databases, standard input, and any bytes."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import os
import sqlite3
import sys
import tempfile
from datetime import datetime

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from databases import postgres
from domkl.base.errors import DataError, InputError, MissingExtra
from domkl.datasets import Columns, read_table, readers

QUICK = settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture], deadline=None
)
WORDS = st.text("abc äß,;|\t\"'#=\n", min_size=1, max_size=8).filter(str.strip)
NUMBERS = st.floats(-1e6, 1e6).map(lambda value: round(value, 3))


def read(data, name="t.csv", **said):
    """Columns of a file with these bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, name)
        with open(path, "wb") as file:
            file.write(data)
        return readers.read(path, Columns(**said))


@QUICK
@given(
    st.lists(st.tuples(WORDS, NUMBERS, NUMBERS), min_size=2, max_size=5),
    st.sampled_from(",;\t|"),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.booleans(),
)
def test_a_csv_of_any_dialect_reads_back_the_same(rows, mark, quoting, end, comma, zipped):
    names = ["a, word", "b", "c;d"]
    decimal = "," if comma and mark != "," else "."
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter=mark, quoting=quoting, lineterminator=end)
    writer.writerow(names)
    writer.writerows((word, *(str(v).replace(".", decimal) for v in values)) for word, *values in rows)
    data = ("\ufeff" + file.getvalue()).encode()
    raw = read(gzip.compress(data) if zipped else data, "t.csv.gz" if zipped else "t.csv")
    assert list(raw.columns) == names
    assert raw.faults == ()
    assert list(map(str, raw.columns["a, word"])) == [word.strip() for word, *_ in rows]
    table = read_table(
        {name: list(cells) for name, cells in raw.columns.items()}, target="b", drop=["a, word"]
    )
    np.testing.assert_array_equal(np.column_stack([table.y, table.X]), [values for _, *values in rows])


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("a b   c\n1 2 3\n 4  5 6\n", "space"),
        ("a;b\n1,5;2,5\n", ";"),
        ("a,b;c,d\n1,2;3,4\n", ","),
        ("date time, temp in C, y\n2020-01-01 10:00, 1, 2\n", ","),
        ("y\n1\n2\n", ","),
        ("the time,y\n1 2,3\n1 2,3,4\n1 2,3\n", ","),
        ('"a,b"\t"c"\n1\t2\n', "\t"),
    ],
)
def test_the_separator_is_found(text, mark):
    assert readers.separator(text) == mark


def test_a_number_may_stand_for_a_missing_cell():
    for text in (b"a,y\n-200,1\n3,2\n", b"a;y\n-200;1\n3,5;2\n", b'{"a": -200, "y": 1}\n{"a": 3, "y": 2}\n'):
        with tempfile.NamedTemporaryFile(suffix=".txt") as file:
            file.write(text)
            file.flush()
            assert np.isnan(read_table(file.name, target="y", na=["-200"]).X[0, 0])


def test_the_separator_may_be_said():
    assert list(read(b"a:b\n1:2\n", separator=":").columns) == ["a", "b"]


@QUICK
@given(
    st.binary(max_size=200) | st.text(max_size=100).map(str.encode),
    st.sampled_from(["t.csv", "t.json", "t.jsonl", "t.csv.gz", "t", "t.parquet"]),
)
@example(b'{"a": 1, "y": 2}\n{"a": ' + b"9" * 5000 + b"}\n", "t.jsonl")
@example(b"[" * 5000, "t.json")
@example(b'a,y\n"1,2\n3,4\n', "t.csv")
@example(b"a,y\n\x00,2\n3,4\n5,6\n", "t.csv")
@example(b'{"y": {"y": {}}}', "t.json")
def test_any_bytes_end_in_a_table_or_one_line(data, name):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, name)
        with open(path, "wb") as file:
            file.write(data)
        try:
            table = read_table(path, target="y")
        except (DataError, InputError) as error:
            assert "\n" not in str(error)  # noqa: PT017
        else:
            assert len(table.X) == len(table.y) >= 2


LINES = b"""{"t": 21.5, "at": {"city": "Rome"}, "y": 1}
{"t": "22,5", "at": {"city": "Oslo"}, "y": 2, "late": 7}

nonsense
[1, 2]
{"t": null, "at": {"city": "Rome"}, "y": 3, "late": 8}
"""


@pytest.mark.parametrize("name", ["t.jsonl", "t.ndjson", "t.json", "t.log", "t.jsonl.gz"])
def test_json_lines_are_not_csv(name):
    raw = read(gzip.compress(LINES) if name.endswith("gz") else LINES, name)
    assert raw.format == "JSON lines"
    assert raw.columns["at.city"] == ["Rome", "Oslo", "Rome"]
    assert raw.columns["late"] == [None, 7, 8]  # it appears in the middle of the file
    assert raw.lines == [1, 2, 6]
    assert [fault.place for fault in raw.faults] == ["line 4", "line 5"]
    assert raw.refused == 2


@pytest.mark.parametrize(
    ("document", "records"),
    [
        ([{"a": 1, "y": 2}, {"a": 3, "y": 4}], ""),
        ({"status": "ok", "data": {"rows": [{"a": 1, "y": 2}, {"a": 3, "y": 4}]}}, "data.rows"),
        ({"data": [{"a": 1, "y": 2}, {"a": 3, "y": 4}]}, ""),
        ({"a": [1, 3], "y": [2, 4]}, ""),
        ({"result": [[{"a": 1, "y": 2}, {"a": 3, "y": 4}]]}, "result.0"),
    ],
)
def test_json_documents_hold_rows_somewhere(document, records):
    for indent in (None, 2):
        raw = read(json.dumps(document, indent=indent).encode(), "t.json", records=records)
        assert {name: list(cells) for name, cells in raw.columns.items()} == {"a": [1, 3], "y": [2, 4]}


def test_a_document_without_rows_says_so():
    assert read(b'{"a": 1, "b": 2}', "t.json").problems[0][0] == "no list of rows"
    assert read(b'{"a": [1, 2]}', "t.json", records="b.c").problems[0][0] == "no list of rows at 'b.c'"
    assert read(b"{", "t.json").problems[0][0].startswith("not JSON")


def test_frames_of_pandas_polars_arrow_and_python():
    when = [datetime(2024, 1, 1, hour) for hour in (3, 1, 2)]
    columns = {"when": when, "n": [1.5, None, 3.0], "city": ["R", "O", "R"], "y": [1, 2, 3]}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    frames = [columns, rows]
    for package, make in (
        ("pandas", lambda it: it.DataFrame(columns)),
        ("pandas", lambda it: it.DataFrame(columns).set_index("when")),
        ("polars", lambda it: it.DataFrame(columns)),
        ("polars", lambda it: it.LazyFrame(columns)),
        ("pyarrow", lambda it: it.table(columns)),
    ):
        frames.append(make(pytest.importorskip(package)))
    for frame in frames:
        table = read_table(frame, target="y", kinds={"city": "category"})
        assert table.y.tolist() == [2, 3, 1]
        assert table.feature_names[-3:] == ("n", "city=O", "city=R")
        np.testing.assert_array_equal(table.X[:, -3:], [[np.nan, 1, 0], [3, 0, 1], [1.5, 0, 1]])
        assert (np.diff(table.times) == 3600).all()
    nested = {"a": [{"k": 1}, {"k": [2, 3]}], "y": [1, 2]}
    assert read_table(nested, target="y").feature_names == ("a.k", "a.k.0", "a.k.1")
    for wrong in (3, None, [1, 2], {"a": 5}, {"a": [1], "b": [1, 2]}):
        with pytest.raises(InputError):
            read_table(wrong, target="y")


def test_sqlite(tmp_path):
    path = tmp_path / "log.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table log (a real, city text, y integer)")
        connection.executemany(
            "insert into log values (?, ?, ?)", [(1.5, "R", 1), (None, "O", 2), (3, "R", 3)]
        )
    connection.close()
    table = read_table(f"sqlite:{path}", target="y", query="select a, y from log where y < 3")
    np.testing.assert_array_equal(table.X, [[1.5], [np.nan]])
    assert table.name == "log.db"
    assert len(read_table(f"sqlite:{path}", target="y").y) == 3  # the only table
    for query, part in (
        ("drop table log", "readonly"),
        ("select z from log", "no such column"),
        ("", "2 tables"),
    ):
        if not query:
            with sqlite3.connect(path) as connection:
                connection.execute("create table other (a)")
            connection.close()
        with pytest.raises((DataError, InputError), match=part) as caught:
            read_table(f"sqlite:{path}", target="y", query=query)
        assert "\n" not in str(caught.value)
    (tmp_path / "no.db").write_bytes(b"no database" * 100)
    for name, part in (("no.db", "not a database"), ("none.db", "no such file")):
        with pytest.raises(DataError, match=part):
            read_table(f"sqlite:{tmp_path / name}", target="y")


def test_a_sqlite_file_that_is_being_written_is_named_so(tmp_path, monkeypatch):
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *place, **how: connect(*place, **how, timeout=0))
    with contextlib.closing(connect(tmp_path / "log.db", isolation_level=None)) as writer:
        writer.execute("create table log (a, y)")
        writer.execute("begin exclusive")
        with pytest.raises(DataError, match="is locked; expected a moment without a writer; try again"):
            read_table(f"sqlite:{tmp_path / 'log.db'}", target="y")


@pytest.mark.parametrize("damage", [b"creat\xff table log", b"create table l\xffg"])
def test_a_damaged_name_in_a_sqlite_file_is_told_in_one_line(tmp_path, damage):
    path = tmp_path / "a.db"
    with contextlib.closing(sqlite3.connect(path)) as made:
        made.execute("create table log (a, y)")
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE log", damage))
    with pytest.raises(DataError, match="expected a SQLite database and a select"):
        read_table(f"sqlite:{path}", target="y", query="select * from log")


def test_postgresql():
    with postgres() as address:
        import psycopg

        with psycopg.connect(address) as connection:
            connection.execute(
                "create table log (at timestamptz, n numeric, ok boolean, city text, y float8)"
            )
            connection.execute(
                "insert into log values ('2024-01-01 10:00+02', 1.5, true, 'R', 1), "
                "('2024-01-01 11:00+02', null, false, 'O', 2), ('2024-01-01 12:00+02', 3, true, 'R', 3)"
            )
        table = read_table(address, target="y", query="select * from log order by y desc")
        assert table.y.tolist() == [1, 2, 3]
        assert table.times[0] == datetime.fromisoformat("2024-01-01T08:00+00:00").timestamp()
        np.testing.assert_array_equal(table.X[:, 6:8], [[1.5, 1], [np.nan, 0], [3, 1]])
        assert read_table(address, target="y").feature_names[-2:] == ("city=O", "city=R")  # the only table
        stacked = "select 1; commit; begin read write; delete from log; commit"
        refused = {"delete from log": "syntax", stacked: "multiple", "select z from log": "not exist"}
        for query, part in refused.items():
            with pytest.raises(DataError, match=part) as caught:
                read_table(address, target="y", query=query)
            assert "secret" not in str(caught.value)
            assert "\n" not in str(caught.value)
        with psycopg.connect(address) as connection:
            connection.execute("insert into log values ('infinity', 'NaN', true, 'R', 4)")
        odd = read_table(address, target="y", kinds={"at": "time"})  # Python has no such time
        assert (odd.y.tolist(), odd.times[0], odd.refused) == ([1, 2, 3], table.times[0], 1)
    with pytest.raises(DataError, match="postgres: ") as caught:
        read_table(address, target="y", query="select 1")
    assert "secret" not in str(caught.value)


def test_postgresql_needs_psycopg(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtra, match=r'pip install "domkl\[postgres\]"'):
        read_table("postgresql://localhost/x", target="y", query="select 1")


def test_parquet_times_that_python_has_not_cost_their_rows_alone(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for unit, zone, odd in (("s", None, 2**40), ("us", "Europe/Rome", -(2**62)), ("ns", "UTC", None)):
        factor = {"s": 1, "us": 10**6, "ns": 10**9}[unit]
        times = [i * factor + (unit == "ns") for i in range(20)] + [odd]
        table = {"t": arrow.array(times, arrow.timestamp(unit, zone)), "a": [1.0] * 21, "y": [2.0] * 21}
        parquet.write_table(arrow.table(table), tmp_path / "t.parquet")
        found = read_table(tmp_path / "t.parquet", target="y", time="t")
        assert (found.refused, found.times[:20].tolist()) == (int(odd is not None), [*range(20)])


def test_parquet_texts_that_are_no_utf8_cost_nothing_else(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    data = arrow.array([b"\xff", b"b"] * 10)
    note = arrow.Array.from_buffers(arrow.string(), 20, data.buffers())
    table = {"a": [*range(20)], "y": [2.0] * 20, "note": note}
    parquet.write_table(arrow.table(table), tmp_path / "t.parquet")
    found = read_table(tmp_path / "t.parquet", target="y", features=["a", "note"])
    assert (found.refused, found.y.tolist()) == (0, [2.0] * 20)


def test_standard_input_may_be_any_format(monkeypatch):
    for data in (
        b"a,y\n1,2\n3,4\n",
        b'{"a": 1, "y": 2}\n{"a": 3, "y": 4}\n',
        gzip.compress(b"a;y\n1;2\n3;4\n"),
    ):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        table = read_table("-", target="y")
        assert (table.name, table.y.tolist()) == ("standard input", [2, 4])


@pytest.mark.parametrize("password", [f"se{mark}cret" for mark in ("/", "?", "#", "[", " ", "%z", "@[")])
def test_a_password_that_breaks_an_address_is_not_shown(password):
    pytest.importorskip("psycopg")
    with pytest.raises(InputError, match="%2") as caught:
        read_table(f"postgresql://me:{password}@127.0.0.1/x", target="y", query="select 1")
    assert "cret" not in str(caught.value)


@pytest.mark.parametrize("query", ["attach '{}' as b", "vacuum into '{}'"])
def test_a_query_makes_no_file(tmp_path, query):
    with sqlite3.connect(tmp_path / "a.db") as made:
        made.execute("create table t (a, y)")
    made.close()
    with pytest.raises(DataError, match="auth"):
        read_table(f"sqlite:{tmp_path / 'a.db'}", target="y", query=query.format(tmp_path / "b.db"))
    assert not (tmp_path / "b.db").exists()


@pytest.mark.parametrize("name", ["bomb.csv.gz", "bomb.csv"])
def test_a_gzip_bomb_is_refused(tmp_path, monkeypatch, name):
    monkeypatch.setattr(readers, "MOST_UNZIPPED", 1000)
    (tmp_path / name).write_bytes(gzip.compress(b"x,y\n" + b"1,2\n" * 100_000))
    with pytest.raises(DataError, match="gunzip it first"):
        read_table(tmp_path / name, target="y")


def test_many_columns_are_read_at_once_and_none_is_lost(tmp_path):
    (tmp_path / "a.csv").write_text("a,a (3),a,y\n1,2,3,4\n2,3,4,5\n")
    assert read_table(tmp_path / "a.csv", target="y").X.tolist() == [[1, 2, 3], [2, 3, 4]]
    names = [f"c{i}" for i in range(100_000)]  # a minute and more where each is looked for among all others
    assert readers._names(names) == (names, ())


def test_a_device_without_end_is_no_table():
    with pytest.raises(DataError, match="a device, which has no end"):
        read_table("/dev/zero", target="y")
