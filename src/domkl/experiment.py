"""An experiment is a TOML file: which data, which network, which kernels and rates.

`load` reads and checks one; `carry_out` runs it beside its comparators.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from . import _checks, datasets, kernels, losses
from ._types import Array
from .central import omkl
from .core import Rates
from .datasets import Split, Table, stations
from .errors import DataError, InputError
from .graph import Graph, as_graph
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

    def at(self, T: int) -> Rates:
        given = {name: getattr(self, name) for name in ("rho", "eta", "eta_g")}
        chosen = {name: value for name, value in given.items() if value is not None}
        return dataclasses.replace(Rates.paper(T, self.kappa, self.kappa_g), **chosen)


@dataclass(frozen=True)
class LearningSpec:
    """[learning]: loss and Hedge rule."""

    loss: str = "squared"
    reg: float = 0.0
    delta: float = 1.0
    hedge: str = "neighbours"

    def make_loss(self) -> Loss:
        made = losses.huber(self.delta) if self.loss == "huber" else losses.get(self.loss)
        return made._replace(reg=_checks.not_negative("reg", self.reg)) if self.reg else made


@dataclass(frozen=True)
class OmklSpec:
    """[omkl]: the centralised comparator, mu = kappa_mu / sqrt(N) and eta_g = kappa_g sqrt(N).

    Without kappa_mu it steps like a DOMKL learner without neighbours, at the same temperature.
    """

    kappa_mu: float | None = None
    kappa_g: float = 1.0

    def settings(self, rates: Rates, N: int) -> tuple[float, float]:
        """mu and eta_g for N samples beside learners with these rates."""
        if self.kappa_mu is None:
            # A lone learner's prox moves theta by 2/(eta + 2) of its error: as much as this gradient step.
            return 1 / (rates.eta + 2), rates.eta_g
        return self.kappa_mu / math.sqrt(N), self.kappa_g * math.sqrt(N)


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


def _check_type(where: str, value: object, wanted: str) -> None:
    """The few types that settings have, by the name their dataclass gives them."""
    kinds: dict[str, tuple[type, ...]] = {
        "str": (str,),
        "int": (int,),
        "float": (int, float),
        "tuple": (list,),
    }
    expected = kinds[wanted.split("[")[0].split(" ")[0]]
    if not isinstance(value, expected) or isinstance(value, bool):
        raise InputError(f"{where} is {value!r}; expected {wanted.removesuffix(' | None')}; mend the file")


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
        forecast = {"as it is now": stations.persistence(spec.horizon)}
        degrees = stations.HOT - stations.COLD
        return cut(
            Source("stations", datasets.load_stations(spec.horizon), "°F", degrees**2, forecast), rounds
        )
    data = datasets.load(spec.names[0], x_scale=spec.x_scale, y_scale=spec.y_scale)
    J = experiment.learners or as_graph(experiment.graphs[0]).J
    return cut(Source(data.name, data.split(J, spec.split, experiment.kernels.seed)), rounds)


def from_table(
    experiment: Experiment, table: Table, name: str, learners: int | None, rounds: int | None
) -> Source:
    """A user's table as streams: inputs and labels scaled to [0, 1], errors told in the label's own scale."""
    if table.learners is not None:
        split = table.by_learner("minmax", "minmax")
    else:
        data = table.dataset().scaled("minmax", "minmax")
        split = data.split(
            learners or experiment.learners or 3, experiment.data.split, experiment.kernels.seed
        )
    span = float(np.ptp(table.y)) or 1.0
    return cut(Source(name, split, scale=span**2, dropped=table.dropped), rounds)


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
        graph = as_graph(text, len(names))
    else:
        links = [
            _checks.one_of("graph link end", end, names)
            for link in text.split(",")
            for end in link.split("-")
        ]
        index = [list(names).index(end) for end in links]
        graph = as_graph(list(zip(index[::2], index[1::2], strict=True)), len(names))
    return dataclasses.replace(graph, names=tuple(names))


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
