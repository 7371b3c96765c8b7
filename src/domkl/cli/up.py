"""`domkl up`: a whole network on this machine, a process for each learner, watched while it learns.

The network is an experiment's, laid out in a folder first, or one that `domkl init` has written.
"""

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import numpy as np

from ..base import checks
from ..base.errors import InputError
from ..base.extras import need
from ..base.types import Array
from ..base.words import NONE, column, number, percent, plural, text, with_unit
from ..exchange import graph
from ..lab import experiment, fleet, trial
from ..lab.experiment import Experiment
from ..lab.fleet import Fleet
from ..lab.report.facts import together_or_alone
from ..lab.sheet import Sheet, least_of
from ..lab.trial import Source
from ..learning import losses
from ..models.settings import weight_names
from . import declare, inspect, live, options, show

#: Seconds between two looks at the learners, and between two lines where there is no terminal.
LOOK, LINE = 0.2, 1.0
#: Errors in a status line: of the learner, and of its own samples only.
ERRORS = ("rmse", "rmse_alone")
#: What else the table of learners has, and a document.
HEADS = ("neighbours up", "trusted", "weighs most", "sent")
FACTS = (
    *("round", "samples", "rmse", "rmse_alone", "up", "neighbours", "neighbours_used", "backlog", "lag"),
    *("bytes_sent", "state"),
)
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


@dataclass
class View:
    """What people see of a network while it learns: its learners, as their status lines tell."""

    network: Fleet
    models: Mapping[str, Any]  # of each learner
    title: str = ""
    unit: str = ""  # of errors
    scale: float = 1.0  # what an error in a status line is multiplied with
    rounds: int | None = None  # how many there will be, if that is known
    has_one_target: bool = False  # so that errors can be averaged; else each learner has its own
    outlives: bool = True  # learners that die are started again, and the others go on meanwhile
    logs: str = "its log is beside its file"  # where the whole story is
    awaited: str = "no label has come yet"  # why there is no error at first

    def __post_init__(self) -> None:
        self.status: dict[str, dict[str, Any]] = {name: {} for name in self.network.names}
        self.dead: list[str] = []
        self._speed = dict.fromkeys(self.network.names, 0.0)  # bytes a second
        self._start = time.monotonic()

    @classmethod
    def of(cls, network: Fleet, chosen: Experiment, source: Source) -> View:
        """That of an experiment's network."""
        return cls(
            network,
            dict.fromkeys(network.names, chosen.model),
            chosen.title or chosen.name,
            unit=source.unit,
            scale=math.sqrt(source.scale),
            rounds=source.split.y.shape[1] - source.split.one_delay,
            has_one_target=True,
            outlives=network.rate is None,  # else samples were lost, and nothing can be compared
            logs="--folder DIR keeps all logs",
        )

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.monotonic() - self._start

    def look(self) -> None:
        """Read the status lines that the learners logged since the last look."""
        if self.outlives:
            self.network.revive()
        ended = self.network.dead
        for name, before in self.status.items():
            status = self.network.status(name)
            if before and status is not before:
                self._speed[name] = _speed(before, status)
            self.status[name] = status
        self.dead = ended

    @property
    def has_failed(self) -> bool:
        """Whether the others cannot go on either; rounds in step need everybody."""
        lost = self.network.given_up if self.has_one_target else ()
        return bool(lost) or (bool(self.dead) and not self.outlives)

    @property
    def line(self) -> str:
        """The whole network in a line."""
        known = [status for status in self.status.values() if status]
        seconds = f"{self.seconds:5.0f} s"
        if not known:
            return f"{seconds}  starting {plural(len(self.status), 'learner')}"
        of_rounds = "" if self.rounds is None else f" of {self.rounds}"
        up, all_ = (sum(status[key] for status in known) for key in ("up", "neighbours"))
        return (
            f"{seconds}  round {min(status['round'] for status in known)}{of_rounds}, "
            f"{self._errors(known)}, {up}/{all_} neighbours up, {show.size(sum(self._speed.values()))}/s"
            f"{''.join(f', {each}' for each in self._starts)}"
        )

    @property
    def _starts(self) -> list[str]:
        """Who was started again, and how often."""
        counts = {name: each.count for name, each in self.network.revivals.items() if each.count}
        return [f"{name} started again {plural(count, 'time')}" for name, count in counts.items()]

    def _errors(self, known: list[dict[str, Any]]) -> str:
        """Those of all learners together, and had each its own samples only; or each in its own unit."""
        if not any(self._error(status, "rmse") is not None for status in known):
            return f"RMSE {NONE} ({self.awaited})"
        if self.has_one_target:
            together, alone = (with_unit(self._mean(known, key), self.unit) for key in ERRORS)
            return f"RMSE {together} (alone {alone})"
        shown = {name: self._error(status, "rmse") for name, status in self.status.items() if status}
        return "RMSE " + ", ".join(f"{name} {number(error)}" for name, error in shown.items())

    def _error(self, status: dict[str, Any], key: str) -> float | None:
        """A learner's error in the unit that is shown; None before its first sample."""
        value = status.get(key)
        return None if value is None else self.scale * float(value)

    def _mean(self, known: list[dict[str, Any]], key: str) -> float | None:
        """The root of the mean square; None where a learner does not know its own."""
        found = [self._error(status, key) for status in known]
        values = [value for value in found if value is not None]
        return math.sqrt(np.mean(np.square(values))) if len(values) == len(found) else None

    def facts(self, name: str) -> dict[str, Any]:
        """How a learner does, for programs."""
        starts = self.network.revivals[name].count
        return {"name": name, **{key: self.status[name].get(key) for key in FACTS}, "started_again": starts}

    @property
    def table(self) -> Any:
        """The same, and a row for each learner."""
        of = f"\n{self.unit}" if self.unit else ""
        heads = ("learner", "round", f"RMSE{of}", f"alone{of}", *HEADS)
        errors = [[self._error(self.status[name], key) for name in self.network.names] for key in ERRORS]
        cells = zip(*map(column, errors), strict=True)
        rows = [self._row(name, each) for name, each in zip(self.network.names, cells, strict=True)]
        title = f"{self.title}{'; ' * bool(self.title)}{self.line.strip()}"
        ends = [text(f"{name} ended: {self.network.tail(name)}") for name in self.dead]
        sheet = Sheet(title, heads, rows, frozenset({0, 6}), spare=(5, 6, 7, 4), legend=LEGEND)
        return need("rich.console", "cli").Group(sheet, *ends)

    def _row(self, name: str, errors: Sequence[str]) -> list[str]:
        status = self.status[name]
        if name in self.dead or not status:
            return [name, "ended" if name in self.dead else "starting", *[NONE] * 6]
        near = f"{status['up']}/{status['neighbours']}"
        names, k = weight_names(self.models[name]), int(status["kernel"])
        top = f"{names[k] if k < len(names) else f'weight {k + 1}'} {percent(status['weight'])}"
        traffic = show.size(status["bytes_sent"])
        return [name, str(status["round"]), *errors, near, str(status["trusted"]), top, traffic]


Shower = Callable[[View], None]


@contextlib.contextmanager
def shower(as_json: bool) -> Iterator[Shower]:
    """A live table where someone watches, else a line a second on standard error."""
    if not as_json and sys.stdout.isatty() and sys.stderr.isatty():
        with need("rich.live", "cli").Live(auto_refresh=False, console=show.console()) as live:
            yield lambda view: live.update(view.table, refresh=True)
        return
    printed_at = time.monotonic()

    def line(view: View) -> None:
        nonlocal printed_at
        if time.monotonic() - printed_at >= LINE:
            printed_at = time.monotonic()
            print(view.line, file=sys.stderr, flush=True)

    yield line


def watch(view: View, shown: contextlib.AbstractContextManager[Shower], each: Callable[[], object]) -> None:
    """Start all, show them until all have ended, and leave none running; `each` is called at each look."""
    network = view.network
    with Stops() as stops:
        with network, shown as display:
            network.start()
            while not network.is_over and not stops.number and not view.has_failed:
                time.sleep(LOOK)
                view.look()
                each()
                display(view)
        stops.exit_if_signalled()
    failed = network.given_up if view.outlives else view.dead
    if failed:
        _give_up(network, failed[0], view.logs)


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


#: Options that go with a folder; all others say something about an experiment, which a folder is not.
DEFAULTS = {"page": live.ANYWHERE, "transport": "zenoh"}
OURS = ("command", "act", "experiment", "seconds", "json")


def run_folder(args: argparse.Namespace) -> None:
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
    configs = _configs(folder, names)
    network = Fleet(folder, names, environ=_environment())
    view = View(network, {name: each.model for name, each in configs.items()})
    if leads := sorted({each.horizon for each in configs.values() if each.horizon is not None}):
        view.awaited = f"the first forecast is judged {leads[0].names[0]} after it was made"

    def stop_in_time() -> None:
        if seconds is not None and view.seconds > seconds:
            network.stop()

    try:
        watch(view, shower(args.json), stop_in_time)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
    view.look()
    if args.json:
        show.document({"folder": str(folder), "learners": [view.facts(name) for name in names]})
    else:
        show.console().print(view.table)


def _configs(folder: Path, names: list[str]) -> dict[str, Any]:
    """The settings of each agent; refuses what it would refuse, and tells where its page is."""
    from ..agent.config import load

    configs = {}
    for name in names:
        config = load(folder / f"{name}.toml", {})
        http = config.http
        if http.address is not None and fleet.is_used(*http.address):
            raise InputError(
                f"{http.listen}, the page of {name}, is in use or not of this machine; expected a free port; "
                f"stop what uses it, or change http in {folder / name}.toml"
            )
        print(f"{name}: {f'http://{http.listen}/' if http.listen else 'no page'}", file=sys.stderr)
        configs[name] = config
    return configs


BROKER = "127.0.0.1:1883"
#: Options of models that this command has.
SETTINGS = ("size", "step")
#: One busy machine for all: no learner should be given up because it had to wait for the processor.
PATIENT = {"DOMKL_ROUNDS_DEADLINE": "60", "DOMKL_ROUNDS_START": "120", "DOMKL_CHECKPOINT_SYNC": "false"}
#: Samples at a rate are gone once they were fed, so that no state helps.
FORGETFUL = {"DOMKL_CHECKPOINT_DIRECTORY": ""}
#: Their logs tell the page which inputs matter.
TOLD = {"DOMKL_LOG_INPUTS": "10"}
STATE = {"checkpoint": {"directory": "{name}.state"}}
TRAFFIC = ("messages_sent", "bytes_sent", "bytes_received", "rounds_incomplete")


def add_to(commands: Any) -> None:
    """Declare the command."""
    text = "run a whole network on this machine, a process for each learner"
    add = declare(commands, "up", text, run)
    text = "an experiment's TOML file or name (default: three-stations), or a folder of domkl init"
    add("experiment", nargs="?", metavar="WHAT", help=text)
    options.add_data(add)
    add("--seconds", type=float, metavar="S", help="stop the agents of a folder after so long")
    add("--rounds", type=int, metavar="N", help="stop after N rounds")
    text = "how messages travel (default: zenoh)"
    add("--transport", choices=["zenoh", "mqtt"], default="zenoh", help=text)
    add("--broker", metavar="HOST:PORT", help=f"with --transport mqtt (default: {BROKER})")
    add("--graph", help=f"{', '.join(graph.SHAPES)}, paper1 .. paper4, or links: EWR-JFK,JFK-LGA")
    options.add_model(add, SETTINGS)
    add("--folder", metavar="DIR", help="keep configurations, streams, logs and predictions there")
    add("--no-start", action="store_true", help="write the folder, start nothing")
    text = "samples a second for each learner (default: all it can take)"
    add("--rate", type=float, metavar="R", help=text)
    text = "where a page shows the network while it learns (default: a free port)"
    add("--page", default=live.ANYWHERE, metavar="HOST:PORT", help=text)


def run(args: argparse.Namespace) -> None:
    """Lay the network out, let it learn, and compare it with the simulator."""
    need("msgspec", "agent")
    if args.experiment is not None and Path(args.experiment).is_dir():
        run_folder(args)
        return
    chosen = _chosen(args)
    if args.check:
        inspect.check(chosen, args.json)
        return
    transport = _transport(args)
    chosen, source = trial.suited(chosen, trial.prepare(chosen, args.rounds))
    with _folder(args) as folder:
        names = fleet.lay_out(folder, chosen, source, transport, STATE)
        _check(folder, names)
        if args.no_start:
            _tell_how_to_start(args, folder, names)
            return
        start = time.monotonic()
        variables = PATIENT | TOLD | ({} if args.rate is None else FORGETFUL)
        network = Fleet(folder, names, environ=_environment(variables), rate=args.rate)
        view = View.of(network, chosen, source)
        page = live.FleetPage(network, chosen, source)
        with live.opened(page.feed, args.page):
            watch(view, shower(args.json), lambda: page.look(view.status, view.dead))
        seconds = round(time.monotonic() - start, 3)
        facts = document(network, chosen, source, args.transport)
    notes = [*source.notes, *trial.unused(source)]
    facts |= {"folder": args.folder, "seconds": seconds, "notes": notes}
    if args.json:
        show.document(facts)
    else:
        _print(facts)


def _chosen(args: argparse.Namespace) -> Experiment:
    """The experiment, with the data, model and graph that the options name."""
    if args.seconds is not None:
        raise InputError("--seconds is for a folder of domkl init; expected --rounds N here; leave it out")
    known = experiment.load(args.experiment or "three-stations")
    chosen = options.choose_model(args, options.settle(args, known), SETTINGS)
    return dataclasses.replace(chosen, graphs=(args.graph or chosen.graphs[0],))


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
    from ..agent.transports.security import is_local, parse

    host, port = parse(broker)
    if not is_local(broker):
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
    """The one that was asked for, if it is empty; else a temporary one."""
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


def _environment(more: Mapping[str, str] = {}) -> dict[str, str]:
    """Without variables that are meant for one agent: they would make all learners the same."""
    return {key: value for key, value in os.environ.items() if not key.startswith("DOMKL_")} | {**more}


def _tell_how_to_start(args: argparse.Namespace, folder: Path, names: list[str]) -> None:
    commands = [f"domkl agent {folder / name}.toml" for name in names]
    if args.json:
        show.document({"folder": str(folder), "learners": names, "commands": commands})
        return
    print(f"{folder} is ready. Start each learner in a terminal of its own:")
    print("\n".join(f"  {command}" for command in commands))


def document(network: Fleet, chosen: Experiment, source: Source, transport: str) -> dict[str, Any]:
    """How well each learner did, beside the simulator on the same data."""
    linked = trial.network(chosen.graphs[0], source.split.names)
    run = trial.learn(chosen.model, source.split, linked)
    y = losses.labels(chosen.model.loss_function, source.split.y)
    alone = trial.alone(chosen.model, source.split, run)
    predicted = [_predicted(network, name, y.shape[1]) for name in network.names]
    learners = [
        {
            "name": name,
            "neighbours": [network.names[i] for i in linked.neighbours[j]],
            **_errors(predicted[j], run.y_hat[j], y[j], source.scale),
            "rmse_alone": math.sqrt(source.scale * alone[j]),
            **{key: network.status(name).get(key) for key in TRAFFIC},
        }
        for j, name in enumerate(network.names)
    ]
    same = all(learner["same_bits"] for learner in learners)
    return {**_about(chosen, source, linked), "transport": transport, "learners": learners, "same_bits": same}


def _about(chosen: Experiment, source: Source, linked: graph.Graph) -> dict[str, Any]:
    edges = [[str(linked.names[a]), str(linked.names[b])] for a, b in linked.edges]
    return {
        "experiment": chosen.name,
        "title": chosen.title,
        "dataset": source.name,
        "unit": source.unit,
        "scale": float(source.scale),
        "rounds": int(source.split.y.shape[1]),
        "delay": int(source.split.one_delay),
        "graph": {"name": chosen.graphs[0], "note": linked.note, "edges": edges},
        "model": chosen.model.table,
    }


def _errors(y_hat: Array, simulated: Array, y: Array, scale: float) -> dict[str, Any]:
    mse, expected = (float(((each - y) ** 2).mean()) for each in (y_hat, simulated))
    return {
        "mse": mse,
        "rmse": math.sqrt(scale * mse),
        "rmse_simulated": math.sqrt(scale * expected),
        "same_bits": bool(np.array_equal(y_hat, simulated)),
    }


def _predicted(network: Fleet, name: str, T: int) -> Array:
    found = [record["y_hat"] for record in network.predictions(name)]
    if len(found) < T:
        raise InputError(
            f"learner {name} predicted {len(found)} of {T} samples; expected all, so it was stopped; "
            "start again"
        )
    return np.array(found)


def _print(facts: dict[str, Any]) -> None:
    console = show.console()
    if console.is_terminal:
        console.print()  # below the live table
    show.sheet(_results(facts))
    if len(facts["learners"]) > 1:
        console.print(f"\n{_verdict(facts)}")
    console.print(f"\nThe same bits as `domkl run --model {facts['model']['kind']}`: {_same(facts)}.")
    console.print(f"{facts['rounds']} rounds in {facts['seconds']:.1f} s, the start included.")
    for note in facts["notes"]:
        console.print(f"  {note}", soft_wrap=True, markup=False)
    if facts["folder"] is not None:
        console.print(f"Configurations, streams, logs and predictions: {facts['folder']}", soft_wrap=True)


def _same(facts: dict[str, Any]) -> str:
    """Yes or no, and how many rounds explain a no: in the simulator no message is ever too late."""
    if facts["same_bits"]:
        return "yes"
    missed = {one["name"]: one["rounds_incomplete"] for one in facts["learners"] if one["rounds_incomplete"]}
    if not missed:
        return "no, although every round had the messages of all neighbours"
    rounds = ", ".join(f"{name} {show.count(count)}" for name, count in missed.items())
    return f"no, as a neighbour was too slow for some rounds ({rounds})"


def _verdict(facts: dict[str, Any]) -> str:
    """Whether learning together paid."""
    errors = ([learner[name] for learner in facts["learners"]] for name in ("rmse", "rmse_alone"))
    together, alone = (math.sqrt(np.mean(np.square(each))) for each in errors)
    return together_or_alone(together, alone, facts["unit"])


def _results(facts: dict[str, Any]) -> Sheet:
    learners = facts["learners"]
    unit = f"\n{facts['unit']}" if facts["unit"] else ""
    errors = [[learner[key] for learner in learners] for key in ("rmse", "rmse_simulated", "rmse_alone")]
    cells = zip(*map(column, errors), strict=True)
    rows = [
        [
            learner["name"],
            *each,
            show.count(learner["messages_sent"]),
            *(show.size(learner[key]) for key in ("bytes_sent", "bytes_received")),
        ]
        for learner, each in zip(learners, cells, strict=True)
    ]
    named = (f"over {facts['transport']}", "domkl run", "alone")
    best = [(i, 1 + c) for i, row in enumerate(zip(*errors, strict=True)) for c in least_of(row)]
    return Sheet(
        "Root mean squared error (RMSE) of processes and of the simulator",
        ("learner", *(f"{name}{unit}" for name in named), "messages", "sent", "received"),
        rows,
        bold=frozenset(best),
        spare=(6, 4, 5),
        legend={
            named[0]: "a process for each learner",
            "domkl run": "the simulator on the same samples",
            "alone": "the same learners without neighbours",
            "messages": "sent to all neighbours",
            "bold": "the least of a row",
        },
    )
