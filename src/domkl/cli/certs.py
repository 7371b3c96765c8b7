"""`domkl certs DIRECTORY NAME ...`: a CA, a certificate for each learner, and a broker's configuration.

`domkl certs DIRECTORY revoke NAME ...` puts certificates on the list of revoked ones.
"""

from __future__ import annotations

import argparse
from typing import Any

from ..agent import certs
from ..base.errors import InputError
from . import declare, show


def add_to(commands: Any) -> None:
    """Declare the command."""
    text = "make the certificates of a network's learners, or revoke some"
    add = declare(commands, "certs", text, act)
    add("directory", metavar="DIRECTORY", help="where the CA and the certificates are, or will be")
    names = "a learner, or `operator`; after the word revoke: those to exclude"
    add("names", nargs="+", metavar="NAME", help=names)
    text = "name or address they are reached at (repeatable; with --broker: the broker's)"
    add("--host", action="append", default=[], help=text)
    add("--days", type=int, default=825, help="how long they are valid (default: 825)")
    text = "also a broker's certificate, mosquitto.conf and mosquitto.acl"
    add("--broker", action="store_true", help=text)
    text = "with --broker: topics of sensors that all may use, such as sensors/# (repeatable)"
    add("--topic", action="append", default=[], metavar="TOPIC", help=text)
    add("--network", default="domkl", help="the network that broker serves (default: domkl)")


def act(args: argparse.Namespace) -> None:
    """Make what is missing, and say what was there; or revoke."""
    if args.names[0] == "revoke":
        _revoke(args)
        return
    made = _make(args)
    if args.json:
        show.document({str(path): "made" if new else "kept" for path, new in made.items()})
        return
    console = show.console()
    for path, new in made.items():
        console.print(
            f"made {path}" if new else f"kept {path}: it exists and is not overwritten", soft_wrap=True
        )
    console.print("Each learner needs ca.pem, its .pem and its .key; ca.key stays with you.")


def _revoke(args: argparse.Namespace) -> None:
    names = args.names[1:]
    if not names:
        raise InputError("nobody is named after revoke; expected learners; add their names")
    path = certs.revoke(args.directory, names)
    if args.json:
        show.document({"revoked": names, "list": str(path)})
        return
    show.console().print(
        f"revoked {', '.join(names)}\n"
        f"Copy {path} to every learner ([transport] revoked) and restart the broker, if there is one.",
        soft_wrap=True,
    )


def _make(args: argparse.Namespace) -> dict[Any, bool]:
    # Learners are clients of a broker: a broker's address in their certificates would let them pose as it.
    if args.topic and not args.broker:
        raise InputError(
            "--topic is given without --broker; expected both, as topics are a broker's; add --broker"
        )
    hosts = [] if args.broker else args.host
    made = certs.make(args.directory, args.names, hosts=hosts, days=args.days)
    if args.broker:
        made += certs.make_broker(
            args.directory, network=args.network, hosts=args.host, days=args.days, topics=args.topic
        )
    found: dict[Any, bool] = {}
    for each in made:
        found[each.path] = found.get(each.path, False) or each.new
    return found
