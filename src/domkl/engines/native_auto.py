"""`Auto` with its round in C++, in place on the arrays of its concepts; what is rare is the NumPy form's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ..base.types import Array
from ..exchange.network import Network
from ..learning.auto.algebra import Inverse
from ..learning.auto.consensus import Solved
from ..learning.auto.model import APART, EXPERTS, AutoRows, Mixed, Prediction
from ..learning.model import Predictions
from ._native import _engine


class Matrices(Inverse):
    """As `Inverse`, in the extension, which stores one half of each matrix."""

    def __init__(self, J: int, K: int, dtype: Any) -> None:
        self.sizes, self.dtype = {"J": J, "K": K, "w": self.WAITING}, np.dtype(dtype)
        make = _engine.Inverses64 if self.dtype == np.float64 else _engine.Inverses32
        self.many = make(J, K, isa=_engine.best())

    def begin(self, tau: Array) -> None:
        self.many.diagonal(np.ascontiguousarray(1 / tau, self.dtype))

    def put(self, row: int, matrix: Array) -> None:
        self.many.put(row, np.ascontiguousarray((matrix + matrix.T) / 2, self.dtype))

    def whole(self, row: int) -> Array:
        base, terms = self._part(row)
        return np.asarray(base - terms.T @ terms)

    def _part(self, row: int) -> tuple[Array, Array]:
        """One matrix (K, K), and the terms (n, K) that are not yet subtracted from it."""
        K = self.sizes["K"]
        half = np.empty(K * (K + 1) // 2, self.dtype)
        terms = np.empty((self.many.waiting(), K), self.dtype)
        used = self.many.keep_one(row, half, terms)
        base, lower = np.empty((K, K), self.dtype), np.tril_indices(K)
        base[lower] = base.T[lower] = half
        return base, terms[:used]

    def times(self, B: Array) -> Array:
        return np.stack([self.whole(j) @ B[j] for j in range(len(B))])

    def lower(self, u: Array) -> None:
        for j, one in enumerate(u):
            self.put(j, self.whole(j) - np.outer(one, one))

    def state(self) -> dict[str, Array]:
        base, U, n = (np.zeros(self.shape_of(field), self.kind_of(field)) for field in self.FIELDS)
        for j in range(self.sizes["J"]):
            base[j], terms = self._part(j)
            n[j] = len(terms)
            U[j, :, : n[j]] = terms.T
        return {"base": base, "U": U, "n": n}

    def restore(self, state: Mapping[str, Any]) -> None:
        base, U, n = (self._checked(field, state.get(field.name)) for field in self.FIELDS)
        self.check_columns(U, n)
        lower = np.tril_indices(self.sizes["K"])
        for j in range(self.sizes["J"]):
            self.many.resume_one(j, base[j][lower], np.ascontiguousarray(U[j, :, : n[j]].T))

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.sizes["J"], self.sizes["K"], self.dtype, self.state())


def _restored(J: int, K: int, dtype: Any, state: Mapping[str, Any]) -> Matrices:
    made = Matrices(J, K, dtype)
    made.restore(state)
    return made


class Predicted:
    """A `Prediction` whose parts are made if somebody asks; the extension keeps what it rests on."""

    def __init__(self, rows: NativeAuto, x: Array, flat: Array) -> None:
        self.rows, self.x, self.flat, self.has_apart = rows, x, flat, not rows.is_lone
        self.y_hat = flat[: rows.J * rows.m].reshape(rows.J, rows.m)

    @cached_property
    def _mixtures(self) -> tuple[Mixed, Mixed]:
        return self.rows.mixtures(self.flat)

    @property
    def whole(self) -> Mixed:
        return self._mixtures[0]

    @property
    def apart(self) -> Mixed:
        return self._mixtures[self.has_apart]

    @property
    def solved(self) -> Solved:
        """With the features alone: the extension keeps the rest."""
        rows = self.rows
        z = np.empty((rows.J, rows.features.K), rows.dtype)
        rows.keep(self)
        rows.native.features(z)
        return Solved(z, z, z[:, None], z[:, None])


class NativeAuto(AutoRows):
    """J devices that learn with `Auto`: the same numbers as `AutoRows` to rounding, by the same steps."""

    inverse = Matrices

    def __init__(self, *given: Any, threads: int = 1, **more: Any) -> None:
        super().__init__(*given, **more)
        self.threads = min(threads, self.J)
        self._bind()

    def _bind(self) -> None:
        """Let the extension work on the arrays of now."""
        self._is_lone = not self.consensus.degree.any()
        numbers: dict[str, float] = {"J": self.J, "d": self.d, "m": self.m, "is_lone": self.is_lone}
        numbers["largest"] = self.largest
        numbers["bounds_labels"], numbers["has_classes"] = self._bounds_labels, self.loss.name == "classes"
        numbers["forgets"] = self.settings.forgetting == "auto"
        make = _engine.Round64 if np.dtype(self.dtype) == np.float64 else _engine.Round32
        concepts = {**self._concepts(), "features": self.features, **numbers}
        matrices = cast(Matrices, self.consensus.Q).many
        self.native = make(concepts, matrices, isa=_engine.best(), threads=self.threads)
        self._size = self.native.size  # of what it writes of a prediction
        self._open: Predicted | None = None  # the prediction that the extension can learn from

    @property
    def is_lone(self) -> bool:
        return self._is_lone

    @property
    def is_scaled(self) -> bool:
        return bool(self.native.is_scaled())

    # A round

    def predict(self, x: Array) -> Any:
        if not self.native.is_scaled():
            return super().predict(x)
        self._open = made = Predicted(self, x, np.empty(self._size))
        self.native.predict(x, made.flat)
        return made

    def keep(self, prediction: Predicted) -> None:
        """Let the extension hold what a prediction rests on, if another one came since."""
        if prediction is not self._open:
            self.native.predict(prediction.x, np.empty(self._size))
            self._open = prediction

    def learn(
        self, prediction: Any, y: Array, earlier: Any = None, weight: Array | None = None
    ) -> dict[str, Array]:
        if isinstance(prediction, Predicted):
            past = self._past(prediction if earlier is None else earlier)
            self._learn(prediction, y, *past, weight)
            return self.message()
        sent = super().learn(prediction, y, earlier, weight)
        self._bind()
        return sent

    def _learn(
        self, prediction: Predicted, y: Array, flat: Array, has_apart: bool, weight: Array | None = None
    ) -> None:
        self.keep(prediction)
        y = np.ascontiguousarray(y, np.float64)
        weight = weight if weight is None else np.ascontiguousarray(weight, np.float64)
        if self.native.learn(prediction.x, y, weight, flat, has_apart):
            self._publish()
        self._open, self.has_learnt = None, True

    def _publish(self) -> None:
        self.scale.publish(self.memory.count, self.memory.X, self.memory.Y)

    def _past(self, past: Predicted | Prediction) -> tuple[Array, bool]:
        """What was predicted, in one array, and whether that of a device alone was another one."""
        if isinstance(past, Predicted):
            return past.flat, past.has_apart
        flat = np.zeros(self._size)
        for to, of in zip(self.mixtures(flat), (past.whole, past.apart), strict=True):
            if to.experts.shape == of.experts.shape:
                for part, values in zip(to, of, strict=True):
                    part[:] = values
        return flat, past.apart.experts.shape[-1] == len(APART)  # else it was lone then

    def mixtures(self, flat: Array) -> tuple[Mixed, Mixed]:
        """The parts of such an array."""
        found, at, form, more = [], 0, (self.J, self.m), self.J * self.m
        for experts in (len(EXPERTS), len(APART)):
            for width in (1, experts, 1, 2):
                shape = form if width == 1 else (*form, width)
                found.append(flat[at : at + width * more].reshape(shape))
                at += width * more
        return Mixed(*found[:4]), Mixed(*found[4:])

    def believes(self, who: list[int], sent: Mapping[str, Array]) -> npt.NDArray[np.bool_]:
        alike = self.noted(who, sent)
        used = np.empty(alike.shape, bool)
        theta = np.ascontiguousarray(sent["theta"], self.dtype)
        self.native.judge(np.array(who, np.int64), theta, np.ascontiguousarray(alike), used)
        return used

    def alone(self, prediction: Any) -> Array:
        if not isinstance(prediction, Predicted) or not prediction.has_apart:
            return super().alone(prediction)
        n = self.J * self.m
        whole = n * (len(EXPERTS) + 4)
        return prediction.flat[whole : whole + n].reshape(self.J, self.m)

    def models(self, prediction: Any) -> Array:
        if not isinstance(prediction, Predicted):
            return super().models(prediction)
        n, experts = self.J * self.m, len(EXPERTS)
        return prediction.flat[n : n * (1 + experts)].reshape(self.J, self.m, experts)

    def rest(self) -> dict[str, Array]:
        self._open = None
        if self.is_scaled:
            self.native.rest()
        return self.message()

    def merge(self, incoming: Mapping[str, Any]) -> None:
        self._open = None
        if not self.is_scaled:
            return super().merge(incoming)
        pull = incoming["theta"]
        sums = (pull.near, pull.moved, pull.mean)
        near, moved, mean = (np.ascontiguousarray(part, self.dtype) for part in sums)
        moving, weight = (np.ascontiguousarray(part, np.float64) for part in (pull.moving, pull.weight))
        self._finish(self.native.merge(near, moved, mean, moving, weight, self.has_learnt))
        return None

    def _finish(self, due: int) -> None:
        """End a round as `merge` does, where something is due."""
        if not due and (self._is_lone or not self.heard.any()):
            self.has_learnt = False
            return
        begins = self._restart() if due & _engine.RESTART else np.zeros(self.J, bool)
        self.has_learnt = False
        if self.heard.any():
            self.scale.compare(self.heard, self.unlike)
            self.heard[:] = self.unlike[:] = False
        if due & _engine.TAKE or begins.any():
            self._rebuild_where(begins)

    # Rounds at once

    def learn_alone(self, prediction: Any, y: Array) -> bool:
        if not self._is_lone:
            return False
        if not isinstance(prediction, Predicted):
            super().learn(prediction, y)
            super().merge({})
            return True
        self.keep(prediction)
        self._open, self.has_learnt = None, True
        due = self.native.learn_alone(prediction.x, y, prediction.flat)
        if due & _engine.PUBLISH:
            self._publish()
            due = self.native.close()
        self._finish(due)
        return True

    def rounds(self, X: Array, y: Array, network: Network | None = None) -> Predictions | None:
        if network is None and not self.is_lone:
            return None
        x, y = (np.ascontiguousarray(part.swapaxes(0, 1), np.float64) for part in (X, y))
        found, gaps, t = np.empty((len(x), self._size)), np.zeros(y.shape), 0
        while t < len(x):
            if self._has_news(network):
                prediction = self.predict(x[t])
                found[t] = self._past(prediction)[0]
                if network is not None:
                    gaps[t] = network.gaps(self, prediction)[..., 0]
                if not self.learn_alone(prediction, y[t]):
                    self._exchange(network, self.learn(prediction, y[t]))
                t += 1
            else:
                t = self._advance(x, y, found, gaps, t, network)
        self._open = None
        return self._seen(found, gaps)

    def _has_news(self, network: Network | None) -> bool:
        """Whether the coming round is unlike others: without a scale that all neighbours have, or with news
        of one."""
        if self.is_lone or network is None:
            return not self.is_scaled
        number, near = self.scale.number, network.neighbours
        is_alike = bool((number[near.rows] == number[near.senders]).all())
        return not self.is_scaled or any(self.scale.news) or not is_alike

    def _advance(self, x: Array, y: Array, found: Array, gaps: Array, t: int, network: Any) -> int:
        """Rounds in the extension, from round t on, until something is due; then that."""
        first = t
        if not self.is_lone:
            self.native.link({"consensus": self.consensus, "largest": self.largest, **network.opened(self)})
        t, due = self.native.advance(x, y, found, gaps, t)
        self.has_learnt, is_open = True, bool(due & _engine.PUBLISH)
        if not self.is_lone:
            network.count(self, t - first - is_open)
            if t - first > is_open:
                self.scale.compare(self.consensus.degree > 0, np.zeros(self.J, bool))
        if not is_open:
            self._finish(due)
            return t
        self._publish()
        if self.is_lone:
            self._finish(self.native.close())
        else:
            self._exchange(network, self.message())
        return t

    def _exchange(self, network: Any, outgoing: Mapping[str, Array]) -> None:
        self.merge(network.exchange_round(self, outgoing))

    def _seen(self, found: Array, gaps: Array) -> Predictions:
        """What was predicted, from predictions one after the other."""
        J, m, E = self.J, self.m, len(EXPERTS)
        experts = found[:, J * m : J * m * (1 + E)].reshape(-1, J, m, E)
        apart = 0 if self.is_lone else J * m * (E + 4)
        y_hat, alone = (found[:, k : k + J * m].reshape(-1, J, m).swapaxes(0, 1) for k in (0, apart))
        return Predictions(y_hat, alone, experts.swapaxes(0, 1), gaps[..., None].swapaxes(0, 1))

    # Changes after which the extension needs the new arrays

    def reweigh(self, weight: Array, degree: Array) -> None:
        super().reweigh(weight, degree)
        self._bind()

    def adopt(self, messages: Sequence[Mapping[str, Array]], share: float) -> None:
        super().adopt(messages, share)
        self._open = None

    def grow(self, d: int) -> None:
        super().grow(d)
        self._bind()

    def grow_targets(self, m: int) -> None:
        super().grow_targets(m)
        self._bind()

    def keep_sign(self, k: int) -> None:
        super().keep_sign(k)
        self._bind()

    def drop_samples(self) -> None:
        super().drop_samples()
        self._bind()

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        self._bind()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("native", "_open")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        for part in (*self._concepts().values(), self.features):
            for name, value in vars(part).items():
                if isinstance(value, np.ndarray):  # joblib maps files, which are not to be written to
                    setattr(part, name, np.array(value))
        self._bind()
