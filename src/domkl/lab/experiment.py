"""An experiment is a TOML file: which data, which network, which model."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from ..base import checks, places, toml
from ..base.errors import InputError
from ..datasets.columns import Columns
from ..datasets.dataset import SPLITS, X_SCALES, Y_SCALES
from ..datasets.readers.queries import anchored, is_database, name_of
from ..learning.first_order import Rates
from ..models import settings
from ..models.settings import Auto, KernelSpec, ModelSettings, Paper

#: The experiments that come with the package.
SHIPPED = Path(__file__).parent / "experiments"
#: How rows of one's own data are divided unless told: so that no learner sees another's future.
OWN_SPLIT = "interleaved"


@dataclass(frozen=True)
class DataSpec:
    """[data]: which sets, how scaled, how divided over learners; or a path to data of one's own."""

    names: tuple[str, ...] = ("stations",)
    path: str = ""  # anything that `read_table` reads
    query: str = ""  # of a database
    horizon: int = 6  # hours ahead, for the stations
    x_scale: str = "default"
    y_scale: str = "default"
    split: str = "blocks"

    def __post_init__(self) -> None:
        checks.one_of("x_scale", self.x_scale, ("default", *X_SCALES))
        checks.one_of("y_scale", self.y_scale, ("default", *Y_SCALES))
        checks.one_of("split", self.split, SPLITS)


@dataclass(frozen=True)
class OmklSpec:
    """[omkl]: the centralised comparator, mu = kappa_mu / sqrt(N) and eta_g = kappa_g sqrt(N).

    Without kappa_mu it steps like a DOMKL learner without neighbours, at the same temperature.
    """

    kappa_mu: float | None = None
    kappa_g: float = 1.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None:
                checks.positive(name, value)

    def settings(self, rates: Rates, N: int) -> tuple[float, float]:
        """mu and eta_g for N samples beside learners with these rates."""
        if self.kappa_mu is None:
            # A lone learner's prox moves theta by 2/(eta + 2) of its error: as much as this gradient step.
            return 1 / (rates.eta + 2), rates.eta_g
        return self.kappa_mu / math.sqrt(N), self.kappa_g * math.sqrt(N)


@dataclass(frozen=True)
class Experiment:
    """A whole experiment file.

    [model] is what learns; [paper] is the paper's learner that `--model paper` chooses; [omkl] is the
    centralised comparator of `domkl reproduce`.
    """

    name: str
    title: str = ""
    graphs: tuple[str, ...] = ("complete",)
    learners: int | None = None  # where the data do not say
    trials: int = 1
    data: DataSpec = field(default_factory=DataSpec)
    columns: Columns = field(default_factory=Columns)  # what is in data.path
    model: ModelSettings = field(default_factory=Auto)
    paper: Paper | None = None  # the usual one
    omkl: OmklSpec = field(default_factory=OmklSpec)

    def __post_init__(self) -> None:
        checks.count("trials", self.trials)
        if self.learners is not None:
            checks.count("learners", self.learners)

    def with_model(self, kind: str) -> Experiment:
        """The same data and network with the model of that kind: "auto", or the file's "paper"."""
        if checks.one_of("model", kind, settings.KINDS) == self.model.kind:
            return self
        return dataclasses.replace(self, model=(self.paper or Paper()) if kind == Paper.kind else Auto())

    @property
    def paper_model(self) -> Paper | None:
        """The model if it is the paper's learner."""
        return cast(Paper, self.model) if self.model.has_kernels else None

    @property
    def kernels(self) -> KernelSpec | None:
        """How the model's kernels are drawn; None where it has none, or they were given."""
        if self.paper_model is None:
            return None
        given = KernelSpec() if self.paper_model.kernels is None else self.paper_model.kernels
        return given if isinstance(given, KernelSpec) else None

    @property
    def seed(self) -> int:
        """The model's seed, which a random split uses too."""
        return getattr(self.kernels or self.model, "seed", 0)

    def describe(self) -> dict[str, Any]:
        """Everything that results depend on, as JSON holds it."""
        data = dataclasses.asdict(self.data)
        is_address = is_database(self.data.path)  # which may hold a password
        path = name_of(self.data.path) if is_address else self.data.path
        own = {"path": path, "query": self.data.query, "columns": self.columns.table()}
        return {
            "data": {name: value for name, value in {**data, **own}.items() if value not in ("", {})},
            "graphs": list(self.graphs),
            "learners": self.learners,
            "trials": self.trials,
            "model": self.model.table,
            "omkl": dataclasses.asdict(self.omkl),
        }


def load(name: str | Path) -> Experiment:
    """An experiment from a TOML file, or by the name of a shipped one.

    >>> from domkl.lab import experiment
    >>> experiment.load("three-stations").data.horizon
    6
    """
    path = _find(Path(name))
    table = toml.read(path, "a TOML experiment", "cli")
    found = toml.tables(table, ("data", "columns", "model", "paper", "omkl"), path.name)
    parts: dict[str, Any] = {}
    if "omkl" in found:
        parts["omkl"] = toml.section(OmklSpec, found["omkl"], f"{path.name} [omkl]")
    if "data" in found:
        parts["data"] = _data(found["data"], path)
    if "columns" in found:
        parts["columns"] = Columns.from_table(found["columns"], f"{path.name} [columns]")
    if "model" in found:
        parts["model"] = settings.from_table(found["model"], f"{path.name} [model]")
    if "paper" in found:
        parts["paper"] = settings.from_table({**found["paper"], "kind": "paper"}, f"{path.name} [paper]")
    elif "model" in parts and parts["model"].has_kernels:
        parts["paper"] = parts["model"]
    plain = {key: value for key, value in table.items() if key not in found}
    return toml.section(Experiment, {"name": path.stem, **plain}, path.name, **parts)


def _data(table: toml.Toml, file: Path) -> DataSpec:
    """[data], with a path that is relative to the experiment's own folder."""
    spec = toml.section(DataSpec, table, f"{file.name} [data]")
    if not spec.path:
        return spec
    path = spec.path if spec.path == "-" else anchored(spec.path, file.parent)
    return dataclasses.replace(spec, path=path, split=table.get("split", OWN_SPLIT))


def _find(path: Path) -> Path:
    shipped = SHIPPED / f"{path.name.removesuffix('.toml')}.toml"
    for candidate in (path, shipped):
        if candidate.is_file():
            return candidate
    names = sorted(each.stem for each in SHIPPED.glob("*.toml"))
    near = places.near_file(path) or checks.hint(str(path), names).partition("; ")[2]
    raise InputError(
        f"there is no experiment {str(path)!r}; expected a TOML file or one of {', '.join(names)}; {near}"
    )
