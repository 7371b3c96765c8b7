"""One device without neighbours, as the facades use it: any scale, missing values, new features.

    model = make("first-order", "squared", seed=0)
    model.grow(["temperature", "hour"])   # one column for each key, at any time
    model.predict(x), model.learn(x, y)   # x (d,) may hold NaN: missing

Presets: "first-order" is `Learner`'s step over 17 Gaussian kernels; "auto" is `domkl.auto.Model`.
"""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from . import _checks, engines, kernels, losses
from ._types import Array
from .auto import Model
from .core import Rates
from .engines.devices import Kept
from .errors import InputError

PRESETS = ("auto", "first-order")
#: What the facades do unless told otherwise.
DEFAULT = "first-order"
#: The standard deviation that inputs get: with it the paper's bandwidths lie on both sides of typical
#: distances for one input as well as for a hundred.
SPREAD = 0.3
#: At most so many samples wait until the scale takes them in.
WAITING = 256
#: A change of the labels' mean or spread that is not worth a new unit, in spreads.
STILL = 0.01
#: Where a scaled input is cut off, and the inputs that say nothing about a scale.
FAR, HUGE = 1e6, 1e150
#: Beyond, exp() says nothing more.
SURE = 30.0

Label = TypeVar("Label", bound=Hashable)


class Settings(NamedTuple):
    """What a facade's user can choose."""

    preset: str = DEFAULT
    D: int = 50
    eta: float = 4.0
    eta_g: float = 1.0
    seed: int = 0
    size: int = 1700


class Single(Protocol):
    """A model of one number, from samples (d,) that may hold NaN."""

    def predict(self, x: Array) -> float:
        """The number at x; for the logistic loss, the score."""

    def learn(self, x: Array, y: float) -> None:
        """Take in a sample; an x that is the very array last asked about must still hold the same."""

    def grow(self, keys: Sequence[Hashable]) -> None:
        """New columns, after those there are."""

    def ask(self, x: dict[Any, Any]) -> float | None:
        """`predict` for values by key; None where it needs them as an array."""

    def tell(self, x: dict[Any, Any], y: float) -> bool:
        """`learn` for values by key; False, and nothing is learnt, where it needs them as an array."""


def make(settings: Settings, loss: str) -> Single:
    """The model of a preset, without columns yet."""
    if _checks.one_of("preset", settings.preset, PRESETS) == "auto":
        return Auto(settings, loss)
    return FirstOrder(settings, loss)


class Auto:
    """`domkl.auto.Model`, which needs the number of its columns."""

    def __init__(self, settings: Settings, loss: str) -> None:
        self.d = 0
        self.model: Model | None = None
        self.settings, self.loss = settings, loss

    def predict(self, x: Array) -> float:
        found = 0.0 if self.model is None else self.model.predict(_known(x))
        return _score(found) if self.loss == "logistic" else found

    def learn(self, x: Array, y: float) -> None:
        if self.model is not None:
            self.model.learn(_known(x), y)

    def ask(self, x: dict[Any, Any]) -> float | None:
        return None

    def tell(self, x: dict[Any, Any], y: float) -> bool:
        return False

    def grow(self, keys: Sequence[Hashable]) -> None:
        self.d += len(keys)
        if self.model is not None:
            self.model.grow(self.d)
        elif self.d:
            self.model = Model(self.d, loss=self.loss, seed=self.settings.seed, size=self.settings.size)


def _score(expected: float) -> float:
    """The log of the odds, from 2 P(y = +1) - 1."""
    return (
        max(-SURE, min(SURE, 2 * math.atanh(expected)))
        if abs(expected) < 1
        else math.copysign(SURE, expected)
    )


def _known(x: Array) -> Array:
    """What is infinite says as little as what is missing."""
    return np.where(np.isfinite(x), x, np.nan)


class Scale:
    """Mean and spread of columns, from blocks with gaps."""

    def __init__(self) -> None:
        self.n = self.mean = self.squares = np.zeros(0)

    def grow(self, count: int) -> None:
        more = np.zeros(count)
        self.n, self.mean = np.append(self.n, more), np.append(self.mean, more)
        self.squares = np.append(self.squares, more)

    def update(self, block: Array) -> None:
        """Chan's rule for merging moments. (k, d)"""
        seen = np.abs(block) < HUGE  # not so NaN
        k = seen.sum(0)
        mean = np.where(seen, block, 0).sum(0) / np.maximum(k, 1)
        apart, n = mean - self.mean, np.maximum(self.n + k, 1)
        self.squares = self.squares + (np.where(seen, block - mean, 0) ** 2).sum(0)
        self.squares += apart * apart * self.n * k / n
        self.mean = self.mean + apart * k / n
        self.n = self.n + k

    @property
    def factor(self) -> Array:
        """What a column is multiplied with to get deviation 1; 0 where nothing varies. (d,)"""
        spread = np.sqrt(self.squares / np.maximum(self.n, 1))
        varies = (spread > 1e-9 * np.abs(self.mean)) & (spread > 1e-300) & np.isfinite(spread)
        return np.where(varies, 1 / np.where(varies, spread, 1), 0.0)


class FirstOrder:
    """The local step of a learner without neighbours, on inputs and labels scaled as they come.

    It computes in float32: half the time, and the step is far coarser than the rounding.
    """

    _asked: Array | None

    def __init__(self, settings: Settings, loss: str) -> None:
        self.rates = Rates(rho=1.0, eta=settings.eta, eta_g=settings.eta_g)
        self.loss, self.seed = losses.get(loss), _checks.count("seed", settings.seed, least=0)
        self.V = np.zeros((len(kernels.PAPER_SIGMA2), _checks.count("D", settings.D), 0))
        self.inputs, self.labels, self.keys = Scale(), Scale(), list[Hashable]()
        self.labels.grow(1)
        self.y_mean, self.y_scale = 0.0, 1.0
        self.learnt = self.waiting = 0
        self.due = 1
        self._widen()

    def grow(self, keys: Sequence[Hashable]) -> None:
        kept = self._keep()
        columns = [_column(self.seed, key, self.V.shape[1]) for key in keys]
        self.V = np.concatenate([self.V, *(column[..., None] for column in columns)], axis=2)
        self._take_in()
        self.inputs.grow(len(keys))
        self.keys += keys
        self._widen()
        self._start(kept)

    def predict(self, x: Array) -> float:
        self._place(x)
        return self.y_mean + self.y_scale * self._ask(self._z)

    def learn(self, x: Array, y: float) -> None:
        if not math.isfinite(y):
            raise InputError(f"y is {y}; expected a finite number; leave such samples out")
        self._rows[self.waiting], self._ys[self.waiting] = x, y
        self.waiting += 1
        if self.waiting == self.due:
            self._rescale()
        if x is not self._asked:
            self._place(x)
        self._asked = None
        self._tell(self._z, (y - self.y_mean) / self.y_scale)

    def ask(self, x: dict[Any, Any]) -> float | None:
        f = self._native.ask(x) if self._native else None
        return None if f is None else self.y_mean + self.y_scale * f

    def tell(self, x: dict[Any, Any], y: float) -> bool:
        i = self.waiting
        if not self._native or i + 1 == self.due:
            return False
        try:
            if not self._native.tell(x, (y - self.y_mean) / self.y_scale, i):
                return False
        except (TypeError, ValueError):  # `learn` says why
            return False
        self._ys[i] = y
        self.waiting = i + 1
        return True

    def __getstate__(self) -> dict[str, Any]:
        """The device itself is code; what it knows is arrays."""
        hidden = ("_ask", "_tell", "_device", "_native", "_z", "_asked", "_rows", "_ys", "_mean", "_factor")
        state = {name: value for name, value in vars(self).items() if name not in hidden}
        waiting = self._rows[: self.waiting].copy(), self._ys[: self.waiting].copy()
        return {**state, "kept": self._keep(), "rows": waiting}

    def __setstate__(self, state: dict[str, Any]) -> None:
        kept, (rows, ys) = state.pop("kept"), state.pop("rows")
        vars(self).update(state)
        self._widen()
        self._rows[: len(rows)], self._ys[: len(ys)] = rows, ys
        self._start(kept)

    def _widen(self) -> None:
        """Room for as many columns as there are."""
        d = self.V.shape[2]
        self._rows, self._ys, self._z = np.empty((WAITING, d)), np.empty(WAITING), np.zeros(d)
        self._asked = None
        self._ask: Callable[[Array], float] = lambda z: 0.0
        self._tell: Callable[[Array, float], object] = lambda z, y: None
        self._device: engines.Device | None = None
        self._native: Any = None
        self._moments()

    def _moments(self) -> None:
        self._mean, self._factor = self.inputs.mean, SPREAD * self.inputs.factor
        if self._native:
            self._native.columns(tuple(self.keys), self._mean, self._factor, self._rows)

    def _start(self, kept: Kept | None) -> None:
        if not self.V.shape[2]:
            return
        V = kernels.check(self.V, dtype=np.float32)
        self._device = engines.make_device("auto", V, 0, self.rates, self.loss, "local")
        if kept is not None:
            self._device.resume(kept, [])
        self._ask, self._tell = _asked(self._device), _told(self._device)
        self._native = getattr(self._device, "device", None)
        self._moments()

    def _keep(self) -> Kept | None:
        return None if self._device is None else self._device.keep()

    def _place(self, x: Array) -> None:
        """x as the kernels want it, in z."""
        z = self._z
        np.subtract(x, self._mean, z)
        np.multiply(z, self._factor, z)
        self._asked = x

    def _rescale(self) -> None:
        """Take in what waits; the estimate goes on in the labels' new unit where that has changed."""
        self._take_in()
        factor, mean = float(self.labels.factor[0]), float(self.labels.mean[0])
        moved = abs(factor * self.y_scale - 1) > STILL or abs(mean - self.y_mean) > STILL * self.y_scale
        if moved and not self.loss.classifies:
            old, self.y_mean = self.y_scale, mean
            self.y_scale = 1 / factor if factor else old
            self._convert(old / self.y_scale)
        self.due = min(WAITING, max(1, self.learnt // 8))
        self._asked = None

    def _take_in(self) -> None:
        if self.waiting:
            with np.errstate(all="ignore"):  # values that are left out overflow
                self.inputs.update(self._rows[: self.waiting])
                self.labels.update(self._ys[: self.waiting, None])
                self._moments()
        self.learnt += self.waiting
        self.waiting = 0

    def _convert(self, ratio: float) -> None:
        kept = self._keep()
        if ratio != 1 and kept is not None and self._device is not None:
            theta, lam = kept.theta * np.float32(ratio), kept.lam
            self._device.resume(Kept(theta, lam, kept.L, kept.q), [])


def _asked(device: engines.Device) -> Callable[[Array], float]:
    predict = device.predict

    def ask(z: Array) -> float:
        try:
            return predict(z)
        except ValueError:
            return predict(_filled(z))

    return predict_numpy(device) if isinstance(device, engines.ArrayDevice) else ask


def predict_numpy(device: engines.ArrayDevice) -> Callable[[Array], float]:
    """NumPy does not look whether a sample is finite."""
    return lambda z: device.predict(_filled(z).astype(np.float32))


def _told(device: engines.Device) -> Callable[[Array, float], object]:
    if isinstance(device, engines.ArrayDevice):
        return lambda z, y: device.alone(_filled(z).astype(np.float32), y)
    alone = device.device.alone  # type: ignore[attr-defined]

    def tell(z: Array, y: float) -> None:
        try:
            alone(z, y)
        except ValueError:
            alone(_filled(z), y)

    return tell


def _filled(z: Array) -> Array:
    """In place: what is missing is the mean, what is infinite is far."""
    z[np.isnan(z)] = 0.0
    return np.clip(z, -FAR, FAR, out=z)


def _column(seed: int, key: Hashable, D: int) -> Array:
    """A key's frequencies, whatever the order in which keys came. (P, D)"""
    rng = np.random.default_rng(int.from_bytes(digest(key, seed), "big"))
    sigma = np.sqrt(kernels.PAPER_SIGMA2)
    return np.asarray(rng.standard_normal((len(sigma), D)) / sigma[:, None])


def digest(key: Hashable, seed: int = 0) -> bytes:
    """Bytes that a key has everywhere and always; `hash` of a text changes with the process."""
    return hashlib.sha256(f"{seed}:{type(key).__name__}:{key}".encode()).digest()


class OneVsRest(Generic[Label]):
    """Classes that appear as they come: one model each, and one for two."""

    def __init__(self, settings: Settings, classes: Sequence[Label] = ()) -> None:
        self.settings, self.keys = settings, list[Hashable]()
        self.classes: dict[Label, int] = {}
        self.models: list[tuple[float, Single]] = []  # sign, model
        for label in classes:
            self.add(label)

    def add(self, label: Label) -> None:
        """A class more: none of the samples so far was of it."""
        if len(self.classes) == 2:  # the second was "not the first", which its own model starts from
            sign, first = self.models[0]
            self.models.append((-sign, copy.deepcopy(first)))
        if len(self.classes) != 1:
            model = make(self.settings, "logistic")
            model.grow(self.keys)
            self.models.append((1.0, model))
        self.classes[label] = len(self.classes)

    def grow(self, keys: Sequence[Hashable]) -> None:
        """New columns."""
        self.keys += keys
        for _, model in self.models:
            model.grow(keys)

    def learn(self, x: Array, label: Label) -> None:
        """Take in a sample, perhaps of a new class."""
        if label not in self.classes:
            self.add(label)
        mine = self.classes[label]
        for k, (sign, model) in enumerate(self.models):
            model.learn(x, sign if k == mine else -sign)

    def scores(self, x: Array) -> list[float]:
        """One score a model: for two classes that of the first."""
        return [sign * model.predict(x) for sign, model in self.models]

    def probabilities(self, x: Array) -> list[float]:
        """One for each class; they sum to 1."""
        if len(self.classes) == 1:
            return [1.0]
        odds = [_logistic(score) for score in self.scores(x)]
        if len(self.classes) == 2:
            return [odds[0], 1 - odds[0]]
        total = sum(odds)
        return [one / total for one in odds]


def _logistic(score: float) -> float:
    return 1 / (1 + math.exp(-max(-SURE, min(SURE, score))))
