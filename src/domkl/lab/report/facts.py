"""An outcome as plain dictionaries, lists, numbers and text."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from ...base.types import Array
from ...learning import losses
from ..trial import Outcome

Document: TypeAlias = "dict[str, Any]"
TOP = 3


def document(outcome: Outcome) -> Document:
    """Everything about an outcome, ready for `json.dumps(..., allow_nan=False)`.

    Squared errors ("mse", "cv") are in the data's own scale, as the algorithm saw them; "rmse" is in
    `unit`: the root of `scale` times the mean squared error. What is not finite becomes None, and so is
    what preset "auto" does not have: rates, kernels, a best one. "sent" is numbers to a neighbour in a round.
    """
    return {
        **_setting(outcome),
        "learners": [_learner(outcome, j) for j in range(outcome.graph.J)],
        "network": _network(outcome),
        "single_kernels": _single_kernels(outcome),
        "notes": list(outcome.notes),
    }


def names_of(outcome: Outcome) -> list[str]:
    """The learners' names, as text."""
    return [str(name) for name in outcome.graph.names]


def labels_of(outcome: Outcome) -> Array:
    """The labels that errors are measured against. (J, T)"""
    return losses.labels(outcome.experiment.learning.make_loss(), outcome.split.y)


def plain(value: Any) -> float | None:
    """A number for JSON, which knows neither NaN nor infinity."""
    return float(value) if math.isfinite(value) else None


def _setting(outcome: Outcome) -> Document:
    experiment, names = outcome.experiment, names_of(outcome)
    return {
        "experiment": experiment.name,
        "preset": experiment.preset,
        "title": experiment.title,
        "dataset": outcome.dataset,
        "unit": outcome.unit,
        "scale": float(outcome.scale),
        "rounds": int(outcome.split.y.shape[1]),
        "delay": int(outcome.split.delay),
        "loss": experiment.learning.make_loss().name,
        "reg": float(experiment.learning.make_loss().reg),
        **_own(outcome),
        "graph": {
            "name": str(experiment.graphs[0]),
            "note": outcome.graph.note,
            "edges": [[names[a], names[b]] for a, b in outcome.graph.edges],
        },
    }


def _own(outcome: Outcome) -> Document:
    """What preset "auto" has none of, and what it alone has."""
    rates = outcome.rates
    if rates is None:
        auto = {"size": outcome.experiment.auto.size, "seed": outcome.experiment.kernels.seed}
        none = dict.fromkeys(("hedge", "step", "memory", "rates", "kernels"))
        return {"auto": {**auto, "sent": outcome.run.sent}, **none}
    learning = outcome.experiment.learning
    return {
        "auto": None,
        "hedge": learning.hedge,
        "step": learning.step,
        "memory": learning.memory,
        "rates": {name: float(getattr(rates, name)) for name in ("rho", "eta", "eta_g")},
        "kernels": _dictionary(outcome),
    }


def _dictionary(outcome: Outcome) -> Document:
    spec = outcome.experiment.kernels
    return {
        "family": spec.family,
        "D": int(spec.D),
        "seed": spec.seed,
        "sigma2": [float(s) for s in outcome.sigma2],
        "read_as": spec.read_as,
        "fingerprint": outcome.fingerprint,
    }


def _learner(outcome: Outcome, j: int) -> Document:
    run, names = outcome.run, names_of(outcome)
    return {
        "name": names[j],
        "neighbours": [names[i] for i in outcome.graph.neighbours[j]],
        "mse": plain(run.mse[j]),
        "rmse": _rmse(outcome, run.mse[j]),
        "cv": plain(run.cv[j]),
        "accuracy": _accuracy(outcome, [j]),
        "omkl_mse": plain(outcome.central_mse[j]),
        "baselines": {name: plain(mse[j]) for name, mse in outcome.baselines.items()},
        "best_kernel": _best(outcome, run.kernel_mse[j]),
        "top_kernels": [_weighted(outcome, j, p) for p in _largest(run.q[j])] if outcome.sigma2 else [],
    }


def _network(outcome: Outcome) -> Document:
    """Means over the learners; `best_kernel` is the one kernel that is best for all together."""
    run = outcome.run
    return {
        "mse": plain(run.mse.mean()),
        "rmse": _rmse(outcome, run.mse.mean()),
        "cv": plain(run.cv.mean()),
        "accuracy": _accuracy(outcome, list(range(outcome.graph.J))),
        "omkl_mse": plain(outcome.central_mse.mean()),
        "baselines": {name: plain(mse.mean()) for name, mse in outcome.baselines.items()},
        "best_kernel": _best(outcome, run.kernel_mse.mean(0)),
        "best_kernels_mse": plain(run.kernel_mse.min(1).mean()) if outcome.sigma2 else None,
    }


def _single_kernels(outcome: Outcome) -> list[Document]:
    mse, cv, q = (a.mean(0) for a in (outcome.run.kernel_mse, outcome.run.kernel_cv, outcome.run.q))
    return [
        {"sigma2": float(s), "mse": plain(mse[p]), "cv": plain(cv[p]), "weight": plain(q[p])}
        for p, s in enumerate(outcome.sigma2)
    ]


def _rmse(outcome: Outcome, mse: float) -> float | None:
    return plain(np.sqrt(outcome.scale * mse))


def _accuracy(outcome: Outcome, learners: list[int]) -> float | None:
    """Share of right signs where labels are classes, else None; a score of 0 is not right."""
    if not outcome.experiment.learning.make_loss().classifies:
        return None
    right = outcome.run.y_hat[learners] * labels_of(outcome)[learners] > 0
    return plain(right.mean())


def _best(outcome: Outcome, mse: Array) -> Document | None:
    if not outcome.sigma2:
        return None
    p = int(np.where(np.isfinite(mse), mse, np.inf).argmin())
    return {"sigma2": float(outcome.sigma2[p]), "mse": plain(mse[p])}


def _largest(q: Array) -> list[int]:
    return [int(p) for p in np.argsort(-q, kind="stable")[:TOP]]


def _weighted(outcome: Outcome, j: int, p: int) -> Document:
    run = outcome.run
    return {
        "sigma2": float(outcome.sigma2[p]),
        "weight": plain(run.q[j, p]),
        "mse": plain(run.kernel_mse[j, p]),
    }
