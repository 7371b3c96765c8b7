"""What the page shows of learners, sample by sample, in little memory however long it runs."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Protocol

from ..base import checks
from ..learning.doubt import Doubt

#: Samples over which errors are averaged.
ROLLING = 200
#: Points of a curve: where there are as many, every other one is dropped and half as many come.
MOST_POINTS = 400
#: The largest error that counts, also for what is no number; the square of a larger one would overflow.
MOST = 1e150
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


class Guesses:
    """Rolling squared errors of a learner, of "no change" and of the mean so far, for one stream."""

    def __init__(self) -> None:
        self.count, self.error, self.no_change, self.mean = 0, 0.0, 0.0, 0.0
        self.last: float | None = None  # the last label that is known
        self._sum, self.labels = 0.0, 0
        self._doubt = Doubt(FAR)

    def now(self) -> tuple[float | None, float]:
        """What the simple guesses say of the next label."""
        return self.last, self._sum / self.labels if self.labels else 0.0

    def judge(self, y: float, y_hat: float, guessed: tuple[float | None, float]) -> None:
        """A label has come, and these had been guessed."""
        if not self._doubt.believes(abs(y - y_hat), math.sqrt(self.error), self.count):
            return
        last, mean = guessed
        if last is not None:  # the first label is a surprise to everybody, so it says nothing
            self.count += 1
            share = 1 / self.count if self.count < ROLLING else 1 / ROLLING
            self.error += share * (_square(y - y_hat) - self.error)
            self.no_change += share * (_square(y - last) - self.no_change)
            self.mean += share * (_square(y - mean) - self.mean)
        self.last = y
        self._sum += y
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


class FeedLike(Protocol):
    """What a server shows."""

    version: int  # changes with what is shown

    def document(self, learner: str | None) -> dict[str, Any]:
        """All learners, and details of one; by default of the first. Called from another thread."""

    def records(self, learner: str | None, most: int) -> list[dict[str, Any]]:
        """A learner's last predictions."""


class Shown:
    """One learner, as far as it is known."""

    def __init__(self, name: str) -> None:
        self.name, self.status = name, {"state": "unknown"}
        self.recent: deque[dict[str, Any]] = deque(maxlen=RECENT)
        self.waiting: dict[Any, tuple[dict[str, Any], Any]] = {}  # predictions whose labels are not known yet
        self.guesses, self.curve = Guesses(), Curve()
        self.seen_at = time.monotonic()
        self._alarms = self._traced = 0
        self._reported: dict[str, Any] = {}  # errors that it reported itself
        self._effects: dict[str, Any] | None = None  # which inputs matter
        self._readings: deque[tuple[Any, float]] = deque(maxlen=READINGS)  # of the target, where it forecasts
        self._ahead: list[list[Any]] | None = None

    def sample(self, record: dict[str, Any]) -> dict[str, Any]:
        """Take a prediction, or what one says of the label of an earlier one, which is then returned."""
        key = record.get("id", record.get("label_of"))
        if key is not None and record.get("y") is not None and key in self.waiting:
            said: dict[str, Any] = {key: record[key] for key in ("alarm", "surprise") if key in record}
            record = self.waiting[key][0]
            record.update(said)
        else:
            self.recent.append(record)
            self.waiting[record.get("id", record["index"])] = record, self.guesses.now()
            if len(self.waiting) > WAITING:
                del self.waiting[next(iter(self.waiting))]
        self._alarms += bool(record.get("alarm"))
        return record

    def truth(self, key: Any, y: float) -> None:
        """The label of a prediction that waits for it."""
        record, guessed = self.waiting.pop(key)
        record["y"] = y
        self.guesses.judge(y, record["y_hat"], guessed)
        if self.guesses.count:
            self._draw(record.get("round", self.guesses.count))

    def _draw(self, round: int) -> None:
        """A point of the curve, which is then no longer one of reports; late labels do not turn it back."""
        if self._traced:
            self.curve, self._traced = Curve(), 0
        if self.curve.is_due(self.guesses.count):
            error, *others = self.guesses.roots()
            last = self.curve.points[-1][0] if self.curve.points else round
            self.curve.add((max(last, round), error, self._rmse_alone, *others))

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
        rmse, round, points = self._reported["rmse"], self.status.get("round"), self.curve.points
        if rmse is None or self.guesses.count or (points and points[-1][0] == round):
            return
        self._traced += 1
        if self.curve.is_due(self._traced):
            self.curve.add((round, rmse, self._reported["rmse_alone"], None, None))

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
        if alone is None or rmse is None or not self.guesses.count:
            return alone
        return math.sqrt(max(0.0, self.guesses.error + alone**2 - rmse**2))

    def row(self, has_errors: bool) -> dict[str, Any]:
        """What is shown of each learner."""
        row = {"name": self.name, **self.status, "alarms": self._alarms}
        row["age"] = round(time.monotonic() - self.seen_at, 1)
        if has_errors:
            rmse, no_change, mean = self.guesses.roots()
            rmse = self._reported.get("rmse") if rmse is None else rmse
            row |= {"rmse": rmse, "rmse_alone": self._rmse_alone, "no_change": no_change, "mean": mean}
        return row

    def detail(self, has_readings: bool, has_errors: bool) -> dict[str, Any]:
        """What is shown of one learner at a time."""
        found: dict[str, Any] = {"name": self.name}
        if has_readings:
            found["samples"] = [[record.get(key) for record in self.recent] for key in COLUMNS]
            found["effects"] = self._effects
            if self._ahead is not None:
                found["readings"] = list(map(list, zip(*self._readings, strict=True)))
                found["ahead"] = self._ahead
        if has_errors:
            found["errors"] = list(map(list, zip(*self.curve.points, strict=True)))
            found["weights"] = self._reported.get("weights") or []
        return found


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
            if shown is not None and key in shown.waiting:
                shown.truth(key, y)
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
        found = self._learners[name] = Shown(name)
        return found

    # Asked by the server

    def document(self, learner: str | None) -> dict[str, Any]:
        """All learners, and details of one: the one asked for, else our own, else the first."""
        with self._changing:
            is_full, has_errors = self.publish == "full", self.publish != "counts"
            shown = self._chosen(learner)
            detail = None if shown is None else shown.detail(is_full, has_errors)
            rows = [each.row(has_errors) for each in self._learners.values()]
            alarms = [_alarm(record) for record in self._alarms] if is_full else []
        return {**self.about, "now": time.time(), "learners": rows, "alarms": alarms, "detail": detail}

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
