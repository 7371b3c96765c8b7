"""Write the tables of docs/performance.md anew from benchmarks/results, between its markers.

    python benchmarks/tables.py [--check]

A table stands between <!-- bench:NAME --> and <!-- /bench:NAME -->; no figure is typed by hand.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from domkl.cli.bench import figure

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "performance.md"


def read(name: str) -> dict[str, Any]:
    return json.loads((HERE / "results" / name).read_text(encoding="utf-8"))


def table(headings: str, rows: Iterable[Iterable[str]]) -> str:
    names = [name.strip() for name in headings.split("|")]
    lines = [names, ["---"] + ["---:"] * (len(names) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def machine(bench: dict[str, Any], _: dict[str, Any]) -> str:
    it = bench["machine"]
    caches = ", ".join(f"{name} {size // 1024:,} KiB" for name, size in it["caches"].items())
    versions = ", ".join(f"{name} {v}" for name, v in {"numpy": it["numpy"], **it["peers"]}.items())
    return (
        f"{it['processor']}, {it['usable_cores']} cores, {caches or 'caches unknown'}; "
        f"instruction set {bench['engine']['isa']}; Python {it['python']}, {versions}."
    )


def limits(bench: dict[str, Any], _: dict[str, Any]) -> str:
    rows = (
        [
            f"float{row['bits']}, {row['threads']} thread{'s' * (row['threads'] > 1)}",
            *(figure(row[k]) for k in ("fma_per_ns", "sincos_ns", "vector_ns", "stored_ns")),
            figure(row["memory_GB_per_s"]),
        ]
        for row in bench["limits"]
    )
    return table(" | FMA per ns | ns per sincos | ns per vector operation | ns per stored one | GB/s", rows)


def beside(row: dict[str, Any]) -> list[str]:
    if "fraction" not in row:
        return [figure(row["us"]), "", ""]
    return [figure(row["us"]), figure(row["limit_us"]), f"{row['fraction']:.2f}"]


def w1(bench: dict[str, Any], _: dict[str, Any]) -> str:
    part = bench["w1"]
    first = part["rows"][0]["us"]
    rows = ([row["name"], *beside(row), figure(row["us"] / first)] for row in part["rows"])
    return table("W1 | µs | limit, µs | fraction of the limit | times the first", rows)


def parts(bench: dict[str, Any], _: dict[str, Any]) -> str:
    names = ("fma", "sincos", "vector")
    rows = [
        [row["name"], *(figure(row["limit_parts_us"][name]) for name in names), figure(row["limit_us"])]
        for row in bench["w1"]["rows"]
        if row["engine"] == "native"
    ]
    return table("of the limit of W1, µs | FMA | sincos | vector operations | together", rows)


def w2(bench: dict[str, Any], _: dict[str, Any]) -> str:
    rows = ([row["name"], figure(row["us"]), figure(row["times_ours"])] for row in bench["w2"]["rows"])
    return table("W2 | µs for a sample | times ours", rows)


def w3(bench: dict[str, Any], _: dict[str, Any]) -> str:
    rows = (
        [
            row["name"],
            *beside(row),
            row.get("bound_by", ""),
            figure(row["rounds_us"]),
            figure(row["seconds"]),
            figure((row["peak_bytes"] or 0) / 1e6),
        ]
        for row in bench["w3"]["rows"]
    )
    headings = "W3 | µs | limit, µs | fraction | bound by | rounds alone, µs | seconds | peak of memory, MB"
    return table(headings, rows)


def w4(bench: dict[str, Any], _: dict[str, Any]) -> str:
    if "w4" not in bench:
        return "The kept figures are older than this workload; `domkl bench --only w4` measures it."
    rows = (
        [
            f"{key}: {row['name']}",
            *beside(row),
            row.get("bound_by", ""),
            figure(row["read_GB_per_s"]) if "read_GB_per_s" in row else "",
        ]
        for key in ("network", "device")
        for row in bench["w4"][key]["rows"]
    )
    return table("W4 | µs | limit, µs | fraction of the limit | bound by | reading, GB/s", rows)


def targets(bench: dict[str, Any], _: dict[str, Any]) -> str:
    rows = (
        [
            row["what"],
            f"{row['direction']} {row['wanted']:g}",
            figure(row["got"]),
            "yes" if row["met"] else "**no**",
        ]
        for row in bench["targets"]
    )
    return table("target | wanted | measured | met", rows)


def scaling(_: dict[str, Any], figures: dict[str, Any]) -> str:
    rows = (
        [
            row["over"],
            f"{row['x'][0]} to {row['x'][-1]}",
            f"{row['exponent']:.2f}",
            f"{row['last_slope']:.2f}",
            f"{100 * row['fixed_us'] / row['us'][0]:.0f} %",
        ]
        for row in figures["sweeps"]
    )
    headings = "cost against | from .. to | exponent | slope of the last step | fixed part of the first point"
    return table(headings, rows)


MADE = {
    "machine": machine,
    "limits": limits,
    "w1": w1,
    "parts": parts,
    "w2": w2,
    "w3": w3,
    "w4": w4,
    "targets": targets,
    "scaling": scaling,
}


def fill(page: str, bench: dict[str, Any], figures: dict[str, Any]) -> str:
    for name, make in MADE.items():
        pattern = rf"(<!-- bench:{name} -->\n).*?(<!-- /bench:{name} -->)"
        text = make(bench, figures)
        page = re.sub(pattern, lambda m, text=text: f"{m[1]}\n{text}\n\n{m[2]}", page, flags=re.DOTALL)
    return page


def main() -> int:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--check", action="store_true", help="write nothing; 1 if the page is out of date")
    args = options.parse_args()
    before = PAGE.read_text(encoding="utf-8")
    after = fill(before, read("bench.json"), read("scaling.json"))
    if args.check:
        return int(before != after)
    PAGE.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
