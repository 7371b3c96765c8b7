"""One learner as a state machine: no socket, no clock, no chance.

    update = learner.observe(x, y)        # predict, learn, and get what the neighbours must hear
    learner.receive("b", update_from_b)   # in any order, early, late or twice
    learner.waiting, learner.missing      # whom the round still waits for
    learner.close()                       # go on without them
    learner.save(), learner.load(...)     # its whole mind, to the last bit
    learner.join("d"), learner.leave("b") # the graph changes

A round closes by itself once every neighbour's update is in. `asynchronous=True` waits for nobody.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import engines
from ..base import checks
from ..base.errors import InputError
from ..base.types import Array, Float
from ..engines.devices import Kept
from ..exchange.edges import Neighbour
from ..learning import hedge as hedging
from ..learning import kernels, losses
from ..learning.first_order import Rates, State, check_rates, check_step
from ..learning.losses import Loss
from .member import PAYLOADS, Member, Shapes, Update, distinct


class Learner(Member):
    """One device of a network.

    Parameters
    ----------
    V : the network's frequencies (P, D, d), the same at every learner.
    neighbours : their names; sums run in this order.
    rates, loss, hedge, step, memory : as in `domkl.simulate`, the same at every learner.
    name : what its `Step`s and its neighbours call it. Learners that know each other's names agree, edge by
        edge, on the rounds that moved their duals, whatever is lost; without names nothing may be lost.
    engine : as in `domkl.simulate`; with the same engine, the bits are the simulator's.
    payload : the precision of what is sent, "float64", "float32" or "float16"; the same at every learner.
    asynchronous : every sample closes its round at once, with what is new from each neighbour; no duals.
    number : of this learner's life; one that starts again without its memory needs a new one.

    Examples
    --------
    >>> import domkl
    >>> V = domkl.kernels.gaussian(d=1, D=10, seed=0)
    >>> rates = domkl.Rates(rho=0.1, eta=0.1, eta_g=1.0)
    >>> a, b = domkl.Learner(V, ["b"], rates), domkl.Learner(V, ["a"], rates)
    >>> for x in (0.1, 0.5, 0.9, 0.5):
    ...     from_a, from_b = a.observe([x], 2 * x), b.observe([x / 2], x)
    ...     assert a.missing == ("b",)
    ...     _ = a.receive("b", from_b), b.receive("a", from_a)
    >>> round(a.predict([0.5]), 1)
    1.0
    """

    def __init__(
        self,
        V: npt.ArrayLike,
        neighbours: Sequence[Hashable],
        rates: Rates,
        *,
        loss: str | Loss = "squared",
        hedge: str = "neighbours",
        step: str = "first",
        memory: float | None = None,
        name: Hashable = None,
        engine: str = "auto",
        dtype: Float = np.float64,
        payload: str = "float64",
        asynchronous: bool = False,
        number: int = 0,
    ) -> None:
        self.V = kernels.check(V, dtype=dtype)
        self.rates, self.loss, self.hedge = check_rates(rates), losses.get(loss), hedging.rule(hedge)
        self.order, self.memory = check_step(step, memory), memory
        super().__init__(neighbours, name, checks.one_of("payload", payload, PAYLOADS), asynchronous, number)
        self._refuse_messages_out_of_step()
        self.fingerprint = _fingerprint(self)
        self._engine = engine
        # The native device checks samples itself, and quicker; what it refuses is looked at here.
        self._quick = engines.chosen(engine) == "native" and not self.loss.classifies
        self._pending: tuple[Array, Array, Array] | None = None  # theta', as sent, and L', until close
        self._device = self._make_device()

    def _refuse_messages_out_of_step(self) -> None:
        if self.asynchronous and self.hedge == "messages":
            raise InputError(
                "hedge is 'messages' for an asynchronous learner; expected rounds that all share; "
                "use 'neighbours' or 'local'"
            )

    def _stranger(self, number: int) -> Neighbour:
        P, D, _ = self.V.shape
        return Neighbour(P, 2 * D, self.V.dtype, number)

    def _make_device(self) -> engines.Device:
        setting = self._engine, self.V, len(self._known), self.rates, self.loss, self.hedge
        if self.order == "newton":
            device = engines.make_newton_device(*setting, self.memory)
        else:
            device = engines.make_device(*setting)
        self._observe = device.observe if self._known else device.alone
        return device

    @property
    def shapes(self) -> Shapes:
        """Of its updates."""
        P, D, _ = self.V.shape
        return Shapes((P, 2 * D), P if self.hedge != "local" else 0, dtype=self.V.dtype)

    @property
    def weights(self) -> Array:
        """Of its kernels."""
        return self._device.q

    @property
    def state(self) -> State:
        """What the learner knows between two rounds; `save` has a second-order learner's matrices too."""
        return self._device.state

    def predict(self, x: npt.ArrayLike) -> float:
        """The network's function, as this learner knows it, at x."""
        if self._quick:
            try:
                return self._device.predict(x)  # type: ignore[arg-type]
            except (TypeError, ValueError):
                pass
        return self._device.predict(self._sample(x))

    def observe(self, x: npt.ArrayLike, y: float) -> Update:
        """Predict, learn from (x, y), and return the update for the neighbours.

        A label that comes late is observed when it comes: `step.y_hat` is then what the learner would
        have said at that moment, not what `predict` said when x was new.
        """
        self._refuse_open("receive() them or close() the round")
        q, t = self._device.q, self.round
        y_hat, theta, L = self._learn(x, y)
        if not self._known:
            self._last = t, self.name, y, y_hat, q
            self.round = t + 1
            return Update(t, theta, L if self.hedge != "local" else None, self.fingerprint)
        self._pending = theta, self._as_sent(theta), L
        self._last = t, self.name, y, y_hat, q
        return self._open_round()

    def close(self) -> None:
        """End the open round without the missing neighbours.

        A missing neighbour does not pull at all in the next step, and the dual moves only for edges that
        were heard; if the other end did not hear us, it takes its own move back, or we ours.
        """
        if self._pending is None:
            raise InputError("no round is open; expected one; call observe() first")
        theta, sent, L = self._pending
        heard, thetas, moving, backs = self._inbox.pop(self._box, {}), [], [], []
        for i, (name, one) in enumerate(self._known.items()):
            update = heard.get(name)
            if update is None:
                one.theta = theta
            else:
                one.theta, held = update.theta, update.heard.get(self.name)
                back = None if held is None else one.edge.settle(held, update.round - 1)
                if back is not None:
                    backs.append(back)
                if self._agrees(one, held):
                    moving.append(i)
            thetas.append(one.theta)
        self._device.close(thetas, moving, self._total(L, heard))
        for i, (name, one) in enumerate(self._known.items()):
            if name in heard:
                one.edge.seen = heard[name].round
            if i in moving:
                one.edge.move(self.round, sent - one.theta, self.name is not None)
        if sent is not theta and moving:  # neighbours hold the rounded estimate, so the duals must too
            backs.append(len(moving) * (theta - sent))
        self._pending = None
        self.round += 1
        self._take_back(backs)

    @property
    def _box(self) -> int:
        """Where updates for the open round wait; an asynchronous learner's rounds are nobody else's."""
        return 0 if self.asynchronous else self.round

    def join(self, neighbour: Hashable, number: int = 0) -> None:
        """A new edge, with a dual of zero; `number` must be new if the edge was there before.

        Like a missing neighbour, it does not pull before it is heard.
        """
        self._refuse_open("close() the round")
        distinct([*self._known, neighbour])
        kept, unit = self._device.keep(), self._device.unit
        self._known[neighbour] = self._stranger(number)
        self._known[neighbour].theta = kept.theta
        self._rebuild(kept, unit)

    def leave(self, neighbour: Hashable) -> None:
        """An edge less: it takes its dual along."""
        self._refuse_stranger(neighbour)
        self._refuse_open("close() the round")
        self._take_back([self._known[neighbour].edge.dual])
        kept, unit = self._device.keep(), self._device.unit
        self._forget(neighbour)
        del self._known[neighbour]
        self._rebuild(kept, unit)

    def adopt(self, update: Update, share: float = 1.0) -> None:
        """Move the estimate a share of the way to a neighbour's; the whole way takes over its losses too."""
        self._refuse_open("close() the round")
        kept = self._device.keep()
        theta = update.theta if share == 1 else kept.theta + share * (update.theta - kept.theta)
        kept = kept._replace(theta=theta)
        if share == 1 and update.losses is not None and self.hedge != "messages":
            q = hedging.weights(update.losses * (1 + len(self._known)), self.rates.eta_g)
            kept = kept._replace(L=update.losses, q=q)
        self._go_on_from(kept)

    def _go_on_from(self, kept: Kept) -> None:
        """With another estimate; what we knew of the neighbours' was of the time before."""
        for one in self._known.values():
            one.theta = kept.theta
        self._device.resume(kept, self._thetas())

    def save(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Its whole mind between two rounds, as arrays and a description fit for JSON."""
        self._refuse_open("close() the round")
        arrays = self._device.keep().arrays()
        edges, said = self._save_edges()
        arrays |= edges
        meta = {"fingerprint": self.fingerprint, "round": self.round, "unit": self._device.unit}
        return arrays, {**meta, "neighbours": said}

    def load(self, arrays: Mapping[str, Array], meta: Mapping[str, Any]) -> None:
        """Go on from what `save` gave: with the same engine, to the last bit."""
        self._load_edges(arrays, meta)
        self._rebuild(Kept.of(arrays), meta["unit"])

    def _open_round(self) -> Update:
        assert self._pending is not None
        _, sent, L = self._pending
        if self.hedge == "messages":
            for one in self._known.values():
                one.pass_on(self.round, self._belief(L))
        update = Update(self.round, sent, self._shared(L), self.fingerprint, self.heard)
        if self.asynchronous:
            self.close()
        self._close_if_complete()
        return update

    def _take_back(self, moves: Sequence[Array]) -> None:
        """Take moves of edges' duals out of lam."""
        if moves:
            kept = self._device.keep()
            lam = kept.lam - sum(moves) * (self.rates.rho / 2 / self._device.unit)
            self._device.resume(kept._replace(lam=lam), self._thetas())

    def _thetas(self) -> list[Array]:
        return [one.theta for one in self._known.values()]

    def _rebuild(self, kept: Kept, unit: float) -> None:
        """A device for as many neighbours as there are now, with the same mind."""
        self._device = self._make_device()
        if unit != self._device.unit:
            kept = kept._replace(lam=kept.lam * (unit / self._device.unit))
        self._device.resume(kept, self._thetas())

    def _learn(self, x: npt.ArrayLike, y: float) -> tuple[float, Array, Array]:
        if self._quick:
            try:
                return self._observe(x, y)  # type: ignore[arg-type]
            except (TypeError, ValueError):
                pass
        sample, label = self._sample(x), float(losses.one_label(self.loss, y, self.V.dtype))
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                return self._observe(sample, label)
        except ValueError:
            raise InputError(
                "learning this sample would overflow; expected x and y of moderate size; "
                "scale them, for example to [0, 1]"
            ) from None

    def _shared(self, L: Array) -> Array | None:
        """What the neighbours hear about our losses."""
        if self.hedge == "local":
            return None
        return L if self.hedge == "neighbours" else self._belief(L)

    def _belief(self, L: Array) -> Array:
        return L + self._sum([one.received for one in self._known.values()])

    def _total(self, L: Array, heard: Mapping[Hashable, Update]) -> Array:
        """The losses that enter Hedge's exponent, (P,)."""
        if self.hedge == "local":
            return L
        if self.hedge == "neighbours":
            for name, update in heard.items():
                self._known[name].losses = _losses(update)
            return L + self._sum([one.losses for one in self._known.values()])
        belief = self._belief(L)
        for name, update in heard.items():
            held = update.heard.get(self.name)
            used = held.seen if held is not None else self.round - 1
            self._known[name].take_losses(_losses(update), used)
        return belief

    def _sum(self, values: list[Array]) -> Array:
        if not values:
            return np.zeros(len(self.V), self.V.dtype)
        return functools.reduce(np.add, values)

    def _sample(self, x: npt.ArrayLike) -> Array:
        array = checks.floats("x", x, self._device.takes)
        remedy = "every sample needs the features the kernels were made for"
        checks.shape("x", array, self.V.shape[2:], remedy)
        return checks.finite("x", np.ascontiguousarray(array))


def _losses(update: Update) -> Array:
    assert update.losses is not None  # receive() has checked it
    return update.losses


def _fingerprint(learner: Learner) -> str:
    """Of everything that learners must share for consensus to have a meaning."""
    V, loss = learner.V, learner.loss
    text = f"{kernels.fingerprint(V)} {V.dtype} {learner.rates} {loss.name} {loss.reg!r} {loss.delta!r} "
    text += f"{learner.hedge} {learner.payload} {learner.asynchronous}"
    if learner.order == "newton":
        text += f" newton {learner.memory and float(learner.memory)!r}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]
