"""How far rounding carries the second-order step's P = M^-1 from the truth: a million rounds of a small K."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from domkl import Rates, engines
from domkl.learning import first_order, losses, second_order

RESULTS = Path(__file__).parent / "results" / "newton_drift.json"


def drift(rounds: int, K: int, dtype: type, engine: str, looks: int = 10) -> list[dict[str, float]]:
    """Relative error and asymmetry of P, seen now and then, on a stream that wanders slowly."""
    rng, loss = np.random.default_rng(0), losses.get("squared")
    pulls = second_order.SecondOrderPulls.of(np.asarray(2.0, dtype), Rates(0.2, 0.01, 1.0), loss)
    state = second_order.init(1, K, pulls, engines.make_inverse(engine))
    V = rng.standard_normal((1, K // 2, 3)).astype(dtype)
    M, x, seen = np.eye(K) * float(pulls.c[0]), np.zeros(3, dtype), []
    for t in range(1, rounds + 1):
        x = (0.99 * x + 0.1 * rng.standard_normal(3)).astype(dtype)
        z = first_order.features(V, x)
        learnt = second_order.local(state, z, first_order.predict(state, z)[0], x[0], pulls, loss)
        state = second_order.merge(state, learnt, pulls.deg * learnt[0], learnt[1], pulls, 1.0)
        M += 2 * np.outer(z[0].astype(float), z[0].astype(float))
        if t % (rounds // looks) == 0:
            seen.append({"rounds": t, **look(state, M)})
    return seen


def look(state: second_order.SecondOrderState, M: np.ndarray) -> dict[str, float]:
    P, exact = state.inverse.settle()[0], np.linalg.inv(M)
    return {
        "relative_error": float(np.linalg.norm(P - exact) / np.linalg.norm(exact)),
        "asymmetry": float(np.abs(P - P.T).max()),
        "smallest_eigenvalue": float(
            np.linalg.eigvalsh(P.astype(float)).min() / np.linalg.eigvalsh(exact).min()
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1_000_000)
    parser.add_argument("--K", type=int, default=20)
    parser.add_argument("--engines", default="numpy,native", help="the others' figures are kept")
    parser.add_argument("--json", action="store_true", help="print the result as JSON too")
    args = parser.parse_args()
    found = {
        f"{engine}, {t.__name__}": drift(args.rounds, args.K, t, engine)
        for engine in args.engines.split(",")
        for t in (np.float64, np.float32)
    }
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.write_text(json.dumps({**kept, "K": args.K, **found}, indent=1) + "\n")
    if args.json:
        json.dump(found, sys.stdout)
        return
    for name, rows in found.items():
        for row in rows:
            print(name, *(f"{key} {value:.3g}" for key, value in row.items()))


if __name__ == "__main__":
    main()
