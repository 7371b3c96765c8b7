"""`domkl agent`: one device of a network."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from typing import Any

from ..base.extras import need
from ..learning import kernels
from . import show


def add_to(commands: Any) -> None:
    """Declare the command."""
    text = "run one device: learn from a stream, exchange updates with neighbours"
    command = commands.add_parser("agent", help=text, description=f"{text.capitalize()}.")
    add = command.add_argument
    add("config", metavar="CONFIG", help="a TOML file; variables DOMKL_<SECTION>_<KEY> go before it")
    add("--check", action="store_true", help="check the configuration, start nothing")
    add("--json", action="store_true", help="with --check: one JSON document on standard output")
    command.set_defaults(act=run)


def run(args: argparse.Namespace) -> None:
    """Check, or learn until the stream ends or the process is told to stop."""
    need("msgspec", "agent")
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
    """Say what an agent with this configuration would be."""
    from ..agent import transports
    from ..agent.making import make
    from ..learner.learner import Learner

    transports.check(config.transport_settings())
    transports.make(config.transport_settings())
    config, learner = make(config)
    facts = {
        "network": config.network,
        "name": config.name,
        "neighbours": list(config.neighbours),
        "transport": config.transport.kind,
        "preset": config.preset,
        "model": config.model,
        "columns": list(config.stream.columns),
        "kernels": kernels.fingerprint(learner.V) if isinstance(learner, Learner) else None,
        "fingerprint": learner.fingerprint,
    }
    if as_json:
        show.document(facts)
        return
    print(f"{config.name} of {config.network}: the configuration is right")
    print(f"neighbours {', '.join(config.neighbours) or 'none'} over {config.transport.kind}")
    if config.model is not None:
        print(f"model {config.model}: inputs {', '.join(config.stream.columns) or 'by their place'}")
    print(f"fingerprint {learner.fingerprint}: the same at every learner")
