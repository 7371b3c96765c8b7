"""What a model is: a small frozen object, the same in Python, TOML, on the command line and in files.

    domkl.Auto(size=400)                          [model] kind = "auto", size = 400
    domkl.Paper(step="newton")                    [model] kind = "paper", step = "newton"

A setting that a model does not have is refused, never ignored.
"""

from __future__ import annotations

import copy
import dataclasses
import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple, NoReturn, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from .. import engines
from ..base import checks, toml
from ..base.errors import InputError
from ..base.types import Array, Float
from ..base.words import number
from ..exchange.graph import Graph
from ..exchange.message import Exchange
from ..learning import hedge, kernels, losses
from ..learning.first_order import STEPS, Rates
from ..learning.losses import Loss
from ..learning.model import Model
from ..learning.paper import Algorithm

#: The most parameters of `Auto`: time and memory grow with the square, 20,000 take about 2 GB a learner.
MOST_SIZE = 20_000
#: What learners of an `Auto` must have in common.
ALIKE = "model, inputs, targets, dtype and payload"
#: The most inputs of `Auto`: 4096 take 5 ms a sample and 0.2 GB, and a message of their scale 0.7 MB.
MOST_INPUTS = 4096
#: The most frequencies that are drawn, P D d: 1 GiB of them.
MOST_FREQUENCIES = 2**27
#: The longest stream that rates are made for.
MOST_ROUNDS = 2**53

FAMILIES: dict[str, Callable[..., Array]] = {
    "gaussian": kernels.gaussian,
    "laplacian": kernels.laplacian,
    "cauchy": kernels.cauchy,
}


@dataclass(frozen=True)
class KernelSpec:
    """A dictionary of kernels, drawn from a seed. `read_as`: is sigma2 the kernel's variance, or the
    frequencies'?"""

    family: str = "gaussian"
    D: int = 50
    seed: int = 0
    sigma2: tuple[float, ...] = kernels.PAPER_SIGMA2
    read_as: str = "bandwidth"

    def __post_init__(self) -> None:
        checks.one_of("kernels.family", self.family, FAMILIES)
        checks.one_of("kernels.read_as", self.read_as, ("bandwidth", "frequency"))
        checks.count("kernels.D", self.D)
        checks.count("kernels.seed", self.seed, least=0)
        for sigma2 in self.sigma2:
            checks.positive("sigma2", sigma2)

    def draw(self, d: int, trial: int = 0) -> Array:
        """Frequencies V (P, D, d) for d inputs; each trial draws others."""
        wanted = len(self.sigma2) * self.D * checks.count("d", d)
        if wanted > MOST_FREQUENCIES:
            raise InputError(
                f"P = {len(self.sigma2)}, D = {checks.short(self.D)} and d = {checks.short(d)} give too many "
                f"frequencies; expected P D d of at most {MOST_FREQUENCIES}; choose a smaller D"
            )
        sigma2 = self.sigma2 if self.read_as == "bandwidth" else tuple(1 / s for s in self.sigma2)
        return FAMILIES[self.family](d, self.D, self.seed + trial, sigma2)


@dataclass(frozen=True)
class RateSpec:
    """Rates by rule: rho = eta = kappa sqrt(T), eta_g = kappa_g sqrt(T), unless given as numbers.

    `horizon` is T, where the stream does not tell its length.
    """

    kappa: float = 1.0
    kappa_g: float = 1.0
    rho: float | None = None
    eta: float | None = None
    eta_g: float | None = None
    horizon: int | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None:
                checks.positive(name, value)
        if self.horizon is not None:
            checks.count("horizon", self.horizon, most=MOST_ROUNDS)

    def at(self, T: int) -> Rates:
        """The rates for a stream of T rounds (0 where its length is unknown)."""
        given = {name: getattr(self, name) for name in ("rho", "eta", "eta_g")}
        chosen = {name: value for name, value in given.items() if value is not None}
        horizon = self.horizon or T
        if not horizon and len(chosen) < len(given):
            missing = ", ".join(name for name in given if name not in chosen)
            raise InputError(
                f"rates {missing} and horizon are not given and the stream's length is unknown; expected "
                "rho, eta and eta_g as numbers, or horizon = T for kappa sqrt(T); add one of them"
            )
        return dataclasses.replace(Rates.paper(horizon or 1, self.kappa, self.kappa_g), **chosen)


class Means(NamedTuple):
    """By what means rows are computed; a model of one's own is not told."""

    engine: str = "auto"
    threads: int = 1
    exchange: Exchange = Exchange()


#: What suits everywhere.
PLAIN = Means()


S = TypeVar("S", bound="Settings")


@dataclass(frozen=True, eq=False, repr=False)
class Settings:
    """What the settings of all models have in common: they are equal if they are written alike."""

    kind: ClassVar[str]
    has_engines: ClassVar[bool] = False  # whether a simulation may choose what computes it
    can_go_on: ClassVar[bool] = False  # whether learners can be kept after a simulation
    takes_raw: ClassVar[bool] = True  # inputs of any scale, NaN where one is missing
    has_targets: ClassVar[bool] = True  # whether it can predict several
    precision: ClassVar[str] = "float64"  # that a device computes in, unless told otherwise
    needs_name: ClassVar[bool] = False  # whether a device must know what its neighbours call it
    has_kernels: ClassVar[bool] = False  # whether weights are of kernels, with rates of their own
    has_rates: ClassVar[bool] = False  # which may depend on the stream's length
    predicts_log_odds: ClassVar[bool] = False  # of classes, and not a score in [-1, 1]
    passes: ClassVar[int] = 1  # how often it goes through a table, unless told otherwise
    #: Settings that are tables of their own.
    TABLES: ClassVar[dict[str, type]] = {}

    @property
    def loss(self) -> Any:
        """Its loss, or the name of it."""
        return "squared"

    @property
    def start(self) -> float:
        """What is predicted before the first label."""
        return 0.0

    @property
    def inputs(self) -> int | None:
        """How many inputs a sample has, where the settings tell."""
        return None

    @property
    def targets(self) -> int:
        """How many targets there are, unless told otherwise."""
        return 1

    @property
    def is_small(self) -> bool:
        """Whether one thread is as fast as two."""
        return False

    @property
    def loss_function(self) -> Loss:
        """The loss as an object."""
        return losses.squared()

    def make(self, J: int, d: int, dtype: Float, m: int = 1, means: Means = PLAIN) -> Model:
        """J rows for samples of d inputs and m targets."""
        raise NotImplementedError

    def make_single(self, keys: Sequence[Hashable], dtype: Float, m: int = 1) -> Model:
        """One device without neighbours, whose inputs are known by these keys, and may have any scale."""
        return self.make(1, len(keys), dtype, m)

    def make_network(self, graph: Graph, d: int, T: int, how: Any, m: int) -> Any:
        """A network that is computed by blocks of rounds, a `simulator.driver.Stepper`; None where it is
        computed round by round, through the contract of a model."""
        return None

    def check_single(self) -> None:
        """Refuse what one device without neighbours cannot do."""

    def check_state(self, rows: Mapping[str, Any], d: int, degrees: npt.ArrayLike = ()) -> None:
        """Raise ValueError unless a state of rows can be of d inputs and, where these are given, of learners
        with so many neighbours; `restore` checks the rest."""

    def handed(self, rows: Any, names: tuple[str, ...], k: int | None = None) -> Any:
        """What a row has learnt, and no sample: a `models.taught.HandedModel`.

        Of two classes with a target each, k is the one that is 1 then, and the other -1.
        """
        raise InputError("the model is one of your own; expected domkl.Auto or domkl.Paper to hand over")

    def weight_names(self) -> list[str]:
        """What its weights belong to; nothing where these have no names."""
        return []

    def __repr__(self) -> str:
        texts = []
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            if isinstance(value, np.ndarray):
                texts.append(f"{each.name}=<frequencies {value.shape}>")
            elif value != each.default:
                texts.append(f"{each.name}={value!r}")
        return f"{type(self).__name__}({', '.join(texts)})"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Every setting by name, as scikit-learn asks for them.

        >>> Auto(size=400).get_params()["size"]
        400
        """
        return {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}

    def set_params(self: S, **params: Any) -> S:
        """The same settings but for these; settings themselves never change.

        >>> Auto(size=400).set_params(size=100)
        Auto(size=100)
        """
        unknown = [name for name in params if name not in self.get_params()]
        if unknown:
            raise InputError(f"{unknown[0]!r} is no setting; {checks.hint(unknown[0], self.get_params())}")
        return dataclasses.replace(self, **params)

    def __sklearn_clone__(self: S) -> S:
        return self  # which cannot change

    def __eq__(self, other: object) -> bool:
        return self.table == getattr(other, "table", None)

    def __hash__(self) -> int:
        return hash(repr(self.table))

    @property
    def table(self) -> dict[str, Any]:
        """As JSON and TOML hold them; of given frequencies, their fingerprint."""
        about: dict[str, Any] = {"kind": self.kind}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, KernelSpec | RateSpec | Rates):
                value = {key: _plain(v) for key, v in dataclasses.asdict(value).items() if v is not None}
            elif isinstance(value, Loss):
                value = {"name": value.name, "reg": value.reg, "delta": value.delta}
            elif isinstance(value, tuple):
                value = _plain(value)
            elif isinstance(value, np.ndarray):
                value = {"fingerprint": kernels.fingerprint(value), "shape": list(value.shape)}
            if value is not None:
                about[field.name] = value
        return about


@dataclass(frozen=True, eq=False, repr=False)
class Auto(Settings):
    """The learner with nothing to tune; see docs/auto.md.

    Parameters
    ----------
    size : number of parameters, 16 to 20,000; time and memory of a sample grow with its square.
    loss : "squared" for numbers, "logistic" for labels of -1 and +1 (0 is read as -1), "classes" for labels
        from 0 to k - 1: a target each, on one matrix, whose predictions are probabilities.
    seed : of the random features; the same at every learner.
    start : what is predicted before the first label.
    forgetting : "auto" (the past is dropped when the last samples alone predict clearly better) or "none"
        (all samples count).
    outliers : "bound" (a label far beyond the usual errors counts as one at their border, or not at all) or
        "keep" (every label counts as it is: for targets with rare events, as fewer than about one label in
        eight that lies far out is taken for an error).
    bounds : the lowest and the highest possible target; others are refused. By default none is.

    There may be 4096 inputs, of any scale up to 1e100, NaN where one is missing; a column that varies by less
    than 1e-200 counts as constant. Its predictions are the target, clipped to the range seen, or for
    "logistic" the score 2 P(y = +1) - 1, in [-1, 1].
    """

    kind: ClassVar[str] = "auto"
    has_engines: ClassVar[bool] = True
    can_go_on: ClassVar[bool] = True
    precision: ClassVar[str] = "float32"
    needs_name: ClassVar[bool] = True
    LOSSES: ClassVar[tuple[str, ...]] = ("squared", "logistic", "classes")
    #: Settings that each learner may choose for itself.
    OWN: ClassVar[tuple[str, ...]] = ("outliers", "bounds")
    #: Parameters below which one thread is as fast as two, and takes two thirds of their time.
    SMALL: ClassVar[int] = 600

    size: int = 1000
    loss: str = "squared"
    seed: int = 0
    start: float = 0.0
    forgetting: str = "auto"
    outliers: str = "bound"
    bounds: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        checks.one_of("outliers", self.outliers, ("bound", "keep"))
        checks.count("size", self.size, least=16, most=MOST_SIZE)
        checks.one_of("loss", self.loss, self.LOSSES)
        checks.count("seed", self.seed, least=0)
        object.__setattr__(self, "start", float(checks.finite("start", checks.floats("start", self.start))))
        checks.one_of("forgetting", self.forgetting, ("auto", "none"))
        object.__setattr__(self, "bounds", losses.check_bounds(self.bounds, self._loss()))

    @property
    def is_small(self) -> bool:
        return self.size < self.SMALL

    @property
    def loss_function(self) -> Loss:
        return self._loss()._replace(bounds=self.bounds)

    def _loss(self) -> Loss:
        return losses.classes() if self.loss == "classes" else losses.get(self.loss)

    def memory(self, J: int, d: int, m: int = 1, dtype: Float = np.float64, degree: float = 2) -> int:
        """About how many bytes J learners take that have so many neighbours each, in C++.

        Half of a symmetric matrix and 13 m + 64 vectors of `size` numbers each, about 1,000 samples, and what
        is known of at most 1024 others. In NumPy matrices are whole: twice as much.

        >>> from domkl import Auto
        >>> f"{Auto().memory(J=1, d=12, dtype='float32') / 1e6:.1f} MB"
        '2.7 MB'
        """
        size, vectors = self.size, 2 * 32 + (9 + 2 * degree) * m
        doubles = 1024 * (d + m + 1) + (size / 7) ** 2 + 18 * d + 8 * min(J, 1024)
        each = np.dtype(dtype).itemsize * size * (size / 2 + vectors) + 8 * doubles
        return int(J * each + np.dtype(dtype).itemsize * 2 * d * size)

    def _check_memory(self, J: int, d: int, dtype: Float, m: int) -> None:
        wanted, there = self.memory(J, d, m, dtype), _machine_bytes()
        if wanted > there:
            raise InputError(
                f"{J:,} learners of size {self.size:,} take about {wanted / 1e9:.1f} GB; expected at most "
                f"{there / 1e9:.1f} GB, the memory of this machine; choose a smaller size, or fewer learners"
            )

    def make(self, J: int, d: int, dtype: Float, m: int = 1, means: Means = PLAIN) -> Model:
        """J rows for samples of d inputs and m targets, called 0, 1 .. until they are connected."""
        from ..learning.auto import AutoRows

        self._check_memory(J, self.check_inputs(d), dtype, m)
        kind: Callable[..., AutoRows] = AutoRows
        if engines.chosen_for_one(means.engine) == "native":
            from ..engines.native_auto import NativeAuto

            kind = partial(NativeAuto, threads=means.threads)
        made = kind(self, d, range(J), np.zeros(J), np.zeros(J), dtype, m)
        alike = {name: value for name, value in self.table.items() if name not in self.OWN}
        made.identity, made.must_match = f"{alike} {d} {m} {np.dtype(dtype)}", ALIKE
        return made

    def check_state(self, rows: Mapping[str, Any], d: int, degrees: npt.ArrayLike = ()) -> None:
        m, K = rows["consensus"]["theta"].shape[-2:]
        checks.need(type(rows["targets"]) is int and rows["targets"] == m > 0, f"it has {m} targets")
        good = rows["inputs"] == self.check_inputs(d) == rows["scale"]["mean"].shape[-1]
        checks.need(good, f"{d} inputs are {checks.short(rows['inputs'])}")
        checks.need(self.size - 1 <= K <= self.size, f"size is {self.size} with {K} parameters")
        is_same = not np.size(degrees) or np.array_equal(rows["consensus"]["degree"], degrees)
        checks.need(is_same, "it is of another network")

    def handed(self, rows: Any, names: tuple[str, ...], k: int | None = None) -> Any:
        from .taught import HandedAuto

        rows = copy.deepcopy(rows)
        if k is None:
            rows.drop_samples()
        else:
            rows.keep_sign(k)
        settings = self if k is None else dataclasses.replace(self, loss="logistic")
        return HandedAuto(settings, rows.state(), names=names)

    def weight_names(self) -> list[str]:
        from ..learning.auto import EXPERT_NAMES

        return list(EXPERT_NAMES)

    @staticmethod
    def check_inputs(d: int) -> int:
        """`d` itself if a sample may have so many inputs."""
        if checks.count("the number of inputs", d) > MOST_INPUTS:
            raise InputError(
                f"there are {d:,} inputs; expected at most {MOST_INPUTS:,}; leave some out, or project them, "
                "for instance with sklearn.random_projection"
            )
        return int(d)


@dataclass(frozen=True, eq=False, repr=False)
class Paper(Settings):
    """The paper's learner: one online ADMM for each kernel of a dictionary, and Hedge over the kernels.

    Parameters
    ----------
    kernels : frequencies V (P, D, d), or a `KernelSpec` that draws them; by default the paper's 17 Gaussian
        kernels with D = 50.
    rates : `Rates`, or a `RateSpec` that makes them from the stream's length; by default `Rates.paper(T)`.
    loss : "squared", "ridge", "huber", "logistic", or one made with `domkl.losses`.
    reg, delta : ridge penalty, and where the Huber loss becomes straight; with a loss that is given by name.
    hedge : whose losses weigh the kernels: "neighbours", "messages" (trees only) or "local".
    step : the local step: "first" (the paper's) or "newton", which keeps every past loss: O((2D)^2) a kernel,
        the same message; `rates.eta` is then the ridge on the whole of the past.
    bounds : the lowest and the highest possible target; others are refused. By default none is.
    """

    kind: ClassVar[str] = "paper"
    has_engines: ClassVar[bool] = True
    takes_raw: ClassVar[bool] = False
    has_targets: ClassVar[bool] = False
    TABLES: ClassVar[dict[str, type]] = {"kernels": KernelSpec, "rates": RateSpec}
    has_kernels: ClassVar[bool] = True
    has_rates: ClassVar[bool] = True
    predicts_log_odds: ClassVar[bool] = True
    passes: ClassVar[int] = 5  # its step is small: once through a table is not enough

    kernels: npt.ArrayLike | KernelSpec | None = None
    rates: Rates | RateSpec | None = None
    loss: str | Loss = "squared"
    reg: float | None = None
    delta: float | None = None
    hedge: str = "neighbours"
    step: str = "first"
    bounds: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.kernels is not None and not isinstance(self.kernels, KernelSpec):
            dtype = np.result_type(self.kernels) if isinstance(self.kernels, np.ndarray) else np.float64
            dtype = dtype if dtype in (np.float64, np.float32) else np.dtype(np.float64)
            object.__setattr__(self, "kernels", kernels.check(self.kernels, dtype=dtype))
        if self.rates is not None and not isinstance(self.rates, Rates | RateSpec):
            raise InputError(
                f"rates is {self.rates!r}; expected domkl.Rates; write Rates(rho=, eta=, eta_g=)"
            )
        object.__setattr__(self, "bounds", losses.check_bounds(self.bounds, self._loss()))
        hedge.rule(self.hedge)
        checks.one_of("step", self.step, STEPS)

    @property
    def loss_function(self) -> Loss:
        loss = self._loss()
        return loss if self.bounds is None else loss._replace(bounds=self.bounds)

    def _loss(self) -> Loss:
        if isinstance(self.loss, Loss):
            if self.reg is not None or self.delta is not None:
                raise InputError("reg or delta is given with a Loss, which has its own; leave them out")
            return self.loss
        made = losses.get(self.loss)
        if self.delta is not None:
            made = losses.huber(self.delta) if made.name == "huber" else self._refuse_delta()
        return made if self.reg is None else made._replace(reg=checks.not_negative("reg", self.reg))

    def _refuse_delta(self) -> NoReturn:
        raise InputError(
            f"delta is {self.delta!r} but the loss is {self.loss!r}; expected delta with huber alone; "
            "leave it out or choose the loss huber"
        )

    def draw(self, d: int, trial: int = 0) -> Array:
        """The frequencies for d inputs; each trial draws others, unless they were given."""
        if self.kernels is None or isinstance(self.kernels, KernelSpec):
            return (self.kernels or KernelSpec()).draw(d, trial)
        return kernels.check(self.kernels, d, np.asarray(self.kernels).dtype)

    def make(self, J: int, d: int, dtype: Float, m: int = 1, means: Means = PLAIN) -> Model:
        """The row of one device; those of a network are in `make_network`."""
        from .paper import PaperRow

        self.refuse_targets(m)
        checks.count("J", J, most=1)
        return PaperRow(self, d, means.engine, dtype, means.exchange)

    def make_network(self, graph: Graph, d: int, T: int, how: Any, m: int) -> Any:
        from .paper import PaperNetwork

        self.refuse_targets(m)
        return PaperNetwork(self, graph, d, T, how)

    def make_single(self, keys: Sequence[Hashable], dtype: Float, m: int = 1) -> Model:
        from .single import SinglePaper

        self.refuse_targets(m)
        return SinglePaper(self, keys)

    def check_single(self) -> None:
        from .single import check

        check(self)

    def check_state(self, rows: Mapping[str, Any], d: int, degrees: npt.ArrayLike = ()) -> None:
        form, spec = rows["theta"].shape, self.kernels or KernelSpec()
        good = isinstance(spec, KernelSpec) and form == (len(spec.sigma2), 2 * spec.D)
        checks.need(good, f"theta has shape {form}")
        checks.need(rows["rows"].shape[-1] == d, f"it has no {d} inputs")

    def handed(self, rows: Any, names: tuple[str, ...], k: int | None = None) -> Any:
        return rows.handed(names)

    @staticmethod
    def refuse_targets(m: int) -> None:
        """Refuse more targets than one."""
        if m != 1:
            raise InputError(f"y has {m} targets; expected one with domkl.Paper; use domkl.Auto for several")

    @property
    def inputs(self) -> int | None:
        return self.kernels.shape[2] if isinstance(self.kernels, np.ndarray) else None

    def weight_names(self) -> list[str]:
        spec = KernelSpec() if self.kernels is None else self.kernels
        return [f"σ² = {number(each)}" for each in spec.sigma2] if isinstance(spec, KernelSpec) else []

    def algorithm(self, T: int) -> Algorithm:
        """How learners step on a stream of T rounds."""
        return Algorithm(self.rates_at(T), self.loss_function, self.hedge, self.step)

    def rates_at(self, T: int) -> Rates:
        """The rates for a stream of T rounds (0 where its length is unknown)."""
        if isinstance(self.rates, Rates):
            return self.rates
        return (self.rates or RateSpec()).at(T)


@dataclass(frozen=True, eq=False, repr=False)
class Own(Settings):
    """Settings of a model of the user's own: an object with a method `make`, for J, d, dtype and m.

    Whatever else it says counts; what it does not say is as in `Settings`.
    """

    given: Any

    def __getattribute__(self, name: str) -> Any:
        given = object.__getattribute__(self, "given") if name in TOLD else None
        return getattr(given, name) if hasattr(given, name) else object.__getattribute__(self, name)

    def make(self, J: int, d: int, dtype: Float, m: int = 1, means: Means = PLAIN) -> Model:
        made: Model
        if self.has_engines:
            made = self.given.make(J, d, dtype, m, means)
        else:
            engines.refuse_choice(means.engine)
            made = self.given.make(J, d, dtype, m)
        return made

    @property
    def table(self) -> dict[str, Any]:
        return {"kind": type(self.given).__name__}

    def __repr__(self) -> str:
        return repr(self.given)


#: What an object may say of its model.
TOLD = {name for name in vars(Settings) if not name.startswith("_")} - {"make"}
#: Settings of the models here.
ModelSettings: TypeAlias = "Auto | Paper"
#: What files and the command line call them.
KINDS: dict[str, type[Auto] | type[Paper]] = {"auto": Auto, "paper": Paper}


def as_settings(model: Any) -> Settings:
    """Settings as they are, or `Auto()` for None, those of a name, or an object that makes rows, as `Own`."""
    if model is None:
        return Auto()
    if isinstance(model, str):
        return KINDS[checks.one_of("model", model, KINDS)]()
    if isinstance(model, Settings):
        return model
    if callable(getattr(model, "make", None)) and not isinstance(model, type):
        return Own(given=model)
    raise InputError(
        f'model is {checks.short(model)}; expected "auto", "paper", domkl.Auto(...) or domkl.Paper(...); '
        "write one of them"
    )


def _machine_bytes() -> float:
    """Memory of this machine; infinite where the system does not tell."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return float("inf")


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def from_table(table: Mapping[str, Any], where: str) -> ModelSettings:
    """The model that a [model] table describes; `where` names the table in errors.

    >>> from_table({"kind": "auto", "size": 400}, "file.toml [model]")
    Auto(size=400)
    """
    rest = dict(table)
    kind = rest.pop("kind", Auto.kind)
    chosen = KINDS[checks.one_of(f"{where} kind", kind, KINDS)]
    for key in rest:
        checks.one_of(f"{where} key", key, ["kind", *toml.keys_of(chosen)])
    parts: dict[str, Any] = {}
    for name, spec in chosen.TABLES.items():
        if isinstance(rest.get(name), dict):
            parts[name] = toml.section(spec, rest.pop(name), f"{where[:-1]}.{name}]")
    return toml.section(chosen, rest, where, **parts)


def weight_names(model: Any, count: int | None = None) -> list[str]:
    """The experts of `Auto`, or kernels by their widths; by their numbers where these are not known.

    >>> from domkl import Auto, Paper
    >>> weight_names(Auto())[:3], weight_names(Paper())[0], weight_names(None, count=2)
    (['common', 'alone', 'own'], 'σ² = 0.0001', ['kernel 1', 'kernel 2'])
    """
    names = [] if model is None else as_settings(model).weight_names()
    return names if names and count in (None, len(names)) else [f"kernel {p + 1}" for p in range(count or 0)]
