"""docs/auto.md: how accurate `Auto` is, from accuracy.py, peers.py, curve.py, heldout.py, regret.py and
classification.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from .common import Maker, figure, read, spread, table

#: Name, what was to be reached: MSE x 1e-2.
REACH = {"weather": 0.25, "conductivity": 1.60, "air": 0.125, "traffic/5": 0.65, "temperature/5": 0.050}
DECIMALS = {"conductivity": 3}
STARTS = ("0", "1/4", "1/3", "1/2")
TWENTY = ("alone", "ring", "4-regular", "complete", "star")
#: Name in heldout.json: the table's.
SMALL = {
    "diabetes": "diabetes",
    "digits": "digits as numbers",
    "approval": "approval, used while developing",
}
PEERS = {"linear": "linear", "ARF": "ARF", "KNN": "kNN"}


def five() -> str:
    kept = read("accuracy")["five"]

    def row(name: str) -> list[str]:
        seeds = list(kept[name].values())
        ring = [spread([seed["ring"][s] for seed in seeds], DECIMALS.get(name, 4)) for s in STARTS]
        sent = f"{np.mean([seed['sent'] for seed in seeds]):.0f}"
        return [name, str(len(seeds)), *ring, f"{REACH[name]:g}", sent]

    starts = " | ".join(f"start {s}" for s in STARTS)
    return table(f"data | seeds | {starts} | to reach | sent", map(row, REACH))


def peers() -> str:
    ring, others = read("accuracy")["five"], read("peers")

    def row(name: str) -> list[str]:
        ours = ring[name]["0"]["ring"]["0"]
        found = [others[name][who]["mse"] for who in ("newton", *PEERS)]
        return [name, *(figure(value) for value in (ours, *found))]

    names = " | ".join(f"River {name}" for name in PEERS.values())
    return table(f"data | ring of Auto | ring of Paper, newton | {names}", map(row, REACH))


def together() -> str:
    kept = read("accuracy")
    rows = (
        [
            name,
            figure(kept["five"][name]["0"]["ring"]["1/3"], 4),
            *(figure(kept["other"][name]["0"][who]["1/3"], 4) for who in ("alone", "sees_all")),
        ]
        for name in REACH
    )
    return table("data | ring | alone | sees all", rows)


def curve() -> str:
    kept = read("curve")
    sizes = list(kept["weather"])
    rows = (
        [name, *(figure(kept[name][size]["mse"], 4) for size in sizes), f"{reach:g}"]
        for name, reach in REACH.items()
    )
    return table(f"data | {' | '.join(sizes)} | to reach", rows)


def _times(rows: dict[str, Any], who: str, part: str) -> float:
    """A network's mean error as a multiple of that of the learner that sees all."""
    mean = {key: np.mean([row[key][part] for row in rows.values()]) for key in (who, "sees_all")}
    return float(mean[who] / mean["sees_all"])


def twenty() -> str:
    kept = read("accuracy")["twenty"]

    def row(name: str) -> list[str]:
        cells = [f"{_times(kept[name], k, 'later'):.2f} ({_times(kept[name], k, 'all'):.2f})" for k in TWENTY]
        return [name, str(len(kept[name])), *cells]

    return table(f"data | seeds | {' | '.join(TWENTY)}", map(row, REACH))


def _seeds(values: list[float]) -> str:
    """The mean, and the least to the greatest."""
    ends = f" ({figure(min(values))} to {figure(max(values))})" if len(values) > 1 else ""
    return f"{figure(float(np.mean(values)))}{ends}"


def heldout() -> str:
    kept = read("heldout")

    def row(name: str) -> list[str]:
        some = kept[name]
        cells = [_seeds(some[key]) for key in ("ring", *PEERS)]
        return [SMALL[name], f"{some['rows']:,} x {some['inputs']}", *cells, figure(some["variance"])]

    names = " | ".join(f"River {name}" for name in PEERS.values())
    return table(f"data | rows x inputs | ring of five | {names} | variance", map(row, SMALL))


def regret() -> str:
    kept = read("regret")["regret"]
    rows = ([str(n), f"{row['exponent']:.2f}", f"{row['last']:.2f}"] for n, row in enumerate(kept))
    return table("seed | exponent, 250 to 4000 rounds | last doubling alone", rows)


def consensus() -> str:
    rows = []
    for seed, kept in enumerate(read("regret")["consensus"]):
        kappa = min(kept["first"], key=lambda k: kept["first"][k]["mse"])
        for who, row in (("Auto", kept["auto"]), (f"Paper, kappa {kappa}", kept["first"][kappa])):
            rows.append([f"{seed}, {who}", figure(row["mse"], 2), figure(row["cv"], 2)])
    return table("seed and model | MSE | consensus violation", rows)


def classes() -> str:
    rows = read("classification")
    streams = list(dict.fromkeys(row["stream"] for row in rows))
    learners = list(dict.fromkeys(row["learner"] for row in rows))

    def cell(stream: str, learner: str) -> str:
        found = [100 * r["accuracy"] for r in rows if (r["stream"], r["learner"]) == (stream, learner)]
        ends = f" ({min(found):.1f} to {max(found):.1f})" if len(found) > 1 else ""
        return f"{np.mean(found):.1f}{ends}"

    lines = ([learner, *(cell(stream, learner) for stream in streams)] for learner in learners)
    return table(f"learner | {' | '.join(streams)}", lines)


def class_times() -> str:
    rows = read("classification")
    learners = list(dict.fromkeys(row["learner"] for row in rows))
    lines = []
    for learner in learners:
        means = [
            np.mean([r["us_a_sample"] for r in rows if (r["stream"], r["learner"]) == (stream, learner)])
            for stream in dict.fromkeys(row["stream"] for row in rows)
        ]
        lines.append([learner, *(figure(mean / 1e3, 2) for mean in means)])
    streams = " | ".join(dict.fromkeys(row["stream"] for row in rows))
    return table(f"ms a sample | {streams}", lines)


MADE: dict[str, Maker] = {
    "five-learners": five,
    "peers": peers,
    "together": together,
    "curve": curve,
    "twenty-learners": twenty,
    "held-out": heldout,
    "regret": regret,
    "consensus": consensus,
    "classes": classes,
    "class-times": class_times,
}
