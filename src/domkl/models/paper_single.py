"""`domkl.Paper` on one device without neighbours: the local step over Gaussian kernels, on scaled data."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np

from .. import engines
from ..base import checks
from ..base.errors import InputError
from ..base.types import Array
from ..engines.base import DeviceState
from ..learning import first_order, kernels
from ..learning.explain import Function, Usual
from ..learning.fields import fields_of, set_fields
from ..learning.first_order import Rates
from ..learning.losses import probability
from .handed import FAR, HandedPaper
from .settings import MOST_FREQUENCIES, KernelSpec, Paper

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


class Scale:
    """Running mean and spread of columns, updated by blocks that may hold NaN."""

    FIELDS: ClassVar = ("n", "mean", "squares")

    def __init__(self) -> None:
        self.n = self.mean = self.squares = np.zeros(0)

    def grow(self, count: int) -> None:
        """Add columns without values."""
        more = np.zeros(count)
        self.n, self.mean = np.append(self.n, more), np.append(self.mean, more)
        self.squares = np.append(self.squares, more)

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


class SinglePaper:
    """The paper's local step of a device without neighbours; inputs and labels are scaled as they come.

    It computes in float32: half the time, and the step is far coarser than the rounding.
    """

    passes: ClassVar[int] = 5  # its step is small: once through a table is not enough
    check = staticmethod(check)
    _placed: Array | None

    m = 1
    has_targets: ClassVar[bool] = False

    def __init__(self, settings: Paper, m: int = 1) -> None:
        settings.refuse_targets(m)
        check(settings)
        assert settings.kernels is None or isinstance(settings.kernels, KernelSpec)
        self.spec = settings.kernels or KernelSpec()
        self.rates, self.loss = rates(settings), settings.loss_function
        self.V = np.zeros((len(self.spec.sigma2), self.spec.D, 0))
        self.inputs, self.labels, self.keys = Scale(), Scale(), list[Hashable]()
        self.labels.grow(1)
        self.y_mean, self.y_scale = 0.0, 1.0
        self.learnt = self.waiting = 0
        self.due = 1
        self._make_room()

    def grow_targets(self, m: int) -> None:
        """Refused: it predicts one target."""
        Paper.refuse_targets(m)

    def grow(self, keys: Sequence[Hashable]) -> None:
        """Add inputs after those there are; the keys identify them."""
        kept = self._keep()
        self.V = np.concatenate([self.V, *(_frequencies(self.spec, key)[..., None] for key in keys)], axis=2)
        self._update_scale()
        self.inputs.grow(len(keys))
        self.keys += keys
        self._make_room()
        self._start(kept)

    @property
    def n(self) -> int:
        """How many samples were learnt."""
        return self.learnt + self.waiting

    @property
    def d(self) -> int:
        """How many inputs a sample has."""
        return len(self.keys)

    def predict(self, x: Array) -> float:
        """The target at x; for the logistic loss 2 P(y = +1) - 1."""
        found = self.score(x)
        return 2 * probability(found) - 1 if self.loss.classifies else found

    def score(self, x: Array) -> float:
        """The target at x; for the logistic loss the log-odds of y = +1."""
        self._place(x)
        return self.y_mean + self.y_scale * self._predict(self._z)

    def learn(self, x: Array, y: float, weight: float = 1.0) -> None:
        """Learn a sample; an x that is the array last predicted must not have changed since."""
        if weight != 1:
            raise InputError(f"a sample weighs {weight:g}; expected 1 with domkl.Paper; use domkl.Auto")
        if not abs(y) <= checks.LARGEST:
            checks.finite("y", checks.floats("y", y))
        self._rows[self.waiting], self._ys[self.waiting] = x, y
        self.waiting += 1
        if self.waiting == self.due:
            self._rescale()
        if x is not self._placed:
            self._place(x)
        self._placed = None
        self._learn(self._z, self._scaled(y))

    def _scaled(self, y: float) -> float:
        """A label as the device learns it, cut off where the squares of float32 would overflow."""
        return max(-FARTHEST, min(FARTHEST, (y - self.y_mean) / self.y_scale))

    def handed(self, names: tuple[str, ...] = ()) -> HandedPaper:
        """What it has learnt so far, with the scale of now."""
        kept = self._keep()
        assert kept is not None  # there are samples
        arrays = self.V, kept.theta, kept.L, kept.q, self._mean, self._factor
        return HandedPaper(*arrays, self.y_mean, self.y_scale, self.loss.name, self.rates, names)

    def as_function(self, row: int = 0, target: int = 0) -> tuple[Function, Usual]:
        """What it predicts, as a function of many samples, and usual values of its inputs: normal ones."""
        kept = self._keep()
        assert kept is not None  # there are samples
        spread = np.sqrt(self.inputs.squares / np.maximum(self.inputs.n, 1))
        mean, normal = self.inputs.mean.copy(), NormalDist()

        def predict(X: Array) -> Array:
            with np.errstate(all="ignore"):  # `fill` replaces what overflows
                z = fill((X - self._mean) * self._factor)
            f = first_order.dot(kept.theta, first_order.features(self.V, z)) @ kept.q
            found = self.y_mean + self.y_scale * np.asarray(f, np.float64)
            return np.asarray(np.tanh(found / 2) if self.loss.classifies else found)

        def usual(parts: Array) -> Array:
            z = [normal.inv_cdf(part) for part in np.clip(parts, 1e-6, 1 - 1e-6).ravel()]
            return np.asarray(mean + spread * np.reshape(z, parts.shape))

        return predict, usual

    def predict_dict(self, x: dict[Any, Any]) -> float | None:
        """`predict` for values by key, where that is fast; None where it needs an array."""
        f = self._native.ask(x) if self._native else None
        return None if f is None else self.y_mean + self.y_scale * f

    def learn_dict(self, x: dict[Any, Any], y: float) -> bool:
        """`learn` for values by key, where that is fast; False, and nothing learnt, where it is not."""
        i = self.waiting
        if not self._native or i + 1 == self.due:
            return False
        try:
            scaled = (y - self.y_mean) / self.y_scale
            if not (-FARTHEST <= scaled <= FARTHEST and self._native.tell(x, scaled, i)):
                return False
        except (TypeError, ValueError):  # `learn` raises the error in words
            return False
        self._ys[i] = y
        self.waiting = i + 1
        return True

    def state(self) -> dict[str, Any]:
        """Everything it knows, by name; there must be inputs, which are numbered."""
        kept, n = self._keep(), self.waiting
        assert kept is not None
        return {
            **{name: getattr(self, name) for name in ("y_mean", "y_scale", "learnt", "waiting", "due")},
            "inputs": fields_of(self.inputs),
            "labels": fields_of(self.labels),
            "device": {name: getattr(kept, name) for name in ("theta", "lam", "L", "q")},
            "rows": self._rows[:n].copy(),
            "ys": self._ys[:n].copy(),
        }

    def restore(self, state: Mapping[str, Any], d: int) -> None:
        """Inverse of `state`, of d inputs; what cannot be such is refused with a ValueError."""
        _check_state(self.spec, state, d)
        self.grow(range(d))
        for name in ("y_mean", "y_scale", "learnt", "waiting", "due"):
            setattr(self, name, state[name])
        set_fields(self.inputs, state["inputs"])
        set_fields(self.labels, state["labels"])
        self._rows[: self.waiting], self._ys[: self.waiting] = state["rows"], state["ys"]
        blank, kept = self._keep(), state["device"]
        assert blank is not None
        theta, lam, L, q = (np.asarray(kept[name], v.dtype) for name, v in blank.arrays().items())
        self._start(DeviceState(theta, lam, L, q))

    def __getstate__(self) -> dict[str, Any]:
        """Arrays; the device, which is code, is made again from them."""
        made = (
            "_predict",
            "_learn",
            "_device",
            "_native",
            "_z",
            "_placed",
            "_rows",
            "_ys",
            "_mean",
            "_factor",
        )
        state = {name: value for name, value in vars(self).items() if name not in made}
        waiting = self._rows[: self.waiting].copy(), self._ys[: self.waiting].copy()
        return {**state, "kept": self._keep(), "rows": waiting}

    def __setstate__(self, state: dict[str, Any]) -> None:
        kept, (rows, ys) = state.pop("kept"), state.pop("rows")
        vars(self).update(state)
        self._make_room()
        self._rows[: len(rows)], self._ys[: len(ys)] = rows, ys
        self._start(kept)

    def _make_room(self) -> None:
        """Arrays for as many inputs as there are, and no device yet."""
        d = self.V.shape[2]
        self._rows, self._ys, self._z = np.empty((WAITING, d)), np.empty(WAITING), np.zeros(d)
        self._placed = None
        self._predict: Callable[[Array], float] = lambda z: 0.0
        self._learn: Callable[[Array, float], object] = lambda z, y: None
        self._device: engines.Device | None = None
        self._native: Any = None
        self._use_scale()

    def _use_scale(self) -> None:
        self._mean, self._factor = self.inputs.mean, SPREAD * self.inputs.factor
        if self._native:
            self._native.columns(tuple(self.keys), self._mean, self._factor, self._rows)

    def _start(self, kept: DeviceState | None) -> None:
        """Make the device, which continues from `kept`."""
        if not self.V.shape[2]:
            return
        V = kernels.check(self.V, dtype=np.float32)
        self._device = engines.make_device("auto", V, 0, engines.Algorithm(self.rates, self.loss, "local"))
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
                self.inputs.update(self._rows[: self.waiting])
                self.labels.update(self._ys[: self.waiting, None])
                self._use_scale()
        self.learnt += self.waiting
        self.waiting = 0

    def _convert(self, ratio: float) -> None:
        kept = self._keep()
        if ratio != 1 and kept is not None and self._device is not None:
            theta, lam = kept.theta * np.float32(ratio), kept.lam
            self._device.resume(DeviceState(theta, lam, kept.L, kept.q), [])


def _check_state(spec: KernelSpec, state: Mapping[str, Any], d: int) -> None:
    """Raise ValueError unless this is the state of `SinglePaper` with d inputs."""
    P, D, n = len(spec.sigma2), spec.D, state["waiting"]
    checks.need(P * D * d <= MOST_FREQUENCIES, f"it has {P * D * d} frequencies")
    for part, size in (("inputs", d), ("labels", 1)):
        for name in Scale.FIELDS:
            checks.array(name, state[part][name], (size,))
    for name, shape in {"theta": (P, 2 * D), "lam": (P, 2 * D), "L": (P,), "q": (P,)}.items():
        checks.array(name, state["device"][name], shape)
    checks.array("ys", state["ys"], (n,))
    rows = state["rows"]
    checks.need(isinstance(rows, np.ndarray) and rows.shape == (n, d), f"rows is not of shape {(n, d)}")
    checks.finite_or_missing("rows", rows)  # inputs may be missing
    for name in ("learnt", "waiting", "due"):
        checks.tally(name, state[name])
    checks.need(n < state["due"] <= WAITING, f"{n} samples wait")
    mean, scale = float(state["y_mean"]), float(state["y_scale"])
    checks.need(abs(mean) <= checks.LARGEST and 0 < scale <= checks.LARGEST, "its labels have no scale")


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
