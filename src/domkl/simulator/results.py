"""What a simulation gives back, and how it is carried out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..base.types import Array
from ..exchange.graph import Graph
from ..exchange.message import Exchange
from ..exchange.network import Network
from ..learning.auto import AutoRows
from ..learning.settings import Auto

Progress: TypeAlias = Callable[[int, int], object]
#: Called after each round, or with `Paper` a few of them, with predictions and labels (J, B), what own
#: samples only predicted (J, B), or nothing where the model cannot tell, and the weights (J, n).
Watch: TypeAlias = Callable[[Array, Array, Array, Array], object]
#: What `progress` returns to end a run after the rounds that are done.
STOP = "stop"


class Final(NamedTuple):
    """Learners after their last round, as `domkl.DOMKL` goes on with them."""

    settings: Auto
    rows: AutoRows
    network: Network


@dataclass(frozen=True)
class Run:
    """What a simulation gives back: J learners, T rounds, P kernels or models of K parameters."""

    y_hat: Array  # (J, T) predicted before the label was learnt; (J, T, m) where y was
    mse: Array  # (J,) mean squared error
    cv: Array  # (J,) consensus violation
    theta: Array  # (J, P, K) final parameters
    lam: Array  # (J, P, K) final duals
    L: Array  # (J, P) cumulative losses
    q: Array  # (J, n) final weights of the kernels (Paper) or experts (Auto)
    kernel_mse: Array  # (J, P) of each kernel by itself: these are P runs of DOKL
    kernel_cv: Array  # (J, P)
    q_path: Array  # (rounds, J, n) weights every `weights_every` rounds
    q_rounds: npt.NDArray[np.intp]  # (rounds,) the rounds of q_path
    graph: Graph
    sent: float  # numbers sent to each neighbour in a round, on average
    bytes: float  # the same in bytes, without the message's envelope
    #: (J,) mean squared error of the expert that never listens (Auto); empty where a model has none
    alone: Array = field(default_factory=lambda: np.empty(0))
    #: (J, J) part of the rounds in which learner j used the message of neighbour i, NaN without a link; empty
    #: where a model does not judge, or no round had a common scale
    trust: Array = field(default_factory=lambda: np.empty((0, 0)))
    #: the learners themselves, where `keep_model` asked for them: see `domkl.DOMKL.from_run`
    final: Final | None = field(default=None, repr=False)


@dataclass(frozen=True)
class RunOptions:
    """How a simulation is carried out."""

    delay: int
    every: int
    keep_state: bool
    exchange: Exchange
    engine: str
    threads: int
    dtype: Any
    progress: Progress | None
    keep_model: bool
    watch: Watch | None = None
