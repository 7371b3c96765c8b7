"""What there is to run: a task is one dataset on one network with one draw of the kernels."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ... import datasets
from ...base.errors import DataError, InputError
from ...base.extras import need
from ...base.types import Array
from ...datasets import Dataset
from ...exchange.graph import paper
from ...learning import metrics
from ...learning.settings import KernelSpec, Paper
from ...simulator import simulate
from ..central import omkl
from ..experiment import Experiment

Rows: TypeAlias = "list[dict[str, Any]]"

DATASETS = (
    "weather",
    "conductivity",
    "air_quality",
    "wave_energy",
    "traffic/5",
    "temperature/5",
    "traffic/10",
    "temperature/10",
)
NETWORKS = (1, 2, 3, 4)
#: The paper's single kernels, by their sigma^2.
SINGLES = {"DOKL1": 1e-2, "DOKL2": 1e2}
#: Lengths of the streams that the regrets' exponents are fitted on.
LENGTHS = (250, 500, 1000, 2000, 4000, 8000, 16000)


class Task(NamedTuple):
    """One run. `network` 0 is the centralised OMKL; dataset "regret" is a made stream of `network` rounds."""

    dataset: str
    network: int
    trial: int


def plan(names: Sequence[str], networks: Sequence[int], trials: int) -> list[Task]:
    """Every task of the tables and of the regrets, the longest first."""
    grid = [Task(name, n, trial) for name in names for n in (0, *networks) for trial in range(trials)]
    return [Task("regret", T, 0) for T in reversed(LENGTHS)] + grid


def run_all(
    experiment: Experiment, tasks: Sequence[Task], jobs: int, digests: Mapping[str, str] | None = None
) -> Iterator[tuple[Task, Rows]]:
    """Perform tasks side by side with joblib, and yield each as it ends.

    `digests` are those that the datasets must have, wherever the work is done.
    """
    joblib, known = need("joblib", "cli"), digests or {}
    work = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")
    yield from work(
        joblib.delayed(_perform_named)(experiment, task, known.get(task.dataset)) for task in tasks
    )


def _perform_named(experiment: Experiment, task: Task, digest: str | None) -> tuple[Task, Rows]:
    if digest is not None and digest != digest_of(experiment, task.dataset):
        raise DataError(
            f"{task.dataset} is another version where this task ran; expected the same file on every "
            "machine; copy it there"
        )
    return task, perform(experiment, task)


def perform(experiment: Experiment, task: Task) -> Rows:
    """The figures of one task: rows of metric, method, learner, value."""
    if task.dataset == "regret":
        return _regrets(experiment, task.network)
    data = _data(experiment, task.dataset)
    return _centralised(experiment, data, task) if task.network == 0 else _network(experiment, data, task)


def digest_of(experiment: Experiment, name: str) -> str:
    """Digest of the data that the experiment learns from: files of one name come in several versions."""
    data = _data(experiment, name)
    return hashlib.sha256(data.X.tobytes() + data.y.tobytes()).hexdigest()[:16]


def _data(experiment: Experiment, name: str) -> Dataset:
    return _load(name, experiment.data.x_scale, experiment.data.y_scale)


@lru_cache(maxsize=8)
def _load(name: str, x_scale: str, y_scale: str) -> Dataset:
    return datasets.load(name, x_scale=x_scale, y_scale=y_scale)


def _paper(experiment: Experiment) -> Paper:
    if isinstance(experiment.model, Paper):
        return experiment.model
    raise InputError(
        f"the model of {experiment.name} is {experiment.model.kind}; expected paper, as the tables are the "
        'paper\'s; set kind = "paper" in [model]'
    )


def _network(experiment: Experiment, data: Dataset, task: Task) -> Rows:
    """DOMKL, and with it every single kernel: kernels meet only in Hedge, so one run holds them all."""
    graph, model = paper(task.network), _paper(experiment)
    split = data.split(graph.J, how=experiment.data.split, seed=task.trial)
    drawn = dataclasses.replace(model, kernels=model.draw(split.X.shape[2], task.trial))
    run = simulate(split.X, split.y, graph, model=drawn)
    rows = _rows("mse", "DOMKL", run.mse) + _rows("cv", "DOMKL", run.cv)
    for method, sigma2 in SINGLES.items():
        p = int(np.argmin(np.abs(np.log(_sigma2(model)) - np.log(sigma2))))
        rows += _rows("mse", method, run.kernel_mse[:, p]) + _rows("cv", method, run.kernel_cv[:, p])
    return rows + _rows("mse", "best kernel", run.kernel_mse.min(1))


def _sigma2(model: Paper) -> tuple[float, ...]:
    return (model.kernels if isinstance(model.kernels, KernelSpec) else KernelSpec()).sigma2


def _centralised(experiment: Experiment, data: Dataset, task: Task) -> Rows:
    split, model = data.split(1, how=experiment.data.split, seed=task.trial), _paper(experiment)
    V, N = model.draw(data.X.shape[1], task.trial), len(data.y)
    mu, eta_g = experiment.omkl.settings(model.rates_at(N), N)
    run = omkl(split.X[0], split.y[0], kernels=V, mu=mu, eta_g=eta_g, loss=model.loss_function)
    return [{"metric": "mse", "method": "OMKL", "learner": None, "value": run.mse}]


def _regrets(experiment: Experiment, T: int) -> Rows:
    X, y = made_stream(T)
    model = _paper(experiment)
    V = model.draw(X.shape[2])
    run = simulate(X, y, paper(1), model=Paper(kernels=V, rates=model.rates_at(T)))
    best = metrics.hindsight(X, y, V)
    learning, discrepancy = metrics.regret_a(run.y_hat, y, best), metrics.regret_d(run.cv, T)
    return _rows("regret_a", "DOMKL", learning) + _rows("regret_d", "DOMKL", discrepancy)


def made_stream(T: int) -> tuple[Array, Array]:
    """A smooth function of two inputs plus noise, at three learners, for T rounds."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(3, T, 2))
    y = 0.5 * np.sin(2 * X[..., 0]) + 0.3 * X[..., 1]
    return X, y + 0.1 * rng.standard_normal(y.shape)


def _rows(metric: str, method: str, values: Array) -> Rows:
    return [
        {"metric": metric, "method": method, "learner": j, "value": float(value)}
        for j, value in enumerate(values, start=1)
    ]
