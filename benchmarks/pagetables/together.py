"""docs/auto.md: whether learning together pays, from together.py and deals.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .common import Maker, read, table


def rows_of(kept: dict[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Cases as rows; the seeds of a made family are one row."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for name, row in kept.items():
        groups.setdefault(name.split(" seed ")[0], []).append(row)
    yield from groups.items()


def mean(rows: list[dict[str, Any]], column: str, key: str) -> float | None:
    found = [row[column][key] for row in rows if key in row.get(column, {})]
    return sum(found) / len(found) if found else None


def shown(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def together() -> str:
    lines = []
    for name, rows in rows_of(read("together")):
        both = [row for row in rows if "now" in row]
        if not both:
            continue
        now, alone = mean(both, "now", "together"), mean(both, "now", "alone")
        over = None if now is None or alone is None else now / alone
        known = [mean(both, "now", key) for key in ("clusters known", "others cut")]
        same = [row for row in both if "before" in row]  # seeds of both versions
        common, beside = mean(same, "before", "together"), mean(same, "now", "together")
        beside = None if beside is None or common is None else beside / common
        values = common, *known, now, alone, beside, over, *worst(both)
        lines.append([name, str(len(both)), *map(shown, values)])
    heads = "network | seeds | one common function | clusters known | others cut | together | alone"
    heads += " | over common | over alone"
    return table(f"{heads} | worst seed | worst learner", lines)


def worst(rows: list[dict[str, Any]]) -> tuple[float | None, float | None]:
    """The largest error over alone of a seed, where there are several, and of a single learner."""
    found = [row["now"] for row in rows if "alone" in row["now"]]
    if not found:
        return None, None
    seed = max(now["together"] / now["alone"] for now in found)
    return seed if len(found) > 1 else None, max(now["worst"] for now in found)


def clusters_later() -> str:
    """Of two clusters, from round 64 on: the error over that with the other links cut."""
    rows = [row for name, row in read("together").items() if name.startswith("made two clusters")]
    later, cut = mean(rows, "now", "later"), mean(rows, "now", "others cut, later")
    return "" if later is None or cut is None else f"{later / cut:.3f}"


def stations_seeds() -> str:
    """On the stations, six hours ahead: the squared error over that alone, of all seeds."""
    rows = dict(rows_of(read("together")))
    found = []
    for size, name in ((400, "stations 6 h"), (1700, "stations 6 h, 1700")):
        both = [row for row in rows.get(name, []) if "now" in row]
        now, alone = mean(both, "now", "together"), mean(both, "now", "alone")
        if now is not None and alone is not None:
            found.append(f"{now / alone:.3f} with {size} parameters")
    return " and ".join(found)


def deals() -> str:
    """Twenty learners of the default size, over one common function: means over seeds, and the largest."""
    cells: dict[tuple[str, str], list[dict[str, float]]] = {}
    for case, row in read("deals").items():
        name, graph = case.split(" seed ")[0].split(" ")
        if {"now", "before"} <= row.keys():
            cells.setdefault((name, graph), []).append(row)
    sets = dict.fromkeys(name for name, _ in cells)
    graphs = dict.fromkeys(graph for _, graph in cells)
    lines = [[name, str(len(cells[name, "ring"])), *(_over(cells[name, g]) for g in graphs)] for name in sets]
    return table(f"data | seeds | {' | '.join(graphs)}", lines)


def _over(rows: list[dict[str, float]]) -> str:
    now, before = (sum(row[column] for row in rows) for column in ("now", "before"))
    return f"{now / before:.3f} ({max(row['now'] / row['before'] for row in rows):.3f})"


MADE: dict[str, Maker] = {
    "together-pays": together,
    "clusters-later": clusters_later,
    "stations-seeds": stations_seeds,
    "deals": deals,
}
