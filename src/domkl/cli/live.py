"""The live page of `domkl run --live` and `domkl up`: an agent's, for all learners of this machine."""

from __future__ import annotations

import contextlib
import json
import math
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from ..base.errors import InputError
from ..base.places import is_loopback
from ..base.types import Array
from ..datasets import stations
from ..faces.saved import About
from ..lab import trial
from ..lab.experiment import Experiment
from ..lab.fleet import Fleet
from ..lab.trial import Source
from ..learning import explain
from ..learning.explain import Function
from ..learning.model import Model
from ..models.settings import ModelSettings, weight_names
from ..simulator import Watch, Watched
from ..watch import Feed, RunFeed, Server

#: Seconds until the first look, and between two of them at least; if one takes long, so many times as long.
FIRST, EVERY, REST = 2.0, 10.0, 200.0


def _complain(error: Exception) -> None:
    """Nothing that is only shown may cost more than a line."""
    print(f"domkl: inputs cannot be explained: {error!r}", file=sys.stderr)


#: A free port of this machine.
ANYWHERE = "127.0.0.1:0"
#: Seconds between two looks at what a page is to show.
LOOK = 0.5


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
def of_run(listen: str, chosen: Experiment, source: Source) -> Iterator[Watch]:
    """While a simulation runs: what it calls after each round.

    At a terminal the page then stays until Ctrl-C, which must not be caught by anybody else by then.
    """
    watching = RunWatch(chosen, source)
    with opened(watching.feed, listen) as server:
        yield watching
        watching.feed.end()
        if sys.stdout.isatty():
            print(f"The page stays at {server.url} until Ctrl-C.", file=sys.stderr)
            with contextlib.suppress(KeyboardInterrupt):
                while True:
                    watching.look()
                    time.sleep(LOOK)


class RunWatch:
    """Shows each round of a simulation on a page, and now and then which inputs matter to who is shown."""

    def __init__(self, chosen: Experiment, source: Source) -> None:
        d = source.split.X.shape[-1]
        self.feed, self._factor = _run_feed(chosen, source), _unit(chosen.model, source)[0]
        self._named = About(source.inputs, columns=source.columns).groups(d)
        self._due = time.monotonic() + FIRST if d <= explain.MOST_INPUTS else float("inf")
        self._model: Model | None = None

    def __call__(self, seen: Watched) -> None:
        *what, self._model = seen
        self.feed.rounds(*what)
        self.look()

    def look(self) -> None:
        """Begin to explain the learner that is shown, if it is time to; between two rounds, or after them."""
        start, j = time.monotonic(), self.feed.looked_at
        if start < self._due or self.feed.explained_at(j) == self.feed.done or self._model is None:
            return
        before, self._due = self._due, float("inf")  # until this one has ended
        try:
            asked = self._model.as_function(j)
        except Exception as error:
            _complain(error)
            return
        if asked is None:  # it has learnt nothing yet, or cannot tell
            self._due = before
        else:
            rest = (j, self.feed.done, asked, start)
            threading.Thread(target=self._explain, args=rest, daemon=True).start()

    def _explain(self, j: int, round: int, asked: tuple[Function, Array], start: float) -> None:
        try:
            found = explain.effects(*asked, *self._named).listed(self._factor)
        except Exception as error:
            _complain(error)
            return
        if found:
            self.feed.explain(j, round, found)
        now = time.monotonic()
        self._due = now + max(EVERY, REST * (now - start))


def _run_feed(chosen: Experiment, source: Source) -> RunFeed:
    J, T = source.split.y.shape
    factor, offset, unit = _unit(chosen.model, source)
    graph = trial.network(chosen.graphs[0], source.split.names)
    return RunFeed(
        chosen.title or chosen.name,
        [str(name) for name in source.split.names],
        [[int(i) for i in graph.neighbours[j]] for j in range(J)],
        target=source.target,
        unit=unit,
        all_rounds=T,
        factor=factor,
        offset=offset,
        delay=source.split.one_delay,
        weights=weight_names(chosen.model),
        times=source.split.times,
    )


def _unit(model: ModelSettings, source: Source) -> tuple[float, float, str]:
    """What a value is multiplied with, what is added to it, and the unit it then has."""
    if source.raw and not model.takes_raw:
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
        rounds = int(source.split.y.shape[1]) - source.split.one_delay
        self.feed = Feed(chosen.title or chosen.name, target=source.target, unit=unit, rounds=rounds)
        self.names = weight_names(chosen.model)
        self._read = dict.fromkeys(network.names, 0)
        self._inputs: dict[str, dict[str, Any]] = {}  # as they were shown last
        self._next = 0.0  # when to look again

    def look(self, statuses: dict[str, dict[str, Any]], dead: list[str]) -> None:
        """Show what is new since the last look, if that is not just now: a page changes once a second."""
        if time.monotonic() < self._next and not dead:
            return
        self._next = time.monotonic() + LOOK
        for j, name in enumerate(self.network.names):
            for record in self._new(name):
                self._show(j, name, record)
            self.feed.status(self._status(name, statuses[name], name in dead))
            self._explain(name)

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
        t, delay = int(record.get("id", record["index"])), self.split.one_delay
        values = {
            key: self.factor * record[key] + self.offset
            for key in ("y_hat", "low", "high")
            if record.get(key) is not None
        }
        when = {} if self.split.times is None else {"time": float(self.split.times[j, t])}
        self.feed.sample({**record, **values, **when, "learner": name, "index": t, "id": t, "y": None})
        if t >= delay:
            self.feed.truth(name, t - delay, self.factor * float(self.split.y[j, t - delay]) + self.offset)

    def _explain(self, name: str) -> None:
        found = self.network.inputs.get(name)
        if found is None or found is self._inputs.get(name):
            return
        self._inputs[name] = found
        rows = [[each, part, self.factor * effect, trend] for each, part, effect, trend in found["inputs"]]
        self.feed.explain(name, found["round"], rows)

    def _status(self, name: str, status: dict[str, Any], is_dead: bool) -> dict[str, Any]:
        if not status:
            return {"learner": name, "state": "lost" if is_dead else "init", "neighbours": []}
        trust = status.get("trust") or [None] * len(self.near[name])
        near = [
            {"name": other, "up": None, "trust": part}
            for other, part in zip(self.near[name], trust, strict=False)
        ]
        weights, has_errors = status.get("weights") or [], bool(status.get("samples"))
        shown = {
            "learner": name,
            "state": "lost" if is_dead else status["state"],
            "rmse": self._scaled(status.get("rmse") if has_errors else None),
            "rmse_alone": self._scaled(status.get("rmse_alone") if has_errors else None),
            "weights": [[each, weight] for each, weight in zip(self.names, weights, strict=False)],
            "neighbours": near,
            "refused": status.get("messages_refused"),
        }
        return {**status, **shown}

    def _scaled(self, rmse: float | None) -> float | None:
        return None if rmse is None else self.factor * rmse
