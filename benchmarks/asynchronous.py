"""What learners that wait for nobody share, with the first- and the second-order step.

    python benchmarks/asynchronous.py     five learners in a ring, 1500 samples each

Each learner sees either all inputs or a fifth of them. `stream` is the error on its own samples, before they
are learnt, noise of variance 0.09 included; `everywhere` is the error at the end on everybody's inputs,
without noise. Of several rates, those with the least `stream` are shown and kept in `results/`.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np

import domkl

RESULTS = Path(__file__).parent / "results" / "asynchronous.json"
J, T = 5, 1500
V = domkl.kernels.gaussian(3, D=20, sigma2=[0.3, 1.0, 3.0])
RHO = (0.05, 0.5, 5.0, 50.0)
ETA = {"first": (0.1, 1.0), "newton": (0.1,)}


def truth(X: np.ndarray) -> np.ndarray:
    return np.sin(3 * X[..., 0]) + X[..., 1] * X[..., 2]


def streams(part: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, y of all learners, and inputs from everywhere."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (J, T, 3))
    if part:
        X[..., 0] = (X[..., 0] + 1 + 2 * np.arange(J)[:, None]) / J - 1
    return X, truth(X) + 0.3 * rng.standard_normal((J, T)), rng.uniform(-1, 1, (100, 3))


def learn(step: str, mode: str, rates: domkl.Rates, part: bool) -> dict[str, float]:
    X, y, everywhere = streams(part)
    near = [[] if mode == "alone" else [(j - 1) % J, (j + 1) % J] for j in range(J)]
    model = domkl.Paper(kernels=V, rates=rates, step=step)
    learners = [domkl.Learner(model, near[j], name=j, engine="numpy") for j in range(J)]
    squares = 0.0
    for t in range(T):
        updates = []
        for j, one in enumerate(learners):
            updates.append(one.observe(X[j, t], y[j, t]))
            if mode == "asynchronous" and one.waiting:
                one.close()
        squares += sum((one.step.y_hat - one.step.y) ** 2 for one in learners)
        for j, update in enumerate(updates):
            for i in near[j]:
                learners[i].receive(j, update)
    misses = [[one.predict(x) - truth(x) for x in everywhere] for one in learners]
    return {"stream": squares / (J * T), "everywhere": float(np.square(misses).mean()), "rho": rates.rho}


def main() -> None:
    found = []
    for part, step, mode in itertools.product((False, True), ETA, ("alone", "asynchronous", "synchronous")):
        pulls = RHO[:1] if mode == "alone" else RHO
        runs = [learn(step, mode, domkl.Rates(rho, eta, 1.0), part) for rho in pulls for eta in ETA[step]]
        best = min(runs, key=lambda run: run["stream"])
        found.append({"sees": "a fifth" if part else "all", "step": step, "mode": mode, **best})
        print(*(f"{value:.4f}" if isinstance(value, float) else value for value in found[-1].values()))
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
