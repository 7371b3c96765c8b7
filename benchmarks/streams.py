"""One device of `domkl.Auto` on public streams, beside what a leaderboard publishes for them.

    python benchmarks/streams.py                 every stream that is not kept yet; needs DOMKL_DATA
    python benchmarks/streams.py --only bike     some of them, again

Decided before the first of these streams was run, and not to be changed afterwards:

    may be tuned on    fried, electricity, bike
    only reported      elevators, ailerons, House8L, MetroTraffic, adult, synth_RandomRBFDrift

No constant, default or feature of domkl may be chosen by its effect on a stream of the second line; where one
was, the stream moves to the first line, here and in docs/auto.md, and another takes its place.

The protocol is the leaderboard's: each sample is predicted, then learnt, in the order of the file; R2 is one
minus the squared errors over the squared distances from the mean, of the whole stream; accuracy is the share
of right predictions, and none before the first label is wrong. Inputs are raw. 400 parameters, float32, seed
0. Where there are more than two classes, each has a model of its own against the rest, and the most probable
class seen so far is predicted.

Beside it: "no change" predicts the last label, "running" the mean, or the most frequent class, of all labels
so far; "ARF" and "best" are what the leaderboard publishes (means of ten runs over the whole stream).
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

import domkl

RESULTS = Path(__file__).parent / "results" / "streams.json"
SIZE = 400
#: Streams that may be tuned on, and those that are only ever reported.
TUNED = ("fried", "electricity", "bike")
REPORTED = ("elevators", "ailerons", "House8L", "MetroTraffic", "adult", "synth_RandomRBFDrift")


def folder() -> Path:
    return Path(os.environ["DOMKL_DATA"]) / "streams"


def predict(X: np.ndarray, y: np.ndarray, loss: str) -> np.ndarray:
    """What one device predicts before each label. (T, d), (T,) -> (T,)"""
    model, alone = domkl.Auto(size=SIZE, loss=loss), nx.empty_graph(1)
    return domkl.simulate(X[None], y[None], alone, model=model, dtype=np.float32, threads=1).y_hat[0]


def classify(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The class that one device predicts before each label, as an index; -1 before the first. y: indices"""
    count = int(y.max()) + 1
    if count == 2:
        guess = (predict(X, y.astype(float), "logistic") > 0).astype(int)
        return np.where(np.arange(len(y)) > 0, guess, -1)
    scores = np.stack([predict(X, (y == k).astype(float), "logistic") for k in range(count)], axis=1)
    seen = np.cumsum(np.eye(count)[y], axis=0) > 0
    scores[1:][~seen[:-1]] = -np.inf
    return np.where(np.arange(len(y)) > 0, scores.argmax(1), -1)


def r2(y_hat: np.ndarray, y: np.ndarray) -> float:
    return float(1 - ((y_hat - y) ** 2).sum() / ((y - y.mean()) ** 2).sum())


def numbers(X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """R2 of domkl, of the last label and of the mean of all labels before; 0 before the first."""
    before = np.concatenate([[0.0], y[:-1]])
    mean = np.concatenate([[0.0], np.cumsum(y)[:-1] / np.arange(1, len(y))])
    guesses = {"domkl": predict(X, y, "squared"), "no_change": before, "running": mean}
    return {name: r2(guess, y) for name, guess in guesses.items()}


def classes(X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Accuracy of domkl, of the last label and of the class that was most frequent before."""
    _, labels = np.unique(y, return_inverse=True)
    counts = np.cumsum(np.eye(labels.max() + 1)[labels], axis=0)
    guesses = {
        "domkl": classify(X, labels),
        "no_change": np.concatenate([[-1], labels[:-1]]),
        "running": np.concatenate([[-1], counts[:-1].argmax(1)]),
    }
    return {name: float((guess == labels).mean()) for name, guess in guesses.items()}


def published(name: str) -> dict[str, Any]:
    """The leaderboard's task, figure of ARF, and best figure with its owner's name."""
    board = json.loads((folder() / "leaderboard.json").read_text())
    task = "regression" if name in board["regression"] else "classification"
    measure = "r2" if task == "regression" else "accuracy"
    figures = {who: row[measure] for who, row in board[task][name].items()}
    best = max(figures, key=lambda who: figures[who])
    rows = board[task][name][best]["n"]
    return {"task": task, "ARF": figures["ARF"], "best": figures[best], "best_is": best, "their_rows": rows}


def measure(name: str, most: int | None) -> dict[str, Any]:
    with np.load(folder() / f"{name}.npz", allow_pickle=False) as file:
        X, y = file["X"][:most].astype(float), file["y"][:most].astype(float)
    theirs, began = published(name), time.perf_counter()
    found = numbers(X, y) if theirs["task"] == "regression" else classes(X, y)
    milliseconds = 1e3 * (time.perf_counter() - began) / len(y)
    shape = {"rows": len(y), "inputs": X.shape[1]}
    if theirs["task"] == "classification":
        shape["classes"] = len(np.unique(y))
    return {**shape, **found, **theirs, "size": SIZE, "milliseconds": milliseconds}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*", choices=(*TUNED, *REPORTED), help="measure these again")
    parser.add_argument("--rows", type=int, help="at most so many of each; the whole stream by default")
    args = parser.parse_args()
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in args.only or [name for name in (*TUNED, *REPORTED) if name not in kept]:
        kept[name] = measure(name, args.rows)
        RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
        print(name, kept[name], flush=True)


if __name__ == "__main__":
    main()
