"""The facts as columns of text and as sentences, for terminal and page alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from .facts import Document
from .text import column, number, percent, plural, with_unit

#: A kernel with less weight than this is not worth naming.
WORTH_NAMING = 0.01
BASELINES = {
    "first-order": "the same network with the step, kernels and rates of the experiment",
    "mean so far": "predicts the mean of the learner's labels known so far",
    "as it is now": "predicts that nothing changes until then",
}


class Column(NamedTuple):
    head: str
    measure: str  # MSE, RMSE, CV or nothing
    unit: str
    cells: list[str]
    mean: str


def learner_columns(facts: Document) -> list[Column]:
    """One row for each learner, and the mean of the network."""
    squared = [_squared(facts, *source) for source in _sources(facts)]
    others = [_rmse(facts)] if has_scale(facts) else []
    others += [_accuracy(facts)] if facts["network"]["accuracy"] is not None else []
    return [*squared, *others, _cv(facts)]


def _sources(facts: Document) -> list[tuple[str, list[float | None], float | None]]:
    """Name, mean squared error of each learner, and of the network; DOMKL first."""
    learners, network = facts["learners"], facts["network"]
    baselines = [
        (name, [one["baselines"][name] for one in learners], mean)
        for name, mean in network["baselines"].items()
    ]
    found = [
        ("DOMKL", [one["mse"] for one in learners], network["mse"]),
        ("OMKL", [one["omkl_mse"] for one in learners], network["omkl_mse"]),
    ]
    if has_kernels(facts):
        best = [one["best_kernel"]["mse"] for one in learners]
        found.append(("best kernel", best, network["best_kernels_mse"]))
    return [*found, *baselines]


def _squared(facts: Document, head: str, values: Sequence[float | None], mean: float | None) -> Column:
    *cells, last = column([in_unit(facts, v) for v in (*values, mean)])
    return Column(head, "MSE", squared_unit(facts), cells, last)


def _rmse(facts: Document) -> Column:
    *cells, mean = column([one["rmse"] for one in (*facts["learners"], facts["network"])])
    return Column("error", "RMSE", facts["unit"], cells, mean)


def _cv(facts: Document) -> Column:
    everyone = (*facts["learners"], facts["network"])
    *cells, mean = column([in_unit(facts, one["cv"]) for one in everyone])
    return Column("CV", "", squared_unit(facts), cells, mean)


def _accuracy(facts: Document) -> Column:
    *cells, mean = [percent(one["accuracy"]) for one in (*facts["learners"], facts["network"])]
    return Column("right", "", "", cells, mean)


def in_unit(facts: Document, squared_error: float | None) -> float | None:
    """A squared error of the data's scale in the unit squared."""
    return None if squared_error is None else squared_error * float(facts["scale"])


def has_scale(facts: Document) -> bool:
    """Whether errors are told in a scale that people know, so that the root of the MSE means something."""
    return bool(facts["unit"]) or facts["scale"] != 1


def has_kernels(facts: Document) -> bool:
    """Whether there are kernels with weights of their own; preset "auto" is one model of many widths."""
    return facts["kernels"] is not None


def squared_unit(facts: Document) -> str:
    return f"{facts['unit']}²" if facts["unit"] else ""


def top_kernels(learner: Document, most: int) -> list[tuple[str, str]]:
    """σ² and weight of the kernels with most weight."""
    top = learner["top_kernels"][:most]
    named = [k for i, k in enumerate(top) if i == 0 or (k["weight"] or 0) >= WORTH_NAMING]
    return [(number(k["sigma2"]), percent(k["weight"])) for k in named]


def best_single(facts: Document) -> int | None:
    """The index of the single kernel with the least mean error."""
    errors = [k["mse"] for k in facts["single_kernels"]]
    known = [p for p, mse in enumerate(errors) if mse is not None]
    return min(known, key=errors.__getitem__, default=None)


def bar_lengths(facts: Document) -> list[float]:
    """Each single kernel's root mean squared error as a share of the greatest."""
    roots = [math.inf if k["mse"] is None else math.sqrt(k["mse"]) for k in facts["single_kernels"]]
    greatest = max((r for r in roots if r < math.inf), default=0.0) or 1.0
    return [min(r / greatest, 1.0) for r in roots]


def setting_line(facts: Document) -> str:
    """Who learnt, how long."""
    learners = plural(len(facts["learners"]), "learner")
    delay = facts["delay"]
    late = f", labels known {plural(delay, 'round')} later" if delay else ""
    nothing = "" if has_kernels(facts) else ", nothing tuned"
    rounds = plural(facts["rounds"], "round")
    return f"{learners}, {facts['graph']['name']} network, {rounds} each{late}{nothing}"


def sentence(facts: Document) -> str:
    """The result in plain words."""
    network, J = facts["network"], len(facts["learners"])
    who = "The learner predicts" if J == 1 else f"The {J} learners predict"
    right = network["accuracy"]
    hits = f"{percent(right)} of the classes right, their scores " if right is not None else ""
    measure = "a typical error (RMSE)" if has_scale(facts) else "a mean squared error (MSE)"
    return f"{who} {hits}with {measure} of {_level(facts, network['mse'])}. {_comparison(facts)}"


def _comparison(facts: Document) -> str:
    network, best = facts["network"], facts["network"]["best_kernel"]
    others = [f"{_level(facts, network['omkl_mse'])} for OMKL, a central learner that sees everybody's data"]
    if best is not None:
        level, sigma2 = _level(facts, best["mse"]), number(best["sigma2"])
        others.append(f"{level} for the best single kernel in hindsight (σ²={sigma2})")
    others += [f"{_level(facts, mse)} for “{name}”" for name, mse in network["baselines"].items()]
    return f"For comparison: {'; '.join(others)}."


def _level(facts: Document, mse: float | None) -> str:
    """A mean squared error as the headline shows it: its root where there is a unit."""
    scaled = in_unit(facts, mse)
    if not has_scale(facts) or scaled is None:
        return number(scaled)
    return with_unit(math.sqrt(scaled), facts["unit"])


def glossary(facts: Document) -> dict[str, str]:
    """What every heading means, a short line each."""
    baselines = {name: BASELINES[name] for name in facts["network"]["baselines"] if name in BASELINES}
    sigma2 = {"σ²": _sigma2(facts)} if has_kernels(facts) else {}
    return {**_measures(facts), **_methods(facts), **sigma2, **baselines}


def _measures(facts: Document) -> dict[str, str]:
    unit = f", in {squared_unit(facts)}" if facts["unit"] else ""
    rmse = {"error": f"RMSE: the root of the MSE, in {facts['unit'] or 'the scale of the labels'}"}
    classes = {"right": "share of rounds in which the predicted class was right"}
    squares = f"mean squared error of predictions made before the label{unit}"
    scores = "mean squared gap of score and label (±1); “right” tells more"
    return {
        "MSE": squares if facts["network"]["accuracy"] is None else scores,
        **(rmse if has_scale(facts) else {}),
        **(classes if facts["network"]["accuracy"] is not None else {}),
        "CV": "consensus violation: mean squared gap to neighbours' predictions",
    }


def _methods(facts: Document) -> dict[str, str]:
    best = {"best kernel": "least error of any single kernel there, known only in hindsight"}
    return {
        "DOMKL": "these learners: own data, and messages from neighbours only",
        "OMKL": "one central learner that sees everybody's data",
        **(best if has_kernels(facts) else {}),
    }


def _sigma2(facts: Document) -> str:
    if facts["kernels"]["read_as"] == "frequency":
        return "kernel frequency: large follows fine detail, small broad trends"
    return "kernel width: small follows fine detail, large only broad trends"
