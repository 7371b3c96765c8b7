"""Learners with nothing to tune, round by round: all of a network at once, or one device alone.

look = learners.look(x)             # what is predicted, before the label is known
said = learners.propose(look, y)    # learn; what the neighbours must hear
learners.close(heard)               # what their messages come to (`Ties.hear`)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ... import engines
from ...base.types import Array, Float
from .. import first_order, second_order
from ..first_order import Rates
from ..losses import Loss
from .additive import LONG, PAST, YOUNG, Memory, Terms
from .echo import SURE, Echo
from .experts import Experts
from .features import MODELS, Features, Stats, statistics
from .message import NUMBERS
from .ties import NEVER, Heard, Said
from .warmup import Sample, WarmUp, padded
from .watch import EXPERTS, JOINT, MISLED, RETURNS, Watch

#: rho of the local step, and eta of all learners together; eta_g has no part in it.
RATES = Rates(rho=0.6, eta=0.01, eta_g=1.0)
#: The logistic loss has an eighth of the squared one's curvature, so pulls of that size are as strong.
CLASSES = Rates(rho=0.05, eta=0.15, eta_g=1.0)
#: Whoever learns alone has nobody's estimates to hold its own in check.
ALONE = Rates(rho=0.4, eta=0.1, eta_g=1.0)
#: Which part of all numbers one of them may have; how many rounds the young memory looks back.
PART, FADING = 1 / 7, 200
#: For so many rounds a new memory has the exchange for itself.
TRIAL = 100
#: One expert is the neighbours' theta with this much of the long memory: Hedge alone can only choose.
BLEND = 0.25
#: No memory has its turn in a round.
NOBODY = -1


class Look(NamedTuple):
    """A sample as learners see it before its label is known."""

    x: Array  # (J, d)
    z: Array  # (J, MODELS, K); empty before the first label
    f: Array  # (J, MODELS) each model's score, in scaled units
    models: Array  # (J, MODELS) the same in units of y
    experts: Array  # (J, n) predictions in units of y: `experts.NAMES`
    y_hat: Array  # (J,)
    echo: Array  # (J, 3) two errors and what the others say together; empty while there is no echo


class Learners(ABC):
    """J learners; row j of every array belongs to learner j.

    Parameters
    ----------
    J, of : how many learners these are, and how many the network has.
    weight : of each learner's edges, in sum (J,).
    diameter : of the network, at least.
    """

    def __init__(
        self,
        J: int,
        of: int,
        weight: Array,
        diameter: int,
        d: int,
        loss: Loss,
        *,
        seed: int = 0,
        size: int = 1700,
        start: float = 0.0,
        dtype: Float = np.float64,
        forgets: bool = False,
        engine: str = "auto",
        threads: int = 1,
    ) -> None:
        self.J, self.of, self.weight, self.diameter, self.d = J, of, weight, diameter, d
        self.loss, self.start, self.size, self.seed, self.dtype = loss, start, size, seed, dtype
        self.forgets, self.restarts, self.rounds = forgets, 0, 0
        engines.chosen_newton(engine)  # refuses now what would be refused later
        self.engine, self.threads = engine, threads
        self._lay_out(d)
        self.warm = WarmUp(of, diameter)
        self.fresh: dict[int, Stats] = {}  # statistics of this round, for the scale of that one
        self.low, self.high = np.full(J, np.inf), np.full(J, -np.inf)
        self.experts = Experts(J)
        self.memories: list[Memory] = []  # LONG, YOUNG, PAST
        self.echo = Echo(J)
        self.recent: deque[Sample] = deque(maxlen=FADING)  # inputs and scaled targets
        self.turn = NOBODY
        self.terms_said: Array | None = None  # coefficients of the memory whose turn it is
        self.alarm, self.restart = np.full((J, 2), NEVER), np.full((J, 2), NEVER)
        self.state: second_order.State | None = None
        self.lives = 0  # how often the joint models have begun anew
        self.learnt: tuple[Array, Array, Array] | None = None  # of the open round

    @abstractmethod
    def pooled(self, round: int) -> Stats:
        """What is known of all learners' statistics for the scale of that round. (J or 1, d + 1)"""

    def knows(self, round: int) -> bool:
        """Whether there are statistics for the scale of that round; whoever was away may have none."""
        return True

    def _lay_out(self, d: int) -> None:
        self.terms = Terms(int(PART * self.size), d)
        left = self.size - NUMBERS - (self.terms.K if self.forgets else 0)
        self.features = Features(self.seed, left, d, self.dtype)

    @property
    def shared(self) -> bool:
        """Whether the scale is common, so that theta means the same to all."""
        return self.warm.shared

    # Predicting

    def look(self, x: Array) -> Look:
        """Everything known about a sample before its label. (J, d)"""
        if self.state is None:
            y_hat = np.full(self.J, self.start)
            both = np.stack([y_hat, y_hat], -1)
            return Look(x, np.empty(0), np.empty(0), both, both, y_hat, np.empty(0))
        z = self.features.of(x, self.stats)
        f, near = first_order.dot(self.state.theta, z), first_order.dot(self.mean, z)
        scores = [f.mean(-1), near.mean(-1)]
        if self.memories:
            terms = self.terms.of(x, self.stats)
            scores += [memory.score(terms) for memory in self.memories]
            scores.append((1 - BLEND) * scores[1] + BLEND * scores[JOINT + LONG])
        experts, echo, w = self._in_units(np.stack(scores, -1)), np.empty(0), self.experts.weights()
        if self.memories:
            experts, echo = self._with_echo(experts, w)
        return Look(x, z, f, self._in_units(f), experts, (w * experts).sum(-1), echo)

    def _with_echo(self, experts: Array, w: Array) -> tuple[Array, Array]:
        """One expert more: what the others say together, and the error that the last ones let expect."""
        rest = w[:, :-1] / w[:, :-1].sum(-1, keepdims=True)
        together = (rest * experts).sum(-1)
        y = np.clip(together + self.echo.expected() * self.width, self.low, self.high)
        y = np.clip(y, -SURE, SURE) if self.loss.classifies else y
        return np.hstack([experts, y[:, None]]), np.hstack([self.echo.last, together[:, None]])

    def _in_units(self, scores: Array) -> Array:
        """Scores as predictions of y, inside the range of the targets seen. (J, n)"""
        if self.loss.classifies:
            return np.asarray(np.tanh(scores / 2))
        y = self.centre[:, None] + scores * self.width[:, None]
        return np.asarray(np.clip(y, self.low[:, None], self.high[:, None]))

    # Learning

    def propose(self, look: Look, y: Array, asked: Look | None = None) -> Said:
        """A label becomes known to every learner (J,); `asked`: what it was predicted from, if rounds ago.

        Experts are judged by what they had said: a short memory looks good on samples between those it knows.
        """
        if asked is None or asked.experts.shape != look.experts.shape:
            asked = look
        self.rounds += 1
        self._judge(asked, y)
        self.low, self.high = np.minimum(self.low, y), np.maximum(self.high, y)
        self.learnt, self.turn, self.terms_said, self.fresh = None, NOBODY, None, {}
        if not self.warm.over:
            self.warm.samples.append((look.x, y))
            self._tell_statistics()
        due, common = self.warm.is_due(self.rounds), self.warm.is_common(self.rounds)
        if due and common and self.knows(self.rounds):
            self._rebuild()
        elif due and not common:
            pass  # when the neighbours have told theirs, in this very round
        elif self.state is not None:
            self.learnt = second_order.local(
                self.state, look.z, look.f, self._target(y), self.pulls, self.loss
            )
            self._remember(asked, y)
        return self._said()

    def close(self, heard: Heard) -> None:
        """End the round with what was heard in it."""
        self.low, self.high = heard.low, heard.high
        if self.learnt is not None:
            self._merge(self.learnt, heard)
        if self.turn != NOBODY:
            self.memories[self.turn].hear(heard.terms_near, heard.terms_mean, heard.weight)
            self.watch.hear(heard.surplus, heard.errors)
        if self.memories:
            self._decide(heard)
        if self.warm.is_due(self.rounds) and not self.warm.is_common(self.rounds):
            self._rebuild()

    def _said(self) -> Said:
        J, blank = self.J, np.zeros((self.J, MODELS, self.features.K), self.dtype)
        watched = self.turn != NOBODY
        return Said(
            theta=blank if self.learnt is None else self.learnt[0],
            terms=np.zeros((J, 1, self.terms.K)) if self.terms_said is None else self.terms_said,
            low=self.low,
            high=self.high,
            errors=self.watch.errors if watched else np.zeros((J, EXPERTS)),
            surplus=self.watch.surplus if watched else np.zeros(J),
            votes=self.watch.votes if watched else np.zeros(J),
            alarm=self.to_come(self.alarm),
            restart=self.to_come(self.restart),
        )

    def _judge(self, look: Look, y: Array) -> None:
        if self.state is None:
            return
        self.experts.judge(self._misses(look, y), self.watch.errors if self.memories else None)
        if len(look.echo):
            self.echo.learn(look.echo[:, :2], (y - look.echo[:, 2]) / self.width)

    def _misses(self, look: Look, y: Array) -> Array:
        """The experts' squared errors, scaled like the targets. (J, n)"""
        return np.asarray(((look.experts - y[:, None]) / self.width[:, None]) ** 2)

    def _target(self, y: Array) -> Array:
        return np.asarray((y - self.centre) / self.width, self.dtype)

    def _merge(self, learnt: tuple[Array, Array, Array], heard: Heard) -> None:
        """Duals move along the edges of `heard.moved`; all of `heard.near` pulls at the next step."""
        assert self.state is not None
        theta, L, _ = learnt
        if not self.shared:
            self.mean, near, moves = theta, np.zeros_like(theta), self.pulls
            moved = near
        else:
            self.mean, near, moved = heard.mean, heard.near, heard.moved
            moves = self.pulls._replace(deg=np.asarray(heard.moving, self.dtype))
        self.state = second_order.merge(self.state, learnt, moved, np.zeros_like(L), moves, 1.0)
        self.state = self.state._replace(theta_sum=near)

    # Forgetting

    def _remember(self, look: Look, y: Array) -> None:
        if not self.memories:
            return
        target = self._target(y).astype(np.float64)
        self.recent.append((look.x, target))
        terms = self.terms.of(look.x, self.stats)
        self.turn = self._whose_turn()
        for k in (LONG, YOUNG):
            if k == self.turn:
                self.terms_said = self.memories[k].tell(terms, target)
            else:
                self.memories[k].note(terms, target)
        self.watch.see(((look.y_hat - y) / self.width) ** 2, self._misses(look, y)[:, :EXPERTS])

    def _whose_turn(self) -> int:
        """There is room for one memory in a message; a new one goes first."""
        new = [k for k in (LONG, YOUNG) if self.memories[k].n + 1 < TRIAL]
        return new[0] if new else (LONG, YOUNG)[self.rounds % 2]

    def _decide(self, heard: Heard) -> None:
        """Take decisions, and do what is due: as soon as everybody can have heard of it."""
        now = self.rounds
        self.alarm, self.restart = self.to_come(heard.alarm), self.to_come(heard.restart)
        if self.turn != NOBODY:
            self._raise(heard)
        if self.alarm[0, 0] == now:
            self._begin_young(now + int(self.alarm[0, 1]))
            self.alarm = np.full_like(self.alarm, NEVER)
        elif self.restart[0, 0] == now:
            self._restart(-int(self.restart[0, 1]) & (RETURNS | MISLED))
        self.restart = np.where(self.restart[:, :1] == now, NEVER, self.restart)

    def _raise(self, heard: Heard) -> None:
        """Each learner's own decisions, where none is on its way."""
        now, act = self.rounds, self.rounds + self.diameter
        raised = (self.watch.alarms > 0) & (self.alarm[:, 0] == NEVER)
        self.alarm = np.where(raised[:, None], _pairs(act, self.watch.since - now), self.alarm)
        agreed = (self.watch.votes > 0) & (heard.votes >= 0.5) & (self.restart[:, 0] == NEVER)
        self.restart = np.where(agreed[:, None], _pairs(act, -self.watch.verdict()), self.restart)

    def to_come(self, decisions: Array) -> Array:
        """Those that may still be acted on, by their rounds. (J, 2)"""
        at = decisions[:, :1]
        return np.where((at >= self.rounds) & (at <= self.rounds + self.diameter), decisions, NEVER)

    def _begin_young(self, n: int) -> None:
        """After an alarm the young memory is of the last n samples."""
        self._teach(self.memories[YOUNG], self._last(n))
        self.watch.calm()
        self.experts.doubt()

    def _restart(self, verdict: int) -> None:
        """The young memory or that of the past takes the long one's place, at all learners at once."""
        self.restarts += 1
        long, young, past = self.memories
        returns = bool(verdict & RETURNS)
        if returns:
            self.memories = [past, young, long]
            self.experts.follow([0, 1, 4, 3, 2, 5, 6])
        else:
            self.memories = [young.copy(math.inf), young, long if long.n >= TRIAL else past]
            self.experts.follow([0, 1, 3, 3, 2, 5, 6])
        self.warm.divide(young.n, returns, bool(verdict & MISLED))
        if verdict & MISLED:
            self._learn_anew([(x, np.asarray(y, self.dtype)) for x, y in self._last(young.n)])
        self.watch.compare()

    def _last(self, n: int) -> list[Sample]:
        """The last n samples, where as many are kept."""
        return list(self.recent)[-n:] if n > 0 else []

    def _teach(self, memory: Memory, samples: list[Sample]) -> None:
        """The memory learns these samples, targets scaled, and nothing else."""
        memory.renew()
        for x, y in samples:
            memory.replay(self.terms.of(x, self.stats), y)

    def _open_memories(self, samples: list[Sample]) -> None:
        """If it is time, begin to watch for changes, or go on with another scale; targets are scaled."""
        if not self.forgets or self.rounds < self.warm.looks or not (self.shared or self.of == 1):
            return
        samples = [(x, np.float64(target)) for x, target in samples]
        if not self.memories:
            self.watch = Watch(self.J)
            self.experts.add_all()
        self.memories = [self.make_memory(rounds) for rounds in (math.inf, FADING, math.inf)]
        self.recent.clear()
        self.recent.extend(samples)
        old = self.warm.old
        before = samples[:old] or [(x, np.float64(self._target(y))) for x, y in self.warm.before]
        self._teach(self.memories[LONG], samples[old:])
        self._teach(self.memories[YOUNG], samples[old:][-FADING:])
        self._teach(self.memories[PAST], before)

    def make_memory(self, rounds: float) -> Memory:
        """One that knows nothing yet."""
        weight = self.weight if self.shared else np.zeros(self.J)
        return Memory(self.terms, weight, self.of, self.loss, float(rounds))

    # Warming up

    def _tell_statistics(self) -> None:
        wanted = self.warm.told_for(self.rounds)
        self.fresh = dict.fromkeys(wanted, self.warm.statistics()) if wanted else {}

    def _rebuild(self) -> None:
        """Take the scale anew from what is known of all samples, and replay one's own."""
        self.warm.shared = self.warm.is_common(self.rounds)
        self._scale(self.pooled(self.rounds))
        samples = self._kept_samples()
        self._learn_anew(samples[:-1] if self.shared else samples)
        if self.shared:
            assert self.state is not None
            z = self.features.of(samples[-1][0], self.stats)
            f = first_order.dot(self.state.theta, z)
            self.learnt = second_order.local(self.state, z, f, samples[-1][1], self.pulls, self.loss)
        self._open_memories(samples)
        if self.rounds >= self.warm.fixed:
            self.warm.end()

    def _kept_samples(self) -> list[Sample]:
        """Those of the warm-up, with targets scaled."""
        return [(x, self._target(y)) for x, y in self.warm.samples]

    def _scale(self, stats: Stats) -> None:
        """From statistics of the inputs and, in the last column, of the targets. (J or 1, d + 1)"""
        self.stats = Stats(*(value[..., :-1] for value in stats))
        centre, width = stats.mean[:, -1], stats.high[:, -1] - stats.low[:, -1]
        if self.loss.classifies:
            centre, width = np.zeros_like(centre), np.ones_like(width)
        before = getattr(self, "width", None)
        self.centre = np.broadcast_to(centre, self.J)
        self.width = np.broadcast_to(np.where(width > 0, width, 1), self.J)
        if before is not None:
            self.echo.rescale(before / self.width)
        self.pulls = self._pulls()

    def _pulls(self) -> second_order.Pulls:
        weight = self.weight if self.shared else np.zeros(self.J)
        together = CLASSES if self.loss.classifies else RATES
        each = replace(together, eta=together.eta / self.of)
        return second_order.Pulls.of(
            np.asarray(weight, self.dtype), each if self.shared else ALONE, self.loss
        )

    def _learn_anew(self, samples: list[Sample]) -> None:
        """The joint models learn these samples alone, targets scaled, as if the neighbours agreed."""
        diagonal = engines.make_inverse(self.engine, self.threads)
        state = second_order.init(MODELS, self.features.K, self.pulls, diagonal)
        for x, y in samples:
            z = self.features.of(x, self.stats)
            theta, L, m = second_order.local(
                state, z, first_order.dot(state.theta, z), y, self.pulls, self.loss
            )
            agreed = theta * self.pulls.deg[:, None, None]
            state = state._replace(theta=theta, L=L, m=m, theta_sum=agreed)
        self.state, self.mean = state, state.theta
        self.lives += 1

    # Edges that change

    def reweigh(self, weight: Array) -> None:
        """The learners' edges have other weights from now on. (J,)"""
        if np.array_equal(weight, self.weight):
            return
        self.weight = weight
        if self.state is None or not self.shared:
            return
        old, self.pulls = self.pulls, self._pulls()
        rise = float((self.pulls.c - old.c)[0, 0])
        inverse = second_order.shift(self.state.inverse, float(old.c[0, 0]), rise)
        self.state = self.state._replace(inverse=self.state.inverse.anew(inverse.settle()))
        for memory in self.memories:
            memory.reweigh(weight)

    def take_scale(self, stats: Stats, theta: Array, fixed: bool) -> None:
        """Go on with others' scale, and from their theta (J, MODELS, K) where no samples are kept."""
        self.warm.shared = True
        self._scale(stats)
        samples = self._kept_samples()
        self._learn_anew(samples)
        assert self.state is not None
        if not samples:
            self.state = self.state._replace(theta=theta, theta_sum=theta * self.pulls.deg[:, None, None])
            self.mean = theta
        self._open_memories(samples)
        if fixed:
            self.warm.end()

    # More inputs (of one device)

    def grow(self, d: int) -> None:
        """Samples have d inputs from now on; the old samples had none of the new ones."""
        self.d = d
        if self.warm.over:
            self._add_columns(d)
            return
        self.warm.grow(d)
        self._lay_out(d)
        if self.warm.samples:
            self.rescale()

    def rescale(self) -> None:
        """Take the scale anew from all samples that are kept."""
        self.fresh = {self.rounds: self.warm.statistics()}
        self._rebuild()

    def _add_columns(self, d: int) -> None:
        assert self.state is not None
        old, more = self.features.K, (0, d - self.features.d)
        self.stats = Stats(*(np.pad(v, [(0, 0)] * (v.ndim - 1) + [more]) for v in self.stats))
        self.widen(d)
        self._add_terms(d)
        wider = ((0, 0), (0, 0), (0, self.features.K - old))
        theta, lam, near, m = (np.pad(v, wider) for v in (self.state[:3] + self.state[5:6]))
        P = np.pad(self.state.inverse.settle(), (*wider, wider[-1]))
        new = np.arange(old, self.features.K)
        P[..., new, new] = 1 / self.pulls.c[..., None]
        self.mean = np.pad(self.mean, wider)
        self.state = second_order.State(
            theta, lam, near, self.state.L, self.state.q, m, self.state.inverse.anew(P)
        )

    def _add_terms(self, d: int) -> None:
        kept = padded(self.recent, d)
        self.recent.clear()
        self.recent.extend(kept)
        for memory in self.memories:
            memory.widen()

    def widen(self, d: int) -> None:
        """Features and terms of more inputs, after those there are."""
        self.d = d
        for c in range(self.features.d, d):
            self.terms.add_input(c)
        self.features.grow(d)

    def set_column(self, c: int, values: Array) -> None:
        """Fix the scale of a column that came late."""
        steps = self.stats.quantiles.shape[-2] - 1
        for old, new in zip(self.stats, statistics(values[:, None], steps), strict=True):
            old[..., c] = new[..., 0]


def _pairs(first: float, second: Array) -> Array:
    return np.stack([np.full(len(second), float(first)), np.asarray(second, np.float64)], -1)
