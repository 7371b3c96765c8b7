"""`domkl agent`: one device of a network."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..base.errors import InputError
from ..base.extras import need
from ..base.secret import exposed
from ..base.words import visible
from ..lab.sheet import Sheet
from . import declare, show

#: A file with every setting, explained; read without importing an agent, which needs more than the parser.
EXAMPLE = Path(__file__).parent.parent / "agent" / "agent.toml"


def _settings() -> str:
    """The example as the end of the help."""
    text = EXAMPLE.read_text(encoding="utf-8")
    return f"Every setting of CONFIG, as `domkl agent --example` prints it:\n\n{text}"


def add_to(commands: Any) -> None:
    """Declare the command."""
    text = "run one device: learn from a stream, exchange updates with neighbours"
    add = declare(commands, "agent", text, run, epilog=_settings(), json="with --check: ")
    text = "a TOML file; variables DOMKL_<SECTION>_<KEY> go before it"
    add("config", nargs="?", metavar="CONFIG", help=text)
    text = "print what CONFIG and the variables say, and look at the first rows of a file; start nothing"
    add("--check", action="store_true", help=text)
    add("--example", action="store_true", help="print a file with every setting, explained; start nothing")
    text = "take the learner out of Home Assistant; start nothing"
    add("--remove-entities", action="store_true", help=text)


def run(args: argparse.Namespace) -> None:
    """Check, or learn until the stream ends or the process is asked to stop."""
    if args.example:
        print(EXAMPLE.read_text(encoding="utf-8"), end="")
        return
    need("msgspec", "agent")
    if args.config is None:
        raise InputError("no CONFIG is given; expected a TOML file; make some with domkl init")
    if args.json and not args.check:
        raise InputError("--json is given without --check; expected both; add --check or leave --json out")
    from ..agent import load

    config = load(args.config)
    warnings = exposed(config.secret_files(args.config))
    if args.check:
        check(config, args.json, warnings)
        return
    if args.remove_entities:
        asyncio.run(_remove_entities(config))
        return
    from ..agent.serve import serve

    run_in_batches()
    asyncio.run(serve(config, warnings))


async def _remove_entities(config: Any) -> None:
    from ..agent.topics import withdraw

    if not config.output.home_assistant:
        raise InputError(
            "--remove-entities is given and [output] home_assistant is not true; expected the file that made "
            "them; set it, remove the entities, then leave it out"
        )
    await withdraw(config)
    print(f"{config.name} of {config.network}: removed from Home Assistant")


def run_in_batches() -> None:
    """Ask Linux not to interrupt a running thread when another one wakes: a round has a dozen wake-ups.

    Where several agents share a core they do up to a third more rounds; alone on a core nothing changes.
    Threads inherit it, so this comes before the transport starts any. Other policies are somebody's choice.
    """
    if sys.platform == "linux" and os.sched_getscheduler(0) == os.SCHED_OTHER:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def check(config: Any, as_json: bool, warnings: Sequence[str] = ()) -> None:
    """Print what an agent with this configuration would be, and whether it could use its first rows."""
    from ..agent import transports
    from ..agent.making import make
    from ..agent.streams import preview

    for each in filter(None, (config.transport_settings(), config.source_settings())):
        transports.check(each)
        transports.make(each)
    config, learner = make(config)
    found, rows = understood(config), preview(config)
    looked = {} if rows is None else {"read": rows.read, "used": rows.used, "refused": rows.top()}
    if as_json:
        show.document(
            {**found, "fingerprint": learner.fingerprint, "first_rows": looked, "warnings": [*warnings]}
        )
        return
    title = f"{config.name} of {config.network}: the configuration is right"
    show.sheet(Sheet(title, ("section", "settings"), _sections(found), frozenset({0, 1})))
    if listen := config.transport_settings().listen:
        print(f"listens on {', '.join(listen)}")
    if rows is not None:
        print(f"the first rows of {config.stream.shown}: {rows.read} read, {rows.used} can be used")
        for reason in rows.top():
            print(f"refused: {visible(reason)}")
    elif config.stream.path:
        print(f"{config.stream.path} is not there; its rows were not looked at")
    for fact in warnings:
        print(f"warning: {visible(fact)}")
    print(f"fingerprint {learner.fingerprint}: the same at every learner")


def _sections(found: dict[str, Any]) -> list[list[str]]:
    """A row for each section that has settings; those above all sections first."""
    top = {name: value for name, value in found.items() if not isinstance(value, dict)}
    rows = {"": in_line(top)} | {
        f"[{name}]": in_line(value) for name, value in found.items() if isinstance(value, dict)
    }
    return [[name, text] for name, text in rows.items() if text]


def understood(config: Any) -> dict[str, Any]:
    """A configuration as the tables of a file, defaults included."""
    about = {name: _table(value) for name, value in vars(config).items()}
    if hasattr(config.model, "precision"):
        about["dtype"] = config.dtype_for(config.model)
    return about


def _table(value: Any) -> Any:
    table = getattr(value, "table", None)  # of a model's settings, or of columns
    if table is not None:
        return table() if callable(table) else table
    return vars(value) if dataclasses.is_dataclass(value) else value


def in_line(table: dict[str, Any], prefix: str = "") -> str:
    """The keys of a table that are set, as TOML has them.

    >>> in_line({"kind": "paper", "reg": None, "rates": {"rho": 1.0}})
    'kind = "paper", rates.rho = 1.0'
    """
    parts = []
    for key, value in table.items():
        if isinstance(value, dict):
            parts.append(in_line(value, f"{prefix}{visible(key)}."))
        elif value not in (None, "", ()):
            parts.append(f"{prefix}{visible(key)} = {json.dumps(value)}")
    return ", ".join(parts)
