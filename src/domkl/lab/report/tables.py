"""The facts as columns of text, for terminal and page alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ...base.words import column, number, percent
from .facts import Document

#: A kernel with less weight than this is not listed, unless it has the most.
WORTH_NAMING = 0.01


class Column(NamedTuple):
    """One measure of all learners."""

    head: str
    measure: str  # MSE, or nothing where the head tells
    unit: str
    cells: list[str]
    mean: str
    best: frozenset[int | str] = frozenset()  # rows, and "mean", in which it is the least


class KernelRow(NamedTuple):
    """A single kernel by itself."""

    sigma2: str
    mse: str
    cv: str
    weight: str
    length: float  # of its bar, a share of the longest
    best: bool


def learner_columns(facts: Document) -> list[Column]:
    """One row for each learner, and the mean of the network."""
    sources = _sources(facts)
    best = _best(sources)
    squared = [_squared(facts, *one)._replace(best=best[one[0]]) for one in sources]
    found = [*squared, _accuracy(facts) if has_classes(facts) else _rmse(facts)]
    return [*found, _cv(facts)] if has_neighbours(facts) else found


def _sources(facts: Document) -> list[tuple[str, list[float | None], float | None]]:
    """Name, mean squared error of each learner, and of the network; the report's own learners first."""
    learners, network = facts["learners"], facts["network"]
    baselines = [
        (name, [one["baselines"][name] for one in learners], mean)
        for name, mean in network["baselines"].items()
    ]
    found = [(facts["model"]["kind"], [one["mse"] for one in learners], network["mse"])]
    if has_neighbours(facts):
        found.append(("alone", [one["mse_alone"] for one in learners], network["mse_alone"]))
    found.append(("OMKL", [one["omkl_mse"] for one in learners], network["omkl_mse"]))
    if has_kernels(facts):
        best = [one["best_kernel"]["mse"] for one in learners]
        found.append(("best kernel", best, network["best_kernels_mse"]))
    return [*found, *baselines]


def _best(
    sources: list[tuple[str, list[float | None], float | None]],
) -> dict[str, frozenset[int | str]]:
    """The rows in which each source's error is the least; what is known only in hindsight does not count."""
    found: dict[str, set[int | str]] = {name: set() for name, _, _ in sources}
    known = [one for one in sources if one[0] != "best kernel"]
    rows: list[tuple[int | str, list[float | None]]] = [("mean", [mean for _, _, mean in known])]
    rows += [(j, [cells[j] for _, cells, _ in known]) for j in range(len(known[0][1]))]
    for row, errors in rows:
        finite = [error for error in errors if error is not None]
        for (name, *_), error in zip(known, errors, strict=True):
            if finite and error == min(finite):
                found[name].add(row)
    return {name: frozenset(places) for name, places in found.items()}


def _squared(facts: Document, head: str, values: Sequence[float | None], mean: float | None) -> Column:
    *cells, last = column([*values, mean])
    return Column(head, "MSE", squared_unit(facts), cells, last)


def _rmse(facts: Document) -> Column:
    *cells, mean = column([one["rmse"] for one in (*facts["learners"], facts["network"])])
    return Column("RMSE", "", facts["unit"], cells, mean)


def _cv(facts: Document) -> Column:
    everyone = (*facts["learners"], facts["network"])
    *cells, mean = column([one["cv"] for one in everyone])
    return Column("CV", "", squared_unit(facts), cells, mean)


def _accuracy(facts: Document) -> Column:
    *cells, mean = [percent(one["accuracy"]) for one in (*facts["learners"], facts["network"])]
    return Column("right", "", "", cells, mean)


def has_classes(facts: Document) -> bool:
    """Whether labels are classes, so that right ones can be counted."""
    return facts["network"]["accuracy"] is not None


def has_neighbours(facts: Document) -> bool:
    """Whether there are learners to learn together."""
    return len(facts["learners"]) > 1


def has_kernels(facts: Document) -> bool:
    """Whether there are kernels with weights of their own, as in the paper's model."""
    return bool(facts["single_kernels"])


def squared_unit(facts: Document) -> str:
    """The unit of squared errors, or nothing."""
    return f"{facts['unit']}²" if facts["unit"] else ""


def top_kernels(learner: Document, most: int) -> list[tuple[str, str]]:
    """σ² and weight of the kernels with most weight."""
    top = learner["top_kernels"][:most]
    named = [k for i, k in enumerate(top) if i == 0 or (k["weight"] or 0) >= WORTH_NAMING]
    return [(number(k["sigma2"]), percent(k["weight"])) for k in named]


def kernel_rows(facts: Document) -> list[KernelRow]:
    """Every kernel by itself, in the order of the dictionary."""
    kernels = facts["single_kernels"]
    roots = [math.inf if k["mse"] is None else math.sqrt(k["mse"]) for k in kernels]
    finite = [root for root in roots if root < math.inf]
    longest = max(finite, default=0.0) or 1.0
    best = roots.index(min(finite)) if finite else None
    return [
        KernelRow(
            number(kernel["sigma2"]),
            number(kernel["mse"]),
            number(kernel["cv"]),
            percent(kernel["weight"]),
            min(roots[p] / longest, 1.0),
            p == best,
        )
        for p, kernel in enumerate(kernels)
    ]
