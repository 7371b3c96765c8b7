"""User tables: what is read, and that every mistake is named with its place."""

import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domkl.base.errors import DataError, InputError, MissingExtra
from domkl.datasets import read_table

GOOD = "site,a,b,y\nx,1,2,3\nz,4,5,6\nx,7,8,9\nz,1,1,1\nx,0,0,0\n"


@pytest.fixture
def write(tmp_path):
    def _write(text, name="t.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return _write


def test_reads_columns_and_learners(write):
    table = read_table(write(GOOD), "y", "site")
    assert table.feature_names == ("a", "b")
    assert table.y.tolist() == [3, 6, 9, 1, 0]
    part = table.by_learner()
    assert part.names == ("x", "z")
    assert part.y.tolist() == [[3, 9], [6, 1]]
    assert part.X.tolist() == [[[1, 2], [7, 8]], [[4, 5], [1, 1]]]
    assert part.left_out == 1


def test_without_learners_it_is_a_dataset(write):
    table = read_table(write(GOOD), "y", drop=["site"])
    assert table.dataset().split(2).left_out == 1
    assert table.dataset().name == "t.csv"
    with pytest.raises(InputError, match="no learner column; read it with learner_column="):
        table.by_learner()


@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_separators_ends_quotes_blanks_and_marks(write, mark, end):
    text = "\ufeff" + GOOD.replace(",", mark).replace("\n", end) + end + end
    text = text.replace(f"x{mark}1", f'"x"{mark}" 1"', 1)
    table = read_table(write(text), "y", "site")
    assert table.X.shape == (5, 2)


def test_gzip_features_and_max_rows(write):
    for name in ("t.csv.gz", "T.CSV.GZ"):
        path = write(gzip.compress(GOOD.encode()), name)
        table = read_table(path, "y", features=["b"], max_rows=3)
        assert table.X.tolist() == [[2], [5], [8]]


PLACE = "t.csv, line 3, column 'b'"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a,b,y\n1,2,3\n4,5\n", ["t.csv, line 3: 2 fields", "expected 3", "correct the line"]),
        ("a,b,y\n1,2,3\n\n4,5,6,7\n", ["t.csv, line 4: 4 fields"]),
        ("a,b,y\n1,2,3\n4,cloud,6\n", [PLACE, "'cloud' is not a number", "--drop b"]),
        ('a,b,y\n1,2,3\n4,"Rome, Italy",6\n', [PLACE, "'Rome, Italy' is not", "--drop b"]),
        ("a,b,y\n1,2,3\n4,5,low\n", ["line 3, column 'y'", "'low'", "choose a target with numbers"]),
        ("a,b,y\n1,2,3\n4,1_0,6\n", [PLACE, "'1_0' is not a number"]),
        ("a;b;y\n1;2;3\n4;2,5;6\n", [PLACE, "'2,5'", "write decimals with a point"]),
        ("a,b,y\n1,2,3\n4,,6\n", [PLACE, "the cell is empty", "--missing drop", 'missing="drop"']),
        ("a,b,y\n1,2,3\n4,NaN,6\n", [PLACE, "the value is 'NaN'", "finite"]),
        ("a,b,y\n1,2,3\n4,-inf,6\n", [PLACE, "the value is '-inf'"]),
        ('a,b,y\n"1",2,3\n"4",NA,6\n', [PLACE, "'NA'"]),
        ("", ["t.csv", "the file is empty"]),
        ("\n\n", ["the file is empty"]),
        ("a,b,y\n", ["0 usable rows", "at least 2", "add rows"]),
        ("a,b,y\n1,2,3\n", ["1 usable rows"]),
        ("a,a,y\n1,2,3\n", ["line 1: column 'a' is there twice"]),
        ("a,,y\n1,2,3\n", ["line 1: column 2 has no name"]),
        (b"a,b,y\n1,2,3\n4,\xff,6\n", ["t.csv, line 3", "0xff", "save the file as UTF-8"]),
    ],
)
def test_mistakes_are_named(write, text, parts):
    with pytest.raises(DataError) as caught:
        read_table(write(text), "y")
    message = str(caught.value)
    assert "\n" not in message
    assert [part for part in parts if part not in message] == []


def test_lines_are_counted_as_an_editor_does(write):
    with pytest.raises(DataError, match="line 5, column 'a'"):
        read_table(write('site,a,y\n"two\nlines",1,2\nx,2,3\nx,bad,3\n'), "y", "site")


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"target": "Y1"}, ["t.csv: no column 'Y1'", "expected one of site, a, b, y"]),
        ({"target": "y", "learner_column": "sites"}, ["did you mean 'site'?"]),
        ({"target": "y", "drop": ["c"]}, ["no column 'c'"]),
        ({"target": "y", "drop": "site"}, ["lists of names"]),
        ({"target": "y", "drop": ["y"]}, ["target 'y' is also"]),
        ({"target": "y", "learner_column": "y"}, ["target 'y' is also"]),
        ({"target": "y", "features": ["a", "a"]}, ["list each once"]),
        ({"target": "y", "features": []}, ["features names no column", "leave it out to take all others"]),
        ({"target": "y", "features": ["a", "y"]}, ["list each once"]),
        ({"target": "y", "drop": ["a", "b", "site"]}, ["no column is left"]),
        ({"target": "y", "missing": "men"}, ["did you mean 'mean'?"]),
        ({"target": "y", "max_rows": 1}, ["max_rows is 1"]),
    ],
)
def test_wrong_arguments_are_named(write, options, parts):
    with pytest.raises(InputError) as caught:
        read_table(write(GOOD), **options)
    assert [part for part in parts if part not in str(caught.value)] == []


def test_a_file_without_header_is_told(write):
    with pytest.raises(InputError, match="the first line holds numbers; it must name the columns"):
        read_table(write("1,2,3\n4,5,6\n"), "y")


def test_unreadable_files(write, tmp_path):
    for path, part in [
        (tmp_path / "none.csv", "no such file"),
        (tmp_path / "none.parquet", "no such file"),
        (tmp_path, "cannot be read"),
        (write(gzip.compress(GOOD.encode())[:-12], "cut.csv.gz"), "not a whole gzip file"),
        (write("plain", "plain.csv.gz"), "not a whole gzip file"),
        (write("plain", "plain.parquet"), "not a Parquet file"),
    ]:
        with pytest.raises(DataError, match=part) as caught:
            read_table(path, "y")
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)


HOLES = "site,a,b,y\nx,1,,3\nz,3,5,6\nx,5,8,\n,1,1,1\nx,inf,2,4\n"


def test_missing_drop(write):
    table = read_table(write(HOLES), "y", drop=["site"], missing="drop")
    assert table.X.tolist() == [[3, 5], [1, 1]]
    assert table.dropped == 3
    with pytest.raises(DataError, match="1 usable rows of 5"):
        read_table(write(HOLES), "y", "site", missing="drop")


def test_missing_mean_fills_with_the_mean_of_the_cells_above(write):
    table = read_table(write("a,b,y\n1,2,0\n3,,0\n,4,0\n11,,0\n"), "y", missing="mean")
    assert table.X.tolist() == [[1, 2], [3, 2], [2, 4], [11, 3]]
    assert table.dropped == 0


def test_missing_mean_invents_no_target_and_leaves_out_what_has_nothing_above(write):
    table = read_table(write(HOLES), "y", "site", missing="mean")
    assert table.learners == ("z", "x")
    assert table.X.tolist() == [[3, 5], [2, 2]]  # above b of the first row there is nothing
    assert table.dropped == 3
    with pytest.raises(DataError, match="column 'a': no value at all"):
        read_table(write("a,y\n,1\n,2\n"), "y", missing="mean")


def test_a_row_without_learner_is_refused(write):
    with pytest.raises(DataError, match="line 3, column 'site': the cell is empty, expected a name"):
        read_table(write("site,a,y\nx,1,2\n,3,4\n"), "y", "site")


def test_parquet(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {"site": ["x", "z", "x"], "a": [1, 2, 3], "b": [True, False, True], "y": [0.5, None, 1.5]}
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table(columns), path)
    assert len(read_table(path.rename(tmp_path / "t.PARQUET"), "a", features=["b"]).y) == 3
    (tmp_path / "t.PARQUET").rename(path)
    with pytest.raises(DataError, match=r"t.parquet, row 2, column 'y': the value is 'nan'"):
        read_table(path, "y", "site")
    table = read_table(path, "y", "site", missing="drop")
    assert table.X.tolist() == [[1, 1], [3, 1]]
    assert table.learners == ("x", "x")
    with pytest.raises(DataError, match=r"row 1, column 'site': 'x' is not a number; .*--drop site"):
        read_table(path, "y")
    assert len(read_table(path, "a", features=["b"], max_rows=2).y) == 2


def test_parquet_dates_are_not_numbers(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    from datetime import datetime

    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"when": [datetime(2020, 1, 1)] * 2, "y": [1.0, 2.0]}), path)
    with pytest.raises(DataError, match="row 1, column 'when': '2020-01-01 00:00:00' is not a number"):
        read_table(path, "y")


def test_parquet_needs_pyarrow(write, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    monkeypatch.delitem(__import__("sys").modules, "pyarrow.parquet", raising=False)
    with pytest.raises(MissingExtra, match=r'pip install "domkl\[parquet\]"'):
        read_table(write("", "t.parquet"), "y")


@given(
    st.lists(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=3, max_size=3), min_size=2)
)
def test_numbers_survive_the_file(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("t") / "t.csv"
    path.write_text("a,b,y\n" + "".join(",".join(map(repr, row)) + "\n" for row in rows))
    table = read_table(path, "y")
    np.testing.assert_array_equal(np.column_stack([table.X, table.y]), rows)
