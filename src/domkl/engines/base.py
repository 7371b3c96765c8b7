"""What all engines share: their setting, their sums, and a device between two rounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..base import checks
from ..base.types import Array
from ..exchange.graph import Graph
from ..exchange.message import Exchange
from ..learning import second_order
from ..learning.fields import prove_semidefinite
from ..learning.first_order import Rates
from ..learning.losses import Loss
from ..learning.paper import Algorithm


class Setting(NamedTuple):
    """Everything that stays the same from round to round."""

    V: Array  # (P, D, d); its dtype is what the engine computes in
    graph: Graph
    how: Algorithm
    delay: int = 0
    keep_state: bool = True
    one_block: bool = False  # all rounds come at once, and nothing is asked in between
    threads: int = 1
    exchange: Exchange = Exchange()


class Sums(NamedTuple):
    """Sums over rounds, from which the metrics are made."""

    squares: Array  # (J,) of y_hat - y, or (J, m)
    gaps: Array  # (J,) squared, of the sum over i of f_j(x_j) - f_i(x_j)
    kernel_squares: Array  # (J, P) the same two for each kernel alone
    kernel_gaps: Array  # (J, P)

    @classmethod
    def zero(cls, *shape: int) -> Sums:
        """Of shape (J, P), or (J, m, P)."""
        few = shape[:-1]
        return cls(np.zeros(few), np.zeros(few), np.zeros(shape), np.zeros(shape))


class Past(NamedTuple):
    """What a second-order device also keeps; the inverse is the one that it goes on with, not a copy."""

    m: Array  # (P, 2D)
    inverse: second_order.Inverse
    deg: int  # the neighbours that the inverse counts

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All of it, copied; of the matrix, which is symmetric to the last bit, one half."""
        half, terms = self.inverse.halves()
        return {"m": self.m, "inverse": half, "terms": terms, "deg": np.array(self.deg, np.int64)}

    @classmethod
    def of(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Past:
        """Inverse of `arrays`."""
        inverse = second_order.Inverse.of_halves(arrays["inverse"], arrays["terms"])
        prove_semidefinite("the inverse", inverse.whole())
        return cls(arrays["m"], inverse, int(arrays["deg"]))

    def at(self, deg: int, rates: Rates, loss: Loss) -> second_order.Inverse:
        """The inverse of a learner that has `deg` neighbours now."""
        if deg == self.deg:
            return self.inverse
        c = rates.eta + rates.rho * self.deg + 2 * loss.reg
        return second_order.shift(self.inverse, c, rates.rho * (deg - self.deg))


class DeviceState(NamedTuple):
    """A device between two rounds, to the last bit."""

    theta: Array  # (P, 2D)
    lam: Array  # (P, 2D) in the device's unit
    L: Array  # (P,)
    q: Array  # (P,)
    past: Past | None = None

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All of it by name."""
        more = {} if self.past is None else self.past.arrays()
        return {"theta": self.theta, "lam": self.lam, "L": self.L, "q": self.q, **more}

    @classmethod
    def of(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> DeviceState:
        """Inverse of `arrays`."""
        P, K = arrays["theta"].shape
        for name, shape in {"theta": (P, K), "lam": (P, K), "L": (P,), "q": (P,)}.items():
            found = arrays[name]
            checks.need(
                found.shape == shape and bool(np.isfinite(found).all()), f"{name} is not finite {shape}"
            )
        past = Past.of(arrays) if "m" in arrays else None
        return cls(arrays["theta"], arrays["lam"], arrays["L"], arrays["q"], past)
