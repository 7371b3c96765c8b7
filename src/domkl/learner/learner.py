"""One learner as a state machine: no socket, clock or randomness.

    update = learner.observe(x, y)        # predict, learn, and get what the neighbours must receive
    learner.receive("b", update_from_b)   # in any order, early, late or twice
    learner.waiting, learner.missing      # whom the round still waits for
    learner.close()                       # go on without them
    learner.save(), learner.load(...)     # its complete state, to the last bit
    learner.join("d"), learner.leave("b") # the graph changes

A round closes by itself once every neighbour's update is in. `asynchronous=True` waits for nobody.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import engines
from ..base import checks
from ..base.errors import InputError
from ..base.types import Array, Float
from ..exchange.message import Exchange, Shapes, Update, as_exchange, check_update
from ..learning.auto import explain
from ..learning.explain import Effects, Function, Usual, effects
from ..learning.first_order import Step
from ..learning.model import ModelMaker
from ..learning.settings import Auto, ModelSettings, Paper, check_model
from . import schema
from .auto_row import AutoRow
from .handed import HandedAuto, HandedModel, HandedPaper
from .handed_row import HandedAutoRow, HandedPaperRow
from .inbox import distinct
from .merged import MergedRounds
from .paper_row import PaperRow
from .row import LearnerRow, ModelRow, digest


class Learner(MergedRounds):
    """One device of a network.

    Parameters
    ----------
    model : `domkl.Auto()` (the default) or `domkl.Paper(...)`, or a model that was handed over, read with
        `domkl.learner.handed.read`; the same at every learner.
    neighbours : their names; sums run in this order.
    name : what its neighbours call it. Learners that know each other's names agree, edge by edge, on the
        rounds that moved their duals, whatever is lost; `Paper` learners that lose nothing may do without.
    inputs : of a sample; `Paper` with given frequencies knows it.
    exchange : `domkl.Exchange(...)`: how messages are changed on their way; the same at every learner.
    asynchronous : every sample closes its round at once, with what is new from each neighbour; no duals.
    number : of this learner's life; one that starts again without its state needs a new one.
    engine, dtype : as in `domkl.simulate`; with the same engine, the bits are the simulator's. A handed
        `Paper` keeps the precision that it was taught in.

    Nothing else of the network needs to be known.
    One that joins a network which has learnt already calls `adopt` with its neighbours' last updates and
    `skip_to` their round before its first sample, and predicts that one as they would.

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
        model: ModelSettings | HandedModel | ModelMaker | None = None,
        neighbours: Sequence[Hashable] = (),
        *,
        name: Hashable = None,
        inputs: int | None = None,
        exchange: Exchange | None = None,
        asynchronous: bool = False,
        number: int = 0,
        engine: str = "auto",
        dtype: Float = np.float64,
    ) -> None:
        given = Auto() if model is None else model
        self.model: Any = given if isinstance(given, HandedAuto | HandedPaper) else check_model(given)
        self.exchange = as_exchange(exchange)
        self.engine, self.dtype = engine, checks.float_type(dtype)
        self._row = self._make_row(name, inputs, not asynchronous)
        super().__init__(name, asynchronous, self._row)
        self.fingerprint = self._row.settings_digest
        self._known = {neighbour: self._row.new_neighbour(number) for neighbour in distinct(neighbours)}
        self._row.connect(self._known)
        self._last: tuple[int, Hashable, float, float, Array] | None = None

    def _make_row(self, name: Hashable, inputs: int | None, lockstep: bool) -> LearnerRow:
        if isinstance(self.model, HandedAuto | HandedPaper) and inputs not in (None, self.model.inputs):
            raise InputError(f"inputs is {inputs}; expected {self.model.inputs}, as taught; leave it out")
        if isinstance(self.model, Auto | HandedAuto) and name is None:
            raise InputError("name is not given; expected one with model Auto(); pass name=")
        if isinstance(self.model, HandedAuto):
            return HandedAutoRow(self.model, self.exchange, name, self.dtype, lockstep)
        if isinstance(self.model, Paper | HandedPaper):
            return self._make_paper_row(name, inputs, lockstep)
        if inputs is None:
            raise InputError("inputs is not given; expected the number of inputs of a sample; pass inputs=")
        d = checks.count("inputs", inputs)
        if isinstance(self.model, Auto):
            return AutoRow(self.model, d, self.exchange, name, self.dtype, lockstep)
        engines.refuse_choice(self.engine)
        made = self.model.make(1, d, self.dtype)
        about = self.model, d, self.dtype, self.exchange.payload, lockstep
        return ModelRow(made, self.exchange, digest(*map(repr, about)))

    def _make_paper_row(self, name: Hashable, inputs: int | None, lockstep: bool) -> PaperRow:
        if isinstance(self.model, HandedPaper):
            row: PaperRow = HandedPaperRow(self.model, self.exchange, self.engine, lockstep)
        else:
            row = PaperRow(self.model, inputs, self.exchange, self.engine, self.dtype, lockstep)
        row.name = name
        return row

    # What it knows

    @property
    def shapes(self) -> Shapes:
        """Shapes of the arrays in its updates."""
        return self._row.shapes

    @property
    def weights(self) -> Array:
        """Weights of its kernels (`Paper`) or experts (`Auto`)."""
        return self._row.weights

    def explain(self, names: Sequence[str] = ()) -> Effects | None:
        """Which inputs matter to its predictions now; None before the first label, or if a model cannot tell.

        Only `Auto` can. It takes as long as some hundred predictions for each input.
        """
        found = self.as_function()
        if found is None or not isinstance(self._row, AutoRow):
            return None
        d = self._row.model.d
        return effects(*found, names or [f"x{i}" for i in range(d)], [[i] for i in range(d)])

    def as_function(self) -> tuple[Function, Usual] | None:
        """What it predicts now, for many samples at once, and usual values of its inputs; None as `explain`.

        Both hold the parameters of now, and may be called in another thread while it learns on.
        """
        if not isinstance(self._row, AutoRow) or not self._row.model.is_scaled:
            return None
        return explain.function(self._row.model, 0), explain.usual(self._row.model, 0)

    @property
    def state(self) -> Any:
        """Parameters and duals between two rounds; `save` has everything."""
        return self._row.parameters

    @property
    def step(self) -> Step | None:
        """What happened when it last observed."""
        return None if self._last is None else Step(*self._last, self._row.alone)

    # Rounds

    def predict(self, x: npt.ArrayLike) -> float:
        """The network's function, as this learner knows it, at x."""
        return self._row.predict(x, self.round)

    def ask(self, x: npt.ArrayLike) -> float:
        """The same for whoever wants to know, at any time: nothing is remembered, and no label is awaited."""
        return self._row.ask(x)

    def observe(self, x: npt.ArrayLike, y: float) -> Update:
        """Predict, learn from (x, y), and return the update for the neighbours.

        A label that comes late is observed when it comes: `step.y_hat` is then what the learner predicts at
        that moment, not what `predict` gave when x was new.
        """
        if self._pending is not None:
            self._refuse_open("receive() them or close() the round")
        row, t = self._row, self.round
        y_hat, y, weights, theta, scalars, news = row.learn(x, y, t)
        self._last = t, self.name, y, y_hat, weights
        if not self._known and row.closes_alone:
            self.round = t + 1
            return Update(t, theta, scalars, self.fingerprint)
        self._restart_edges()
        about = self.fingerprint, self.edges, len(self._known)
        update = Update(t, theta, scalars, *about, news)
        self._pending = update
        if self.asynchronous or not self._known:
            self.close()
        else:
            self._close_if_complete()
        return update

    # Neighbours

    def check(self, neighbour: Hashable, update: Update, *, decoded: bool = False) -> None:
        """Refuse an update that cannot be right; `decoded`: a decoder has checked all but its meaning."""
        if not decoded:
            check_update(neighbour, update, self.fingerprint, self._row.alike, self.shapes)
        self._row.check(update)

    def join(self, neighbour: Hashable, number: int = 0) -> None:
        """A new edge, with a dual of zero; `number` must be new if the edge was there before."""
        self._refuse_open("close() the round")
        distinct([*self._known, neighbour])
        self._known = {**self._known, neighbour: self._row.new_neighbour(number)}
        self._row.connect(self._known)

    def leave(self, neighbour: Hashable) -> None:
        """Drop an edge, with its dual."""
        self._refuse_stranger(neighbour)
        self._refuse_open("close() the round")
        self._row.take_back([self._known[neighbour].edge.dual])
        self._drop_messages(neighbour)
        self.trust.pop(neighbour, None)
        self._known = {name: one for name, one in self._known.items() if name != neighbour}
        self._row.connect(self._known)

    def adopt(self, updates: Sequence[Update], share: float = 1.0) -> None:
        """Move the parameters a share of the way to the median of our own and the neighbours'.

        One neighbour alone changes nothing: of two middle values the median is the one nearer to our own. An
        `Auto` learner without samples has nothing of its own: it starts with the scale that most of them
        have, and the median of those who have it.
        """
        self._refuse_open("close() the round")
        for update in updates:
            self._row.check(update)
        if updates:
            self._row.adopt(updates, share)

    # State

    def save(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Complete state between two rounds, as arrays and a description fit for JSON."""
        self._refuse_open("close() the round")
        return schema.save_learner(self)

    def load(self, arrays: Mapping[str, npt.NDArray[Any]], meta: Mapping[str, Any]) -> None:
        """Inverse of `save`: with the same engine, to the last bit."""
        schema.load_learner(self, arrays, meta)
