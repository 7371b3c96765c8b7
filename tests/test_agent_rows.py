"""What lines say: JSON objects and table rows to readings, and which are refused."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from domkl.agent import sources
from domkl.agent.config import LONGEST_ROW, StreamSection
from domkl.agent.rows import JsonRows
from domkl.agent.streams import Scaling, open_stream
from domkl.agent.topics import Message
from domkl.base.errors import DataError, InputError
from domkl.datasets import Columns, Encoder
from readings import collect, from_bytes, from_pipe, split


def from_topic(data, **settings):
    settings, about = split(settings)
    section = StreamSection(topic="domkl/n/s/x", **settings)

    async def main():
        messages = asyncio.Queue()
        for line in [*data.splitlines(), None]:
            messages.put_nowait(None if line is None else Message("domkl/n/s/x", line, 0.0))
        stream = open_stream(section, 2, messages=messages, **about)
        return await collect(stream), dict(stream.refused)

    return asyncio.run(main())


def test_inputs_may_be_missing_where_the_configuration_says_so(tmp_path):
    lines = b'{"x": [1, null], "y": 1}\n{"x": {"b": null, "a": 2}}\n{"x": [1e999, 2]}\n'
    found, refused = from_bytes(tmp_path, lines, missing=True, features=("a", "b"))
    np.testing.assert_array_equal([x for _, x, _, _ in found], [[1, np.nan], [2, np.nan]])
    assert refused == {"not a reading": 1}
    rows = b"a,b,y\n,2,3\n1, ,4\n1,x,5\n1,inf,6\n"
    found, refused = from_bytes(tmp_path, rows, "csv", missing=True)
    np.testing.assert_array_equal([x for _, x, _, _ in found], [[np.nan, 2], [1, np.nan]])
    assert refused == {"not a number": 1, "too large": 1}


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
    assert from_bytes(tmp_path, data, features=("a", "b")) == (SAID, {})


def test_json_lines_from_standard_input():
    assert from_pipe(READINGS.rstrip(), features=("a", "b")) == (SAID, {})
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
        (b"[1, 2]", "not a reading", "the row is of type list"),
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
        (b'{"x": {"a": 1}, "y": 1}', "missing", "column 'b' is empty"),
        (b'{"y": 1}', "no column", "the row has none of the columns a, b, but ['y']"),
        (b'{"id": "k"}', "no x", "neither x nor a label"),
        (b"{}", "no column", "the row has none of the columns a, b"),
        (b'"' + b"a" * (1 << 20), "too long", "more than 1048576 bytes"),
    ],
)
def test_a_bad_json_row_is_refused_and_takes_a_number(tmp_path, log, line, kind, reason):
    data = b'{"x": [1, 2]}\n' + line + b'\n{"x": [3, 4]}\n'
    found, refused = from_bytes(tmp_path, data, features=("a", "b"))
    assert found == [(0, [1.0, 2.0], None, None), (2, [3.0, 4.0], None, None)]
    assert refused == {kind: 1}
    (told,) = log()
    assert (told["event"], told["level"], told["kind"], told["line"]) == ("row refused", "warning", kind, 2)
    assert reason in told["reason"]
    assert len(told["reason"]) < 600


def test_a_line_too_long_does_not_fill_the_memory():
    splitter = sources.Splitter()
    for _ in range(40):
        assert splitter.feed(b"a" * sources.CHUNK) == []
        assert len(splitter.rest) <= LONGEST_ROW + 1
    ((number, line), last) = splitter.feed(b"\nnext\n")
    assert (number, last) == (1, (2, b"next"))
    assert len(line) == LONGEST_ROW + 1


@pytest.mark.parametrize("comma", [",", ";", "\t"])
def test_tables(tmp_path, comma):
    text = '\ufefftime,b, a ,y\r\n10:00,2,1,3\r\n\r\n10:01,5,4,\r\n"10:02, or so",8,7,9\n'.replace(",", comma)
    found, refused = from_bytes(tmp_path, text.encode(), "csv", features=("a", "b"))
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
        (b"1,,3", "missing", "column 'b' is empty"),
        (b"1,1_000,3", "not a number", "column 'b' is '1_000'"),
        (b"1,2,z", "not a number", "column 'y' is 'z'"),
        (b"1,nan,3", "missing", "column 'b' is empty"),
        (b"-inf,2,3", "too large", "column 'a' is '-inf'"),
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


def test_numbers_too_large_to_be_squared_are_refused(tmp_path):
    found, refused = from_bytes(tmp_path, b"a,b,y\n1.5e308,1.5e308,0\n1e99,-1e99,0\n", "csv")
    assert (found, refused) == ([(1, [1e99, -1e99], 0.0, None)], {"too large": 1})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "the file is empty; expected a line with column names"),
        (b"a,y\n1,2\n", "header: there are 0 columns 'b', expected one; fix the file or"),
        (b"a,b,a,y\n", "header: there are 2 columns 'a'"),
        (b"a,b\n", "header: there are 0 columns 'y'"),
        (b'a,"b,y\n', "header: there are 0 columns 'a'"),
    ],
)
def test_a_table_whose_header_is_wrong_ends_it_at_once(tmp_path, text, message):
    with pytest.raises(DataError, match=message) as error:
        from_bytes(tmp_path, text, "csv", features=("a", "b"))
    assert "\n" not in str(error.value)
    with pytest.raises(DataError, match="header: there are 1 inputs, expected 2"):
        from_bytes(tmp_path, b"a,y\n", "csv")


def test_lists_of_the_wrong_length_are_refused():
    with pytest.raises(InputError, match=r"low has 1 items; expected as many as inputs, 2"):
        open_stream(StreamSection(low=(0.0,), high=(1.0,)), 2)


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


def test_a_column_that_no_message_has_is_told_once(caplog):
    columns = Columns(
        target="y",
        features=("temp", "humid", "mode"),
        paths={"temp": "sensor.t", "humid": "sensors.h"},
        categories={"mode": ("eco", "heat")},
    )
    rows = JsonRows(Encoder(columns))
    for _ in range(40):
        row = rows(b'{"sensors": {"t": 1, "h": 0}, "mode": "eco", "y": 2}')
    assert np.isnan(row.x[0])
    (said,) = caplog.records
    assert said.fields["columns"] == ["temp (sensor.t)"]
    assert "sensors.t" in said.fields["has"]
