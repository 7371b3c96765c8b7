"""Lost messages, outages, restarts and unequal rates: `faults.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from .common import Maker, read, scientific, table

#: A fault in words, its name, and which of its figures is shown.
ROWS = {
    "20 % of messages lost": ("loss", "all"),
    "a device joins in round 300: the others": ("join", "others"),
    "itself": ("join", "itself"),
    "one leaves": ("leave", "since"),
    "one is restarted from what it saved": ("restart", "since"),
    "the same after 20 rounds": ("away saved", "since"),
    "after 20 rounds with nothing: the others": ("away new", "others"),
    "itself ": ("away new", "itself"),
}


def _shown(rows: dict[str, dict[str, Any]], what: str) -> str:
    """Mean and worst seed; nothing where none was measured."""
    found = [row[what] for row in rows.values()]
    if not found:
        return ""
    return f"{np.exp(np.log(found).mean()):.3f} / {max(found):.3f}"


def faults() -> str:
    """Each fault and stream: mean and worst error over the run without, and what is broken at the end."""
    kept = read("faults")["now"]
    streams = list(kept["loss"])
    outages = {
        f"outage of 40 rounds{words} from {name.split()[-1]} on": (name, "since")
        for key, words in {"all": "", "one way": ", one way", "halves": ", between halves"}.items()
        for name in kept
        if name.startswith(f"outage {key} ")
    }
    lines = []
    for words, (name, what) in (ROWS | outages).items():
        if name not in kept:
            continue
        found = [row for rows in kept[name].values() for row in rows.values()]
        split = sum(row["scales"] > 1 for row in found)
        stalled = sum(row["stalled"] + row["faults"] for row in found)
        duals = scientific(max(row["duals"] for row in found))
        cells = [_shown(kept[name].get(stream, {}), what) for stream in streams]
        cells += [f"{max(row['all'] for row in found):.3f}", f"{split} of {len(found)}", str(stalled), duals]
        lines.append([words.strip(), *cells])
    headings = ["error since the fault over without, mean / worst", *streams]
    headings += ["worst of a whole run", "end on several scales", "stalls", "sum of duals"]
    return table(" | ".join(headings), lines)


def rates() -> str:
    """Each device of three with unequal rates."""
    kept, lines = read("faults")["now"], []
    for graph in ("path", "complete"):
        for stream, rows in kept.get(f"rates {graph}", {}).items():
            for j, rate in enumerate(("8 / s", "2 / s", "1/3 / s")):
                each = [
                    float(np.exp(np.mean([np.log(row[what][j]) for row in rows.values()])))
                    for what in ("over in step", "over alone", "in step over alone")
                ]
                lines.append([f"{graph}, {stream}, {rate}", *(f"{value:.3f}" for value in each)])
    return table("device | at will over in step | at will over alone | in step over alone", lines)


MADE: dict[str, Maker] = {"lost": faults, "rates": rates}
