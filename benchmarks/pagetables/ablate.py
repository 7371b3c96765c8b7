"""What each part of `Auto` is worth, as `ablate.py` measured it.

Means are over the streams that were measured: they compare between rows only where these are the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .common import Maker, read, table

#: Parts in words; those under `GUARDS` are there against wrong labels and neighbours that lie.
WORDS = {
    "common": "expert common",
    "personal": "expert personal",
    "alone": "expert alone",
    "recent": "expert recent",
    "echo": "expert echo",
    "trust": "trust: all on the same scale are believed",
    "correlation": "correlation rule: h = 2, and alarms as for errors that do not repeat",
    "alarm": "alarm and restart of recent",
    "giving up": "giving up the past",
    "recent, alarm, giving up": "expert recent, alarm and giving up",
    "variances": "learnt variances of recent",
    "pairs": "pairs of inputs in recent",
    "ranges": "map of ranges",
    "softsigns": "map of soft signs (gone)",
    "ranks": "map of ranks",
    "linear": "linear terms",
    "early scales": "early scales: only at 64 and 512",
    "half of the early scales": "half of the early scales: at 1, 8, 64 and 512",
    "replay": "replay of 512 samples: 64 of them",
    "links": "links: the same learner, each device by itself",
}
GUARDS = {
    "own": "expert own (against neighbours that are wrong elsewhere)",
    "label guard": "label guard (against wrong labels)",
    "trimmed": "trimmed summaries (against lies)",
    "suits": "own scale where the joint one does not suit (against lies)",
}
#: A part earns its place with one of these: geometric mean over streams, and any stream.
MEAN, STREAM = 1.01, 1.04


def _mean(values: Any) -> float:
    return float(np.exp(np.mean(np.log(list(values)))))


def parts() -> str:
    """Each part: error without it over error with it, and whether it passes `MEAN` or `STREAM`."""
    found, rows = read("ablate")["now"], []
    for what, words in {**WORDS, **GUARDS}.items():
        streams = {name: _mean(seeds.values()) for name, seeds in found.get(what, {}).items() if seeds}
        if not streams:
            continue
        worst, best = max(streams, key=streams.__getitem__), min(streams, key=streams.__getitem__)
        mean = _mean(streams.values())
        earns = mean >= MEAN or streams[worst] >= STREAM
        verdict = "guard" if what in GUARDS else "yes" if earns else "no"
        counts = [len(seeds) for seeds in found[what].values()]
        seeds = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
        cells = [f"{name} {streams[name]:.3f}" for name in (worst, best)]
        rows.append((mean, [words, f"{mean:.3f}", *cells, verdict, f"{len(streams)}", seeds]))
    ordered = [row for _, row in sorted(rows, key=lambda one: -one[0])]
    return table("removed | error without / with | most on | least on | earns it | streams | seeds", ordered)


MADE: dict[str, Maker] = {"ablate": parts}
