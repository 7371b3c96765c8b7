"""`Paper` as a model with one row, a device of an engine; and over a whole network, by blocks of rounds."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from .. import engines
from ..base import checks
from ..base.errors import InputError
from ..base.types import Array, Float
from ..engines.base import DeviceState, Setting, Sums
from ..exchange.edges import NEVER
from ..exchange.graph import Graph, sum_in_order
from ..exchange.message import Exchange, check_within, most_parameter, within
from ..learning import first_order, kernels, losses
from ..learning import hedge as hedging
from ..learning.fields import Concept, scalar
from ..learning.first_order import State
from ..learning.model import Around, Each, Model, Part, Watched, median

if TYPE_CHECKING:
    from .settings import Paper

#: A neighbour's parameters may predict so many times the largest label that we have seen.
REACH = 1e3
#: The same while we have seen fewer labels than `FEW`: the first ones may happen to be near 0.
FIRST_REACH, FEW = 1e9, 8
#: Sent losses that are kept for one neighbour, at most.
MOST_SENT = 64


class Asked:
    """A sample; what is predicted for it is computed when somebody asks, and by learning anyway."""

    def __init__(self, row: PaperRow, x: Array) -> None:
        self.row, self.x, self.inside = row, x, row.inside(x[0])
        self.found: float | None = None

    @property
    def y_hat(self) -> Array:
        """The prediction, in the labels' units. (1, 1)"""
        if self.found is None:
            self.found = self.row.device.predict(self.inside)
        return np.array([[self.row.in_units(self.found)]])


class Sender:
    """What a row knows of one neighbour."""

    def __init__(self, theta: Array, P: int) -> None:
        self.theta = theta  # last received
        self.losses: Array = np.zeros(P, theta.dtype)  # last received
        # Losses in transit, for hedge="messages": M_{i->j}, and M_{j->i} by the round it was sent in.
        self.received: Array = np.zeros(P, theta.dtype)
        self.sent: dict[int, Array] = {NEVER: np.zeros(P, theta.dtype)}

    def pass_on(self, round: int, belief: Array) -> None:
        """Store what this round's message contains for the neighbour: all losses but its own."""
        self.sent[round] = belief - self.received
        if len(self.sent) > MOST_SENT:  # a neighbour that never acknowledges must not fill our memory
            del self.sent[min(self.sent)]

    def take_losses(self, belief: Array, used: int) -> None:
        """M_{i->j}: the neighbour's total, less what it had from us in round `used`."""
        if used in self.sent:
            self.received = belief - self.sent[used]
            self.sent = {round: message for round, message in self.sent.items() if round >= used}

    def state(self) -> dict[str, Any]:
        """All of it, by name."""
        sent = [[round, message] for round, message in sorted(self.sent.items())]
        return {"theta": self.theta, "losses": self.losses, "received": self.received, "sent": sent}

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> Sender:
        """Inverse of `state`."""
        one = cls(state["theta"], len(state["losses"]))
        one.losses, one.received, one.sent = state["losses"], state["received"], dict(state["sent"])
        return one


class PaperRow(Concept, Model):
    """One device of the paper's algorithm; its numbers are those of the engine of a whole network."""

    J = 1
    largest_label: float = scalar(low=0)  # of our own
    labels: int = scalar("int64", low=0)  # how many there were
    judges = ("theta",)
    must_match = "kernels, rates, loss, step, hedge and payload"

    def __init__(self, settings: Paper, d: int, engine: str, dtype: Float, exchange: Exchange) -> None:
        self.V = kernels.check(settings.draw(d), dtype=dtype)
        self.allocate()
        self.d, self.dtype, self.exchange = d, self.V.dtype.type, exchange
        self.how = settings.algorithm(0)
        self.rates, self.loss, self.hedge = self.how[:3]
        # Where messages are changed the simulator computes in NumPy, and so must its devices.
        self.engine = "numpy" if engine == "auto" and not exchange.is_plain else engine
        self.identity = self._identity()
        self.near: dict[Hashable, Sender] = {}
        self.device = self._make_device()
        self._is_new = True
        self._x: Array = np.zeros(d)  # the last input, as the device has it
        self.open: tuple[Array, Array] | None = None  # theta' before rounding, and L'
        self._backs: list[Array] = []  # to be taken out of the duals when the round is over

    def _identity(self) -> str:
        loss = self.loss
        text = f"{kernels.fingerprint(self.V)} {self.V.dtype} {self.rates} {loss.name} {loss.reg!r} "
        text += f"{loss.delta!r} {self.hedge}"
        return text + (" newton" if self.how.is_second else "")

    def _make_device(self) -> engines.Device:
        return engines.make_device(self.engine, self.V, len(self.near), self.how)

    @property
    def parts(self) -> tuple[Part, ...]:
        P, D, _ = self.V.shape
        theta = Part("theta", (P, 2 * D), "each")
        return (theta,) if self.hedge == "local" else (theta, Part("losses", (P,), "each"))

    @property
    def weights(self) -> Array:
        return self.device.q[None]

    @property
    def parameters(self) -> State:
        """Of the one row, without an axis for it."""
        kept = self.device.keep()
        near = sum_in_order(np.asarray(self._thetas())) if self.near else np.zeros_like(kept.theta)
        return State(kept.theta, kept.lam * self.device.unit, near, kept.L, kept.q)

    # A round

    def sample(self, x: npt.ArrayLike) -> Array:
        array = checks.floats("x", x, self.device.takes)
        checks.shape("x", array, (self.d,), "every sample needs the features the kernels were made for")
        return checks.finite("x", array)

    def inside(self, x: Array) -> Array:
        """A sample (d,) as the device gets it."""
        return x

    def in_units(self, y: float) -> float:
        """A label or prediction of the device's as the caller has it."""
        return y

    def from_units(self, y: float) -> float:
        """The inverse of `in_units`."""
        return y

    def predict(self, x: Array) -> Asked:
        return Asked(self, x)

    def learn(
        self, prediction: Asked, y: Array, earlier: Any = None, weight: Array | None = None
    ) -> dict[str, Array]:
        with np.errstate(over="ignore", invalid="ignore"):  # what is too large is refused in words
            label = float(losses.one_label(self.loss, self.from_units(float(y[0, 0])), self.V.dtype))
            observe = self.device.observe if self.near else self.device.alone
            try:
                prediction.found, theta, L = observe(prediction.inside, label)
            except ValueError:
                self._refuse_sample()
        message = {"theta": within(theta, self._most)[None]}
        self.exchange.outgoing(message["theta"])  # refuses what cannot be sent, before anything has changed
        self._x, self.labels = prediction.inside, self.labels + 1
        self.largest_label = max(self.largest_label, abs(label))
        theta.flags.writeable = False  # it is our state, and the neighbours'
        self.open, self._backs = (theta, L), []
        if self.hedge != "local":
            shared = L if self.hedge == "neighbours" else self._belief(L)
            message["losses"] = within(shared, self._most**2)[None]
        return message

    @staticmethod
    def _refuse_sample() -> NoReturn:
        raise InputError(
            "learning this sample would overflow; expected x and y of moderate size; "
            "scale them, for example to [0, 1]"
        ) from None

    def merge(self, incoming: Mapping[str, Any]) -> None:
        assert self.open is not None
        theta, L = self.open
        each: Each = incoming["theta"]
        thetas = [theta if value is None else value for value in each.values]
        for one, value in zip(self.near.values(), thetas, strict=True):
            one.theta = value
        total = self._total(L, incoming.get("losses"))
        if self.near:  # else it was closed when it was learnt
            self.device.close(thetas, [k for k, moved in enumerate(each.moves) if moved], total)
        self.open, backs = None, self._backs
        if backs:
            self._take_back(backs)

    def _belief(self, L: Array) -> Array:
        return L + self._sum([one.received for one in self.near.values()])

    def _total(self, L: Array, each: Each | None) -> Array:
        """The losses that enter Hedge's exponent, (P,)."""
        if each is None:
            return L
        given = [None if value is None else value.astype(L.dtype) for value in each.values]
        came = [(one, value, k) for k, (one, value) in enumerate(zip(self.near.values(), given, strict=True))]
        if self.hedge == "neighbours":
            for one, value, _ in came:
                one.losses = one.losses if value is None else value
            return L + self._sum([one.losses for one in self.near.values()])
        belief = self._belief(L)
        for one, value, k in came:
            one.pass_on(each.round, belief)
            if value is not None:
                one.take_losses(value, each.acked[k])
        return belief

    def _sum(self, values: list[Array]) -> Array:
        if not values:
            return np.zeros(len(self.V), self.V.dtype)
        return functools.reduce(np.add, values)

    # Messages

    @property
    def _most(self) -> float:
        """The largest parameter that is sent or accepted; losses are at most its square."""
        return most_parameter(self.V.dtype)

    def check(self, message: Mapping[str, Array], news: Mapping[Hashable, Any]) -> None:
        if "losses" in message:
            check_within(message["losses"], self._most**2)

    def believes(self, who: list[int], sent: Mapping[str, Array]) -> npt.NDArray[np.bool_]:
        """Whether what each neighbour's parameters predict at our own last input is not absurd."""
        return np.array([[self._is_plausible(theta) for theta in sent["theta"][0]]], bool)

    def _is_plausible(self, theta: Array) -> bool:
        """Features have length 1, so parameters of at most the reach cannot predict more."""
        reach = self.largest_label * (REACH if self.labels >= FEW else FIRST_REACH)
        most = reach / math.sqrt(self.V.shape[1] * 2)
        if not reach or max(float(theta.max()), -float(theta.min())) <= most:
            return True
        z = first_order.features(self.V, np.asarray(self._x, self.V.dtype)[None])[0]
        return bool((np.abs((theta * z).sum(-1)) <= reach).all())

    # Neighbours

    def connect(self, around: Around) -> None:
        """A device for as many neighbours as there are now, with the same state."""
        if not self._is_new and list(around.near[0]) == list(self.near):
            return
        state = self.device.keep()  # like a missing one, a new one does not pull before it sends
        theta = state.theta if not self._is_new else np.zeros_like(state.theta)
        self.near = {name: self.near.get(name) or Sender(theta, len(self.V)) for name in around.near[0]}
        if self._is_new:  # exactly what a network's engine starts with
            self._is_new, self.device = False, self._make_device()
        else:
            self._resume(state, self.device.unit)

    def _resume(self, state: DeviceState, unit: float) -> None:
        self.device = self._make_device()
        if unit != self.device.unit:
            state = state._replace(lam=state.lam * (unit / self.device.unit))
        self.device.resume(state, self._thetas())

    def take_back(self, moves: Array) -> None:
        """At once, or when the open round is over: a device can be changed between rounds alone."""
        if self.open is not None:
            self._backs.append(moves[0])
        else:
            self._take_back([moves[0]])

    def _take_back(self, moves: Sequence[Array]) -> None:
        state = self.device.keep()
        lam = state.lam - sum(moves) * (self.rates.rho / 2 / self.device.unit)
        self.device.resume(state._replace(lam=lam), self._thetas())

    def adopt(self, messages: Sequence[Mapping[str, Array]], share: float) -> None:
        """The whole way takes over losses too."""
        state = self.device.keep()
        theta = median(state.theta, [message["theta"][0] for message in messages])
        if share != 1:
            theta = state.theta + share * (theta - state.theta)
        state = state._replace(theta=theta)
        if share == 1 and self.hedge == "neighbours":
            L = median(state.L, [message["losses"][0].astype(state.L.dtype) for message in messages])
            q = hedging.weights(L * (1 + len(self.near)), self.rates.eta_g)
            state = state._replace(L=L, q=q)
        self.start_from(state)

    def start_from(self, state: DeviceState) -> None:
        """Go on with other parameters; what was known of the neighbours' was of the time before."""
        for one in self.near.values():
            one.theta = state.theta
        self.device.resume(state, self._thetas())

    def _thetas(self) -> list[Array]:
        return [one.theta for one in self.near.values()]

    # State

    def state(self) -> dict[str, Any]:
        near, device = [[name, one.state()] for name, one in self.near.items()], self.device
        return {**super().state(), "unit": device.unit, "near": near, "device": device.keep().arrays()}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.near, self._is_new = {name: Sender.of(one) for name, one in state["near"]}, False
        super().restore(state)
        self.open, self._backs = None, []
        self._resume(DeviceState.of(state["device"]), state["unit"])


#: Inputs beyond it are surely not scaled.
FAR = 10.0


class PaperNetwork:
    """A `simulator.driver.Stepper`; `how` it is carried out are the options of `domkl.simulate`."""

    alone, believed, final = np.empty(0), np.empty(0), None

    def __init__(self, settings: Paper, graph: Graph, d: int, T: int, how: Any) -> None:
        _refuse_cycles(settings.hedge, graph)
        #: The learners of a part of the network; None for all.
        self.learners = None if how.ranks is None else how.ranks.rows
        self.labels = np.zeros((graph.J if how.ranks is None else len(how.ranks.rows), 1))
        self.setting = Setting(
            V=kernels.check(settings.draw(d), d, how.dtype),
            graph=graph,
            how=settings.algorithm(T),
            delay=how.delay,
            keep_state=how.keep_state,
            one_block=not how.keep_state and T > 0 and not how.every,
            threads=how.threads,
            exchange=how.exchange,
        )
        self.engine = engines.make(how.engine, self.setting, how.ranks)
        is_followed = how.is_followed and not self.setting.one_block
        most = self.engine.most_rounds
        self.most_rounds = min(most, max(1, T // 100)) if is_followed else most

    @property
    def sums(self) -> Sums:
        return Sums(*(values[:, None] for values in self.engine.sums))

    @property
    def weights(self) -> Array:
        return self.engine.q

    @property
    def parameters(self) -> tuple[Array, Array, Array]:
        return *self.engine.state(), self.engine.L

    def traffic(self, T: int) -> tuple[float, float]:
        (P, D, _), setting = self.setting.V.shape, self.setting
        if setting.graph.J == 1:
            return 0.0, 0.0
        payload, shared = (
            np.dtype(setting.exchange.payload).itemsize,
            0 if setting.how.hedge == "local" else P,
        )
        return float(2 * P * D + shared), 2.0 * P * D * payload + 8 * shared

    def checked(self, X: Array, y: Array, first: int, is_flat: bool) -> tuple[Array, Array]:
        """As it is: pieces are checked when they are read, since a stream may be larger than memory."""
        return X, y

    def advance(self, X: Array, y: Array, first: int) -> Watched:
        self.labels = self.labels + X.shape[1]
        checks.finite("X", X, first, self.learners)
        if not first:
            _warn_of_scale(X)
        labels = checks.finite("y", y[..., 0], first, self.learners)
        labels = losses.labels(self.setting.how.loss, labels)
        with np.errstate(over="ignore", invalid="ignore"):  # reported below, in one line
            y_hat = self.engine.advance(X, labels)
        if not np.isfinite(y_hat).all():
            raise InputError(
                f"predictions overflowed after round {first}; expected x and y of moderate size; "
                "scale them, for example to [0, 1]"
            )
        return Watched(y_hat[..., None], y, np.empty((len(y_hat), 0)), self.engine.q)


def _warn_of_scale(X: Array) -> None:
    """Kernels are as wide as inputs near [0, 1] need them; of others they see noise."""
    most = np.abs(X).max((0, 1), initial=0)
    if most.size and most.max() > FAR:
        warnings.warn(
            f"input {most.argmax()} is up to {most.max():.4g}, and Paper's kernels are made for inputs near "
            "[0, 1]; scale them, for example with Split.scaled_by_start(), or use domkl.Auto",
            UserWarning,
            stacklevel=2,
        )


def _refuse_cycles(rule: str, graph: Graph) -> None:
    if rule == "messages" and not graph.is_tree:
        raise InputError(
            'hedge="messages" counts losses again on a graph with cycles; expected a tree; '
            'use hedge="neighbours" or another graph'
        )
