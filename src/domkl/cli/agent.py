"""`domkl agent`: one device of a network."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import os
import sys
from typing import Any

from ..base.errors import InputError
from ..base.extras import need
from ..datasets.columns import Columns
from ..learning import settings
from ..learning.settings import Auto, Paper
from . import show

#: What the file may hold; without importing an agent, which needs more than the parser does.
SETTINGS = """\
settings of CONFIG, none of which is needed by itself (all of them, explained, are in the example):
  network, name, neighbours, inputs, payload, dtype
  [model]         kind = "auto" (the default): size, loss, seed, start, forgetting,
                    outliers, bounds
                  kind = "paper": loss, reg, delta, hedge, step, memory,
                    [model.kernels] family, D, seed, sigma2, read_as,
                    [model.rates] rho, eta, eta_g, or horizon with kappa, kappa_g
                  path: instead, a model written by hand_over()
  [columns]       target, features, drop, time, learner, kinds, categories, labels, positive, paths, na,
                  records, decimal, separator, missing, hashed, calendar
  [stream]        kind, path, follow, topic, topics, trigger, within, broker, user, password,
                  password_file, ca, insecure, low, high, target_low, target_high, journal, dead_letters
  [transport]     kind, listen, connect, announce, discover, broker, user, password, password_file,
                  ca, cert, key, revoked, insecure, max_bytes, inbox
  [rounds]        mode, deadline, start, resend
  [checkpoint]    directory, every_rounds, every_seconds, sync
  [output]        predictions, topic, retain, url, coverage
  [http]          listen, allow_remote
  [log]           level, format
variables go before the file: DOMKL_<KEY>, DOMKL_<SECTION>_<KEY>, DOMKL_MODEL_RATES_<KEY>; lists have commas
"""


def add_to(commands: Any) -> None:
    """Declare the command."""
    text = "run one device: learn from a stream, exchange updates with neighbours"
    command = commands.add_parser(
        "agent",
        help=text,
        description=f"{text.capitalize()}.",
        epilog=SETTINGS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = command.add_argument
    add("config", metavar="CONFIG", help="a TOML file; variables DOMKL_<SECTION>_<KEY> go before it")
    text = "print what CONFIG and the variables say, and look at the first rows of a file; start nothing"
    add("--check", action="store_true", help=text)
    add("--json", action="store_true", help="with --check: one JSON document on standard output")
    command.set_defaults(act=run)


def run(args: argparse.Namespace) -> None:
    """Check, or learn until the stream ends or the process is asked to stop."""
    need("msgspec", "agent")
    if args.json and not args.check:
        raise InputError("--json is given without --check; expected both; add --check or leave --json out")
    from ..agent import load

    config = load(args.config)
    if args.check:
        check(config, args.json)
        return
    from ..agent.serve import serve

    run_in_batches()
    asyncio.run(serve(config))


def run_in_batches() -> None:
    """Ask Linux not to interrupt a running thread when another one wakes: a round has a dozen wake-ups.

    Where several agents share a core they do up to a third more rounds; alone on a core nothing changes.
    Threads inherit it, so this comes before the transport starts any. Other policies are somebody's choice.
    """
    if sys.platform == "linux" and os.sched_getscheduler(0) == os.SCHED_OTHER:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def check(config: Any, as_json: bool) -> None:
    """Print what an agent with this configuration would be, and whether it could use its first rows."""
    from ..agent import transports
    from ..agent.config import redacted
    from ..agent.making import make
    from ..agent.preview import preview

    for each in filter(None, (config.transport_settings(), config.source_settings())):
        transports.check(each)
        transports.make(each)
    config, learner = make(config)
    found, rows = understood(redacted(config)), preview(config)
    looked = {} if rows is None else {"read": rows.read, "used": rows.used, "refused": rows.top()}
    if as_json:
        show.document({**found, "fingerprint": learner.fingerprint, "first_rows": looked})
        return
    print(f"{config.name} of {config.network}: the configuration is right")
    sections = {name: value for name, value in found.items() if isinstance(value, dict)}
    print(in_line({name: value for name, value in found.items() if name not in sections}))
    for name, section in sections.items():
        print(f"[{name}] {in_line(section)}")
    if listen := config.transport_settings().listen:
        print(f"listens on {', '.join(listen)}")
    if rows is not None:
        print(f"the first rows of {config.stream.path}: {rows.read} read, {rows.used} can be used")
        for reason in rows.top():
            print(f"refused: {reason}")
    elif config.stream.path:
        print(f"{config.stream.path} is not there; its rows were not looked at")
    print(f"fingerprint {learner.fingerprint}: the same at every learner")


def understood(config: Any) -> dict[str, Any]:
    """A configuration as the tables of a file, defaults included."""
    about = {name: _table(value) for name, value in vars(config).items()}
    if isinstance(config.model, Auto | Paper):
        about["dtype"] = config.dtype_for(config.model)
    return about


def _table(value: Any) -> Any:
    if isinstance(value, Auto | Paper):
        return settings.describe(value)
    if isinstance(value, Columns):
        return value.table()
    return vars(value) if dataclasses.is_dataclass(value) else value


def in_line(table: dict[str, Any], prefix: str = "") -> str:
    """The keys of a table that are set, as TOML has them.

    >>> in_line({"kind": "paper", "reg": None, "rates": {"rho": 1.0}})
    'kind = "paper", rates.rho = 1.0'
    """
    parts = []
    for key, value in table.items():
        if isinstance(value, dict):
            parts.append(in_line(value, f"{prefix}{key}."))
        elif value not in (None, "", ()):
            parts.append(f"{prefix}{key} = {json.dumps(value)}")
    return ", ".join(parts)
