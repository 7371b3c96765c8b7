"""The live page of `domkl run --live` and `domkl up`: an agent's, for all learners of this machine."""

from __future__ import annotations

import contextlib
import json
import math
import sys
import time
from collections.abc import Iterator
from typing import Any

from ..base.errors import InputError
from ..base.hosts import is_loopback
from ..base.types import Array
from ..datasets import stations
from ..lab import trial
from ..lab.experiment import Experiment
from ..lab.fleet import Fleet
from ..lab.trial import Source
from ..learning.settings import Auto, ModelSettings
from ..learning.weights import weight_names
from ..simulator import Watch
from ..watch import Feed, RunFeed, Server

#: A free port of this machine.
ANYWHERE = "127.0.0.1:0"


def opened(feed: Feed | RunFeed, listen: str) -> Server:
    """A page at HOST:PORT of this machine; says on standard error where."""
    host, _, port = listen.rpartition(":")
    bare = host.strip("[]")
    if not (port.isascii() and port.isdigit() and len(port) < 6 and int(port) < 2**16 and is_loopback(bare)):
        raise InputError(
            f"the page's address is {listen!r}; expected one of this machine, as there is no token; "
            "choose 127.0.0.1:PORT"
        )
    server = Server((bare, int(port)), feed)
    print(f"Page: {server.url}", file=sys.stderr, flush=True)
    return server


@contextlib.contextmanager
def of_run(
    listen: str | None, chosen: Experiment, source: Source, target: str | None
) -> Iterator[Watch | None]:
    """While a simulation runs: what it calls after each round.

    At a terminal the page then stays until Ctrl-C, which must not be caught by anybody else by then.
    """
    if listen is None:
        yield None
        return
    feed = _run_feed(chosen, source, target or "")

    def watch(y_hat: Array, y: Array, alone: Array, weights: Array) -> None:
        for t in range(y_hat.shape[1]):
            feed.round(y_hat[:, t], y[:, t], alone[:, t] if len(alone) else alone, weights)

    with opened(feed, listen) as server:
        yield watch
        feed.end()
        if sys.stdout.isatty():
            print(f"The page stays at {server.url} until Ctrl-C.", file=sys.stderr)
            with contextlib.suppress(KeyboardInterrupt):
                while True:
                    time.sleep(3600.0)


def _run_feed(chosen: Experiment, source: Source, target: str) -> RunFeed:
    J, T = source.split.y.shape
    factor, offset, unit = _unit(chosen.model, source)
    graph = trial.network(chosen.graphs[0], source.split.names)
    return RunFeed(
        chosen.title or chosen.name,
        [str(name) for name in source.split.names],
        [[int(i) for i in graph.neighbours[j]] for j in range(J)],
        target=target,
        unit=unit,
        rounds=T,
        factor=factor,
        offset=offset,
        delay=source.split.delay,
        weights=weight_names(chosen.model),
    )


def _unit(model: ModelSettings, source: Source) -> tuple[float, float, str]:
    """What a value is multiplied with, what is added to it, and the unit it then has."""
    if source.raw and not isinstance(model, Auto):
        return 1.0, 0.0, ""  # scaled by the first rounds, as the paper does
    offset = stations.COLD if source.name == "stations" else 0.0
    return math.sqrt(source.scale), offset, source.unit


class FleetPage:
    """The learners of `domkl up`, from their logs and predictions."""

    def __init__(self, network: Fleet, chosen: Experiment, source: Source) -> None:
        self.network, self.split = network, source.split
        self.factor, self.offset, unit = _unit(chosen.model, source)
        graph = trial.network(chosen.graphs[0], source.split.names)
        self.near = {
            name: [network.names[i] for i in graph.neighbours[j]] for j, name in enumerate(network.names)
        }
        rounds = int(source.split.y.shape[1]) - source.split.delay
        self.feed = Feed(chosen.title or chosen.name, unit=unit, rounds=rounds)
        self.names = weight_names(chosen.model)
        self._read = dict.fromkeys(network.names, 0)

    def look(self, statuses: dict[str, dict[str, Any]], dead: list[str]) -> None:
        """Show what is new since the last look."""
        for j, name in enumerate(self.network.names):
            for record in self._new(name):
                self._show(j, name, record)
            self.feed.status(self._status(name, statuses[name], name in dead))

    def _new(self, name: str) -> list[dict[str, Any]]:
        """Predictions that were written since the last look."""
        try:
            with open(self.network.folder / f"{name}.predictions.jsonl", "rb") as file:
                file.seek(self._read[name])
                lines = file.read()
        except FileNotFoundError:
            return []
        whole = lines[: lines.rfind(b"\n") + 1]
        self._read[name] += len(whole)
        return [json.loads(line) for line in whole.splitlines()]

    def _show(self, j: int, name: str, record: dict[str, Any]) -> None:
        t, delay = int(record.get("id", record["index"])), self.split.delay
        values = {
            key: self.factor * record[key] + self.offset
            for key in ("y_hat", "low", "high")
            if record.get(key) is not None
        }
        self.feed.sample({**record, **values, "learner": name, "index": t, "id": t, "y": None})
        if t >= delay:
            self.feed.truth(name, t - delay, self.factor * float(self.split.y[j, t - delay]) + self.offset)

    def _status(self, name: str, status: dict[str, Any], is_dead: bool) -> dict[str, Any]:
        if not status:
            return {"learner": name, "state": "lost" if is_dead else "init", "neighbours": []}
        trust = status.get("trust") or [None] * len(self.near[name])
        near = [
            {"name": other, "up": None, "trust": part}
            for other, part in zip(self.near[name], trust, strict=False)
        ]
        weights = status.get("weights") or []
        shown = {
            "learner": name,
            "state": "lost" if is_dead else status["state"],
            "rmse": self._scaled(status.get("rmse")),
            "rmse_alone": self._scaled(status.get("rmse_alone")),
            "weights": [[each, weight] for each, weight in zip(self.names, weights, strict=False)],
            "neighbours": near,
            "refused": status.get("messages_refused"),
        }
        return {**status, **shown}

    def _scaled(self, rmse: float | None) -> float | None:
        return None if rmse is None else self.factor * rmse
