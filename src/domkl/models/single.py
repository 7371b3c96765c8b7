"""`domkl.Paper` on one device without neighbours: the local step over Gaussian kernels, on scaled data."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import engines
from ..base import checks
from ..base.errors import InputError
from ..base.types import Array
from ..engines.base import DeviceState
from ..learning import first_order, kernels
from ..learning.explain import Function
from ..learning.fields import Concept, field, scalar
from ..learning.first_order import Rates
from ..learning.losses import probability
from ..learning.model import Model, Part
from .settings import MOST_FREQUENCIES, KernelSpec, Paper
from .taught import FAR, HandedPaper, Taught

#: The standard deviation that inputs get: with it the paper's bandwidths lie on both sides of typical
#: distances for one input as well as for a hundred.
SPREAD = 0.3
#: At most so many samples wait until the scale is updated with them.
WAITING = 256
#: A change of the labels' mean or spread that is not worth a new unit, in spreads.
STILL = 0.01
#: Inputs beyond this do not count in a mean or spread.
HUGE = 1e150
#: The farthest that a scaled label may lie from 0; one beyond counts as if it lay there.
FARTHEST = 1e15


class Scale(Concept):
    """Running mean and spread of columns, updated by blocks that may hold NaN."""

    n: Array = field("d", low=0)
    mean: Array = field("d")
    squares: Array = field("d", low=0, high=np.inf)  # of the distances from the mean, in sum

    def __init__(self, d: int = 0) -> None:
        self.allocate(d=d)

    def update(self, block: Array) -> None:
        """Add rows (k, d), by Chan's rule for merging moments."""
        seen = np.abs(block) < HUGE  # False for NaN
        k = seen.sum(0)
        mean = np.where(seen, block, 0).sum(0) / np.maximum(k, 1)
        apart, n = mean - self.mean, np.maximum(self.n + k, 1)
        self.squares = self.squares + (np.where(seen, block - mean, 0) ** 2).sum(0)
        self.squares += apart * apart * self.n * k / n
        self.mean = self.mean + apart * k / n
        self.n = self.n + k

    @property
    def factor(self) -> Array:
        """Factors that give each column deviation 1; 0 where a column does not vary. (d,)"""
        spread = np.sqrt(self.squares / np.maximum(self.n, 1))
        varies = (spread > 1e-9 * np.abs(self.mean)) & (spread > 1e-300) & np.isfinite(spread)
        return np.where(varies, 1 / np.where(varies, spread, 1), 0.0)


def fill(z: Array) -> Array:
    """Fill a scaled sample in place: a missing input becomes its mean, an infinite one is cut off."""
    z[np.isnan(z)] = 0.0
    return np.clip(z, -FAR, FAR, out=z)


def check(model: Paper) -> None:
    """Refuse what one device without neighbours cannot do."""
    loss, spec = model.loss_function, model.kernels
    if spec is not None and not isinstance(spec, KernelSpec):
        raise InputError(
            "kernels are given as an array; expected frequencies that each input can draw when it first "
            "appears; write KernelSpec(D=, seed=)"
        )
    if spec is not None and spec.family != "gaussian":
        _refuse("kernels.family", spec.family, "'gaussian'")
    if spec is not None and not len(spec.sigma2):
        _refuse("kernels.sigma2", spec.sigma2, "one number for each kernel")
    if model.step != "first":
        _refuse("step", model.step, "'first'")
    if model.hedge != "neighbours":
        _refuse("hedge", model.hedge, "no rule about neighbours")
    if loss.name not in ("squared", "logistic"):
        _refuse("loss", loss.name, "'squared' or 'logistic'")
    if loss.reg:
        _refuse("reg", loss.reg, "no ridge penalty")
    if loss.bounds is not None:
        _refuse("bounds", loss.bounds, "no bounds")
    rates(model)


def _refuse(name: str, value: object, expected: str) -> None:
    raise InputError(
        f"{name} is {value!r}; expected {expected} on one device without neighbours; leave it out"
    )


def rates(model: Paper) -> Rates:
    """The rates that are given; else for scaled data, where a sample moves 2 / (2 + eta) of its error."""
    if model.rates is None:
        return Rates(rho=1.0, eta=1.0 if model.loss_function.classifies else 4.0, eta_g=1.0)
    return model.rates_at(0)


class Said(NamedTuple):
    """A sample and what was predicted for it."""

    x: Array  # (1, d)
    row: Array  # (d,) the same
    y_hat: Array  # (1, 1)


class SinglePaper(Concept, Model):
    """The paper's local step of a device without neighbours; inputs and labels are scaled as they come.

    It computes in float32: half the time, and the step is far coarser than the rounding.
    """

    J = 1
    dtype = np.float64  # that samples and predictions have
    PARTS = ("inputs", "labels")

    y_mean: float = scalar()
    y_scale: float = scalar(first=1, low=1e-300)
    learnt: int = scalar("int64", low=0)
    waiting: int = scalar("int64", low=0, high=WAITING - 1)  # samples learnt that are not yet in the scale
    due: int = scalar("int64", first=1, low=1, high=WAITING)
    rows: Array = field("w d", low=-np.inf, high=np.inf, missing=True)  # the last samples, as they came
    ys: Array = field("w")  # both go round: the oldest is overwritten
    theta: Array = field("P K")  # these four are the device's, and written when the state is asked for
    lam: Array = field("P K")
    L: Array = field("P")
    q: Array = field("P", low=0)

    def __init__(self, settings: Paper, keys: Sequence[Hashable] = ()) -> None:
        check(settings)
        assert settings.kernels is None or isinstance(settings.kernels, KernelSpec)
        self.settings, self.spec = settings, settings.kernels or KernelSpec()
        self.rates, self.loss = rates(settings), settings.loss_function
        P, D = len(self.spec.sigma2), self.spec.D
        self.V = np.zeros((P, D, 0))
        self.inputs, self.labels, self.keys = Scale(), Scale(1), list[Hashable]()
        self.allocate(w=WAITING, d=0, P=P, K=2 * D)
        self._device: engines.Device | None = None
        self._placed: Array | None = None
        self.grow_named(keys)

    @property
    def d(self) -> int:  # type: ignore[override]
        return len(self.keys)

    @property
    def parts(self) -> tuple[Part, ...]:
        return ()

    def grow_named(self, keys: Sequence[Hashable]) -> None:
        kept, (P, D, d) = self._keep(), self.V.shape
        count = P * D * (d + len(keys))
        checks.need(count <= MOST_FREQUENCIES, f"it has {count} frequencies")
        drawn = (_frequencies(self.spec, key)[..., None] for key in keys)
        self.V = np.concatenate([self.V, *drawn], axis=2)
        self._update_scale()
        self.keys += keys
        self.inputs.lengthen("d", self.d)
        self.lengthen("d", self.d)
        self.rows[:, d:] = np.nan  # as they were missing so far
        self._start(kept)

    def grow(self, d: int) -> None:
        self.grow_named(range(self.d, d))

    def grow_targets(self, m: int) -> None:
        Paper.refuse_targets(m)

    def predict(self, x: Array) -> Said:
        row = x[0]
        self._place(row)
        found = self.y_mean + self.y_scale * self._predict(self._z)
        y_hat = 2 * probability(found) - 1 if self.loss.classifies else found
        return Said(x, row, np.array([[y_hat]]))

    def learn(
        self, prediction: Said, y: Array, earlier: Any = None, weight: Array | None = None
    ) -> dict[str, Array]:
        if weight is not None and weight[0] != 1:
            raise InputError(f"a sample weighs {weight[0]:g}; expected 1 with domkl.Paper; use domkl.Auto")
        label = float(y[0, 0])
        if not abs(label) <= checks.LARGEST:
            checks.finite("y", y[0, 0])
        self.rows[self._at], self.ys[self._at] = prediction.row, label
        self.waiting += 1
        if self.waiting == self.due:
            self._rescale()
        if prediction.row is not self._placed:
            self._place(prediction.row)
        self._placed = None
        # Cut off where the squares of float32 would overflow.
        self._learn(self._z, max(-FARTHEST, min(FARTHEST, (label - self.y_mean) / self.y_scale)))
        return {}

    def merge(self, incoming: Mapping[str, Any]) -> None:
        """It has no neighbours."""

    def learn_alone(self, prediction: Said, y: Array) -> bool:
        self.learn(prediction, y)
        return True

    @property
    def weights(self) -> Array:
        return np.ones((1, len(self.V))) if self._device is None else self._device.q[None]

    def handed(self, names: tuple[str, ...]) -> HandedPaper:
        """What it has learnt so far, with the scale of now."""
        self._note_device()
        taught = Taught(*self.V.shape)
        taught.V[:], taught.mean[:], taught.factor[:] = self.V, self._mean, self._factor
        taught.theta[:], taught.L[:], taught.q[:] = self.theta, self.L, self.q
        taught.y_mean, taught.y_scale = self.y_mean, self.y_scale
        return HandedPaper(taught, self.loss.name, self.rates, names=names)

    def as_function(self, row: int = 0, target: int = 0) -> tuple[Function, Array]:
        kept = self._keep()
        assert kept is not None  # there are inputs

        def predict(X: Array) -> Array:
            with np.errstate(all="ignore"):  # `fill` replaces what overflows
                z = fill((X - self._mean) * self._factor)
            f = first_order.dot(kept.theta, first_order.features(self.V, z)) @ kept.q
            found = self.y_mean + self.y_scale * np.asarray(f, np.float64)
            return np.asarray(np.tanh(found / 2) if self.loss.classifies else found)

        return predict, self.rows[: self.learnt + self.waiting].copy()

    def predict_named(self, x: dict[Any, Any]) -> float | None:
        f = self._native.ask(x) if self._native else None
        return None if f is None else self.y_mean + self.y_scale * f

    def learn_named(self, x: dict[Any, Any], y: float) -> bool:
        i = self._at
        if not self._native or self.waiting + 1 == self.due:
            return False
        try:
            scaled = (y - self.y_mean) / self.y_scale
            if not (-FARTHEST <= scaled <= FARTHEST and self._native.tell(x, scaled, i)):
                return False
        except (TypeError, ValueError):  # `learn` raises the error in words
            return False
        self.ys[i] = y
        self.waiting += 1
        return True

    @property
    def _at(self) -> int:
        """Where the next sample goes."""
        return (self.learnt + self.waiting) % WAITING

    def state(self) -> dict[str, Any]:
        self._note_device()
        return super().state()

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        checks.need(self.waiting < self.due, f"{self.waiting} samples wait")
        blank = self._keep()
        if blank is not None:
            kept: dict[str, Any] = {
                name: np.asarray(getattr(self, name), v.dtype) for name, v in blank.arrays().items()
            }
            self._start(DeviceState(**kept))

    def __reduce__(self) -> tuple[Any, ...]:
        """Arrays; the device, which is code, is made again from them."""
        return _restored, (self.settings, self.keys, self.state())

    def _note_device(self) -> None:
        kept = self._keep()
        if kept is not None:
            for name, values in kept.arrays().items():
                getattr(self, name)[:] = values

    def _use_scale(self) -> None:
        self._mean, self._factor = self.inputs.mean, SPREAD * self.inputs.factor
        if self._native:
            self._native.columns(tuple(self.keys), self._mean, self._factor, self.rows)

    def _start(self, kept: DeviceState | None) -> None:
        """Make the device, which continues from `kept`."""
        self._z = np.zeros(self.d)
        self._placed = None
        self._predict: Callable[[Array], float] = lambda z: 0.0
        self._learn: Callable[[Array, float], object] = lambda z, y: None
        self._native: Any = None
        if self.d:
            V = kernels.check(self.V, dtype=np.float32)
            how = engines.Algorithm(self.rates, self.loss, "local")
            self._device = engines.make_device("auto", V, 0, how)
            if kept is not None:
                self._device.resume(kept, [])
            self._predict, self._learn = _predict_with(self._device), _learn_with(self._device)
            if not self.loss.classifies:  # dictionaries are for numbers alone
                self._native = self._device.native
        self._use_scale()

    def _keep(self) -> DeviceState | None:
        return None if self._device is None else self._device.keep()

    @np.errstate(all="ignore")  # `fill` replaces what overflows
    def _place(self, x: Array) -> None:
        """Scale x into z."""
        z = self._z
        np.subtract(x, self._mean, z)
        np.multiply(z, self._factor, z)
        self._placed = x

    def _rescale(self) -> None:
        """Update the scale; where the labels' unit has changed, the estimate is converted to it."""
        self._update_scale()
        factor, mean = float(self.labels.factor[0]), float(self.labels.mean[0])
        moved = abs(factor * self.y_scale - 1) > STILL or abs(mean - self.y_mean) > STILL * self.y_scale
        if moved and not self.loss.classifies:
            old, self.y_mean = self.y_scale, mean
            self.y_scale = 1 / factor if factor else old
            self._convert(old / self.y_scale)
        self.due = min(WAITING, max(1, self.learnt // 8))
        self._placed = None

    def _update_scale(self) -> None:
        """With the samples that wait."""
        if self.waiting:
            with np.errstate(all="ignore"):  # values that are left out overflow
                places = (self.learnt + np.arange(self.waiting)) % WAITING
                self.inputs.update(self.rows[places])
                self.labels.update(self.ys[places, None])
                self._use_scale()
        self.learnt += self.waiting
        self.waiting = 0

    def _convert(self, ratio: float) -> None:
        kept = self._keep()
        if ratio != 1 and kept is not None and self._device is not None:
            theta, lam = kept.theta * np.float32(ratio), kept.lam
            self._device.resume(DeviceState(theta, lam, kept.L, kept.q), [])


def _restored(settings: Paper, keys: Sequence[Hashable], state: Mapping[str, Any]) -> SinglePaper:
    made = SinglePaper(settings, keys)
    made.restore(state)
    return made


def digest(key: Hashable, seed: int = 0) -> bytes:
    """Bytes that identify an input's key in every process; `hash` of a text differs between processes."""
    return hashlib.sha256(f"{seed}:{type(key).__name__}:{key}".encode()).digest()


def _frequencies(spec: KernelSpec, key: Hashable) -> Array:
    """An input's frequencies for every kernel, the same whatever the order in which inputs come. (P, D)"""
    rng = np.random.default_rng(int.from_bytes(digest(key, spec.seed), "big"))
    sigma = np.sqrt(spec.sigma2 if spec.read_as == "bandwidth" else 1 / np.asarray(spec.sigma2))
    return np.asarray(rng.standard_normal((len(sigma), spec.D)) / sigma[:, None])


def _predict_with(device: engines.Device) -> Callable[[Array], float]:
    """The device's prediction for a scaled sample, which is filled in place if need be."""
    if device.native is None:  # NumPy does not check whether a sample is finite
        return lambda z: device.predict(fill(z).astype(np.float32))
    predict = device.predict

    def filled(z: Array) -> float:
        try:
            return predict(z)
        except ValueError:
            return predict(fill(z))

    return filled


def _learn_with(device: engines.Device) -> Callable[[Array, float], object]:
    """The device's step for a scaled sample, which is filled in place if need be."""
    if device.native is None:
        return lambda z, y: device.alone(fill(z).astype(np.float32), y)
    alone = device.native.alone

    def filled(z: Array, y: float) -> None:
        try:
            alone(z, y)
        except ValueError:
            alone(fill(z), y)

    return filled
