"""How soon a change can be learnt at all: limits for what `drift.py` measures.

    python benchmarks/drift_limit.py                   both; what is kept is not measured again
    python benchmarks/drift_limit.py --only stations   the weather stations alone

Local changes (`lea` of River's `FriedmanDrift`) fall into two boxes of few samples. Errors in the middle of
rounds 200 to 250 after a change, by learners that get all samples of the five since the change: a fresh ring
of `domkl.Auto`; trees taught what is left of the old function, which they are given; and an oracle that is
given both functions, the inputs and the sides that bound each box, and whether each sample lies inside,
and averages over the thresholds that all this leaves possible. For trees and oracle the level before is the
noise, of variance 1.

The stations' errors vary with the weather, so each change is compared with the same rounds of the same
learners without it, at many times of a year. Beside it a network that begins at the same times, which knows
no past and need not notice anything.
"""

from __future__ import annotations

import argparse
import itertools
import json
from pathlib import Path

import numpy as np

import domkl
from domkl import datasets

RESULTS = Path(__file__).parent / "results" / "drift_limit.json"
#: Learners, the rounds after which they are judged, and samples to judge them by.
J, ROUNDS, JUDGED = 5, 225, 20_000
#: The inputs that bound the boxes, the first 4, 3, 2 of them after the changes; and how far a box reaches.
BOUNDS, REACH = (1, 2, 3, 4), 0.3
#: Of which box each bound is at the top, not at the bottom.
TOP = ((False, False, True, False), (True, True, False, True))
#: The stations: change times, and rounds followed after each.
TIMES, AFTER, WINDOW = range(1000, 8300, 300), 400, 50


def old(x: np.ndarray) -> np.ndarray:
    """The function before all changes. (n, 10) -> (n,)"""
    return 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]


def new(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The functions inside the two boxes."""
    slope = 20 * (x[:, 2] - 0.5)
    low = 10 * x[:, 0] * x[:, 1] + slope + 10 * x[:, 3] + 5 * x[:, 4]
    return low, 10 * np.cos(x[:, 0] * x[:, 1]) + slope + np.exp(x[:, 3]) + 5 * x[:, 4] ** 2


def depths(x: np.ndarray, box: int, bounds: int) -> np.ndarray:
    """How far inputs are from the side of the cube where the box is; all below `REACH` inside. (n, bounds)"""
    return np.stack(
        [1 - x[:, c] if top else x[:, c] for c, top in zip(BOUNDS, TOP[box], strict=True)][:bounds], -1
    )


def local(change: int, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """n samples of River's generator after its first, second or third local change."""
    from river.datasets import synth

    position = tuple(range(1, change + 1)) + tuple(10**9 + k for k in range(3 - change))
    stream = synth.FriedmanDrift("lea", position=position, seed=seed)
    rows = np.array([(*x.values(), y) for x, y in itertools.islice(stream, change, change + n)])
    return rows[:, :10], rows[:, 10]


def oracle(X: np.ndarray, T: np.ndarray, change: int, seed: int, draws: int = 400) -> np.ndarray:
    """Predictions for T by one who knows all but the thresholds: Gibbs draws from those that X allows."""
    bounds, y_hat, rng = 5 - change, old(T), np.random.default_rng(seed)
    for box, values in enumerate(new(T)):
        u, v = depths(X, box, bounds), depths(T, box, bounds)
        inside = (u < REACH).all(-1)
        threshold, share = np.full(bounds, REACH), np.zeros(len(T))
        for _ in range(draws):
            for k in range(bounds):
                others = np.delete(np.arange(bounds), k)
                beyond = (u[:, others] < threshold[others]).all(-1) & ~inside
                least = u[inside, k].max(initial=0.0)
                threshold[k] = rng.uniform(least, u[beyond, k].min(initial=1.0))
            share += (v < threshold).all(-1) / draws
        y_hat += share * (values - old(T))
    return y_hat


def limits(change: int, seed: int) -> dict[str, float]:
    """Mean squared errors on samples not seen, in the middle of rounds 200 to 250 after a local change."""
    from sklearn.ensemble import ExtraTreesRegressor, GradientBoostingRegressor

    X, y = local(change, J * (ROUNDS + 25), seed)
    T, labels = local(change, JUDGED, seed + 1000)
    streams = X.reshape(-1, J, 10).swapaxes(0, 1), y.reshape(-1, J).T
    run = domkl.simulate(*streams, "ring", model=domkl.Auto(seed=seed), dtype=np.float32)
    n = J * ROUNDS
    left = y[:n] - old(X[:n])
    trees = {
        "extra_trees": ExtraTreesRegressor(200, random_state=seed),
        "boosted_trees": GradientBoostingRegressor(max_depth=5, subsample=0.7, random_state=seed),
    }
    y_hats = {"unchanged": old(T), "oracle": oracle(X[:n], T, change, seed)}
    y_hats |= {name: old(T) + model.fit(X[:n], left).predict(T) for name, model in trees.items()}
    errors = {name: float(((y_hat - labels) ** 2).mean()) for name, y_hat in y_hats.items()}
    return {**errors, "auto_fresh": float(((run.y_hat.T.ravel() - y)[-J * 50 :] ** 2).mean())}


def misses(X: np.ndarray, y: np.ndarray, delay: int, seed: int) -> np.ndarray:
    """Mean squared errors of the stations, hour by hour. (J, T, d), (J, T) -> (T,)"""
    model = domkl.Auto(seed=seed, start=float(y[:, 0].mean()))
    run = domkl.simulate(X, y, "ring", model=model, delay=delay, dtype=np.float32)
    return np.asarray(((run.y_hat - y) ** 2).mean(0))


def stations(seed: int) -> dict[str, list[list[float]]]:
    """Errors after each change, without it, and of networks that begin then; `WINDOW` rounds a point."""
    split = datasets.load_stations()
    X, y, delay = split.X, split.y, split.delay
    year = misses(X[:, : TIMES[-1] + AFTER], y[:, : TIMES[-1] + AFTER], delay, seed)
    out: dict[str, list[np.ndarray]] = {"changed": [], "fresh": [], "unchanged": []}
    for t in TIMES:
        exchanged = X[:, : t + AFTER].copy()
        exchanged[:, t:] = np.roll(exchanged[:, t:], 1, axis=-1)
        out["changed"].append(misses(exchanged, y[:, : t + AFTER], delay, seed)[t:])
        out["fresh"].append(misses(X[:, t : t + AFTER], y[:, t : t + AFTER], delay, seed))
        out["unchanged"].append(year[t : t + AFTER])
    return {name: np.reshape(rows, (len(TIMES), -1, WINDOW)).mean(-1).tolist() for name, rows in out.items()}


def ratio(kept: dict, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Summed errors over those of the unchanged, each window, and its spread over draws of change times."""
    some, plain = (np.vstack([rows[key] for rows in kept.values()]) for key in (name, "unchanged"))
    drawn = np.random.default_rng(0).integers(0, len(some), (1000, len(some)))
    return some.sum(0) / plain.sum(0), (some[drawn].sum(1) / plain[drawn].sum(1)).std(0)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=10, help="of local changes")
    parser.add_argument("--years", type=int, default=1, help="of the stations: seeds of the frequencies")
    parser.add_argument("--only", choices=("lea", "stations"))
    args = parser.parse_args()
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"lea": {}, "stations": {}}

    def keep(rows: dict, seed: int, measure, *given: object) -> None:
        if str(seed) not in rows:
            rows[str(seed)] = measure(*given, seed)
            RESULTS.write_text(json.dumps(kept) + "\n")

    for change, seed in itertools.product((1, 2, 3), range(args.seeds if args.only != "stations" else 0)):
        keep(kept["lea"].setdefault(str(change), {}), seed, limits, change)
    for seed in range(args.years if args.only != "lea" else 0):
        keep(kept["stations"], seed, stations)
    for change, rows in kept["lea"].items():
        for name in rows["0"]:
            found = np.array([row[name] for row in rows.values()])
            print(f"lea {change} {name:14} {found.mean():6.3f} +- {found.std():.3f}")
    for name in ("changed", "fresh") if kept["stations"] else ():
        means, spread = ratio(kept["stations"], name)
        print(f"{name:8} / unchanged", *(f"{m:.2f}+-{s:.2f}" for m, s in zip(means, spread, strict=True)))


if __name__ == "__main__":
    main()
