"""`domkl init`: a short file for each device, from CSV files, topics, or answers to a few questions."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import os
import re
import secrets
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from ..base import checks
from ..base.errors import DataError, InputError
from ..base.extras import need
from ..base.words import visible
from ..datasets import Columns, guess, readers
from ..datasets.cells import is_number
from ..datasets.readers import queries
from ..lab import fleet
from ..lab.fleet import DeviceFile
from ..learning import alarms, conformal
from ..learning.horizon import horizon
from . import declare, options, show
from .options import SECRET

Found: TypeAlias = "dict[str, list[dict[str, Any]]]"
#: Readings of a topic that are enough, and seconds without a new topic after which none is expected.
ENOUGH, QUIET = 5, 2.0
#: The most topics, readings of each, and bytes of all.
MOST_TOPICS, MOST_READINGS, MOST_BYTES = 200, 1000, 2**26


def listen(patterns: Sequence[str], settings: dict[str, Any], seconds: float) -> Found:
    """Readings by topic, from `seconds` at most."""
    need("paho.mqtt.client", "mqtt")
    found = asyncio.run(_listen(patterns, settings, seconds))
    if not found:
        raise DataError(
            f"no JSON object came on {', '.join(patterns)} within {seconds:g} s; expected readings; "
            "start the sensors, or wait longer with --wait SECONDS"
        )
    return found


async def _listen(patterns: Sequence[str], settings: dict[str, Any], seconds: float) -> Found:
    from ..agent import transports

    name = f"init-{secrets.token_hex(4)}"
    about = transports.TransportSettings(
        "mqtt", "domkl", name, topics=tuple(patterns), is_guest=True, **settings
    )
    guest = transports.make(about)
    await guest.open()
    found: Found = {}
    end = time.monotonic() + seconds
    newest, room = time.monotonic(), MOST_BYTES
    try:
        for pattern in patterns:
            guest.subscribe(pattern)
        while (now := time.monotonic()) < end and not _is_enough(found, now - newest):
            try:
                messages = await asyncio.wait_for(guest.receive(), min(0.2, end - now))
            except asyncio.TimeoutError:
                continue
            before = len(found)
            for topic, payload in messages:
                room -= len(payload)
                if room > 0:
                    _note(found, topic, payload)
            newest = time.monotonic() if len(found) > before else newest
    finally:
        await guest.close()
    return found


def _is_enough(found: Found, quiet: float) -> bool:
    return bool(found) and quiet > QUIET and all(len(rows) >= ENOUGH for rows in found.values())


def _note(found: Found, topic: str, payload: bytes) -> None:
    try:
        row = json.loads(payload)
    except (ValueError, RecursionError):
        return
    if isinstance(row, dict) and (topic in found or len(found) < MOST_TOPICS):
        rows = found.setdefault(topic, [])
        if len(rows) < MOST_READINGS:
            rows.append(row)


def names_of(topics: Sequence[str]) -> dict[str, str]:
    """A device's name for each topic: the levels in which topics of one length differ.

    >>> names_of(["sensors/ewr/env", "sensors/jfk/env"]), names_of(["home/kitchen"])
    ({'sensors/ewr/env': 'ewr', 'sensors/jfk/env': 'jfk'}, {'home/kitchen': 'home-kitchen'})
    """
    levels = [topic.split("/") for topic in topics]
    alike = len({len(each) for each in levels}) == 1 and len(levels) > 1
    differ = [i for i in range(len(levels[0])) if len({each[i] for each in levels}) > 1] if alike else []
    parts = {topic: [each[i] for i in differ] or each for topic, each in zip(topics, levels, strict=True)}
    names = {topic: safe_name("-".join(filter(None, each))) for topic, each in parts.items()}
    if len(set(names.values())) < len(names):
        raise InputError(f"topics {', '.join(topics)} give no different names; expected some; choose others")
    return names


def safe_name(name: str) -> str:
    """A name that a learner may have."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-")[:64] or "device"


FOLDER = "agents"
#: Rows of each file that are looked at.
ROWS = 1000
#: Seconds to listen, and where predictions go, with topics.
WAIT, OUTPUT = 15.0, "predictions/{name}"
#: Options that only topics have.
OF_TOPICS = ("broker", "user", "password_file", "ca", "insecure", "wait", "output_topic", "home_assistant")
TEXT = "make agent files from data files, topics, or answers to a few questions"
EXAMPLES = f"""\
examples:
  domkl init north.csv south.csv --target temp
  domkl init --broker 10.0.0.5:8883 --ca system --user me --topic 'sensors/+/env' --target temp
  domkl init                       asks what it needs to know

Each source or topic becomes a device with a file of a few lines in {FOLDER}/ (--folder); what the
columns are is found out from their first rows, and is the same at every device. A password is asked for, or
read from the variable {SECRET}; it goes to {FOLDER}/{fleet.PASSWORD}, which only you can read.
"""


def add_to(commands: Any) -> None:
    """Declare the command."""
    add = declare(commands, "init", TEXT, run, epilog=EXAMPLES)
    text = "of each device: a CSV, JSON lines or Parquet file, sqlite:FILE or postgresql://..."
    add("files", nargs="*", metavar="SOURCE", help=text)
    add("--query", metavar="SELECT", help="rows of a database to read (default: its only table)")
    add("--folder", default=FOLDER, metavar="DIR", help="a new folder for the files (default: %(default)s)")
    add("--target", metavar="COLUMN", help="what to predict")
    text = (
        "forecast its values to come, so far ahead: 1h, 1h..24h, 30min,6h, 24 rows (default: the value that "
    )
    add("--horizon", metavar="H", help=f"{text}belongs to a reading's other columns)")
    add("--features", metavar="A,B", help="columns to predict from (default: all others)")
    add("--drop", metavar="A,B", help="columns to leave out")
    add("--time", metavar="COLUMN", help="when a reading was, or two columns: date,time (default: guessed)")
    add("--kind", metavar="COLUMN=KIND", action="append", help="what a column is, as in domkl inspect")
    add("--path", metavar="COLUMN=PATH", action="append", help="where a column is in nested JSON: a.0.b")
    add("--follow", action="store_true", help="wait for more rows, as tail -F does")
    add("--topic", action="append", metavar="TOPIC", help="topic of a device, or of several: sensors/+/env")
    add("--broker", metavar="HOST:PORT", help="MQTT broker of the topics")
    add("--user", help="name at the broker")
    add("--password-file", metavar="FILE", help="a file with the password (default: ask for it)")
    add("--ca", metavar="FILE", help="certificates that the broker is trusted by; system: this machine's")
    add("--insecure", action="store_true", help="allow a broker on another machine without TLS")
    add("--wait", type=float, metavar="S", help=f"listen for at most so many seconds (default: {WAIT:g})")
    add("--graph", help="who is whose neighbour: ring, complete, links a-b,b-c (default: all, or a ring)")
    add("--output-topic", metavar="TOPIC", help=f"where predictions go (default: {OUTPUT})")
    text = "part of readings within low and high (default: 0.9)"
    add("--coverage", type=float, default=0.9, metavar="C", help=text)
    text = f"the first device's page (default: {fleet.PORT}, or the next that are free)"
    add("--port", type=int, metavar="P", help=text)
    add("--alarm-rate", type=float, metavar="R", help="also alarms, and how often a false one may come")
    add("--unit", help="of the target, for the page and Home Assistant: °C, kW")
    add("--device-class", metavar="CLASS", help="one of Home Assistant's, such as temperature or power")
    add("--home-assistant", action="store_true", help="let predictions appear in Home Assistant")


def run(args: argparse.Namespace) -> None:
    """Ask what is missing, look at the first rows, write the files."""
    need("msgspec", "agent")
    folder = Path(args.folder)
    fleet.refuse_used(folder)
    if not args.files and not args.topic:
        _ask(args)
    if bool(args.files) == bool(args.topic):
        raise InputError("files and --topic are both given; expected one of them; leave the other out")
    for option in OF_TOPICS if args.files else ("follow", "query"):
        if getattr(args, option):
            flag, what = option.replace("_", "-"), "files" if args.files else "topics"
            raise InputError(f"--{flag} is given with {what}, which have no use for it; leave it out")
    if not args.target:
        raise InputError("no target is given; expected the column to predict; add --target COLUMN")
    conformal.check_coverage(args.coverage)
    if args.horizon:
        horizon(args.horizon)
    given = options.columns(args, Columns())
    password, network = None, _network(folder.absolute())
    if args.files:
        made, columns = from_files(args.files, given, folder, args.follow, args.query or "")
        common: dict[str, Any] = {}
    else:
        password = _password(args)
        made, columns = from_topics(args, given, password)
        common = {"transport": _broker(args, folder)}
    rate = None if args.alarm_rate is None else alarms.check_rate(args.alarm_rate)
    common["output"] = {
        "coverage": args.coverage,
        **({} if rate is None else {"alarm_rate": rate}),
        **({"home_assistant": True} if args.home_assistant else {}),
        **{key: value for key in ("unit", "device_class") if (value := getattr(args, key))},
    }
    if args.horizon:
        made = [each._replace(stream={**each.stream, "horizon": args.horizon}) for each in made]
    port = fleet.free_from(fleet.PORT, len(made)) if args.port is None else args.port
    texts = fleet.device_files(made, columns, args.graph, common, port, network)
    fleet.write_folder(folder, texts, None if args.password_file else password)
    _tell(args, folder, [device.name for device in made], columns)


def _network(folder: Path) -> str:
    """A name that other folders on this machine hardly have; of the usual folder, that of its parent."""
    return safe_name(folder.parent.name if folder.name == FOLDER else folder.name)


def from_files(
    paths: Sequence[str], given: Columns, folder: Path, follow: bool, query: str = ""
) -> tuple[list[DeviceFile], Columns]:
    """A device for each file or database, and what the columns of all are together."""
    tables = [readers.read(path, given, query, ROWS) for path in paths]
    for table in tables:
        if given.target not in table.columns:
            known = ", ".join(table.columns)
            raise InputError(
                f"{table.name} has no column {given.target!r}; expected one of {known}; fix --target"
            )
    common = {name: None for table in tables for name in table.columns}
    cells = {name: [cell for table in tables for cell in _cells(table, name, given)] for name in common}
    names = [safe_name(options.title_of(path).split(".")[0]) for path in paths]
    made = []
    for name, path, table in zip(names, paths, tables, strict=True):
        stream = {"path": _seen_from(folder, path), **({"follow": True} if follow else {})}
        stream |= {"query": query} if query else {}
        more = {"output": {"predictions": f"{name}.predictions.jsonl"}}
        made.append(DeviceFile(name, stream, more, _dialect(table, given)))
    return made, _understood(cells, dataclasses.replace(given, decimal="."))


def _seen_from(folder: Path, source: str) -> str:
    """A source as a file in `folder` names it."""
    if source.startswith(queries.SQLITE):
        return f"{queries.SQLITE}{os.path.relpath(source.removeprefix(queries.SQLITE), folder)}"
    if not queries.is_database(source):
        return os.path.relpath(source, folder)
    if urlsplit(source).password is not None or "password" in urlsplit(source).query:
        raise InputError(
            "the PostgreSQL address has a password, which everybody could read in the files; expected it in "
            "~/.pgpass; write it there and leave it out here"
        )
    return source


def _dialect(table: readers.Raw, given: Columns) -> dict[str, str]:
    """How one file is written, which others may not be."""
    own_guess = guess.guess(table.columns, given).columns
    return {"separator": str(table.found.get("separator", "")), "decimal": own_guess.decimal}


def _cells(table: readers.Raw, name: str, given: Columns) -> Sequence[Any]:
    """A file's cells of a column, with decimal points."""
    if name not in table.columns:
        return [None] * len(table)
    cells = list(table.columns[name])
    return [_with_point(cell) for cell in cells] if _dialect(table, given)["decimal"] == "," else cells


def _with_point(cell: Any) -> Any:
    return cell.replace(",", ".") if isinstance(cell, str) and is_number(cell, ",") else cell


def from_topics(
    args: argparse.Namespace, given: Columns, password: str | None
) -> tuple[list[DeviceFile], Columns]:
    """A device for each topic on which readings come, and what the columns of all are together."""
    settings = {"broker": args.broker, "user": args.user, "ca": args.ca, "insecure": args.insecure}
    seconds = WAIT if args.wait is None else checks.positive("--wait", args.wait)
    output_topic = args.output_topic or OUTPUT
    print(f"listening for at most {seconds:g} s: {', '.join(args.topic)}", file=sys.stderr)
    found = listen(args.topic, {**settings, "password": password}, seconds)
    rows = [given.flatten(row) for each in found.values() for row in each]
    names = {name: None for row in rows for name in row}
    columns = _understood({name: [row.get(name) for row in rows] for name in names}, given)
    if "{name}" not in output_topic and len(found) > 1:
        raise InputError(
            "--output-topic is the same for all; expected {name} in it; write predictions/{name}"
        )
    made = []
    for topic, name in sorted(names_of(list(found)).items(), key=lambda pair: pair[1]):
        output = {"topic": output_topic.replace("{name}", name), "predictions": ""}
        made.append(DeviceFile(name, {"topic": topic}, {"output": output}))
    return made, columns


def _understood(cells: dict[str, list[Any]], given: Columns) -> Columns:
    found = guess.guess(cells, given)
    found.check()
    return found.columns


def _password(args: argparse.Namespace) -> str | None:
    """The broker's password: from a file, the environment, or asked for."""
    if args.broker is None:
        raise InputError(
            "--topic is given without --broker; expected where the topics are; add --broker HOST:PORT"
        )
    if ":" not in args.broker:
        args.broker = f"{args.broker}:{1883 if args.ca is None else 8883}"
    return options.ask_password(args.user, args.password_file, args.broker)


def _broker(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """The [transport] of all devices: readings, updates and predictions go by the same broker."""
    table: dict[str, Any] = {"kind": "mqtt", "broker": args.broker}
    if args.user is not None:
        given = args.password_file and os.path.relpath(args.password_file, folder)
        table |= {"user": args.user, "password_file": given or fleet.PASSWORD}
    if args.ca is not None:
        table["ca"] = args.ca if args.ca == "system" else os.path.relpath(args.ca, folder)
    return {**table, "insecure": True} if args.insecure else table


def _ask(args: argparse.Namespace) -> None:
    """Ask for what a network needs, if somebody is there to answer."""
    if not sys.stdin.isatty():
        raise InputError("neither files nor --topic are given; expected one of them; see domkl init --help")
    files = input("CSV files, one of each device (empty: topics of an MQTT broker): ").split()
    if files:
        args.files = files
    else:
        args.broker = args.broker or input("Broker [127.0.0.1:1883]: ").strip() or "127.0.0.1:1883"
        args.topic = input("Topics, + stands for any name [sensors/+]: ").split() or ["sensors/+"]
        args.user = args.user or input("User at the broker (empty: none): ").strip() or None
    args.target = args.target or input("Column to predict: ").strip()
    ahead = "How far ahead, such as 1h or 1h..24h (empty: what belongs to the other columns): "
    args.horizon = args.horizon or input(ahead).strip() or None


def _tell(args: argparse.Namespace, folder: Path, names: list[str], columns: Columns) -> None:
    commands = [f"domkl up {folder}", *(f"domkl agent {folder / name}.toml" for name in names)]
    if args.json:
        about = {"folder": str(folder), "devices": names, "columns": columns.table()}
        show.document({**about, "next": commands[0], "commands": commands})
        return
    many = f"{len(names)} devices that predict" if len(names) > 1 else "1 device that predicts"
    print(visible(f"{folder} has {many} {columns.target} from {', '.join(columns.features)}:"))
    print("\n".join(f"  {folder / name}.toml" for name in names))
    where = args.output_topic or OUTPUT if args.topic else f"{folder}/{{name}}.predictions.jsonl"
    print(visible(f"Predictions go to {', '.join(where.replace('{name}', name) for name in names[:3])}"))
    print(f"Start all of them here:  {commands[0]}")
    print(f"or each on its machine:  {commands[1]}")
