"""The learner without settings with one row: statistics that all need, and scales that may differ."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import engines
from ..base import checks
from ..base.errors import PeerError
from ..base.types import Array, Float
from ..exchange.combine import Neighbours, median
from ..exchange.edges import Neighbour
from ..exchange.message import Exchange, Shapes, Update
from ..exchange.network import HEADER
from ..exchange.topology import Topology, order
from ..learning.auto import AutoRows, C, rescale
from ..learning.auto import message as parts
from ..learning.auto.constants import EARLIER
from ..learning.auto.experts import NAMES
from ..learning.auto.features import Stats
from ..learning.model import Statistics
from ..learning.settings import Auto, describe
from .row import Learnt, ModelRow, digest
from .scales import NEW, headed, name_number, start_from
from .statistics import FIXED, WHOLE, StatisticsTable, is_alike, scales_in, statistics_in

#: Predictions that are kept until their labels come.
MOST_ASKED = 1000
#: Settings that each learner may choose for itself.
OWN = ("outliers", "bounds")
#: The most learners whose statistics one message may hold.
MOST_ROWS = 256
#: Scales of few neighbours that are taken before the next one of everybody's statistics.
MOST_TAKEN = 4


class AutoRow(ModelRow):
    """One device of a network of learners without settings."""

    alike = "model, inputs, dtype and payload"
    floods = True
    model: AutoRows

    def __init__(
        self,
        settings: Auto,
        inputs: int,
        exchange: Exchange,
        topology: Topology,
        engine: str,
        dtype: Float,
        lockstep: bool,
    ) -> None:
        diagonal = engines.make_inverse(engine)
        kind = checks.float_type(dtype)
        size = topology.size
        model = AutoRows(
            settings, 1, inputs, np.zeros(1), *size, dtype=kind, diagonal=diagonal, lockstep=lockstep
        )
        alike = {name: value for name, value in describe(settings).items() if name not in OWN}
        about = f"{alike} {inputs} {kind} {exchange.payload} {lockstep}"
        super().__init__(model, exchange, digest(f"{about} {C.fingerprint}"), topology)
        self.earlier = tuple(digest(f"{about} {one}") for one in EARLIER)
        self.table = StatisticsTable(topology.name)
        self.post: list[Array] = []  # statistics for the next message
        self.asked: dict[bytes, Array] = {}  # what was last predicted for an x, until its label comes
        self.behind: set[Hashable] = set()  # neighbours whose last message was on a lesser scale than ours
        self.numbers: dict[Hashable, int] = {}  # of the scale that each neighbour had in its last message
        self.taken = 0  # scales of few neighbours since the last one of everybody's statistics
        self._seen: tuple[tuple[object, ...], Any] | None = None  # the last prediction, and its round

    @property
    def resets(self) -> int:  # type: ignore[override]
        return self.model.joint.resets

    @property
    def restarts(self) -> int:  # type: ignore[override]
        return int(self.model.joint.restarts[0])

    @property
    def shapes(self) -> Shapes:
        wide, small = self.layout.sizes
        most = MOST_ROWS * (HEADER + parts.most_statistics(self.model.d + 1))
        return Shapes((1, wide), small, most)

    @property
    def weights(self) -> Array:
        return np.asarray(self.model.experts.weights()[0])

    @property
    def label_unit(self) -> tuple[float, float]:
        return float(self.model.unit.shift[0]), float(self.model.unit.factor[0])

    # Samples

    def predict(self, x: npt.ArrayLike, round: int) -> float:
        """Predict, and remember it until the label comes: experts are judged by what they predicted then."""
        found = self._predict(x)
        key = found.x.tobytes()
        self.asked.pop(key, None)
        residual = found.residual if len(found.residual) else np.zeros((1, 3))
        pairs = found.alone[0], found.halves[0]
        self.asked[key] = np.concatenate([found.own, found.mixed, residual[0], *pairs, found.experts[0]])
        if len(self.asked) > MOST_ASKED:
            del self.asked[next(iter(self.asked))]
        return float(found.y_hat[0])

    def _predict(self, x: npt.ArrayLike) -> Any:
        sample = np.asarray(checks.floats("x", x))
        now = self.model.parameters, self.model.rounds
        if self._seen is not None and self._is_seen(now, sample):
            return self._seen[1]
        self._seen = now, super()._predict(x)
        return self._seen[1]

    def _is_seen(self, now: tuple[object, ...], sample: Array) -> bool:
        assert self._seen is not None
        before, last = self._seen
        same = before[0] is now[0] and before[1] == now[1]
        return same and np.array_equal(last.x[0], sample, equal_nan=True)

    def _asked(self, prediction: Any) -> Any:
        kept = self.asked.pop(prediction.x.tobytes(), None)
        if kept is None:
            return None
        own, mixed, residual, alone, halves, experts = np.split(kept, [1, 2, 5, 7, 9])
        known = residual[None] if len(experts) == len(NAMES) else np.empty(0)
        pairs = {"alone": alone[None], "halves": halves[None]}
        return prediction._replace(own=own, mixed=mixed, experts=experts[None], residual=known, **pairs)

    def learn(self, x: npt.ArrayLike, y: float, round: int) -> Learnt:
        prediction = self._predict(x)  # before the round is known to have begun
        self.model.rounds = round
        self._seen = (self.model.parameters, round), prediction
        return super().learn(x, y, round)

    # Messages

    def _more(self) -> Array | None:
        """Statistics that the next message brings: our own of this round, and others' that are passed on."""
        rows, self.post = self.post, []
        for round, stats in self.model.statistics.items():
            own = parts.packed(stats)
            self.table.add_own(round, own)
            if self.known:
                rows.append(headed(round, name_number(self.topology.name), 1, own, self.model.d + 1))
        fits = np.cumsum([len(row) for row in rows]) <= self.shapes.more
        self.post = rows[int(fits.sum()) :]  # the next message brings the rest
        return np.concatenate(rows[: int(fits.sum())]) if rows else None

    def check(self, update: Update) -> None:
        super().check(update)
        parts.check(self._unpacked(update))
        read = 0
        for row in self._rows(update):
            head = row[:HEADER]
            if not (head == np.floor(head)).all() or not 1 <= head[3] <= parts.MOST_COUNT:
                raise PeerError("a message holds statistics with a broken head; fix that learner")
            parts.check_statistics(parts.unpacked(row[HEADER:], self.model.d + 1))
            read += len(row)
        if read != (0 if update.more is None else len(update.more)):
            raise PeerError("a message holds broken statistics; expected whole ones; fix that learner")

    def same(self, update: Update) -> bool:
        mine, theirs = self._number, self._head(update)[1]
        return mine == theirs != 0

    @property
    def _number(self) -> int:
        return 0 if self.model.scale is None else self.model.scale.number

    def _head(self, update: Update) -> tuple[float, int]:
        """Rank and number of a sender's scale."""
        message = self._unpacked(update)
        return float(message["rank"][0]), int(message["scale"][0])

    def note_statistics(self, received: Mapping[Hashable, Update]) -> None:
        """Keep statistics for scales to come; those that all need are passed on."""
        self.post += self.table.receive(self.model, self.topology.members, received)

    def _statistics(self) -> dict[int, Statistics]:
        """Statistics for the scale of this round or, where all can know it by now, of the next."""
        return self.table.take_due(self.model)

    def _rows(self, update: Update) -> Iterator[Array]:
        return statistics_in(update, self.model.d + 1)

    # Scales that differ

    def after(self, received: Mapping[Hashable, Update]) -> bool:
        """Where scales differ, the learner with the lesser one takes the other, which it is sent.

        A scale is given up where more than half of our neighbours, and at least two, have the other. Fewer
        are enough while ours may still change, if our own samples fit the other, and it is nearly the same or
        no neighbour has ours. It is not fixed until there are enough samples to tell.
        """
        scale, heads = self.model.scale, {name: self._head(update) for name, update in received.items()}
        ours = (0.0, 0) if scale is None else (scale.rank, scale.number)
        self.numbers |= {name: number for name, (_, number) in heads.items()}
        self.behind -= {name for name, head in heads.items() if head >= ours or head[1] == ours[1]}
        self.behind |= {name for name, head in heads.items() if head < ours and head[1] != ours[1]}
        self._offer_scale()
        if self._take_better(list(received.values())):
            return True
        return self._settle([head for head in heads.values() if head[1] == ours[1]])

    def _stats_of(self, whole: Array) -> Stats:
        return parts.unpacked(whole, self.model.d + 1)

    def _offer_scale(self) -> None:
        """The next message brings our scale, if a neighbour needs it."""
        scale = self.model.scale
        if scale is not None and scale.rank and self.behind & self.known.keys():
            kind = FIXED if scale.fixed else WHOLE
            self.post.append(headed(self.model.rounds, kind, scale.count, scale.whole, self.model.d + 1))

    def connect(self, known: Mapping[Hashable, Neighbour]) -> None:
        """A neighbour that joins later needs our scale before its first sample, to predict it."""
        new = known.keys() - self.known.keys()
        super().connect(known)
        self.numbers = {name: number for name, number in self.numbers.items() if name in known}
        if self.model.rounds:
            self.behind |= new
            self._offer_scale()

    def _take_better(self, updates: Sequence[Update]) -> bool:
        """The best of the senders' scales that is better than ours and believed; whether there is one."""
        scale, heads = self.model.scale, [self._head(update) for update in updates]
        ours = (0.0, 0) if scale is None else (scale.rank, scale.number)
        numbers = [number for _, number in heads]
        better = {head for head in heads if head > ours and head[1] != ours[1]}
        # a rank is what its sender claims, so the scale that most have is tried first
        for best in sorted(better, key=lambda head: (numbers.count(head[1]), head), reverse=True):
            if self._take_scale([u for u, n in zip(updates, numbers, strict=True) if n == best[1]]):
                return True
        return False

    def _settle(self, heads: Sequence[tuple[float, int]]) -> bool:
        """Fix everybody's scale where half of the neighbours have it when it is due, or another's when a
        neighbour has, or when it has been in use for long; drop another's if our own samples do not fit it
        after all. Returns whether it was dropped. `heads`: of neighbours with our scale."""
        warm, rounds = self.model.warm, self.model.rounds
        if warm.over or not warm.shared or not (warm.own or rescale.knows_spread(self.model)):
            return False
        same = sum(self.numbers.get(name) == self._number for name in self.known)
        is_agreed = warm.lockstep and rescale.is_complete(self.model) and 2 * same >= len(self.known)
        is_fixed = not warm.own and any(rank >= parts.FIXED_RANK for rank, _ in heads)
        is_old = warm.is_anothers and rounds >= 2 * warm.fixed
        is_due = self._may_fix and (is_agreed or is_fixed or is_old)
        is_judged = not warm.own and (is_due or len(warm.samples) == C.looks // 2)
        if is_judged and not rescale.fits_own(self.model):
            rescale.go_alone(self.model)
            return True
        if is_due:
            rescale.fix(self.model)
        return False

    def _take_scale(self, updates: Sequence[Update]) -> bool:
        """The senders' scale, if their updates bring it and it is believed."""
        found = scales_in(updates, [self._head(update) for update in updates], self.model.d + 1)
        return any(self._take_believed(senders, row) for row, senders in found)

    def _take_believed(self, updates: Sequence[Update], row: Array) -> bool:
        """Go on with a scale if most neighbours have it, or few do and nothing speaks against it."""
        model, stats = self.model, self._stats_of(row[HEADER:])
        is_most = len(updates) >= max(2, len(self.known) // 2 + 1)
        if not is_most and not self._follows_few(stats):
            return False
        is_new = not model.warm.over and len(model.warm.samples) <= NEW
        is_sure = is_most or model.warm.over or (self._may_fix and rescale.knows_spread(model))
        rescale.take(model, stats, int(row[3]), bool(row[1] == FIXED) and is_sure)
        self.taken += 1
        if is_new:
            start_from(model, [self._unpacked(update) for update in updates])
        return True

    @property
    def _came_late(self) -> bool:
        """Whether the network had learnt before us, so that its scale may be fixed by now."""
        return 2 * len(self.model.warm.samples) < self.model.rounds or not self.model.rounds

    @property
    def _may_fix(self) -> bool:
        """Whether a scale may be fixed here: who saw all rounds waits for the one that is due."""
        return self._came_late or self.model.rounds >= self.model.warm.fixed

    def _follows_few(self, stats: Stats) -> bool:
        """Whether fewer than most neighbours may replace our scale by one of such statistics.

        Never a fixed one. Out of step scales spread from one learner to the next. In lockstep one that
        differs only since messages were lost is nearly ours. Any other has to wait until no neighbour has
        ours, and in the first rounds, where a scale of everybody's statistics is due soon, for that. A
        few are taken until then, as all samples that are kept are learnt again.
        """
        model, is_fixed = self.model, bool(self._number and self.model.warm.over)
        if is_fixed or not rescale.fits(model, stats, len(model.warm.samples) > NEW):
            return False
        if not model.lockstep:
            return True
        if self._came_late:
            return self.taken < MOST_TAKEN
        self.taken = 0 if model.warm.own else self.taken
        whole = model.scale.whole if model.scale is not None and model.warm.own else np.zeros(0)
        if len(whole) and is_alike(stats, self._stats_of(whole)):
            return True
        ours = self._number
        has_ours = ours and any(self.numbers.get(name, ours) == ours for name in self.known)
        return model.rounds >= model.warm.looks and not has_ours and self.taken < MOST_TAKEN

    # The network

    def resize(self) -> None:
        """The network turned out to have another size."""
        self.model.warm.resize(*self.topology.size)

    def _reweigh(self, near: Neighbours) -> None:
        self.model.reweigh(near.weight, *self.topology.size)

    def adopt(self, updates: Sequence[Update], share: float) -> None:
        """Move a share of the way to the median of those with our scale; one without samples takes theirs."""
        if self.model.scale is None and not self.model.warm.samples:
            self.model.rounds = min([update.round for update in updates], default=0)
            self._take_better(updates)
            return
        state = self.model.joint.state
        thetas = [self._unpacked(update)["theta"] for update in updates if self.same(update)]
        if state is not None and thetas:
            theta = median(state.theta, thetas)
            self.model.joint.adopt(state.theta + share * (theta - state.theta))

    # State

    def state(self) -> dict[str, Any]:
        rows = self.table.state(self.model.d + 1)
        asked = [[np.frombuffer(key).copy(), values] for key, values in self.asked.items()]
        behind = sorted(self.behind, key=order)
        return {**super().state(), "table": rows, "post": list(self.post), "asked": asked, "behind": behind}

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        self._seen = None
        self.table.restore(state["table"])
        self.post, self.behind = list(state["post"]), set(state["behind"])
        self.asked = {np.ascontiguousarray(x).tobytes(): values for x, values in state["asked"]}
