"""Three devices with 8, 2 and 1/3 samples a second: part of `faults.py`, which says what is measured."""

from __future__ import annotations

from typing import Any

import judge
import numpy as np
import together

import domkl

SIZE, TICKS = 200, 1200
EVERY = (1, 4, 24)  # ticks of the fastest between two samples of each
GRAPHS = {"path": ([1], [0, 2], [1]), "complete": ([1, 2], [0, 2], [0, 1]), "alone": ([], [], [])}


def streams(name: str, seed: int) -> judge.Case:
    """Samples of the first three devices of a stream, one a tick."""
    found = judge.case(name)
    if name == "a0":
        found = found._replace(**dict(zip("Xy", together.made(0.0, seed, J=6, T=TICKS)[:2], strict=True)))
    return found._replace(X=found.X[:3, :TICKS], y=found.y[:3, :TICKS])


def devices(case: judge.Case, seed: int, graph: str, **how: Any) -> list[domkl.Learner]:
    """One for each name in a graph."""
    model = domkl.Auto(size=SIZE, seed=seed, start=float(case.y[:, 0].mean()))
    how |= {"inputs": case.X.shape[2], "dtype": np.float32}
    return [domkl.Learner(model, near, name=j, **how) for j, near in enumerate(GRAPHS[graph])]


def at_will(one: domkl.Learner, others: list[domkl.Learner], x: np.ndarray | None, y: float) -> None:
    """Observe, and let neighbours have the message at once, who follow; without a sample nothing happens."""
    if x is not None:
        tell(one, others, one.observe(x, y))


def tell(one: domkl.Learner, others: list[domkl.Learner], update: domkl.Update) -> None:
    """Neighbours receive an update, and go through its round too."""
    for i in one.neighbours:
        others[i].receive(one.name, update)
    for i in one.neighbours:
        if (more := others[i].follow()) is not None:
            tell(others[i], others, more)


def step(one: domkl.Learner, x: np.ndarray | None, y: float) -> domkl.Update:
    """A round in step: observe, or go through it without a sample."""
    return one.observe(x, y) if x is not None else one._opened(one._row.rest())


def run(case: judge.Case, seed: int, graph: str, is_in_step: bool = False) -> dict[str, Any]:
    """The mean squared error of each, and how it ended."""
    all_of = devices(case, seed, graph)
    errors: list[list[float]] = [[], [], []]
    for t in range(case.y.shape[1]):
        for j, one in enumerate(all_of):
            if t % EVERY[j] == 0:
                errors[j].append((one.predict(case.X[j, t]) - case.y[j, t]) ** 2)
        now, sent = t - case.delay, []
        for j, one in enumerate(all_of):
            has_sample = now >= 0 and now % EVERY[j] == 0
            x, y = (case.X[j, now], case.y[j, now]) if has_sample else (None, 0.0)
            if is_in_step and now >= 0:
                sent.append(step(one, x, y))
            elif not is_in_step:
                at_will(one, all_of, x, y)
        for one in all_of:
            for i in one.neighbours if sent else ():
                one.receive(i, sent[i])
    numbers = [float(one._row.scale.number[0]) for one in all_of]
    faults = sum(len(one.faults) for one in all_of)
    return {"errors": [np.mean(e[1:]) for e in errors], "scales": len(set(numbers)), "faults": faults}


def measure(name: str, seed: int, graph: str) -> dict[str, Any]:
    """Ratios of each device, the fastest first."""
    case = streams(name, seed)
    will, in_step = run(case, seed, graph), run(case, seed, graph, is_in_step=True)
    alone = run(case, seed, "alone")
    ratio = lambda a, b: [float(f"{x / y:.4g}") for x, y in zip(a["errors"], b["errors"], strict=True)]  # noqa: E731
    return {
        "over in step": ratio(will, in_step),
        "over alone": ratio(will, alone),
        "in step over alone": ratio(in_step, alone),
        "scales": will["scales"],
        "faults": will["faults"] + in_step["faults"],
    }
