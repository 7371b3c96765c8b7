"""User tables: what is read, what is counted, and that every mistake is named with its place."""

import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domkl.base.errors import DataError, InputError, MissingExtra
from domkl.datasets import Columns, read_table

GOOD = "site,a,b,y\nx,1,2,3\nz,4,5,6\nx,7,8,9\nz,1,1,1\nx,0,0,0\n"


@pytest.fixture
def write(tmp_path):
    def _write(text, name="t.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return _write


def test_reads_columns_and_learners(write):
    table = read_table(write(GOOD), target="y", learner="site")
    assert table.feature_names == ("a", "b")
    assert table.y.tolist() == [3, 6, 9, 1, 0]
    part = table.by_learner()
    assert part.names == ("x", "z")
    assert part.y.tolist() == [[3, 9], [6, 1]]
    assert part.X.tolist() == [[[1, 2], [7, 8]], [[4, 5], [1, 1]]]
    assert part.left_out == 1
    assert part.times is None


def test_without_learners_it_is_a_dataset(write):
    table = read_table(write(GOOD), target="y", drop=["site"])
    assert table.dataset().split(2).left_out == 1
    assert table.dataset().name.endswith("t.csv")
    with pytest.raises(InputError, match="no learner column; read it with learner="):
        table.by_learner()


def test_gzip_features_and_max_rows(write):
    for name in ("t.csv.gz", "T.CSV.GZ", "t.csv"):
        path = write(gzip.compress(GOOD.encode()), name)
        table = read_table(path, target="y", features=["b"], max_rows=3)
        assert table.X.tolist() == [[2], [5], [8]]


@pytest.mark.parametrize(
    ("bad", "parts"),
    [
        ("4,5", ["1 row: 2 fields, expected 3 as in the header (line 3); correct the line"]),
        ("4,5,6,7", ["4 fields, expected 3"]),
        ("4,cloud,6", ["column 'b' is 'cloud', expected a number (line 3)", "--drop b", "--na"]),
        ('4,"Rome, Italy",6', ["column 'b' is 'Rome, Italy'"]),
        ("4,5,low", ["column 'y' is 'low', expected a number"]),
        ("4,1_0,6", ["'1_0'"]),
        ("4,-inf,6", ["'-inf', expected a number up to 1e+100"]),
        ("4,1e300,6", ["column 'b' is 1e+300, expected a number up to"]),
        ("4,5,1e101", ["column 'y' is", "expected a number up to"]),
    ],
)
def test_a_bad_row_is_counted_with_place_and_remedy_and_the_others_are_used(write, bad, parts):
    table = read_table(write(f"a,b,y\n1,2,3\n{bad}\n4,5,6\n7,8,9\n"), target="y")
    assert table.y.tolist() == [3, 6, 9]
    assert table.rows == (2, 4, 5)
    assert table.refused == 1
    (fault,) = table.faults
    assert [part for part in parts if part not in str(fault)] == []
    assert "\n" not in str(fault)


def test_a_row_with_two_faults_is_one_row(write):
    table = read_table(write("a,b,y\n1,2,3\nx,x,z\n4,5,6\n7,8,9\n5,5,5\n"), target="y")
    assert table.refused == 1


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ["t.csv", "the file is empty"]),
        ("\n\n", ["the file is empty"]),
        ("a,b,y\n", ["0 usable rows", "at least 2", "add rows"]),
        ("a,b,y\n1,2,3\n", ["1 usable rows of 1"]),
        ("a,b,y\n1,2,3\n4\n5\n", ["1 usable rows of 3", "1 fields, expected 3", "line 3"]),
        ("1,2,3\n4,5,6\n", ["the first line holds numbers", "(and 1 more: domkl inspect shows all)"]),
        (b"\x00\xff\x00\x01", ["not a text file"]),
        (b"PK\x03\x04...", ["an Excel or zip file", "save the sheet as CSV"]),
        (b"SQLite format 3\x00...", ["a SQLite database", "sqlite:"]),
        (b"PAR1...", ["not a Parquet file"]),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line(write, text, parts):
    with pytest.raises((DataError, InputError)) as caught:
        read_table(write(text), target="y")
    message = str(caught.value)
    assert "\n" not in message
    assert [part for part in parts if part not in message] == []


def test_lines_are_counted_as_an_editor_does(write):
    table = read_table(
        write('site,a,y\n"two\nlines",1,2\nx,2,3\nx,bad,3\nx,1,1\n'), target="y", learner="site"
    )
    assert table.faults[0].place == "line 5"


def test_names_that_are_missing_or_twice_get_one_of_their_own(write):
    table = read_table(write(",a,a,y\n0,5,1,3\n1,5,4,6\n2,5,2,1\n"), target="y")
    assert table.feature_names == ("a", "a (3)")  # the first column is a row number
    assert "is there twice" in table.notes[0]


def test_text_of_windows_is_read_and_said(write):
    table = read_table(write("t in °C,y\n1,2\n3,4\n".encode("cp1252")), target="y")
    assert table.feature_names == ("t in °C",)
    assert "read as Windows-1252" in table.notes[0]
    assert read_table(write("ü,y\n1,2\n3,4\n".encode("utf-16")), target="y").feature_names == ("ü",)


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"target": "Y1"}, ["t.csv: no column 'Y1'", "expected one of site, a, b, y"]),
        ({"target": "y", "learner": "sites"}, ["did you mean 'site'?"]),
        ({"target": "y", "drop": ["c"]}, ["no column 'c'"]),
        ({"target": "y", "drop": "site"}, ["a list of names"]),
        ({"target": "y", "drop": ["y"]}, ["target 'y' is also"]),
        ({"target": "y", "learner": "y"}, ["target 'y' is also"]),
        ({"target": "y", "features": ["a", "a"]}, ["list each once"]),
        ({"target": "y", "drop": ["a", "b", "site"]}, ["no column is left"]),
        ({"target": "y", "missing": "men"}, ["did you mean 'mean'?"]),
        ({"target": "y", "max_rows": 1}, ["max_rows is 1"]),
        ({"target": "y", "learner_column": "site"}, ["keyword is 'learner_column'"]),
        ({"target": "y", "query": "select 1"}, ["query is given without a database"]),
        ({}, ["needs a target", "site, a, b, y"]),
    ],
)
def test_wrong_arguments_are_named(write, options, parts):
    with pytest.raises(InputError) as caught:
        read_table(write(GOOD), **options)
    assert [part for part in parts if part not in str(caught.value)] == []


def test_unreadable_files(write, tmp_path):
    for path, part in [
        (tmp_path / "none.csv", "no such file"),
        (tmp_path / "none.parquet", "no such file"),
        (tmp_path, "cannot be read"),
        (write(gzip.compress(GOOD.encode())[:-12], "cut.csv.gz"), "not a whole gzip file"),
        (write(gzip.compress(GOOD.encode())[:-12], "cut.csv"), "not a whole gzip file"),
        (write("plain", "plain.csv.gz"), "not a whole gzip file"),
        (write("plain", "plain.parquet"), "not a Parquet file"),
    ]:
        with pytest.raises(DataError, match=part) as caught:
            read_table(path, target="y")
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)


HOLES = "site,a,b,y\nx,1,,3\nz,3,5,6\nx,5,8,\n,1,1,1\nx,,2,4\n"


def test_missing_cells_are_left_to_the_model_unless_told_otherwise(write):
    table = read_table(write(HOLES), target="y", drop=["site"])
    np.testing.assert_array_equal(table.X, [[1, np.nan], [3, 5], [1, 1], [np.nan, 2]])
    assert table.dropped == 1  # without a target nothing can be learnt
    with pytest.raises(DataError, match=r"line 2, column 'b': the cell is missing.*--missing auto"):
        read_table(write(HOLES), target="y", drop=["site"], missing="error")
    table = read_table(write(HOLES), target="y", drop=["site"], missing="drop")
    assert table.X.tolist() == [[3, 5], [1, 1]]
    assert table.dropped == 3


def test_missing_mean_fills_with_the_mean_of_the_cells_above(write):
    table = read_table(write("a,b,y\n1,2,0\n3,,0\n,4,0\n11,,0\n"), target="y", missing="mean")
    assert table.X.tolist() == [[1, 2], [3, 2], [2, 4], [11, 3]]
    assert table.dropped == 0


def test_missing_mean_leaves_out_what_has_nothing_above(write):
    table = read_table(write(HOLES), target="y", learner="site", missing="mean")
    assert table.learners == ("z", "x")
    assert table.X.tolist() == [[3, 5], [2, 2]]  # above b of the first row there is nothing
    assert table.dropped == 2
    assert table.faults[0].kind == "no learner"


def test_rows_without_target_are_kept_where_they_are_to_be_predicted(write):
    table = read_table(write(GOOD), target="y", drop=["site"])
    later = read_table(write("a,b\n1,2\n", "new.csv"), table.columns, unlabelled=True)
    assert later.X.tolist() == [[1, 2]]
    assert np.isnan(later.y).all()
    assert later.target == "y"


def test_rows_are_put_in_order_of_time_and_keep_it(write):
    text = "when,a,y\n2024-01-02,1,1\n2024-01-01,2,2\n,5,5\n2024-01-03,3,3\nx,9,9\n"
    table = read_table(write(text * 1), target="y", kinds={"when": "time"})
    assert table.y.tolist() == [2, 5, 1, 3]
    assert table.notes == ("rows put in order of time by column 'when': 1 came before an earlier one",)
    assert np.diff(table.times[[0, 2, 3]]).tolist() == [86400, 86400]
    assert table.faults[0].kind == "not a time"
    assert table.dataset().split(2, "interleaved").times.shape == (2, 2)


def test_a_date_that_is_a_property_orders_nothing_unless_told(write):
    days = ["1990-05-01", "1970-01-01", "1985-03-03", "1999-09-09", "1960-06-06"]
    path = write("birth_date,y\n" + "".join(f"{day},{i}\n" for i, day in enumerate(days)))
    table = read_table(path, target="y")
    assert table.y.tolist() == [0, 1, 2, 3, 4]
    assert "--time birth_date puts them in order" in table.notes[0]
    assert table.times is None
    assert read_table(path, target="y", time="birth_date").y.tolist() == [4, 1, 2, 0, 3]


def test_classes_become_signs(write):
    table = read_table(write("a,y\n1,ham\n2,spam\n3,ham\n4,spam\n"), target="y")
    assert table.y.tolist() == [-1, 1, -1, 1]
    assert table.labels == ("ham", "spam")


def test_parquet(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    from datetime import datetime

    when = [datetime(2020, 1, 1, hour) for hour in (3, 4, 5)]
    inner = [{"u": 1}, {"u": 2}, {"u": 3}]
    columns = {"site": ["x", "z", "x"], "a": [1, 2, 3], "b": [True, False, True], "y": [0.5, None, 1.5]}
    path = tmp_path / "t.PARQUET"
    pq.write_table(pa.table({**columns, "when": when, "s": inner}), path)
    table = read_table(path, target="y", learner="site", drop=["when"])
    assert table.feature_names == ("a", "b", "s.u")
    assert table.X.tolist() == [[1, 1, 1], [3, 1, 3]]
    assert table.learners == ("x", "x")
    assert len(read_table(path, target="a", features=["when"], max_rows=2).y) == 2


def test_parquet_needs_pyarrow(write, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    monkeypatch.delitem(__import__("sys").modules, "pyarrow.parquet", raising=False)
    with pytest.raises(MissingExtra, match=r'pip install "domkl\[parquet\]"'):
        read_table(write("", "t.parquet"), target="y")


@given(st.lists(st.lists(st.floats(-1e100, 1e100), min_size=3, max_size=3), min_size=2))
def test_numbers_survive_the_file(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("t") / "t.csv"
    path.write_text("a,b,y\n" + "".join(",".join(map(repr, row)) + "\n" for row in rows))
    table = read_table(path, Columns(target="y"))
    np.testing.assert_array_equal(np.column_stack([table.X, table.y]), rows)
