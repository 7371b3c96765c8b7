"""The paper's learner with one row: a device of an engine, and the losses that Hedge shares."""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import engines
from ..base import checks
from ..base.checks import LARGEST
from ..base.errors import InputError
from ..base.types import Array, Float
from ..engines.devices import DeviceState
from ..exchange.combine import median
from ..exchange.edges import Neighbour
from ..exchange.message import Exchange, Shapes, Update, check_within, most_parameter, within
from ..learning import first_order, kernels, losses
from ..learning import hedge as hedging
from ..learning.first_order import State
from ..learning.settings import Paper
from .row import Learnt, digest

#: A neighbour's parameters may predict so many times the largest label that we have seen.
REACH = 1e3
#: The same while we have seen fewer labels than `FEW`: the first ones may happen to be near 0.
FIRST_REACH, FEW = 1e9, 8


class PaperRow:
    """One device of the paper's algorithm."""

    alike = "kernels, rates, loss, step, hedge and payload"
    needs_used = True
    closes_alone = True
    alone: float | None = None
    restarts = 0

    def __init__(
        self,
        settings: Paper,
        inputs: int | None,
        exchange: Exchange,
        engine: str,
        dtype: Float,
        lockstep: bool,
    ) -> None:
        self.V = kernels.check(settings.draw(_inputs(settings, inputs)), dtype=dtype)
        self.rates, self.loss, self.hedge = settings.rates_at(0), settings.loss_function, settings.hedge
        self.step, self.memory, self.exchange = settings.step, settings.memory, exchange
        self.bounds_labels = settings.outliers == "bound"
        # Where messages or labels are changed the simulator computes in NumPy, and so must its devices.
        changes = self.bounds_labels or not exchange.is_plain
        self.engine = "numpy" if engine == "auto" and changes else engine
        if not lockstep and self.hedge == "messages":
            raise InputError(
                "hedge is 'messages' for an asynchronous learner; expected rounds that all share; "
                "use 'neighbours' or 'local'"
            )
        P, D, _ = self.V.shape
        self.shapes = Shapes((P, 2 * D), P if self.hedge != "local" else 0, dtype=self.V.dtype)
        self.settings_digest = self._digest(lockstep)
        # The native device checks samples itself, and quicker; what it refuses is looked at here.
        plain = not self.loss.classifies and self.loss.bounds is None
        self._quick = engines.chosen(self.engine) == "native" and plain
        self.known: Mapping[Hashable, Neighbour] = {}
        self.device = self._make_device()
        self._is_new = True
        self._x: npt.ArrayLike = np.zeros(0)  # the last input
        self._largest, self._labels = 0.0, 0  # label of our own, and how many there were
        self.open: tuple[Array, Array] | None = None  # theta' before rounding, and L'

    def _digest(self, lockstep: bool) -> str:
        loss = self.loss
        text = f"{kernels.fingerprint(self.V)} {self.V.dtype} {self.rates} {loss.name} {loss.reg!r} "
        text += f"{loss.delta!r} {self.hedge} {self.exchange.payload} {not lockstep}"
        if self.step == "newton":
            text += f" newton {self.memory and float(self.memory)!r}"
        return digest(text)

    def _make_device(self) -> engines.Device:
        setting = self.V, len(self.known), self.rates, self.loss, self.hedge
        how = self.step, self.memory, self.bounds_labels
        device = engines.make_device(self.engine, *setting, *how)
        self._observe = device.observe if self.known else device.alone
        return device

    @property
    def weights(self) -> Array:
        return self.device.q

    @property
    def parameters(self) -> State:
        return self.device.state

    def new_neighbour(self, number: int) -> Neighbour:
        P, D, _ = self.V.shape
        return Neighbour(P, 2 * D, self.V.dtype, number)

    # Samples

    def predict(self, x: npt.ArrayLike, round: int) -> float:
        if self._quick:
            try:
                return self.device.predict(x)  # type: ignore[arg-type]
            except (TypeError, ValueError):
                pass
        return self.device.predict(self._sample(x))

    def ask(self, x: npt.ArrayLike) -> float:
        return self.device.predict(self._sample(x))

    def learn(self, x: npt.ArrayLike, y: float, round: int) -> Learnt:
        q = self.device.q
        try:
            if not (self._quick and -LARGEST <= y <= LARGEST):  # features are bounded whatever x is
                raise ValueError
            y_hat, theta, L = self._observe(x, y)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            y_hat, theta, L = self._learn_checked(x, y)
            y = float(losses.one_label(self.loss, y))
        if not self.known:
            return y_hat, y, q, theta, L if self.hedge != "local" else None, {}
        self._x, self._largest, self._labels = x, max(self._largest, abs(y)), self._labels + 1
        sent = self.exchange.outgoing(within(theta, self._most))
        sent.flags.writeable = theta.flags.writeable = False  # they leave in an Update, and stay our state
        self.open = theta, L
        if self.hedge == "messages":
            belief = self._belief(L)
            for one in self.known.values():
                one.pass_on(round, belief)
        return y_hat, y, q, sent, self._shared(L), {}

    def _learn_checked(self, x: npt.ArrayLike, y: float) -> tuple[float, Array, Array]:
        with np.errstate(over="ignore", invalid="ignore"):  # what is too large is refused in words
            sample, label = self._sample(x), float(losses.one_label(self.loss, y, self.V.dtype))
            try:
                return self._observe(sample, label)
            except ValueError:
                raise InputError(
                    "learning this sample would overflow; expected x and y of moderate size; "
                    "scale them, for example to [0, 1]"
                ) from None

    def _sample(self, x: npt.ArrayLike) -> Array:
        array = checks.floats("x", x, self.device.takes)
        remedy = "every sample needs the features the kernels were made for"
        checks.shape("x", array, self.V.shape[2:], remedy)
        return checks.finite("x", np.ascontiguousarray(array))

    # Messages

    @property
    def _most(self) -> float:
        """The largest parameter that is sent or accepted; losses are at most its square."""
        return most_parameter(self.V.dtype)

    def check(self, update: Update) -> None:
        check_within(update.theta, self._most)
        if update.scalars is not None:
            check_within(update.scalars, self._most**2)

    def same(self, update: Update) -> bool:
        return True

    def hear(self, received: Mapping[Hashable, Update]) -> None:
        """There is no news."""

    def believes(self, received: Sequence[Update | None]) -> list[bool | None]:
        """Whether what each neighbour's parameters predict at our own last input is not absurd."""
        return [None if update is None else self._is_plausible(update) for update in received]

    def _is_plausible(self, update: Update) -> bool:
        """Features have length 1, so parameters of at most the reach cannot predict more."""
        reach = self._largest * (REACH if self._labels >= FEW else FIRST_REACH)
        theta, most = update.theta, reach / math.sqrt(self.V.shape[1] * 2)
        if not reach or max(float(theta.max()), -float(theta.min())) <= most:
            return True
        z = first_order.features(self.V, np.asarray(self._x, self.V.dtype)[None])[0]
        return bool((np.abs((theta * z).sum(-1)) <= reach).all())

    def merge(
        self,
        own: Update,
        received: Sequence[Update | None],
        moves: Sequence[bool],
        backs: Sequence[Array],
    ) -> list[Array | None]:
        assert self.open is not None
        theta, L = self.open
        thetas = self._screened(own.theta, [theta if u is None else u.theta for u in received])
        for one, value in zip(self.known.values(), thetas, strict=True):
            one.theta = value
        moving = [k for k, moved in enumerate(moves) if moved]
        self.device.close(thetas, moving, self._total(L, received, own.round))
        back = [*backs]
        if own.theta is not theta and moving:  # neighbours have the rounded estimate, so the duals must too
            back.append(len(moving) * (theta - own.theta))
        self.take_back(back)
        return [own.theta - thetas[k] if moves[k] else None for k in range(len(thetas))]

    def _screened(self, own: Array, thetas: list[Array]) -> list[Array]:
        screen = self.exchange.screen
        return thetas if screen is None or not thetas else list(screen(own, np.stack(thetas)))

    def _shared(self, L: Array) -> Array | None:
        """What the neighbours receive about our losses."""
        if self.hedge == "local":
            return None
        return within(L if self.hedge == "neighbours" else self._belief(L), self._most**2)

    def _belief(self, L: Array) -> Array:
        return L + self._sum([one.received for one in self.known.values()])

    def _total(self, L: Array, received: Sequence[Update | None], round: int) -> Array:
        """The losses that enter Hedge's exponent, (P,)."""
        if self.hedge == "local":
            return L
        if self.hedge == "neighbours":
            for one, update in zip(self.known.values(), received, strict=True):
                if update is not None:
                    one.losses = _losses(update)
            return L + self._sum([one.losses for one in self.known.values()])
        belief = self._belief(L)
        for one, update in zip(self.known.values(), received, strict=True):
            if update is not None:
                held = update.edges.get(self.name)
                used = held.seen if held is not None else round - 1
                one.take_losses(_losses(update), used)
        return belief

    name: Hashable = None  # of the learner, by which neighbours call its edges

    def _sum(self, values: list[Array]) -> Array:
        if not values:
            return np.zeros(len(self.V), self.V.dtype)
        return functools.reduce(np.add, values)

    # Neighbours

    def connect(self, known: Mapping[Hashable, Neighbour]) -> None:
        """A device for as many neighbours as there are now, with the same state."""
        if self._is_new:  # exactly what a network's engine starts with
            self.known, self._is_new = dict(known), False
            self.device = self._make_device()
            return
        state, unit = self.device.keep(), self.device.unit
        for name in known.keys() - self.known.keys():
            if not known[name].theta.any():  # else it was restored
                known[name].theta = state.theta  # like a missing one, it does not pull before it sends
        self.known = dict(known)
        self._resume(state, unit)

    def _resume(self, state: DeviceState, unit: float) -> None:
        self.device = self._make_device()
        if unit != self.device.unit:
            state = state._replace(lam=state.lam * (unit / self.device.unit))
        self.device.resume(state, self._thetas())

    def take_back(self, moves: Sequence[Array]) -> None:
        if moves:
            state = self.device.keep()
            lam = state.lam - sum(moves) * (self.rates.rho / 2 / self.device.unit)
            self.device.resume(state._replace(lam=lam), self._thetas())

    def adopt(self, updates: Sequence[Update], share: float) -> None:
        """Move the parameters a share of the way to the median; the whole way takes over losses too."""
        state = self.device.keep()
        theta = median(state.theta, [update.theta for update in updates])
        if share != 1:
            theta = state.theta + share * (theta - state.theta)
        state = state._replace(theta=theta)
        if share == 1 and self.hedge == "neighbours":
            L = median(state.L, [_losses(update) for update in updates])
            q = hedging.weights(L * (1 + len(self.known)), self.rates.eta_g)
            state = state._replace(L=L, q=q)
        self.start_from(state)

    def start_from(self, state: DeviceState) -> None:
        """Go on with other parameters; what was known of the neighbours' was of the time before."""
        for one in self.known.values():
            one.theta = state.theta
        self.device.resume(state, self._thetas())

    def _thetas(self) -> list[Array]:
        return [one.theta for one in self.known.values()]

    # State

    def state(self) -> dict[str, Any]:
        return {"unit": self.device.unit, **self.device.keep().arrays()}

    def restore(self, state: Mapping[str, Any]) -> None:
        arrays = {name: value for name, value in state.items() if name != "unit"}
        self._resume(DeviceState.of(arrays), state["unit"])


def _inputs(settings: Paper, inputs: int | None) -> int:
    if inputs is not None:
        return checks.count("inputs", inputs)
    if isinstance(settings.kernels, np.ndarray):
        return int(settings.kernels.shape[2])
    raise InputError("inputs is not given; expected the number of inputs of a sample; pass inputs=")


def _losses(update: Update) -> Array:
    assert update.scalars is not None  # receive() has checked it
    return update.scalars
