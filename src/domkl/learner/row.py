"""A model with one row, as `Learner` drives it: samples and messages in, messages out."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from ..base import checks
from ..base.errors import PeerError
from ..base.types import Array
from ..exchange.combine import Neighbours
from ..exchange.edges import Neighbour
from ..exchange.message import Exchange, Layout, Shapes, Update, check_within, most_parameter
from ..learning import losses
from ..learning.model import Model

#: What a sample gave: y_hat before it was learnt, y, the weights at that time, and what is sent: theta
#: (P, K), scalars and news. A plain tuple, as a named one costs a lone learner 5 % of its time.
Learnt: TypeAlias = "tuple[float, float, Array, Array, Array | None, Mapping[Hashable, Any]]"


class LearnerRow(Protocol):
    """One learner's model in a network of devices."""

    alike: str  # what must be the same at all learners, in words
    settings_digest: str
    needs_used: bool  # whether neighbours must know which of their messages were used, not only which came
    closes_alone: bool  # whether a learner without neighbours has ended its round when it has learnt
    alone: float | None  # what own samples only predicted for the last sample; None where nothing can tell

    @property
    def restarts(self) -> int:
        """How often its parameters, and so its duals, have started again."""

    @property
    def shapes(self) -> Shapes:
        """Shapes of its messages."""

    @property
    def weights(self) -> Array:
        """Weights of its kernels or experts. (n,)"""

    @property
    def parameters(self) -> Any:
        """theta, lam, ... between two rounds; None before the first label."""

    def predict(self, x: npt.ArrayLike, round: int) -> float:
        """The network's function, as this learner knows it, at x."""

    def ask(self, x: npt.ArrayLike) -> float:
        """The same, without remembering anything."""

    def learn(self, x: npt.ArrayLike, y: float, round: int) -> Learnt:
        """Learn a sample; opens a round, or closes it at once where there are no neighbours."""

    def check(self, update: Update) -> None:
        """Refuse values in a neighbour's message that no learner can have."""

    def same(self, update: Update) -> bool:
        """Whether a neighbour's parameters mean the same here, so that duals may move."""

    def hear(self, received: Mapping[Hashable, Update]) -> None:
        """Take what messages bring besides parameters."""

    def believes(self, received: Sequence[Update | None]) -> list[bool | None]:
        """Whether each neighbour's message is used; None where it did not come or cannot be judged."""

    def merge(
        self,
        own: Update,
        received: Sequence[Update | None],
        moves: Sequence[bool],
        backs: Sequence[Array],
    ) -> list[Array | None]:
        """End the round; returns how far each edge's dual has moved. `backs` are moves to take back."""

    def connect(self, known: Mapping[Hashable, Neighbour]) -> None:
        """The neighbours are others from now on."""

    def take_back(self, moves: Sequence[Array]) -> None:
        """Take moves of edges' duals out of lam, between two rounds."""

    def adopt(self, updates: Sequence[Update], share: float) -> None:
        """Move the parameters a share of the way to the median of our own and the neighbours'."""

    def state(self) -> dict[str, Any]:
        """State between two rounds, by name."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Inverse of `state`."""

    def new_neighbour(self, number: int) -> Neighbour:
        """What is known of a neighbour at first."""


class ModelRow:
    """Any model of `learning.model`, with one row and an inbox for an exchange."""

    alike = "model, inputs, dtype and exchange"
    needs_used = closes_alone = False
    alone: float | None = None

    def __init__(self, model: Model, exchange: Exchange, digest: str) -> None:
        self.model, self.exchange = model, exchange
        self.settings_digest, self.layout = digest, Layout(model.parts)
        self.known: Mapping[Hashable, Neighbour] = {}
        self.degrees: dict[Hashable, int] = {}  # of the neighbours, as they sent them
        self.outgoing: dict[str, Array] = {}  # of the open round, before rounding

    @property
    def shapes(self) -> Shapes:
        wide, small = self.layout.sizes
        return Shapes((1, wide), small)

    @property
    def weights(self) -> Array:
        return np.asarray(self.model.weights[0])

    @property
    def restarts(self) -> int:
        return int(self.model.restarts[0])

    @property
    def parameters(self) -> Any:
        return self.model.parameters

    def predict(self, x: npt.ArrayLike, round: int) -> float:
        return float(self._predict(x).y_hat[0])

    def ask(self, x: npt.ArrayLike) -> float:
        return float(ModelRow._predict(self, x).y_hat[0])

    def _predict(self, x: npt.ArrayLike) -> Any:
        sample = checks.floats("x", x)
        remedy = "every sample needs the same inputs, NaN where one is missing"
        checks.shape("x", sample, (self.model.d,), remedy)
        return self.model.predict(checks.finite_or_missing("x", sample)[None].copy())

    def learn(self, x: npt.ArrayLike, y: float, round: int) -> Learnt:
        prediction = self._predict(x)
        label = losses.one_label(self.model.loss, y)
        weights = self.weights
        earlier = self._asked(prediction)
        alone = self.model.alone(prediction if earlier is None else earlier)
        self.alone = float(alone[0]) if len(alone) else None
        self.outgoing = self.model.learn(prediction, label[None], earlier)
        theta, scalars = self.layout.pack(self.outgoing)
        sent = self.exchange.outgoing(theta, self._most)
        sent.flags.writeable = False  # it leaves in an Update, and the edges' duals need it
        news = self.model.news()
        about = float(prediction.y_hat[0]), float(label), weights
        return (*about, sent, scalars, news[0] if news and self.known else {})

    def _asked(self, prediction: Any) -> Any:
        """The prediction as it was when the sample was new."""
        return None

    def check(self, update: Update) -> None:
        if not 0 <= update.degree <= 2**16:
            raise PeerError(f"degree is {update.degree}; expected 0 to {2**16}; fix that learner")
        check_within(update.theta, self._most)

    @property
    def _most(self) -> float:
        """The largest parameter that is sent or accepted."""
        return most_parameter(self.model.dtype, self.model.largest)

    def same(self, update: Update) -> bool:
        return True

    def hear(self, received: Mapping[Hashable, Update]) -> None:
        for name in received.keys() & self.known.keys():  # also those whose parameters will not be used
            self.degrees[name] = max(1, received[name].degree)
        for update in received.values():
            if update.news:
                self.model.hear(0, update.news)

    def believes(self, received: Sequence[Update | None]) -> list[bool | None]:
        """By the model, as far as parameters mean the same here."""
        means = [self.layout.theta is not None and u is not None and self.same(u) for u in received]
        judged = [
            self._unpacked(u) for u, same in zip(received, means, strict=True) if u is not None and same
        ]
        if not judged or not self.model.judges:
            return [same or None for same in means]
        sent = {
            name: np.concatenate([message[name] for message in judged])[None]
            for name in self.model.judges
            if name in judged[0]
        }
        used = iter(self.model.believes([0], sent)[0])
        return [bool(next(used)) if same else None for same in means]

    def merge(
        self,
        own: Update,
        received: Sequence[Update | None],
        moves: Sequence[bool],
        backs: Sequence[Array],
    ) -> list[Array | None]:
        self.take_back(backs)
        mine = self._unpacked(own)
        meant = [dict(mine) if update is None else self._unpacked(update) for update in received]
        theirs = self._screened(mine, meant)
        near = self.neighbours(received)
        senders = {name: np.concatenate([m[name] for m in (*theirs, mine)]) for name in mine}
        moving, absent = np.array([*moves, False]), np.array([*(u is None for u in received), False])
        refused = absent if absent.any() else None
        everyone = all(moves) and refused is None
        incoming = near.combine(
            self.layout.parts, mine, senders, None if everyone else moving, refused=refused
        )
        moved = self._move_duals(mine, theirs, moves, near)
        if self.layout.theta is not None:
            name = self.layout.theta.name
            self._take_back_rounding(mine[name], self.outgoing[name], incoming[name].moving)
        self.model.reweigh(near.weight, near.deg)  # first: what is learnt again in `merge` has these weights
        self.model.merge(incoming)
        return moved

    def _screened(self, mine: Mapping[str, Array], theirs: list[dict[str, Array]]) -> list[dict[str, Array]]:
        """The neighbours' messages with parameters as the screen leaves them: so far the duals move too."""
        if self.exchange.screen is None or not theirs:
            return theirs
        for part in self.layout.wide:
            sent = np.concatenate([message[part.name] for message in theirs])
            kept = self.exchange.screen(mine[part.name][0], sent)
            for message, value in zip(theirs, kept, strict=True):
                message[part.name] = value[None]
        return theirs

    def _move_duals(
        self,
        mine: Mapping[str, Array],
        theirs: Sequence[Mapping[str, Array]],
        moves: Sequence[bool],
        near: Neighbours,
    ) -> list[Array | None]:
        """How far each edge's dual moves; None where it does not."""
        if self.layout.theta is None:
            return [None] * len(theirs)
        name = self.layout.theta.name
        return [
            self._weighed(near.slots[k].weight, mine[name] - message[name])[0] if moves[k] else None
            for k, message in enumerate(theirs)
        ]

    def _weighed(self, weight: Array, values: Array) -> Array:
        """Values (1, P, K) times a weight (1,), in the model's precision, as the simulator has them."""
        return np.asarray(np.asarray(weight, self.model.dtype) * values)

    def _take_back_rounding(self, sent: Array, theta: Array, moving: Array) -> None:
        """Neighbours have theta as it was sent, and so must the duals."""
        rounded = self._weighed(moving, theta - sent)
        if rounded.any():
            self.model.take_back(rounded)

    def _unpacked(self, update: Update) -> dict[str, Array]:
        return self.layout.unpack(update.theta, update.scalars, self.model.dtype)

    def neighbours(self, received: Sequence[Update | None] = ()) -> Neighbours:
        """With degrees as both ends of each edge have sent in this round, or the last that are known."""
        for name, update in zip(self.known, received, strict=False):
            if update is not None:
                self.degrees[name] = max(1, update.degree)
        deg = len(self.known)
        degrees = np.array([self._degree(name) for name in self.known], np.float64)
        return Neighbours(np.array([deg], np.float64), [list(range(deg))], degrees)

    def _degree(self, name: Hashable) -> int:
        """As a neighbour has sent it; before that, as many as our own."""
        return self.degrees.get(name, len(self.known))

    def connect(self, known: Mapping[Hashable, Neighbour]) -> None:
        self.known = known
        self.degrees = {name: deg for name, deg in self.degrees.items() if name in known}

    def take_back(self, moves: Sequence[Array]) -> None:
        if moves:
            self.model.take_back(np.asarray(sum(moves))[None])

    def adopt(self, updates: Sequence[Update], share: float) -> None:
        """A model that does not say how keeps its own parameters."""

    def state(self) -> dict[str, Any]:
        degrees = [[name, degree] for name, degree in self.degrees.items()]
        return {"model": self.model.state(), "degrees": degrees}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.degrees = dict(state["degrees"])
        self.model.restore(state["model"])

    def new_neighbour(self, number: int) -> Neighbour:
        P, K = (0, 0) if self.layout.theta is None else self.layout.theta.shape
        return Neighbour(P, K, self.model.dtype, number)


def digest(*values: Any) -> str:
    """Sixteen hexadecimal digits of settings and arrays."""
    made = hashlib.sha256()
    for value in values:
        made.update(value.tobytes() if isinstance(value, np.ndarray) else f"{value} ".encode())
    return made.hexdigest()[:16]
