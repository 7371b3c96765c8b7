"""docs/auto.md: neighbours that lie, from liars.py, and a device that joins, from latecomer.py."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .common import Maker, figure, read, scientific, table

NETS, STREAMS = ("ring", "complete", "4-regular"), ("made", "conductivity", "sum")
DEFENCES = ("plain", "trimmed mean", "clipped gossip", "Krum", "nearest (UBAR 1)", "trust")
PAPERS = ("first order", "newton")
ATTACKS = (
    *("none", "theta = 1e6", "sign flipped", "constant", "drift", "noise", "slow scaling", "alternating"),
    *("copy with a bias", "collusion", "frozen", "terms flipped", "terms now and then"),
    *("early: sign flipped", "early: noise", "early: copy with a bias"),
    *("labels x 1e6", "label noise", "false statistics"),
)
OVERFLOW = float("inf")
#: Columns of lies besides parameters.
SPANS = ("rounds 0-64", "64-300", "300-700", "over alone")


def values(kept: dict[str, Any], head: str, defence: str, key: str) -> list[float]:
    """Of all seeds of a case; predictions that have overflowed are infinite."""
    rows = [row[defence] for name, row in kept.items() if of(name, head) and defence in row]
    return [OVERFLOW if row[key] is None else row[key] for row in rows]


def of(name: str, head: str) -> bool:
    """Whether a case is one of those: its name, or all of it but the seed's number."""
    return name == head or name.rpartition(" ")[0] == head


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
    """The worst of three networks, made streams, the mean of the seeds that all defences have."""
    kept = read("liars")
    columns, lines = measured(kept), []
    alike = {name: row for name, row in kept.items() if set(columns) <= row.keys()}
    for attack in ATTACKS:
        cells = [shown(worst(alike, attack, defence)) for defence in columns]
        lines += [[attack, *cells]] if any(cells) else []
    return table(f"attack | {' | '.join(columns)}", lines)


def worst(kept: dict[str, Any], attack: str, defence: str) -> float | None:
    return largest(mean(values(kept, f"{net} made {attack} seed", defence, "during")) for net in NETS)


def networks() -> str:
    """Of the learner as it is: the largest mean of three networks by stream, and of all."""
    kept, lines = read("liars"), []
    for attack in ATTACKS:
        cells = [worst_of(kept, [stream], attack, "during") for stream in STREAMS]
        ends = [worst_of(kept, STREAMS, attack, key) for key in ("after", "alone")]
        lines.append([attack, *map(shown, (*cells, single(kept, attack), *ends))])
    columns = f"{' | '.join(STREAMS)} | one seed | after it | over alone"
    return table(f"attack | {columns}", lines)


def worst_of(kept: dict[str, Any], streams: Iterable[str], attack: str, key: str) -> float | None:
    cases = [f"{net} {stream} {attack} seed" for stream in streams for net in NETS]
    return largest(mean(values(kept, case, "trust", key)) for case in cases)


def single(kept: dict[str, Any], attack: str) -> float | None:
    """The largest of a single seed and network."""
    cases = [f"{net} {stream} {attack} seed" for stream in STREAMS for net in NETS]
    return largest(value for case in cases for value in values(kept, case, "trust", "during"))


def twenty() -> str:
    """Four liars among twenty: the largest mean of an attack and stream."""
    kept = read("liars")
    heads = [f"twenty {stream} {attack} seed" for stream in STREAMS for attack in ATTACKS]
    return shown(largest(mean(values(kept, head, "trust", "during")) for head in heads))


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


def protocol() -> str:
    """Lies besides parameters: means over seeds, the larger of both networks, by span of rounds."""
    kept, lines = read("protocol_lies"), []
    for lie in dict.fromkeys(name.split(" ", 1)[1].split(" seed ")[0] for name in kept):
        nets = [[kept[name] for name in kept if name.startswith(f"{net} {lie} seed ")] for net in NETS[:2]]
        cells = [
            shown(largest(mean(row[column][span] for row in rows if column in row) for rows in nets))
            for column in ("before", "now")
            for span in ("0-64", "64-300", "300-700", "alone")
        ]
        lines.append([lie, str(min(map(len, nets))), *cells])
    spans = [f"{column}{span}" for column in ("before: ", "") for span in SPANS]
    return table(f"lie | seeds | {' | '.join(spans)}", lines)


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
    "liars-twenty": twenty,
    "protocol-lies": protocol,
    "liars-paper": papers,
    "latecomer": latecomer,
}
