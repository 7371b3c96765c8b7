"""`domkl up FOLDER`: the agents of a folder, started and watched until they end or are stopped."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

from ..base import checks
from ..base.errors import InputError
from ..base.words import NONE, number
from ..lab import devices
from ..lab.fleet import Fleet
from . import live, page, show

#: Options that go with a folder; all others say something about an experiment, which a folder is not.
DEFAULTS = {"page": page.ANYWHERE, "transport": "zenoh"}
OURS = ("command", "act", "experiment", "seconds", "json")


def run(args: argparse.Namespace) -> None:
    """Start every agent of a folder; stop with Ctrl-C, or after --seconds."""
    for option, value in vars(args).items():
        if option not in OURS and value not in (None, False, DEFAULTS.get(option)):
            flag = option.replace("_", "-")
            raise InputError(
                f"--{flag} is given with the folder {args.experiment}; expected no such option; leave it out"
            )
    folder, seconds = Path(args.experiment), args.seconds
    if seconds is not None:
        checks.positive("--seconds", seconds)
    names = devices.names_in(folder)
    _check(folder, names)
    environ = {key: value for key, value in os.environ.items() if not key.startswith("DOMKL_")}
    network = Fleet(folder, names, environ=environ)
    view = FolderView(network, seconds)
    try:
        live.watch(network, view, live.shower(args.json))
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
    view.look()
    if args.json:
        show.document({"folder": str(folder), "learners": [view.facts(name) for name in names]})
    else:
        show.console().print(view.table)


def _check(folder: Path, names: list[str]) -> None:
    """Refuse here what an agent would refuse, and tell where their pages are."""
    from ..agent.config import load

    for name in names:
        http = load(folder / f"{name}.toml", {}).http
        if http.address is not None and devices.is_used(*http.address):
            raise InputError(
                f"{http.listen}, the page of {name}, is in use or not of this machine; expected a free port; "
                f"stop what uses it, or change http in {folder / name}.toml"
            )
        print(f"{name}: {f'http://{http.listen}/' if http.listen else 'no page'}", file=sys.stderr)


class FolderView(live.Statuses):
    """What people see of a folder's agents."""

    logs = "its log is beside its file"

    def __init__(self, network: Fleet, seconds: float | None) -> None:
        super().__init__(network)
        self.seconds = seconds

    def look(self) -> None:
        """Read the status lines; stop all when the time is over."""
        super().look()
        if self.seconds is not None and time.monotonic() - self._start > self.seconds:
            self.network.stop()

    def facts(self, name: str) -> dict[str, Any]:
        """How a learner does, for programs."""
        keys = ("round", "samples", "rmse", "rmse_alone", "up", "neighbours", "bytes_sent", "state")
        status = self.status[name]
        return {"name": name, **{key: status.get(key) for key in keys}}

    @property
    def line(self) -> str:
        """The whole folder in a line."""
        known = [status for status in self.status.values() if status]
        seconds = f"{time.monotonic() - self._start:5.0f} s"
        if not known:
            return f"{seconds}  starting {len(self.status)} agents"
        each = ", ".join(f"{name} {_error(status)}" for name, status in self.status.items() if status)
        rounds = min(status["round"] for status in known)
        return f"{seconds}  round {rounds}, error {each}, {show.size(sum(self.speed.values()))}/s"

    @property
    def table(self) -> Any:
        """A row for each agent."""
        table = show.table()
        for head in ("learner", "round", "error", "alone", "neighbours", "sent"):
            table.add_column(head, justify="left" if head == "learner" else "right")
        for name in self.network.names:
            table.add_row(*map(show.text, self._row(name)))
        return table

    def _row(self, name: str) -> list[str]:
        status = self.status[name]
        if name in self.dead:
            return [name, "ended", self.network.tail(name)]
        if not status:
            return [name, "starting"]
        near = f"{status['up']}/{status['neighbours']} up"
        sent = show.size(status["bytes_sent"])
        return [name, str(status["round"]), _error(status), _error(status, "rmse_alone"), near, sent]


def _error(status: dict[str, Any], key: str = "rmse") -> str:
    value = status.get(key) if status["samples"] else None  # none since it was started
    return NONE if value is None else number(value)
