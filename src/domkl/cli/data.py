"""`domkl data`: which datasets there are, and where; `domkl data fetch NAME` downloads one."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from typing import Any

from .. import datasets
from ..base.words import NONE
from ..datasets.uci import WAVE_DIGESTS
from ..lab.sheet import Sheet
from . import declare, show

FARMS = ", ".join(WAVE_DIGESTS)


def add_to(commands: Any) -> None:
    """Declare the command."""
    text = "list the datasets, or fetch one from UCI"
    declare(commands, "data", text, list_all)
    parts = commands.choices["data"].add_subparsers(metavar="[fetch]")
    add = declare(parts, "fetch", "download a dataset, verify it and keep it", fetch_one, json=None)
    add("name", metavar="NAME", help="a name that `domkl data` lists")
    add("--cache", metavar="DIR", help="directory to keep it in (default: the user's cache)")
    add("--base-url", metavar="URL", default=None, help="another server with UCI's paths")
    text = "one JSON document on standard output"
    add("--json", action="store_true", default=argparse.SUPPRESS, help=text)  # of either place
    add("--farm", default="adelaide", metavar="NAME", help=f"for wave_energy: {FARMS}")


def list_all(args: argparse.Namespace) -> None:
    """Every dataset with its size, licence, and whether it is here."""
    entries = datasets.catalogue()
    if args.json:
        show.document({"datasets": [_plain(entry) for entry in entries]})
        return
    show.sheet(_table(entries))
    console = show.console()
    for note in dict.fromkeys(f"{e.name.split('/')[0]}: {e.source}; {e.note}" for e in entries):
        console.print(f"  {note.removesuffix('; ')}")
    console.print(
        "Download a missing one with: domkl data fetch NAME (or set DOMKL_DATA to a directory with its file)"
    )


def _table(entries: Sequence[datasets.Entry]) -> Sheet:
    heads = ("name", "what", "samples", "inputs", "file\nMB", "licence", "here")
    return Sheet("Datasets", heads, [_row(entry) for entry in entries], frozenset({0, 1, 5, 6}), spare=(4, 5))


def _row(entry: datasets.Entry) -> list[str]:
    size = f"{entry.size / 1e6:.1f}" if entry.size else NONE
    counts = show.count(entry.rows), show.count(entry.features)
    return [entry.name, entry.title, *counts, size, entry.licence, "yes" if entry.path else "no"]


def fetch_one(args: argparse.Namespace) -> None:
    """Download one dataset with a progress bar."""
    where = {} if args.base_url is None else {"base_url": args.base_url}
    with show.progress(f"fetching {args.name}", in_bytes=True) as bar:
        path = datasets.fetch(args.name, cache=args.cache, progress=bar, farm=args.farm, **where)
    if args.json:
        show.document({"name": args.name, "path": str(path)})
    else:
        show.console().print(f"{args.name} is at {path}", soft_wrap=True)


def _plain(entry: datasets.Entry) -> dict[str, Any]:
    return {**dataclasses.asdict(entry), "path": str(entry.path) if entry.path else None}
