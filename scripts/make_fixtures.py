"""Write small states to tests/fixtures, once for each version of a schema; they load forever.

Learners, agents' checkpoints with a journal, and models that were handed over.

python scripts/make_fixtures.py

A file that is there already is never written again: it is what an earlier version of domkl has left on disk.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import domkl
from domkl import faces
from domkl.agent import lock
from domkl.agent.config import CheckpointSection
from domkl.agent.memory import Memory
from domkl.agent.streams import Reading
from domkl.faces import handing
from domkl.learner import files, handed, schema

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


def write_learners() -> None:
    """Pairs of learners, and what the first one predicts next."""
    for kind, model in MODELS.items():
        stem = f"learner-{schema.VERSIONS['learner']}-{kind}"
        if (FIXTURES / f"{stem}.json").exists():
            continue
        learners = pair(model)
        teach(learners, range(ROUNDS))
        for j, learner in enumerate(learners):
            arrays, meta = learner.save()
            (FIXTURES / f"{stem}-{j}.safetensors").write_bytes(files.content({}, arrays, meta))
        keep(f"{stem}.json", teach(learners, range(ROUNDS, ROUNDS + 5)))


def alone(model: Any) -> domkl.Learner:
    """A learner without neighbours."""
    return domkl.Learner(model, name="a", inputs=2, engine="numpy")


def memory(directory: Path) -> Memory:
    """An agent's checkpoints and journal in a directory."""
    return Memory(CheckpointSection(str(directory), sync=False), True, "a", "fixtures")


def write_checkpoints() -> None:
    """State directories of agents: a checkpoint, and two readings in its journal."""
    for kind, model in MODELS.items():
        stem = f"checkpoint-{schema.VERSIONS['agent']}-{kind}"
        if (FIXTURES / f"{stem}.json").exists():
            continue
        learner, kept = alone(model), memory(FIXTURES / stem)
        for t in range(ROUNDS):
            learner.observe(*sample(t, 0))
        kept.readings = ROUNDS
        kept.save(learner)
        for t in (ROUNDS, ROUNDS + 1):
            x, y = sample(t, 0)
            kept.note(Reading(t, x, y, None))
            learner.observe(x, y)
        kept.close()
        (FIXTURES / stem / lock.NAME).unlink()
        keep(f"{stem}.json", [learner.predict(sample(t, 0)[0]) for t in range(5)])


def write_handed() -> None:
    """Models of both kinds that were taught alone, and what a learner that starts with one predicts."""
    for kind, model in (("auto", MODELS["auto"]), ("paper", domkl.Paper(kernels=KERNELS))):
        stem = f"handed-{schema.VERSIONS['model']}-{kind}"
        if (FIXTURES / f"{stem}.json").exists():
            continue
        taught = faces.make(model)
        taught.grow(["first", "second"])
        for t in range(ROUNDS):
            taught.learn(*sample(t, 0))
        handing.write(FIXTURES / f"{stem}.model", taught, ["first", "second"])
        learner = domkl.Learner(handed.read(FIXTURES / f"{stem}.model"), name="a", engine="numpy")
        keep(f"{stem}.json", [learner.predict(sample(t, 0)[0]) for t in range(5)])


def keep(name: str, expected: list[float]) -> None:
    """Predictions that a test compares with."""
    (FIXTURES / name).write_text(json.dumps(expected) + "\n")


def main() -> None:
    """Write what is not there yet."""
    FIXTURES.mkdir(exist_ok=True)
    write_learners()
    write_checkpoints()
    write_handed()


if __name__ == "__main__":
    main()
