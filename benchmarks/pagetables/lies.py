"""What liars do to honest learners (`lies.py`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from .common import Maker, read, table

NETS = ("ring", "complete", "4-regular", "around one")
STREAMS = ("made", "conductivity")
#: Attacks that cost less are shown together.
LITTLE = 1.05
#: Where the honest one has no honest neighbour, so that all it can be is alone.
AROUND = "around one"


def _cases(kept: Mapping[str, Any]) -> dict[str, dict[str, list[Mapping[str, float]]]]:
    """Attack -> network and stream -> figures, a row a seed."""
    found: dict[str, dict[str, list[Mapping[str, float]]]] = {}
    for name, row in kept.items():
        net = next(net for net in NETS if name.startswith(net))
        stream, rest = name[len(net) + 1 :].split(" ", 1)
        attack, _ = rest.rsplit(" seed ", 1)
        found.setdefault(attack, {}).setdefault(f"{net}, {stream}", []).append(row)
    return found


def _worst(where: Mapping[str, list[Mapping[str, float]]], names: Iterable[str]) -> tuple[float, str]:
    """The largest geometric mean over seeds of any network, and which one that is."""
    means = {
        net: max(float(np.exp(np.mean([np.log(row[n]) for row in rows]))) for n in names if n in rows[0])
        for net, rows in where.items()
    }
    net = max(means, key=lambda name: means[name])
    return means[net], net


def lies() -> str:
    """Every attack in the network where it does most; those with little effect in one row."""
    rows, little = [], []
    for attack, nets in sorted(_cases(read("lies")["trust"]).items()):
        where = {net: found for net, found in nets.items() if not net.startswith(AROUND)}
        during, net = _worst(where, ("during", "first"))
        after, _ = _worst(where, ("after",))
        alone, _ = _worst(where, ("alone", "alone first"))
        around = {net: found for net, found in nets.items() if net.startswith(AROUND)}
        beside = f"{_worst(around, ('alone', 'alone first'))[0]:.2f}" if around else ""
        seeds = min(len(found) for found in where.values())
        cells = [f"{during:.2f}", f"{after:.2f}", f"{alone:.2f}", beside, net, str(seeds)]
        if max(during, after) < LITTLE:
            little.append((during, after, alone, net, seeds))
        else:
            rows.append([attack, *cells])
    if little:
        during, after, alone = (max(one[k] for one in little) for k in range(3))
        cells = [f"{during:.2f}", f"{after:.2f}", f"{alone:.2f}", "", "", str(min(one[4] for one in little))]
        rows.append([f"{len(little)} other attacks, at most", *cells])
    return table("attack | during | after | over alone | two around one, over alone | worst in | seeds", rows)


MADE: dict[str, Maker] = {"lies": lies}
