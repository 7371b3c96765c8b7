"""How the regret of `domkl.Auto` grows, and how far its learners are apart.

    python benchmarks/regret.py

Five learners on a ring, Friedman's function with noise (stationary), models of 200 parameters together.

Regret: the squared errors of all learners and rounds, less those of the best fixed function in the span of
one of the two models, found by least squares on all samples with the scale that was fixed; the better model
counts. The exponent is the slope of log regret over log T; "last" is that of the last doubling alone, as the
first rounds' errors are a constant that flattens the whole.

Consensus: the violation of `Auto` beside that of `Paper` (17 kernels of 100 parameters each),
on targets in [0, 1], for several kappa. With none of them it reaches the error of `Auto`, so the fair
line is the one of its least error.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import domkl
from domkl import engines
from domkl.exchange.graph import as_graph
from domkl.exchange.network import Network
from domkl.learning.auto import AutoRows

RESULTS = Path(__file__).parent / "results" / "regret.json"
ROUNDS = (250, 500, 1000, 2000, 4000)
KAPPAS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)


def friedman(J: int, T: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs in [0, 1], five of which matter; targets of variance near 24 with noise of variance 1."""
    rng = np.random.default_rng([7, seed])
    X = rng.uniform(size=(J, T, 6))
    y = 10 * np.sin(np.pi * X[..., 0] * X[..., 1]) + 20 * (X[..., 2] - 0.5) ** 2
    return X, y + 10 * X[..., 3] + 5 * X[..., 4] + rng.standard_normal((J, T))


class Kept:
    """Settings whose rows are kept, so that their features can be asked for after a run."""

    def __init__(self, settings: domkl.Auto) -> None:
        self.settings = settings
        self.rows: AutoRows | None = None

    def make(self, J: int, d: int, dtype: Any) -> AutoRows:
        network = Network(as_graph("ring", J), domkl.Exchange())
        edges = network.neighbours.weight, J, network.diameter
        self.rows = AutoRows(self.settings, J, d, *edges, dtype=dtype, diagonal=engines.make_inverse("auto"))
        return self.rows


def regrets(X: np.ndarray, y: np.ndarray, size: int, seed: int, lengths: tuple[int, ...]) -> list[float]:
    """Of the first T rounds, for each T. The learner knows no horizon: one run serves all."""
    kept = Kept(domkl.Auto(size=size, seed=seed, start=float(np.median(y)), forgetting="none"))
    y_hat = domkl.simulate(X, y, "ring", model=kept).y_hat
    assert kept.rows is not None
    assert kept.rows.scale is not None
    features, scale = kept.rows.joint.features, kept.rows.scale.inputs
    found = []
    for T in lengths:
        z = features.of(X[:, :T], scale)  # (J, T, models, K)
        best = min(_least(z[:, :, p], y[:, :T]) for p in range(z.shape[2]))
        found.append(float(((y_hat - y)[:, :T] ** 2).sum() - best))
    return found


def _least(z: np.ndarray, y: np.ndarray) -> float:
    """The least sum of squares of a fixed function, constant included. (J, T, K), (J, T)"""
    Z = z.reshape(-1, z.shape[-1])
    theta, *_ = np.linalg.lstsq(Z, y.ravel(), rcond=1e-10)
    return float(((Z @ theta - y.ravel()) ** 2).sum())


def exponent(lengths: tuple[int, ...], values: list[float]) -> float:
    """The slope of log regret over log T; a regret that is not positive grows with none."""
    if min(values) <= 0:
        return float("-inf")
    return float(np.polyfit(np.log(lengths), np.log(values), 1)[0])


def consensus(T: int, seed: int) -> dict[str, object]:
    """Error and violation of `Auto`, and of `Paper` for each kappa; targets on [0, 1]."""
    X, y = friedman(5, T, seed)
    y = (y - y.min()) / np.ptp(y)
    start = float(np.median(y))
    run = domkl.simulate(X, y, "ring", model=domkl.Auto(seed=seed, start=start, forgetting="none"))
    ours = {"mse": float(run.mse.mean()), "cv": float(run.cv.mean())}
    V = domkl.kernels.gaussian(X.shape[-1], D=50, seed=seed)
    first = {}
    for kappa in KAPPAS:
        model = domkl.Paper(kernels=V, rates=domkl.Rates.paper(T, kappa, 0.01))
        run = domkl.simulate(X, y, "ring", model=model)
        first[str(kappa)] = {"mse": float(run.mse.mean()), "cv": float(run.cv.mean())}
    return {"auto": ours, "first": first}


def main() -> None:
    rows = []
    for seed in range(3):
        values = regrets(*friedman(5, ROUNDS[-1], seed), 200, seed, ROUNDS)
        slopes = {"exponent": exponent(ROUNDS, values), "last": exponent(ROUNDS[-2:], values[-2:])}
        rows.append({"regret": values, **slopes})
    agree = [consensus(1000, seed) for seed in range(2)]
    RESULTS.write_text(json.dumps({"rounds": ROUNDS, "regret": rows, "consensus": agree}, indent=1) + "\n")
    print(RESULTS.read_text())


if __name__ == "__main__":
    main()
