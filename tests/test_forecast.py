"""Forecasts: nothing of the future, labels at their own time, times and not rows, bounds that hold."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import domkl
from domkl import cli
from domkl.base.errors import InputError
from domkl.learning.forecast import Forecaster
from domkl.learning.horizon import horizon
from domkl.simulator.ahead import AheadRows

AUTO, HOUR = domkl.Auto(size=40), 3600.0


def series(T=240, seed=0, J=1):
    """Hourly readings (J, T) with a day and noise, and an input that helps."""
    rng = np.random.default_rng(seed)
    X, t = rng.uniform(size=(J, T, 1)), np.arange(T)
    return HOUR * t, X, 10 + 5 * np.sin(2 * np.pi * t / 24) + X[..., 0] + 0.3 * rng.standard_normal((J, T))


def run(times, X, y, leads="1h..3h", **options):
    graph = "path" if len(X) > 1 else [[0]]
    return domkl.simulate(X, y, graph, model=AUTO, horizon=leads, times=times, **options)


def test_nothing_comes_from_the_future():
    times, X, y = series(J=2)
    t = 180
    other_X, other_y, later = X.copy(), y.copy(), times.copy()
    other_X[:, t + 1 :] += 7
    other_y[:, t + 1 :] *= -3
    later[t + 1 :] += np.arange(len(times) - t - 1) * 100.0
    one, two = run(times, X, y, levels=(0.9,)), run(later, other_X, other_y, levels=(0.9,))
    np.testing.assert_array_equal(one.y_hat[:, : t + 1], two.y_hat[:, : t + 1])
    np.testing.assert_array_equal(one.ahead.bounds[0.9][0][:, : t + 1], two.ahead.bounds[0.9][0][:, : t + 1])
    np.testing.assert_array_equal(one.ahead.naive[:, : t + 1], two.ahead.naive[:, : t + 1])
    assert (one.y_hat[:, t + 1 :] != two.y_hat[:, t + 1 :]).all()


def test_labels_are_those_of_the_time_that_was_forecast():
    times, X, y = series(60)
    found = run(times, X, y).ahead
    for h in range(3):
        np.testing.assert_array_equal(found.y[0, : -h - 1, h], y[0, h + 1 :])
        assert np.isnan(found.y[0, -h - 1 :, h]).all()


def test_a_label_is_learnt_before_its_hour_forecasts():
    """A reading that changes everything is known to the forecast made from it."""
    devices = AheadRows(AUTO, horizon("1h"), 1)
    for hour in range(50):
        devices.observe([HOUR * hour], [[0.0]], [float(hour % 2)])
    learnt = devices.n
    devices.observe([HOUR * 50], [[0.0]], [0.0])
    assert devices.n == learnt + 1


def test_forecasts_beat_simple_guesses_of_a_series_with_an_input():
    times, X, y = series(500, J=2)
    y[:, 1:] += 2 * X[:, :-1, 0]  # what is measured now tells of the next hour
    found = run(times, X, y, "1h")
    late = [found.y_hat[:, 300:, 0], *np.moveaxis(found.ahead.naive[:, 300:, 0], -1, 0)]
    ours, *guesses = (np.nanmean((each - found.ahead.y[:, 300:, 0]) ** 2) for each in late)
    assert ours < 0.8 * min(guesses)


def test_gaps_and_other_times_do_not_shift_lags():
    """A fifth of the rows is missing: errors stay those of a whole series, since times count."""
    times, X, y = series(600)
    kept = np.random.default_rng(1).uniform(size=600) > 0.2
    whole, gaps = run(times, X, y, "6h"), run(times[kept], X[:, kept], y[:, kept], "6h")
    errors = [float(each.ahead.errors(each.y_hat)[0, 0]) for each in (whole, gaps)]
    assert errors[1] < 1.3 * errors[0]


def test_rows_without_times_find_their_season():
    rng, t = np.random.default_rng(0), np.arange(1100)
    device = Forecaster(horizon("5 rows"), 0)
    for y in 4 * (t % 17 > 8) + 0.2 * rng.standard_normal(1100):
        device.observe(0.0, float(y))
        device.expect(device.look(np.empty(0)), np.zeros(1))
    assert device.season == 17
    seen = device.look(np.empty(0)).naive[0]
    assert abs(seen[1] - 4 * ((1099 + 5) % 17 > 8)) < 1


def test_bounds_hold_what_they_should_in_each_state():
    """Closed at night: the noise is a tenth. Bounds are near 0 then, and never below."""
    rng, t = np.random.default_rng(0), np.arange(24 * 60)
    is_open = (t % 24 >= 8) & (t % 24 < 20)
    y = np.where(is_open, rng.gamma(4, 10, len(t)), 0.0)
    found = run(HOUR * t, np.zeros((1, len(t), 0)), y[None], "1h,6h", levels=(0.8,))
    for level, (low, high) in found.ahead.bounds.items():
        assert (low[np.isfinite(low)] >= -1e-9)[-1000:].all()
        for h, lead in enumerate((1, 6)):
            inside = ((low <= found.ahead.y) & (found.ahead.y <= high))[0, 500:-6, h]
            state = is_open[500 + lead : len(t) - 6 + lead]
            assert abs(inside[state].mean() - level) < 0.05
            width = (high - low)[0, 500:-6, h]
            assert width[~state].mean() < 0.3 * width[state].mean()


def test_bounds_follow_a_state_that_an_input_tells():
    """While a machine runs there is six times as much noise."""
    rng, t = np.random.default_rng(0), np.arange(1500)
    runs = np.cumsum(rng.uniform(size=len(t)) < 1 / 40) % 2 == 1
    y = 50 + 10 * np.sin(2 * np.pi * t / 24) + np.where(runs, 6, 1) * rng.standard_normal(len(t))
    found = run(HOUR * t, runs[None, :, None].astype(float), y[None], "1h", levels=(0.9,)).ahead
    low, high = found.bounds[0.9]
    inside = ((low <= found.y) & (found.y <= high))[0, 500:-1, 0]
    for state in (False, True):
        assert abs(inside[runs[500:-1] == state].mean() - 0.9) < 0.05


def test_absurd_readings_are_none_and_a_level_that_moved_is_soon_learnt():
    times, X, y = series(300)
    spoilt, gone, moved = y.copy(), y.copy(), y.copy()
    spoilt[0, 200:202], gone[0, 200:202] = (1e9, -1e9), np.nan
    found = run(times, X, spoilt)
    np.testing.assert_array_equal(found.y_hat, run(times, X, gone).y_hat)
    assert found.ahead.rows.devices[0].doubt.absurd == 2
    moved[0, 200:] += 20_000
    late = run(times, X, moved, "1h").y_hat[0, 210:, 0]
    assert abs(late - moved[0, 210:]).mean() < 1000


def test_a_limit_is_kept_and_only_found_where_it_is_one():
    times, X, y = series(200)
    stated = run(times, X, y - 10, "1h", least=0.0, most=3.0).y_hat
    assert 0 <= stated.min() <= stated.max() <= 3
    device = Forecaster(horizon("1h"), 0)
    for hour in range(300):
        device.observe(HOUR * hour, 40.0 + hour % 5)
    assert device.bounds() == (-np.inf, np.inf)


def test_what_is_known_ahead_is_seen():
    times, X, y = series(420)
    promotion = np.repeat(np.random.default_rng(3).uniform(size=(1, 60)) < 0.3, 7, axis=1).astype(float)
    X, y = np.concatenate([X, promotion[..., None]], -1), y + 8 * promotion
    blind, told = run(times, X, y, "12h"), run(times, X, y, "12h", future=(1,))
    errors = [float(np.nanmean((each.y_hat - each.ahead.y)[0, 300:] ** 2)) for each in (blind, told)]
    assert errors[1] < 0.5 * errors[0]


@pytest.mark.parametrize("graph", [None, "path"])
def test_a_saved_model_goes_on_with_the_same_bits(tmp_path, graph):
    times, X, y = series(120, J=2)
    one = domkl.DOMKL(graph, horizon="1h..3h", model=AUTO)
    rows = slice(None) if graph else 0
    for t in range(100):
        one.learn(X[rows, t], y[rows, t], time=times[t])
    one.save(tmp_path / "m.domkl")
    other = domkl.DOMKL.load(tmp_path / "m.domkl")
    assert repr(one) == repr(other)
    np.testing.assert_array_equal(one.predict(), other.predict())
    for t in range(100, 120):
        for model in (one, other):
            model.learn(X[rows, t], y[rows, t], time=times[t])
        np.testing.assert_array_equal(one.predict(), other.predict())
    for level, found in one.interval(level=[50, 80]).items():
        np.testing.assert_array_equal(found, other.interval(level=level))


def test_a_device_has_the_bits_of_the_simulator():
    times, X, y = series(150)
    model, found = domkl.DOMKL(horizon="1h..3h", model=AUTO), []
    for t in range(150):
        model.learn(X[0, t], y[0, t], time=times[t])
        found.append(model.predict())
    np.testing.assert_array_equal(run(times, X, y).y_hat[0], found)


def test_readings_without_a_target_and_late_ones():
    times, X, y = series(200)
    y[0, 50:60] = np.nan
    assert np.isfinite(run(times, X, y).y_hat).all()
    model = domkl.DOMKL(horizon="1h", model=AUTO)
    model.learn([1.0], 2.0, time=100.0)
    with pytest.raises(InputError, match="of time 50; expected one after 100"):
        model.learn([1.0], 2.0, time=50.0)


def test_what_waits_is_bounded_where_readings_are_fast():
    device = Forecaster(horizon("1h"), 0)
    for i in range(8000, 10000):
        device.observe(0.5 * i, float(i % 7))
        device.expect(device.look(np.empty(0)), np.zeros(1))
    assert len(device.waiting) < 520


@pytest.mark.parametrize(
    ("given", "leads", "rows"),
    [
        ("1h", [3600], False),
        ("24 rows", [24], True),
        (24, [24], True),
        (["1h", "30 min"], [1800, 3600], False),
        ("1h..3h", [3600, 7200, 10800], False),
        ("1h..1d by 6h", [3600, 25200, 46800, 68400], False),
    ],
)
def test_horizons_as_people_write_them(given, leads, rows):
    assert (list(horizon(given).leads), horizon(given).rows) == (leads, rows)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("soon", "horizon is 'soon'; expected a time"),
        ("1h,2", "all in times or all in rows"),
        ("0h", "horizon is '0h'"),
        ("5h..1h", "ends before it begins"),
        ("1s..1w", "604,800 leads; expected 336 at most"),
    ],
)
def test_other_horizons_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        horizon(given)


def test_wrong_use_is_refused():
    times, X, y = series(60)
    with pytest.raises(InputError, match="no times are given"):
        run(None, X, y)
    with pytest.raises(InputError, match="times is given without a horizon"):
        domkl.simulate(X, y, [[0]], times=times)
    with pytest.raises(InputError, match="not Auto"):
        domkl.simulate(X, y, [[0]], model=domkl.Paper(rates=domkl.Rates(1, 1, 1)), horizon="1h", times=times)
    with pytest.raises(InputError, match="future, least and most"):
        domkl.DOMKL(least=0)
    with pytest.raises(InputError, match="no time; expected"):
        domkl.DOMKL(horizon="1h").learn([1.0], 2.0)


def test_a_raw_file_becomes_its_next_hours_with_bounds(tmp_path, capsys):
    """Rows after the last target tell what is known ahead."""
    _, X, y = series(72)
    days = [f"2024-05-{1 + t // 24:02} {t % 24:02}:00" for t in range(75)]
    lines = [
        f"{when},{X[0, t, 0] if t < 72 else 0.5},{y[0, t] if t < 72 else ''}" for t, when in enumerate(days)
    ]
    (tmp_path / "shop.csv").write_text("\n".join(["time,promotion,demand", *lines]))
    options = ["--target", "demand", "--horizon", "1h..3h", "--future", "promotion", "--size", "40"]
    assert cli.main(["predict", str(tmp_path / "shop.csv"), *options]) == 0
    heads, *rows = capsys.readouterr().out.splitlines()
    assert heads == "lead,time,y_hat,low,high"
    assert [row.split(",")[:2] for row in rows] == [
        [f"{h + 1}h", f"2024-05-04T0{h}:00:00Z"] for h in range(3)
    ]
    assert all(low < y_hat < high for y_hat, low, high in (map(float, row.split(",")[2:]) for row in rows))
    assert (
        cli.main(
            ["run", "--data", str(tmp_path / "shop.csv"), *options, "--out", str(tmp_path / "r"), "--json"]
        )
        == 0
    )
    capsys.readouterr()
    assert cli.main(["predict", str(tmp_path / "r" / "model.domkl")]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == rows
    page = (tmp_path / "r" / "index.html").read_text()
    shown = json.loads(re.search(r"const shown = (.*);", page)[1])["learners"][0]["columns"]
    assert shown[1][-3:] == [None] * 3  # beyond now there are forecasts alone
    np.testing.assert_allclose(shown[2][-3:], [float(row.split(",")[2]) for row in rows], rtol=1e-3)
    assert all(f'<th scope="row" class="left">{h}h</th>' in page for h in (1, 2, 3))


def demand(tmp_path, T=600):
    """Hourly demand by store and promotion, which has a level of its own for hours that no input tells."""
    rng, rows = np.random.default_rng(0), ["time,store,promotion,demand"]
    level = 0.0
    for t in range(T):
        level = 0.9 * level + 4 * rng.standard_normal()
        y = 60 + 20 * np.sin(2 * np.pi * t / 24) + level + 0.5 * rng.standard_normal()
        store, promotion = "AB"[int(rng.integers(2))], int(rng.uniform() < 0.5)
        rows.append(
            f"2024-{4 + t // 720:02}-{1 + t // 24 % 30:02} {t % 24:02}:00,{store},{promotion},{y:.3f}"
        )
    (tmp_path / "shop.csv").write_text("\n".join(rows))
    return str(tmp_path / "shop.csv")


def test_what_matters_to_a_forecast_is_what_swapping_really_does(tmp_path, capsys):
    """Past values are one input, the calendar another; others' moments are put in their place one by one."""
    out = str(tmp_path / "r")
    given = ["--data", demand(tmp_path), "--target", "demand", "--horizon", "1h,6h", "--size", "40"]
    assert cli.main(["run", *given, "--out", out, "--json"]) == 0
    capsys.readouterr()
    assert cli.main(["explain", f"{out}/model.domkl", "--lead", "6h", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    told = {row["input"]: row["effect"] for row in found["inputs"]}
    assert found["lead"] == "6h"
    assert set(told) == {"past values of demand", "calendar", "store", "promotion"}
    model = domkl.DOMKL.load(f"{out}/model.domkl")
    forecast, rows, last = model.rows.as_function(0, 1)
    rng = np.random.default_rng(7)
    here, other = (rows[rng.integers(len(rows), size=4000)] for _ in range(2))
    now = dict(zip(*model.about.groups(model.d), strict=True))["time"]
    for name, place in (("past values of demand", [len(last) - 2]), ("calendar", [*now, len(last) - 1])):
        swapped = here.copy()
        swapped[:, place] = other[:, place]
        assert told[name] == pytest.approx(
            np.sqrt(np.mean((forecast(swapped) - forecast(here)) ** 2)), rel=0.2
        )
    assert max(told["store"], told["promotion"]) < 0.2 * max(told["past values of demand"], told["calendar"])
    row = found["rows"][0]
    assert row["y_hat"] == pytest.approx(model.predict()[1], abs=1e-6)
    assert row["base"] + sum(each["contribution"] for each in row["inputs"]) == pytest.approx(row["y_hat"])
    assert "past values of demand" in (tmp_path / "r" / "index.html").read_text()
    assert cli.main(["explain", f"{out}/model.domkl"]) == 0
    assert "demand 1h ahead" in " ".join(capsys.readouterr().out.split())
    for wrong, words in (
        (["--lead", "2h"], "--lead is '2h'; expected one of 1h, 6h"),
        (["--data", "x"], "--data is given"),
    ):
        assert cli.main(["explain", f"{out}/model.domkl", *wrong]) == 2
        assert words in capsys.readouterr().err


def test_an_experiments_own_series_is_forecast_and_compared(tmp_path, capsys):
    demand(tmp_path, 60)
    (tmp_path / "mine.toml").write_text(
        '[data]\npath = "shop.csv"\n[columns]\ntarget = "demand"\n[model]\nsize = 40\n'
    )
    mine = [str(tmp_path / "mine.toml"), "--horizon", "1h", "--rounds", "40", "--json"]
    assert cli.main(["run", *mine, "--no-report"]) == 0
    run = json.loads(capsys.readouterr().out)
    assert (run["target"], run["rounds"], run["leads"][0]["lead"]) == ("demand", 40, "1h")
    assert cli.main(["compare", *mine]) == 0
    compared = json.loads(capsys.readouterr().out)
    assert (compared["target"], compared["rounds"], compared["leads"]) == ("demand", 40, ["1h"])


@pytest.mark.parametrize(
    "option", [["--live"], ["--alarm-rate", "0.1"], ["--learners", "2"], ["--save", "m"]]
)
def test_what_means_nothing_with_a_horizon_is_refused(option, capsys):
    assert cli.main(["run", "--horizon", "1h,2h", *option]) == 2
    assert f"{option[0]} is given with --horizon" in capsys.readouterr().err


def test_a_name_that_a_spreadsheet_would_compute_is_inert_in_a_forecast(tmp_path, capsys):
    lines = [f"2024-05-01 {t:02}:00,{site},{t % 5}" for t in range(20) for site in ("=HYPERLINK(1)", "b")]
    (tmp_path / "s.csv").write_text("\n".join(["time,site,y", *lines]))
    given = ["--target", "y", "--learner-column", "site", "--horizon", "1h", "--size", "40"]
    assert cli.main(["predict", str(tmp_path / "s.csv"), *given]) == 0
    assert "\n'=HYPERLINK(1)," in capsys.readouterr().out


def test_leads_that_are_longer_than_the_data_are_named(tmp_path, capsys):
    path = tmp_path / "short.csv"
    path.write_text("time,a,y\n" + "".join(f"2024-01-01T{t:02d}:00:00,{t % 5},{t % 7}\n" for t in range(24)))
    given = ["--data", str(path), "--target", "y", "--no-report", "--horizon"]
    assert cli.main(["run", *given, "23h,24h,1000h"]) == 0
    assert "no two readings are 24h, 1000h apart" in " ".join(capsys.readouterr().out.split())
    for far in ("24 rows", "24h,1000h", f"{2**63 - 1}h"):
        assert cli.main(["run", *given, far]) == 2
        assert "choose a shorter --horizon" in capsys.readouterr().err
