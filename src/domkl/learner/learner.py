"""One learner as a state machine: it drives one row of any model, with no socket, clock or randomness.

    update = learner.observe(x, y)        # predict, learn, and get what the neighbours must receive
    learner.receive("b", update_from_b)   # in any order, early, late or twice
    learner.waiting, learner.missing      # whose updates of the open round are not in yet
    learner.close()                       # go on without them
    update = learner.follow()             # a round without a sample, where neighbours have more of them
    learner.save(), learner.load(...)     # its complete state, to the last bit
    learner.join("d"), learner.leave("b") # the graph changes

It waits for nobody. A round closes by itself once every neighbour's update of it is in; `observe` closes one
that is still open. An update of another round pulls too where there is none of this one, but moves no dual:
two ends that step at different times would drive their duals apart.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..base import checks
from ..base.errors import InputError, PeerError
from ..base.types import Array, Float
from ..exchange.combine import Neighbours
from ..exchange.edges import NEVER, ROUND_END, Edge, Held, next_number
from ..exchange.message import (
    MOST_DEGREE,
    Exchange,
    Layout,
    Shapes,
    Update,
    as_exchange,
    check_update,
    check_within,
    digest,
    most_parameter,
    within,
)
from ..learning import losses
from ..learning.explain import Effects, Function, effects
from ..learning.fields import scalar
from ..learning.first_order import Step
from ..learning.model import Around, Each, Model, Part, given
from ..models.settings import Means, as_settings
from . import schema

#: How many rounds ahead of ours all updates are kept; more would let a peer fill our memory.
EARLIEST = 64
#: No round is skipped to that is later than this, which leaves room to go on.
LAST_SKIP = ROUND_END // 2
#: The last faults that are kept.
MOST_FAULTS = 64
#: A neighbour's other degree counts in every so many rounds: it changes matrices, which takes long.
REWEIGHED = 64
#: Messages over which trust in a neighbour is averaged.
TRUST = 100
#: Rounds after which the dual of an edge whose ends are out of step, so that it rests, is dropped.
REST = 8
#: Predictions that are kept until their labels come.
MOST_ASKED = 1000


class Neighbour(Edge):
    """What a learner knows of a neighbour, beside its end of their edge."""

    degree: int = scalar("int64", low=0, high=MOST_DEGREE)  # as it has sent it; 0 before
    judged: int = scalar("int64", low=0, high=TRUST)  # messages that trust is an average of
    trust: float = scalar(first=1, low=0, high=1)

    def __init__(self, shape: tuple[int, int], dtype: Any, number: int) -> None:
        super().__init__(shape, dtype, number)
        self.inbox: dict[int, Update] = {}  # by round
        self.unused = 0  # of its last messages in a row, in our scale, that were not believed

    def note_trust(self, is_used: bool) -> None:
        """One message more, that was believed or not."""
        self.judged = min(self.judged + 1, TRUST)
        self.trust += (is_used - self.trust) / self.judged


class Learner:
    """One device of a network.

    Parameters
    ----------
    model : `domkl.Auto()` (the default) or `domkl.Paper(...)`, or a model that was handed over, read with
        `domkl.learner.handed.read`; the same at every learner.
    neighbours : their names; sums run in this order.
    name : what its neighbours call it. Learners that know each other's names agree, edge by edge, on the
        rounds that moved their duals, whatever is lost; `Paper` learners that lose nothing may do without.
    inputs : of a sample; `Paper` with given frequencies knows it.
    targets : how many numbers are predicted, by default one. Of several, `predict` gives and `observe` takes
        an array (m,), in which NaN is a label that is not known.
    exchange : `domkl.Exchange(...)`: how messages are changed on their way; the same at every learner.
    number : of this learner's life; one that starts again without its state needs a new one.
    engine, dtype : as in `domkl.simulate`; with the same engine, the bits are the simulator's. A handed
        `Paper` keeps the precision that it was taught in.

    Nothing else of the network needs to be known.
    One that joins a network which has learnt already calls `adopt` with its neighbours' last updates and
    `skip_to` their round, and goes through their rounds with `follow` before its first sample: it predicts
    that one as they would.

    Examples
    --------
    >>> import domkl, numpy as np
    >>> model = domkl.Auto(size=200)
    >>> a = domkl.Learner(model, ["b"], name="a", inputs=2)
    >>> b = domkl.Learner(model, ["a"], name="b", inputs=2)
    >>> for X in np.random.default_rng(0).uniform(0, 1000, size=(100, 2, 2)):
    ...     from_a, from_b = (one.observe(x, x[0] + 2 * x[1]) for one, x in zip((a, b), X))
    ...     assert a.missing == ("b",)
    ...     _ = a.receive("b", from_b), b.receive("a", from_a)
    >>> bool(abs(a.predict([500.0, 500.0]) - 1500) < 50)
    True
    """

    def __init__(
        self,
        model: Any = None,
        neighbours: Sequence[Hashable] = (),
        *,
        name: Hashable = None,
        inputs: int | None = None,
        targets: int | None = None,
        exchange: Exchange | None = None,
        number: int = 0,
        engine: str = "auto",
        dtype: Float = np.float64,
    ) -> None:
        self.model: Any = as_settings(model) if model is None or isinstance(model, str) else model
        self.exchange, self.engine, self.dtype = as_exchange(exchange), engine, checks.float_type(dtype)
        self.name, self.round = name, 0
        self._row = self._make_row(inputs, targets)
        self._layout = Layout(self._row.parts)
        identity = self._row.identity or f"{self.model!r} {self._row.d} {self._row.m} {self.dtype}"
        self.fingerprint = digest(identity, self.exchange.payload)
        self._known = {neighbour: self._edge(number) for neighbour in distinct(neighbours)}
        self._pending: Update | None = None  # our update of the open round
        self._rounded: Array | None = None  # what was rounded off its parameters
        self._followed = 0  # rounds without a sample since the last one
        self._restarts = self._count_restarts()
        self._asked: dict[bytes, Any] = {}  # what was last predicted for an x, until its label comes
        self._seen: tuple[bytes, Any] | None = None  # the last prediction, while nothing has changed since
        self._last: tuple[Any, ...] | None = None
        #: Exceptions that made rounds end without the neighbours, since this was last emptied.
        self.faults: deque[str] = deque(maxlen=MOST_FAULTS)
        #: The neighbours whose messages were not believed since this list was last emptied; not all if many.
        self.implausible: list[Hashable] = []
        #: Neighbours whose edge rests, as one end hardly listens to the other; set by who sends messages.
        #: What comes of them pulls all the same, but no dual moves: the other end's does not either.
        self.resting: frozenset[Hashable] = frozenset()
        self._is_weighed = False  # whether the model knows the degrees of now
        self._connect()

    def _make_row(self, inputs: int | None, targets: int | None) -> Model:
        settings = as_settings(self.model)
        if self.name is None and settings.needs_name:
            raise InputError("name is not given; expected one with model Auto(); pass name=")
        d = settings.inputs if inputs is None else inputs
        m = settings.targets if targets is None else targets
        if d is None:
            raise InputError("inputs is not given; expected the number of inputs of a sample; pass inputs=")
        form = checks.count("inputs", d), self.dtype, checks.count("targets", m)
        return settings.make(1, *form, Means(self.engine, 1, self.exchange))

    # What it knows

    @property
    def shapes(self) -> Shapes:
        """Shapes of the arrays in its updates."""
        return Shapes(self._layout.shape, self._layout.sizes[1], self._row.columns)

    @property
    def targets(self) -> int:
        """How many numbers it predicts."""
        return self._row.m

    @property
    def weights(self) -> Array:
        """Weights of its kernels (`Paper`) or experts (`Auto`)."""
        return np.asarray(self._row.weights[0])

    @property
    def neighbours(self) -> tuple[Hashable, ...]:
        """Their names, in the order of sums."""
        return tuple(self._known)

    @property
    def trust(self) -> dict[Hashable, float]:
        """Part of about the last `TRUST` messages of each neighbour that was believed."""
        return {name: one.trust for name, one in self._known.items() if one.judged}

    @property
    def unused(self) -> dict[Hashable, int]:
        """How many messages of each neighbour in a row, in our scale, were not believed at last."""
        return {name: one.unused for name, one in self._known.items()}

    def knows(self, name: Hashable) -> bool:
        """Whether that is a neighbour."""
        return name in self._known

    def explain(self, names: Sequence[str] = ()) -> Effects | None:
        """Which inputs matter to its predictions now; None before the first label, or if a model cannot tell.

        Only `Auto` can. It takes as long as some hundred predictions for each input.
        """
        found, d = self.as_function(), self._row.d
        if found is None:
            return None
        return effects(*found, names or [f"x{i}" for i in range(d)], [[i] for i in range(d)])

    def as_function(self, target: int = 0) -> tuple[Function, Array] | None:
        """What it predicts of a target now, for many samples, and the last that it knows; None as `explain`.

        Both hold the parameters of now, and may be called in another thread while it learns on.
        """
        found: tuple[Function, Array] | None = self._row.as_function(0, target)
        return found

    @property
    def state(self) -> Any:
        """Parameters and duals between two rounds; `save` has everything."""
        return self._row.parameters

    @property
    def step(self) -> Step | None:
        """What happened when it last observed."""
        return None if self._last is None else Step(*self._last)

    # Samples

    def predict(self, x: npt.ArrayLike) -> Any:
        """The network's function, as this learner knows it, at x: a number, or one for each target (m,).

        It is remembered until the label comes: experts are judged by what they predicted then.
        """
        found = self._predict(self._row.sample(x))
        kept = self._row.kept(found)
        if kept is not None:
            key = found.x.tobytes()
            self._asked.pop(key, None)
            self._asked[key] = kept
            if len(self._asked) > MOST_ASKED:
                del self._asked[next(iter(self._asked))]
        return given(found.y_hat)

    def ask(self, x: npt.ArrayLike) -> Any:
        """The same for whoever wants to know, at any time: nothing is remembered, and no label is awaited."""
        return given(self._row.predict(self._row.sample(x)[None].copy()).y_hat)

    def _predict(self, sample: Array) -> Any:
        key = sample.tobytes()
        if self._seen is None or self._seen[0] != key:
            self._seen = key, self._row.predict(sample[None].copy())
        return self._seen[1]

    def observe(self, x: npt.ArrayLike, y: npt.ArrayLike) -> Update:
        """Predict, learn from (x, y), and return the update for the neighbours; closes a round that is open.

        A label that comes late is observed when it comes: `step.y_hat` is then what the learner predicts at
        that moment, not what `predict` gave when x was new.
        """
        row = self._row
        sample, label = row.sample(x), losses.one_sample(row.loss, y, row.m)[None]
        if self._pending is not None:
            self.close()
        prediction, weights = self._predict(sample), self.weights
        kept = self._asked.pop(prediction.x.tobytes(), None) if self._asked else None
        earlier = None if kept is None else row.restored(kept)
        alone = row.alone(prediction if earlier is None else earlier)
        outgoing = row.learn(prediction, label, earlier)
        self._followed = 0
        about = given(prediction.y_hat), weights, given(alone) if len(alone) else None
        self._last = self.round, self.name, given(label), *about
        return self._opened(outgoing)

    def follow(self) -> Update | None:
        """Go through the round of neighbours that are ahead, without a sample; None if nobody is ahead.

        A device with fewer samples than its neighbours calls it after `receive` and sends what it returns: so
        both ends of an edge step in the same round, and what others learn arrives before the next sample.
        Only neighbours that are mostly believed are followed, `EARLIEST` times between two samples at most:
        rounds that somebody invents cost no more.
        """
        believed = [one.inbox for one in self._known.values() if 2 * one.trust > 1]
        newest = max((t for box in believed for t in box if t <= LAST_SKIP), default=NEVER)
        if newest < self.round + (self._pending is not None) or self._followed == EARLIEST:
            return None
        if self._pending is not None:
            self.close()
        outgoing = self._row.rest()
        if outgoing is None:
            return None
        self._followed += 1
        if newest > self.round:
            self.skip_to(min(newest, self.round + EARLIEST))
        return self._opened(outgoing)

    def _opened(self, outgoing: Mapping[str, Array]) -> Update:
        """Open a round with the message that neighbours must receive."""
        self._seen = None
        theta, scalars = self._sent(outgoing)
        self._restart_edges()
        news = self._row.news()
        told = news[0] if news and self._known else {}
        degree = len(self._known)
        update = Update(self.round, theta, scalars, self.fingerprint, self.edges, degree, told)
        self._pending = update
        self._close_if_complete()
        return update

    def _sent(self, outgoing: Mapping[str, Array]) -> tuple[Array, Array | None]:
        """theta and scalars as the neighbours will have them."""
        whole, scalars = self._layout.pack(outgoing)
        theta = self.exchange.outgoing(within(whole, self._most), self._row.largest)
        first = self._layout.theta
        self._rounded = None
        if (
            first is not None and theta is not whole
        ):  # neighbours have theta as it was sent; so must the duals
            self._rounded = (whole - theta).reshape(-1)[: first.size].reshape(1, *first.shape)
        theta.flags.writeable = False  # it leaves in an Update, and the edges' duals need it
        return theta, scalars

    @property
    def _most(self) -> float:
        """The largest parameter that is sent or accepted."""
        return most_parameter(self._row.dtype, self._row.largest)

    # Messages

    @property
    def waiting(self) -> bool:
        """Whether the round is open: observed, but not yet an update from every neighbour."""
        return self._pending is not None

    @property
    def missing(self) -> tuple[Hashable, ...]:
        """The neighbours whose update of the open round is not in yet."""
        if not self.waiting:
            return ()
        return tuple(name for name, one in self._known.items() if self.round not in one.inbox)

    @property
    def edges(self) -> dict[Hashable, Held]:
        """The state of this learner's edges, which is in every update."""
        return {} if self.name is None else {name: edge.held for name, edge in self._known.items()}

    @property
    def gone(self) -> dict[Hashable, int]:
        """The neighbours that have gone on without us, and the rounds they are at."""
        ahead = {
            name: [t for t, update in one.inbox.items() if t > self.round and self._without_us(update)]
            for name, one in self._known.items()
        }
        return {name: max(rounds) for name, rounds in ahead.items() if rounds}

    @property
    def ahead(self) -> int:
        """The last round to which neighbours have gone on without us; our own where none has."""
        return max(self.gone.values(), default=self.round)

    def check(self, neighbour: Hashable, update: Update, *, decoded: bool = False) -> None:
        """Refuse an update that cannot be right; `decoded`: a decoder has checked all but its meaning."""
        if not decoded:
            check_update(neighbour, update, self.fingerprint, self._row.must_match, self.shapes)
        check_within(update.theta, self._most)
        self._row.check(self._unpacked(update), update.news)

    def receive(self, neighbour: Hashable, update: Update, *, checked: bool = False) -> bool:
        """Take a neighbour's update; False if it came twice, or after a newer one, and is not used.

        `checked`: it has already passed `check`. Of each neighbour the updates of our round and of `EARLIEST`
        after it are kept, and of all others the newest. Whatever is not used is heard: no news is lost.
        """
        one = self._neighbour(neighbour)
        if not checked:
            self.check(neighbour, update)
        if update.round in one.inbox:
            return False
        if not self._is_near(update.round) and not self._is_newest(one, update):
            self._drop(update)
            return False
        one.inbox[update.round] = update
        self._tidy(one, update)
        self._close_if_complete()
        return True

    def _is_near(self, round: int) -> bool:
        return self.round <= round <= self.round + EARLIEST

    def _is_newest(self, one: Neighbour, update: Update) -> bool:
        """Whether nothing as new was used, or waits; a new life counts its rounds from the start."""
        mine = self._incarnation(update)
        if mine in (None, one.theirs) and update.round <= one.seen:
            return False
        others = [other for other in one.inbox.values() if not self._is_near(other.round)]
        return all(other.round < update.round or self._incarnation(other) != mine for other in others)

    def _incarnation(self, update: Update) -> int | None:
        """The sender's number for our edge; None if it does not tell."""
        held = update.edges.get(self.name)
        return None if held is None else held.mine

    def _tidy(self, one: Neighbour, newest: Update | None = None) -> None:
        """Drop updates that are neither of our round nor soon to be, but for the newest of them."""
        others = sorted(t for t in one.inbox if not self._is_near(t))
        keep = newest.round if newest is not None and newest.round in others else max(others, default=None)
        for t in others:
            if t != keep:
                self._drop(one.inbox.pop(t))

    def _drop(self, update: Update) -> None:
        """Do without an update, but not without its news."""
        if update.news:
            self._row.hear(0, update.news)

    def _without_us(self, update: Update) -> bool:
        """Whether the neighbour ended the round before this update without ours."""
        held = update.edges.get(self.name)
        return self.name is not None and (held is None or held.seen < update.round - 1)

    def meet(self, neighbour: Hashable, held: Held) -> None:
        """Learn a neighbour's number for our edge before its first update, from whatever else it sends.

        All else of an edge changes when a round ends, with the update of that round: the order in which
        messages arrive must not tell in which round duals are taken back.
        """
        edge = self._neighbour(neighbour)
        if edge.theirs == 0 and edge.moved == NEVER:
            edge.theirs = held.mine

    # The end of a round

    def close(self) -> None:
        """End the open round without the missing neighbours.

        The newest update of a missing neighbour that was not used yet pulls in the next step, and none where
        nothing is new. A dual moves only for edges whose update of this round came; if the other end did not
        receive ours, it takes its own move back, or we ours. No message can keep a round open: if merging
        fails, the round ends as if nothing had arrived, and `faults` says why.
        """
        if self._pending is None:
            raise InputError("no round is open; expected one; call observe() first")
        found = {name: self._take(one) for name, one in self._known.items()}
        arrived = {name: update for name, update in found.items() if update is not None}
        if not self._is_merged(self._pending, arrived):
            self._is_merged(self._pending, {})
        self._pending, self._seen = None, None
        self.round += 1
        for one in self._known.values():
            self._tidy(one)

    def _take(self, one: Neighbour) -> Update | None:
        """The neighbour's update of this round, or else its newest that was not used yet.

        The same if its next update says that it ended this round without us: no dual would stand.
        """
        box = one.inbox
        after = box.get(self.round + 1)
        is_alone = after is not None and self._without_us(after)
        if self.round in box and not is_alone:
            return box.pop(self.round)
        newest = max(box, default=NEVER)
        for t in [t for t in box if t < self.round or (is_alone and t < newest)]:
            self._drop(update := box.pop(t))
            if t == newest and (t > one.seen or self._incarnation(update) not in (None, one.theirs)):
                return update
        return box[newest] if newest > max(one.seen, self.round) else None

    def _close_if_complete(self) -> None:
        if self._pending is not None and not self.missing:
            self.close()

    def _is_merged(self, own: Update, arrived: Mapping[Hashable, Update]) -> bool:
        try:
            self._merge(own, arrived)
        except Exception as error:
            self.faults.append(f"{type(error).__name__}: {error}")
            return False
        return True

    def _merge(self, own: Update, arrived: Mapping[Hashable, Update]) -> None:
        for name, update in arrived.items():  # also of those whose parameters will not be used
            one, degree = self._known[name], max(1, update.degree)
            if not one.degree or self.round % REWEIGHED == 0:
                self._is_weighed = self._is_weighed and one.degree == degree
                one.degree = degree
            self._drop(update)
        parts = {name: self._unpacked(update) for name, update in arrived.items()}
        same, backs = self._believe(arrived, parts)
        moves, more = self._settle(arrived, parts, same)
        if backs or more:
            self._row.take_back(np.asarray(sum(backs + more))[None])
        if not self._is_weighed:
            self._connect()  # first: what is learnt again in `merge` has these weights
        incoming, moved = self._combined(own, arrived, parts, moves)
        self._row.merge(incoming)
        for edge, by in zip(self._known.values(), moved, strict=True):
            if by is not None:
                edge.move(self.round, by, self.name is not None)
        self._restart_edges()

    def _believe(
        self, arrived: Mapping[Hashable, Update], parts: dict[Hashable, dict[str, Array]]
    ) -> tuple[dict[Hashable, bool], list[Array]]:
        """Take out of `parts` what we do not believe; whose parameters mean the same here, and duals to take
        back.

        With such a neighbour we start again, under a new number, as soon as we believe it again.
        """
        judged = [part.name for part in self._layout.parts if part.name in self._row.judges]
        if not parts or not judged:
            return dict.fromkeys(parts, True), []
        sent = {key: np.concatenate([one[key] for one in parts.values()])[None] for key in judged}
        used, same = self._row.believes([0], sent)[0], self._row.same([0], sent)[0]
        found, backs = dict(zip(parts, map(bool, same), strict=True)), []
        for name, is_used in zip([*parts], map(bool, used), strict=True):
            one = self._known[name]
            if found[name]:
                one.note_trust(is_used)
            is_refused = found[name] and not is_used  # those in another scale have news of it to tell
            one.unused = one.unused + 1 if is_refused else 0
            if not is_used:
                backs.append(self._refuse(name, arrived[name], found[name]))
                del parts[name]
        return found, [back for back in backs if back is not None]

    def _refuse(self, name: Hashable, update: Update, is_alike: bool) -> Array | None:
        """Do without a message, and count it if its parameters mean the same here; returns the dual to take
        back, if there is one."""
        edge, back = self._known[name], None
        if is_alike and len(self.implausible) < MOST_FAULTS:
            self.implausible.append(name)
        if self.name is not None and edge.moved != NEVER:
            back = edge.restart(next_number(edge.number), edge.theirs, edge.seen)
        edge.seen = update.round  # it came: the sender must not think that we went on without it
        return back

    def _settle(
        self, arrived: Mapping[Hashable, Update], parts: Mapping[Hashable, Any], same: Mapping[Hashable, bool]
    ) -> tuple[list[bool], list[Array]]:
        """With whom duals move in this round, and moves that did not stand at the other end."""
        backs, moves = [], []
        for name, edge in self._known.items():
            if name not in parts:
                moves.append(False)
                continue
            update = arrived[name]
            held = update.edges.get(self.name)
            back = None if held is None else edge.settle(held, update.round - 1)
            if back is not None:
                backs.append(back)
            edge.seen = update.round
            if update.round != self.round and NEVER < edge.moved < self.round - REST and held is not None:
                back = edge.restart(next_number(edge.number), edge.theirs, edge.seen)
                backs += [] if back is None else [back]
            agrees = self.name is None or (held is not None and edge.agrees(held))
            is_awake = name not in self.resting
            moves.append(update.round == self.round and same[name] and agrees and is_awake)
        return moves, backs

    def _combined(
        self,
        own: Update,
        arrived: Mapping[Hashable, Update],
        parts: Mapping[Hashable, dict[str, Array]],
        moves: list[bool],
    ) -> tuple[dict[str, Any], list[Array | None]]:
        """Every part by its rule, and how far each edge's dual moves, None where it does not."""
        mine, near, theta = self._unpacked(own), self._near, self._layout.theta
        is_used = np.array([name in parts for name in self._known], bool)
        received = self._received(mine, [parts.get(name, mine) for name in self._known])
        summed = [part for part in self._layout.parts if part.rule != "each"]
        incoming = near.combine(summed, mine, received, np.array(moves, bool), is_used)
        for part in self._layout.parts:
            if part.rule == "each":
                acked = [self._acked(arrived.get(name)) for name in self._known]
                values = self._values(part, received[part.name], is_used)
                incoming[part.name] = Each(values, moves, acked, self.round)
        if theta is None:
            return incoming, [None] * len(moves)
        weights = np.ones(len(moves))
        if theta.rule == "pull":
            # By the degrees in the two messages of this round: the same at both ends, whatever was lost.
            weights = np.array(
                [
                    1 / max(1, min(own.degree, arrived[name].degree)) if moving else 0.0
                    for name, moving in zip(self._known, moves, strict=True)
                ]
            )
            if not np.array_equal(weights[moves], near.weights[moves]):
                incoming[theta.name] = near.stepped(incoming[theta.name], received[theta.name], weights)
        apart = mine[theta.name] - received[theta.name]
        moved = [self._weighed(w, by) if m else None for w, by, m in zip(weights, apart, moves, strict=True)]
        if self._rounded is not None and any(moves):
            moving = np.asarray(sum(w for w, m in zip(weights, moves, strict=True) if m))
            self._row.take_back(self._weighed(moving, self._rounded))
        return incoming, moved

    def _received(self, mine: Mapping[str, Array], theirs: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
        """Every part of the neighbours' messages (n, ...), with parameters as the screen leaves them: so far
        the duals move too."""
        found = {
            part.name: np.concatenate([mine[part.name][:0], *(message[part.name] for message in theirs)])
            for part in self._layout.parts
        }
        for part in self._layout.wide if theirs else ():
            rows, name = np.zeros(len(theirs), np.intp), part.name
            found[name] = self.exchange.screened(rows, mine[name], found[name])
        return found

    def _values(self, part: Part, received: Array, is_used: npt.NDArray[np.bool_]) -> list[Array | None]:
        is_screened = self.exchange.screen is not None and part in self._layout.wide
        return [value if used or is_screened else None for value, used in zip(received, is_used, strict=True)]

    def _acked(self, update: Update | None) -> int:
        """The last of our rounds that a neighbour had when it sent this."""
        if update is None:
            return NEVER
        held = update.edges.get(self.name)
        return update.round - 1 if held is None else held.seen

    def _weighed(self, weight: npt.ArrayLike, values: Array) -> Array:
        """Values (..., P, K) times a weight, in the model's precision, as the simulator has them."""
        return np.asarray(np.asarray(weight, self._row.dtype) * values)

    def _unpacked(self, update: Update) -> dict[str, Array]:
        return self._layout.unpack(update.theta, update.scalars, self._row.dtype)

    # Neighbours

    def join(self, neighbour: Hashable, number: int = 0) -> None:
        """A new edge, with a dual of zero; `number` must be new if the edge was there before."""
        self._refuse_open()
        distinct([*self._known, neighbour])
        self._known = {**self._known, neighbour: self._edge(number)}
        self._connect()

    def leave(self, neighbour: Hashable) -> None:
        """Drop an edge, with its dual."""
        gone = self._neighbour(neighbour)
        self._refuse_open()
        self._row.take_back(gone.dual[None])
        for update in gone.inbox.values():
            self._drop(update)
        self._known = {name: one for name, one in self._known.items() if name != neighbour}
        self._connect()

    def reset_edges(self, number: int, neighbours: Iterable[Hashable] | None = None) -> None:
        """Drop the duals of edges whose ends no longer agree: of all, or of those to `neighbours`."""
        self._refuse_open()
        names = self.neighbours if neighbours is None else neighbours
        edges = [self._known[name] for name in names if name in self._known]
        backs = [edge.restart(number, edge.theirs) for edge in edges]
        known = [back for back in backs if back is not None]
        if known:
            self._row.take_back(np.asarray(sum(known))[None])
        self._seen = None

    def skip_to(self, round: int) -> None:
        """Go on at a later round, with those who went on without us; no sample is skipped."""
        self._refuse_open()
        if round < self.round:
            raise InputError(f"round {round} is over; expected {self.round} or later; skip forwards")
        if round > LAST_SKIP:
            raise InputError(f"round {round} is too late; expected at most {LAST_SKIP}; skip less far")
        self.round = round
        for one in self._known.values():
            self._tidy(one)

    def adopt(self, updates: Sequence[Update], share: float = 1.0) -> None:
        """Move the parameters a share of the way to the median of our own and the neighbours'.

        One neighbour alone changes nothing: of two middle values the median is the one nearer to our own. An
        `Auto` learner without samples adopts nothing so: once it has gone through a few rounds of its
        neighbours with `follow`, it has their scale, and predicts as they do.
        """
        self._refuse_open()
        messages = [self._unpacked(update) for update in updates]
        for update, message in zip(updates, messages, strict=True):
            check_within(update.theta, self._most)
            self._row.check(message, update.news)
        for update in updates:
            self._drop(update)
        if updates:
            self._row.adopt(messages, share)
        self._seen = None

    def _edge(self, number: int = 0) -> Neighbour:
        shape = (0, 0) if self._layout.theta is None else self._layout.theta.shape
        return Neighbour(shape, self._row.dtype, number)  # type: ignore[arg-type]

    def _connect(self) -> None:
        """Tell the model who its neighbours are, with degrees as both ends of each edge have sent last."""
        n = len(self._known)
        degrees = np.array([one.degree or n for one in self._known.values()], np.float64)
        self._near = Neighbours(np.array([n], np.float64), [list(range(n))], degrees)
        self._is_weighed = True
        self._row.connect(Around([self.name], [self.neighbours], self._near.weight, self._near.deg))
        self._seen = None

    def _count_restarts(self) -> int:
        return int(self._row.restarts[0])

    def _restart_edges(self) -> None:
        """Where our model has started again, so do its duals."""
        if self._count_restarts() != self._restarts:
            self._restarts = self._count_restarts()
            for edge in self._known.values():
                edge.restart(next_number(edge.number), edge.theirs, edge.seen)

    def _refuse_open(self) -> None:
        if self._pending is not None:
            raise InputError(f"round {self.round} still waits for {self.missing}; close() the round")

    def _neighbour(self, name: Hashable) -> Neighbour:
        if name not in self._known:
            raise PeerError(
                f"{name!r} is not a neighbour; expected one of {self.neighbours}; check the graph"
            )
        return self._known[name]

    # State

    def save(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Complete state between two rounds, as arrays and a description fit for JSON."""
        self._refuse_open()
        return schema.document(
            "learner",
            {
                "model": as_settings(self.model).table,
                "fingerprint": self.fingerprint,
                "name": self.name,
                "targets": self.targets,
                "round": self.round,
                "restarts": self._restarts,
                "neighbours": [[name, one.state()] for name, one in self._known.items()],
                "asked": [*self._asked.values()],
                "row": self._row.state(),
            },
        )

    def load(self, arrays: Mapping[str, npt.NDArray[Any]], meta: Mapping[str, Any]) -> None:
        """Inverse of `save`: with the same engine, to the last bit."""
        state = schema.read("learner", arrays, meta)
        with schema.whole("learner"):
            if state["fingerprint"] != self.fingerprint:
                raise schema.other_settings(state["fingerprint"], self.fingerprint, self._row.must_match)
            self._known, self._pending = {name: self._edge() for name, _ in state["neighbours"]}, None
            for name, kept in state["neighbours"]:
                self._known[name].restore(kept)
            self.round, self._restarts = state["round"], state["restarts"]
            self._asked = {
                np.asarray(kept[0], np.float64).tobytes(): kept for kept in state["asked"][-MOST_ASKED:]
            }
            self._connect()
            self._row.restore(state["row"])


def distinct(neighbours: Sequence[Hashable]) -> tuple[Hashable, ...]:
    """The names, if each is there once."""
    try:
        good = not isinstance(neighbours, str) and len({*neighbours}) == len(neighbours)
    except TypeError:  # no list, or names that cannot be keys
        good = False
    if not good:
        raise InputError(f"neighbours is {neighbours!r}; expected a list of different names; name each once")
    return tuple(neighbours)
