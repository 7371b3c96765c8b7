"""A facade's first-order model as a learner of a network."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..base import checks
from ..base.types import Array
from ..engines.devices import Kept
from ..learner.learner import Learner
from ..learner.member import Update
from ..learning import losses
from ..learning.first_order import Rates
from .scale import FAR


class Mind(NamedTuple):
    """What a first-order model knows: kernels, estimate, and the scale it learnt on."""

    V: Array  # (P, D, d)
    theta: Array  # (P, 2D)
    L: Array  # (P,)
    q: Array  # (P,)
    mean: Array  # (d,) of the inputs
    factor: Array  # (d,) what their distances from it are multiplied with
    y_mean: float
    y_scale: float
    loss: str
    rates: Rates

    @property
    def digest(self) -> bytes:
        """Of all of it."""
        said = hashlib.sha256(repr((self.y_mean, self.y_scale, self.loss, self.rates)).encode())
        for array in self[:6]:
            said.update(np.ascontiguousarray(array, np.float64).tobytes())
        return said.digest()


class ScaledLearner(Learner):
    """A learner that begins where a facade's first-order model ends, with its scale for good.

    All of a network must begin with the same mind. Inputs and labels are in the units that the model was
    taught in; an input that is NaN counts as its mean. `options` are those of `Learner` that the model does
    not tell: name, payload, asynchronous, number, engine.
    """

    ALIKE = "model and payload"

    def __init__(self, mind: Mind, neighbours: Sequence[Hashable], **options: Any) -> None:
        setting: dict[str, Any] = {"loss": mind.loss, "hedge": "local", "dtype": np.float32}
        super().__init__(mind.V, neighbours, mind.rates, **setting, **options)
        self.mind = mind
        self.fingerprint = hashlib.sha256(self.fingerprint.encode() + mind.digest).hexdigest()[:16]
        theta, L, q = (np.asarray(value, self.V.dtype) for value in (mind.theta, mind.L, mind.q))
        self._go_on_from(Kept(theta, np.zeros_like(theta), L, q))

    def predict(self, x: npt.ArrayLike) -> float:
        """The network's function, as this learner knows it, at x."""
        return self._in_units(super().predict(self._scaled(x)))

    def observe(self, x: npt.ArrayLike, y: float) -> Update:
        """Predict, learn from (x, y), and return the update for the neighbours."""
        label = float(losses.one_label(self.loss, y))  # in full: its distance from the mean may be small
        with np.errstate(over="ignore"):  # what is too large is refused in words
            update = super().observe(self._scaled(x), (label - self.mind.y_mean) / self.mind.y_scale)
        assert self._last is not None
        round, name, _, y_hat, q = self._last
        self._last = round, name, label, self._in_units(y_hat), q
        return update

    def _in_units(self, y: float) -> float:
        return self.mind.y_mean + self.mind.y_scale * y

    def _scaled(self, x: npt.ArrayLike) -> Array:
        sample = checks.floats("x", x)
        checks.shape("x", sample, self.mind.mean.shape, "every sample needs the inputs that were taught")
        checks.finite_or_missing("x", sample)
        z = (sample - self.mind.mean) * self.mind.factor
        return np.clip(np.where(np.isnan(z), 0.0, z), -FAR, FAR)
