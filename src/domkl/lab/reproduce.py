"""The paper's tables II to IX, run again and set beside the printed figures.

A task is one dataset on one network with one draw of the kernels; `Store` keeps finished ones on disk, so
that an interrupted run goes on where it stopped. `summarise` makes the tables' figures of them, `judge` says
which of the paper's statements hold, and `sheet` lays a table out.
"""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .. import __version__, datasets
from ..base.errors import DataError, InputError
from ..base.extras import need
from ..base.types import Array
from ..base.words import NONE, digits
from ..datasets import Dataset, Split
from ..exchange.graph import paper
from ..learning import metrics
from ..learning.metrics import exponent
from ..models.settings import KernelSpec, Paper
from ..simulator import simulate
from .central import omkl
from .experiment import Experiment
from .sheet import Sheet

Rows: TypeAlias = "list[dict[str, Any]]"

DATASETS = (
    "weather",
    "conductivity",
    "air_quality",
    "wave_energy",
    "traffic/5",
    "temperature/5",
    "traffic/10",
    "temperature/10",
)
NETWORKS = (1, 2, 3, 4)
#: What `--quick` learns from instead: it ships, and has learners enough for these networks.
SHIPPED, SMALL_NETWORKS, HOURS = "stations", (1, 2), 6
#: The paper's single kernels, by their sigma^2.
SINGLES = {"DOKL1": 1e-2, "DOKL2": 1e2}
#: Lengths of the streams that the regrets' exponents are fitted on.
LENGTHS = (250, 500, 1000, 2000, 4000, 8000, 16000)


class Task(NamedTuple):
    """One run. `network` 0 is the centralised OMKL; dataset "regret" is a made stream of `network` rounds."""

    dataset: str
    network: int
    trial: int


def plan(names: Sequence[str], networks: Sequence[int], trials: int) -> list[Task]:
    """Every task of the tables and of the regrets, the longest first."""
    grid = [Task(name, n, trial) for name in names for n in (0, *networks) for trial in range(trials)]
    return [Task("regret", T, 0) for T in reversed(LENGTHS)] + grid


def run_all(
    experiment: Experiment, tasks: Sequence[Task], jobs: int, digests: Mapping[str, str] | None = None
) -> Iterator[tuple[Task, Rows]]:
    """Perform tasks side by side with joblib, and yield each as it ends.

    `digests` are those that the datasets must have, wherever the work is done.
    """
    joblib, known = need("joblib", "cli"), digests or {}
    work = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")
    yield from work(
        joblib.delayed(_perform_named)(experiment, task, known.get(task.dataset)) for task in tasks
    )


def _perform_named(experiment: Experiment, task: Task, digest: str | None) -> tuple[Task, Rows]:
    if digest is not None and digest != digest_of(experiment, task.dataset):
        raise DataError(
            f"{task.dataset} is another version where this task ran; expected the same file on every "
            "machine; copy it there"
        )
    return task, perform(experiment, task)


def perform(experiment: Experiment, task: Task) -> Rows:
    """The figures of one task: rows of metric, method, learner, value."""
    if task.dataset == "regret":
        return _regrets(experiment, task.network)
    return _centralised(experiment, task) if task.network == 0 else _network(experiment, task)


def digest_of(experiment: Experiment, name: str) -> str:
    """Digest of the data that the experiment learns from: files of one name come in several versions."""
    data = datasets.load_stations(horizon=HOURS) if name == SHIPPED else _data(experiment, name)
    return hashlib.sha256(data.X.tobytes() + data.y.tobytes()).hexdigest()[:16]


def _data(experiment: Experiment, name: str) -> Dataset:
    return _load(name, experiment.data.x_scale, experiment.data.y_scale)


@lru_cache(maxsize=8)
def _load(name: str, x_scale: str, y_scale: str) -> Dataset:
    return datasets.load(name, x_scale=x_scale, y_scale=y_scale)


def _paper(experiment: Experiment) -> Paper:
    if experiment.paper_model is not None:
        return experiment.paper_model
    raise InputError(
        f"the model of {experiment.name} is {experiment.model.kind}; expected paper, as the tables are the "
        'paper\'s; set kind = "paper" in [model]'
    )


def _split(experiment: Experiment, task: Task, J: int) -> Split:
    """The data of a task for J learners, or for one that sees all of it."""
    if task.dataset != SHIPPED:
        return _data(experiment, task.dataset).split(J, how=experiment.data.split, seed=task.trial)
    found = datasets.load_stations(horizon=HOURS)
    if len(found.y) == J:
        return found
    pooled = np.moveaxis(found.X, 0, 1).reshape(1, -1, found.X.shape[2])
    return Split(pooled, found.y.T.reshape(1, -1), delay=len(found.y) * found.delay)


def _network(experiment: Experiment, task: Task) -> Rows:
    """DOMKL, and with it every single kernel: kernels meet only in Hedge, so one run holds them all."""
    graph, model = paper(task.network), _paper(experiment)
    split = _split(experiment, task, graph.J)
    drawn = dataclasses.replace(model, kernels=model.draw(split.X.shape[2], task.trial))
    run = simulate(split.X, split.y, graph, model=drawn, delay=split.delay)
    rows = _rows("mse", "DOMKL", run.mse) + _rows("cv", "DOMKL", run.cv)
    for method, sigma2 in SINGLES.items():
        known = (experiment.kernels or KernelSpec()).sigma2
        p = int(np.argmin(np.abs(np.log(known) - np.log(sigma2))))
        rows += _rows("mse", method, run.kernel_mse[:, p]) + _rows("cv", method, run.kernel_cv[:, p])
    return rows + _rows("mse", "best kernel", run.kernel_mse.min(1))


def _centralised(experiment: Experiment, task: Task) -> Rows:
    split, model = _split(experiment, task, 1), _paper(experiment)
    V, N = model.draw(split.X.shape[2], task.trial), split.y.shape[1]
    mu, eta_g = experiment.omkl.settings(model.rates_at(N), N)
    run = omkl(
        split.X[0], split.y[0], kernels=V, mu=mu, eta_g=eta_g, loss=model.loss_function, delay=split.delay
    )
    return [{"metric": "mse", "method": "OMKL", "learner": None, "value": run.mse}]


def _regrets(experiment: Experiment, T: int) -> Rows:
    X, y = made_stream(T)
    model = _paper(experiment)
    V = model.draw(X.shape[2])
    run = simulate(X, y, paper(1), model=Paper(kernels=V, rates=model.rates_at(T)))
    best = metrics.hindsight(X, y, V)
    learning, discrepancy = metrics.regret_a(run.y_hat, y, best), metrics.regret_d(run.cv, T)
    return _rows("regret_a", "DOMKL", learning) + _rows("regret_d", "DOMKL", discrepancy)


def made_stream(T: int) -> tuple[Array, Array]:
    """A smooth function of two inputs plus noise, at three learners, for T rounds."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(3, T, 2))
    y = 0.5 * np.sin(2 * X[..., 0]) + 0.3 * X[..., 1]
    return X, y + 0.1 * rng.standard_normal(y.shape)


def _rows(metric: str, method: str, values: Array) -> Rows:
    return [
        {"metric": metric, "method": method, "learner": j, "value": float(value)}
        for j, value in enumerate(values, start=1)
    ]


FIELDS = {"metric", "method", "learner", "value"}


class Store:
    """Results of one experiment in a file that only grows.

    A line counts only for the settings and data it was made with: change the experiment or the
    dataset's file and its tasks are run again. A line that a crash left half-written is skipped, and its
    task is run again too.

    `digests` are of the datasets that are here; of the others the version used last counts.
    """

    def __init__(self, path: Path, experiment: Experiment, digests: Mapping[str, str] | None = None) -> None:
        self.path, self.key = path, _key(experiment)
        text = self._text()
        self._torn = text != "" and not text.endswith("\n")
        found = [record for line in text.splitlines() if (record := _record(line)) and record.key == self.key]
        self.digests = {record.task.dataset: record.digest for record in found} | dict(digests or {})
        self.done: dict[Task, Rows] = {
            record.task: record.rows for record in found if record.digest == self.digests[record.task.dataset]
        }

    def missing(self, tasks: Iterable[Task]) -> list[Task]:
        """Those of the tasks that have no result yet."""
        return [task for task in tasks if task not in self.done]

    def add(self, task: Task, rows: Rows) -> None:
        """Keep a finished task."""
        digest = self.digests.setdefault(task.dataset, "")
        line = json.dumps({"key": self.key, "data": digest, "task": task, "rows": rows})
        self._append(("\n" if self._torn else "") + line + "\n")
        self._torn = False
        self.done[task] = rows

    def rows(self, tasks: Iterable[Task]) -> Rows:
        """All rows of these tasks, each with its dataset, network and trial."""
        return [{**task._asdict(), **row} for task in tasks for row in self.done[task]]

    def check_writable(self) -> None:
        """Refuse a file that cannot be written, before the first task is run."""
        self._append("")

    def _append(self, text: str) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise InputError(
                f"{self.path} cannot be written: {error.strerror}; expected a place to keep results; "
                "choose another --out"
            ) from None

    def _text(self) -> str:
        try:
            return self.path.read_text(encoding="utf-8") if self.path.is_file() else ""
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise DataError(
                f"{self.path} cannot be read: {reason}; expected results that domkl wrote; "
                "move it away or choose another --out"
            ) from None


class _Record(NamedTuple):
    key: str
    digest: str
    task: Task
    rows: Rows


def _record(line: str) -> _Record | None:
    """A line of the file, or None if it is not whole."""
    try:
        found = json.loads(line)
        record = _Record(found["key"], found["data"], Task(*found["task"]), found["rows"])
        hash(record.task)
        good = all(r.keys() >= FIELDS and isinstance(r["value"], (int, float)) for r in record.rows)
        return record if good else None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _key(experiment: Experiment) -> str:
    """Of everything that one task's results depend on; which tasks there are is not part of it."""
    settings = experiment.describe()
    data = {name: value for name, value in settings["data"].items() if name != "names"}
    text = json.dumps([__version__, data, settings["model"], settings["omkl"]], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


Place: TypeAlias = "tuple[str, str, int, str, int | None]"  # metric, dataset, network, method, learner

#: The paper's tables: which metric, regression or series, which networks.
TABLES: dict[str, tuple[str, str, tuple[int, int]]] = {
    "II": ("mse", "regression", (1, 2)),
    "III": ("mse", "regression", (3, 4)),
    "IV": ("cv", "regression", (1, 2)),
    "V": ("cv", "regression", (3, 4)),
    "VI": ("mse", "series", (1, 2)),
    "VII": ("cv", "series", (1, 2)),
    "VIII": ("mse", "series", (3, 4)),
    "IX": ("cv", "series", (3, 4)),
}


class Figure(NamedTuple):
    """One cell of one table, ours and the paper's."""

    table: str
    metric: str
    dataset: str
    network: int
    method: str
    learner: int | None
    value: float  # mean over the trials
    spread: float | None  # standard deviation over the trials; None for one trial
    trials: int
    printed: float | None
    ratio: float | None  # value / printed


def table_of(metric: str, dataset: str, network: int) -> str:
    """The number of the table that holds a figure."""
    kind = "series" if "/" in dataset else "regression"
    return next(t for t, (m, k, nets) in TABLES.items() if (m, k) == (metric, kind) and network in nets)


def summarise(rows: Rows, networks: Sequence[int]) -> list[Figure]:
    """Every cell of the tables, from the rows of all trials; OMKL, which knows no network, once for each."""
    samples: dict[Place, list[float]] = defaultdict(list)
    for row in rows:
        if row["dataset"] != "regret":
            for n in networks if row["network"] == 0 else [row["network"]]:
                samples[row["metric"], row["dataset"], n, row["method"], row["learner"]].append(row["value"])
    return [_figure(place, values) for place, values in samples.items()]


def _figure(place: Place, values: list[float]) -> Figure:
    metric, dataset, network = place[:3]
    mean, known = float(np.mean(values)), printed().get(place)
    return Figure(
        table_of(metric, dataset, network),
        *place,
        mean,
        float(np.std(values)) if len(values) > 1 else None,
        len(values),
        known,
        mean / known if known else None,
    )


@lru_cache(maxsize=1)
def printed() -> dict[Place, float]:
    """The paper's 800 printed figures."""
    text = resources.files("domkl.lab").joinpath("paper_tables.csv").read_text(encoding="utf-8")
    found: dict[Place, float] = {}
    for r in csv.DictReader(text.splitlines()):
        learner = int(r["learner"]) if r["learner"] else None
        found[r["metric"], r["dataset"], int(r["network"]), r["method"], learner] = float(r["printed"])
    return found


#: Trials from which claims are judged: one draw of the kernels proves nothing.
LEAST = 2


class Claim(NamedTuple):
    """A statement of the paper, the number it stands on, and whether it holds (None: not known)."""

    statement: str
    measure: str
    bound: str
    ours: float | None
    holds: bool | None
    printed: float | None  # the same number from the paper's own figures


def judge(figures: list[Figure], rows: Rows) -> list[Claim]:
    """Every claim, from the tables' figures and the regrets' rows."""
    regression = [f for f in figures if "/" not in f.dataset]
    traffic = [f for f in figures if f.dataset.startswith("traffic")]
    of_tables = [
        _ratio_claim("DOMKL is 5 to 6 times as accurate as DOKL2", regression, "DOKL2", "DOMKL", at_least=5),
        _ratio_claim("on Traffic it is 15 to 20 times as accurate", traffic, "DOKL2", "DOMKL", at_least=15),
    ]
    claims = [
        *(of_tables if any(f.dataset != SHIPPED for f in figures) else []),
        _ratio_claim("DOMKL is near the best single kernel", figures, "DOMKL", "best kernel", at_most=1.25),
        _ratio_claim("DOMKL is comparable with the centralised OMKL", figures, "DOMKL", "OMKL", at_most=2),
        _violation_claim(figures),
        _regret_claim("learning regret grows like sqrt(T) or slower", rows, "regret_a"),
        _regret_claim("discrepancy regret grows like sqrt(T) or slower", rows, "regret_d"),
    ]
    enough = all(figure.trials >= LEAST for figure in figures)
    return claims if enough else [claim._replace(holds=None) for claim in claims]


def _ratio_claim(
    statement: str,
    figures: list[Figure],
    over: str,
    under: str,
    at_least: float = 0.0,
    at_most: float = np.inf,
) -> Claim:
    ours = _mean_ratio(figures, over, under, lambda f: f.value)
    theirs = _mean_ratio(figures, over, under, lambda f: f.printed)
    bound = f"at least {at_least:g}" if at_least else f"at most {at_most:g}"
    holds = None if ours is None else at_least <= ours <= at_most
    return Claim(statement, f"MSE of {over} / MSE of {under}, geometric mean", bound, ours, holds, theirs)


def _mean_ratio(
    figures: list[Figure], over: str, under: str, value: Callable[[Figure], float | None]
) -> float | None:
    """Geometric mean, over datasets, networks and learners, of one method's error over another's."""
    errors = {f[2:6]: value(f) for f in figures if f.metric == "mse"}
    ratios = []
    for (dataset, network, method, learner), top in errors.items():
        bottom = errors.get((dataset, network, under, None if under == "OMKL" else learner))
        if method == over and top and bottom:
            ratios.append(top / bottom)
    return _geometric_mean(ratios)


def _violation_claim(figures: list[Figure]) -> Claim:
    """Small: neighbours differ, in root mean square, by at most a tenth of the labels' range of 1."""
    cells = [f for f in figures if (f.metric, f.method) == ("cv", "DOMKL")]
    ours = _geometric_mean(f.value for f in cells)
    theirs = _geometric_mean(f.printed for f in cells if f.printed)
    holds = None if ours is None else ours <= 0.01
    measure = "CV of DOMKL, geometric mean"
    return Claim("the consensus violation of DOMKL is small", measure, "at most 0.01", ours, holds, theirs)


def _regret_claim(statement: str, rows: Rows, metric: str) -> Claim:
    """The exponent of the worst learner's regret over T; 0.5 is sqrt(T), 0.6 leaves room for noise."""
    worst: dict[int, float] = {}
    for r in rows:
        if (r["dataset"], r["metric"]) == ("regret", metric):
            worst[r["network"]] = max(r["value"], worst.get(r["network"], -np.inf))
    known = [worst[T] for T in LENGTHS if T in worst]
    ours = exponent(LENGTHS, known) if len(known) == len(LENGTHS) and min(known) > 0 else None
    holds = None if ours is None else ours <= 0.6
    return Claim(statement, "exponent fitted over T = 250 .. 16000", "at most 0.6", ours, holds, None)


def _geometric_mean(values: Iterable[float]) -> float | None:
    logs = np.log(list(values))
    return float(np.exp(logs.mean())) if len(logs) else None


TITLES = {"mse": "MSE (x 1e-2)", "cv": "consensus violation"}
HINDSIGHT = "best kernel"  # known only afterwards, so no rival
LEGEND = {
    "bold": "the least at one learner of a network; the best kernel, known only afterwards, does not count"
}
METHODS = ("OMKL", "DOKL1", "DOKL2", "best kernel", "DOMKL")


def sheet(number: str, figures: Sequence[Figure]) -> Sheet:
    """One table: a row for each network, method and learner, a column for each dataset.

    In bold is the least of a dataset among the methods at one learner of a network; OMKL, which has no
    learners, is compared with each of them.
    """
    names = list(dict.fromkeys(figure.dataset for figure in figures))
    at = {(f.network, f.method, f.learner, f.dataset): f for f in figures}
    lines = sorted({key[:3] for key in at}, key=lambda line: (line[0], METHODS.index(line[1]), line[2] or 0))
    rows = [
        [str(n), method, str(j or ""), *(_cell(at.get((n, method, j, name))) for name in names)]
        for n, method, j in lines
    ]
    bold = {
        (i, 3 + k)
        for i, line in enumerate(lines)
        for k, name in enumerate(names)
        if _is_best(at.get((*line, name)), figures)
    }
    title = f"Table {number}: {TITLES[figures[0].metric]}, ours ± spread over the trials (printed)"
    if names == [SHIPPED]:
        title = f"{TITLES[figures[0].metric][0].upper()}{TITLES[figures[0].metric][1:]} on data that ship"
    return Sheet(
        title,
        ("network", "method", "learner", *names),
        rows,
        frozenset({0, 1, 2}),
        frozenset(bold),
        legend=LEGEND,
        apart=frozenset(i for i in range(1, len(lines)) if lines[i][0] != lines[i - 1][0]),
    )


def _is_best(figure: Figure | None, figures: Sequence[Figure]) -> bool:
    if figure is None or figure.method == HINDSIGHT:
        return False
    rivals = [
        f.value
        for f in figures
        if (f.network, f.dataset) == (figure.network, figure.dataset)
        and f.method != HINDSIGHT
        and (f.learner == figure.learner or None in (f.learner, figure.learner))
    ]
    return figure.value <= min(rivals)


def _cell(figure: Figure | None) -> str:
    if figure is None:
        return NONE
    factor = 100 if figure.metric == "mse" else 1
    spread = "" if figure.spread is None else f" ± {figure.spread * factor:.1g}"
    printed = "" if figure.printed is None else f" ({figure.printed * factor:.3g})"
    return f"{digits(figure.value * factor)}{spread}{printed}"
