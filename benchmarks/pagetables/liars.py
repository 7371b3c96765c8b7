"""docs/auto.md: neighbours that lie, from liars.py, and a device that joins, from latecomer.py."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .common import Maker, figure, read, scientific, table

NETS, STREAMS = ("ring", "complete", "4-regular"), ("made", "conductivity")
DEFENCES = ("plain", "trimmed mean", "clipped gossip", "Krum", "nearest (UBAR 1)", "trust")
PAPERS = ("first order", "newton")
ATTACKS = (
    *("none", "theta = 1e6", "sign flipped", "constant", "drift", "noise", "slow scaling", "alternating"),
    *("copy with a bias", "collusion", "frozen", "labels x 1e6", "label noise", "false statistics"),
)
OVERFLOW = float("inf")


def values(kept: dict[str, Any], head: str, defence: str, key: str) -> list[float]:
    """Of all seeds of a case; predictions that have overflowed are infinite."""
    rows = [row[defence] for name, row in kept.items() if name.startswith(head) and defence in row]
    return [OVERFLOW if row[key] is None else row[key] for row in rows]


def mean(found: Iterable[float]) -> float | None:
    known = list(found)
    return sum(known) / len(known) if known else None


def largest(found: Iterable[float | None]) -> float | None:
    return max((value for value in found if value is not None), default=None)


def shown(value: float | None) -> str:
    if value is None:
        return ""
    if value == OVERFLOW:
        return "overflow"
    return scientific(value) if value >= 1e4 else figure(value)


def measured(kept: dict[str, Any]) -> list[str]:
    """The defences that there are figures of."""
    return [name for name in DEFENCES if any(name in row for row in kept.values())]


def defences() -> str:
    """The worst of three networks, made streams, the first seed."""
    kept = read("liars")
    columns = measured(kept)
    lines = [[attack, *(shown(worst(kept, attack, defence)) for defence in columns)] for attack in ATTACKS]
    return table(f"attack | {' | '.join(columns)}", lines)


def worst(kept: dict[str, Any], attack: str, defence: str) -> float | None:
    return largest(mean(values(kept, f"{net} made {attack} seed 0", defence, "during")) for net in NETS)


def networks() -> str:
    """Of the learner as it is: each network during the attack, and the worst after it and over alone."""
    kept = read("liars")
    defence = measured(kept)[-1] if "trust" in measured(kept) else "plain"
    places = [f"{net} {stream}" for stream in STREAMS for net in NETS]
    lines = []
    for attack in ATTACKS:
        cells = {
            key: [mean(values(kept, f"{place} {attack} seed", defence, key)) for place in places]
            for key in ("during", "after", "alone")
        }
        ends = largest(cells["after"]), largest(cells["alone"])
        lines.append([attack, *map(shown, (*cells["during"], *ends))])
    return table(f"attack | {' | '.join(places)} | after it | over alone", lines)


def papers() -> str:
    """The paper's learner: no screen, and the best screen of each attack."""
    kept = read("liars")
    lines = []
    for attack in ATTACKS:
        cells = []
        for model in PAPERS:
            of = {
                defence: mean(values(kept, f"{model}: ring made {attack} seed", defence, "during"))
                for defence in DEFENCES[:-1]
            }
            known = {name: value for name, value in of.items() if value is not None and name != "plain"}
            best = min(known, key=lambda name: known[name]) if known else None
            cells += [shown(of["plain"]), "" if best is None else f"{shown(known[best])} ({best})"]
        if any(cells):
            lines.append([attack, *cells])
    return table("attack | first order | with the best screen | newton | with the best screen", lines)


def latecomer() -> str:
    groups: dict[str, list[dict[str, Any]]] = {}
    for name, row in read("latecomer").items():
        groups.setdefault(name.split(" seed ")[0], []).append(row)
    lines = []
    for name, found in groups.items():
        rows = [row["now"] for row in found]
        late, near = (sum(row[key] for row in rows) / len(rows) for key in ("latecomer", "neighbours"))
        before = mean(row["before"]["over"] for row in found if "before" in row)
        cells = late, near, late / near, max(row["over"] for row in rows), before
        lines.append([name, str(len(rows)), *map(shown, cells)])
    return table("network | seeds | latecomer | neighbours | over | largest of one seed | before", lines)


MADE: dict[str, Maker] = {
    "liars": defences,
    "liars-networks": networks,
    "liars-paper": papers,
    "latecomer": latecomer,
}
