"""Explanations: are Friedman's five true inputs of ten found after 500 samples?

    python benchmarks/explain.py

Ten seeds. Inputs are uniform, y = 10 sin(pi x0 x1) + 20 (x2 - 1/2)^2 + 10 x3 + 5 x4 plus normal noise of
deviation 1; the other five inputs have no part in it. "Found": the five largest effects are those of the
five true inputs; "margin": the least effect of these over the largest of the others. The same with a sixth
input that is x3 plus noise of deviation 0.1, which tells the model nothing new.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import domkl

RESULTS = Path(__file__).parent / "results" / "explain.json"
SAMPLES, SEEDS, TRUE = 500, range(10), 5
MODELS: dict[str, Any] = {
    "Auto(size=400)": domkl.Auto(size=400),
    "Auto()": domkl.Auto(),
    "Paper()": domkl.Paper(),
}


def friedman(seed: int, copied: bool = False) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(SAMPLES, 10))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    if copied:
        X[:, 5] = X[:, 3] + 0.1 * rng.standard_normal(SAMPLES)
    return X, y + rng.standard_normal(SAMPLES)


def effects(settings: Any, X: np.ndarray, y: np.ndarray) -> Any:
    model = domkl.DOMKL(model=settings)
    for x, label in zip(X, y, strict=True):
        model.learn(x, label)
    return model.explain()


def measure(settings: Any) -> dict[str, Any]:
    found = [effects(settings, *friedman(seed)) for seed in SEEDS]
    margins = [float(each.effect[:TRUE].min() / each.effect[TRUE:].max()) for each in found]
    return {
        "found": sum(margin > 1 for margin in margins),
        "of": len(found),
        "least_margin": min(margins),
        "median_margin": float(np.median(margins)),
        "part": np.mean([each.part for each in found], axis=0).tolist(),
    }


def main() -> None:
    kept = {name: measure(settings) for name, settings in MODELS.items()}
    copies = [effects(MODELS["Auto(size=400)"], *friedman(seed, copied=True)) for seed in SEEDS]
    kept["copied"] = {"part": np.mean([each.part for each in copies], axis=0).tolist()}
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
    print(json.dumps(kept, indent=1))


if __name__ == "__main__":
    main()
