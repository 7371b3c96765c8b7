"""`Auto` with one row: predictions that wait for their labels, and news of scales."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..base import checks
from ..base.errors import InputError, PeerError
from ..base.types import Array, Float
from ..exchange.combine import median
from ..exchange.edges import Neighbour
from ..exchange.message import Exchange, Shapes, Update
from ..learning.auto import AutoRows
from ..learning.auto.model import Mixed, Prediction
from ..learning.auto.scale import EXACT, Summary
from ..learning.settings import Auto, describe
from .row import Learnt, ModelRow, digest

#: Predictions that are kept until their labels come.
MOST_ASKED = 1000
#: Settings that each learner may choose for itself.
OWN = ("outliers", "bounds")


class AutoRow(ModelRow):
    """One device of a network that learns with `Auto`."""

    alike = "model, inputs, dtype and payload"
    model: AutoRows

    def __init__(
        self, settings: Auto, inputs: int, exchange: Exchange, name: Hashable, dtype: Float, lockstep: bool
    ) -> None:
        kind = checks.float_type(dtype)
        alike = {name: value for name, value in describe(settings).items() if name not in OWN}
        about = f"{alike} {inputs} {kind} {exchange.payload} {lockstep}"
        super().__init__(AutoRows(settings, inputs, [name], dtype=kind), exchange, digest(about))
        self.asked: dict[bytes, Prediction] = {}  # what was last predicted for an x, until its label comes
        self._seen: Prediction | None = None  # the last prediction, while nothing was learnt since

    @property
    def shapes(self) -> Shapes:
        wide, small = self.layout.sizes
        return Shapes((1, wide), small, self.model.d + self.model.m)

    @property
    def parameters(self) -> Any:
        return self.model.consensus if self.model.is_scaled else None

    # Samples

    def predict(self, x: npt.ArrayLike, round: int) -> float:
        """Predict, and remember it until the label comes: experts are judged by what they predicted then."""
        found = self._predict(x)
        key = found.x.tobytes()
        self.asked.pop(key, None)
        self.asked[key] = found._replace(solved=None, terms=None)
        if len(self.asked) > MOST_ASKED:
            del self.asked[next(iter(self.asked))]
        return float(found.y_hat[0])

    def _predict(self, x: npt.ArrayLike) -> Any:
        sample = np.asarray(checks.floats("x", x))
        if self._seen is None or not np.array_equal(self._seen.x[0], sample, equal_nan=True):
            self._seen = super()._predict(x)
        return self._seen

    def _asked(self, prediction: Any) -> Any:
        return self.asked.pop(prediction.x.tobytes(), None)

    def learn(self, x: npt.ArrayLike, y: float, round: int) -> Learnt:
        learnt = super().learn(x, y, round)
        self._seen = None
        return learnt

    def merge(self, *about: Any) -> list[Array | None]:
        self._seen = None
        return super().merge(*about)

    # Messages

    def check(self, update: Update) -> None:
        super().check(update)
        number = float(self._unpacked(update)["scale"][0])
        if not (0 <= number <= EXACT and number == int(number)):
            raise PeerError(f"a message has scale {number}; expected a whole number; fix that learner")
        if len(update.news) > self.model.scale.limit:
            raise PeerError(f"a message has {len(update.news)} summaries; expected fewer; fix that learner")
        columns, last = self.model.d + self.model.m, self.model.scale.last
        try:
            for one in update.news.values():
                Summary.check(one, columns, last)
        except InputError as error:
            raise PeerError(f"{error}; fix that learner") from None

    def same(self, update: Update) -> bool:
        mine, theirs = float(self.model.scale.number[0]), float(self._unpacked(update)["scale"][0])
        return mine == theirs != 0

    def believes(self, received: Sequence[Update | None]) -> list[bool | None]:
        """Those on another scale are not used, and not judged either."""
        arrived = [self._unpacked(update) for update in received if update is not None]
        if not arrived:
            return [None] * len(received)
        sent = {name: np.concatenate([one[name] for one in arrived])[None] for name in self.model.judges}
        used = iter(self.model.believes([0], sent)[0].tolist())
        return [None if update is None else next(used) for update in received]

    def connect(self, known: Mapping[Hashable, Neighbour]) -> None:
        """A neighbour that is new needs to hear all we know."""
        new = known.keys() - self.known.keys()
        super().connect(known)
        if new:
            self.model.scale.repeat()
        near = self.neighbours()
        self.model.reweigh(near.weight, near.deg)
        self._seen = None

    def adopt(self, updates: Sequence[Update], share: float) -> None:
        """Move a share of the way to the median of those with our scale; one without samples takes theirs."""
        self.hear({("adopted", i): update for i, update in enumerate(updates)})
        consensus = self.model.consensus
        thetas = [self._unpacked(update)["theta"] for update in updates if self.same(update)]
        if self.model.is_scaled and thetas:
            consensus.adopt(consensus.theta + share * (median(consensus.theta, thetas) - consensus.theta))
            self._seen = None

    # State

    def state(self) -> dict[str, Any]:
        asked = [[one.x, *one.whole, *one.apart] for one in self.asked.values()]
        return {**super().state(), "asked": asked}

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        self._seen, self.asked = None, {}
        for x, *rest in state["asked"][-MOST_ASKED:]:
            whole, apart = Mixed(*rest[:4]), Mixed(*rest[4:])
            x = np.ascontiguousarray(x, np.float64)
            self.asked[x.tobytes()] = Prediction(x, whole.y[:, 0], whole, apart)
