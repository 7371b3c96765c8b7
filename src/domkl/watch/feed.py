"""What the page shows of learners, sample by sample, in little memory however long it runs."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Protocol

from ..base import checks
from ..base.words import iso
from ..learning.doubt import Doubt
from ..learning.fields import Concept, scalar
from .history import RANGES, History, seconds

#: Samples over which errors are averaged.
ROLLING = 200
#: Points of a curve: where there are as many, every other one is dropped and half as many come.
MOST_POINTS = 400
#: The largest error that counts, also for what is no number; the square of a larger one would overflow.
MOST = 1e150
#: What no mean of their squares exceeds, rounded as they are.
MOST_SQUARE = 2 * MOST * MOST
#: An error so many times the usual one is of an absurd reading, and tells nothing of the learner.
FAR = 1000.0


class Curve:
    """Points of a whole run, evenly spaced.

    >>> curve = Curve(most=4)
    >>> for t in range(10):
    ...     if curve.is_due(t):
    ...         curve.add((t,))
    >>> curve.points
    [(0,), (4,), (8,)]
    """

    def __init__(self, most: int = MOST_POINTS) -> None:
        self.points: list[tuple[Any, ...]] = []
        self._every, self._most = 1, most

    def is_due(self, t: int) -> bool:
        """Whether the point of round t is kept."""
        return t % self._every == 0

    def add(self, point: tuple[Any, ...]) -> None:
        self.points.append(point)
        if len(self.points) >= self._most:
            self._every *= 2
            self.points = self.points[::2]


class Guesses(Concept):
    """Rolling squared errors of a learner, of "no change" and of the mean so far, for one stream."""

    count: int = scalar("int64", low=0)
    error: float = scalar(low=0.0, high=MOST_SQUARE)
    no_change: float = scalar(low=0.0, high=MOST_SQUARE)
    mean: float = scalar(low=0.0, high=MOST_SQUARE)
    last: float = scalar()  # the last label that is known
    sum: float = scalar(low=-MOST_SQUARE, high=MOST_SQUARE)
    labels: int = scalar("int64", low=0)

    PARTS = ("doubt",)

    def __init__(self) -> None:
        self.allocate()
        self.doubt = Doubt(FAR)

    def now(self) -> tuple[float | None, float]:
        """What the simple guesses say of the next label."""
        return (self.last, self.sum / self.labels) if self.labels else (None, 0.0)

    def judge(self, y: float, y_hat: float, guessed: tuple[float | None, float]) -> None:
        """A label has come, and these had been guessed."""
        y, y_hat = float(y), float(y_hat)
        is_number = abs(y) <= MOST
        if not is_number or not self.doubt.believes(abs(y - y_hat), math.sqrt(self.error), self.count):
            return
        last, mean = guessed
        if last is not None:  # the first label is a surprise to everybody, so it says nothing
            self.count += 1
            share = 1 / self.count if self.count < ROLLING else 1 / ROLLING
            self.error += share * (_square(y - y_hat) - self.error)
            self.no_change += share * (_square(y - last) - self.no_change)
            self.mean += share * (_square(y - mean) - self.mean)
        self.last = y
        self.sum += y
        self.labels += 1

    def roots(self) -> tuple[float | None, float | None, float | None]:
        """Root mean squared errors: the learner's, of no change, of the mean; None at first."""
        if not self.count:
            return None, None, None
        return math.sqrt(self.error), math.sqrt(self.no_change), math.sqrt(self.mean)


def _square(miss: float) -> float:
    size = abs(miss)
    return size * size if size < MOST else MOST * MOST


#: Samples of each learner that are shown, and predictions that wait for their labels.
RECENT, WAITING = 300, 4096
#: Readings that are shown before a forecast.
READINGS = 96
#: Alarms that are shown, learners that are, and characters of a name.
ALARMS, LEARNERS, LONGEST = 50, 1024, 64
#: Seconds without a word after which a learner makes room for another.
OLD = 60.0
#: What is published: all; no readings and predictions; neither these nor errors and weights.
LEVELS = ("full", "errors", "counts")
#: Fields of a status that are shown, besides the errors and weights that a level may withhold.
COUNTS = (
    *("state", "round", "samples", "messages_sent", "bytes_sent", "bytes_received", "refused"),
    *("rows_refused", "faults", "via", "neighbours", "neighbours_used", "backlog", "lag"),
)
COLUMNS = ("index", "time", "y_hat", "low", "high", "y", "alarm")
CURVES = ("round", "rmse", "rmse_alone", "no_change", "mean")


class FeedLike(Protocol):
    """What a server shows."""

    version: int  # changes with what is shown

    @property
    def ranges(self) -> Sequence[str]:
        """Those of time, that can be asked for."""

    def document(self, learner: str | None, range: str | None = None) -> dict[str, Any]:
        """All learners, and details of one; by default of the first. Called from another thread."""

    def records(self, learner: str | None, most: int) -> list[dict[str, Any]]:
        """A learner's last predictions."""


class Past(Concept):
    """What is known of a learner's past, few numbers however long it is; a restart need not lose it."""

    PARTS = ("predictions", "errors", "guesses")

    def __init__(self) -> None:
        self.predictions, self.errors = History(columns=len(COLUMNS)), History(columns=len(CURVES))
        self.guesses = Guesses()

    @property
    def is_known(self) -> bool:
        """Whether there is anything."""
        return self.predictions.seen + self.errors.seen > 0


class Shown:
    """One learner, as far as it is known."""

    def __init__(self, name: str, past: Past | None = None) -> None:
        self.name, self.status, self.past = name, {"state": "unknown"}, past or Past()
        self.recent: deque[dict[str, Any]] = deque(maxlen=RECENT)
        # Predictions without labels so far, what guesses said, and whether they are points of the past.
        self.waiting: dict[Any, tuple[dict[str, Any], Any, bool]] = {}
        self.seen_at = time.monotonic()
        self._alarms = 0
        self._reported: dict[str, Any] = {}  # errors that it reported itself
        self._effects: dict[str, Any] | None = None  # which inputs matter
        self._readings: deque[tuple[Any, float]] = deque(maxlen=READINGS)  # of the target, where it forecasts
        self._ahead: list[list[Any]] | None = None

    def sample(self, record: dict[str, Any]) -> dict[str, Any]:
        """Take a prediction, or what one says of the label of an earlier one, which is then returned."""
        key = record.get("id", record.get("label_of"))
        if key is not None and record.get("y") is not None and key in self.waiting:
            said: dict[str, Any] = {key: record[key] for key in ("alarm", "surprise") if key in record}
            record, _, is_kept = self.waiting[key]
            record.update(said)
            if is_kept:
                self._complete(record["index"], "alarm", record.get("alarm"))
        else:
            self.recent.append(record)
            waits = record, self.past.guesses.now(), self._keep(record)
            self.waiting[record.get("id", record["index"])] = waits
            if len(self.waiting) > WAITING:
                del self.waiting[next(iter(self.waiting))]
        self._alarms += bool(record.get("alarm"))
        return record

    def _keep(self, record: dict[str, Any]) -> bool:
        """Whether a prediction becomes a point of the past."""
        kept = self.past.predictions
        is_due = kept.is_due(time.time())
        if is_due:
            point = {**record, "time": seconds(record.get("time"))}
            kept.add([point.get(key) for key in COLUMNS])
        return is_due

    def _complete(self, index: int, column: str, value: Any) -> None:
        self.past.predictions.complete(index, COLUMNS.index(column), value)

    def truth(self, key: Any, y: float) -> bool:
        """The label of a prediction; whether it changes anything.

        A prediction from before a restart waits no longer, but may be a point of the past.
        """
        if key not in self.waiting:
            if isinstance(key, int):
                self._complete(key, "y", y)
            return isinstance(key, int)
        record, guessed, is_kept = self.waiting.pop(key)
        record["y"] = y
        if is_kept:
            self._complete(record["index"], "y", y)
        self.past.guesses.judge(y, record["y_hat"], guessed)
        if self.past.guesses.count:
            self._draw(record.get("round", self.past.guesses.count))
        return True

    def _draw(self, round: int) -> None:
        """A point of the errors, which are no longer those of reports; late labels do not turn it back."""
        errors, guesses = self.past.errors, self.past.guesses
        if guesses.count == 1:
            errors.clear()
        if errors.is_due(time.time()):
            error, *others = guesses.roots()
            errors.add([max(errors.newest, round), error, self._rmse_alone, *others])

    def forecast(self, when: Any, now: float | None, ahead: list[list[Any]]) -> None:
        """A reading of the target, and what is forecast from it: columns, a value for each lead."""
        if now is not None:
            self._readings.append((when, now))
        self._ahead = ahead

    def report(self, status: Mapping[str, Any]) -> None:
        """How it is, as it says; its curve too, where its samples are not known here."""
        self.status = {key: status[key] for key in COUNTS if key in status}
        self._reported = {key: status.get(key) for key in ("rmse", "rmse_alone", "weights")}
        self._alarms = max(self._alarms, int(status.get("alarms") or 0))
        self.seen_at = time.monotonic() - float(status.get("age") or 0.0)
        rmse, round, errors = self._reported["rmse"], status.get("round"), self.past.errors
        if rmse is None or self.past.guesses.count or errors.newest == round:
            return
        if errors.is_due(time.time()):
            errors.add([round, rmse, self._reported["rmse_alone"], None, None])

    def explain(self, round: int, inputs: list[list[Any]]) -> None:
        """Which inputs matter."""
        self._effects = {"round": round, "inputs": inputs}

    @property
    def _rmse_alone(self) -> float | None:
        """The error with own samples only, over the samples that are judged here.

        A learner reports this and its error over all samples, also those before its first label, of which
        both know nothing; so only the difference of the two is used.
        """
        alone, rmse = self._reported.get("rmse_alone"), self._reported.get("rmse")
        if alone is None or rmse is None or not self.past.guesses.count:
            return alone
        return math.sqrt(max(0.0, self.past.guesses.error + alone**2 - rmse**2))

    def row(self, has_errors: bool) -> dict[str, Any]:
        """What is shown of each learner."""
        row = {"name": self.name, **self.status, "alarms": self._alarms}
        row["age"] = round(time.monotonic() - self.seen_at, 1)
        if has_errors:
            rmse, no_change, mean = self.past.guesses.roots()
            rmse = self._reported.get("rmse") if rmse is None else rmse
            row |= {"rmse": rmse, "rmse_alone": self._rmse_alone, "no_change": no_change, "mean": mean}
        return row

    def detail(self, range: str | None, has_readings: bool, has_errors: bool) -> dict[str, Any]:
        """What is shown of one learner at a time; without a range the last predictions, and all errors."""
        found: dict[str, Any] = {"name": self.name}
        if has_readings:
            found["samples"] = self._samples(range)
            found["effects"] = self._effects
            if self._ahead is not None:
                found["readings"] = list(map(list, zip(*self._readings, strict=True)))
                found["ahead"] = self._ahead
        if has_errors:
            found["errors"] = _whole(self.past.errors.columns(range or "all", time.time()))
            found["weights"] = self._reported.get("weights") or []
        return found

    def _samples(self, range: str | None) -> list[list[Any]]:
        if range is None:
            return [[record.get(key) for record in self.recent] for key in COLUMNS]
        index, times, *rest = _whole(self.past.predictions.columns(range, time.time()))
        dates = [None if each is None else iso(each, "milliseconds") for each in times]
        return [index, dates, *rest]


def _whole(columns: list[list[Any]]) -> list[list[Any]]:
    """The first column is of whole numbers."""
    return [[None if each is None else int(each) for each in columns[0]], *columns[1:]]


def about_page(title: str, **more: Any) -> dict[str, Any]:
    """What a page says of all learners together; `more` are those that are known."""
    empty: dict[str, Any] = {
        "target": "",
        "unit": "",
        "self": None,
        "publish": "full",
        "inputs": [],
        "rounds": 0,
    }
    return {"title": title, **empty, "alarming": False, **more, "state": "running"}


@dataclass(eq=False, repr=False)
class Feed:
    """Records of running learners, for a `Server`; its methods may be called from any thread."""

    title: str  # of the page
    _: KW_ONLY
    target: str = ""
    unit: str = ""
    own: str | None = None  # the learner on whose device this is, shown first
    inputs: tuple[str, ...] = ()  # their names, for questions
    publish: str = "full"  # "errors": no readings and predictions; "counts": no errors and weights either
    rounds: int = 0
    alarming: bool = False  # readings are judged, so that no alarm is good news
    past: Past | None = None  # of our own learner, perhaps from before a restart

    ranges: ClassVar[Sequence[str]] = tuple(RANGES)

    def __post_init__(self) -> None:
        checks.one_of("publish", self.publish, LEVELS)
        given = {key: getattr(self, key) for key in ("target", "unit", "publish", "rounds", "alarming")}
        self.about = about_page(self.title, **given, self=self.own, inputs=list(self.inputs))
        self.version = 0
        self._learners: dict[str, Shown] = {}
        self._alarms: deque[dict[str, Any]] = deque(maxlen=ALARMS)
        self._changing = threading.Lock()

    # Called by who runs the learners

    def sample(self, record: dict[str, Any]) -> None:
        """A prediction: a record as agents write it, with `learner`; its label comes with `truth`.

        A record with a label, and the id of one that waits or its index as `label_of`, tells what is
        thought of that label.
        """

        def add(shown: Shown) -> None:
            found = shown.sample(record)
            if found.get("alarm"):
                self._alarms.append(found)

        self._tell(record["learner"], add)

    def truth(self, learner: str, key: Any, y: float) -> None:
        """A label; `key` is the id of its prediction, or the index where it had none."""
        with self._changing:
            shown = self._learners.get(learner)
            if shown is not None and shown.truth(key, y):
                self.version += 1

    def forecast(
        self,
        learner: str,
        when: Any,
        now: float | None,
        curve: Sequence[Mapping[str, Any]],
        errors: Sequence[float],
        simple: Sequence[float],
    ) -> None:
        """A reading of the target and what is forecast from it, of each lead as agents write it; typical
        errors of each lead, and of the best simple guess."""
        keys = ("lead", "time", "y_hat", "low", "high")
        columns = [[point.get(key) for point in curve] for key in keys]
        columns += [[value if math.isfinite(value) else None for value in each] for each in (errors, simple)]
        self._tell(learner, lambda shown: shown.forecast(when, now, columns))

    def status(self, status: Mapping[str, Any]) -> None:
        """How a learner is: `learner`, and any of `COUNTS`, `rmse`, `rmse_alone` and `weights`."""
        self._tell(str(status["learner"])[:LONGEST], lambda shown: shown.report(status))

    def explain(self, learner: str, round: int, inputs: list[list[Any]]) -> None:
        """Which inputs matter: rows of name, part, effect and direction, the most important first."""
        self._tell(learner, lambda shown: shown.explain(round, inputs))

    def end(self) -> None:
        self.about["state"] = "ended"
        self.version += 1

    def _tell(self, name: str, change: Callable[[Shown], None]) -> None:
        """Change what is shown of a learner, if there is room for it."""
        with self._changing:
            shown = self._shown(name)
            if shown is not None:
                change(shown)
                self.version += 1

    def _shown(self, name: str) -> Shown | None:
        found = self._learners.get(name)
        if found is not None:
            return found
        if len(self._learners) >= LEARNERS:  # the one that was not heard of for longest makes room
            oldest = min(self._learners.values(), key=lambda shown: shown.seen_at)
            if time.monotonic() - oldest.seen_at < OLD or oldest.name == self.own:
                return None
            del self._learners[oldest.name]
        found = self._learners[name] = Shown(name, self.past if name == self.own else None)
        return found

    # Asked by the server

    def document(self, learner: str | None, range: str | None = None) -> dict[str, Any]:
        """All learners, and details of one: the one asked for, else our own, else the first."""
        with self._changing:
            is_full, has_errors = self.publish == "full", self.publish != "counts"
            shown = self._chosen(learner)
            detail = None if shown is None else shown.detail(range, is_full, has_errors)
            rows = [each.row(has_errors) for each in self._learners.values()]
            alarms = [_alarm(record) for record in self._alarms] if is_full else []
        about = {**self.about, "ranges": self.ranges, "range": range, "now": time.time()}
        return {**about, "learners": rows, "alarms": alarms, "detail": detail}

    def records(self, learner: str | None, most: int) -> list[dict[str, Any]]:
        """A learner's last predictions, the newest last; none where readings are not published."""
        with self._changing:
            shown = self._chosen(learner)
            if self.publish != "full" or shown is None or not most:
                return []
            return [dict(record) for record in list(shown.recent)[-most:]]

    def _chosen(self, learner: str | None) -> Shown | None:
        """The learner that was asked for, else our own, else the first."""
        names = (name for name in (learner, self.own, *self._learners) if name in self._learners)
        return next((self._learners[str(name)] for name in names), None)


def _alarm(record: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("learner", "index", "time", "y_hat", "low", "high", "y", "surprise")
    return {key: record.get(key) for key in keys}
