"""What `Run.plot` draws: at most a few hundred points a curve, however many rounds there were."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..base import checks
from ..base.errors import InputError
from ..base.extras import need
from ..base.types import Array
from ..learning import conformal
from ..learning.metrics import Hindsight

if TYPE_CHECKING:
    from .results import Run

#: The most points of a curve; a longer one shows the mean of as many pieces.
POINTS = 400
#: Learners or weights that are named; of more there is a band, or "others".
NAMED = 6


class Wanted(NamedTuple):
    """What `Run.plot` was asked for."""

    run: Run
    y: npt.ArrayLike | None
    best: Hindsight | None
    learner: int | None
    last: int


def draw(what: str, wanted: Wanted, axes: Any) -> Any:
    """The axes with one of `PLOTS` on them."""
    plot = PLOTS[checks.one_of("plot", what, PLOTS)]
    checks.count("last", wanted.last)
    if wanted.learner is not None:
        checks.count("learner", wanted.learner, 0, wanted.run.mse.shape[0] - 1)
    if axes is None:
        axes = need("matplotlib.pyplot", "cli").subplots(figsize=(9, 4), layout="constrained")[1]
    plot(wanted, axes)
    if axes.get_legend() is None:
        axes.legend(frameon=False)
    return axes


def _predictions(wanted: Wanted, axes: Any) -> None:
    """The last predictions of one learner and, where labels are given, truth and bounds."""
    run, y, _, learner, last = wanted
    J, T = run.y_hat.shape[:2]
    j, first = learner or 0, max(0, T - last)
    rounds, y_hat = np.arange(first, T), run.y_hat.reshape(J, T)
    if y is not None:
        labels = run.labels(y).reshape(J, T)
        low, high = conformal.bounds(y_hat[[j]], labels[[j]])
        inside = np.isfinite(high[0, first:])
        bounds = low[0, first:], high[0, first:]
        axes.fill_between(rounds, *bounds, where=inside, alpha=0.2, label="90 % bounds", linewidth=0)
        axes.plot(rounds, labels[j, first:], color="0.25", linewidth=1, label="truth")
    axes.plot(rounds, y_hat[j, first:], linewidth=1.3, label="prediction")
    axes.set(xlabel="round", title=f"learner {run.graph.names[j]}")


def _error(wanted: Wanted, axes: Any) -> None:
    """Root mean squared errors, each of a piece of the run."""
    run, y, _, learner, _ = wanted
    J, T = run.y_hat.shape[:2]
    if y is None:
        raise InputError("y is not given; expected the labels for the plot of errors; pass y=")
    starts = np.unique(np.linspace(0, T, min(T, POINTS // 2), endpoint=False).astype(int))
    squares = (run.y_hat.reshape(J, T) - run.labels(y).reshape(J, T)) ** 2
    known = np.isfinite(squares)
    sums = np.add.reduceat(np.where(known, squares, 0), starts, 1)
    with np.errstate(invalid="ignore"):
        errors = np.sqrt(sums / np.add.reduceat(known, starts, 1))
    _curves(run, starts, errors, learner, axes)
    axes.set(xlabel="round", ylabel="RMSE")
    axes.set_ylim(bottom=0, auto=True)


def _weights(wanted: Wanted, axes: Any) -> None:
    """Weights of kernels or experts as a share of the whole, of one learner or the mean of all."""
    run, learner = wanted.run, wanted.learner
    rounds = _kept(run)
    path = run.q_path.mean(1) if learner is None else run.q_path[:, learner]
    rounds, path = rounds[: len(path)][-POINTS:], path[-POINTS:]
    order = np.argsort(-path.max(0), kind="stable")
    shown, rest = sorted(order[:NAMED]), order[NAMED:]
    names = [run.weight_names[p] for p in shown]
    bands = [path[:, p] for p in shown]
    if len(rest):
        names, bands = [*names, f"{len(rest)} others"], [*bands, path[:, rest].sum(1)]
    axes.stackplot(rounds, bands, labels=names, linewidth=0)
    axes.set(xlabel="round", ylabel="weight", ylim=(0, 1), xlim=(rounds[0], max(rounds[-1], 1)))


def _regret(wanted: Wanted, axes: Any) -> None:
    """Both regrets: the mean of the learners, and the least to the greatest; or of one learner."""
    run, y, best, learner, _ = wanted
    if y is None or best is None:
        raise InputError(
            "y or best is not given; expected labels and domkl.metrics.hindsight(X, y, V) for the plot of "
            "regrets; pass both"
        )
    found, lines = run.regret(y, best), []
    for name, values, side, color in (
        ("learning", found.learning, axes, "C0"),
        ("discrepancy", found.discrepancy, axes.twinx(), "C1"),  # often of another order of size
    ):
        mine = values if learner is None else values[[learner]]
        lines += side.plot(found.rounds, mine.mean(0), linewidth=1.5, color=color, label=f"{name} regret")
        if len(mine) > 1:
            side.fill_between(found.rounds, mine.min(0), mine.max(0), alpha=0.2, color=color, linewidth=0)
        side.set_ylabel(f"{name} regret", color=color)
    axes.set(xlabel="rounds")
    axes.legend(handles=lines, frameon=False)


def _curves(run: Run, rounds: npt.NDArray[np.intp], values: Array, learner: int | None, axes: Any) -> None:
    """A curve of each learner, or of many the mean and a band; or of one learner."""
    if learner is not None or len(values) <= NAMED:
        for j in range(len(values)) if learner is None else [learner]:
            axes.plot(rounds, values[j], linewidth=1, label=str(run.graph.names[j]))
        return
    low, high = np.nanpercentile(values, (10, 90), axis=0)
    axes.fill_between(rounds, low, high, alpha=0.25, linewidth=0, label=f"80 % of {len(values)} learners")
    axes.plot(rounds, np.sqrt(np.nanmean(values**2, 0)), linewidth=1.5, label="all")


def _kept(run: Run) -> npt.NDArray[np.intp]:
    if not len(run.q_rounds):
        raise InputError(
            "the run kept no weights; expected simulate(..., weights_every=n) for this plot; "
            "choose n of about a hundredth of the rounds"
        )
    return run.q_rounds


PLOTS: dict[str, Callable[..., None]] = {
    "predictions": _predictions,
    "error": _error,
    "weights": _weights,
    "regret": _regret,
}
