"""`domkl up`: a whole network on this machine, a process for each learner, watched while it learns."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import math
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import numpy as np

from ..base import checks
from ..base.errors import InputError
from ..base.extras import need
from ..base.types import Array
from ..exchange import graph
from ..lab import experiment, fleet, report, trial
from ..lab.experiment import Experiment
from ..lab.report.text import column, number, percent, with_unit
from ..lab.trial import Source
from ..learning import auto, losses
from . import show

BROKER = "127.0.0.1:1883"
#: Seconds between two looks at the learners, and between two lines where there is no terminal.
LOOK, SPEAK = 0.2, 1.0
#: One busy machine for all: nobody should be given up because it had to wait for the processor.
PATIENT = {"DOMKL_ROUNDS_DEADLINE": "60", "DOMKL_ROUNDS_START": "120", "DOMKL_CHECKPOINT_DIRECTORY": ""}
STATE = {"checkpoint": {"directory": "{name}.state"}}
ABOUT = ("experiment", "title", "dataset", "unit", "scale", "rounds", "delay", "graph")
TRAFFIC = ("messages_sent", "bytes_sent", "bytes_received")
STOPS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


def add_to(commands: Any) -> None:
    """Declare the command."""
    text = "run a whole network on this machine, a process for each learner"
    command = commands.add_parser("up", help=text, description=f"{text[0].upper()}{text[1:]}.")
    add = command.add_argument
    add("experiment", nargs="?", default="three-stations", help="a TOML file, or the name of a shipped one")
    add("--rounds", type=int, metavar="N", help="stop after N rounds")
    add("--transport", choices=["zenoh", "mqtt"], default="zenoh", help="how they talk (default: zenoh)")
    add("--broker", metavar="HOST:PORT", help=f"with --transport mqtt (default: {BROKER})")
    add("--graph", help=f"{', '.join(graph.SHAPES)}, paper1 .. paper4, or links: EWR-JFK,JFK-LGA")
    add("--preset", choices=["auto", "own"], default="own", help="auto: nothing to tune (default: own)")
    add("--step", help="first (the paper's) or newton, in place of the experiment's")
    add("--memory", type=float, metavar="N", help="about how many past samples count, with --step newton")
    add("--folder", metavar="DIR", help="keep configurations, streams, logs and predictions there")
    add("--no-start", action="store_true", help="write the folder, start nothing")
    add(
        "--rate", type=float, metavar="R", help="samples a second for each learner (default: all it can take)"
    )
    add("--json", action="store_true", help="one JSON document on standard output")
    command.set_defaults(act=run)


def run(args: argparse.Namespace) -> None:
    """Lay the network out, let it learn, and compare it with the simulator."""
    need("msgspec", "agent")
    chosen = experiment.load(args.experiment)
    given = {key: getattr(args, key) for key in ("step", "memory") if getattr(args, key) is not None}
    learning = dataclasses.replace(chosen.learning, **given)
    if given and args.preset == "auto":
        raise InputError(f"--{next(iter(given))} is given with --preset auto; expected none; leave one out")
    if args.preset == "auto":
        checks.one_of("the loss of preset auto", learning.loss, ("squared", "logistic"))
    chosen = dataclasses.replace(chosen, preset=args.preset, learning=learning)
    chosen = dataclasses.replace(chosen, graphs=(args.graph or chosen.graphs[0],))
    transport = _transport(args)
    source = trial.prepare(chosen, args.rounds)
    with _folder(args) as folder:
        names = fleet.lay_out(folder, chosen, source, transport, STATE)
        _check(folder, names)
        if args.no_start:
            _tell_how_to_start(args, folder, names)
            return
        start = time.monotonic()
        network = fleet.Fleet(folder, names, environ=_environment(), rate=args.rate)
        watch(network, View(network, chosen, source), _shower(args.json))
        seconds = round(time.monotonic() - start, 3)
        facts = document(network, chosen, source, args.transport)
    facts |= {"folder": args.folder, "seconds": seconds}
    if args.json:
        show.document(facts)
    else:
        _print(facts)


def _transport(args: argparse.Namespace) -> dict[str, Any]:
    """The learners' [transport]; an error if it cannot work."""
    if args.rate is not None:
        checks.positive("--rate", args.rate)
    if args.transport == "zenoh":
        if args.broker is not None:
            raise InputError(
                "--broker is for MQTT; expected --transport mqtt with it; add that or leave it out"
            )
        need("zenoh", "zenoh")
        return {"kind": "zenoh"}
    need("paho.mqtt.client", "mqtt")
    broker = args.broker or BROKER
    _refuse_absent(broker)
    return {"kind": "mqtt", "broker": broker}


def _refuse_absent(broker: str) -> None:
    from ..agent.transports.security import is_loopback, parse

    host, port = parse(broker)
    if not is_loopback(broker):
        raise InputError(
            f"--broker {broker} is another machine; expected one here, as there are no certificates; "
            "use domkl agent with ca, cert and key for others"
        )
    try:
        socket.create_connection((host, port), 3).close()
    except OSError as error:
        raise InputError(
            f"no MQTT broker answers at {broker} ({error.strerror or error}); expected one that is running; "
            f"start one with: mosquitto -p {port}, or say where it is with --broker HOST:PORT"
        ) from None


@contextlib.contextmanager
def _folder(args: argparse.Namespace) -> Iterator[Path]:
    """The one that was asked for, if it is free; else one that is gone afterwards."""
    if args.folder is None:
        if args.no_start:
            raise InputError("--no-start without --folder writes nothing; expected --folder DIR; add it")
        with tempfile.TemporaryDirectory(prefix="domkl-") as made:
            yield Path(made)
        return
    folder = Path(args.folder)
    if folder.is_dir() and any(folder.iterdir()):
        raise InputError(f"--folder {folder} is not empty; expected a new one; choose another or empty it")
    yield folder


def _check(folder: Path, names: list[str]) -> None:
    """Refuse here what every learner would refuse."""
    from ..agent.config import load

    for name in names:
        load(folder / f"{name}.toml", {})


def _environment() -> dict[str, str]:
    """Without variables that are meant for one agent: they would make all learners the same."""
    return {key: value for key, value in os.environ.items() if not key.startswith("DOMKL_")} | PATIENT


def _tell_how_to_start(args: argparse.Namespace, folder: Path, names: list[str]) -> None:
    commands = [f"domkl agent {folder / name}.toml" for name in names]
    if args.json:
        show.document({"folder": str(folder), "learners": names, "commands": commands})
        return
    print(f"{folder} is ready. Start each learner in a terminal of its own:")
    print("\n".join(f"  {command}" for command in commands))


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

    def end_if_told(self) -> None:
        """Leave as whoever sent the signal expects."""
        if self.number == signal.SIGINT:
            raise KeyboardInterrupt
        if self.number is not None:
            print("domkl: stopped", file=sys.stderr)
            raise SystemExit(128 + self.number)


Shower = Callable[["View"], None]


def watch(network: fleet.Fleet, view: View, shower: contextlib.AbstractContextManager[Shower]) -> None:
    """Start all, show them until all have ended, and leave none behind."""
    with Stops() as stops:
        with network, shower as display:
            network.start()
            while network.running and not stops.number and not view.dead:
                time.sleep(LOOK)
                view.look()
                display(view)
        stops.end_if_told()
    if view.dead:
        _give_up(network, view.dead[0])


def _give_up(network: fleet.Fleet, name: str) -> NoReturn:
    code = network.processes[name].returncode
    how = f"was ended by signal {-code}" if code < 0 else f"ended with {code}"
    raise InputError(
        f"learner {name} {how}: {network.tail(name)}; expected it to learn to its end; "
        "mend that (--folder DIR keeps all logs)"
    )


class View:
    """What people see of a network while it learns."""

    def __init__(self, network: fleet.Fleet, chosen: Experiment, source: Source) -> None:
        self.network, self.chosen, self.source = network, chosen, source
        self.status: dict[str, dict[str, Any]] = {name: {} for name in network.names}
        self.speed = dict.fromkeys(network.names, 0.0)  # bytes a second
        self.dead: list[str] = []
        self._start = time.monotonic()

    def look(self) -> None:
        """Read what the learners said since the last look."""
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
            return f"{seconds}  starting {len(self.status)} learners"
        T, error = self.source.split.y.shape[1], np.mean([status["error"] for status in known])
        up, all_ = (sum(status[key] for status in known) for key in ("up", "neighbours"))
        return (
            f"{seconds}  round {min(status['round'] for status in known)} of {T - self.source.split.delay}, "
            f"error {self.in_unit(float(error))}, {up}/{all_} neighbours up, "
            f"{_bytes(sum(self.speed.values()))}/s"
        )

    @property
    def table(self) -> Any:
        """The same, and a row for each learner."""
        table = _table("")
        top = "top expert" if self.chosen.preset == "auto" else "top kernel"
        for head in ("learner", "round", "error", top, "neighbours", "sent"):
            table.add_column(head, justify="left" if head in ("learner", top) else "right")
        for name in self.network.names:
            table.add_row(*map(_plain, self._row(name)))
        words = [_plain(self.chosen.title or self.chosen.name), _plain(self.line.strip()), ""]
        return need("rich.console", "cli").Group(*words, table)

    def _row(self, name: str) -> list[str]:
        status = self.status[name]
        if name in self.dead:
            return [name, "ended", self.network.tail(name)]
        if not status:
            return [name, "starting"]
        kernel = f"{self._expert(status['kernel'])} {percent(status['weight'])}"
        near = f"{status['up']}/{status['neighbours']} up"
        error, speed = self.in_unit(status["error"]), f"{_bytes(self.speed[name])}/s"
        return [name, str(status["round"]), error, kernel, near, speed]

    def _expert(self, k: int) -> str:
        if self.chosen.preset == "auto":
            return auto.EXPERT_NAMES[k]
        return f"σ²={number(self.chosen.kernels.sigma2[k])}"

    def in_unit(self, squared: float) -> str:
        """A squared error as people know it."""
        return with_unit(math.sqrt(self.source.scale * squared), self.source.unit)


def _speed(before: dict[str, Any], now: dict[str, Any]) -> float:
    first, last = (datetime.fromisoformat(each["time"].replace("Z", "+00:00")) for each in (before, now))
    seconds = (last - first).total_seconds()
    return float(now["bytes_sent"] - before["bytes_sent"]) / seconds if seconds > 0 else 0.0


@contextlib.contextmanager
def _shower(as_json: bool) -> Iterator[Shower]:
    """A live table where someone watches, else a line a second on standard error."""
    if not as_json and sys.stdout.isatty() and sys.stderr.isatty():
        with need("rich.live", "cli").Live(auto_refresh=False, console=show.console()) as live:
            yield lambda view: live.update(view.table, refresh=True)
        return
    said_at = time.monotonic()

    def say(view: View) -> None:
        nonlocal said_at
        if time.monotonic() - said_at >= SPEAK:
            said_at = time.monotonic()
            print(view.line, file=sys.stderr, flush=True)

    yield say


def document(network: fleet.Fleet, chosen: Experiment, source: Source, transport: str) -> dict[str, Any]:
    """How well each learner did, beside the simulator on the same data."""
    outcome = trial.carry_out(chosen, source)
    facts = report.document(outcome)
    y = losses.labels(chosen.learning.make_loss(), source.split.y)
    predicted = [_predicted(network, name, y.shape[1]) for name in network.names]
    learners = [
        {
            "name": name,
            "neighbours": facts["learners"][j]["neighbours"],
            **_errors(predicted[j], outcome.run.y_hat[j], y[j], source.scale),
            **{key: network.status(name).get(key) for key in TRAFFIC},
        }
        for j, name in enumerate(network.names)
    ]
    same = all(learner["same_bits"] for learner in learners)
    about = {key: facts[key] for key in ABOUT}
    return {**about, "preset": chosen.preset, "transport": transport, "learners": learners, "same_bits": same}


def _errors(y_hat: Array, simulated: Array, y: Array, scale: float) -> dict[str, Any]:
    mse, expected = (float(((each - y) ** 2).mean()) for each in (y_hat, simulated))
    return {
        "mse": mse,
        "rmse": math.sqrt(scale * mse),
        "simulator_rmse": math.sqrt(scale * expected),
        "same_bits": bool(np.array_equal(y_hat, simulated)),
    }


def _predicted(network: fleet.Fleet, name: str, T: int) -> Array:
    found = [said["y_hat"] for said in network.predictions(name)]
    if len(found) < T:
        raise InputError(
            f"learner {name} predicted {len(found)} of {T} samples; expected all; "
            "someone told it to stop: start again"
        )
    return np.array(found)


def _print(facts: dict[str, Any]) -> None:
    console = show.console()
    console.print(_results(facts))
    same = "yes" if facts["same_bits"] else "no"
    console.print(f"\nThe same bits as `domkl run --preset {facts['preset']}`: {same}.")
    console.print(f"{facts['rounds']} rounds in {facts['seconds']:.1f} s, the start included.")
    if facts["folder"] is not None:
        console.print(f"Configurations, streams, logs and predictions: {facts['folder']}", soft_wrap=True)


def _results(facts: dict[str, Any]) -> Any:
    learners, unit = facts["learners"], facts["unit"]
    table = _table(f"Error (RMSE{f', {unit}' if unit else ''}) of a process each, and of the simulator")
    columns = {
        "learner": [learner["name"] for learner in learners],
        f"over {facts['transport']}": column([learner["rmse"] for learner in learners]),
        "domkl run": column([learner["simulator_rmse"] for learner in learners]),
        "messages sent": [_count(learner["messages_sent"]) for learner in learners],
        "bytes sent": [_bytes(learner["bytes_sent"]) for learner in learners],
        "received": [_bytes(learner["bytes_received"]) for learner in learners],
    }
    if all(learner["messages_sent"] is None for learner in learners):
        del columns["messages sent"]  # agents that do not tell
    for head in columns:
        table.add_column(head, justify="left" if head == "learner" else "right")
    for row in zip(*columns.values(), strict=True):
        table.add_row(*map(_plain, row))
    return table


def _table(title: str) -> Any:
    box = need("rich.box", "cli").SIMPLE_HEAD
    return need("rich.table", "cli").Table(
        title=_plain(title) if title else None, title_justify="left", box=box, show_edge=False, pad_edge=False
    )


def _plain(words: str) -> Any:
    """Text that is shown as it is: a log may hold [markup]."""
    return need("rich.text", "cli").Text(words)


def _count(number: int | None) -> str:
    return "–" if number is None else f"{number:,}"


def _bytes(size: float | None) -> str:
    """A size as people read it.

    >>> [_bytes(size) for size in (512, 20_480, 3.25e6, None)]
    ['512 B', '20.5 kB', '3.25 MB', '–']
    """
    if size is None:
        return "–"
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{number(size)} {unit}"
        size /= 1000
    return f"{number(size)} GB"
