"""`domkl run` without a choice of data: the shipped fleet, where learning together pays."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..base.extras import need
from ..base.words import number
from ..lab import turbofan
from ..lab.sheet import Sheet
from ..lab.turbofan import SITES, FleetRun
from . import show

PICTURE = "fleet.png"
TEXT = """\
Ten sites run turbofan engines to failure, one after the other, and predict at each cycle how many are left.
What an engine showed is known when it has failed. Sites exchange parameters, never readings."""


def run(args: argparse.Namespace) -> None:
    """Learn, print, and draw."""
    if not args.no_report:
        need("matplotlib.pyplot", "cli")
        show.check_folder(args.out)
    with show.progress("ten sites") as bar:
        found = turbofan.run_fleet(progress=bar)
    picture = None if args.no_report else turbofan.draw(found, Path(args.out) / PICTURE)
    if args.json:
        show.document(
            {"rmse": _errors(found), "ratio": found.ratio, "files": [] if picture is None else [str(picture)]}
        )
        return
    _print(found, picture)


def _print(found: FleetRun, picture: Path | None) -> None:
    print(TEXT + "\n")
    rows = [
        [f"{k + 2}", number(together), number(alone)]
        for k, (together, alone) in enumerate(zip(*_errors(found).values(), strict=True))
    ]
    heads = ("engine", "together\ncycles", "alone\ncycles")
    legend = {"together": "exchange with all sites", "alone": "the same learner, which hears nobody"}
    show.sheet(Sheet(f"Typical error of {SITES} sites (RMSE), Auto", heads, rows, legend=legend))
    print(f"Together the error is {number(100 * (1 - found.ratio))} % less than alone.")
    print("This order of the engines is one of the best of ten: see docs/results.md.")
    if picture is not None:
        print(f"Picture: {picture}")
    print("Where it hardly helps: domkl run three-stations")
    print("Your own data: domkl run --data FILE --target COLUMN")


def _errors(found: FleetRun) -> dict[str, list[float]]:
    later = range(1, len(found.lives[0]))
    return {name: [found.error(name, k) for k in later] for name in ("together", "alone")}
