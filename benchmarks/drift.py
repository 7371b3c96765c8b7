"""How `domkl.Auto` follows a change, and what its watching costs where nothing changes.

    python benchmarks/drift.py --seeds 10              changes, then streams without any; kept seeds stay
    python benchmarks/drift.py --kinds gra --json      one kind, and all kept results as JSON too

Changes are River's `synth.FriedmanDrift`, one sample a round for each of five learners on a ring, and the
three weather stations with their inputs exchanged. Errors are prequential and include the noise (variance 1
for Friedman's function). Two levels are compared with: the error in the 200 rounds before the change, and the
error of a network at the same age, t rounds after its very start.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import accuracy
import numpy as np

import domkl
from domkl import datasets

RESULTS = Path(__file__).parent / "results" / "drift.json"
#: Rounds of a point of the curves, of the average that has to be back, and of the level before the change.
BIN, BACK, BEFORE = 10, 50, 200
#: River's kind: rounds of the changes, and how many rounds a change takes.
CHANGES: dict[str, tuple[tuple[int, ...], int]] = {
    "gra": ((700, 1200), 0),
    "gsg": ((700, 1300), 100),
    "lea": ((700, 1200, 1700), 0),
}
AFTER = 400
STATIONARY = ("friedman", *accuracy.SETS)


def friedman(kind: str, seed: int) -> tuple[np.ndarray, np.ndarray, int]:
    """X (5, T, 10), y (5, T) of River's generator, and no delay."""
    from river.datasets import synth

    at, takes = CHANGES[kind]
    T = at[-1] + takes + AFTER
    position = tuple(5 * t for t in at)
    stream = synth.FriedmanDrift(kind, position=position, transition_window=5 * takes, seed=seed)
    rows = [(*x.values(), y) for x, y in stream.take(5 * T)]
    both = np.array(rows).reshape(T, 5, 11).transpose(1, 0, 2)
    return both[..., :10], both[..., 10], 0


def stations(seed: int) -> tuple[np.ndarray, np.ndarray, int]:
    """The shipped weather stations, 3000 hours from a month that the seed chooses; inputs move after 2000."""
    split = datasets.load_stations()
    begin = 570 * (seed % 10)
    X, y = split.X[:, begin : begin + 3000].copy(), split.y[:, begin : begin + 3000]
    X[:, 2000:] = np.roll(X[:, 2000:], 1, axis=-1)
    return X, y, split.delay


def errors(X: np.ndarray, y: np.ndarray, delay: int, seed: int, forgets: bool) -> np.ndarray:
    """Squared errors (J, T)."""
    forgetting = "auto" if forgets else "none"
    model = domkl.Auto(seed=seed, start=float(y[:, 0].mean()), forgetting=forgetting)
    run = domkl.simulate(X, y, "ring", model=model, delay=delay, dtype=np.float32)
    return np.asarray((run.y_hat - y) ** 2)


def curve(kind: str, seed: int, forgets: bool) -> list[float]:
    """The learners' mean error, `BIN` rounds a point."""
    X, y, delay = stations(seed) if kind == "stations" else friedman(kind, seed)
    found = errors(X, y, delay, seed, forgets).mean(0)
    return [float(f"{v:.4g}") for v in found[: len(found) // BIN * BIN].reshape(-1, BIN).mean(1)]


def cost(name: str, seed: int, most: int) -> dict[str, float]:
    """Mean errors from the second round on, with and without watching; `most` rounds."""
    if name == "friedman":
        rng = np.random.default_rng(seed)
        X = rng.uniform(size=(5, 1500, 10))
        y = 10 * np.sin(np.pi * X[..., 0] * X[..., 1]) + 20 * (X[..., 2] - 0.5) ** 2
        y = y + 10 * X[..., 3] + 5 * X[..., 4] + rng.standard_normal(y.shape)
    else:
        X, y = accuracy.streams(name, 5, seed)
    X, y = X[:, :most], y[:, :most]
    on, off = (float(errors(X, y, 0, seed, forgets)[:, 1:].mean()) for forgets in (True, False))
    return {"with": on, "without": off, "ratio": on / off, "rounds": y.shape[1]}


def recovery(points: np.ndarray, at: int, takes: int) -> dict[str, float]:
    """Of curves (seeds, n): levels, and rounds until the mean over `BACK` rounds is within 10 % of them."""
    mean = points.mean(0)
    rolled = np.convolve(mean, np.ones(BACK // BIN) / (BACK // BIN), "valid")
    begin, end = at // BIN, (at + takes) // BIN
    level = float(mean[begin - BEFORE // BIN : begin].mean())
    after = rolled[end : end + AFTER // BIN - BACK // BIN + 1]

    def first(inside: np.ndarray) -> float:
        return float(BIN * np.argmax(inside)) if inside.any() else float("nan")

    def between(a: int, b: int) -> np.ndarray:
        return points[:, end + a // BIN : end + b // BIN].mean(1)

    return {
        "level": level,
        "at_once": float(between(0, 20).mean()),
        "rounds_100_150": float(between(100, 150).mean()),
        "rounds_150_200": float(between(150, 200).mean()),
        "rounds_200_250": float(between(200, 250).mean()),
        "ratio_150_200": float(between(150, 200).mean() / level),
        "ratio_200_250": float(between(200, 250).mean() / level),
        "spread_200_250": float((between(200, 250) / level).std()),
        "back_to_level": first(after <= 1.1 * level),
        "ratio_to_fresh_50_200": float(between(50, 200).mean() / points[:, 50 // BIN : 200 // BIN].mean()),
    }


def summary(kept: dict) -> dict[str, dict]:
    """What the kept curves say of each change, with forgetting and without."""
    out: dict[str, dict] = {}
    for key, rows in kept["curves"].items():
        kind = key.split()[0]
        at, takes = CHANGES.get(kind, ((2000,), 0))
        points = np.array(list(rows.values()))
        out[key] = {str(t): {"seeds": len(rows), **recovery(points, t, takes)} for t in at}
    return out


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--without", type=int, default=2, help="seeds of the same without forgetting")
    parser.add_argument("--stationary", type=int, default=2, help="seeds of streams without change")
    parser.add_argument("--most", type=int, default=10**9, help="rounds of streams without change")
    parser.add_argument("--kinds", default=",".join([*CHANGES, "stations"]), help="separated by commas")
    parser.add_argument("--json", action="store_true", help="print the results as JSON too")
    args = parser.parse_args()
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"curves": {}, "stationary": {}}

    def keep(rows: dict, seed: int, measure, *given: object) -> None:
        if str(seed) not in rows:
            rows[str(seed)] = measure(*given)
            RESULTS.write_text(json.dumps({**kept, "summary": summary(kept)}) + "\n")
            print(given, "done", file=sys.stderr, flush=True)

    for seed in range(args.seeds):
        for kind in args.kinds.split(","):
            keep(kept["curves"].setdefault(kind, {}), seed, curve, kind, seed, True)
            if seed < args.without:
                keep(kept["curves"].setdefault(f"{kind} without", {}), seed, curve, kind, seed, False)
    for seed in range(args.stationary):
        for name in STATIONARY:
            keep(kept["stationary"].setdefault(name, {}), seed, cost, name, seed, args.most)
    for key, changes in summary(kept).items():
        for at, row in changes.items():
            print(f"{key:16} {at:>5}", *(f"{k} {v:.4g}" for k, v in row.items()))
    for name, rows in kept["stationary"].items():
        print(f"{name:16} with/without forgetting", *(f"{row['ratio']:.4f}" for row in rows.values()))
    if args.json:
        json.dump(kept, sys.stdout)


if __name__ == "__main__":
    main()
