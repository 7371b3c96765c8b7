"""What lost messages, outages, restarts and unequal rates do to devices that learn with `domkl.Auto`.

    python benchmarks/faults.py                         what is not kept yet, in results/faults.json
    python benchmarks/faults.py --only loss,outage --streams a0 --seeds 1

Column "before" is of commit c3137ce, "now" (the default) of what is installed.

Devices (`domkl.Learner`, size 200, float32) of a deterministic scheduler, 700 rounds, on three streams:
weather dealt to five on a ring, six with one made function and four neighbours each (a0), three stations six
hours ahead. In every round all observe, messages arrive or are lost, and what is still open is closed.

loss        20 % of all messages, but for the last five rounds
outage      of 40 rounds from a round on: of all messages, of those from a device to later ones ("one way"),
            of those between two halves
join, leave, restart
            the last device comes or goes in round 300, or is restarted then, from `save`; "away": it is
            back after 20 rounds, with what was saved or with nothing. Neighbours drop one that is away and
            join one that they heard in the last round, and one that comes with nothing goes through four of
            their rounds before it has a sample, as agents do
rates       three devices, path or complete, with 8, 2 and 1/3 samples a second, rounds at will. The measure
            is the same three in step: at every tick of the fastest all take part, those that have no sample
            at that time with a step without one. "alone": without links

Kept: errors over those of the same run without the fault, of the whole run ("all"), from the fault on
("since"), after an outage, and since of the device itself and of the others; the bar is 1.03, 1.10 for
rates. "scales": different ones at the end, "split": part of the rounds since in which there were several,
"stalled": devices whose rounds or samples are not all done, "faults": rounds that ended by an exception,
"duals": largest |sum of lam| over largest |lam|.
"""

from __future__ import annotations

import argparse
import copy
import functools
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import judge
import networkx as nx
import numpy as np
import together
from unequal_rates import measure as rates

import domkl

RESULTS = Path(__file__).parent / "results" / "faults.json"
STREAMS = ("weather", "a0", "stations6")
SIZE, ROUNDS, AT, AWAY, OUTAGE = 200, 700, 300, 20, 40
#: Rounds in which a device that knows nothing follows the others before its first sample.
LISTENS = 4
MOMENTS = {"all": (0, 10, 30, 60, 100, 480, 505, 600), "one way": (10, 505), "halves": (10, 505)}


class Fault(NamedTuple):
    """When a message (round, sender, receiver) is lost, and when the last device is away."""

    lost: Callable[[int, int, int], bool] = lambda t, i, j: False
    begins: int = 0
    away: tuple[int, int] | None = None  # from one round until before another; all others are there always
    returns: str = "saved"  # or "new"


NONE = Fault()
BEGINS = {AT, *MOMENTS["all"]} - {0}


def faults(J: int, seed: int) -> dict[str, Fault]:
    """All of them, by name."""
    is_lost = np.random.default_rng(seed).random((ROUNDS, J, J)) < 0.2
    is_lost[-5:] = False
    ways = {
        "all": lambda i, j: True,
        "one way": lambda i, j: i < j,
        "halves": lambda i, j: (i < J // 2) != (j < J // 2),
    }
    found = {
        "none": NONE,
        "loss": Fault(lambda t, i, j: bool(is_lost[t, i, j])),
        "join": Fault(begins=AT, away=(0, AT), returns="new"),
        "leave": Fault(begins=AT, away=(AT, ROUNDS)),
        "restart": Fault(begins=AT, away=(AT, AT)),
        "away saved": Fault(begins=AT, away=(AT, AT + AWAY)),
        "away new": Fault(begins=AT, away=(AT, AT + AWAY), returns="new"),
    }
    for way, is_cut in ways.items():
        for at in MOMENTS[way]:
            found[f"outage {way} {at}"] = Fault(
                lambda t, i, j, at=at, is_cut=is_cut: at <= t < at + OUTAGE and is_cut(i, j), at
            )
    return found


def case(name: str, seed: int) -> judge.Case:
    """A stream with enough rounds."""
    found = judge.case(name)
    if name == "a0":
        X, y = together.made(0.0, seed, J=6, T=ROUNDS)[:2]
        found = judge.Case(X, y, nx.to_numpy_array(nx.circulant_graph(6, [1, 2])))
    return found._replace(X=found.X[:, :ROUNDS], y=found.y[:, :ROUNDS])


class Devices:
    """Those of a case, in step."""

    def __init__(self, case: judge.Case, seed: int, fault: Fault) -> None:
        self.case, self.fault, J = case, fault, len(case.y)
        self.model = domkl.Auto(size=SIZE, seed=seed, start=float(case.y[:, 0].mean()))
        self.near = [np.flatnonzero(row).tolist() for row in case.A]
        self.up = {j: self.make(j) for j in range(J) if j < J - 1 or not fault.away or fault.away[0]}
        for one in self.up.values():
            for i in set(one.neighbours) - self.up.keys():
                one.leave(i)
        self.sent: dict[int, domkl.Update] = {}  # in the last round
        self.samples = dict.fromkeys(range(J), 0)
        self.listening: set[int] = set()  # devices without samples so far

    def make(self, j: int, number: int = 0) -> domkl.Learner:
        """A device that knows nothing."""
        how = {"inputs": self.case.X.shape[2], "dtype": np.float32, "number": number}
        return domkl.Learner(self.model, self.near[j], name=j, **how)

    def come_and_go(self, t: int) -> None:
        """The last device is restarted, leaves or comes, and the others follow a round later."""
        last, (leaves, comes) = len(self.near) - 1, self.fault.away or (-1, -1)
        if t == leaves > 0:
            self.saved = self.up.pop(last).save()
        is_new = self.fault.returns == "new"
        if t == (comes - LISTENS if is_new else comes):
            self.up[last] = self.make(last, number=t)
            if is_new:
                self.up[last].adopt([self.sent[i] for i in self.near[last]])
                self.listening.add(last)
            else:
                self.up[last].load(*self.saved)
            self.up[last].skip_to(self.up[0].round)
        if t == comes:
            self.listening.clear()
        for j, one in self.up.items():
            for i in self.near[j]:
                if i in one.neighbours and i not in self.up:
                    one.leave(i)
                elif i not in one.neighbours and i in self.sent:
                    one.join(i, number=t)

    def go_round(self, t: int) -> None:
        """All observe what they know the label of, send, and close."""
        X, y, when = self.case.X, self.case.y, t - self.case.delay
        if when < 0:
            return
        awake = self.up.keys() - self.listening
        self.sent = {j: self.up[j].observe(X[j, when], y[j, when]) for j in sorted(awake)}
        self.listen()
        for j, one in self.up.items():
            self.samples[j] += j in awake
            for i in one.neighbours:
                if i in self.sent and one.waiting and not self.fault.lost(t, i, j):
                    one.receive(i, self.sent[i])
            if one.waiting:
                one.close()

    def listen(self) -> None:
        """Those without samples go through the round of their neighbours."""
        for j in self.listening:
            for i in self.up[j].neighbours:
                self.up[j].receive(i, self.sent[i])
            if (update := self.up[j].follow()) is not None:
                self.sent[j] = update


Begun: TypeAlias = dict[int, tuple[Devices, np.ndarray, list[int]]]


def run(case: judge.Case, seed: int, fault: Fault, begun: Begun) -> dict[str, Any]:
    """Squared errors (J, T), NaN where a device is away, and how it ended.

    `begun` has runs until before a round: what precedes the fault is taken from there, and what is missing is
    added by a run without fault.
    """
    J, first = len(case.y), 0
    devices, errors, scales = Devices(case, seed, fault), np.full(case.y.shape, np.nan), []
    if fault.begins in begun and not (fault.away and fault.away[0] == 0):
        first = fault.begins
        devices, errors, scales = copy.deepcopy(begun[first])
        devices.fault = fault
    for t in range(first, ROUNDS):
        if fault == NONE and t in BEGINS:
            begun[t] = copy.deepcopy((devices, errors, scales))
        devices.come_and_go(t)
        for j in devices.up.keys() - devices.listening:
            one = devices.up[j]
            errors[j, t] = (one.predict(case.X[j, t]) - case.y[j, t]) ** 2
        devices.go_round(t)
        scales.append(len({float(update.scalars[0]) for update in devices.sent.values()}))
    lam = np.stack([one.state.lam for one in devices.up.values()]).astype(float)
    there = ROUNDS - case.delay - np.isnan(errors[:, case.delay :]).sum(1)
    rounds = [one.round for one in devices.up.values()]
    return {
        "errors": errors,
        "scales": scales[-1],
        "split": float((np.array(scales[fault.begins :]) > 1).mean()),
        "stalled": int(sum(there[j] != devices.samples[j] for j in range(J)) + len(set(rounds)) - 1),
        "faults": sum(len(one.faults) for one in devices.up.values()),
        "duals": float(np.abs(lam.sum(0)).max() / max(np.abs(lam).max(), 1e-30)),
    }


def measure(case: judge.Case, seed: int, fault: Fault, clean: dict[str, Any], begun: Begun) -> dict[str, Any]:
    """What is kept of a run with a fault."""
    found = dict(clean) if fault == NONE else run(case, seed, fault, begun)
    wrong, right, since = found.pop("errors"), clean["errors"], slice(max(fault.begins, 1), None)
    right = np.where(np.isnan(wrong), np.nan, right)  # only what both have seen
    ratio = lambda *at: float(f"{np.nanmean(wrong[at]) / np.nanmean(right[at]):.4g}")  # noqa: E731
    found |= {"all": ratio(slice(None), slice(1, None)), "since": ratio(slice(None), since)}
    if fault.lost is not NONE.lost and fault.begins + OUTAGE < ROUNDS:
        found["after"] = ratio(slice(None), slice(fault.begins + OUTAGE, None))
    if fault.away and fault.away[1] < ROUNDS:
        found |= {"itself": ratio(-1, since), "others": ratio(slice(-1), since)}
    return found


def cases(stream: str, seed: int) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """Name and measurement of every fault."""
    given = case(stream, seed)
    begun: Begun = {}
    clean = functools.cache(lambda: run(given, seed, NONE, begun))
    for name, fault in faults(len(given.y), seed).items():
        yield name, lambda fault=fault: measure(given, seed, fault, clean(), begun)
    for graph in ("path", "complete"):
        yield f"rates {graph}", lambda graph=graph: rates(stream, seed, graph)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--streams", default=",".join(STREAMS))
    parser.add_argument("--only", default="", help="faults whose names contain one of these, by commas")
    parser.add_argument("--column", default="now")
    args = parser.parse_args()
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    column = kept.setdefault(args.column, {})
    for seed in range(args.seeds):
        for stream in args.streams.split(","):
            for name, make in cases(stream, seed):
                rows = column.get(name, {}).get(stream, {})
                if any(part in name for part in args.only.split(",")) and str(seed) not in rows:
                    rows = column.setdefault(name, {}).setdefault(stream, {})
                    rows[str(seed)] = make()
                    RESULTS.with_suffix(".new").write_text(json.dumps(kept) + "\n")
                    RESULTS.with_suffix(".new").replace(RESULTS)  # at once: a run may be killed
                    print(name, stream, seed, rows[str(seed)], flush=True)


if __name__ == "__main__":
    main()
