"""Auto: eight concepts, one matrix, nothing to tune. This file puts them together; docs/auto.md explains.

A round of J devices, each a row of every array:

    scale -> features -> consensus, recent -> mixer with echo -> prediction
    label -> guard, memory -> echo, mixer, recent.watch -> trust.note, consensus, recent -> scale -> message
    messages -> trust -> consensus.merge -> restart, or another scale, where it is time
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...base.errors import InputError, PeerError
from ...base.types import Array, Float
from ..fields import Concept, unchanged
from ..losses import probabilities
from ..model import Around, Index, Model, Part, median
from . import explain
from .algebra import Inverse, dot, mean, where_missing
from .consensus import Consensus, Solved
from .echo import Echo
from .features import Features
from .guard import Guard
from .memory import Memory
from .mixer import Mixer
from .recent import Recent
from .scale import EXACT, Scale, Summary, within
from .trust import Trust

#: What the mixer weighs, and those that use nobody's parameters. Each mixture ends with an echo of its own.
EXPERTS = ("common", "alone", "own", "recent", "echo")
APART = EXPERTS[1:]
JUDGED = [EXPERTS.index(name) for name in ("common", "alone", "recent")]  # by `Recent.watch`


class Mixed(NamedTuple):
    """What a mixture of experts predicted, in the targets' own units; kept until the label comes."""

    y: Array  # (J, m)
    experts: Array  # (J, m, E) with the echo as the last
    before_echo: Array  # (J, m) the mixture of the others
    last: Array  # (J, m, 2) the last errors, which the echo rests on


class Prediction(NamedTuple):
    """What is known before the label."""

    x: Array  # (J, d)
    whole: Mixed
    apart: Mixed  # of the experts in APART: what the device would predict alone
    solved: Solved | None = None  # None before there is a scale
    terms: Array = np.zeros(0)  # those of `Recent`; none before there is a scale

    @property
    def y_hat(self) -> Array:
        """The prediction of each target. (J, m)"""
        return self.whole.y


class Mixture:
    """Experts weighed by `Mixer`; the last one corrects what the others say by the `Echo` of their errors."""

    def __init__(self, J: int, m: int, experts: int) -> None:
        self.mixer, self.echo = Mixer(J, m, experts), Echo(J, m)

    def predict(self, f: Array, low: Array, high: Array, scale: Scale) -> Mixed:
        """From predictions of all but the echo (J, m, E - 1) and the targets' range (J, m), in widths."""
        w = self.mixer.weights
        rest = w[..., :-1] / w[..., :-1].sum(-1, keepdims=True)
        mixed = (rest * f).sum(-1)
        echo = np.clip(mixed + self.echo.predict(), low, high)
        f = np.concatenate([f, echo[..., None]], -1)
        center, width = scale.center[..., None], scale.width[..., None]
        y = scale.unscaled((w * f).sum(-1))
        return Mixed(y, center + width * f, scale.unscaled(mixed), self.echo.last * width)

    def learn(self, y: Array, past: Mixed, scale: Scale) -> Array:
        """Labels (J, m) in widths; returns the experts' squared errors. (J, m, E)"""
        center, width = scale.center[..., None], scale.width[..., None]
        self.echo.learn(y - scale.scaled(past.before_echo), within(past.last / width))
        missed = (within((past.experts - center) / width) - y[..., None]) ** 2
        self.mixer.learn(missed, self.echo.repeats)
        return np.asarray(missed)


class AutoRows(Model):
    """J devices that learn with `Auto`; one round is `predict`, `learn`, exchange, `merge`.

    Parameters
    ----------
    settings, d, m, dtype : `domkl.Auto(...)`, inputs and targets of a sample, precision of the matrices.
    names : of the devices; summaries of samples travel under them.
    weight, degree : of all edges of each device, and their number. (J,)
    """

    judges = ("theta", "scale")
    largest = 1e6
    inverse: Callable[[int, int, Any], Inverse] = Inverse  # what makes its matrices

    def __init__(
        self,
        settings: Any,
        d: int,
        names: Sequence[Hashable] = ("",),
        weight: Array = np.zeros(1),  # noqa: B008
        degree: Array = np.zeros(1),  # noqa: B008
        dtype: Float = np.float64,
        m: int = 1,
    ) -> None:
        self.settings, self.J, self.m, self.dtype = settings, len(names), m, dtype
        self.d = settings.check_inputs(d)
        self.loss = settings.loss_function
        self._make(names, np.asarray(weight, np.float64), np.asarray(degree, np.float64))
        self.mixture, self.apart = Mixture(self.J, m, len(EXPERTS)), Mixture(self.J, m, len(APART))
        for j in range(self.J):
            self._begin_weights(j)
        self.guard = Guard(self.J, m)
        self.has_learnt = False  # in the open round
        # Whether a message came in this round, and whether one had another scale than ours.
        self.heard, self.unlike = np.zeros((2, self.J), bool)

    def _make(self, names: Sequence[Hashable], weight: Array, degree: Array) -> None:
        """What depends on the number of inputs."""
        J, d, m, size = self.J, self.d, self.m, self.settings.size
        self.scale = Scale(names, d, m, degree > 0)
        self.features = Features(d, size, self.settings.seed, self.dtype)
        self.consensus = Consensus(weight, degree, m, self.features.K, self.dtype, inverse=self.inverse)
        self.recent = Recent(J, d, m, size)
        self.trust = Trust(J, m, self.features.K, self.dtype)
        self.memory = Memory(J, d, m, self.scale.last)

    @property
    def parts(self) -> tuple[Part, ...]:
        return Part("theta", (self.m, self.features.K), "pull"), Part("scale", (), "own")

    @property
    def is_scaled(self) -> bool:
        """Whether all have a scale, by their own label or by news, so that inputs can be measured."""
        return bool((self.scale.number > 0).all())

    @property
    def is_lone(self) -> bool:
        """Whether nobody has a neighbour, so that all experts are those of a device alone."""
        return not self.consensus.degree.any()

    @property
    def restarts(self) -> npt.NDArray[np.int_]:  # type: ignore[override]
        return self.consensus.restarts

    @property
    def _bounds_labels(self) -> bool:
        return self.settings.outliers == "bound" and not self.loss.classifies

    @property
    def _weighers(self) -> tuple[Mixer | Echo, ...]:
        return self.mixture.mixer, self.mixture.echo, self.apart.mixer, self.apart.echo

    @property
    def weights(self) -> Array:
        return np.asarray(self.mixture.mixer.weights.mean(1))

    @property
    def columns(self) -> int:  # type: ignore[override]
        return self.d + self.m

    # A round

    def predict(self, x: Array) -> Prediction:
        if not self.is_scaled:
            return self._first(x)
        inputs = self.scale.inputs(x)
        solved = self.consensus.solve(self.features(inputs))
        terms = self.recent.terms(inputs.deviations)
        f = np.stack([*self.consensus.predict(solved.z), self.recent.predict(terms)], -1).astype(np.float64)
        low, high = self.scale.bounds()
        f = np.clip(f, low[..., None], high[..., None])
        whole = self.mixture.predict(f, low, high, self.scale)
        apart = whole if self.is_lone else self.apart.predict(f[..., 1:], low, high, self.scale)
        return Prediction(x, *self._probable(whole, apart), solved, terms)

    def _probable(self, whole: Mixed, apart: Mixed) -> tuple[Mixed, Mixed]:
        """Of classes, probabilities."""
        if self.loss.name == "classes":
            whole, apart = (one._replace(y=probabilities(one.y)) for one in (whole, apart))
        return whole, apart

    def _first(self, x: Array) -> Prediction:
        y, last = np.full((self.J, self.m), self.settings.start), np.zeros((self.J, self.m, 2))
        each = (np.repeat(y[..., None], len(names), -1) for names in (EXPERTS, APART))
        return Prediction(x, *self._probable(*(Mixed(y, experts, y, last) for experts in each)))

    def learn(
        self, prediction: Prediction, y: Array, earlier: Prediction | None = None, weight: Array | None = None
    ) -> dict[str, Array]:
        y = np.asarray(y, np.float64)
        past, solved = prediction if earlier is None else earlier, prediction.solved
        weight = np.ones(self.J) if weight is None else weight
        y = np.where(weight[:, None] > 0, y, np.nan)
        missing = where_missing(y)
        if missing is not None:
            weight = weight * self._is_enough(missing)
            y = np.where(missing, past.whole.y, y)
        if solved is not None and self._bounds_labels:
            y = self.guard.bound(y, past.whole.y, missing)
        known = y if missing is None else np.where(missing, np.nan, y)
        self.memory.add(prediction.x, np.where(weight[:, None] > 0, y, known), weight)
        self.scale.note_targets(known)
        if solved is not None:
            missed = self._judge(past, self.scale.scaled(y), missing)
            known = self.scale.scaled(known)
            self.trust.note(solved.z, known, missed[..., EXPERTS.index("alone")])
            self.consensus.learn(solved, known, 2 * self.mixture.echo.weight * weight)
            self.recent.learn(prediction.terms, known, weight)
        self.scale.publish(self.memory.count, self.memory.X, self.memory.Y)
        self.has_learnt = True
        return self.message()

    def _is_enough(self, missing: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Whether rows (J,) have a label, and of each target that is missing had one before."""
        never = self.scale.least > self.scale.most
        return np.asarray(~(missing.all(1) | (missing & never).any(1)))

    def rest(self) -> dict[str, Array]:
        if self.is_scaled:
            self.consensus.rest()
        return self.message()

    def message(self) -> dict[str, Array]:
        return {"theta": self.consensus.theta.copy(), "scale": self.scale.number.copy()}

    def _judge(self, past: Prediction, y: Array, missing: npt.NDArray[np.bool_] | None) -> Array:
        """Weigh the experts by what they predicted, and note errors for the restart; none where a label is
        missing. Returns their squared errors. (J, m, E)"""
        with unchanged(missing, self.recent, *self._weighers):
            missed = self.mixture.learn(y, past.whole, self.scale)
            if not self.is_lone and past.apart.experts.shape[-1] == len(APART):  # else it was lone then
                self.apart.learn(y, past.apart, self.scale)
            total, parts = (self.scale.scaled(past.whole.y) - y) ** 2, missed[..., JUDGED].swapaxes(1, 2)
            each = None if missing is None else missing[:, None]
            self.recent.watch(mean(total, missing), mean(parts, each))
        return missed

    def kept(self, prediction: Prediction) -> list[Array]:
        return [prediction.x, *prediction.whole, *prediction.apart]

    def restored(self, kept: Sequence[Array]) -> Prediction:
        x, *rest = kept
        return Prediction(np.ascontiguousarray(x, np.float64), Mixed(*rest[:4]), Mixed(*rest[4:]))

    def same(self, who: list[int], sent: Mapping[str, Array]) -> npt.NDArray[np.bool_]:
        own = self.scale.number[who][:, None]
        return np.asarray((sent["scale"].reshape(own.shape[0], -1) == own) & (own > 0))

    def believes(self, who: list[int], sent: Mapping[str, Array]) -> npt.NDArray[np.bool_]:
        return self.trust.judge(who, sent["theta"], self.noted(who, sent), self.mixture.echo.repeats[who])

    def noted(self, who: list[int], sent: Mapping[str, Array]) -> npt.NDArray[np.bool_]:
        """As `same`, which is noted for `Scale.compare`."""
        alike = self.same(who, sent)
        self.heard[who] |= alike.shape[1] > 0
        self.unlike[who] |= ~alike.all(1)
        return alike

    def merge(self, incoming: Mapping[str, Any]) -> None:
        begins = np.zeros(self.J, bool)
        if self.is_scaled:
            self.consensus.merge(incoming["theta"])
            begins = self._restart() if self.has_learnt else begins  # patience counts samples
        self.has_learnt = False
        self.scale.compare(self.heard, self.unlike)
        self.heard[:] = self.unlike[:] = False
        self._rebuild_where(begins)

    def take_back(self, moves: Array) -> None:
        self.consensus.take_back(moves)

    # Changes, each decided by a device from its own errors

    def _restart(self) -> npt.NDArray[np.bool_]:
        """Restart the recent model, or give up the past, where own errors ask for it; which rows (J,) do the
        latter, and are to learn their last samples again."""
        outside = self.guard.gives_up()
        begins = self._restart_recent() if self.settings.forgetting == "auto" else np.zeros(self.J, bool)
        if begins.any():
            self.memory.forget(begins, self.recent.fade)
        if outside.any():
            self.memory.forget(outside, 2)
            self.scale.withdraw(outside)
        return np.asarray(begins | outside)

    def _restart_recent(self) -> npt.NDArray[np.bool_]:
        """Restart the recent model where errors have risen; which rows (J,) are to give up the past, because
        it has long been better than all else."""
        repeats, memory = self.mixture.echo.repeats, self.memory
        for j, n in self.recent.alarms(repeats):
            inputs, y, root = self._last(j, n)
            self.recent.teach(j, root * self.recent.terms(inputs.deviations)[0], root * y)
            memory.note_alarm(j, n)
            self.mixture.mixer.favour(j, EXPERTS.index("recent"))
            self.apart.mixer.favour(j, APART.index("recent"))
        return self.recent.gives_up(repeats) & (memory.count > self.scale.early)

    def _rebuild_where(self, begins: npt.NDArray[np.bool_]) -> None:
        """Take a new scale where it is time; there, and where the past was given up, learn samples again."""
        memory, before, had = self.memory, self.scale.width.copy(), self.scale.number > 0
        taken = self.scale.take(memory.useful, memory.X, memory.Y, begins)
        rows = np.flatnonzero(taken)
        if len(rows):
            factor = np.where(had[rows, None], before[rows] / self.scale.width[rows], 1.0)
            for concept in self._weighers:
                concept.rescale(rows, factor)
            self.recent.rescale(rows, (factor**2).mean(-1))
            far = self.scale.fits**2  # errors in a scale so unlike the new one say nothing
            for j in rows[((factor < far) | (factor > 1 / far)).any(-1)].tolist():
                self._forget_errors(j)
        for j in np.flatnonzero(taken | begins).tolist():
            self._rebuild(j, int(memory.useful[j]))

    def _last(self, j: int, n: int) -> tuple[Any, Array, Array]:
        """The last n samples of a row, measured: inputs (1, n, d), targets (n, m), and what to multiply them
        with so that they weigh as they should (n, 1)."""
        x, y = self.memory.last(j, n)
        rows, root = slice(j, j + 1), np.sqrt(self.memory.weights(j, n))[:, None]
        return self.scale.inputs(x, rows), np.where(root > 0, self.scale.scaled(y[None], rows)[0], 0), root

    def _rebuild(self, j: int, n: int) -> None:
        """Let a row know its last n samples only, in its scale; its edges start again."""
        if n == 0:  # it knows what its neighbours do, and nothing else
            self.mixture.mixer.favour(j, EXPERTS.index("common"), part=0.99)
        if self._bounds_labels:
            self._recheck(j, n)
        inputs, y, root = self._last(j, n)
        Z, learnt = self.features(inputs)[0], root[:, 0] > 0
        own = self.consensus.rebuild(j, root * Z, root * y, 2 * float(self.mixture.echo.weight[j]))
        self.trust.renew(j, Z[learnt], y[learnt], own[learnt] / root[learnt])
        self.recent.teach(j, root * self.recent.terms(inputs.deviations)[0], root * y)
        self.memory.keep(j, len(y))

    def _recheck(self, j: int, n: int) -> None:
        """Bound wrong labels among a row's last n; errors noted with them say nothing while they are few."""
        labels = self.memory.last(j, n)[1].copy()
        known = ~np.isnan(labels).any(1)
        if not known.any():
            return
        before = labels[known]
        labels[known] = self.guard.recheck(j, before)
        if self.memory.count[j] <= self.scale.early and (before != labels[known]).any():
            self._forget_errors(j)
        self.memory.correct(j, labels)

    def _forget_errors(self, j: int) -> None:
        """What a row has noted of errors says nothing any more."""
        for concept in self._weighers:
            concept.reset(j)
        self._begin_weights(j)
        self.recent.reset(j)

    def _begin_weights(self, j: int, first: int = 0) -> None:
        """Before errors are known the common function is likeliest, as it rests on everybody's samples; of
        those that never listen the own one is most like it."""
        self.mixture.mixer.favour(j, EXPERTS.index("common"), first)
        self.apart.mixer.favour(j, APART.index("own"), first)

    # News of scales

    def news(self) -> list[dict[Hashable, Summary]]:
        return self.scale.outgoing()

    def hear(self, row: int, news: Mapping[Hashable, Summary]) -> None:
        self.scale.hear(row, news)

    def check(self, message: Mapping[str, Array], news: Mapping[Hashable, Any]) -> None:
        number = float(message["scale"][0])
        if not (0 <= number <= EXACT and number == int(number)):
            raise PeerError(f"a message has scale {number}; expected a whole number; fix that learner")
        if len(news) > self.scale.limit:
            raise PeerError(f"a message has {len(news)} summaries; expected fewer; fix that learner")
        try:
            for one in news.values():
                Summary.check(one, self.columns, self.scale.last)
        except InputError as error:
            raise PeerError(f"{error}; fix that learner") from None

    def connect(self, around: Around) -> None:
        self.scale.connect(around.names, around.near)
        self.reweigh(around.weight, around.degree)

    def adopt(self, messages: Sequence[Mapping[str, Array]], share: float) -> None:
        """Towards those with our scale."""
        theta = self.consensus.theta
        alike = [message["theta"] for message in messages if self.same([0], message).all()]
        if self.is_scaled and alike:
            self.consensus.adopt(theta + share * (median(theta, alike) - theta))

    def reweigh(self, weight: Array, degree: Array) -> None:
        """Edges have other weights and numbers (J,) from now on."""
        weight, degree = np.asarray(weight, np.float64), np.asarray(degree, np.float64)
        self.scale.link(degree > 0)
        if self.scale.number.any():
            self.consensus.reweigh(weight, degree)
        else:  # nothing is learnt yet
            self.consensus.begin(weight, degree)

    def grow(self, d: int) -> None:
        """Samples have d inputs from now on, the new ones last; the last samples are learnt again."""
        if d == self.d:
            return
        if d < self.d or not self.is_lone:
            raise InputError(f"inputs are {d}; expected {self.d}, as neighbours have; begin again")
        memory, had = self.memory, self.is_scaled
        self.settings.check_inputs(d)
        names, before, self.d = self.scale.names, self.consensus, d
        self._make(names, before.weight, before.degree)
        self.memory = memory
        memory.widen(d)
        if had:
            self.scale.note_targets(np.fmin.reduce(memory.Y, 1))
            self.scale.note_targets(np.fmax.reduce(memory.Y, 1))
            self.scale.publish(memory.count, memory.X, memory.Y)
            self._rebuild_where(np.ones(self.J, bool))

    def grow_targets(self, m: int) -> None:
        """Predict m targets from now on, the new ones last, which were 0; of a model without neighbours."""
        for concept in self._concepts().values():
            concept.widen_targets(m)
        for j in range(self.J):
            self._begin_weights(j, self.m)
        self.m = m

    def keep_sign(self, k: int) -> None:
        """Of two classes, a target each, keep one alone, as labels of -1 and 1 are learnt; and no sample."""
        for concept in self._concepts().values():
            concept.keep_target(k)
        self.scale.as_signs()
        self.m = 1
        self.drop_samples()

    def drop_samples(self) -> None:
        """Keep what was learnt and the scale for good, and no sample: for a file that is handed over."""
        self.trust.reset(slice(None))
        self.memory = Memory(self.J, self.d, self.m, self.scale.last)
        self.scale.keep()

    # What it shows

    def as_function(self, row: int, target: int = 0) -> Any:
        samples = self.memory.samples(row)
        return (explain.function(self, row, target), samples) if self.is_scaled and len(samples) else None

    def alone(self, prediction: Prediction) -> Array:
        return prediction.apart.y

    def models(self, prediction: Prediction) -> Array:
        return prediction.whole.experts

    def gaps(self, prediction: Prediction, rows: Index, theirs: Mapping[str, Array]) -> Array:
        """Of the common function; learners on another scale count as alike. (J, m, 1)"""
        found = np.zeros((self.J, self.m))
        if prediction.solved is not None:
            z = prediction.solved.z
            apart = dot(z[:, None], self.consensus.theta)[rows] - dot(z[rows][:, None], theirs["theta"])
            same = self.scale.number[rows] == theirs["scale"]
            np.add.at(found, rows[same], apart[same])
        return (found * self.scale.width)[..., None]

    @property
    def parameters(self) -> Any:
        """What neighbours agree on; None before there is a scale."""
        if not self.is_scaled:
            return None
        theta, lam = self.consensus.theta.copy(), self.consensus.lam.copy()
        return SimpleNamespace(theta=theta, lam=lam, L=np.zeros((self.J, 0)))

    def _concepts(self) -> dict[str, Concept]:
        return {
            "scale": self.scale,
            "consensus": self.consensus,
            "inverse": self.consensus.Q,
            "recent": self.recent,
            "trust": self.trust,
            "memory": self.memory,
            "guard": self.guard,
            "mixture.mixer": self.mixture.mixer,
            "mixture.echo": self.mixture.echo,
            "apart.mixer": self.apart.mixer,
            "apart.echo": self.apart.echo,
        }

    # State

    def state(self) -> dict[str, Any]:
        rows = {name.replace(".", "_"): concept.state() for name, concept in self._concepts().items()}
        return {"inputs": self.d, "targets": self.m, **rows}

    def restore(self, state: Mapping[str, Any]) -> None:
        for name, concept in self._concepts().items():
            concept.restore(state[name.replace(".", "_")])
        self.consensus.prove()
        self.scale.link(self.consensus.degree > 0)
