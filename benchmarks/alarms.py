"""Alarms: how many are false, and how many faults are found, beside River's anomaly models.

    python benchmarks/alarms.py --kept DIR      needs DOMKL_DATA; predictions are kept in DIR

False alarms: `domkl.alarms` judges the predictions of `domkl.Auto(size=200)` on streams as they are, faults
that they may hold included; one learner, or three on the stations. A rate is "beyond chance" where a stream
should raise so many alarms (100) that a part of 20 % is two standard deviations of a count.

Faults: into the first 9000 readings of some streams, one every 600, see `alarm_streams.py`; the model learns
them, too. A fault is found if an alarm is raised while it lasts. River's models get what they are made for:
the target alone (GaussianScorer, StandardAbsoluteDeviation), or inputs and target scaled to [0, 1] by the
whole clean stream (HalfSpaceTrees). Their threshold is the score that the rate asked for
of the same readings without faults exceed: a threshold that no one has who does not know the stream.
LocalOutlierFactor is left out: it compares with all readings so far, and takes 8 ms for one after 300.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
from alarm_streams import CHOSEN_ON, FAULTS, UNSEEN, Readings, load, starts, with_faults

import domkl

RESULTS = Path(__file__).parent / "results" / "alarms.json"
RATES = (0.01, 0.002)
ENOUGH = 100  # alarms
FAULTY = ("bike", "made: normal", "MetroTraffic", "stations", "House8L", "weather", "air quality")
ROWS, GRACE = 9000, 200
Row = dict[str, Any]


def predictions(name: str, fault: str, kept: Path) -> tuple[np.ndarray, np.ndarray, int]:
    """Labels, what was predicted of them, and the delay; kept from the last time."""
    path = kept / f"{name.replace(': ', '_').replace(' ', '_')}-{fault.replace(' ', '_')}.npz"
    if not path.exists():
        found = load(name)
        if fault != "clean":
            y = with_faults(found.y[:, :ROWS], fault)
            found = Readings(found.X[:, :ROWS], y, found.delay)
        graph = "complete" if len(found.y) > 1 else nx.empty_graph(1)
        how: Row = {"model": domkl.Auto(size=200), "delay": found.delay, "dtype": np.float32, "threads": 1}
        np.savez(
            path, y=found.y, y_hat=domkl.simulate(found.X, found.y, graph, **how).y_hat, delay=found.delay
        )
    with np.load(path) as file:
        return file["y"], file["y_hat"], int(file["delay"])


def false_alarms(name: str, kept: Path) -> Row:
    y, y_hat, delay = predictions(name, "clean", kept)
    found: Row = {"readings": y.size, "chosen_on": name in CHOSEN_ON}
    for rate in RATES:
        count = int(domkl.alarms.judge_all(y_hat, y, rate, delay).alarm.sum())
        asked = rate * y.size
        found[str(rate)] = {
            "alarms": count,
            "asked": asked,
            "ratio": count / asked,
            "enough": asked >= ENOUGH,
        }
    return found


def summary(alarm: np.ndarray, fault: str) -> Row:
    """Part of the faults found, the median delay of these, and alarms per reading well after a fault."""
    lasts, delays, quiet = FAULTS[fault], [], np.ones(alarm.shape[1], bool)
    quiet[:GRACE] = False
    for at in starts(alarm.shape[1]):
        quiet[at : at + lasts + 100] = False
        delays += [int(row[at : at + lasts].argmax()) if row[at : at + lasts].any() else -1 for row in alarm]
    known = [delay for delay in delays if delay >= 0]
    return {
        "faults": len(delays),
        "found": len(known) / len(delays),
        "delay": float(np.median(known)) if known else None,
        "false": float(alarm[:, quiet].mean()),
    }


def ours(name: str, fault: str, rate: float, kept: Path) -> Row:
    y, y_hat, delay = predictions(name, fault, kept)
    return summary(domkl.alarms.judge_all(y_hat, y, rate, delay).alarm, fault)


def detectors() -> dict[str, Callable[[], Any]]:
    from river import anomaly

    return {
        "GaussianScorer": lambda: anomaly.GaussianScorer(window_size=None, grace_period=100),
        "StandardAbsoluteDeviation": anomaly.StandardAbsoluteDeviation,
        "HalfSpaceTrees": lambda: anomaly.HalfSpaceTrees(seed=0),
    }


def scores(make: Callable[[], Any], X: np.ndarray, y: np.ndarray, low: Any, span: Any) -> np.ndarray:
    """A detector's score of each reading before it learns it. (T, d), (T,) -> (T,)"""
    from river import base

    detector, found = make(), np.zeros(len(y))
    takes_y = isinstance(detector, base.SupervisedAnomalyDetector)
    table = (np.nan_to_num(np.column_stack([X, y])) - low) / span
    for t, row in enumerate(table.tolist()):
        if takes_y:
            found[t] = detector.score_one({}, y[t])
            detector.learn_one({}, y[t])
        else:
            x = dict(enumerate(row))
            found[t] = detector.score_one(x)
            detector.learn_one(x)
    return found


def theirs(which: str, name: str) -> Iterable[tuple[str, float, Row]]:
    """For every fault and rate, with the threshold of the clean stream."""
    stream, make = load(name), detectors()[which]
    X, y = stream.X[:, :ROWS], stream.y[:, :ROWS]
    tables = [np.nan_to_num(np.column_stack(both)) for both in zip(X, y, strict=True)]
    low = [table.min(0) for table in tables]
    span = [np.where(np.ptp(table, 0) > 0, np.ptp(table, 0), 1) for table in tables]
    J = range(len(y))
    clean = np.array([scores(make, X[j], y[j], low[j], span[j]) for j in J])
    for fault in FAULTS:
        faulty = with_faults(y, fault)
        found = np.array([scores(make, X[j], faulty[j], low[j], span[j]) for j in J])
        for rate in RATES:
            threshold = np.quantile(clean[:, GRACE:], 1 - rate, axis=1, keepdims=True)
            yield fault, rate, summary(found > threshold, fault)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kept", type=Path, required=True, help="directory of predictions")
    parser.add_argument("--part", choices=("rates", "ours", *detectors()), nargs="*", help="only these")
    parser.add_argument(
        "--streams", nargs="*", choices=FAULTY, default=FAULTY, help="with faults, only these"
    )
    args = parser.parse_args()
    args.kept.mkdir(parents=True, exist_ok=True)
    for part in args.part or ("rates", "ours", *detectors()):
        found = measured(part, args.kept, args.streams)
        kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"rates": {}, "faults": {}}
        kept["rates"] |= found.pop("rates", {})
        for name, row in found.items():
            kept["faults"].setdefault(name, {})[part] = row
        temporary = RESULTS.with_suffix(f".{os.getpid()}")
        temporary.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
        temporary.replace(RESULTS)
        print(part, "done", flush=True)


def measured(part: str, kept: Path, streams: Iterable[str]) -> Row:
    if part == "rates":
        return {"rates": {name: false_alarms(name, kept) for name in (*CHOSEN_ON, *UNSEEN)}}
    found: Row = {}
    for name in streams:
        if part == "ours":
            each = [(fault, rate, ours(name, fault, rate, kept)) for fault in FAULTS for rate in RATES]
        else:
            each = list(theirs(part, name))
        found[name] = {fault: {str(r): row for f, r, row in each if f == fault} for fault in FAULTS}
    return found


if __name__ == "__main__":
    main()
