"""README.md, docs/auto.md and docs/how-to.md: the shipped stations, from stations.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from domkl.lab.report.sentences import together_or_alone

from .common import Maker, figure, read, table

NAMES = ("EWR", "JFK", "LGA")
#: Size of the shipped experiment, and the default; the kappa that is best here.
SHIPPED, DEFAULT, CHOSEN = "400", "1700", "0.03"


def overall(errors: Sequence[float]) -> float:
    """Root mean square over all stations."""
    return float(np.sqrt(np.mean(np.square(errors))))


def short() -> str:
    kept = read("stations")
    paper, auto = kept["paper"][CHOSEN], kept["auto"]
    found: dict[str, list[float]] = {
        '"as it is now"': kept["others"]["as it is now"]["alone"],
        "OMKL, one learner that sees all three": kept["others"]["OMKL"]["together"],
        "Paper, rates chosen for this data, together": paper["together"],
        "Paper, alone": paper["alone"],
        f"Auto, size {SHIPPED}, together": auto[SHIPPED]["together"],
        f"Auto, size {SHIPPED}, alone": auto[SHIPPED]["alone"],
        f"Auto, size {DEFAULT} (default), together": auto[DEFAULT]["together"],
        f"Auto, size {DEFAULT}, alone": auto[DEFAULT]["alone"],
    }
    rows = ([name, *(f"{e:.2f}" for e in (*some, overall(some)))] for name, some in found.items())
    return table(f"error in °F, six hours ahead | {' | '.join(NAMES)} | all three", rows)


def sizes() -> str:
    kept = read("stations")["auto"]
    rows = (
        [f"size {size}", f"{overall(row['together']):.2f}", f"{overall(row['alone']):.2f}"]
        for size, row in kept.items()
    )
    return table("error in °F | together | alone", rows)


def kappas() -> str:
    kept: dict[str, Any] = read("stations")["paper"]
    best = min(kept, key=lambda kappa: overall(kept[kappa]["together"]))
    marks = {kappa: "**" if kappa == best else "" for kappa in kept}
    errors = [f"{marks[k]}{overall(row['together']):.2f}{marks[k]}" for k, row in kept.items()]
    violations = [f"{row['cv']:.1e}".replace("e-0", "e-") for row in kept.values()]
    headings = " | ".join(["kappa", "1 (as printed)", *list(kept)[1:]])
    return table(headings, [["error", *errors], ["CV", *violations]])


def forgetting() -> str:
    kept = read("stations")
    rows = []
    for size, row in kept["auto without forgetting"].items():
        on, off = overall(kept["auto"][size]["together"]), overall(row["together"])
        rows.append([f"size {size}", f"{on:.2f}", f"{off:.2f}", figure((on / off) ** 2)])
    return table("error in °F | with forgetting | without | MSE with over without", rows)


def _verdict(size: str) -> Maker:
    """Together and alone over the year, and how they differ, in words."""

    def words() -> str:
        row = read("stations")["auto"][size]
        found = together_or_alone(overall(row["together"]), overall(row["alone"]), "°F")
        return f"{found[0].lower()}{found[1:-1]}"

    return words


def seeds() -> str:
    """Together and alone over the year with several seeds: the mean, least and greatest."""
    rows = read("stations")["seeds"].values()
    words = []
    for name in ("together", "alone"):
        found = [overall(row[name]) for row in rows]
        words.append(f"{name} {sum(found) / len(found):.2f} °F ({min(found):.2f} to {max(found):.2f})")
    return ", ".join(words)


MADE: dict[str, Maker] = {"stations-kappas": kappas}
