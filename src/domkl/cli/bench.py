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
from ..base.words import number
from ..lab import bench
from . import show

BAR = 48  # characters of the longest bar


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
    console.print(f"engine: {engine['in_use']}, as {engine['why']}", soft_wrap=True)
    for part in (_limits, _w1, _w2, _w3, _w4, _targets):
        part(console, document)


def _limits(console: Any, document: dict[str, Any]) -> None:
    if not document["limits"]:
        return
    title = f"The machine's limit, {document['engine']['isa']}"
    table = show.table(title, "", "FMA/ns", "ns/sincos", "ns/vector op", "ns/stored op", "GB/s")
    for row in document["limits"]:
        numbers = [row[name] for name in ("fma_per_ns", "sincos_ns", "vector_ns", "stored_ns")]
        name = f"float{row['bits']}, {row['threads']} thread{'s' * (row['threads'] > 1)}"
        table.add_row(name, *map(number, numbers), number(row["memory_GB_per_s"]))
    console.print(table)


def _w1(console: Any, document: dict[str, Any]) -> None:
    part = document.get("w1")
    if part is None:
        return
    table = show.table(
        "W1: 5 learners, 17 kernels, d = 81, CV included", "", "us", "limit, us", "fraction", "times"
    )
    first = part["rows"][0]["us"]
    for row in part["rows"]:
        table.add_row(*_against(row), f"{number(row['us'] / first)}x")
    console.print(table)
    if part["twin"] != "measured":
        console.print(f"literal twin: {part['twin']}")
    limit = part["rows"][0].get("limit_us")
    bars(
        console,
        ([("the limit, one thread", limit)] if limit else []) + _pairs(part),
        "us, one learner and step",
    )


def _w2(console: Any, document: dict[str, Any]) -> None:
    part = document.get("w2")
    if part is None:
        return
    table = show.table("W2: one sample from Python, predict, then learn; CPU time", "", "us", "times ours")
    for row in part["rows"]:
        table.add_row(row["name"], number(row["us"]), f"{number(row['times_ours'])}x")
    console.print(table)
    for peer in part["missing"]:
        console.print(f"  not installed: {peer['name']}; install it with: {peer['install']}", soft_wrap=True)
    bars(console, _pairs(part), "us, one sample")


def _w3(console: Any, document: dict[str, Any]) -> None:
    part = document.get("w3")
    if part is None:
        return
    table = show.table(
        "W3: large networks",
        "",
        "us",
        "limit, us",
        "fraction",
        "bound by",
        "rounds, us",
        "seconds",
        "peak, MB",
    )
    for row in part["rows"]:
        peak = number(row["peak_bytes"] / 1e6) if row["peak_bytes"] else ""
        table.add_row(
            *_against(row), row.get("bound_by", ""), number(row["rounds_us"]), number(row["seconds"]), peak
        )
    console.print(table)


def _w4(console: Any, document: dict[str, Any]) -> None:
    part = document.get("w4")
    if part is None:
        return
    for key, what in (("network", "ring of 5, 17 kernels"), ("device", "one device, two models of 850")):
        title = f"W4: the second-order step, {what}"
        table = show.table(title, "", "us", "limit, us", "fraction", "bound by", "read, GB/s")
        for row in part[key]["rows"]:
            rate = number(row["read_GB_per_s"]) if "read_GB_per_s" in row else ""
            table.add_row(*_against(row), row.get("bound_by", ""), rate)
        console.print(table)


def _targets(console: Any, document: dict[str, Any]) -> None:
    if not document["targets"] or document["quick"]:
        return
    table = show.table("Targets", "", "wanted", "got", "met")
    for row in document["targets"]:
        wanted = f"{row['direction']} {number(row['wanted'])}"
        table.add_row(row["what"], wanted, number(row["got"]), "yes" if row["met"] else "no")
    console.print(table)


def _against(row: dict[str, Any]) -> tuple[str, str, str, str]:
    if "fraction" not in row:
        return row["name"], number(row["us"]), "", ""
    return row["name"], number(row["us"]), number(row["limit_us"]), f"{row['fraction']:.2f}"


def _pairs(part: dict[str, Any]) -> list[tuple[str, float]]:
    return [(row["name"], row["us"]) for row in part["rows"]]


def bars(console: Any, rows: list[tuple[str, float]], what: str) -> None:
    """Bars on a logarithmic scale."""
    low = math.log10(min(value for _, value in rows)) - 0.3
    high = max(math.log10(max(value for _, value in rows)), low + 1)
    wide = max(len(name) for name, _ in rows)
    console.print(f"{what}, logarithmic:")
    for name, value in rows:
        length = max(1, round(BAR * (math.log10(value) - low) / (high - low)))
        console.print(f"  {name:{wide}} {'█' * length} {number(value)}", markup=False)
