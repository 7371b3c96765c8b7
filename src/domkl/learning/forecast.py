"""Forecasts of a series: what is known now of its values to come, and what to learn once these are known.

    horizon -> Past, Profile, calendar -> inputs of a model, and a small ridge for each lead (`Ridges`)
    model -> what the ridges leave -> forecast of each lead, with bounds (`Spread`)
    a reading -> labels of the forecasts made for this time -> ridges, mixer and spread at once, the model as
    soon as all leads of a row are known

Pure: times come with the readings, as seconds. Nothing of a reading is used before it is there.
"""

from __future__ import annotations

import copy
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..base import checks
from ..base.errors import InputError
from ..base.types import Array
from .auto.mixer import Mixer
from .conformal import FADING, KEPT, weighted_quantile
from .doubt import Doubt
from .fields import LARGEST, Concept, field
from .horizon import Horizon
from .ridges import Ridges

HOUR, DAY, WEEK = 3600.0, 86400.0, 604800.0
#: Before all readings.
NEVER = -1e15
#: So many past values are kept for seasonal lags: a week of readings every five minutes.
KEPT_VALUES, APART = 2048, 299.0
#: Short lags come from a value that is not older than so many intervals.
FRESH = 3.0
#: Values that tell how large errors may be.
EARLY = 12
#: A target is absurd if it lies farther beyond all before than so many of their widths.
FAR = 5.0
#: Forecasts that wait for labels, at most; where readings come faster, some are not learnt from.
WAITING = 512
#: Rows that tell a season where there are no time stamps, and the longest season.
ENOUGH, LONGEST = 1000, 400
#: Columns of a lead: calendar, three seasonal lags, profile.
SEASONAL = 8


class Past(Concept):
    """The last readings of a target in order of time, `apart` or more from each other.

    >>> past = Past(4)
    >>> for hour, y in enumerate([5.0, 6.0, 7.0]):
    ...     past.add(hour, y)
    >>> past.nearest(np.array([0.9, 5.0]), reach=0.5).tolist(), past.latest(np.array([0.9]), reach=1).tolist()
    ([6.0, nan], [5.0])
    """

    times: Array = field("n", first=NEVER)
    values: Array = field("n")

    def __init__(self, size: int, apart: float = 0.0) -> None:
        self.apart = apart
        self.allocate(np.float64, n=size)

    def add(self, time: float, y: float) -> None:
        """A reading, later than all before."""
        if time - self.times[-1] >= self.apart:
            for kept, new in ((self.times, time), (self.values, y)):
                kept[:-1] = kept[1:]
                kept[-1] = new

    def nearest(self, when: Array, reach: float) -> Array:
        """The values nearest to some times, NaN where none is within `reach`."""
        after = np.minimum(np.searchsorted(self.times, when), len(self.times) - 1)
        before = np.maximum(after - 1, 0)
        far, near = np.abs(self.times[after] - when), np.abs(self.times[before] - when)
        found = np.where(far < near, self.values[after], self.values[before])
        return np.where(np.minimum(far, near) <= reach, found, np.nan)

    def latest(self, when: Array, reach: float) -> Array:
        """The last values at or before some times, NaN where they are older than `reach`."""
        at = np.searchsorted(self.times, when, "right") - 1
        return np.where((at >= 0) & (when - self.times[at] <= reach), self.values[at], np.nan)


class Profile(Concept):
    """Running mean of the target for each hour of the week, or each row of a season that was found.

    Where an hour of the week is new, the mean of this hour on other days stands in.
    """

    STEP = 0.15

    means: Array = field("n")
    seen: Array = field("n", low=0.0)

    def __init__(self) -> None:
        self.allocate(np.float64, n=168)

    def add(self, phase: float, y: float) -> None:
        """A value at a phase of the week, in [0, 1)."""
        i = int(hour_of(np.array(phase)))
        self.seen[i] += 1
        self.means[i] += (y - self.means[i]) * max(self.STEP, 1 / self.seen[i])

    def at(self, phases: Array) -> Array:
        """Means at some phases, NaN where none is known."""
        i = hour_of(phases)
        if self.seen[i].all():
            return self.means[i]
        known = self.seen.reshape(7, 24) > 0
        days = known.sum(0)
        hourly = np.where(days > 0, (self.means.reshape(7, 24) * known).sum(0) / np.maximum(days, 1), np.nan)
        return np.where(self.seen[i] > 0, self.means[i], hourly[i % 24])


def hour_of(phases: Array) -> npt.NDArray[np.intp]:
    """The hour of the week of phases in [0, 1); one that is short of a full hour by rounding is that hour."""
    return np.asarray((phases * 168 + 1e-6).astype(int) % 168)


class Share(Concept):
    """How much of what the model adds to the ridges is believed, at each lead.

    w = sum f (y - r) / sum f^2 within [0, 1], over about `fade` labels: with r what the ridges say and f what
    the model adds, it is the least squares' answer.
    """

    FADE = 500.0

    both: Array = field("H")
    own: Array = field("H", low=0.0)

    def __init__(self, H: int) -> None:
        self.allocate(np.float64, H=H)

    @property
    def weights(self) -> Array:
        """1 as long as nothing is known. (H,)"""
        return np.clip(np.where(self.own > 0, self.both / np.where(self.own > 0, self.own, 1), 1), 0, 1)

    def learn(self, ridge: Array, rest: Array, y: Array) -> None:
        """What both said of labels (H,), NaN where a lead has none."""
        known = np.isfinite(y)
        keep = np.where(known, 1 - 1 / self.FADE, 1)
        self.both = keep * self.both + np.where(known, rest * (y - ridge), 0)
        self.own = keep * self.own + np.where(known, rest**2, 0)


class Spread(Concept):
    """How large errors are now, at each lead, and which part of that the bounds need.

    Two estimates run beside each other: the mean |error| of the hour of the week (towards that of the hour of
    the day, and of all hours, while there are few), and a ridge of log |error| on the calendar, on what is
    forecast and on the d inputs. That with the better running score log s + |e| / s counts. Bounds are the
    weighted quantile of the last |e| / s times s, as in `learning.conformal`. Forecasts that overlap err
    alike, so that there are fewer errors than it seems: the error that is not known yet, which counts as
    infinite, weighs `ALIKE` more for each of the others.
    """

    SHRINK = 1.0
    FLOOR = 0.01  # the least scale, in mean errors
    COLUMNS = 8
    ALIKE = 0.1

    week: Array = field("H 168", low=0.0)
    day: Array = field("H 24", low=0.0)
    whole: Array = field("H", low=0.0)
    week_n: Array = field("H 168", low=0.0)
    day_n: Array = field("H 24", low=0.0)
    n: Array = field("H", low=0.0)
    score: Array = field("H 2")
    told: Array = field("H", low=0.0)  # ratios noted
    ratios: Array = field(f"H 2 {KEPT}", low=0.0)  # the newest last

    def __init__(self, H: int, d: int) -> None:
        self.allocate(np.float64, H=H)
        self.logs = Ridges(H, self.COLUMNS + d, fade=500.0)

    def scales(self, phases: Array, columns: Array) -> Array:
        """Both estimates, at the phases of the week (H,) of the leads. (H, 2)"""
        h, i = np.arange(len(phases)), hour_of(phases)
        day = self._towards(self.day[h, i % 24], self.day_n[h, i % 24], self.whole)
        hourly = np.maximum(self._towards(self.week[h, i], self.week_n[h, i], day), self.FLOOR * self.whole)
        logs = self.logs.predict(columns) + np.log(np.maximum(self.whole, 1e-300))
        top = np.log(np.maximum(self.whole, 1e-300))
        model = np.exp(np.clip(logs, top - 4, top + 2))
        return np.asarray(np.maximum(np.stack([hourly, model], -1), 1e-12))

    def _towards(self, mean: Array, n: Array, other: Array) -> Array:
        """A mean of n errors, drawn towards another by the weight of `SHRINK` errors, as logarithms."""
        least = np.maximum(0.1 * self.FLOOR * self.whole, 1e-300)
        logs = n * np.log(np.maximum(mean, least)) + self.SHRINK * np.log(np.maximum(other, least))
        return np.asarray(np.exp(logs / (n + self.SHRINK)))

    def learn(self, phases: Array, columns: Array, scales: Array, errors: Array) -> None:
        """Errors (H,) of forecasts for which `scales` gave this, NaN where a lead has none."""
        h = np.flatnonzero(np.isfinite(errors))
        e, i = np.abs(errors[h]), hour_of(phases[h])
        s = scales[h]
        score = np.log(s / np.maximum(self.whole[h, None], 1e-300)) + np.minimum(e[:, None] / s, 20)
        self.score[h] += np.where(self.n[h] > EARLY, 0.01, 0)[:, None] * (score - self.score[h])
        # Where the target hardly moves, as in closed hours, any bounds hold: that says nothing of others.
        told = (self.n[h] > 1) & (s[:, 0] > 2 * self.FLOOR * self.whole[h])
        rows = h[told]
        self.ratios[rows, :, :-1] = self.ratios[rows, :, 1:]
        self.ratios[rows, :, -1] = e[told, None] / s[told]
        self.told[rows] += 1
        logs = np.full(len(errors), np.nan)
        logs[h] = np.log(np.maximum(e, 0.01 * self.whole[h]) + 1e-300) - np.log(
            np.maximum(self.whole[h], 1e-300)
        )
        logs[h[self.n[h] < 2]] = np.nan
        self.logs.learn(columns, logs)
        places = ((self.n, self.whole, h, 300), (self.day_n, self.day, (h, i % 24), 40))
        for counts, means, at, most in (*places, (self.week_n, self.week, (h, i), 12)):
            counts[at] += 1
            means[at] += (e - means[at]) / np.minimum(counts[at], most)

    def widths(self, scales: Array, coverage: float, overlap: Array) -> Array:
        """Half-width for scales (H, 2), infinite where few errors are known. (H,)"""
        best = np.argmin(self.score, -1)
        found = np.empty(len(scales))
        for h, way in enumerate(best):
            known = int(min(self.told[h], KEPT))
            ages = np.arange(known - 1, -1, -1)
            ratios = self.ratios[h, way, KEPT - known :]
            unknown = 1 + self.ALIKE * (overlap[h] - 1)
            weights = FADING ** ages.astype(np.float64)
            found[h] = weighted_quantile(ratios, weights, coverage, unknown) * scales[h, way]
        return found

    def state(self) -> dict[str, Any]:
        """All arrays."""
        return {**super().state(), "logs": self.logs.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Inverse of `state`."""
        super().restore(state)
        self.logs.restore(state["logs"])


class Scores(Concept):
    """Mean squared errors of forecasts and of simple guesses, at each lead, over about `OVER` labels."""

    OVER = 500

    n: Array = field("H", low=0.0)
    own: Array = field("H", low=0.0)
    naive: Array = field("H 4", low=0.0)

    def __init__(self, H: int) -> None:
        self.allocate(np.float64, H=H)

    def learn(self, y_hat: Array, naive: Array, y: Array) -> None:
        """What was forecast of labels (H,), NaN where a lead has none."""
        h = np.flatnonzero(np.isfinite(y))
        self.n[h] += 1
        share = 1 / np.minimum(self.n[h], self.OVER)
        self.own[h] += share * ((y_hat - y)[h] ** 2 - self.own[h])
        self.naive[h] += share[:, None] * ((naive - y[:, None])[h] ** 2 - self.naive[h])

    def roots(self) -> tuple[Array, Array]:
        """Typical errors of forecasts and of the best simple guess, NaN where no label is known. (H,) each"""
        known = self.n > 0
        return tuple(np.where(known, np.sqrt(each), np.nan) for each in (self.own, self.naive.min(-1)))  # type: ignore[return-value]


class Seen(Concept):
    """What a device has seen of its target."""

    now: Array = field("", first=NEVER)  # time of the last reading
    season: Array = field("", low=0.0)  # in rows, where there are no times; 0 while it is not known
    n: Array = field("", low=0.0)
    mean: Array = field("")
    variance: Array = field("", low=0.0)
    floor: Array = field("", first=LARGEST)  # the least value, and how often it was there
    often: Array = field("", low=0.0)
    top: Array = field("", first=-LARGEST)
    unit: Array = field("", low=0.0)  # the variance once it was known: errors are compared in it

    def __init__(self) -> None:
        self.allocate(np.float64)

    def beyond(self, y: float) -> tuple[float, float]:
        """How far a value lies beyond all before, and their width."""
        return max(y - float(self.top), float(self.floor) - y), float(self.top - self.floor)

    def add(self, y: float) -> None:
        """A value of the target."""
        self.n = self.n + 1
        self.mean = self.mean + (y - self.mean) / self.n
        self.variance = self.variance + ((y - self.mean) ** 2 - self.variance) / self.n
        if y < self.floor:
            self.floor, self.often = np.array(y), np.array(0.0)
        self.often = self.often + (y == self.floor)
        self.top = np.maximum(self.top, y)
        if not self.unit and self.n >= EARLY:
            self.unit = self.variance

    def range(self) -> tuple[float, float]:
        """What the target may be before long: as far beyond all values as a quarter of their width."""
        if not self.n:
            return -LARGEST, LARGEST
        more = 0.25 * (self.top - self.floor)
        return float(self.floor - more), float(self.top + more)

    @property
    def has_floor(self) -> bool:
        """Whether 0 is the least of all values, and was there often enough to be a limit."""
        return float(self.floor) == 0 and float(self.often) >= max(5.0, 0.01 * float(self.n))


class Origin(NamedTuple):
    """A time from which was forecast: what was known then, and the labels that have come since."""

    time: float  # seconds, or readings where leads are rows
    inputs: Array  # (D,) of the model
    columns: Array  # (H, c) of the ridges
    phases: Array  # (H,) of the week, of the times that are forecast
    last: float  # the last value, which the ridges add to
    ridge: Array  # (H,) what they said; the model learns the rest
    naive: Array  # (H, 4) simple guesses
    known: Array  # (H,) labels, NaN where not known
    said: Array  # (H, 2) forecasts without and with the model
    y: Array  # (H,) the forecast
    spread: Array  # (H, 8 + d) what the spread saw
    scales: Array  # (H, 2) what it said
    kept: list[Array]  # what the model needs of its prediction, one row


#: What `Origin.naive` holds.
NAIVE = ("last value", "same time yesterday", "same time last week", "mean of the hour")


class Forecaster:
    """The forecasts of one device: which inputs a model gets, and when it learns.

    Parameters
    ----------
    horizon : the leads: see `domkl.learning.horizon`.
    d : inputs of a reading.
    future : how many of the numbers given as `ahead` are known of each time that is forecast.
    least, most : limits of the target; where it has none, 0 is one once it was the least value of many.

    Examples
    --------
    >>> import numpy as np
    >>> from domkl.learning.forecast import Forecaster
    >>> from domkl.learning.horizon import horizon
    >>> device = Forecaster(horizon("1h..24h"), d=0)
    >>> for hour in range(500):
    ...     rows = device.observe(3600.0 * hour, hour % 24)   # rows whose labels are all known
    ...     origin = device.look(np.empty(0))                 # origin.inputs are for a model
    ...     y = device.expect(origin, np.zeros(24))           # here without one
    >>> bool(np.abs(y[:3] - [20, 21, 22]).max() < 1), len(rows), rows[0].known[:3].tolist()
    (True, 1, [20.0, 21.0, 22.0])
    """

    def __init__(
        self,
        horizon: Horizon,
        d: int,
        future: int = 0,
        least: float | None = None,
        most: float | None = None,
    ) -> None:
        self.horizon, self.d, self.future = horizon, d, future
        self.leads, self.H = np.array(horizon.leads), len(horizon.leads)
        self.limits = least, most
        self.short, self.long, self.profile = (
            Past(8),
            Past(KEPT_VALUES, 0.0 if horizon.rows else APART),
            Profile(),
        )
        self.ridges = Ridges(self.H, 1 + SEASONAL + 3 + future + 1 + d)
        self.share, self.spread, self.scores = Share(self.H), Spread(self.H, d), Scores(self.H)
        self.mixer = Mixer(self.H, 1, 1 + len(NAIVE))
        self.waiting: deque[Origin] = deque()
        self.seen, self.doubt = Seen(), Doubt(FAR)
        self.usual = np.zeros(d)  # means of the inputs
        self.gaps: deque[float] = deque(maxlen=15)
        self.last: Origin | None = None  # the last forecast

    # What is known

    @property
    def now(self) -> float:
        """The time of the last reading."""
        return float(self.seen.now)

    @property
    def interval(self) -> float:
        """The usual time between two readings."""
        return sorted(self.gaps)[len(self.gaps) // 2] if self.gaps else HOUR

    @property
    def season(self) -> float:
        """How long a day is: in rows where there are no times, 0 while that is not known."""
        return float(self.seen.season) if self.horizon.rows else DAY

    @property
    def overlap(self) -> Array:
        """How many forecasts of each lead err alike, as they are of the same time to come. (H,)"""
        return np.clip(self.leads / self.interval, 1, 24)

    @property
    def inputs(self) -> int:
        """How many inputs the model gets."""
        return self.d + 4 + SEASONAL + self.future

    def observe(self, time: float, y: float) -> list[Origin]:
        """A reading of the target, NaN if it has none; returns the rows that are ready to be learnt.

        A value that cannot be believed counts as none, and in `doubt.absurd`.

        `time` is in seconds, or any rising number where leads are rows, and only its order counts.
        """
        time = self._tick(time)
        if math.isfinite(y) and self.doubt.believes(*self.seen.beyond(y), int(self.seen.n)):
            self._label(time, y)
            self._remember(time, y)
        return self._ready(time)

    def _tick(self, time: float) -> float:
        if self.horizon.rows:
            time = self.now + 1 if self.now > NEVER else 0.0
        elif not time > self.now:
            raise InputError(
                f"the reading is of time {time:.10g}; expected one after {self.now:.10g}; leave it out"
            )
        if self.now > NEVER:
            self.gaps.append(time - self.now)
        self.seen.now = np.array(time)
        return time

    def _remember(self, time: float, y: float) -> None:
        self.seen.add(y)
        self.short.add(time, y)
        self.long.add(time, y)
        n = int(self.seen.n)
        if self.horizon.rows and n in (ENOUGH, 2 * ENOUGH):
            self.seen.season = np.array(season_of(self.long.values[-n:]))
            self.profile = Profile()
        if self.season:
            self.profile.add(float(self._phase(np.array(time))), y)

    def _phase(self, when: Array) -> Array:
        return np.asarray(when / (7 * self.season or 1.0) % 1.0)

    def look(self, x: Array, ahead: Array | None = None) -> Origin:
        """What is known at the last reading: its inputs x (d,), and `ahead` (H, future) if some is known."""
        now, last = self.now, self._last()
        targets = now + self.leads
        phases, gap = self._phase(targets), self.interval
        lags = self.short.latest(now - gap * np.array([0.5, 1.5]), FRESH * gap)
        seasonal, calendar = self._seasonal(targets, self.leads), self._calendar(phases)
        profile = self.profile.at(np.append(phases, self._phase(np.array(now))))
        there, here = profile[:-1], profile[-1]
        coming = np.full((self.H, self.future), np.nan) if ahead is None else ahead
        own = np.concatenate([calendar, seasonal, there[:, None], coming], -1)  # of each lead
        common = np.array([last, *lags, here])
        inputs = np.concatenate([x, common, own[0]])
        self.usual += np.nan_to_num(x - self.usual) / max(float(self.seen.n), 1.0)
        columns = self._columns(np.tile(x, (self.H, 1)), np.tile(common, (self.H, 1)), own)
        ridge = np.clip(last + self.ridges.predict(columns), *self.seen.range())
        naive = _guesses(np.full(self.H, last), own)
        blank = np.full(self.H, np.nan)
        said, spread, scales = (
            np.zeros((self.H, 2)),
            np.zeros((self.H, Spread.COLUMNS + self.d)),
            np.zeros((self.H, 2)),
        )
        return Origin(
            now, inputs, columns, phases, last, ridge, naive, blank, said, blank.copy(), spread, scales, []
        )  # fmt: skip

    def _last(self) -> float:
        """The last value that is known, 0 before the first."""
        return float(self.short.values[-1])

    def _seasonal(self, targets: Array, leads: Array) -> Array:
        """Values a day, two days and a week before n times so far ahead, or as often before. (n, 3)"""
        if not self.season:
            return np.full((len(targets), 3), np.nan)
        days, weeks = (np.ceil(leads / each) * each for each in (self.season, 7 * self.season))
        before = targets[:, None] - np.stack([days, days + self.season, weeks], -1)
        return self.long.nearest(before.ravel(), 1.01 * self.interval).reshape(-1, 3)

    def _calendar(self, phases: Array) -> Array:
        turn = math.tau * phases
        return np.stack([np.sin(7 * turn), np.cos(7 * turn), np.sin(turn), np.cos(turn)], -1) * bool(
            self.season
        )

    def _columns(self, x: Array, common: Array, own: Array) -> Array:
        """Of the ridges: values as differences to the last one, so that a level does not matter. (n, c)

        Of n rows: inputs x (n, d); last value, lags and profile now (n, 4); what each has of its own lead.
        """
        last, values = common[:, :1], own[:, 4:SEASONAL]
        profile = np.where(np.isnan(values[:, -1:]), last, values[:, -1:])
        filled = np.where(np.isnan(values), profile, values) - last
        means = np.full((len(own), 1), self.seen.mean)
        level = np.nan_to_num(np.concatenate([common[:, 3:], common[:, 1:3], means], -1) - last)
        ones = np.ones((len(own), 1))
        parts = [ones, own[:, :4], filled, own[:, SEASONAL:], level, x - self.usual]
        return np.asarray(np.nan_to_num(np.concatenate(parts, -1)))

    def expect(self, origin: Origin, rest: Array, kept: Sequence[Array] = ()) -> Array:
        """The forecast of each lead, where the model says `rest` (H,); it waits for its labels. (H,)"""
        origin.said[:] = np.column_stack([origin.ridge, origin.ridge + rest])
        origin.y[:] = self.mixed(origin, rest)
        origin.spread[:] = self._spread_columns(origin)
        origin.scales[:] = self.spread.scales(origin.phases, origin.spread)
        origin = origin._replace(kept=list(kept))
        apart = self.leads[-1] / WAITING * 2
        if not self.waiting or origin.time - self.waiting[-1].time >= apart:
            self.waiting.append(origin)
        self.last = origin
        return np.array(origin.y)

    def mixed(self, origin: Origin, rest: Array) -> Array:
        """What ridges, a model that adds `rest` and simple guesses forecast together, within the limits.

        The guesses count for little once enough is known, and much before. (H,)
        """
        experts = np.column_stack([origin.ridge + self.share.weights * rest, origin.naive])
        return np.asarray(np.clip((self.mixer.weights[:, 0] * experts).sum(-1), *self.bounds()))

    def _spread_columns(self, origin: Origin) -> Array:
        wide = math.sqrt(self.seen.variance) or 1.0
        level = (origin.y - self.seen.mean) / wide
        jump = np.abs(origin.y - origin.last) / wide
        ones = np.ones(self.H)
        course = [ones, self._calendar(origin.phases), np.tanh(level), np.tanh(level**2), np.tanh(jump)]
        return np.column_stack([*course, origin.columns[:, origin.columns.shape[1] - self.d :]])

    def bounds(self) -> tuple[float, float]:
        """The limits of the target: as given; 0 where it was the least of many values, and often."""
        least, most = self.limits
        floor = 0.0 if self.seen.has_floor else -math.inf
        return floor if least is None else least, math.inf if most is None else most

    def interval_of(self, coverage: float) -> tuple[Array, Array]:
        """Bounds of the last forecast that hold the label in `coverage` of all cases. (H,) each"""
        if self.last is None:
            raise InputError("there is no reading yet; expected one or more; call learn() first")
        wide, (low, high) = self.spread.widths(self.last.scales, coverage, self.overlap), self.bounds()
        return np.clip(self.last.y - wide, low, high), np.clip(self.last.y + wide, low, high)

    # Explanations

    def as_function(self, h: int, model: Callable[[Array], Array]) -> tuple[Callable[[Array], Array], Array]:
        """The forecast of lead h as a function of rows (n, d + 2 + future), and the row of the last reading.

        A row has the inputs of a reading; a moment, as a part in [0, 1] of all that are remembered, whose
        values of the target count; the phase of the week that is forecast; and what is known of that time.
        `model` tells what it adds for its inputs (n, D). It may be asked while this device goes on.
        """
        device, d = copy.deepcopy(self), self.d
        common, (near, far) = device._remembered(0)[0], (device._remembered(k)[1] for k in (0, h))
        apart = (self.leads[h] - self.leads[0]) / (7 * self.season or 1.0)

        def forecast(rows: Array) -> Array:
            x, phase, coming = rows[:, :d], rows[:, d + 1], rows[:, d + 2 :]
            i = np.minimum((rows[:, d] * len(common)).astype(int), len(common) - 1)
            own = np.concatenate([device._calendar(phase), far[i], coming], -1)
            first = np.concatenate([device._calendar(phase - apart), near[i], coming], -1)
            columns = device._columns(x, common[i], own)
            added = device.ridges.predict(columns[:, None])[:, h]
            ridge = np.clip(common[i, 0] + added, *device.seen.range())
            rest = device.share.weights[h] * model(np.concatenate([x, common[i], first], -1))
            experts = np.column_stack([ridge + rest, _guesses(common[i, 0], own)])
            return np.asarray(np.clip(experts @ device.mixer.weights[h, 0], *device.bounds()))

        if self.last is None:
            raise InputError("there is no reading yet; expected one or more; call learn() first")
        known = self.last.columns[h, 1 + SEASONAL :][: self.future]
        return forecast, np.concatenate([self.last.inputs[:d], [1.0, self.last.phases[h]], known])

    def _remembered(self, h: int) -> tuple[Array, Array]:
        """Last value, lags and profile at past moments (n, 4); seasonal lags and profile of lead h."""
        when, gap, lead = np.append(self.long.times, self.now), self.interval, self.leads[h]
        when = when[when > NEVER]
        before = (when[:, None] - gap * np.array([0.0, 0.5, 1.5])).ravel()
        values = self.long.latest(before, FRESH * gap).reshape(-1, 3)
        values[-1] = self.short.latest(before[-3:], FRESH * gap)
        values[-1, 0] = self._last()
        here, there = (self.profile.at(self._phase(each)) for each in (when, when + lead))
        seasonal = self._seasonal(when + lead, np.full(len(when), lead))
        return np.column_stack([values, here]), np.column_stack([seasonal, there])

    # Files

    def _concepts(self) -> dict[str, Any]:
        names = ("seen", "doubt", "short", "long", "profile", "ridges", "share", "mixer", "spread", "scores")
        return {name: getattr(self, name) for name in names}

    def state(self) -> dict[str, Any]:
        """Everything between two readings, forecasts that wait for labels among it."""
        waiting = [*self.waiting, *([self.last] if self.last is not None else [])]
        names = Origin._fields[:-1]
        return {
            **{name: concept.state() for name, concept in self._concepts().items()},
            "gaps": np.array(self.gaps),
            "usual": self.usual.copy(),
            "waiting": {name: np.array([getattr(origin, name) for origin in waiting]) for name in names},
            "kept": [np.concatenate(parts) for parts in zip(*(o.kept for o in waiting), strict=True)],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Inverse of `state`; what cannot be is a ValueError."""
        for name, concept in self._concepts().items():
            concept.restore(state[name])
        gaps, waiting = state["gaps"], state["waiting"]
        checks.array("gaps", gaps, (min(len(gaps), 15),))
        checks.need(bool((gaps > 0).all()), "a gap between readings is not above 0")
        checks.array("usual", state["usual"], (self.d,))
        n = len(waiting["time"])
        checks.need(n <= WAITING + 2, f"{n} forecasts wait")
        like = self.look(np.zeros(self.d)) if n else None
        for name in Origin._fields[:-1] if like is not None else ():
            found, shape = waiting[name], (n, *np.shape(getattr(like, name)))
            checks.need(found.dtype == np.float64 and found.shape == shape, f"{name} is {found.shape}")
        for part in state["kept"]:
            checks.need(part.dtype == np.float64 and len(part) == n, "a kept part is odd")
        parts = state["kept"]
        rows = [
            Origin._make(
                [*(waiting[name][i] for name in Origin._fields[:-1]), [part[i : i + 1] for part in parts]]
            )
            for i in range(n)
        ]
        self.gaps, self.usual = deque(gaps.tolist(), 15), np.array(state["usual"])
        self.waiting, self.last = deque(rows[:-1]), rows[-1] if rows else None

    # Labels

    def _label(self, time: float, y: float) -> None:
        """Learn from the forecasts that were made for now, whatever else waits."""
        near = 0.5 * self.interval if not self.horizon.rows else 0.25
        due: dict[int, Origin] = {}
        for origin in self.waiting:
            hits = np.flatnonzero((np.abs(origin.time + self.leads - time) <= near) & np.isnan(origin.known))
            origin.known[hits] = y
            due.update(dict.fromkeys(hits.tolist(), origin))
        if not due:
            return
        first = next(iter(due.values()))
        origins = [due.get(h, first) for h in range(self.H)]
        labels = np.array([y if h in due else np.nan for h in range(self.H)])

        def at(name: str) -> Array:
            """What each lead's origin has of it."""
            return np.array([getattr(origin, name)[h] for h, origin in enumerate(origins)])

        ridge, whole = at("said").T
        self.ridges.learn(at("columns"), labels - np.array([origin.last for origin in origins]))
        self._weigh(np.column_stack([ridge + self.share.weights * (whole - ridge), at("naive")]), labels)
        self.share.learn(ridge, whole - ridge, labels)
        self.scores.learn(at("y"), at("naive"), labels)
        self.spread.learn(at("phases"), at("spread"), at("scales"), at("y") - labels)

    def _weigh(self, experts: Array, labels: Array) -> None:
        """Weigh the model and the simple guesses; where a label is missing all count as equally good."""
        if not self.seen.unit:
            return
        errors = (experts - labels[:, None]) ** 2 / self.seen.unit
        usual = self.mixer.errors[:, 0].mean(-1, keepdims=True)
        self.mixer.learn(np.where(np.isfinite(errors), errors, usual)[:, None], self.overlap)

    def _ready(self, time: float) -> list[Origin]:
        """Rows with all labels, or whose labels will not come any more."""
        found, reach = [], self.leads[-1] + 0.5 * self.interval
        while self.waiting:
            first = self.waiting[0]
            if np.isnan(first.known).any() and time <= first.time + reach:
                break
            self.waiting.popleft()
            if np.isfinite(first.known).any():
                found.append(first)
        return found


def _guesses(last: Array, own: Array) -> Array:
    """The simple guesses of n rows, in the order of `NAIVE`; the last value where one is not known. (n, 4)"""
    naive = np.column_stack([last, own[:, 4], own[:, 6], own[:, 7]])
    return np.where(np.isnan(naive), last[:, None], naive)


def season_of(values: Array) -> float:
    """The season of values in rows: where the autocorrelation of the differences peaks; 0 if nowhere."""
    y = np.diff(values - values.mean())
    n = len(y)
    power = np.abs(np.fft.rfft(y, 2 * n)) ** 2
    found = np.fft.irfft(power)[: min(LONGEST, n // 3)]
    if not found[0] > 0:
        return 0.0
    found = found / found[0]
    peaks = [k for k in range(2, len(found) - 1) if found[k] > found[k - 1] and found[k] >= found[k + 1]]
    best = max(peaks, key=lambda k: found[k], default=0)
    return float(best) if best and found[best] > 0.2 else 0.0
