"""The learners of `domkl up` while they learn: start, show, stop."""

from __future__ import annotations

import contextlib
import math
import signal
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from types import FrameType
from typing import Any, NoReturn

import numpy as np

from ..base.errors import InputError
from ..base.extras import need
from ..base.words import NONE, number, percent, with_unit
from ..lab.experiment import Experiment
from ..lab.fleet import Fleet
from ..lab.trial import Source
from ..learning import auto
from ..learning.settings import Auto, KernelSpec
from . import page, show

#: Seconds between two looks at the learners, and between two lines where there is no terminal.
LOOK, LINE = 0.2, 1.0
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
    """The learners of a fleet, as their status lines tell; subclasses say how that is shown."""

    #: Where the whole story is.
    logs = "--folder DIR keeps all logs"

    def __init__(self, network: Fleet) -> None:
        self.network = network
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
        raise NotImplementedError

    @property
    def table(self) -> Any:
        """The same, and a row for each learner."""
        raise NotImplementedError


class View(Statuses):
    """What people see of a network while it learns."""

    def __init__(self, network: Fleet, chosen: Experiment, source: Source) -> None:
        super().__init__(network)
        self.chosen, self.source = chosen, source
        self.page = page.FleetPage(network, chosen, source)

    def look(self) -> None:
        """The same, also for the page."""
        super().look()
        self.page.look(self.status, self.dead)

    @property
    def line(self) -> str:
        """The whole network in a line."""
        known = [status for status in self.status.values() if status]
        seconds = f"{time.monotonic() - self._start:5.0f} s"
        if not known:
            return f"{seconds}  starting {len(self.status)} learners"
        T, error = self.source.split.y.shape[1], np.mean([status["rmse"] ** 2 for status in known])
        up, all_ = (sum(status[key] for status in known) for key in ("up", "neighbours"))
        return (
            f"{seconds}  round {min(status['round'] for status in known)} of {T - self.source.split.delay}, "
            f"error {self.in_unit(float(error))} (alone {self._mean_alone(known)}), "
            f"{up}/{all_} neighbours up, {show.size(sum(self.speed.values()))}/s"
        )

    @property
    def table(self) -> Any:
        """The same, and a row for each learner."""
        table = show.table()
        top = "top expert" if isinstance(self.chosen.model, Auto) else "top kernel"
        for head in ("learner", "round", "error", "alone", top, "neighbours", "sent"):
            table.add_column(head, justify="left" if head in ("learner", top) else "right")
        for name in self.network.names:
            table.add_row(*map(show.text, self._row(name)))
        words = [show.text(self.chosen.title or self.chosen.name), show.text(self.line.strip()), ""]
        return need("rich.console", "cli").Group(*words, table)

    def _row(self, name: str) -> list[str]:
        status = self.status[name]
        if name in self.dead:
            return [name, "ended", self.network.tail(name)]
        if not status:
            return [name, "starting"]
        top = f"{self._expert(status['kernel'])} {percent(status['weight'])}"
        near = f"{status['up']}/{status['neighbours']} up, {status['trusted']} trusted"
        error, alone = (self.in_unit(_square(status[key])) for key in ("rmse", "rmse_alone"))
        return [name, str(status["round"]), error, alone, top, near, f"{show.size(self.speed[name])}/s"]

    def _mean_alone(self, known: list[dict[str, Any]]) -> str:
        """The error that all would have with their own samples only."""
        errors = [_square(status["rmse_alone"]) for status in known]
        found = [error for error in errors if error is not None]
        return self.in_unit(float(np.mean(found)) if len(found) == len(errors) else None)

    def _expert(self, k: int) -> str:
        model = self.chosen.model
        if isinstance(model, Auto):
            return auto.EXPERT_NAMES[k]
        spec = model.kernels if isinstance(model.kernels, KernelSpec) else KernelSpec()
        return f"σ²={number(spec.sigma2[k])}"

    def in_unit(self, squared: float | None) -> str:
        """A squared error as its root, in the data's unit; a dash where it is not known."""
        if squared is None:
            return NONE
        return with_unit(math.sqrt(self.source.scale * squared), self.source.unit)


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


def _square(rmse: float | None) -> float | None:
    return None if rmse is None else rmse**2
