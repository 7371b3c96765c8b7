"""Every figure of docs/reproduction.md: both protocols, the claims, and what one change of the fit does.

    python benchmarks/reproduction.py              what is not kept yet; needs DOMKL_DATA
    python benchmarks/reproduction.py --again      everything, in a few minutes

Protocols have ten trials, the changes of the fit one. Figures are ours over the printed ones, geometric means
over networks and learners; wave energy is left out where its file is not there.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from domkl import datasets
from domkl.lab import reproduce
from domkl.lab.experiment import Experiment, load
from domkl.lab.reproduce import Figure

RESULTS = Path(__file__).parent / "results" / "reproduction.json"
PROTOCOLS, TRIALS = ("fitted", "printed"), 10
Change = Callable[[Experiment], Experiment]


def model(**options: Any) -> Change:
    """Other settings of the fit's model."""
    return lambda fit: dataclasses.replace(fit, model=dataclasses.replace(fit.model, **options))


def rates(**options: Any) -> Change:
    return lambda fit: model(rates=dataclasses.replace(fit.model.rates, **options))(fit)


def kernels(**options: Any) -> Change:
    return lambda fit: model(kernels=dataclasses.replace(fit.model.kernels, **options))(fit)


def data(**options: Any) -> Change:
    return lambda fit: dataclasses.replace(fit, data=dataclasses.replace(fit.data, **options))


CHANGES: dict[str, Change] = {
    **{f"kappa {kappa:g}": rates(kappa=kappa) for kappa in (1, 0.1, 0.05, 0.02, 0.015, 0.005, 0.001)},
    **{f"eta_g times {factor:g}": rates(kappa_g=factor) for factor in (0.1, 0.5, 5)},
    "sigma² as the kernel's bandwidth": kernels(read_as="bandwidth"),
    "random split": data(split="random"),
    "interleaved split": data(split="interleaved"),
    "labels min-max scaled": data(y_scale="minmax"),
    **{f"ridge penalty {reg:g}": model(loss="ridge", reg=reg) for reg in (1e-3, 1e-2, 1e-1)},
}


def mean(ratios: Iterable[float | None]) -> float | None:
    """Geometric."""
    logs = [math.log(ratio) for ratio in ratios if ratio]
    return math.exp(sum(logs) / len(logs)) if logs else None


def measure(experiment: Experiment, trials: int) -> tuple[list[Figure], reproduce.Rows]:
    """All cells of the tables, and the rows they are made of."""
    here = {entry.name for entry in datasets.catalogue() if entry.path is not None}
    names = [name for name in reproduce.DATASETS if name in here]
    tasks = reproduce.plan(names, reproduce.NETWORKS, trials)
    found = reproduce.run_all(experiment, tasks, jobs=1)
    rows = [{**task._asdict(), **row} for task, some in found for row in some]
    return reproduce.summarise(rows, reproduce.NETWORKS), rows


def ratios(figures: Sequence[Figure]) -> dict[str, dict[str, dict[str, float | None]]]:
    """By metric, method and dataset."""
    out: dict[str, dict[str, dict[str, float | None]]] = {}
    for metric in ("mse", "cv"):
        for method in ("OMKL", "DOKL1", "DOKL2", "DOMKL"):
            cells = [f for f in figures if (f.metric, f.method) == (metric, method) and f.ratio]
            names = [name for name in reproduce.DATASETS if any(f.dataset == name for f in cells)]
            if cells:
                some = {name: mean(f.ratio for f in cells if f.dataset == name) for name in names}
                out.setdefault(metric, {})[method] = {**some, "all": mean(f.ratio for f in cells)}
    return out


def protocol(name: str) -> dict[str, Any]:
    figures, rows = measure(load(f"paper-{name}"), TRIALS)
    violations = [f for f in figures if (f.metric, f.method) == ("cv", "DOMKL")]
    by_network = {str(n): mean(f.ratio for f in violations if f.network == n) for n in reproduce.NETWORKS}
    claims = [claim._asdict() for claim in reproduce.judge(figures, rows)]
    return {**ratios(figures), "cv_by_network": by_network, "claims": claims}


def change(make: Change) -> dict[str, dict[str, float | None]]:
    """By metric and method, over all datasets; one trial."""
    found = ratios(measure(make(load("paper-fitted")), 1)[0])
    return {metric: {method: row["all"] for method, row in rows.items()} for metric, rows in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--again", action="store_true", help="measure what is kept, too")
    args = parser.parse_args()
    kept: dict[str, dict[str, Any]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    plan = [("protocols", name, lambda name=name: protocol(name)) for name in PROTOCOLS]
    plan += [("changes", name, lambda make=make: change(make)) for name, make in CHANGES.items()]
    for part, name, measured in plan:
        rows = kept.setdefault(part, {})
        if args.again or name not in rows:
            rows[name] = measured()
            RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
            print(part, name, flush=True)


if __name__ == "__main__":
    main()
