"""Sweeps run on a Dask cluster through joblib, with the figures of one process."""

from __future__ import annotations

import joblib
import numpy as np
import pytest

import domkl
import problems
from domkl.lab import experiment, reproduce
from domkl.lab.reproduce import Task

distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")


@pytest.fixture(scope="module")
def cluster():
    """Two workers, each a process of its own."""
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as two,
        distributed.Client(two) as client,
    ):
        client.wait_for_workers(2)
        yield client


def sweep(rhos):
    X, y = problems.streams(4, 30, 2)
    one = joblib.delayed(domkl.simulate)
    models = [domkl.Paper(rates=domkl.Rates(rho, 1.0, 1.0)) for rho in rhos]
    return [one(X, y, "ring", model=model, engine="numpy") for model in models]


def test_a_sweep_over_rates_is_the_same_on_the_cluster(cluster):
    calls = sweep([0.1, 0.3, 1.0, 3.0, 10.0])
    with joblib.parallel_config(backend="dask"):
        far = joblib.Parallel(n_jobs=2)(calls)
    near = joblib.Parallel(n_jobs=1)(calls)
    for a, b in zip(far, near, strict=True):
        for name in ("y_hat", "theta", "mse", "cv"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)


def test_the_reproduction_runs_on_the_cluster(cluster):
    paper, tasks = experiment.load("paper-fitted"), [Task("regret", T, 0) for T in (250, 120, 60, 30)]
    with joblib.parallel_config(backend="dask"):
        far = dict(reproduce.run_all(paper, tasks, jobs=2))
    assert far == {task: reproduce.perform(paper, task) for task in tasks}
