"""The learners of `domkl up` while they learn: start, show, stop."""

from __future__ import annotations

import contextlib
import math
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from types import FrameType
from typing import Any, NoReturn

import numpy as np

from ..base.errors import InputError
from ..base.extras import need
from ..base.sheet import Sheet
from ..base.words import NONE, column, percent, plural, with_unit
from ..lab.experiment import Experiment
from ..lab.fleet import Fleet
from ..lab.trial import Source
from ..learning.weights import weight_names
from . import page, show

#: Seconds between two looks at the learners, and between two lines where there is no terminal.
LOOK, LINE = 0.2, 1.0
#: Errors in a status line: of the learner, and of its own samples only.
ERRORS = ("rmse", "rmse_alone")
LEGEND = {
    "RMSE": "root mean squared error of the last 200 predictions",
    "alone": "the same of predictions from own samples only",
    "trusted": "neighbours whose messages count",
    "weighs most": "the expert or kernel with most weight",
}
STOPS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Stops:
    """Signals are noted, not raised: no process is forgotten because one came while it was being started."""

    number: int | None = None

    def __enter__(self) -> Stops:
        self._before = {number: signal.signal(number, self._note) for number in STOPS}
        return self

    def __exit__(self, *_: object) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.number = number

    def exit_if_signalled(self) -> None:
        """Exit as the sender of the signal expects."""
        if self.number == signal.SIGINT:
            raise KeyboardInterrupt
        if self.number is not None:
            print("domkl: stopped", file=sys.stderr)
            raise SystemExit(128 + self.number)


class Statuses:
    """The learners of a fleet, as their status lines tell; subclasses know the model and the unit."""

    #: Where the whole story is.
    logs = "--folder DIR keeps all logs"
    title = ""
    legend: Mapping[str, str] = LEGEND

    def __init__(self, network: Fleet, models: Mapping[str, Any]) -> None:
        self.network, self._weights = network, {name: weight_names(model) for name, model in models.items()}
        self.status: dict[str, dict[str, Any]] = {name: {} for name in network.names}
        self.speed = dict.fromkeys(network.names, 0.0)  # bytes a second
        self.dead: list[str] = []
        self._start = time.monotonic()

    def look(self) -> None:
        """Read the status lines that the learners logged since the last look."""
        ended = [name for name in self.network.names if self.network.processes[name].poll()]
        for name, before in self.status.items():
            status = self.network.status(name)
            if before and status is not before:
                self.speed[name] = _speed(before, status)
            self.status[name] = status
        self.dead = ended

    @property
    def line(self) -> str:
        """The whole network in a line."""
        known = [status for status in self.status.values() if status]
        seconds = f"{time.monotonic() - self._start:5.0f} s"
        if not known:
            return f"{seconds}  starting {plural(len(self.status), 'learner')}"
        up, all_ = (sum(status[key] for status in known) for key in ("up", "neighbours"))
        return (
            f"{seconds}  round {min(status['round'] for status in known)}{self.of_rounds}, "
            f"{self.errors(known)}, {up}/{all_} neighbours up, {show.size(sum(self.speed.values()))}/s"
        )

    @property
    def of_rounds(self) -> str:
        """How many rounds there will be, if that is known."""
        return ""

    def errors(self, known: list[dict[str, Any]]) -> str:
        """The errors of the learners that run, in words."""
        raise NotImplementedError

    def error(self, status: dict[str, Any], key: str) -> float | None:
        """A learner's error in the unit that is shown; None before its first sample."""
        value = status.get(key)
        return None if value is None else float(value)

    @property
    def unit(self) -> str:
        """That of errors."""
        return ""

    @property
    def table(self) -> Any:
        """The same, and a row for each learner."""
        of = f"\n{self.unit}" if self.unit else ""
        heads = (
            "learner",
            "round",
            f"RMSE{of}",
            f"alone{of}",
            "neighbours up",
            "trusted",
            "weighs most",
            "sent",
        )
        errors = [[self.error(self.status[name], key) for name in self.network.names] for key in ERRORS]
        cells = zip(*map(column, errors), strict=True)
        rows = [self._row(name, each) for name, each in zip(self.network.names, cells, strict=True)]
        title = f"{self.title}{'; ' * bool(self.title)}{self.line.strip()}"
        ends = [show.text(f"{name} ended: {self.network.tail(name)}") for name in self.dead]
        words = frozenset({0, 6})
        sheet = Sheet(title, heads, rows, words, spare=(5, 6, 7, 4), legend=self.legend)
        return need("rich.console", "cli").Group(sheet, *ends)

    def _row(self, name: str, errors: Sequence[str]) -> list[str]:
        status = self.status[name]
        if name in self.dead or not status:
            return [name, "ended" if name in self.dead else "starting", *[NONE] * 6]
        near = f"{status['up']}/{status['neighbours']}"
        names, k = self._weights[name], int(status["kernel"])
        top = f"{names[k] if k < len(names) else f'weight {k + 1}'} {percent(status['weight'])}"
        traffic = show.size(status["bytes_sent"])
        return [name, str(status["round"]), *errors, near, str(status["trusted"]), top, traffic]


class View(Statuses):
    """What people see of a network while it learns."""

    def __init__(self, network: Fleet, chosen: Experiment, source: Source) -> None:
        super().__init__(network, dict.fromkeys(network.names, chosen.model))
        self.chosen, self.source, self.title = chosen, source, chosen.title or chosen.name
        self.page = page.FleetPage(network, chosen, source)

    def look(self) -> None:
        """The same, also for the page."""
        super().look()
        self.page.look(self.status, self.dead)

    @property
    def of_rounds(self) -> str:
        """How many rounds there will be."""
        return f" of {self.source.split.y.shape[1] - self.source.split.delay}"

    @property
    def unit(self) -> str:
        """The data's."""
        return self.source.unit

    def error(self, status: dict[str, Any], key: str) -> float | None:
        """In the data's unit."""
        value = super().error(status, key)
        return None if value is None else math.sqrt(self.source.scale) * value

    def errors(self, known: list[dict[str, Any]]) -> str:
        """Those of all learners together, and had each its own samples only."""
        together, alone = (with_unit(self._mean(known, key), self.unit) for key in ERRORS)
        return f"RMSE {together} (alone {alone})"

    def _mean(self, known: list[dict[str, Any]], key: str) -> float | None:
        """The root of the mean square; None where a learner does not know its own."""
        found = [self.error(status, key) for status in known]
        values = [value for value in found if value is not None]
        return math.sqrt(np.mean(np.square(values))) if len(values) == len(found) else None


Shower = Callable[[Statuses], None]


@contextlib.contextmanager
def shower(as_json: bool) -> Iterator[Shower]:
    """A live table where someone watches, else a line a second on standard error."""
    if not as_json and sys.stdout.isatty() and sys.stderr.isatty():
        with need("rich.live", "cli").Live(auto_refresh=False, console=show.console()) as live:
            yield lambda view: live.update(view.table, refresh=True)
        return
    printed_at = time.monotonic()

    def line(view: Statuses) -> None:
        nonlocal printed_at
        if time.monotonic() - printed_at >= LINE:
            printed_at = time.monotonic()
            print(view.line, file=sys.stderr, flush=True)

    yield line


def watch(network: Fleet, view: Statuses, shown: contextlib.AbstractContextManager[Shower]) -> None:
    """Start all, show them until all have ended, and leave none running."""
    with Stops() as stops:
        with network, shown as display:
            network.start()
            while network.running and not stops.number and not view.dead:
                time.sleep(LOOK)
                view.look()
                display(view)
        stops.exit_if_signalled()
    if view.dead:
        _give_up(network, view.dead[0], view.logs)


def _give_up(network: Fleet, name: str, logs: str) -> NoReturn:
    code = network.processes[name].returncode
    how = f"was ended by signal {-code}" if code < 0 else f"ended with {code}"
    raise InputError(
        f"learner {name} {how}: {network.tail(name)}; expected it to learn to its end; fix that ({logs})"
    )


def _speed(before: dict[str, Any], now: dict[str, Any]) -> float:
    first, last = (datetime.fromisoformat(each["time"].replace("Z", "+00:00")) for each in (before, now))
    seconds = (last - first).total_seconds()
    return float(now["bytes_sent"] - before["bytes_sent"]) / seconds if seconds > 0 else 0.0
