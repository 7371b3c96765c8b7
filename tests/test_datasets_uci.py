"""The paper's sets: recipes on the real files (with DOMKL_DATA), and how files are found and checked."""

import gzip
import hashlib
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from domkl.base.errors import DataError, InputError
from domkl.datasets import catalogue, embed, load
from domkl.datasets.uci import SHAPES, SOURCES, WAVE_DIGESTS, cache_dir, places

DATA = os.environ.get("DOMKL_DATA")
real = pytest.mark.skipif(not DATA, reason="DOMKL_DATA is not set: the UCI files are not at hand")


@pytest.fixture
def empty(tmp_path, monkeypatch):
    """A machine with no data at all."""
    monkeypatch.delenv("DOMKL_DATA", raising=False)
    monkeypatch.setenv("DOMKL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def known(monkeypatch, key: str, text: str) -> bytes:
    """Make `text` the expected content of a dataset's first file."""
    data = text.encode()
    file = replace(SOURCES[key].files[0], digests=(hashlib.sha256(data).hexdigest(),))
    monkeypatch.setitem(SOURCES, key, replace(SOURCES[key], files=(file, *SOURCES[key].files[1:])))
    return data


@real
@pytest.mark.parametrize("name", [name for name in SHAPES if name != "wave_energy"])
def test_real_shapes_and_ranges(name):
    data = load(name)
    _, rows, features = SHAPES[name]
    assert data.X.shape == (rows, features)
    assert data.y.shape == (rows,)
    assert len(set(data.feature_names)) == features
    for part in (data.X, data.y):
        assert (part.min(), part.max()) == (0, 1)


@real
def test_weather():
    raw = load("weather", x_scale="none", y_scale="none")
    assert (raw.feature_names[0], raw.feature_names[-1]) == ("Present_Tmax", "Solar radiation")
    assert raw.target == "Next_Tmin"
    assert raw.X[0, :2].tolist() == [28.7, 21.4]
    assert raw.y[0] == 21.2
    assert raw.X[-1, -1] == 4451.345215
    # The mean of what is there stands in for what is not: a column's mean does not move.
    assert (np.abs(raw.y - raw.y.mean()) < 1e-9).sum() >= 27


@real
def test_conductivity():
    raw = load("conductivity", x_scale="none", y_scale="none", rows=5)
    assert raw.X[0, :2].tolist() == [4, 88.9444675]
    assert raw.y.tolist() == [29, 26, 22, 23, 23]  # UCI's third row, 19 K, is among the withheld
    assert raw.target == "critical_temp"


@real
def test_air_quality_is_the_exact_recipe():
    raw = load("air", x_scale="none", y_scale="none")
    assert raw.feature_names[:3] == ("Time", "PT08.S1(CO)", "NMHC(GT)")
    assert raw.X[0, :4].tolist() == [0.75, 1360, 150, 11.881723488680304]
    assert (raw.X.min(), raw.X.max()) == (-200, 2775)
    assert (raw.y.min(), raw.y.max()) == (0.1, 11.9)
    scaled = load("air_quality")
    np.testing.assert_array_equal(scaled.X, (raw.X + 200) / 2975)
    np.testing.assert_array_equal(scaled.y, (raw.y - 0.1) / 11.8)
    np.testing.assert_allclose(scaled.y[:3], [2.5 / 11.8, 1.9 / 11.8, 2.1 / 11.8])
    np.testing.assert_array_equal(load("air", rows=50).X, scaled.X[:50])


@real
def test_air_quality_from_the_rounded_csv(tmp_path):
    (tmp_path / "AirQualityUCI.csv.gz").write_bytes((Path(DATA) / "air_quality.csv.gz").read_bytes())
    rounded, exact = (load("air", data_dir=d, x_scale="none", y_scale="none") for d in (tmp_path, DATA))
    assert rounded.feature_names == exact.feature_names
    # CO has one digit in both; the sheet's other values are rounded to whole numbers at worst.
    np.testing.assert_allclose(rounded.y, exact.y, atol=0.051)
    np.testing.assert_allclose(rounded.X, exact.X, atol=0.51)


@real
@pytest.mark.parametrize(
    ("name", "first"), [("traffic", [5545, 4516, 4767]), ("temperature", [288.28, 289.36])]
)
def test_series(name, first):
    n = {"traffic": 6500, "temperature": 5500}[name]
    raw = load(f"{name}/1", x_scale="none", y_scale="none")
    series = np.concatenate([raw.X[:1, 0], raw.y])
    assert len(series) == n
    assert series[: len(first)].tolist() == first
    unit = (series - series.min()) / np.ptp(series)
    for options in ({}, {"x_scale": "none"}, {"y_scale": "minmax"}):
        data = load(f"{name}/7", **options)
        X, y = embed(unit, 7)
        np.testing.assert_array_equal(data.X, X)
        np.testing.assert_array_equal(data.y, y)
    assert data.feature_names[0].endswith("[t-1]")
    top = load(f"{name}/7", y_scale="max")
    np.testing.assert_array_equal(top.X[1:, 0], top.y[:-1])
    own = load(f"{name}/7", x_scale="minmax", y_scale="none")
    np.testing.assert_array_equal(own.X.max(axis=0), 1)
    np.testing.assert_array_equal(own.y, series[7:])
    assert load(name).X.shape[1] == 5


@real
def test_catalogue_finds_the_real_files():
    paths = {entry.name: entry.path for entry in catalogue(DATA)}
    assert paths["traffic/5"] == paths["temperature/10"] == Path(DATA) / "metro_traffic.csv.gz"
    assert paths["wave_energy"] is None


def test_catalogue(empty):
    entries = {entry.name: entry for entry in catalogue()}
    assert set(entries) == {"stations", *SHAPES}
    assert [name for name, entry in entries.items() if entry.path] == ["stations"]
    with gzip.open(entries["stations"].path) as shipped:
        assert len(shipped.read()) == entries["stations"].size
    assert "commercial use excluded" in entries["air_quality"].note
    assert entries["weather"].source == "UCI 514, doi:10.24432/C59K76"


def wave_lines(rows: int) -> str:
    return "".join(",".join(str(50 * i + j) for j in range(49)) + "\n" for i in range(rows))


def blob(text: str) -> str:
    return hashlib.sha1(f"blob {len(text)}\0{text}".encode(), usedforsecurity=False).hexdigest()


@pytest.mark.parametrize("farm", ["adelaide", "perth"])
def test_wave_energy(tmp_path, farm):
    text = wave_lines(12)
    (tmp_path / f"{farm.title()}_Data.csv.gz").write_bytes(gzip.compress(text.encode()))
    options = {"data_dir": tmp_path, "sha1": blob(text), "farm": farm}
    data = load("wave", rows=10, x_scale="none", y_scale="none", **options)
    assert data.X.shape == (10, 48)
    assert data.y[:2].tolist() == [48, 98]
    assert data.feature_names[15:17] == ("X16", "Y1")
    assert data.feature_names[-1] == "P16"
    assert len(load("wave", rows=9, **{**options, "sha1": blob(text).upper()}).y) == 9
    assert load("wave_energy", rows=12, **options).y.tolist() == pytest.approx(np.linspace(0, 1, 12))
    with pytest.raises(DataError, match="12 usable rows, 9500 are asked for; pass rows=12"):
        load("wave", **options)
    with pytest.raises(DataError, match=f"git blob sha1 is {blob(text)}, expected {WAVE_DIGESTS[farm]}; "):
        load("wave", data_dir=tmp_path, farm=farm)


@pytest.mark.parametrize(
    "text", ["1,2\n3,4\n", wave_lines(2)[:-4] + "\n", wave_lines(2)[:-3] + "x\n", wave_lines(2)[:-3] + "\n"]
)
def test_wave_energy_of_another_form(tmp_path, text):
    (tmp_path / "Adelaide_Data.csv").write_text(text)
    with pytest.raises(DataError, match="not lines of 49 numbers"):
        load("wave", data_dir=tmp_path, sha1=blob(text), rows=2)


@pytest.mark.parametrize(
    ("name", "options", "parts"),
    [
        ("wether", {}, ["'wether' is unknown", "did you mean 'weather'?", "traffic/5"]),
        ("traffic/x", {}, ["unknown", "did you mean 'traffic/5'?"]),
        ("traffic/0", {}, ["p is 0"]),
        ("stations", {}, ["use load_stations()"]),
        ("air", {"x_scale": "minimax"}, ["did you mean 'minmax'?", "default"]),
        ("air", {"y_scale": "standard"}, ["y scale is 'standard'"]),
        ("air", {"sha1": "00"}, ["'wave_energy' only"]),
        ("air", {"farm": "perth"}, ["'wave_energy' only"]),
        ("wave", {"farm": "hobart"}, ["adelaide, perth, sydney, tasmania"]),
    ],
)
def test_wrong_arguments(empty, name, options, parts):
    with pytest.raises(InputError) as caught:
        load(name, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert [part for part in parts if part not in message] == []


def test_a_missing_file_says_where_it_was_looked_for(empty, tmp_path, monkeypatch):
    monkeypatch.setenv("DOMKL_DATA", str(tmp_path / "shared"))
    with pytest.raises(DataError) as caught:
        load("conductivity")
    for part in (
        "superconductivity_train.csv[.gz] or superconductivity.csv[.gz]",
        str(tmp_path / "shared"),
        str(empty),
        "domkl data fetch conductivity",
        "DOMKL_DATA",
    ):
        assert part in str(caught.value)


METRO = "holiday,temp,date_time,traffic_volume\n" + "".join(f"None,{280 + i},d,{i * i}\n" for i in range(9))


@pytest.mark.parametrize("name", ["metro_traffic.csv", "Metro_Interstate_Traffic_Volume.csv.gz"])
def test_files_are_found_in_order(empty, tmp_path, monkeypatch, name):
    data = known(monkeypatch, "traffic", METRO)
    pack = gzip.compress if name.endswith(".gz") else bytes
    empty.mkdir()
    (empty / name).write_bytes(pack(data))
    assert load("traffic/2", rows=9, y_scale="none").X.tolist()[0] == [1, 0]
    # $DOMKL_DATA comes before the cache, and a data_dir stands alone.
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / name).write_bytes(pack(b"other"))
    monkeypatch.setenv("DOMKL_DATA", str(shared))
    with pytest.raises(DataError, match="sha256"):
        load("traffic/2", rows=9)
    assert len(load("traffic/2", rows=9, data_dir=empty).y) == 7
    with pytest.raises(DataError, match="9 usable rows, 10 are asked for"):
        load("traffic/2", rows=10, data_dir=empty)


def test_a_damaged_file_is_named_with_both_hashes(empty):
    empty.mkdir()
    (empty / "weather.csv").write_bytes(b"spoilt")
    with pytest.raises(DataError) as caught:
        load("weather")
    for part in (
        str(empty / "weather.csv"),
        hashlib.sha256(b"spoilt").hexdigest(),
        SOURCES["weather"].files[0].digests[0],
        "delete it and run `domkl data fetch weather`",
    ):
        assert part in str(caught.value)


def test_weather_recipe_on_a_small_file(empty, monkeypatch):
    names = ["station", "Date", *(f"f{i}" for i in range(21)), "Next_Tmax", "Next_Tmin"]
    rows = [
        ["1", "d", *["2"] * 21, "3", "4"],
        ["1", "d", *["4"] * 20, "", "3", ""],
        ["1", "d", *["6"] * 21, "3", "8"],
    ]
    rows.append(["", "", *["99"] * 23])
    text = "".join(",".join(row) + "\r\n" for row in [names, *rows])
    empty.mkdir()
    (empty / "weather.csv").write_bytes(known(monkeypatch, "weather", text))
    raw = load("weather", rows=3, x_scale="none", y_scale="none")
    assert raw.X[:, -2:].tolist() == [[2, 2], [4, 4], [6, 6]]
    assert raw.y.tolist() == [4, 6, 8]
    assert np.isfinite(raw.X).all()


@pytest.mark.parametrize("first", [0, 1])
def test_conductivity_takes_both_files_and_the_genuine_first(empty, monkeypatch, first):
    text = "a,b,critical_temp\n1,2,3\n4,5,6\n"
    digest = hashlib.sha256(text.encode()).hexdigest()
    files = tuple(replace(file, digests=(digest,)) for file in SOURCES["conductivity"].files)
    monkeypatch.setitem(SOURCES, "conductivity", replace(SOURCES["conductivity"], files=files))
    empty.mkdir()
    (empty / files[first].name).write_text(text)
    if first == 0:
        (empty / files[1].name).write_text("spoilt, but not looked at")
    assert load("conductivity", rows=2, y_scale="none").y.tolist() == [3, 6]


def test_where_the_cache_is(monkeypatch):
    for name in ("DOMKL_DATA", "DOMKL_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", lambda: Path("home"))
    assert places() == [Path("home/.cache/domkl")]
    monkeypatch.setenv("XDG_CACHE_HOME", "xdg")
    assert cache_dir() == Path("xdg/domkl")
    monkeypatch.setenv("DOMKL_CACHE", "own")
    monkeypatch.setenv("DOMKL_DATA", "shared")
    assert places() == [Path("shared"), Path("own")]
    assert places("here") == [Path("here")]
