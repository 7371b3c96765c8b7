"""The shipped set: provenance, shapes, and that nothing comes from the future."""

import gzip
import hashlib
import importlib.util
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from domkl.base.errors import InputError
from domkl.datasets import load_stations
from domkl.datasets.stations import (
    COLUMNS,
    START,
    _clock,
    _grid,
    carry_forward,
    feature_names,
    features,
    persistence,
    to_degrees,
)
from domkl.datasets.uci import STATIONS

SCRIPT = Path(__file__).parents[1] / "scripts" / "make_stations.py"


def test_the_file_is_the_one_its_readme_describes():
    text = gzip.decompress(STATIONS.read_bytes())
    readme = (STATIONS.parent / "README.md").read_text(encoding="utf-8")
    assert hashlib.sha256(text).hexdigest() in readme
    assert f"({len(text)} bytes)" in readme
    assert "CC0" in readme
    assert STATIONS.stat().st_size < 250_000
    assert STATIONS.read_bytes()[4:8] == b"\0\0\0\0"  # no time stamp


def test_shapes_and_names():
    split = load_stations()
    assert split.X.shape == (3, 8700, 15)
    assert split.y.shape == persistence().shape == (3, 8700)
    assert (split.names, split.delay, split.left_out) == (("EWR", "JFK", "LGA"), 5, 90)
    assert len(feature_names()) == 15
    assert load_stations(12, lags=()).X.shape == (3, 8718, 12)
    assert load_stations(12, lags=(2,)).X.shape[1] == persistence(12, lags=(2,)).shape[1]


def test_all_features_and_targets_lie_in_the_unit_interval():
    split = load_stations()
    for part in (split.X, split.y):
        assert np.isfinite(part).all()
        assert part.min() >= 0
        assert part.max() <= 1
    assert (split.X.std(axis=(0, 1)) > 0.01).all()


def test_the_first_sample_by_hand():
    # EWR, 2013-01-02 06 UTC (01 local): the file's line for hour 30, and hour 36 as the truth.
    split = load_stations()
    values, _ = _grid()
    temp = values[0, :, 0]
    assert to_degrees(split.X[0, 0, 0]) == pytest.approx(temp[24])
    assert to_degrees(split.y[0, 0]) == pytest.approx(temp[30])
    assert split.X[0, 0, 10] == pytest.approx(0.5 + (temp[24] - temp[0]) / (20 * 24**0.5))
    assert split.X[0, 0, 11] == pytest.approx((1 + np.sin(2 * np.pi / 24)) / 2)
    assert split.X[0, 0, 13] == pytest.approx((1 + np.sin(2 * np.pi / 365)) / 2)


def test_targets_are_later_temperatures_and_persistence_the_present_ones():
    split = load_stations(horizon=5)
    np.testing.assert_array_equal(split.X[:, 5:, 0], split.y[:, :-5])
    np.testing.assert_array_equal(split.X[..., 0], persistence(5))


def test_clock_follows_summer_time():
    hours = START + np.array([1638, 1639, 7349, 7350, 5]).astype("timedelta64[h]")
    sin, cos, day_sin, _ = _clock(hours)
    turn = np.arctan2(2 * sin - 1, 2 * cos - 1) / (2 * np.pi) * 24 % 24
    np.testing.assert_allclose(turn, [1, 3, 1, 1, 0], atol=1e-9)
    assert day_sin[-1] == 0.5


def test_implausible_wind_is_carried_over():
    values, _ = _grid()
    column = list(COLUMNS).index("wind_speed")
    assert np.nanmax(values[..., column]) > 1000
    assert carry_forward(values)[..., column].max() < 50


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"horizon": 0}, "horizon is 0"),
        ({"horizon": 1.5}, "horizon is 1.5"),
        ({"lags": (0,)}, "a lag is 0"),
        ({"horizon": 9000}, "exceed the 8730 hours"),
    ],
)
def test_refusals(options, message):
    with pytest.raises(InputError, match=message):
        load_stations(**options)


CELLS = st.one_of(st.just(np.nan), st.floats(-60, 1100))
RAW = arrays(float, (2, 12, len(COLUMNS)), elements=CELLS)


@settings(max_examples=60)
@given(RAW, RAW, st.integers(0, 11))
def test_the_future_never_changes_the_past(values, other, t):
    hours = START + np.arange(12).astype("timedelta64[h]")
    changed = values.copy()
    changed[:, t + 1 :] = other[:, t + 1 :]
    before, after = (features(v, hours, (1, 3)) for v in (values, changed))
    np.testing.assert_array_equal(before[:, : t + 1], after[:, : t + 1])
    assert np.isfinite(after).all()


@settings(max_examples=60)
@given(RAW)
def test_carry_forward_is_its_naive_twin(values):
    naive = values.copy()
    for c, (low, high, first) in enumerate(COLUMNS.values()):
        for j in range(2):
            last = first
            for t in range(12):
                last = values[j, t, c] if low <= values[j, t, c] <= high else last
                naive[j, t, c] = last
    np.testing.assert_array_equal(carry_forward(values), naive)


def test_learning_pays():
    # Least squares on the first half of the year beats persistence on the second.
    split = load_stations(horizon=6)
    half = split.y.shape[1] // 2
    X = np.concatenate([split.X, np.ones((*split.y.shape, 1))], axis=-1)
    train, test = X[:, :half].reshape(-1, 16), X[:, half:].reshape(-1, 16)
    w = np.linalg.lstsq(train, split.y[:, :half].ravel(), rcond=None)[0]
    truth = split.y[:, half:].ravel()
    now = persistence(6)[:, half:].ravel()
    assert np.mean((test @ w - truth) ** 2) < 0.5 * np.mean((now - truth) ** 2)


def _script():
    if not SCRIPT.exists():
        pytest.skip("scripts/ is not part of the sdist")
    spec = importlib.util.spec_from_file_location("make_stations", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_script_makes_lines_of_rows():
    script = _script()
    row = dict.fromkeys(script.VALUES, "NA") | {"origin": "JFK", "time_hour": "2013-01-01T06:00:00Z"}
    row |= {"temp": "39.02", "wind_speed": "10.357019999999999", "pressure": "1012"}
    text = script.wide({script.key(row): script.values(row)}).decode().splitlines()
    assert text[1] == "6,,,,,,,,,39.02,,,,10.35702,,1012,,,,,,,,,"


def test_script_refuses_another_file(tmp_path, monkeypatch):
    script = _script()
    (tmp_path / "weather.csv").write_text("origin\n")
    monkeypatch.setattr("sys.argv", ["make_stations.py", str(tmp_path / "weather.csv")])
    with pytest.raises(SystemExit, match=r"sha256 is .* expected 5d1ea2548"):
        script.main()
