"""How many samples a neighbour recovers from the messages of the paper's learner, for several precisions.

    python benchmarks/privacy_attack.py

Five learners with the paper's 17 kernels of D = 50 and five inputs in [0, 1]. The network below is the
paper's step written out, so that what is sent can be rounded as one likes; unrounded it is compared with
`domkl.simulate`. Learners use their own theta as it is, and of all others, and for duals, what was sent.

The attacker knows V, rates and degrees, and of every round the messages: of all learners on the complete
graph, and on the star, where it is the middle, of the leaf and its own. What it computes is
docs/privacy.md: c theta' - b is a multiple of the features z. Their angles give x, from the widest kernel,
which wraps none, to narrower ones, which tell more. A sample counts as recovered when every input is right to
0.01; y is then tried too. No search is made, so that the shares are what is lost at least.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

import domkl

RESULTS = Path(__file__).parent / "results" / "privacy_attack.json"
J, T, d, D, SEEDS = 5, 60, 5, 50, 3
RATES = domkl.Rates(rho=0.5, eta=0.5, eta_g=1.0)
#: Wrapped angles of a narrower kernel are believed if they agree this well with those expected. Radians.
NEAR = 0.7
Send = Callable[[np.ndarray], np.ndarray]


class Seen(NamedTuple):
    """What the attacker has of one learner and round: c theta' - b as far as it knows, and theta'. (P, 2D)"""

    rest: np.ndarray
    theta: np.ndarray


def bits(n: int) -> Send:
    """Rounding to 2^n - 1 levels of each kernel's own range."""
    half = 2 ** (n - 1) - 1

    def send(theta: np.ndarray) -> np.ndarray:
        top = np.abs(theta).max(-1, keepdims=True)
        return np.where(top > 0, np.round(theta / np.where(top > 0, top, 1) * half) * top / half, 0.0)

    return send


def as_type(kind: type) -> Send:
    return lambda theta: theta.astype(kind).astype(float)


def features(V: np.ndarray, X: np.ndarray) -> np.ndarray:
    """(P, D, d), (n, d) -> (n, P, 2D)"""
    angle = np.einsum("pkd,nd->npk", V, X)
    return np.concatenate([np.sin(angle), np.cos(angle)], -1) / np.sqrt(V.shape[1])


def listen(
    V: np.ndarray, X: np.ndarray, y: np.ndarray, graph: str, send: Send, reg: float
) -> tuple[list[list[Seen]], np.ndarray]:
    """The paper's step, round by round: what leaks of every learner, and theta at the end. X (J, T, d)"""
    near = domkl.graph.as_graph(graph, J).neighbours
    A = np.array([[float(i in near[j]) for i in range(J)] for j in range(J)])
    deg = A.sum(1)[:, None, None]
    rho, eta = RATES.rho, RATES.eta
    c = eta + rho * deg + 2 * reg
    theta = sent = lam = pull = np.zeros((J, len(V), 2 * V.shape[1]))
    leaks = []
    for t in range(X.shape[1]):
        z = features(V, X[:, t])
        b, known = (eta * own + rho * (deg * own + pull) / 2 - lam for own in (theta, sent))
        slope = 2 * ((z * b).sum(-1, keepdims=True) - c * y[:, t, None, None]) / (c + 2)
        theta = (b - slope * z) / c
        sent = send(theta)
        leaks.append([Seen((c * sent - known)[j], sent[j]) for j in range(J)])
        pull = np.einsum("ji,ipk->jpk", A, sent)
        lam = lam + rho / 2 * (deg * sent - pull)
    return leaks, theta


def angles(direction: np.ndarray) -> np.ndarray:
    """Of sines and cosines, up to whole turns. (2D,) -> (D,)"""
    return np.arctan2(*np.split(direction, 2))


def recover(V: np.ndarray, seen: Seen) -> tuple[np.ndarray, float]:
    """x (d,) and y."""
    order = np.argsort([np.abs(v).mean() for v in V])
    widest = order[0]
    guesses = [np.linalg.lstsq(V[widest], angles(s * seen.rest[widest]), rcond=None)[0] for s in (1, -1)]
    unit = seen.rest[widest] / (np.linalg.norm(seen.rest[widest]) or 1.0)
    x = min(guesses, key=lambda guess: 1 - abs(features(V, guess[None])[0, widest] @ unit))
    for p in order[1:]:
        sign = np.sign(features(V, x[None])[0, p] @ seen.rest[p]) or 1.0
        expected, found = V[p] @ x, angles(sign * seen.rest[p])
        off = (found - expected + np.pi) % (2 * np.pi) - np.pi
        if np.median(np.abs(off)) < NEAR / 2 and np.abs(off).max() < np.pi - NEAR:
            x = x + np.linalg.lstsq(V[p], off, rcond=None)[0]
    z = features(V, x[None])[0]
    return x, float(np.median((z * (seen.rest / 2 + seen.theta)).sum(-1)))


def share(graph: str, send: Send, reg: float) -> dict[str, list[float]]:
    """The shares of samples and of labels recovered, for each seed."""
    found: dict[str, list[float]] = {"x": [], "y": []}
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        X = rng.uniform(size=(J, T, d))
        y = np.sin(3 * X[..., 0]) / 2 + X[..., 1] * X[..., 2] + 0.05 * rng.standard_normal((J, T))
        V = domkl.kernels.gaussian(d, D, seed=seed)
        leaks, theta = listen(V, X, y, graph, send, reg)
        if seed == 0 and reg == 0 and send is EXACT:
            check(V, X, y, graph, theta)
        victims = range(J) if graph == "complete" else range(1, J)
        pairs = [(recover(V, leaks[t][j]), X[j, t], y[j, t]) for t in range(T) for j in victims]
        right = [np.abs(x_hat - x).max() <= 0.01 for (x_hat, _), x, _ in pairs]
        labels = [abs(y_hat - label) <= 0.01 for (_, y_hat), _, label in pairs]
        found["x"].append(float(np.mean(right)))
        found["y"].append(float(np.mean(np.logical_and(right, labels))))
    return found


def check(V: np.ndarray, X: np.ndarray, y: np.ndarray, graph: str, theta: np.ndarray) -> None:
    """The network above is domkl's."""
    run = domkl.simulate(X, y, graph, model=domkl.Paper(kernels=V, rates=RATES))
    np.testing.assert_allclose(theta, run.theta, atol=1e-9)


EXACT = as_type(np.float64)
#: What is sent: graph, rounding, ridge penalty.
CASES: dict[str, tuple[str, Send, float]] = {
    "float64, complete graph": ("complete", EXACT, 0.0),
    "float64, a leaf's only neighbour": ("star", EXACT, 0.0),
    "float32, complete graph": ("complete", as_type(np.float32), 0.0),
    "float16, complete graph": ("complete", as_type(np.float16), 0.0),
    "8 bits, complete graph": ("complete", bits(8), 0.0),
    "6 bits, complete graph": ("complete", bits(6), 0.0),
    "4 bits, complete graph": ("complete", bits(4), 0.0),
    "float64, ridge penalty 0.01": ("complete", EXACT, 0.01),
}


def main() -> None:
    kept = {name: share(*case) for name, case in CASES.items()}
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
    for name, found in kept.items():
        print(f"{name:36}", *(f"{key} {np.min(v):.3f} to {np.max(v):.3f}" for key, v in found.items()))


if __name__ == "__main__":
    main()
