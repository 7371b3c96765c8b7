"""Write the states of small learners to tests/fixtures, once for each version of a schema; they load forever.

python scripts/make_fixtures.py

A file that is there already is never written again: it is what an earlier version of domkl has left on disk.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import domkl
from domkl.learner import files, schema

FIXTURES = Path(__file__).parent.parent / "tests" / "fixtures"
KERNELS = domkl.KernelSpec(D=4, sigma2=(0.3, 3.0))
RATES = domkl.Rates(rho=0.5, eta=0.5, eta_g=1.0)
MODELS: dict[str, Any] = {
    "auto": domkl.Auto(size=60),
    "paper": domkl.Paper(kernels=KERNELS, rates=RATES),
    "second-order": domkl.Paper(kernels=KERNELS, rates=RATES, step="newton", memory=30.0),
}
#: Samples before the state was saved.
ROUNDS = 100


def sample(t: int, j: int) -> tuple[np.ndarray, float]:
    """The stream of learner j, without a random source whose numbers may change."""
    x = np.array([np.sin(0.7 * t + j), np.cos(1.3 * t * (j + 1))])
    return x, float(np.sin(2 * x[0]) + x[1])


def pair(model: Any) -> list[domkl.Learner]:
    """Two learners that know each other."""
    learners = [
        domkl.Learner(model, [1 - j], name=j, inputs=2, engine="numpy", number=j + 1) for j in range(2)
    ]
    domkl.introduce(learners)
    return learners


def teach(learners: list[domkl.Learner], rounds: range) -> list[float]:
    """Rounds of both; the first one's predictions."""
    found = []
    for t in rounds:
        updates = [learner.observe(*sample(t, j)) for j, learner in enumerate(learners)]
        for j, learner in enumerate(learners):
            learner.receive(1 - j, updates[1 - j])
        found.append(float(learners[0].step.y_hat))  # type: ignore[union-attr]
    return found


def main() -> None:
    """Write what is not there yet."""
    FIXTURES.mkdir(exist_ok=True)
    for kind, model in MODELS.items():
        stem = f"learner-{schema.VERSIONS['learner']}-{kind}"
        if (FIXTURES / f"{stem}.json").exists():
            continue
        learners = pair(model)
        teach(learners, range(ROUNDS))
        for j, learner in enumerate(learners):
            arrays, meta = learner.save()
            (FIXTURES / f"{stem}-{j}.safetensors").write_bytes(files.content({}, arrays, meta))
        expected = teach(learners, range(ROUNDS, ROUNDS + 5))
        (FIXTURES / f"{stem}.json").write_text(json.dumps(expected) + "\n")


if __name__ == "__main__":
    main()
