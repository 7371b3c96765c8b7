"""Other learners on the five sets of accuracy.py: River's, and the paper's kernels with a second-order step.

    python benchmarks/peers.py     what is not kept yet; needs DOMKL_DATA and River; minutes

River's learners are one learner that sees all five streams, sample by sample, targets on [0, 1], predictions
kept in [0, 1]. `domkl.Paper(step="newton")` is the ring of five with 17 kernels of D = 50, inputs scaled as
the set's page says, and of several rates those with the least error on the set itself. Errors are
prequential, MSE x 1e-2, seed 0; 0 is predicted before the first label.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path

from accuracy import SETS, streams
from heldout import LEARNERS, follow

import domkl
from domkl import datasets

RESULTS = Path(__file__).parent / "results" / "peers.json"
RHO, ETA, ETA_G = (0.01, 0.1, 1.0), (1e-4, 1e-3, 1e-2), (0.03, 0.1, 0.3)


def newton(name: str) -> dict[str, float]:
    """The least error of several rates, and the rates."""
    data = datasets.load(name, y_scale="minmax").split(5, SETS[name][0], 0)
    found = []
    for rho, eta, eta_g in itertools.product(RHO, ETA, ETA_G):
        model = domkl.Paper(rates=domkl.Rates(rho, eta, eta_g), step="newton")
        run = domkl.simulate(data.X, data.y, "ring", model=model, threads=1)
        found.append({"mse": float(100 * run.mse.mean()), "rho": rho, "eta": eta, "eta_g": eta_g})
    return min(found, key=lambda row: row["mse"])


def main() -> None:
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in SETS:
        rows = kept.setdefault(name, {})
        for who in ("newton", *LEARNERS):
            if who in rows:
                continue
            if who == "newton":
                rows[who] = newton(name)
            else:
                rows[who] = {"mse": follow(LEARNERS[who](0), *streams(name, 5, 0), start=0.0)}
            RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
            print(name, who, rows[who], flush=True)


if __name__ == "__main__":
    main()
