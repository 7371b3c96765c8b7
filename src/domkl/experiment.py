"""An experiment is a TOML file: which data, which network, which kernels and rates.

`load` reads and checks one; `carry_out` runs it beside its comparators.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn, TypeAlias, TypeVar

import numpy as np

from . import _checks, datasets, hedge, kernels, losses
from ._types import Array
from .central import omkl
from .core import Rates
from .datasets import Split, Table, stations
from .datasets.base import SPLITS
from .datasets.scaling import X_SCALES, Y_SCALES
from .errors import DataError, InputError
from .graph import Graph, as_graph, build
from .losses import Loss
from .simulator import Progress, Run, simulate

#: The experiments that come with the package.
SHIPPED = Path(__file__).parent / "experiments"
FAMILIES: dict[str, Callable[..., Array]] = {
    "gaussian": kernels.gaussian,
    "laplacian": kernels.laplacian,
    "cauchy": kernels.cauchy,
}
Section = TypeVar("Section")
Toml: TypeAlias = "dict[str, Any]"


@dataclass(frozen=True)
class DataSpec:
    """[data]: which sets, how scaled, how divided over learners."""

    names: tuple[str, ...] = ("stations",)
    horizon: int = 6  # hours ahead, for the stations
    x_scale: str = "default"
    y_scale: str = "default"
    split: str = "blocks"

    def __post_init__(self) -> None:
        _checks.one_of("x_scale", self.x_scale, ("default", *X_SCALES))
        _checks.one_of("y_scale", self.y_scale, ("default", *Y_SCALES))
        _checks.one_of("split", self.split, SPLITS)


@dataclass(frozen=True)
class KernelSpec:
    """[kernels]: the dictionary. `read_as`: is sigma2 the kernel's variance, or the frequencies'?"""

    family: str = "gaussian"
    D: int = 50
    seed: int = 0
    sigma2: tuple[float, ...] = kernels.PAPER_SIGMA2
    read_as: str = "bandwidth"

    def __post_init__(self) -> None:
        _checks.one_of("kernels.family", self.family, FAMILIES)
        _checks.one_of("kernels.read_as", self.read_as, ("bandwidth", "frequency"))
        for sigma2 in self.sigma2:
            _checks.positive("sigma2", sigma2)

    def draw(self, d: int, trial: int = 0) -> Array:
        """V for d inputs; each trial draws anew."""
        sigma2 = self.sigma2 if self.read_as == "bandwidth" else tuple(1 / s for s in self.sigma2)
        return FAMILIES[self.family](d, self.D, self.seed + trial, sigma2)


@dataclass(frozen=True)
class RateSpec:
    """[rates]: rho = eta = kappa sqrt(T), eta_g = kappa_g sqrt(T), unless given as numbers."""

    kappa: float = 1.0
    kappa_g: float = 1.0
    rho: float | None = None
    eta: float | None = None
    eta_g: float | None = None

    def __post_init__(self) -> None:
        _all_positive(self)

    def at(self, T: int) -> Rates:
        given = {name: getattr(self, name) for name in ("rho", "eta", "eta_g")}
        chosen = {name: value for name, value in given.items() if value is not None}
        return dataclasses.replace(Rates.paper(T, self.kappa, self.kappa_g), **chosen)


@dataclass(frozen=True)
class LearningSpec:
    """[learning]: loss and Hedge rule."""

    loss: str = "squared"
    reg: float | None = None  # 0.01 for ridge, else 0
    delta: float | None = None  # for huber alone, and 1 there
    hedge: str = "neighbours"

    def __post_init__(self) -> None:
        self.make_loss()
        hedge.rule(self.hedge)

    def make_loss(self) -> Loss:
        made = losses.get(self.loss)
        if self.delta is not None:
            made = losses.huber(self.delta) if made.name == "huber" else self._refuse_delta()
        return made if self.reg is None else made._replace(reg=_checks.not_negative("reg", self.reg))

    def _refuse_delta(self) -> NoReturn:
        raise InputError(
            f"delta is {self.delta!r} but the loss is {self.loss!r}; expected delta with huber alone; "
            "leave it out or choose the loss huber"
        )


@dataclass(frozen=True)
class OmklSpec:
    """[omkl]: the centralised comparator, mu = kappa_mu / sqrt(N) and eta_g = kappa_g sqrt(N).

    Without kappa_mu it steps like a DOMKL learner without neighbours, at the same temperature.
    """

    kappa_mu: float | None = None
    kappa_g: float = 1.0

    def __post_init__(self) -> None:
        _all_positive(self)

    def settings(self, rates: Rates, N: int) -> tuple[float, float]:
        """mu and eta_g for N samples beside learners with these rates."""
        if self.kappa_mu is None:
            # A lone learner's prox moves theta by 2/(eta + 2) of its error: as much as this gradient step.
            return 1 / (rates.eta + 2), rates.eta_g
        return self.kappa_mu / math.sqrt(N), self.kappa_g * math.sqrt(N)


def _all_positive(spec: RateSpec | OmklSpec) -> None:
    for name, value in vars(spec).items():
        if value is not None:
            _checks.positive(name, value)


@dataclass(frozen=True)
class Experiment:
    """A whole experiment file."""

    name: str
    title: str = ""
    graphs: tuple[str, ...] = ("complete",)
    learners: int | None = None  # where the data do not say
    trials: int = 1
    data: DataSpec = field(default_factory=DataSpec)
    kernels: KernelSpec = field(default_factory=KernelSpec)
    rates: RateSpec = field(default_factory=RateSpec)
    learning: LearningSpec = field(default_factory=LearningSpec)
    omkl: OmklSpec = field(default_factory=OmklSpec)

    def __post_init__(self) -> None:
        _checks.count("trials", self.trials)
        if self.learners is not None:
            _checks.count("learners", self.learners)


SECTIONS: dict[str, type[Any]] = {
    "data": DataSpec,
    "kernels": KernelSpec,
    "rates": RateSpec,
    "learning": LearningSpec,
    "omkl": OmklSpec,
}


def load(name: str | Path) -> Experiment:
    """An experiment from a TOML file, or by the name of a shipped one.

    >>> from domkl import experiment
    >>> experiment.load("three-stations").data.horizon
    6
    """
    path = _find(Path(name))
    try:
        table = _toml().loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise DataError(
            f"{path} cannot be read: {error}; expected a TOML experiment; mend the file"
        ) from None
    parts = {
        key: _section(SECTIONS[key], value, f"{path.name} [{key}]") for key, value in _tables(table, path)
    }
    plain = {key: value for key, value in table.items() if key not in parts}
    return _section(Experiment, {"name": path.stem, **plain}, path.name, **parts)


def _find(path: Path) -> Path:
    shipped = SHIPPED / f"{path.name.removesuffix('.toml')}.toml"
    for candidate in (path, shipped):
        if candidate.is_file():
            return candidate
    names = ", ".join(sorted(p.stem for p in SHIPPED.glob("*.toml")))
    raise InputError(f"there is no experiment {str(path)!r}; expected a TOML file or one of {names}")


def _toml() -> Any:
    import sys

    if sys.version_info >= (3, 11):
        import tomllib

        return tomllib
    from ._extras import need

    return need("tomli", "cli")


def _tables(table: Toml, path: Path) -> list[tuple[str, Toml]]:
    found = [(key, value) for key, value in table.items() if isinstance(value, dict)]
    for key, _ in found:
        _checks.one_of(f"{path.name} section", key, SECTIONS)
    return found


def _section(kind: type[Section], table: Toml, where: str, **parts: Any) -> Section:
    fields = {f.name: f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for key, value in table.items():
        _checks.one_of(f"{where} key", key, fields)
        _check_type(f"{where} {key}", value, str(fields[key].type))
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
    return kind(**values, **parts)


KINDS: dict[str, tuple[type, ...]] = {"str": (str,), "int": (int,), "float": (int, float)}


def _check_type(where: str, value: object, wanted: str) -> None:
    """The few types that settings have, by the name their dataclass gives them."""
    kind, _, inner = wanted.removesuffix(" | None").removesuffix(", ...]").partition("[")
    if kind == "tuple":
        good = isinstance(value, list) and bool(value) and all(_is_a(inner, each) for each in value)
        expected = f"a list with one {inner} or more"
    elif kind in KINDS:
        good, expected = _is_a(kind, value), kind
    else:
        good, expected = False, "a section in [brackets]"
    if not good:
        raise InputError(f"{where} is {value!r}; expected {expected}; mend the file")


def _is_a(kind: str, value: object) -> bool:
    return isinstance(value, KINDS[kind]) and not isinstance(value, bool)


@dataclass(frozen=True)
class Outcome:
    """A finished experiment on one network: everything that tables and figures need."""

    experiment: Experiment
    dataset: str
    split: Split
    graph: Graph
    rates: Rates
    fingerprint: str  # of V
    run: Run
    central_mse: Array  # (J,) of OMKL, which sees everybody's data, on each learner's samples
    baselines: dict[str, Array]  # further mean squared errors, (J,)
    unit: str  # of sqrt(scale * MSE)
    scale: float  # what a squared error is multiplied with to be in that unit squared
    notes: tuple[str, ...]

    @property
    def sigma2(self) -> tuple[float, ...]:
        """Each kernel's parameter, as the experiment calls it. (P,)"""
        return self.experiment.kernels.sigma2


class Source(NamedTuple):
    """Streams to learn from, and what their errors mean to people."""

    name: str
    split: Split
    unit: str = ""  # of the labels, where they have one
    scale: float = 1.0  # a squared error times this is in that unit squared
    baselines: Mapping[str, Array] = MappingProxyType({})  # predictions to compare with, (J, T)
    dropped: int = 0  # rows without a number in every cell


def prepare(experiment: Experiment, rounds: int | None = None) -> Source:
    """The experiment's first dataset, divided over its learners and cut to `rounds`."""
    spec = experiment.data
    if spec.names[0] == "stations":
        return cut(_stations(experiment), rounds)
    data = datasets.load(spec.names[0], x_scale=spec.x_scale, y_scale=spec.y_scale)
    J = as_graph(experiment.graphs[0]).J if experiment.learners is None else experiment.learners
    return cut(Source(data.name, data.split(J, spec.split, experiment.kernels.seed)), rounds)


def _stations(experiment: Experiment) -> Source:
    spec, fixed = experiment.data, DataSpec()
    for name in ("x_scale", "y_scale", "split"):
        if getattr(spec, name) != getattr(fixed, name):
            raise InputError(
                f"{name} is {getattr(spec, name)!r} for the stations; expected none, as they come scaled "
                f"and divided; leave {name} out"
            )
    if experiment.learners not in (None, len(stations.AIRPORTS)):
        raise InputError(f"learners is {experiment.learners} for the stations; expected 3; leave it out")
    forecast = {"as it is now": stations.persistence(spec.horizon)}
    degrees = stations.HOT - stations.COLD
    return Source("stations", datasets.load_stations(spec.horizon), "°F", degrees**2, forecast)


def from_table(
    experiment: Experiment, table: Table, name: str, learners: int | None, rounds: int | None
) -> Source:
    """A user's table as streams: inputs and labels scaled to [0, 1], errors told in the label's own scale."""
    if table.learners is not None:
        if learners is not None:
            raise InputError(
                f"learners is {learners} but the table has a learner column; expected one of the two; "
                "leave one out"
            )
        _refuse_waste(table.learners, rounds)
        split = table.by_learner("minmax", "minmax")
    else:
        given = experiment.learners if learners is None else learners
        J = _checks.count("learners", 3 if given is None else given)
        data = table.dataset().scaled("minmax", "minmax")
        split = data.split(J, experiment.data.split, experiment.kernels.seed)
    return cut(Source(name, split, scale=_squared_span(table), dropped=table.dropped), rounds)


def _squared_span(table: Table) -> float:
    span = float(np.ptp(table.y)) or 1.0
    if math.isinf(span * span):
        raise DataError(
            f"{table.name}, column {table.target!r}: its values span {span:g}, too much to square; "
            "expected less than 1e154; correct or remove such rows"
        )
    return span * span


def _refuse_waste(learners: Sequence[str], rounds: int | None) -> None:
    """All streams are as long as the shortest; whoever did not ask for that should not lose most rows."""
    counts = Counter(learners)
    shortest = min(counts, key=lambda name: counts[name])
    T, unused = counts[shortest], len(learners) - counts[shortest] * len(counts)
    if 2 * unused > len(learners) and (rounds is None or rounds > T):
        raise InputError(
            f"learner {shortest!r} has {T} rows, so {unused} of {len(learners)} rows would go unused; "
            "expected streams of about one length; remove that learner's rows, or take the first rows of "
            f"all with --rounds {T}"
        )


def cut(source: Source, rounds: int | None) -> Source:
    """The first `rounds` rounds."""
    if rounds is None:
        return source
    T = min(_checks.count("rounds", rounds), source.split.y.shape[1])
    split = dataclasses.replace(source.split, X=source.split.X[:, :T], y=source.split.y[:, :T])
    return source._replace(split=split, baselines={k: v[:, :T] for k, v in source.baselines.items()})


def network(text: str, names: Sequence[str]) -> Graph:
    """A graph by name, or from links between learners such as "EWR-JFK,JFK-LGA"."""
    if "-" not in text:
        return dataclasses.replace(as_graph(text, len(names)), names=tuple(names))
    return build(names, [_link(link.strip(), names) for link in text.split(",")])


def _link(text: str, names: Sequence[str]) -> tuple[str, str]:
    """The two ends of a link; a name may hold a "-" itself, so each is tried as the one between the ends."""
    cuts = [(text[:i].strip(), text[i + 1 :].strip()) for i, mark in enumerate(text) if mark == "-"]
    ends = [(a, b) for a, b in cuts if a in names and b in names]
    if len(ends) == 1:
        return ends[0]
    if len(cuts) == 1:
        wrong = next(end for end in cuts[0] if end not in names)
        _checks.one_of("graph link end", wrong, names)
    raise InputError(
        f"graph link {text!r} is not two learners with a - between; expected two of {', '.join(names)}; "
        "write links like A-B,B-C"
    )


def carry_out(experiment: Experiment, source: Source, progress: Progress | None = None) -> Outcome:
    """Run DOMKL on the experiment's first graph, and OMKL and the baselines on the same samples."""
    split = source.split
    T, d = split.X.shape[1:]
    graph = network(experiment.graphs[0], split.names)
    V, rates, loss = experiment.kernels.draw(d), experiment.rates.at(T), experiment.learning.make_loss()
    run = simulate(
        split.X,
        split.y,
        graph,
        kernels=V,
        rates=rates,
        loss=loss,
        hedge=experiment.learning.hedge,
        delay=split.delay,
        weights_every=max(1, T // 200),
        progress=progress,
    )
    y = losses.labels(loss, split.y)
    guesses = {"mean so far": _running_mean(y, split.delay), **source.baselines}
    return Outcome(
        experiment=experiment,
        dataset=source.name,
        split=split,
        graph=graph,
        rates=rates,
        fingerprint=kernels.fingerprint(V),
        run=run,
        central_mse=centralised(experiment, split, V, rates, loss),
        baselines={name: ((guess - y) ** 2).mean(1) for name, guess in guesses.items()},
        unit=source.unit,
        scale=source.scale,
        notes=_notes(graph, source),
    )


def centralised(experiment: Experiment, split: Split, V: Array, rates: Rates, loss: Loss) -> Array:
    """OMKL on everybody's samples, round by round; its error on each learner's samples. (J,)"""
    J, T, d = split.X.shape
    X, y = split.X.swapaxes(0, 1).reshape(T * J, d), split.y.T.reshape(T * J)
    mu, eta_g = experiment.omkl.settings(rates, T * J)
    run = omkl(X, y, kernels=V, mu=mu, eta_g=eta_g, loss=loss, delay=split.delay * J)
    labels = losses.labels(loss, y)
    return np.asarray(((run.y_hat - labels) ** 2).reshape(T, J).mean(0))


def _running_mean(y: Array, delay: int) -> Array:
    """The mean of each learner's labels that are known so far. (J, T)"""
    means = np.cumsum(y, axis=1) / np.arange(1, y.shape[1] + 1)
    return np.concatenate([np.zeros((len(y), delay + 1)), means], axis=1)[:, : y.shape[1]]


def _notes(graph: Graph, source: Source) -> tuple[str, ...]:
    notes = (
        (graph.note, f"network {graph.note}: the paper's figure is not in its text"),
        (source.dropped, f"{source.dropped} rows dropped: a cell was missing"),
        (
            source.split.left_out,
            f"{source.split.left_out} rows not used, so that all streams are of one length",
        ),
    )
    return tuple(note for told, note in notes if told)
