"""What all engines share: their setting and their sums."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..base.types import Array
from ..exchange.graph import Graph
from ..exchange.message import Exchange
from ..learning.first_order import Rates
from ..learning.losses import Loss


class Setting(NamedTuple):
    """Everything that stays the same from round to round."""

    V: Array  # (P, D, d); its dtype is what the engine computes in
    graph: Graph
    rates: Rates
    loss: Loss
    hedge: str
    delay: int
    keep_state: bool = True
    one_block: bool = False  # all rounds come at once, and nothing is asked in between
    threads: int = 1
    step: str = "first"
    memory: float | None = None  # with step="newton": about how many past samples count
    exchange: Exchange = Exchange()
    bounds_labels: bool = False  # with step="newton": whether labels that cannot be believed are bounded


class Sums(NamedTuple):
    """Sums over rounds, from which the metrics are made."""

    squares: Array  # (J,) of y_hat - y
    gaps: Array  # (J,) squared, of the sum over i of f_j(x_j) - f_i(x_j)
    kernel_squares: Array  # (J, P) the same two for each kernel alone
    kernel_gaps: Array  # (J, P)

    @classmethod
    def zero(cls, J: int, P: int) -> Sums:
        return cls(np.zeros(J), np.zeros(J), np.zeros((J, P)), np.zeros((J, P)))
