"""`domkl bench`: how fast domkl is on this machine, beside its limit, the literal twin and peers."""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

from ..base import checks
from ..base.errors import InputError
from ..base.sheet import Sheet, least_of
from ..base.words import NONE, digits, number, plural, shorten
from ..lab import bench
from . import show

BAR, LEAST_BAR = 48, 12  # characters of the longest bar, and those that names leave it
AGAINST = ("time\nµs", "limit\nµs", "fraction")
LIMIT = "the time if the machine did these operations at the speeds measured above"


def add_to(commands: Any) -> None:
    """Declare the command."""
    text = "measure the engines, the machine's limit and the peers that are installed"
    command = commands.add_parser("bench", help=text, description=f"{text[0].upper()}{text[1:]}.")
    command.add_argument("--quick", action="store_true", help="a few seconds in all; its figures mean little")
    command.add_argument("--only", metavar="A,B", help=f"parts to measure, of {', '.join(bench.PARTS)}")
    command.add_argument("--out", metavar="DIR", help="also write the figures to DIR/bench.json")
    command.add_argument("--json", action="store_true", help="one JSON document on standard output")
    command.set_defaults(act=run)


def run(args: argparse.Namespace) -> None:
    """Measure, show, and write the figures where asked."""
    parts = _parts(args.only)
    folder = _folder(args.out)
    print("domkl: measuring; run nothing else meanwhile", file=sys.stderr)
    document = bench.apart(parts, quick=args.quick)
    if folder:
        text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
        (folder / "bench.json").write_text(text + "\n", encoding="utf-8")
    if args.json:
        show.document(document)
    else:
        _show(document)


def _parts(text: str | None) -> list[str]:
    if text is None:
        return list(bench.PARTS)
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise InputError(f"--only names no part; expected some of {', '.join(bench.PARTS)}; name one")
    return [checks.one_of("part", part, bench.PARTS) for part in parts]


def _folder(name: str | None) -> Path | None:
    """The directory for the figures, made before measuring takes minutes."""
    if name is None:
        return None
    try:
        Path(name).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{name} cannot be made: {error.strerror}; expected a directory; choose another --out"
        ) from None
    return Path(name)


def _show(document: dict[str, Any]) -> None:
    console, engine = show.console(), document["engine"]
    console.print(f"engine: {engine['in_use']}, as {engine['why']}")
    for part in (_limits, _w1, _w2, _w3, _w4, _targets):
        part(console, document)


def _limits(console: Any, document: dict[str, Any]) -> None:
    if not document["limits"]:
        return
    heads = ("machine", "FMA\n1/ns", "sincos\nns", "vector op\nns", "stored op\nns", "memory\nGB/s")
    keys = ("fma_per_ns", "sincos_ns", "vector_ns", "stored_ns", "memory_GB_per_s")
    rows = [
        [f"float{row['bits']}, {plural(row['threads'], 'thread')}", *(digits(row[key]) for key in keys)]
        for row in document["limits"]
    ]
    _table(console, f"The machine's limit, {document['engine']['isa']}", heads, rows)


def _w1(console: Any, document: dict[str, Any]) -> None:
    part = document.get("w1")
    if part is None:
        return
    first = part["rows"][0]["us"]
    rows = [[*_against(row), f"{digits(row['us'] / first)}x"] for row in part["rows"]]
    title = "W1: 5 learners, 17 kernels, d = 81, CV included; one learner and step"
    _table(console, title, ("engine", *AGAINST, "times\nthe first"), rows, part["rows"])
    if part["twin"] != "measured":
        console.print(f"literal twin: {part['twin']}")
    limit = part["rows"][0].get("limit_us")
    bars(console, ([("the limit, one thread", limit)] if limit else []) + _pairs(part))


def _w2(console: Any, document: dict[str, Any]) -> None:
    part = document.get("w2")
    if part is None:
        return
    rows = [[row["name"], digits(row["us"]), f"{digits(row['times_ours'])}x"] for row in part["rows"]]
    title = "W2: one sample from Python: predict, then learn"
    _table(console, title, ("learner", "CPU time\nµs", "times\nthe first"), rows, part["rows"])
    for peer in part["missing"]:
        console.print(f"  not installed: {peer['name']}; install it with: {peer['install']}", soft_wrap=True)
    bars(console, _pairs(part))


def _w3(console: Any, document: dict[str, Any]) -> None:
    part = document.get("w3")
    if part is None:
        return
    rows = []
    for row in part["rows"]:
        peak = digits(row["peak_bytes"] / 1e6) if row["peak_bytes"] else NONE
        bound = row.get("bound_by", NONE)
        rows.append([*_against(row), bound, digits(row["rounds_us"]), digits(row["seconds"]), peak])
    heads = ("network", *AGAINST, "bound by", "rounds\nµs", "in all\ns", "peak\nMB")
    _table(console, "W3: large networks", heads, rows, spare=(4, 5, 6, 7))


def _w4(console: Any, document: dict[str, Any]) -> None:
    part = document.get("w4")
    if part is None:
        return
    for key, what in (("network", "ring of 5, 17 kernels"), ("device", "one device, two models of 850")):
        known = part[key]["rows"]
        rows = [
            [*_against(row), row.get("bound_by", NONE), digits(row.get("read_GB_per_s"))] for row in known
        ]
        heads = ("engine", *AGAINST, "bound by", "read\nGB/s")
        _table(console, f"W4: the second-order step, {what}", heads, rows, known, spare=(4, 5))


def _targets(console: Any, document: dict[str, Any]) -> None:
    if not document["targets"] or document["quick"]:
        return
    rows = [
        [
            row["what"],
            f"{row['direction']} {number(row['wanted'])}",
            digits(row["got"]),
            "yes" if row["met"] else "no",
        ]
        for row in document["targets"]
    ]
    show.sheet(Sheet("Targets", ("what", "wanted", "got", "met"), rows, frozenset({0, 3})))


def _table(
    console: Any,
    title: str,
    heads: tuple[str, ...],
    rows: list[list[str]],
    timed: list[dict[str, Any]] | None = None,
    spare: tuple[int, ...] = (),
) -> None:
    """Print a table; the least time is bold where the rows do the same work, and what "limit" is below it."""
    bold = frozenset((i, 1) for i in least_of([row["us"] for row in timed or []]))
    legend = {
        "limit": LIMIT,
        "fraction": "of the machine's speed that is reached: limit / time",
        "bold": "the least time",
    }
    known = {head.split("\n")[0] for head in heads} | ({"bold"} if bold else set())
    shown = {term: meaning for term, meaning in legend.items() if term in known}
    words = frozenset({0, *(c for c, head in enumerate(heads) if head == "bound by")})
    console.print()
    show.sheet(Sheet(title, heads, rows, words, bold, spare, shown))


def _against(row: dict[str, Any]) -> tuple[str, str, str, str]:
    fraction = f"{row['fraction']:.2f}" if "fraction" in row else NONE
    return row["name"], digits(row["us"]), digits(row.get("limit_us")), fraction


def _pairs(part: dict[str, Any]) -> list[tuple[str, float]]:
    return [(row["name"], row["us"]) for row in part["rows"]]


def bars(console: Any, rows: list[tuple[str, float]]) -> None:
    """Bars of times on a logarithmic scale, as long as there is room for."""
    low = math.log10(min(value for _, value in rows)) - 0.3
    high = max(math.log10(max(value for _, value in rows)), low + 1)
    longest = max(len(digits(value)) for _, value in rows)
    wide = min(max(len(name) for name, _ in rows), console.width - longest - LEAST_BAR - 4)
    most = min(BAR, console.width - wide - longest - 4)
    console.print("\nµs, on a logarithmic scale")
    for name, value in rows:
        length = max(1, round(most * (math.log10(value) - low) / (high - low)))
        shown = f"  {shorten(name, wide):{wide}} {'█' * length} {digits(value)}"
        console.print(shown, markup=False)
