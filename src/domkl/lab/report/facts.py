"""An outcome as plain dictionaries, lists, numbers and text, and the error that figures show."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ...base.types import Array
from ...base.words import with_unit
from ...learning import losses, settings
from ...learning.losses import Loss
from ...learning.settings import KernelSpec, Paper
from ..trial import Outcome

Document: TypeAlias = "dict[str, Any]"
#: So many kernels of each learner are listed as its top kernels.
TOP = 3


class Measure(NamedTuple):
    """An error as figures show it: root mean square, or share of wrong classes."""

    name: str
    unit: str
    samples: Array  # (J, T) whose mean, or the root of whose mean, is the error
    root: bool

    @property
    def axis(self) -> str:
        """Label of an axis that shows this error."""
        return f"{self.name}, {self.unit}" if self.unit else self.name

    def of(self, means: Array) -> Array:
        """The error where samples have these means."""
        return np.asarray(np.sqrt(np.maximum(means, 0)) if self.root else means)

    def words(self, error: float) -> str:
        """An error with its unit."""
        return with_unit(float(error), self.unit)


def document(outcome: Outcome) -> Document:
    """Everything about an outcome, ready for `json.dumps(..., allow_nan=False)`.

    Every error is in the data's unit: "mse", "cv" and the baselines in `unit` squared, "rmse" in `unit`, the
    root of "mse"; "scale" is the factor from the learners' own squared errors. "alone" is what a learner
    would have with its own samples only. "model" holds the settings as given, "rates" and
    "kernels" what they became. "sent" is how many values a learner sends to each neighbour in a round, on
    average. What is not finite, not known, or not part of the model is None.
    """
    return {
        **_setting(outcome),
        "learners": [_learner(outcome, j) for j in range(outcome.graph.J)],
        "network": _network(outcome),
        "single_kernels": _single_kernels(outcome),
        "notes": list(outcome.notes),
    }


def measure(outcome: Outcome) -> Measure:
    """The error of every prediction: wrong classes where labels are classes, else squared errors."""
    labels, y_hat = _labels(outcome), outcome.run.y_hat
    if _loss(outcome).classifies:
        return Measure("wrong classes", "%", np.where(labels * y_hat > 0, 0.0, 100.0), root=False)
    return Measure("RMSE", outcome.unit, outcome.scale * (y_hat - labels) ** 2, root=True)


def names_of(outcome: Outcome) -> list[str]:
    """The learners' names, as text."""
    return [str(name) for name in outcome.graph.names]


def plain(value: Any) -> float | None:
    """A number for JSON, which has neither NaN nor infinity."""
    return float(value) if math.isfinite(value) else None


def _loss(outcome: Outcome) -> Loss:
    return outcome.experiment.model.loss_function


def _labels(outcome: Outcome) -> Array:
    """The labels that errors are measured against. (J, T)"""
    return losses.labels(_loss(outcome), outcome.split.y)


def _setting(outcome: Outcome) -> Document:
    experiment, names, rates = outcome.experiment, names_of(outcome), outcome.rates
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "dataset": outcome.dataset,
        "unit": outcome.unit,
        "scale": float(outcome.scale),
        "rounds": int(outcome.split.y.shape[1]),
        "delay": int(outcome.split.delay),
        "model": settings.describe(experiment.model),
        "loss": _loss(outcome).name,
        "reg": float(_loss(outcome).reg),
        "rates": None if rates is None else {name: float(value) for name, value in vars(rates).items()},
        "kernels": _kernels(outcome),
        "sent": plain(outcome.run.sent),
        "graph": {
            "name": str(experiment.graphs[0]),
            "note": outcome.graph.note,
            "edges": [[names[a], names[b]] for a, b in outcome.graph.edges],
        },
    }


def _kernels(outcome: Outcome) -> Document | None:
    model = outcome.experiment.model
    if not isinstance(model, Paper):
        return None
    used = dataclasses.replace(model, kernels=KernelSpec()) if model.kernels is None else model
    return {**settings.describe(used)["kernels"], "fingerprint": outcome.fingerprint}


def _learner(outcome: Outcome, j: int) -> Document:
    run, names = outcome.run, names_of(outcome)
    return {
        "name": names[j],
        "neighbours": [names[i] for i in outcome.graph.neighbours[j]],
        "mse": _squared(outcome, run.mse[j]),
        "rmse": _rmse(outcome, run.mse[j]),
        "cv": _squared(outcome, run.cv[j]),
        "accuracy": _accuracy(outcome, [j]),
        "mse_alone": _squared(outcome, outcome.mse_alone[j]),
        "rmse_alone": _rmse(outcome, outcome.mse_alone[j]),
        "omkl_mse": _squared(outcome, outcome.central_mse[j]),
        "baselines": {name: _squared(outcome, mse[j]) for name, mse in outcome.baselines.items()},
        "best_kernel": _best(outcome, run.kernel_mse[j]) if outcome.sigma2 else None,
        "top_kernels": [_weighted(outcome, j, p) for p in _largest(run.q[j])] if outcome.sigma2 else [],
    }


def _network(outcome: Outcome) -> Document:
    """Means over the learners; `best_kernel` is the one kernel that is best for all together."""
    run, has_kernels = outcome.run, bool(outcome.sigma2)
    return {
        "mse": _squared(outcome, run.mse.mean()),
        "rmse": _rmse(outcome, run.mse.mean()),
        "cv": _squared(outcome, run.cv.mean()),
        "accuracy": _accuracy(outcome, list(range(outcome.graph.J))),
        "mse_alone": _squared(outcome, outcome.mse_alone.mean()),
        "rmse_alone": _rmse(outcome, outcome.mse_alone.mean()),
        "omkl_mse": _squared(outcome, outcome.central_mse.mean()),
        "baselines": {name: _squared(outcome, mse.mean()) for name, mse in outcome.baselines.items()},
        "best_kernel": _best(outcome, run.kernel_mse.mean(0)) if has_kernels else None,
        "best_kernels_mse": _squared(outcome, run.kernel_mse.min(1).mean()) if has_kernels else None,
    }


def _single_kernels(outcome: Outcome) -> list[Document]:
    if not outcome.sigma2:
        return []
    mse, cv, q = (a.mean(0) for a in (outcome.run.kernel_mse, outcome.run.kernel_cv, outcome.run.q))
    return [
        {
            "sigma2": float(s),
            "mse": _squared(outcome, mse[p]),
            "cv": _squared(outcome, cv[p]),
            "weight": plain(q[p]),
        }
        for p, s in enumerate(outcome.sigma2)
    ]


def _squared(outcome: Outcome, mse: float) -> float | None:
    """A squared error of the learners' scale in the unit squared."""
    return plain(outcome.scale * mse)


def _rmse(outcome: Outcome, mse: float) -> float | None:
    return plain(np.sqrt(outcome.scale * mse))


def _accuracy(outcome: Outcome, learners: list[int]) -> float | None:
    """Share of right signs where labels are classes, else None; a score of 0 is not right."""
    if not _loss(outcome).classifies:
        return None
    right = outcome.run.y_hat[learners] * _labels(outcome)[learners] > 0
    return plain(right.mean())


def _best(outcome: Outcome, mse: Array) -> Document:
    p = int(np.where(np.isfinite(mse), mse, np.inf).argmin())
    return {"sigma2": float(outcome.sigma2[p]), "mse": _squared(outcome, mse[p])}


def _largest(q: Array) -> list[int]:
    return [int(p) for p in np.argsort(-q, kind="stable")[:TOP]]


def _weighted(outcome: Outcome, j: int, p: int) -> Document:
    run = outcome.run
    return {
        "sigma2": float(outcome.sigma2[p]),
        "weight": plain(run.q[j, p]),
        "mse": _squared(outcome, run.kernel_mse[j, p]),
    }
