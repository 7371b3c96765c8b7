"""Everything about speed: engines beside the machine's limits, the literal twin, other libraries.

    python benchmarks/bench [--quick] [--out DIR]     some minutes, with the machine for itself

W1 gets the literal twin of tests/naive.py, W2 other libraries where they are installed; W3 are large
networks, W4 is the second-order step. The figures of docs/performance.md are made of DIR/workloads.json.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

# NumPy's libraries on one thread: more would spin beside a busy core, and be compared with one of ours.
os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), "1")

import networks
import peers
import second_order
import targets
import workloads
from auto import EngineRun

from domkl.base.words import NONE, digits, number
from domkl.cli import show
from domkl.cli.bench import costs, made_folder, write
from domkl.exchange import graph
from domkl.lab.sheet import Sheet
from domkl.learning import kernels
from domkl.learning.first_order import Rates

ROOT = Path(__file__).parent.parent.parent
TWIN = "literal twin"
PACKAGES = ("river", "scikit-learn", "vowpalwabbit")


def twin_us(size: workloads.Size, rounds: int) -> float:
    """Microseconds of one learner and step of the literal twin."""
    spec = importlib.util.spec_from_file_location("naive", ROOT / "tests" / "naive.py")
    naive = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(naive)
    shape, rates = workloads.NETWORK, Rates.paper(workloads.FULL.T)
    X, y = workloads.stream(shape.J, rounds, shape.d)
    V, near = kernels.gaussian(shape.d, shape.D), graph.named("complete", shape.J).neighbours
    trial = workloads.timed(
        lambda: naive.domkl(X, y, near, V, rates.rho, rates.eta, rates.eta_g), shape.J * rounds
    )
    return 1e6 * workloads.best({TWIN: trial}, size.turns)[TWIN]


def versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def measure(quick: bool) -> dict[str, Any]:
    """All figures as one document."""
    size = workloads.QUICK if quick else workloads.FULL
    document = workloads.measure(quick)
    document["machine"]["peers"] = versions()
    limits = [workloads.Limits(*known) for known in map(networks.rates_of, document["limits"])]
    w1 = document["w1"]
    w1["rows"].append({**EngineRun(TWIN, "twin", 64, 1)._asdict(), "us": twin_us(size, 1 if quick else 4)})
    if "limit_us" in w1["rows"][0]:
        w1["ratios"]["twin_to_native"] = w1["rows"][-1]["us"] / w1["rows"][0]["us"]
    single = next((one for one in limits if (one.bits, one.threads) == (64, 1)), None)
    others = {peer.name: peer.make for peer in peers.present()}
    document["w2"] = {**workloads.device(others, size, single), "missing": peers.missing()}
    document["w3"] = networks.measure(quick, limits)
    document["w4"] = second_order.measure(quick)
    return {**document, "targets": targets.judge(document)}


def print_more(document: dict[str, Any]) -> None:
    """Large networks, the second-order step, and targets."""
    for peer in document["w2"]["missing"]:
        print(f"  not installed: {peer['name']}; install it with: {peer['install']}")
    rows = [
        [
            *workloads.against(row),
            row.get("bound_by", NONE),
            digits(row["rounds_us"]),
            digits(row["seconds"]),
            digits(row["peak_bytes"] / 1e6) if row["peak_bytes"] else NONE,
        ]
        for row in document["w3"]["rows"]
    ]
    heads = ("network", *workloads.AGAINST, "bound by", "rounds\nµs", "in all\ns", "peak\nMB")
    workloads.table("W3: large networks", heads, rows, spare=(4, 5, 6, 7))
    known = document["w4"]["network"]["rows"]
    rows = [
        [*workloads.against(row), row.get("bound_by", NONE), digits(row.get("read_GB_per_s"))]
        for row in known
    ]
    heads = ("engine", *workloads.AGAINST, "bound by", "read\nGB/s")
    title = "W4: the second-order step, ring of 5, 17 kernels"
    workloads.table(title, heads, rows, known, spare=(4, 5))
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


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--quick", action="store_true", help="a few seconds in all; its figures mean little")
    options.add_argument("--out", metavar="DIR", help="write the figures to DIR/workloads.json")
    args = options.parse_args()
    folder = made_folder(args.out)
    print("measuring; run nothing else meanwhile", file=sys.stderr)
    document = measure(args.quick)
    write(document, folder)
    if folder is not None:
        parts = {name: document[name] for name in ("quick", "machine", "engine", "limits", "w5")}
        text = json.dumps({**parts, "sizes": costs(12, 1, args.quick)}, indent=2, ensure_ascii=False)
        (folder / "auto.json").write_text(text + "\n", encoding="utf-8")
    workloads.print_all(document)
    print_more(document)


if __name__ == "__main__":
    main()
