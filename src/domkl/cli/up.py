"""`domkl up`: a whole network on this machine, a process for each learner, watched while it learns."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import math
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..base import checks
from ..base.errors import InputError
from ..base.extras import need
from ..base.sheet import Sheet, least_of
from ..base.types import Array
from ..base.words import column
from ..exchange import graph
from ..lab import experiment, fleet, trial
from ..lab.experiment import Experiment
from ..lab.report.facts import together_or_alone
from ..lab.trial import Source
from ..learning import losses, settings
from . import folder_view, inspect, live, models, own, page, show

BROKER = "127.0.0.1:1883"
#: Options of models that this command has.
SETTINGS = ("size", "step", "memory")
#: One busy machine for all: no learner should be given up because it had to wait for the processor.
PATIENT = {"DOMKL_ROUNDS_DEADLINE": "60", "DOMKL_ROUNDS_START": "120", "DOMKL_CHECKPOINT_DIRECTORY": ""}
#: Their logs tell the page which inputs matter.
TOLD = {"DOMKL_LOG_INPUTS": "10"}
STATE = {"checkpoint": {"directory": "{name}.state"}}
TRAFFIC = ("messages_sent", "bytes_sent", "bytes_received", "rounds_incomplete")


def add_to(commands: Any) -> None:
    """Declare the command."""
    text = "run a whole network on this machine, a process for each learner"
    command = commands.add_parser("up", help=text, description=f"{text[0].upper()}{text[1:]}.")
    add = command.add_argument
    add(
        "experiment",
        nargs="?",
        metavar="WHAT",
        help="an experiment's TOML file or name (default: three-stations), or a folder of domkl init",
    )
    own.add_to(add)
    add("--seconds", type=float, metavar="S", help="stop the agents of a folder after so long")
    add("--rounds", type=int, metavar="N", help="stop after N rounds")
    add(
        "--transport", choices=["zenoh", "mqtt"], default="zenoh", help="how messages travel (default: zenoh)"
    )
    add("--broker", metavar="HOST:PORT", help=f"with --transport mqtt (default: {BROKER})")
    add("--graph", help=f"{', '.join(graph.SHAPES)}, paper1 .. paper4, or links: EWR-JFK,JFK-LGA")
    models.add_to(add, SETTINGS)
    add("--folder", metavar="DIR", help="keep configurations, streams, logs and predictions there")
    add("--no-start", action="store_true", help="write the folder, start nothing")
    add(
        "--rate", type=float, metavar="R", help="samples a second for each learner (default: all it can take)"
    )
    add(
        "--page",
        default=page.ANYWHERE,
        metavar="HOST:PORT",
        help="where a page shows the network while it learns (default: a free port)",
    )
    add("--json", action="store_true", help="one JSON document on standard output")
    command.set_defaults(act=run)


def run(args: argparse.Namespace) -> None:
    """Lay the network out, let it learn, and compare it with the simulator."""
    need("msgspec", "agent")
    if args.experiment is not None and Path(args.experiment).is_dir():
        folder_view.run(args)
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
        network = fleet.Fleet(folder, names, environ=_environment(), rate=args.rate)
        view = live.View(network, chosen, source)
        with page.opened(view.page.feed, args.page):
            live.watch(network, view, live.shower(args.json))
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
    chosen = models.choose(args, own.settle(args, known), SETTINGS)
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


def _environment() -> dict[str, str]:
    """Without variables that are meant for one agent: they would make all learners the same."""
    return {key: value for key, value in os.environ.items() if not key.startswith("DOMKL_")} | PATIENT | TOLD


def _tell_how_to_start(args: argparse.Namespace, folder: Path, names: list[str]) -> None:
    commands = [f"domkl agent {folder / name}.toml" for name in names]
    if args.json:
        show.document({"folder": str(folder), "learners": names, "commands": commands})
        return
    print(f"{folder} is ready. Start each learner in a terminal of its own:")
    print("\n".join(f"  {command}" for command in commands))


def document(network: fleet.Fleet, chosen: Experiment, source: Source, transport: str) -> dict[str, Any]:
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
        "delay": int(source.split.delay),
        "graph": {"name": chosen.graphs[0], "note": linked.note, "edges": edges},
        "model": settings.describe(chosen.model),
    }


def _errors(y_hat: Array, simulated: Array, y: Array, scale: float) -> dict[str, Any]:
    mse, expected = (float(((each - y) ** 2).mean()) for each in (y_hat, simulated))
    return {
        "mse": mse,
        "rmse": math.sqrt(scale * mse),
        "rmse_simulated": math.sqrt(scale * expected),
        "same_bits": bool(np.array_equal(y_hat, simulated)),
    }


def _predicted(network: fleet.Fleet, name: str, T: int) -> Array:
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
