"""One device of a network whose learners have nothing to tune.

It is a `Learners` of one row: the same code as a whole network in one process, and the same bits. What is its
own here is the message, and what may go wrong with messages.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...base import checks
from ...base.errors import InputError
from ...base.types import Array, Float
from ...exchange.edges import Held, Neighbour
from ...learner.member import PAYLOADS, Member, Shapes, Update, distinct
from .. import losses, second_order
from ..losses import Loss
from . import experts, handover, keep, message
from .features import MODELS, STEPS
from .learners import CLASSES, RATES, Look
from .message import HEADER, NUMBERS, OTHERS, Sender
from .model import Model
from .one import One, scale_number
from .ties import Said, Ties

#: Predictions that are remembered until their labels come.
WAITING = 1000
#: How much more or less often than we a neighbour may have begun its joint models anew.
LIVES = 64


class AutoLearner(Member):
    """One device of a network, with nothing to tune: the `Learner` of preset "auto".

    Parameters
    ----------
    d : number of inputs.
    neighbours : their names; sums run in this order.
    learners : the names of all learners of the network, in one order for all.
    diameter : the most links between two learners; what all must know takes as many rounds.
    name : of this learner.
    loss : "squared" for numbers, "logistic" for labels of -1 and +1 (0 is read as -1).
    seed, size, start : as in `domkl.simulate(preset="auto")`, the same at every learner.
    engine, dtype, payload, number : as in `Learner`.

    Inputs may have any scale, and be NaN where missing. Where messages are lost, learners may get different
    scales; they then ignore each other's theta until the better scale, which they send, is common again.

    Examples
    --------
    >>> import domkl, numpy as np
    >>> common = {"learners": ["a", "b"], "diameter": 1, "size": 200}
    >>> a = domkl.AutoLearner(2, ["b"], name="a", **common)
    >>> b = domkl.AutoLearner(2, ["a"], name="b", **common)
    >>> for X in np.random.default_rng(0).uniform(0, 1000, size=(100, 2, 2)):
    ...     from_a, from_b = (one.observe(x, x[0] + 2 * x[1]) for one, x in zip((a, b), X))
    ...     _ = a.receive("b", from_b), b.receive("a", from_a)
    >>> bool(abs(a.predict([500.0, 500.0]) - 1500) < 50)
    True
    """

    ALIKE = "model, inputs, learners in their order, diameter, loss, seed, size, start, dtype and payload"

    def __init__(
        self,
        d: int,
        neighbours: Sequence[Hashable],
        *,
        learners: Sequence[Hashable],
        diameter: int,
        name: Hashable,
        loss: str | Loss = "squared",
        seed: int = 0,
        size: int = 1700,
        start: float = 0.0,
        engine: str = "auto",
        dtype: Float = np.float64,
        payload: str = "float64",
        number: int = 0,
    ) -> None:
        self.learners, self.d = distinct(learners), checks.count("d", d)
        for each in (name, *distinct(neighbours)):
            if each not in self.learners:
                raise InputError(f"{each!r} is not in learners {self.learners}; expected all; add it to them")
        self.one = One(
            self.learners.index(name),
            of=len(self.learners),
            weight=np.zeros(1),
            diameter=checks.count("diameter", diameter, least=min(1, len(self.learners) - 1)),
            d=self.d,
            loss=losses.get(loss),
            seed=checks.count("seed", seed, least=0),
            size=checks.count("size", size, least=16),
            start=float(start),
            forgets=True,
            engine=engine,
            dtype=checks.float_type(dtype),
        )
        super().__init__(neighbours, name, checks.one_of("payload", payload, PAYLOADS), False, number)
        self.degrees: dict[Hashable, int] = {}  # of the neighbours, as they said
        self.fingerprint = self._fingerprint()
        self._seen: tuple[tuple[object, ...], Look] | None = None  # the last sample, and when that was
        self._asked: dict[bytes, Array] = {}  # what was last predicted for an x, until its label comes
        self._post: list[Array] = []  # statistics for the next update
        self._pending: tuple[Said, Update] | None = None  # what was said, and as it was sent

    @classmethod
    def taught(cls, model: Model, neighbours: Sequence[Hashable], **options: Any) -> AutoLearner:
        """A learner that begins where `model` ends, with its scale for good; all of a network must do so.

        `options` are those of the class that the model does not tell: learners, diameter, name, engine,
        dtype, payload, number.
        """
        alone = model.alone
        setting: dict[str, Any] = {"loss": alone.loss, "seed": alone.seed, "size": alone.size}
        learner = cls(alone.features.first, neighbours, **setting, **options)
        learner.one.weight = learner._ties({}).weight
        handover.inherit(learner.one, alone)
        learner.d, learner.one.count, learner.one.whole = alone.d, 1, message.packed(handover.whole(alone))
        learner._known = {name: learner._stranger(one.edge.number) for name, one in learner._known.items()}
        learner.fingerprint = learner._fingerprint(learner.one.whole, learner.one.mean)
        return learner

    def _fingerprint(self, *taught: Array) -> str:
        one, loss = self.one, self.one.loss
        text = f"auto {self.d} {self.learners!r} {one.diameter} {loss.name} {loss.reg!r} {loss.delta!r} "
        text += f"{one.seed} {one.size} {one.start!r} {one.dtype} {self.payload} {RATES} {CLASSES} {NUMBERS}"
        digest = hashlib.sha256(text.encode())
        for array in taught:
            digest.update(array.tobytes())
        return digest.hexdigest()[:16]

    @property
    def shapes(self) -> Shapes:
        """Of its updates."""
        most = (len(self.learners) + 2) * (HEADER + (OTHERS + STEPS + 1) * (self.d + 1))
        return Shapes((1, self._joint + self.one.terms.K), NUMBERS, most)

    @property
    def _joint(self) -> int:
        return MODELS * self.one.features.K

    @property
    def state(self) -> second_order.State | None:
        """Of the joint models, one row; None before the first label."""
        return self.one.state

    @property
    def weights(self) -> Array:
        """Of the experts: own theta, the neighbours', and the others once there are memories."""
        return np.asarray(self.one.experts.weights()[0])

    def _stranger(self, number: int) -> Neighbour:
        return Neighbour(MODELS, self.one.features.K, self.one.dtype, number)

    # Rounds

    def receive(self, neighbour: Hashable, update: Update, *, checked: bool = False) -> bool:
        """Take a neighbour's update; False if it came late, too early or twice, and was not used."""
        self._refuse_stranger(neighbour)
        if not checked:
            self._check_update(neighbour, update)
        message.check(neighbour, update, len(self.learners), self.d + 1)
        return super().receive(neighbour, update, checked=True)

    def predict(self, x: npt.ArrayLike) -> float:
        """The network's function, as this learner knows it, at x.

        It is remembered until the label comes: experts are judged by what they had said before.
        """
        look = self._look(x)
        self._asked.pop(look.x.tobytes(), None)
        echo = look.echo if len(look.echo) else np.zeros((1, 3))
        self._asked[look.x.tobytes()] = np.concatenate([look.y_hat, echo[0], look.experts[0]])
        if len(self._asked) > WAITING:
            del self._asked[next(iter(self._asked))]
        return float(look.y_hat[0])

    def observe(self, x: npt.ArrayLike, y: float) -> Update:
        """Predict, learn from (x, y), and return the update for the neighbours."""
        self._refuse_open("receive() them or close() the round")
        look, label, weights = self._look(x), losses.one_label(self.one.loss, y), self.weights
        lives, self.one.rounds = self.one.lives, self.round
        said = self.one.propose(look, label[None], self._as_asked(look))
        joint = said.theta.reshape(1, -1).astype(np.float64)  # as the coefficients of the memories are
        theta = self._as_sent(np.concatenate([joint, said.terms[0]], 1))
        post, self._post = [*self._post, *self.one.statistics_told()], []
        self._restart_edges(lives)
        one = self.one
        numbers = message.numbers(said, Sender(one.scale, one.rank, one.turn, len(self._known)))
        more = np.concatenate(post)[: self.shapes.more] if post else None
        update = Update(self.round, theta, numbers, self.fingerprint, self.heard, more)
        self._pending = said, update
        self._last = self.round, self.name, float(label), float(look.y_hat[0]), weights
        if self._known:
            self._close_if_complete()
        else:
            self.close()
        return update

    def _as_sent(self, theta: Array) -> Array:
        """As neighbours will hold it, inside what they take: a round that has begun cannot be refused."""
        most = min(message.LARGEST, float(np.finfo(self.payload).max))
        return super()._as_sent(np.clip(theta, -most, most))

    def _as_asked(self, look: Look) -> Look:
        """The sample as it was seen when it was last predicted."""
        asked = self._asked.pop(look.x.tobytes(), None)
        if asked is None:
            return look
        y_hat, echo, guesses = np.split(asked, [1, 4])
        known = echo[None] if len(guesses) == len(experts.NAMES) else np.empty(0)
        return look._replace(y_hat=y_hat, experts=guesses[None], echo=known)

    def close(self) -> None:
        """End the open round without the missing neighbours: they neither pull nor move duals."""
        if self._pending is None:
            raise InputError("no round is open; expected one; call observe() first")
        said, update = self._pending
        heard = self._inbox.pop(self.round, {})
        own = message.said(update, self._joint, self.one.dtype)
        theirs = [self._meaning(heard.get(name), own) for name in self._known]
        moves = self._settle(heard)
        ties = self._ties(heard)
        self._move(ties, own, theirs, moves)
        self._note_statistics(heard)
        everybody = Said(*(np.concatenate(values) for values in zip(*theirs, own, strict=True)))
        found = ties.hear(own, everybody, np.array([*moves, False]))
        # Neighbours hold theta as it was sent, and so must the duals.
        rounded = (said.theta - own.theta) * found.moving
        self._take_back([rounded[0]] if rounded.any() else [])
        lives = self.one.lives
        self.one.close(found)
        self._restart_edges(lives)
        self.one.reweigh(ties.weight)
        self._pending = None
        self.round += 1
        self._reconcile(heard)

    def _meaning(self, update: Update | None, own: Said) -> Said:
        """What a neighbour said, where it means the same to us; else what leaves us where we are."""
        if update is None:
            return own._replace(votes=np.zeros(1))
        said, ours = message.said(update, self._joint, self.one.dtype), self._has_our_scale(update)
        said = said._replace(alarm=self.one.to_come(said.alarm), restart=self.one.to_come(said.restart))
        if not ours:
            said = said._replace(theta=own.theta)
        if not ours or message.sender(update).turn != self.one.turn:
            said = said._replace(terms=own.terms, errors=own.errors, surplus=own.surplus)
        return said

    def _has_our_scale(self, update: Update) -> bool:
        return self.one.scale == message.sender(update).scale != 0

    def _ties(self, heard: Mapping[Hashable, Update]) -> Ties:
        """With degrees as both ends of each edge have said in this round, or the last that we know."""
        self.degrees |= {name: message.sender(update).deg for name, update in heard.items()}
        deg = len(self._known)
        degrees = [self.degrees.get(name, deg) for name in self._known]
        return Ties(np.array([deg], np.float64), [list(range(deg))], np.array(degrees, np.float64))

    # Duals

    def _settle(self, heard: Mapping[Hashable, Update]) -> list[bool]:
        """Take back what did not stand at the other end; with whom duals move in this round."""
        moves = []
        for name, one in self._known.items():
            update = heard.get(name)
            held = None if update is None else update.heard.get(self.name)
            if update is not None:
                back = None if held is None else one.edge.settle(held, update.round - 1)
                self._take_back([] if back is None else [back])
                one.edge.seen = update.round
            moves.append(update is not None and self._has_our_scale(update) and self._agrees(one, held))
        return moves

    def _move(self, ties: Ties, own: Said, theirs: list[Said], moves: list[bool]) -> None:
        """Each edge remembers what it has added to lam."""
        for k, one in enumerate(self._known.values()):
            if moves[k]:
                weight = ties.slots[k][2]
                one.edge.move(self.round, weight * (own.theta[0] - theirs[k].theta[0]), hoping=True)

    def _take_back(self, moves: Sequence[Array]) -> None:
        state = self.one.state
        if moves and state is not None:
            self.one.state = state._replace(lam=state.lam - sum(moves) * self.one.pulls.neighbours)

    def _restart_edges(self, lives: int) -> None:
        """Joint models that have begun anew have no duals; everybody's do so in the same round."""
        if self.one.lives != lives:
            for one in self._known.values():
                one.edge.restart()

    # Statistics and scales

    def _note_statistics(self, heard: Mapping[Hashable, Update]) -> None:
        """Those that all need are passed on."""
        one, warm = self.one, self.one.warm
        for row in self._rows(heard.values()):
            round, index = int(row[0]), int(row[1])
            known = one.table.get(round, {})
            if index < 0 or index in known or warm.over or not 0 <= round - one.rounds <= one.diameter:
                continue
            one.table[round] = known | {index: row[HEADER:]}
            if warm.is_common(round):
                self._post.append(row)

    def _rows(self, updates: Iterable[Update]) -> Iterator[Array]:
        return message.rows(updates, len(self.learners), self.d + 1)

    def _reconcile(self, heard: Mapping[Hashable, Update]) -> None:
        """Where scales differ, the learner with the lesser one takes the other, which it is sent."""
        ours = self.one.rank, self.one.scale
        others = [update for update in heard.values() if message.sender(update).scale != self.one.scale]
        if any(_ranked(update) < ours for update in others):
            self._post.append(self.one.scale_told())
        better = max([update for update in others if _ranked(update) > ours], key=_ranked, default=None)
        if better is None:
            return
        for row in self._rows([better]):
            if row[1] < 0 and scale_number(row[HEADER:]) == message.sender(better).scale:
                self.one.take(row, message.said(better, self._joint, self.one.dtype).theta)
                for one in self._known.values():
                    one.edge.begin_anew(one.edge.number + 1, one.edge.theirs)
                return

    # Neighbours that come and go

    def meet(self, neighbour: Hashable, held: Held, round: int) -> None:
        """Learn what a neighbour that is at `round` says of our edge without an update.

        One that has begun its joint models anew more often than we, or less often, is only ahead or behind;
        if it is neither, its update of our round will tell.
        """
        self._refuse_stranger(neighbour)
        apart = abs(held.mine - self._known[neighbour].edge.theirs)
        if apart == 0 or apart > LIVES:
            super().meet(neighbour, held, round)

    def join(self, neighbour: Hashable, number: int = 0) -> None:
        """A new edge, with a dual of zero; `number` must be new if the edge was there before."""
        self._refuse_open("close() the round")
        distinct([*self._known, neighbour])
        self._known[neighbour] = self._stranger(number)

    def leave(self, neighbour: Hashable) -> None:
        """An edge less: it takes its dual along."""
        self._refuse_stranger(neighbour)
        self._refuse_open("close() the round")
        self._take_back([self._known[neighbour].edge.dual])
        self._forget(neighbour)
        del self._known[neighbour]

    def adopt(self, update: Update, share: float = 1.0) -> None:
        """Move the estimate a share of the way to a neighbour's, if both have the same scale.

        Whoever has none gets it, with the estimate, from a neighbour's next update.
        """
        self._refuse_open("close() the round")
        state = self.one.state
        if state is None or not self._has_our_scale(update):
            return
        theirs = message.said(update, self._joint, self.one.dtype).theta
        theta = state.theta + share * (theirs - state.theta)
        self.one.state = state._replace(theta=theta, theta_sum=theta * self.one.pulls.deg[:, None, None])
        self.one.mean = theta

    # Memory

    def save(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Its whole mind between two rounds, as arrays and a description fit for JSON."""
        self._refuse_open("close() the round")
        arrays, mind = keep.save(self.one)
        edges, said = self._save_edges()
        arrays |= edges
        arrays["whole"], arrays["post"] = self.one.whole, np.concatenate([np.zeros(0), *self._post])
        rows = [
            message.headed(t, i, 1, row, self.d + 1)
            for t, kept in self.one.table.items()
            for i, row in kept.items()
        ]
        arrays["table"] = np.concatenate([np.zeros(0), *rows])
        asked = [np.concatenate([np.frombuffer(key), values]) for key, values in self._asked.items()]
        arrays["asked"] = np.concatenate([np.zeros(0), *asked])
        meta = {"fingerprint": self.fingerprint, "round": self.round, "count": self.one.count, "mind": mind}
        meta["degrees"] = [list(pair) for pair in self.degrees.items()]
        meta["asked"] = [len(values) for values in self._asked.values()]
        return arrays, {**meta, "neighbours": said}

    def load(self, arrays: Mapping[str, Array], meta: Mapping[str, Any]) -> None:
        """Go on from what `save` gave: with the same engine, to the last bit."""
        self._load_edges(arrays, meta)
        self._seen, self.degrees = None, dict(meta["degrees"])
        self.one.count, self.one.whole = meta["count"], arrays["whole"]
        keep.load(self.one, arrays, meta["mind"])
        self._asked, left = {}, arrays["asked"]
        for size in meta["asked"]:
            x, values, left = left[: self.d], left[self.d : self.d + size], left[self.d + size :]
            self._asked[x.tobytes()] = values
        update = Update(0, np.zeros(0), None, "", more=arrays["post"])
        self._post = list(self._rows([update]))
        self.one.table = {}
        for row in self._rows([update._replace(more=arrays["table"])]):
            self.one.table.setdefault(int(row[0]), {})[int(row[1])] = row[HEADER:]

    # Samples

    def _look(self, x: npt.ArrayLike) -> Look:
        sample = checks.floats("x", x)
        checks.shape("x", sample, (self.d,), "every sample needs the same inputs, NaN where one is missing")
        checks.finite_or_missing("x", sample)
        now = self.one.state, self.round, self.waiting
        if self._seen is None or not self._is_seen(now, sample):
            self._seen = now, self.one.look(sample[None].copy())
        return self._seen[1]

    def _is_seen(self, now: tuple[object, ...], sample: Array) -> bool:
        assert self._seen is not None
        known, look = self._seen
        return (
            known[0] is now[0] and known[1:] == now[1:] and np.array_equal(look.x[0], sample, equal_nan=True)
        )


def _ranked(update: Update) -> tuple[float, int]:
    sender = message.sender(update)
    return sender.rank, sender.scale
