"""Mixer: Hedge over the experts, which may change their order."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...base.types import Array
from ..fields import Concept, field


class Mixer(Concept):
    """Fixed-share Hedge, one for each target.

        log w_i <- log w_i - min((e_i - min e) / (heat repeats E), most),   w <- (1 - share) w + share / n

    with e the squared errors of this sample and E the mean one of the best expert over `fade` samples: the
    temperature follows the noise, so nothing has to be known about it. Weights begin equal; see `favour`.

    Examples
    --------
    >>> import numpy as np
    >>> from domkl.learning.auto.mixer import Mixer
    >>> mixer = Mixer(J=1, m=1, experts=2)
    >>> for _ in range(50):
    ...     mixer.learn(np.array([[[1.0, 2.0]]]), repeats=np.ones(1))
    >>> bool(mixer.weights[0, 0, 0] > 0.98)
    True
    """

    heat: float = 4.4  # temperature, in errors of the best expert
    most: float = 1.3  # largest step: a single huge error must not decide
    share: float = 0.005  # part of the weight that is dealt out evenly again with each sample
    fade: int = 30  # samples that the mean errors are over

    log: Array = field("J m n", high=0.0)
    errors: Array = field("J m n", low=0.0)
    age: npt.NDArray[Any] = field("J", "int64", low=0)

    def __init__(self, J: int, m: int, experts: int, **chosen: float) -> None:
        self.choose(chosen)
        self.allocate(np.float64, J=J, m=m, n=experts)

    @property
    def weights(self) -> Array:
        """Of each expert, which sum to 1. (J, m, n)"""
        w = np.exp(self.log - self.log.max(-1, keepdims=True))
        w /= w.sum(-1, keepdims=True)
        return np.asarray((1 - self.share) * w + self.share / w.shape[-1])

    def learn(self, errors: Array, repeats: Array) -> None:
        """Note squared errors (J, m, n); `repeats` (J,) as in `Echo`."""
        self.age += 1
        self.errors += (errors - self.errors) / np.minimum(self.age, self.fade)[:, None, None]
        best = np.maximum(self.errors.min(-1, keepdims=True), 1e-12)
        step = (errors - errors.min(-1, keepdims=True)) / (self.heat * repeats[:, None, None] * best)
        self.log = np.log(self.weights) - np.minimum(step, self.most)

    def favour(self, row: int, expert: int, first: int = 0, part: float = 0.5) -> None:
        """Give one expert a part of the weight of a row, for targets from the `first` one on."""
        w = (1 - part) * self.weights[row, first:]
        w[:, expert] += part
        self.log[row, first:] = np.log(w)

    def rescale(self, rows: Any, factor: Array) -> None:
        """Widths of the targets have changed by this factor (R, m)."""
        self.errors[rows] *= (factor**2)[..., None]
