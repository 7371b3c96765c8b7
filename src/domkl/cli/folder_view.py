"""`domkl up FOLDER`: the agents of a folder, started and watched until they end or are stopped."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..base import checks
from ..base.errors import InputError
from ..base.words import number
from ..lab import fleet
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
    names = fleet.names_in(folder)
    models = _models(folder, names)
    environ = {key: value for key, value in os.environ.items() if not key.startswith("DOMKL_")}
    network = Fleet(folder, names, environ=environ)
    view = FolderView(network, models, seconds)
    try:
        live.watch(network, view, live.shower(args.json))
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
    view.look()
    if args.json:
        show.document({"folder": str(folder), "learners": [view.facts(name) for name in names]})
    else:
        show.console().print(view.table)


def _models(folder: Path, names: list[str]) -> dict[str, Any]:
    """What each agent learns with; refuses what it would refuse, and tells where its page is."""
    from ..agent.config import load

    models = {}
    for name in names:
        config = load(folder / f"{name}.toml", {})
        http = config.http
        if http.address is not None and fleet.is_used(*http.address):
            raise InputError(
                f"{http.listen}, the page of {name}, is in use or not of this machine; expected a free port; "
                f"stop what uses it, or change http in {folder / name}.toml"
            )
        print(f"{name}: {f'http://{http.listen}/' if http.listen else 'no page'}", file=sys.stderr)
        models[name] = config.model
    return models


class FolderView(live.Statuses):
    """What people see of a folder's agents."""

    logs = "its log is beside its file"

    def __init__(self, network: Fleet, models: Mapping[str, Any], seconds: float | None) -> None:
        super().__init__(network, models)
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

    def errors(self, known: list[dict[str, Any]]) -> str:
        """That of each learner, in its target's own unit."""
        shown = {name: self.error(status, "rmse") for name, status in self.status.items() if status}
        return "RMSE " + ", ".join(f"{name} {number(error)}" for name, error in shown.items())
