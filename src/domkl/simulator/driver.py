"""One driver for every model: it goes through a stream by blocks of rounds, and collects what happened.

A `Stepper` advances a network by a block. `Rounds` is that of any model: round by round, through the contract
of `learning.model`. Settings whose networks an engine computes by blocks have another: `make_network`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple, Protocol, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from .. import engines
from ..base import checks
from ..base.errors import InputError
from ..base.types import Array, Float
from ..engines.base import Sums
from ..exchange.graph import Graph, GraphLike, as_graph
from ..exchange.network import Network
from ..learning import losses
from ..learning.model import Around, Model, Predictions, Watched
from ..models.settings import PLAIN, Means, Settings, as_settings, weight_names
from .results import STOP, Final, Run, RunOptions

#: A block of rounds: X (J, B, d) and y (J, B), or (J, B, m) of m targets.
Block: TypeAlias = "tuple[Array, Array]"
#: What is left of the shape of labels: nothing where there is one target, else (m,).
Targets: TypeAlias = "tuple[int, ...]"
#: More rounds than any block has.
ALL = 1 << 30


class Path(NamedTuple):
    """How learners were before every so many rounds."""

    weights: list[Array]  # (J, n) each
    gaps: list[Array]  # (J, *targets) each: squared gaps to neighbours so far


class Stepper(Protocol):
    """A network between two blocks of rounds."""

    @property
    def most_rounds(self) -> int:
        """How many rounds `advance` may take at once."""

    @property
    def sums(self) -> Sums:
        """Over the rounds so far, of each target: (J, m) and (J, m, P)."""

    @property
    def labels(self) -> Array:
        """How many labels of each target there were. (J, m)"""

    @property
    def alone(self) -> Array:
        """The sum of squared errors of who never listens; empty where that is not known. (J, m)"""

    @property
    def believed(self) -> Array:
        """As in `Run`."""

    @property
    def final(self) -> Final | None:
        """The learners themselves, where they are wanted."""

    @property
    def weights(self) -> Array:
        """Of kernels or experts, for the coming round. (J, n)"""

    @property
    def parameters(self) -> tuple[Array, Array, Array]:
        """theta, lam and L, as far as the model shows them and they are wanted."""

    def checked(self, X: Array, y: Array, first: int, is_flat: bool) -> Block:
        """A block from round `first` on, y (J, B, m), refused as a whole if it is known to be wrong; NaN is,
        where labels had no axis for targets (`is_flat`): one that is not known has to be asked for."""

    def advance(self, X: Array, y: Array, first: int) -> Watched:
        """Go through rounds."""

    def traffic(self, T: int) -> tuple[float, float]:
        """Numbers and bytes that were sent to a neighbour in each of T rounds, on average."""


def drive(model: Settings, X: Any, y: Any, graph: GraphLike, how: RunOptions) -> Run:
    """Let a network learn a stream."""
    # A model that takes raw inputs measures them before it rounds them.
    dtype = np.float64 if model.takes_raw else how.dtype
    with engines.guard(how.engine):
        if model.loss == "classes" and y is not None and np.ndim(y) == 2:
            labels = checks.finite("y", checks.floats("y", y))
            y = losses.one_hot(labels, int(labels.max(initial=0)) + 1)
        blocks, (J, T, d), targets = open_stream(X, y, dtype, how.delay)
        network, m = as_graph(graph, J), math.prod(targets)
        steps = _stepper(model, network, (d, T, m), how, np.shape(y)[:2])
        y_hat, path = _go_through(steps, blocks, (J, T, d), targets, how)
        names = tuple(weight_names(model, steps.weights.shape[-1]))
        return _run(steps, network, y_hat, path, how.every, targets, names)


def _stepper(
    model: Settings, network: Graph, sizes: tuple[int, int, int], how: RunOptions, rows: tuple[int, ...]
) -> Stepper:
    """What goes through the stream."""
    d, T, m = sizes
    if how.delays is not None:
        if not T:
            raise InputError("delay is given for each label; expected X and y as arrays, and no horizon")
        from .late import LateRounds, as_delays

        return LateRounds(model, as_delays(how.delays, (rows[0], rows[1])), network, d, T, how, m)
    if how.engine == "mpi":
        from .ranks import RankRounds

        return RankRounds(model, network, d, T, how, m)
    made: Stepper | None = model.make_network(network, d, T, how, m)
    return made or Rounds(model, network, d, T, how, m)


def _go_through(
    steps: Stepper, blocks: Iterator[Block], form: tuple[int, int, int], targets: Targets, how: RunOptions
) -> tuple[Array, Path]:
    """Every round's predictions (J, T, *targets), and how learners were every so many rounds.

    Blocks are cut into pieces that suit the stepper, the weights' path and who follows.
    """
    predictions, path, done, (J, T, d) = list[Array](), Path([], []), 0, form
    for X, y in blocks:
        checks.shape("X", X, (J, X.shape[1], d), "all blocks need the same form")
        checks.shape("y", y, (*X.shape[:2], *targets), "all blocks need the same form")
        y = y.reshape(*X.shape[:2], -1)
        X, y = steps.checked(X, y, done, not targets)
        start = 0
        while start < X.shape[1]:
            if how.every and done % how.every == 0:
                path.weights.append(steps.weights.copy())
                path.gaps.append(steps.sums.gaps.reshape(J, *targets).copy())
            until = how.every - done % how.every if how.every else ALL
            piece = slice(start, start + min(steps.most_rounds, until))
            seen = _as_given(steps.advance(X[:, piece], y[:, piece], done), targets)
            predictions.append(seen.y_hat)
            start += seen.y_hat.shape[1]
            done += seen.y_hat.shape[1]
            if how.watch is not None:
                how.watch(seen)
            if how.progress is not None and how.progress(done, T) == STOP:
                return np.concatenate(predictions, axis=1), path
    return np.concatenate(predictions, axis=1), path


def _as_given(seen: Watched, targets: Targets) -> Watched:
    """With an axis for targets where the labels had one."""
    y_hat, y, alone = (values.reshape(*values.shape[:2], *targets) for values in seen[:3])
    return seen._replace(y_hat=y_hat, y=y, alone=alone)


def _run(
    steps: Stepper,
    graph: Graph,
    y_hat: Array,
    path: Path,
    every: int,
    targets: Targets,
    names: tuple[str, ...],
) -> Run:
    T, sums, weights = y_hat.shape[1], steps.sums, steps.weights
    labels, form = np.maximum(steps.labels, 1), (graph.J, *targets)
    theta, lam, L = steps.parameters
    sent, in_bytes = steps.traffic(T)
    return Run(
        y_hat=y_hat,
        mse=(sums.squares / labels).reshape(form),
        cv=(sums.gaps / T).reshape(form),
        theta=theta,
        lam=lam,
        L=L,
        q=weights,
        kernel_mse=(sums.kernel_squares / labels[..., None]).reshape(*form, -1),
        kernel_cv=(sums.kernel_gaps / T).reshape(*form, -1),
        q_path=np.array(path.weights) if path.weights else np.empty((0, *weights.shape)),
        q_rounds=np.arange(len(path.weights)) * max(1, every),
        graph=graph,
        sent=sent,
        bytes=in_bytes,
        alone=(steps.alone / labels).reshape(form) if len(steps.alone) else steps.alone,
        believed=steps.believed,
        final=steps.final,
        cv_path=np.array(path.gaps) if path.gaps else np.empty((0, *form)),
        weight_names=names,
    )


def connected(
    settings: Any, d: int, network: Network, dtype: Float, m: int = 1, means: Means = PLAIN
) -> Model:
    """A model with a row for each learner of a graph."""
    near, J = network.neighbours, len(network.near)
    made = as_settings(settings).make(J, d, dtype, m, means)
    names = [[network.names[i] for i in others] for others in network.near]
    made.connect(Around(network.names[:J], names, near.weight, near.deg))
    return made


class Rounds:
    """Any model, round by round through its contract; samples wait for labels that come late."""

    def __init__(
        self,
        settings: Any,
        graph: Graph,
        d: int,
        T: int,
        how: RunOptions,
        m: int,
        network: Network | None = None,  # of a part of the graph; by default all of it
    ) -> None:
        self.settings, self.how, self.network = settings, how, network or Network(graph, how.exchange)
        means = Means(how.engine, how.threads, how.exchange)
        self.model = connected(settings, d, self.network, how.dtype, m, means)
        self.is_plain = network is None and not how.delay and how.exchange.is_plain
        pace = min(256, max(1, T // 200)) if self.is_plain else 1
        self.most_rounds = pace if how.is_followed else ALL
        form = (self.model.J, m)
        self.sums, self.labels, self.alone = Sums.zero(*form, 1), np.zeros(form), np.zeros(form)
        self.waiting: deque[tuple[Array, Any, Array]] = deque()
        self.learnt = 0

    @property
    def weights(self) -> Array:
        return self.model.weights

    @property
    def believed(self) -> Array:
        return self.network.believed

    @property
    def parameters(self) -> tuple[Array, Array, Array]:
        found = self.model.parameters
        if found is None:
            return np.empty((0, 0, 0)), np.empty((0, 0, 0)), np.empty((self.model.J, 0))
        keep = slice(None) if self.how.keep_state else slice(0)
        return found.theta[keep], found.lam[keep], found.L

    @property
    def final(self) -> Final | None:
        if not self.how.keep_model:
            return None
        return Final(cast(Any, self.settings), cast(Any, self.model), self.network, self.learnt)

    def traffic(self, T: int) -> tuple[float, float]:
        return self.network.sent / T, self.network.bytes / T

    def checked(self, X: Array, y: Array, first: int, is_flat: bool) -> Block:
        checks.finite_or_missing("X", X)
        if is_flat:
            checks.finite("y", y[..., 0], first)
        return X, losses.labels(self.model.loss, checks.finite_or_missing("y", y))

    def advance(self, X: Array, y: Array, first: int) -> Watched:
        weights = self.model.weights
        found = self.model.rounds(X, y, self.network) if self.is_plain else None
        if found is not None:
            self.learnt += X.shape[1]
            self._count_all(found, y)
            return Watched(found.y_hat, y, found.alone, weights, self.model)
        rounds = [self._round(X[:, t], y[:, t]) for t in range(X.shape[1])]
        y_hat, alone = (np.stack(values, axis=1) for values in zip(*rounds, strict=True))
        return Watched(y_hat, y, alone, weights, self.model)

    def _round(self, x: Array, y: Array) -> tuple[Array, Array]:
        """What is predicted, and what would be from own samples only; learn what has become known."""
        prediction = self.model.predict(x)
        alone = self._count(prediction, y)
        self.waiting.append((x, prediction, y))
        if len(self.waiting) > self.how.delay:
            sample, earlier, label = self.waiting.popleft()
            now = self.model.predict(sample) if self.how.delay else earlier
            outgoing = self.model.learn(now, label, earlier)
            self.model.merge(self.network.exchange_round(self.model, outgoing))
            self.learnt += 1
        return prediction.y_hat, alone

    def _count_all(self, found: Predictions, y: Array) -> None:
        """The same for rounds that were gone through at once."""
        known, gaps = ~np.isnan(y), found.gaps
        missed = np.where(known, found.y_hat - y, 0)
        each = np.where(known[..., None], found.models - y[..., None], 0)
        more = ((part**2).sum(1) for part in (missed, gaps.mean(-1), each, gaps))
        self.sums = Sums(*(total + part for total, part in zip(self.sums, more, strict=True)))
        self.labels = self.labels + known.sum(1)
        self.alone = self.alone + (np.where(known, found.alone - y, 0) ** 2).sum(1)

    def _count(self, prediction: Any, y: Array) -> Array:
        """Add up errors, of labels that are known, and gaps; what own samples only predicted."""
        gaps, each = self.network.gaps(self.model, prediction), self.model.models(prediction)
        known = ~np.isnan(y)
        missed = np.where(known, prediction.y_hat - y, 0)
        each = np.where(known[..., None], each - y[..., None], 0)
        found = missed**2, gaps.mean(-1) ** 2, each**2, gaps**2
        self.sums = Sums(*(total + more for total, more in zip(self.sums, found, strict=True)))
        self.labels = self.labels + known
        alone = self.model.alone(prediction)
        self.alone = self.alone + np.where(known, alone - y, 0) ** 2 if len(alone) else alone
        return alone


class Sample(NamedTuple):
    """What one learner has to learn once its label is known."""

    x: Array  # (d,)
    y: Array  # (m,)
    kept: list[Array]  # what the model needs of its prediction, one row


def learn_ready(model: Model, network: Network, ready: Sequence[deque[Sample]]) -> int:
    """Learn what each learner has ready: rounds of the network, each from the sample of every learner that
    has one left. Returns how many rounds."""
    n = 0
    while any(ready):
        rows = [queue.popleft() if queue else None for queue in ready]
        some = next(row for row in rows if row is not None)
        blank = some._replace(y=np.full_like(some.y, np.nan))
        x, y, kept = zip(*(row or blank for row in rows), strict=True)
        earlier = [np.concatenate(parts) for parts in zip(*kept, strict=True)]
        prediction = model.predict(np.stack(x))
        outgoing = model.learn(prediction, np.stack(y), model.restored(earlier) if earlier else None)
        model.merge(network.exchange_round(model, outgoing))
        n += 1
    return n


def open_stream(
    X: npt.ArrayLike | Iterable[Block], y: npt.ArrayLike | None, dtype: Float, delay: int
) -> tuple[Iterator[Block], tuple[int, int, int], tuple[int, ...]]:
    """The stream as blocks, its J, T (0 if unknown), d, and the further shape of the labels."""
    if y is None:
        blocks = _checked(iter(cast(Iterable[Block], X)), dtype)
        first = next(blocks, None)
        if first is None:
            raise InputError("X holds no block; expected blocks of rounds; give at least one")
        return chain([first], blocks), (first[0].shape[0], 0, first[0].shape[2]), first[1].shape[2:]
    whole, labels = checks.floats("X", cast(Array, X), dtype), checks.floats("y", y, dtype)
    _check_shapes(whole, labels)
    if delay >= whole.shape[1]:
        raise InputError(
            f"delay is {delay} in {whole.shape[1]} rounds, so no label is learnt; "
            "expected more rounds than delay; give more"
        )
    return iter([(whole, labels)]), (whole.shape[0], whole.shape[1], whole.shape[2]), labels.shape[2:]


def _checked(blocks: Iterator[Block], dtype: Float) -> Iterator[Block]:
    for pair in blocks:
        X, y = checks.floats("X", pair[0], dtype), checks.floats("y", pair[1], dtype)
        _check_shapes(X, y)
        yield X, y


def _check_shapes(X: Array, y: Array) -> None:
    if X.ndim != 3 or 0 in X.shape:
        raise InputError(
            f"X has shape {X.shape}; expected (J, T, d): learners, rounds, features; "
            "see domkl.datasets for splitting one table over learners"
        )
    targets = y.shape[2:3] if y.ndim == 3 and y.shape[2] else ()
    checks.shape("y", y, (*X.shape[:2], *targets), "give a label, or (m,) of them, for each sample of X")
