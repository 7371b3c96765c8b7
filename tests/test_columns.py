"""Columns of any kind as numbers: guessed alike everywhere, and a cell that does not fit is refused."""

from __future__ import annotations

import json
import math
import pickle
from datetime import date, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from domkl.base.errors import DataError, InputError
from domkl.datasets import CellError, Columns, Encoder, cells, read_table
from domkl.datasets.guess import guess

CELL = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.datetimes(),
    st.sampled_from(["2024-05-01", "31/12/2004 18.00", "1,5", "yes", "NaN", "18:00", 10**400, 2**63 - 1]),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=3), st.none() | st.text(max_size=3), max_size=3),
)
ROWS = st.lists(st.fixed_dictionaries({"a": CELL, "y": CELL}, optional={"b": CELL}), max_size=6)


def made(**columns):
    """Rows from columns."""
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "2.5", "-3e4", ""], "number"),
        ([1, 2.5, None, True], "number"),
        (["1,5", "2,25", "3"], "number"),
        (["1", "2", "3", "4", "5", "6", "7", "8", "9", "ERR"] * 2, "number"),
        (["Rome", "Oslo", "Rome", "Oslo"], "category"),
        ([f"note {i} of many" for i in range(50)], "text"),
        (["yes", "no", "Yes"], "boolean"),
        ([True, False, None], "boolean"),
        (["2012-10-02 09:00:00", "2012-10-02 10:00:00"], "time:iso"),
        (["2012-10-02T09:00:00.123+02:00"], "time:iso"),
        (["1949-01", "1949-02"], "time:iso"),
        (["2 Oct 2012", "Oct 3, 2012 4:05 PM"], "time:iso"),
        (["31/12/2004 18.00", "01/01/2005 19.00"], "time:dmy"),
        (["12/31/2004", "01/02/2005"], "time:mdy"),
        (["01.02.2005 10:00"], "time:dmy"),
        ([datetime(2020, 1, 1), date(2020, 1, 2)], "time:iso"),
        (["18:00:00", "19:30"], "clock"),
        (["18.00.00", "19.30.00"], "clock"),
        ([1.7e9, 1.7e9 + 1], "number"),  # the name does not say time
    ],
)
def test_kinds_are_guessed_from_cells(values, kind):
    table = {"v": values, "other": [1] * len(values), "y": [0.5] * len(values)}
    found = guess(table, Columns(target="y")).columns
    given = found.kinds.get("v", "category" if "v" in found.categories else "number")
    assert given == kind


@pytest.mark.parametrize(
    ("name", "first", "unit"),
    [
        ("timestamp", 1.7e9, "s"),
        ("event_time", 1.7e12, "ms"),
        ("ts", "1700000000", "s"),
        ("unix ns", 17 * 10**17, "ns"),
    ],
)
def test_numbers_are_times_where_the_name_says_so(name, first, unit):
    found = guess({name: [first, first], "a": [1, 2], "y": [1, 2]}, Columns(target="y")).columns
    assert found.kinds[name] == f"time:{unit}"
    assert found.time == (name,)
    row = Encoder(found).encode({name: first, "a": 1, "y": 2})
    assert row.time == pytest.approx(1.7e9)


def test_a_number_that_is_no_time_stays_a_number():
    found = guess({"time": [1, 2, 3], "lifetime": [5, 6, 7], "y": [1, 2, 3]}, Columns(target="y")).columns
    assert found.time == ()
    assert found.features == ("time", "lifetime")


@pytest.mark.parametrize(
    ("text", "how", "expected"),
    [
        ("2012-10-02 09:00:00", "iso", datetime(2012, 10, 2, 9)),
        ("2012-10-02T09:00Z", "iso", datetime(2012, 10, 2, 9)),
        ("2012-10-02T09:00+02:00", "iso", datetime(2012, 10, 2, 7)),
        ("2012-10-02T09:00:00.25-0130", "iso", datetime(2012, 10, 2, 10, 30, 0, 250000)),
        ("2012/10/2", "iso", datetime(2012, 10, 2)),
        ("20121002T0900", "iso", datetime(2012, 10, 2, 9)),
        ("31/12/2004 18.00", "dmy", datetime(2004, 12, 31, 18)),
        ("31-12-04 6:05 pm", "dmy", datetime(2004, 12, 31, 18, 5)),
        ("12/31/2004 12:00 AM", "mdy", datetime(2004, 12, 31)),
        ("31-Dec-2004 18:00", "iso", datetime(2004, 12, 31, 18)),
        ("2004 366 06", "%Y %j %H", datetime(2004, 12, 31, 6)),
        (np.datetime64("2004-12-31T18"), "iso", datetime(2004, 12, 31, 18)),
        (datetime(2004, 12, 31, 18, tzinfo=timezone(timedelta(hours=1))), "iso", datetime(2004, 12, 31, 17)),
    ],
)
def test_times_are_seconds_in_utc(text, how, expected):
    assert cells.moment(text, how).seconds == (expected - datetime(1970, 1, 1)).total_seconds()


@pytest.mark.parametrize(
    "text", ["31/02/2004", "2004-13-01", "2004-12-31 25:00", "Rome", "", "0/0/0", "13:00 PM"]
)
def test_no_time_is_invented(text):
    with pytest.raises(ValueError):  # noqa: PT011
        cells.moment(text, "dmy")


@given(st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)), st.sampled_from("T "))
def test_iso_times_come_back(when, mark):
    assert cells.moment(when.isoformat(mark)).wall == when


def test_hour_weekday_and_season_are_those_of_the_wall_clock():
    rows = [{"when": "2024-07-01T06:00:00+02:00", "y": 1}, {"when": "2024-07-02T06:00:00+02:00", "y": 2}]
    encoder = Encoder.fit(rows, Columns(target="y"))
    assert encoder.inputs[0] == "when:hour.sin"
    hour_sin, hour_cos, *_ = (encoder.encode(rows[0])).x
    assert (hour_sin, hour_cos) == pytest.approx((1, 0), abs=1e-12)
    assert encoder.encode(rows[0]).time == datetime(2024, 7, 1, 4, tzinfo=timezone.utc).timestamp()


def test_days_have_no_hour_and_a_date_takes_its_time_of_day_from_beside_it():
    days = Encoder.fit(made(day=["2024-01-01", "2024-01-02"], y=[1, 2]), Columns(target="y"))
    assert [name.split(":")[1] for name in days.inputs][::2] == ["weekday.sin", "season.sin"]
    rows = made(Date=["10/03/2004", "13/03/2004"], Time=["18.00.00", "19.30.00"], y=[1, 2])
    both = Encoder.fit(rows, Columns(target="y"))
    assert both.columns.time == ("Date", "Time")
    assert both.d == 6
    expected = datetime(2004, 3, 13, 19, 30, tzinfo=timezone.utc).timestamp()
    assert both.encode(rows[1]).time == expected


def test_a_day_that_may_be_a_month_must_be_declared():
    rows = made(when=["01/02/2004", "02/02/2004"], a=[1, 2], y=[1, 2])
    with pytest.raises(
        InputError, match=r"'when' is '01/02/2004': day or month first; say it with --kind when="
    ):
        Encoder.fit(rows, Columns(target="y"))
    encoder = Encoder.fit(rows, Columns(target="y", kinds={"when": "time:mdy"}))
    assert encoder.encode(rows[0]).time == datetime(2004, 1, 2, tzinfo=timezone.utc).timestamp()


def test_categories_text_and_booleans_become_inputs():
    rows = made(city=["Rome", "Oslo"] * 3, on=["yes", "no"] * 3, note=[f"w{i}" for i in range(6)], y=range(6))
    encoder = Encoder.fit(rows, Columns(target="y", kinds={"note": "text"}, hashed=4))
    assert encoder.inputs == ("city=Oslo", "city=Rome", "on", "note#0", "note#1", "note#2", "note#3")
    assert encoder.encode(rows[0]).x[:3] == [0, 1, 1]
    assert sorted(map(abs, encoder.encode(rows[0]).x[3:])) == [0, 0, 0, 1]
    other = encoder.encode({"city": "Bonn", "on": None, "note": "w0"})
    assert other.x[:2] == [0, 0]
    assert math.isnan(other.x[2])
    assert other.y is None
    assert encoder.encode({"on": True}).x == [0, 0, 1, 0, 0, 0, 0]  # no city and no note


def test_two_labels_are_classes_and_three_need_a_choice():
    rows = made(a=range(6), y=["ham", "spam"] * 3)
    encoder = Encoder.fit(rows, Columns(target="y"))
    assert encoder.columns.labels == ("ham", "spam")
    assert [encoder.encode(row).y for row in rows[:2]] == [-1, 1]
    with pytest.raises(CellError, match=r"'y' is 'eggs'; expected one of ham, spam"):
        encoder.encode({"a": 1, "y": "eggs"})
    rows = made(a=range(6), y=["x", "y", "z"] * 2)
    with pytest.raises(
        InputError, match=r"target 'y' has 3 classes: x, y, z; expected two; predict one .* --class NAME"
    ):
        Encoder.fit(rows, Columns(target="y"))
    chosen = Encoder.fit(rows, Columns(target="y", positive="y"))
    assert [chosen.encode(row).y for row in rows[:3]] == [-1, 1, -1]


@pytest.mark.parametrize(
    ("cell", "kind", "part"),
    [
        ("cloud", "not a number", "column 'a' is 'cloud', expected a number"),
        ("1_0", "not a number", "'1_0'"),
        ("2,5", "not a number", 'say --decimal , (decimal = ",")'),
        ("inf", "too large", "'inf', expected a number up to 1e+100"),
        (10**400, "too large", "column 'a' is 1000"),
        (-1e300, "too large", "-1e+300"),
        (datetime(2020, 1, 1), "not a number", "2020"),
        (b"\xff", "not a number", "xff"),
        ([1], "nested", "column 'a' is an object or a list"),
    ],
)
def test_a_cell_that_does_not_fit_is_refused_with_kind_reason_and_remedy(cell, kind, part):
    encoder = Encoder(Columns(target="y", features=("a",)))
    with pytest.raises(CellError) as caught:
        encoder.encode({"a": cell})
    assert caught.value.kind == kind
    assert part in str(caught.value)
    assert caught.value.remedy
    assert "\n" not in str(caught.value)


def test_what_is_no_row_is_refused():
    encoder = Encoder(Columns(features=("a",)))
    for row in ([1, 2], None, "a", {"b": 1}, {}):
        with pytest.raises(CellError):
            encoder.encode(row)
    deep = cell = {}
    for _ in range(100):
        cell["a"] = cell = {}
    cell["b"] = 1
    with pytest.raises(CellError, match="levels deep"):
        encoder.encode(deep)
    with pytest.raises(CellError, match="more than 4096 cells"):
        encoder.encode({"a": [0] * 5000})


def test_missing_cells_are_nan_or_refused():
    rows = made(a=["1", ""], b=[2, math.nan], y=[1, 2])
    assert all(map(math.isnan, Encoder.fit(rows, Columns(target="y")).encode(rows[1]).x))
    strict = Encoder.fit(rows, Columns(target="y", missing="error"))
    with pytest.raises(CellError, match="column 'a' is empty") as caught:
        strict.encode(rows[1])
    assert caught.value.kind == "missing"
    for cell in ("ERR", -200, "-200", -200.0):
        assert math.isnan(Encoder(Columns(features=("a",), na=("ERR", "-200"))).encode({"a": cell}).x[0])


def test_nested_records_are_found_by_path():
    record = {"id": "k1", "sensors": [{"temp": 21.5}, {"temp": 19}], "power": {"now": "3,5"}}
    columns = Columns(target="p", learner="id", paths={"p": "power.now", "t": "sensors.0.temp"})
    encoder = Encoder.fit([record, record], columns)
    assert encoder.inputs == ("t", "sensors.1.temp")
    assert encoder.encode(record) == ([21.5, 19.0], 3.5, None, "k1")


def test_a_row_number_is_left_out():
    found = guess({"": ["0", "1", "2"], "a": ["0", "1", "2"], "y": [1, 2, 3]}, Columns(target="y"))
    assert found.columns.features == ("a",)
    assert found.views[0].note == "a row number"


def test_everything_wrong_is_found_at_once():
    table = {"when": ["01/02/2004"] * 3, "a": [1, 2, 3], "y": ["p", "q", "r"]}
    found = guess(table, Columns(target="y", drop=("aa",), kinds={"b": "number"}))
    assert len(found.problems) == 4
    with pytest.raises(
        InputError, match=r"no column 'b'.* \(and 3 more: domkl inspect shows all\)|no column 'aa'"
    ):
        found.check()


def test_the_description_is_the_same_in_python_toml_and_json():
    rows = made(
        when=["2024-01-01 10:00"] * 4, city=["R", "O"] * 2, a=[1] * 4, y=["u", "v"] * 2, who=["k"] * 4
    )
    columns = Encoder.fit(rows, Columns(target="y", learner="who", paths={"a": "b.c"})).columns
    again = Columns.from_table(json.loads(json.dumps(columns.table())))
    assert again == columns == pickle.loads(pickle.dumps(columns))
    assert hash(again) == hash(columns)
    assert Encoder(again).inputs == Encoder(columns).inputs
    assert Columns.from_table({"time": "when"}) == Columns(time="when") == Columns(time=("when",))


@pytest.mark.parametrize(
    ("wrong", "part"),
    [
        ({"targt": "y"}, "did you mean 'target'?"),
        ({"target": 3}, "expected str"),
        ({"kinds": {"a": "numbr"}}, "did you mean 'number'?"),
        ({"kinds": ["a"]}, "a table whose values are each str"),
        ({"categories": {"a": "b"}}, "a table whose values are each a list"),
        ({"decimal": ";"}, "expected one of ., ,"),
        ({"separator": "ab"}, "one character or 'space'"),
        ({"missing": "mena"}, "did you mean 'mean'?"),
        ({"hashed": 0}, "from 1 to 1024"),
        ({"calendar": ["minute"]}, "expected one of hour"),
        ({"target": "y", "drop": ["y"]}, "target 'y' is also"),
        ({"target": "y", "features": ["y"]}, "list each once"),
        ({"labels": ["a", "b"], "positive": "c"}, "expected one of a, b"),
        ({"time": ["a", "b", "c"]}, "expected one column, or date and time"),
    ],
)
def test_a_wrong_description_is_refused(wrong, part):
    with pytest.raises(InputError) as caught:
        Columns.from_table(wrong, "my.toml [columns]")
    assert part in str(caught.value)
    assert "my.toml [columns]" in str(caught.value)
    with pytest.raises(InputError, match="a list of names"):
        Columns(drop="site")


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(ROWS)
def test_any_rows_are_encoded_or_refused(rows):
    try:
        encoder = Encoder.fit(rows[:3], Columns(target="y"))
    except (DataError, InputError):  # a record that cannot be flattened, or no column is left
        return
    for row in rows:
        try:
            found = encoder.encode(row)
        except CellError:
            continue
        assert len(found.x) == encoder.d
        assert not any(map(math.isinf, found.x))
        assert found.y is None or math.isfinite(found.y)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(ROWS)
def test_a_table_holds_what_the_encoder_gives_row_by_row(rows):
    try:
        table = read_table(rows, target="y", time="b" if any("b" in row for row in rows) else "")
    except (DataError, InputError):
        return
    encoder = Encoder(table.columns)
    for i, row in enumerate(table.rows):
        flat = table.columns.flatten(rows[row - 1])
        found = encoder.encode({**dict.fromkeys(table.columns.features), **flat})
        np.testing.assert_array_equal(table.X[i], found.x)
        assert table.y[i] == found.y
        assert table.times is None or found.time is None or table.times[i] == found.time


@given(st.lists(st.floats(-1e99, 1e99), min_size=3, max_size=3), st.booleans())
def test_the_quick_way_gives_what_the_slow_one_does(values, as_text):
    row = dict(zip("abc", map(repr, values) if as_text else values, strict=True))
    encoder = Encoder(Columns(features=("a", "b", "c")))
    assert encoder._quickly(row) == encoder._slowly(row) == values


def test_commas_between_thousands_are_asked_about_and_not_taken_for_decimals():
    rows = [{"a": "0.5", "people": "1,234", "y": "1"}, {"a": "1.5", "people": "987", "y": "2"}]
    with pytest.raises(InputError, match="'people' is '1,234': thousands, or decimals with a comma"):
        Encoder.fit(rows, Columns(target="y"))
    assert Encoder.fit(rows, Columns(target="y", drop=["people"])).inputs == ("a",)
    told = Encoder.fit([rows[0], {**rows[1], "a": "1,5"}], Columns(target="y", features=["people"]))
    assert told.encode(rows[0]).x == [1.234]  # 1,5 elsewhere says that commas are decimals


def test_equal_descriptions_have_equal_hashes_in_any_order():
    one, other = (Columns(kinds={a: "text", b: "text"}) for a, b in ("ab", "ba"))
    assert one == other
    assert hash(one) == hash(other) != hash(Columns())
