"""Runner of a whole graph in one process: `domkl.simulate`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import engines
from ..base.errors import InputError
from ..base.types import Float
from ..exchange.graph import GraphLike
from ..exchange.message import Exchange
from ..learning.horizon import HorizonLike
from ..learning.model import Watched
from ..models.settings import Settings, as_settings
from . import ahead
from .driver import Block, drive
from .progress import ProgressLines
from .results import Progress, Run, RunOptions, Watch

__all__ = ["Block", "Progress", "ProgressLines", "Run", "Watch", "Watched", "simulate"]


def simulate(
    X: npt.ArrayLike | Iterable[Block],
    y: npt.ArrayLike | None,
    graph: GraphLike,
    *,
    model: Any = None,
    delay: int | npt.ArrayLike = 0,
    exchange: Exchange | None = None,
    engine: str = "auto",
    threads: int | None = None,
    dtype: Float = np.float64,
    keep_state: bool = True,
    weights_every: int = 0,
    progress: Progress | bool | None = None,
    keep_model: bool = False,
    watch: Watch | None = None,
    horizon: HorizonLike | None = None,
    times: npt.ArrayLike | None = None,
    future: Sequence[int] = (),
    levels: Sequence[float] = (),
    least: float | None = None,
    most: float | None = None,
) -> Run:
    """Let a network of J learners learn for T rounds, in this process.

    Parameters
    ----------
    X, y : streams of all learners, (J, T, d) and (J, T), perhaps memory-mapped; or, as X, an iterable of
        blocks (X (J, B, d), y (J, B)) with y=None, for streams that do not fit into memory. Of m targets y is
        (J, T, m), NaN where a label is not known; with the loss "classes" (J, T) of labels from 0 to k - 1,
        whose probabilities `y_hat` (J, T, k) has.
    graph : networkx graph, adjacency, list of edges, or a name such as "ring".
    model : `domkl.Auto()` (the default: nothing to tune, raw inputs of any scale, NaN where one is missing)
        or `domkl.Paper(...)`, or one of your own: see docs/extend.md; "auto" and "paper" are short for them.
    delay : a label becomes known this many rounds after its prediction, and is learnt then. With `Auto` also
        one for each label, (J, T) or (T,): they become known at times of their own; infinity means never.
    exchange : `domkl.Exchange(...)`: how messages are changed on their way; by default not at all.
    engine : "auto" (native where it was built), "native" or "numpy"; a `Learner` of the same engine has
        its bits; "mpi" spreads a network over the ranks of `mpiexec`: `Paper` with the bits of "numpy", any
        other model with those of "auto".
    threads : how many the native engine may use; by default one for each core, or one for an `Auto` of less
        than 600 parameters, which needs no more. A model of your own takes neither `engine` nor `threads`.
    dtype : numpy.float64 or numpy.float32.
    keep_state : whether theta and lam are wanted; without them a huge network takes far less memory, and
        the native engine reports progress only at the end.
    weights_every : keep the weights of kernels (`Paper`) or experts (`Auto`) of every n-th round in `q_path`,
        and the consensus violation until then in `cv_path`: `Run.plot` and `Run.regret` need them.
    progress : called as progress(rounds done, T); T is 0 where the stream does not tell. If it returns
        "stop", the run ends with the rounds that are done. True shows a bar in a terminal or a notebook, else
        a line on standard error every few seconds.
    keep_model : keep the learners themselves, for `domkl.DOMKL.from_run`; they take memory. `Auto` only.
    watch : called with a `Watched`, what happened in each round, or with `Paper` in a few of them; for pages
        and files that follow a run.
    horizon : how far ahead to forecast: "1h", "24 rows", a list, or a range "1h..24h". Then X and y are the
        readings of a series, y[j, t] belongs to the same moment as X[j, t] (NaN where a reading has no
        target), and y_hat (J, T, H) is what was forecast of y from then; its label is learnt when it comes.
        Rounds after the last target only tell what is known ahead.
        See docs/forecast.md.
    times : of the readings, (T,) or (J, T): seconds, or NumPy's times; not needed for rows.
    future : places of the inputs that are known ahead, as a weather forecast or a price is.
    levels : coverages, such as 0.9, for which `run.ahead.bounds` is wanted.
    least, most : limits of the target, for forecasts and bounds.

    Examples
    --------
    >>> import domkl, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(5, 400, 2))
    >>> y = np.sin(3 * X[..., 0]) * X[..., 1]
    >>> run = domkl.simulate(X, y, "ring", model=domkl.Auto(size=200))
    >>> bool(run.mse.max() < 0.05 * y.var())
    True
    """
    settings = as_settings(model)
    if not settings.has_engines and engine != "mpi":
        engines.refuse_choice(engine, threads)
    how = RunOptions(
        delay=delay,
        every=weights_every,
        keep_state=keep_state,
        exchange=exchange,
        engine=engine,
        threads=_threads(settings) if threads is None else threads,
        dtype=dtype,
        progress=progress,
        keep_model=keep_model,
        watch=watch,
    )
    if keep_model and not (settings.can_go_on and how.exchange.is_plain):
        raise InputError(
            "keep_model is given; expected model=domkl.Auto(...), with messages as they are; leave it out"
        )
    asked: dict[str, Any] = {"times": times, "future": future, "levels": levels, "least": least, "most": most}
    if horizon is not None:
        return ahead.simulate(settings, X, y, graph, how, horizon, **asked)
    for name, value in asked.items():
        if value is not None and np.size(value):
            raise InputError(
                f'{name} is given without a horizon; expected both; add horizon="1h", or leave it out'
            )
    return drive(settings, X, y, graph, how)


def _threads(settings: Settings) -> int:
    """How many are worth their while: products of small matrices end before a second thread has begun."""
    return 1 if settings.is_small else os.cpu_count() or 1
