"""An experiment is a TOML file: which data, which network, which kernels and rates."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from . import _checks, _settings, hedge, kernels, losses
from ._types import Array
from .core import Rates, check_step
from .datasets.base import SPLITS
from .datasets.scaling import X_SCALES, Y_SCALES
from .errors import InputError
from .losses import Loss

#: The experiments that come with the package.
SHIPPED = Path(__file__).parent / "experiments"
#: "auto" needs neither kernels nor rates, "own" takes the file's, "paper" those that the paper prints.
PRESETS = ("auto", "own", "paper")
#: A file with one of these sections has settings of its own.
OWN = ("kernels", "rates", "learning", "omkl")
FAMILIES: dict[str, Callable[..., Array]] = {
    "gaussian": kernels.gaussian,
    "laplacian": kernels.laplacian,
    "cauchy": kernels.cauchy,
}


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
    """[learning]: loss, Hedge rule and local step."""

    loss: str = "squared"
    reg: float | None = None  # 0.01 for ridge, else 0
    delta: float | None = None  # for huber alone, and 1 there
    hedge: str = "neighbours"
    step: str = "first"
    memory: float | None = None  # with step = "newton": how many past samples count, else all

    def __post_init__(self) -> None:
        self.make_loss()
        hedge.rule(self.hedge)
        check_step(self.step, self.memory)

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
class AutoSpec:
    """[auto]: how many numbers a learner of preset "auto" has; its time grows with their square."""

    size: int = 1700

    def __post_init__(self) -> None:
        _checks.count("auto.size", self.size, least=16)


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
    """A whole experiment file.

    With preset "auto", [kernels], [rates] and [omkl] are those of the first-order learners beside it.
    """

    name: str
    title: str = ""
    preset: str = "own"
    graphs: tuple[str, ...] = ("complete",)
    learners: int | None = None  # where the data do not say
    trials: int = 1
    data: DataSpec = field(default_factory=DataSpec)
    auto: AutoSpec = field(default_factory=AutoSpec)
    kernels: KernelSpec = field(default_factory=KernelSpec)
    rates: RateSpec = field(default_factory=RateSpec)
    learning: LearningSpec = field(default_factory=LearningSpec)
    omkl: OmklSpec = field(default_factory=OmklSpec)

    def __post_init__(self) -> None:
        _checks.one_of("preset", self.preset, PRESETS)
        _checks.count("trials", self.trials)
        if self.learners is not None:
            _checks.count("learners", self.learners)

    def with_preset(self, preset: str) -> Experiment:
        """The same data and network with another preset; "paper" brings every setting that is printed."""
        chosen = dataclasses.replace(self, preset=preset)
        if preset != "paper":
            return chosen
        kernels, rates = KernelSpec(seed=self.kernels.seed), RateSpec()
        omkl = OmklSpec(kappa_mu=1.0)
        return dataclasses.replace(chosen, kernels=kernels, rates=rates, learning=LearningSpec(), omkl=omkl)


SECTIONS = _settings.sections_of(Experiment)


def load(name: str | Path) -> Experiment:
    """An experiment from a TOML file, or by the name of a shipped one.

    A file that names no preset is "own" if it has [kernels], [rates], [learning] or [omkl], else "auto".

    >>> from domkl import experiment
    >>> experiment.load("three-stations").data.horizon
    6
    """
    path = _find(Path(name))
    table = _settings.read(path, "a TOML experiment", "cli")
    found = _settings.tables(table, SECTIONS, path.name)
    parts = {
        key: _settings.section(SECTIONS[key], value, f"{path.name} [{key}]") for key, value in found.items()
    }
    plain = {key: value for key, value in table.items() if key not in parts}
    preset = "own" if any(key in parts for key in OWN) else "auto"
    chosen = _settings.section(Experiment, {"name": path.stem, "preset": preset, **plain}, path.name, **parts)
    return chosen.with_preset(chosen.preset)


def _find(path: Path) -> Path:
    shipped = SHIPPED / f"{path.name.removesuffix('.toml')}.toml"
    for candidate in (path, shipped):
        if candidate.is_file():
            return candidate
    names = ", ".join(sorted(p.stem for p in SHIPPED.glob("*.toml")))
    raise InputError(f"there is no experiment {str(path)!r}; expected a TOML file or one of {names}")
