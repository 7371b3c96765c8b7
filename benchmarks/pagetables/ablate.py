"""What each part of `Auto` is worth, as `ablate.py` measured it.

Means are over the streams that were measured: they compare between rows only where these are the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .common import Maker, read, table

#: Parts in words; those under `GUARDS` are there against wrong labels and neighbours that lie.
WORDS = {
    **{name: f"expert {name}" for name in ("common", "alone", "recent", "echo")},
    "first weights": "first weights: all alike",
    "trust": "trust: all on the same scale are believed",
    "leave-one-out": "errors of samples that are learnt again, in trust",
    "correlation": "correlation rule: h = 2, and alarms as for errors that do not repeat",
    "alarm": "alarm and restart of recent",
    "giving up": "giving up the past",
    "favour": "half of the weight to recent when it restarts, to common at first",
    "recent, alarm, giving up": "expert recent, alarm and giving up",
    "variances": "learnt variances of recent",
    "ranges": "map of ranges",
    "ranks": "map of ranks",
    "linear": "linear terms",
    "spread": "waiting for summaries before a scale is taken",
    "early scales": "early scales: only at 64 and 512",
    "half of the early scales": "half of the early scales: at 1, 8, 64 and 512",
    "replay": "replay of 512 samples: 64 of them",
}
GUARDS = {
    "own": "expert own",
    "label guard": "label guard (against wrong labels)",
    "recheck": "labels looked at again (against wrong labels)",
    "forgotten errors": "errors forgotten where the scale was wrong (against lies)",
    "trimmed": "trimmed summaries (against lies)",
    "rank": "the summary that suits, of two as new (against lies)",
    "suits": "own scale where the joint one does not suit (against lies)",
    "first sample": "only neighbours at the first sample (against lies)",
    "told again": "all told again where scales differ (against lost messages)",
}
#: A part earns its place with one of these: geometric mean over streams, and any stream.
MEAN, STREAM = 1.01, 1.04


def _mean(values: Any) -> float:
    return float(np.exp(np.mean(np.log(list(values)))))


def parts() -> str:
    """Each part: error without it over error with it, and whether it passes `MEAN` or `STREAM`."""
    found, rows = read("ablate")["now"], []
    usual = set(read("judge")["now-400"])
    for what, words in {**WORDS, **GUARDS}.items():
        cases = {name: _mean(seeds.values()) for name, seeds in found.get(what, {}).items() if seeds}
        streams = {name: value for name, value in cases.items() if name in usual}
        harms = {name: value for name, value in cases.items() if name not in usual}
        mean, cells, earns = float("nan"), ["", "", ""], False
        if streams:
            mean, worst = _mean(streams.values()), max(streams, key=streams.__getitem__)
            best = min(streams, key=streams.__getitem__)
            cells = [f"{mean:.3f}", *(f"{name} {streams[name]:.3f}" for name in (worst, best))]
            earns = mean >= MEAN or streams[worst] >= STREAM
        if not cases:
            continue
        harm = max(harms, key=harms.__getitem__) if harms else ""
        earns = earns or bool(harm and harms[harm] >= STREAM)
        seeds = [len(some) for name, some in found[what].items() if name in streams or not streams]
        counted = f"{min(seeds)}" if min(seeds) == max(seeds) else f"{min(seeds)} to {max(seeds)}"
        told = f"{harm} {harms[harm]:.3g}" if harm else ""
        rows.append((mean, [words, *cells, told, "yes" if earns else "no", f"{len(streams)}", counted]))
    ordered = [row for _, row in sorted(rows, key=lambda one: -np.nan_to_num(one[0]))]
    head = "removed | error without / with | most on | least on | worst harm | earns it | streams | seeds"
    return table(head, ordered)


MADE: dict[str, Maker] = {"ablate": parts}
