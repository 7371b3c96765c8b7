"""What the page shows, beside its plain definition; and that it stays small whatever it is fed."""

from __future__ import annotations

import itertools
import json
import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domkl.base.errors import InputError
from domkl.cli import live
from domkl.lab import experiment, trial
from domkl.learning import explain
from domkl.watch import Feed, RunFeed, feed
from domkl.watch.access import encoded
from domkl.watch.feed import ROLLING, Curve, Past
from domkl.watch.history import POINTS, RANGES


def told(y, y_hat, delay=0, learner="a", into=None):
    """A feed that was told a stream, with labels that come late."""
    found = into or Feed("net")
    for t, guess in enumerate(y_hat):
        found.sample({"learner": learner, "index": t, "round": t, "id": str(t), "y_hat": float(guess)})
        if t >= delay:
            found.truth(learner, str(t - delay), float(y[t - delay]))
    return found


def rolled(misses):
    """A mean of squares that forgets, as `Guesses` has it, root at the end."""
    mean = 0.0
    for n, miss in enumerate(misses, 1):
        mean += max(1 / n, 1 / ROLLING) * (miss**2 - mean)
    return math.sqrt(mean)


def root(misses):
    return math.sqrt(np.mean(np.square(misses)))


@pytest.mark.parametrize("delay", [0, 3])
def test_errors_are_those_of_the_definition(delay):
    rng = np.random.default_rng(0)
    y, y_hat = rng.normal(size=(2, 400))
    row = told(y, y_hat, delay).document(None)["learners"][0]
    judged = range(delay + 1, 400 - delay)  # from the first prediction for which a label was known
    assert row["rmse"] == pytest.approx(rolled([y[t] - y_hat[t] for t in judged]))
    assert row["no_change"] == pytest.approx(rolled([y[t] - y[t - 1 - delay] for t in judged]))
    assert row["mean"] == pytest.approx(rolled([y[t] - y[: t - delay].mean() for t in judged]))


@pytest.mark.parametrize(("rounds", "size"), [(60, 1), (2000, 7), (1000, 1000)])
@pytest.mark.parametrize("delay", [0, 4, 20])
def test_a_simulation_is_shown_as_samples_are(delay, rounds, size):
    """All learners at once by arrays, and one by one; errors are over the last rounds, and nothing else."""
    rng = np.random.default_rng(1)
    y, y_hat = rng.normal(size=(2, 3, rounds))
    run = RunFeed("net", ["a", "b", "c"], [[1], [0, 2], [1]], delay=delay)
    one = Feed("net")
    for j, name in enumerate("abc"):
        told(y[j], y_hat[j], delay, name, one)
    for t in range(0, rounds, size):
        some = slice(t, t + size)
        run.rounds(y_hat[:, some], y[:, some], np.empty((0, 0)), np.full((3, 2), 0.5))
    # A simulation knows labels at once, so its errors hold those of the last `delay` rounds, too.
    judged = range(max(delay + 1, rounds - ROLLING), rounds)
    for j, row in enumerate(run.document(None)["learners"]):
        assert row["rmse"] == pytest.approx(root([y[j, t] - y_hat[j, t] for t in judged]))
        assert row["no_change"] == pytest.approx(root([y[j, t] - y[j, t - 1 - delay] for t in judged]))
        assert row["mean"] == pytest.approx(root([y[j, t] - y[j, : t - delay].mean() for t in judged]))
    detail, other = run.document("b")["detail"], one.document("b")["detail"]
    assert detail["samples"][2][-1] == pytest.approx(other["samples"][2][-1])
    assert detail["samples"][0] == other["samples"][0]
    assert run.records("b", 2)[-1] == {
        "learner": "b",
        "index": rounds - 1,
        "y_hat": y_hat[1, -1],
        "y": y[1, -1],
    }
    assert detail["weights"] == [["0", 0.5], ["1", 0.5]]
    assert detail["errors"][0]


@given(st.integers(1, 3000), st.integers(4, 50))
@settings(max_examples=30)
def test_a_curve_covers_the_whole_run_in_few_points(rounds, most):
    curve = Curve(most)
    for t in range(rounds):
        if curve.is_due(t):
            curve.add((t,))
    points = [t for (t,) in curve.points]
    assert len(points) < most
    assert points[0] == 0
    steps = {b - a for a, b in itertools.pairwise(points)}
    assert len(steps) <= 1
    assert rounds - points[-1] <= max(steps, default=1)


def test_everything_is_bounded():
    found = told(np.zeros(5000), np.zeros(5000), delay=4999)
    for n in range(2 * feed.LEARNERS):
        found.status({"learner": f"x{n}", "state": "ready"})
    for t in range(500):
        found.sample({"learner": "a", "index": t, "y_hat": 0.0, "alarm": True, "surprise": 1e-4})
    shown = found.document("a")
    assert len(shown["learners"]) == feed.LEARNERS
    assert len(shown["detail"]["samples"][0]) == feed.RECENT
    assert len(shown["detail"]["errors"][0] if shown["detail"]["errors"] else []) <= POINTS
    assert len(shown["alarms"]) == feed.ALARMS
    assert shown["learners"][0]["alarms"] == 500
    assert len(found._learners["a"].waiting) <= feed.WAITING


def test_what_is_not_finite_is_null():
    found = told([math.inf, 1e300, math.nan, 3.0], [0.0, -1e300, 0.0, math.nan])
    assert "NaN" not in json.dumps(json.loads(encoded(found.document(None))))


def test_levels_withhold_readings_and_errors():
    def document(publish):
        found = told(np.arange(9.0), np.arange(9.0), into=Feed("net", publish=publish))
        found.sample({"learner": "a", "index": 9, "y_hat": 0.0, "alarm": True})
        found.status(
            {"learner": "a", "state": "ready", "round": 9, "rmse_alone": 2.0, "weights": [["own", 1.0]]}
        )
        found.explain("a", 9, [["u", 1.0, 2.0, "rises"]])
        return found, found.document("a")

    whole, shown = document("full")
    assert set(shown["detail"]) == {"name", "samples", "errors", "weights", "effects"}
    assert (len(shown["alarms"]), len(whole.records("a", 5))) == (1, 5)
    assert whole.document("a", "day")["detail"]["samples"][0] == [*range(10)]
    whole, shown = document("errors")
    assert set(shown["detail"]) == set(whole.document("a", "day")["detail"]) == {"name", "errors", "weights"}
    assert (shown["alarms"], whole.records("a", 5)) == ([], [])
    assert shown["learners"][0]["rmse_alone"] == 2.0
    whole, shown = document("counts")
    assert (set(shown["detail"]), shown["alarms"], whole.records("a", 5)) == ({"name"}, [], [])
    assert set(whole.document("a", "all")["detail"]) == {"name"}
    assert "rmse" not in shown["learners"][0]
    assert shown["learners"][0]["round"] == 9
    with pytest.raises(InputError, match="publish is 'all'"):
        Feed("net", publish="all")


def test_a_label_that_comes_later_marks_its_prediction():
    feed = Feed("net")
    for n in range(3):
        feed.sample({"learner": "a", "index": n, "id": f"k{n}", "y_hat": 1.0})
    feed.sample(
        {"learner": "a", "index": 3, "id": "k1", "y_hat": 1.0, "y": 9.0, "alarm": True, "surprise": 0.0}
    )
    feed.truth("a", "k1", 9.0)
    found = feed.document("a")
    assert found["detail"]["samples"][0] == [0, 1, 2]
    assert found["detail"]["samples"][5:] == [[None, 9.0, None], [None, True, None]]
    assert [(each["index"], each["y"]) for each in found["alarms"]] == [(1, 9.0)]


def test_own_samples_only_are_compared_over_the_same_samples():
    """Before the first label both know nothing, and their huge errors of then must not flatter either."""
    rng = np.random.default_rng(2)
    y, y_hat, alone = 50 + rng.normal(size=(3, 150))
    y_hat[:4] = alone[:4] = 0.0
    found = told(y, y_hat, delay=3)
    late = range(147)  # learnt so far
    errors = [rolled([y[t] - each[t] for t in late]) for each in (y_hat, alone)]
    found.status({"learner": "a", "rmse": errors[0], "rmse_alone": errors[1]})
    shown = found.document(None)["learners"][0]["rmse_alone"]
    assert errors[1] > 3 * shown
    assert shown == pytest.approx(rolled([y[t] - alone[t] for t in late[4:]]), rel=0.02)


def test_bounds_of_a_simulation_hold_nine_tenths_of_the_last_errors():
    rng = np.random.default_rng(3)
    y, y_hat = rng.normal(size=(2, 1, 450))
    run = RunFeed("net", ["a"], [[]], delay=2)
    for t in range(450):
        run.rounds(y_hat[:, [t]], y[:, [t]], np.empty((0, 0)), np.ones((1, 1)))
    _, _, middle, low, high, *_ = run.document("a")["detail"]["samples"]
    known = np.abs(y - y_hat)[0, 449 - 2 - 100 : 449 - 2]  # those whose labels were known before round 449
    wide = np.sort(known)[90]  # the 91st of 100
    assert (low[-1], high[-1]) == pytest.approx((middle[-1] - wide, middle[-1] + wide))


def test_a_simulation_shows_dates_and_which_inputs_matter():
    chosen = experiment.load("three-stations").with_model("auto")
    source = trial.prepare(chosen, 150)
    watching = live.RunWatch(chosen, source)
    watching.feed.document("JFK")  # a browser looks at it
    run = trial.learn(chosen.model, source.split, trial.network("ring", source.split.names), watch=watching)
    watching._due, until = 0.0, time.monotonic() + 20  # it is time to, whenever that would be
    while watching.feed.explained_at(1) != 150 and time.monotonic() < until:
        watching.look()
        time.sleep(0.01)
    found = watching.feed.document("JFK")
    assert found["detail"]["samples"][1] == source.split.times[1].tolist()
    assert found["target"] == "temperature in 6 hours"
    model, singles = run.final.rows, [[i] for i in range(15)]
    effects = explain.effects(*model.as_function(1), source.inputs, singles)
    assert found["detail"]["effects"] == {"round": 150, "inputs": effects.listed(130.0)}
    assert watching.feed.document("EWR")["detail"]["effects"] is None


def test_what_is_not_finite_is_not_listed():
    """A model that has met absurd values tells nothing rather than NaN."""
    for bad in (np.nan, np.inf):
        effect = np.array([bad, 1.0])
        assert explain.Effects(("a", "b"), effect, effect, effect).listed() == []


def test_a_learner_that_only_reports_has_a_curve():
    found = Feed("net", own="a")
    for round in (10, 20, 20, 30):
        found.status(
            {"learner": "b", "state": "ready", "round": round, "rmse": round / 10, "rmse_alone": 9.0}
        )
    assert found.document("b")["detail"]["errors"][:3] == [[10, 20, 30], [1.0, 2.0, 3.0], [9.0, 9.0, 9.0]]


def test_a_curve_of_reports_ends_where_labels_come_and_never_goes_back():
    found = Feed("net")
    for round in (5, 8):
        found.status({"learner": "a", "round": round, "rmse": 2.0})
    found = told(
        np.ones(1), np.zeros(1), into=found
    )  # the first label tells nothing: no guess came before it
    for t in range(1, 9):
        found.sample({"learner": "a", "index": t, "round": t, "y_hat": 0.0})
    for t in (3, 1, 2, 4):
        found.truth("a", t, 1.0)
    rounds, errors, *_ = found.document("a")["detail"]["errors"]
    assert (rounds, errors) == ([3, 3, 3, 4], [1.0] * 4)


def test_a_label_of_an_unknown_prediction_changes_nothing():
    found = Feed("net")
    found.truth("a", 3, 1.0)
    found.sample({"learner": "a", "index": 0, "y_hat": 1.0})
    found.truth("a", 3, 1.0)
    assert found.document(None)["learners"][0]["rmse"] is None


def test_learners_that_are_gone_make_room(monkeypatch):
    monkeypatch.setattr(feed, "LEARNERS", 2)
    shown = Feed("net", own="a")
    for name, age in (("a", 0.0), ("gone", feed.OLD + 1), ("new", 0.0), ("one too many", 0.0)):
        shown.status({"learner": name, "age": age})
    assert [row["name"] for row in shown.document(None)["learners"]] == ["a", "new"]


@pytest.fixture
def clock(monkeypatch):
    """The time of day as the page knows it, which a test sets."""

    class Clock:
        now = 1.8e9

        def __getattr__(self, name):
            return getattr(time, name)

        def time(self):
            return self.now

    found = Clock()
    monkeypatch.setattr(feed, "time", found)
    return found


def lasting(clock, seconds, every, into=None, first=0):
    """A feed that is told a sample every so many seconds, and its label with the next."""
    found = into or Feed("net", own="a")
    for t in range(first, first + int(seconds / every)):
        found.sample({"learner": "a", "index": t, "round": t, "y_hat": 0.0, "time": clock.now, "low": None})
        if t > first:
            found.truth("a", t - 1, float(t - 1))
        clock.now += every
    return found


def test_each_range_has_the_points_of_its_time(clock):
    found = lasting(clock, 10 * 86_400, 20)
    end = 10 * 86_400 // 20
    for name, seconds in RANGES.items():
        shown = found.document("a", name)
        index, times, y_hat, low, _, y, _ = shown["detail"]["samples"]
        first = max(0, end - seconds / 20)
        assert shown["range"] == name
        assert POINTS / 2 <= len(index) <= POINTS
        assert index == sorted(index)
        assert first <= index[0] <= first + 2 * seconds / 20 / POINTS or name == "all"
        assert end - index[-1] < 0.02 * (end - first)
        assert y[:-1] == index[:-1]
        assert {*y_hat, *low} == {0.0, None}
        assert times[-1] == f"2027-01-25T{times[-1][11:]}"
        rounds, errors, *_ = shown["detail"]["errors"]
        assert first <= rounds[0] <= rounds[-1] < end
        assert len(rounds) == len(errors) <= POINTS
    assert found.document("a", "all")["detail"]["samples"][0][0] == 0


def test_a_silence_is_no_point_and_little_is_shown_whole(clock):
    found = lasting(clock, 600, 60)
    clock.now += 7200
    found = lasting(clock, 600, 60, found, first=10)
    index, *_ = found.document("a", "hour")["detail"]["samples"]
    assert index == [*range(10, 20)]
    index, *_, y, _ = found.document("a", "day")["detail"]["samples"]
    assert (index, y) == ([*range(20)], [*map(float, range(9)), None, *map(float, range(10, 19)), None])


def test_a_file_that_is_read_at_once_is_shown_as_a_whole(clock):
    found = lasting(clock, 5, 0.001)
    for name in RANGES:
        assert len(found.document("a", name)["detail"]["samples"][0]) > POINTS / 2


@pytest.mark.parametrize("when", [2**63, 10**400, math.nan, -math.inf, "never", "9999-99-99", "", [1], -1e9])
def test_no_time_that_a_reading_names_breaks_the_ranges(clock, when):
    found = lasting(clock, 600, 60)
    found.sample({"learner": "a", "index": 10, "y_hat": 10**400, "time": when, "y": None})
    clock.now += 60
    found = lasting(clock, 600, 60, found, first=11)
    for name in RANGES:
        shown = json.loads(encoded(found.document("a", name)))["detail"]["samples"]
        assert shown[0] == [*range(21)]
        assert shown[2][10] is None


def test_ranges_outlive_a_clock_that_is_set(clock):
    """Back by ten years, and by an hour on from there: the last hour goes on, and is then over."""
    found = lasting(clock, 600, 60)
    clock.now -= 10 * 365 * 86_400
    found = lasting(clock, 600, 60, found, first=10)
    assert found.document("a", "hour")["detail"]["samples"][0] == [*range(20)]
    clock.now += 4000
    assert found.document("a", "hour")["detail"]["samples"][0] == []
    assert len(found.document("a", "day")["detail"]["samples"][0]) == 20


def test_the_past_goes_on_after_a_restart(clock):
    past, whole = Past(), Feed("net", own="a")
    one = lasting(clock, 86_400, 60, Feed("net", own="a", past=past))
    clock.now = 1.8e9
    lasting(clock, 86_400, 60, whole)
    again = Past()
    again.restore(past.state())
    clock.now += 3600
    two = Feed("net", own="a", past=again)
    two.sample({"learner": "a", "index": 1440, "round": 1440, "y_hat": 0.0})
    whole.sample({"learner": "a", "index": 1440, "round": 1440, "y_hat": 0.0})
    for each in (two, whole):
        each.truth("a", 1439, 1439.0)  # the label of a prediction from before
        each.truth("a", 1440, 1440.0)
    for name in RANGES:
        assert two.document("a", name)["detail"]["samples"] == whole.document("a", name)["detail"]["samples"]
    rows = [each.document("a")["learners"][0]["no_change"] for each in (one, two)]
    assert rows == pytest.approx([2.0, 2.0])  # labels come a minute late; without the past there was none
    assert two.document("a", "all")["detail"]["errors"][0][0] == 2  # the round of the first that was judged


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("predictions", "rows"), np.zeros((4, POINTS, 3))),
        (("predictions", "rows"), np.zeros((4, 10**4, 7))),
        (("predictions", "rows"), np.full((4, POINTS, 7), 1e300)),
        (("predictions", "rows"), np.full((4, POINTS, 7), "x")),
        (("predictions", "times"), np.full((4, POINTS), -1.0)),
        (("predictions", "times"), np.full((4, POINTS), 1e13)),
        (("predictions", "counts"), np.full(4, -1)),
        (("errors", "every"), 0),
        (("errors", "now"), math.nan),
        (("errors", "seen"), 2**60),
        (("guesses", "error"), -1.0),
        (("guesses", "last"), math.inf),
        (("guesses", "labels"), None),
    ],
)
def test_a_past_that_no_learner_can_have_is_refused(place, value):
    state = Past().state()
    state[place[0]][place[1]] = value
    with pytest.raises(InputError, match="take another file"):
        Past().restore(state)


@given(
    st.lists(st.tuples(st.floats(), st.floats(), st.floats(), st.floats(0, 1e150)), max_size=60),
    st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_whatever_is_shown_can_be_saved_and_restored(samples, at_once):
    past = Past()
    found = Feed("net", own="a", past=past)
    for t, (y_hat, y, when, alone) in enumerate(samples):
        found.sample({"learner": "a", "index": t, "y_hat": y_hat, "time": when})
        found.status({"learner": "a", "rmse": alone, "rmse_alone": alone, "round": t})
        if at_once or t % 2:
            found.truth("a", t, y)
    again = Past()
    again.restore(past.state())
    for name in RANGES:
        json.loads(encoded(found.document("a", name)))
