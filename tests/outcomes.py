"""Outcomes of experiments for the tests of reports: small ones on made-up streams, and a real one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from domkl.datasets import Split
from domkl.lab import experiment, trial
from domkl.lab.experiment import Experiment
from domkl.lab.trial import Source
from domkl.learning.auto import EXPERT_NAMES
from domkl.learning.kernels import gaussian
from domkl.models.settings import Auto, KernelSpec, Paper, RateSpec
from problems import streams

ODD_NAMES = ("<b>&\"'", "Zürich 気象台", "a$x_1$", "[bold]x[/bold]", "a name that goes on and on and on")


def paper(loss="squared", **settings):
    kernels = KernelSpec(D=5, sigma2=(0.01, 1.0, 100.0))
    rates = RateSpec(rho=0.1, eta=0.1, eta_g=0.5)
    return Paper(**{"kernels": kernels, "rates": rates, "loss": loss, **settings})


def made(graph="ring", J=5, T=60, names=(), model=None, notes=(), **split):
    """A small outcome on made-up streams."""
    model = paper() if model is None else model
    X, y = streams(J, T, 2, classify=model.loss == "logistic")
    spec = Experiment("made up", graphs=(graph,), model=model, paper=paper(model.loss))
    outcome = trial.carry_out(spec, Source("toy", Split(X, y, names=names, **split)))
    return replace(outcome, notes=(*outcome.notes, *notes))


def with_experts(outcome, n=30, seed=0):
    """The same with weights of experts: the last one has none in the first rounds."""
    J, T = outcome.run.y_hat.shape
    path = np.random.default_rng(seed).dirichlet(1 + np.arange(len(EXPERT_NAMES)), size=(n, J))
    path[: n // 5, :, -1] = 0
    path /= path.sum(-1, keepdims=True)
    rounds = np.linspace(0, T - 1, n).astype(int)
    return replace(outcome, run=replace(outcome.run, q_path=path, q_rounds=rounds))


def three_stations():
    """The shipped stations with the paper's model, for 300 rounds."""
    spec = experiment.load("three-stations").with_model("paper")
    return trial.carry_out(spec, trial.prepare(spec, rounds=300))


OUTCOMES = {
    "stations": three_stations,
    "odd names": lambda: made("star", names=ODD_NAMES, notes=("<i>note</i>",)),
    "one learner": lambda: made("complete", J=1),
    "one round": lambda: made(J=3, T=1),
    "ring of 30": lambda: made(J=30, delay=2),
    "classes": lambda: made(J=4, model=paper("logistic")),
    "given frequencies": lambda: made(J=3, model=paper(kernels=gaussian(2, D=4, sigma2=(0.1, 10.0)))),
    "auto": lambda: with_experts(made(J=5, names=ODD_NAMES, model=Auto(size=60), delay=2)),
    "auto classes": lambda: made(J=3, model=Auto(size=60, loss="logistic")),
}
