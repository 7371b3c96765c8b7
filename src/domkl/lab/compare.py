"""One stream, many learners: `table` lets each of them predict, then learn, every sample in order.

Networks of domkl see a part of the data at each learner and send estimates; all others are one learner
that sees everything, so every device must send it its samples. A user's table is scaled by its first
rounds for all that do not scale by themselves.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
import importlib
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..base import checks
from ..base.errors import Error, InputError, MissingExtra
from ..base.extras import need
from ..base.types import Array
from ..base.words import digits
from ..exchange.graph import Graph
from ..faces.estimator import DOMKL
from ..learning import kernels, losses
from ..learning.first_order import Rates
from ..learning.forecast import NAIVE
from ..learning.horizon import Horizon
from ..models.settings import Auto, KernelSpec, ModelSettings, Paper
from ..simulator import simulate
from ..simulator.ahead import Ahead
from . import trial
from .ahead import Lead, Series, leads, roots
from .central import AdaRaker, Vaw, omkl
from .sheet import Sheet, least_of
from .trial import Source, scaled


class Result(NamedTuple):
    """What came of a contender."""

    y_hat: Array  # (J, T)
    sent: float  # bytes, by a learner in a round
    seconds: float  # of CPU time; imports and construction do not count
    alone: Array | None = None  # (J,) mean squared errors of a network's learners with own samples only

    def parts(self) -> list[Result]:
        """One result for each target."""
        if self.y_hat.ndim == 2:
            return [self]
        alone = [None] * self.y_hat.shape[2] if self.alone is None else list(self.alone.T)
        return [self._replace(y_hat=self.y_hat[..., k], alone=each) for k, each in enumerate(alone)]


Run: TypeAlias = Callable[[Source], Result]
#: Makes a learner of so many inputs, with predict(x) and learn(x, y).
Make: TypeAlias = Callable[[int], Any]


class Contender(NamedTuple):
    """A way to learn a stream of many learners."""

    name: str
    sees: str  # "a part" (of the data at each learner) or "all"
    run: Run
    scales: bool = False  # whether it scales by itself; the others get values in [0, 1]
    make: Make | None = None  # the same for one lead of a forecast
    has_targets: bool = False  # whether one model learns several


def online(name: str, make: Make, scales: bool = False) -> Contender:
    """One learner with predict(x) and learn(x, y), which sees everything."""
    return Contender(
        name, "all", lambda source: learn_all(source, make(source.split.X.shape[2])), scales, make
    )


#: The second-order step keeps the past itself, so eta is a small ridge and needs no horizon.
NEWTON = Rates(rho=0.1, eta=0.01, eta_g=0.1)


def network_contenders(graph: Graph, seed: int) -> list[Contender]:
    """Every model of domkl, on this network."""
    kernels = KernelSpec(seed=seed)
    models: dict[str, ModelSettings] = {
        "domkl, auto": Auto(seed=seed),
        "domkl, newton": Paper(kernels=kernels, rates=NEWTON, step="newton"),
        "domkl, paper": Paper(kernels=kernels),
    }
    return [
        Contender(name, "a part", partial(_run, graph, model), model.takes_raw, has_targets=model.has_targets)
        for name, model in models.items()
    ]


def _run(graph: Graph, model: ModelSettings, source: Source) -> Result:
    split, start = source.split, time.process_time()
    run = simulate(split.X, split.y, graph, model=model, delay=split.one_delay)
    seconds = time.process_time() - start
    alone = trial.alone(model, split, run) if graph.J > 1 else None
    return Result(run.y_hat, run.bytes * float(graph.deg.mean()), seconds, alone)


#: Rates of the paper's learner where no horizon is known, as for a single device.
ALONE = Rates(rho=1.0, eta=4.0, eta_g=1.0)


def lone_contenders(seed: int) -> list[Contender]:
    """Those that need no other library."""
    paper = Paper(kernels=KernelSpec(seed=seed), rates=ALONE)
    auto = Auto(seed=seed)
    return [
        Contender("OMKL", "all", lambda source: _omkl(source, seed)),
        online("AdaRaker on the same features", lambda d: AdaRaker(kernels.gaussian(d, seed=seed))),
        online("VAW on the same features", lambda d: Vaw(kernels.gaussian(d, seed=seed))),
        online("domkl auto, one learner", lambda d: DOMKL(model=auto), scales=True),
        online("domkl paper, one learner", lambda d: DOMKL(model=paper)),
    ]


def _omkl(source: Source, seed: int) -> Result:
    split = source.split
    X, y = _order(split.X), _order(split.y)
    V, start = kernels.gaussian(X.shape[1], seed=seed), time.process_time()
    run = omkl(X, y, kernels=V, delay=split.one_delay * len(split.y))
    return Result(_back(run.y_hat, len(split.y)), _raw(source), time.process_time() - start)


def learn_all(source: Source, model: Any) -> Result:
    """Every sample once, in order of rounds: predict(x), and learn(x, y) of what has become known."""
    X, labels = _order(source.split.X), _order(source.split.y).tolist()
    late, y_hat = source.split.one_delay * len(source.split.y), np.empty(len(labels))
    start = time.process_time()
    for i, x in enumerate(X):
        y_hat[i] = model.predict(x)
        if i >= late:
            model.learn(X[i - late], labels[i - late])
    seconds = time.process_time() - start
    return Result(_back(y_hat, len(source.split.y)), _raw(source), seconds)


def _order(values: Array) -> Array:
    """(J, T, ...) as one stream, round by round."""
    turned = values.swapaxes(0, 1)
    return np.ascontiguousarray(turned.reshape(-1, *turned.shape[2:]))


def _back(y_hat: Array, J: int) -> Array:
    return np.asarray(y_hat.reshape(-1, J).T)


def _raw(source: Source) -> float:
    """Bytes of a sample, inputs and label, which a device sends to the one learner."""
    return 8.0 * float(source.split.X.shape[2] + 1)


#: Makes a model from a function that imports modules, and a seed.
Build: TypeAlias = Callable[[Any, int], Any]


def peer_contenders(seed: int) -> list[Contender]:
    """By library; one that is not installed is left out when its contender is run."""

    def peer(package: str, build: Build) -> Make:
        def make(d: int) -> Any:
            need(package, package)
            return build(importlib.import_module, seed)

        return make

    return [online(name, peer(*made)) for name, made in PEERS.items()]


class RiverModel:
    """A model of River, which takes dictionaries."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def predict(self, x: Array) -> float:
        return float(self.model.predict_one(dict(enumerate(x.tolist()))) or 0.0)

    def learn(self, x: Array, y: float) -> None:
        self.model.learn_one(dict(enumerate(x.tolist())), y)


class SklearnModel:
    """An estimator of scikit-learn, a sample at a time; before its first label it predicts 0.

    A `sampler` makes features of the inputs; it is fitted to the first.
    """

    def __init__(self, model: Any, sampler: Any = None) -> None:
        self.model, self.sampler, self.fitted = model, sampler, False

    def predict(self, x: Array) -> float:
        return float(self.model.predict(self._features(x))[0]) if self.fitted else 0.0

    def learn(self, x: Array, y: float) -> None:
        if self.sampler is not None and not self.fitted:
            self.sampler.fit(x[None])
        self.model.partial_fit(self._features(x), [y])
        self.fitted = True

    def _features(self, x: Array) -> Any:
        return x[None] if self.sampler is None else self.sampler.transform(x[None])


def _random_features(load: Any, seed: int) -> Any:
    sampler = load("sklearn.kernel_approximation").RBFSampler(n_components=100, random_state=seed)
    return SklearnModel(load("sklearn.linear_model").SGDRegressor(random_state=seed), sampler)


def _scaled_linear(load: Any, seed: int) -> Any:
    """Inputs and target scaled, as River's page of `TargetStandardScaler` has it.

    With the default optimizer it diverges: an input that hardly varied so far, such as rain, is scaled to
    hundreds when it does. `AdaGrad` divides by that. Predictions are bounded, as one that is made before an
    input ever varied may be 1e13; labels are in 0 .. 1.
    """
    scaling = load("river.preprocessing")
    linear = load("river.linear_model").LinearRegression(optimizer=load("river.optim").AdaGrad())
    bounded = scaling.PredClipper(scaling.TargetStandardScaler(linear), y_min=-1.0, y_max=2.0)
    return RiverModel(scaling.StandardScaler() | bounded)


def _of_river(module: str, name: str, **options: Any) -> tuple[str, Build]:
    return "river", lambda load, seed: RiverModel(getattr(load(f"river.{module}"), name)(**options))


PEERS: dict[str, tuple[str, Build]] = {
    "River LinearRegression": _of_river("linear_model", "LinearRegression"),
    "River StandardScaler + LinearRegression(AdaGrad)": ("river", _scaled_linear),
    "River HoeffdingTreeRegressor": _of_river("tree", "HoeffdingTreeRegressor"),
    "River KNNRegressor": _of_river("neighbors", "KNNRegressor"),
    "River ARFRegressor(10)": (
        "river",
        lambda load, seed: RiverModel(load("river.forest").ARFRegressor(n_models=10, seed=seed)),
    ),
    "scikit-learn RBFSampler(100) + SGDRegressor": ("sklearn", _random_features),
}


def added_contender(text: str) -> Contender:
    """The contender of that name; one that cannot be used is refused in one line."""
    made = _made(text)
    adapter = _adapter(text, made)
    return online(text, lambda d: adapter(copy.deepcopy(made)))


def _adapter(text: str, model: Any) -> type[RiverModel] | type[SklearnModel]:
    """How an estimator, or the class of one, learns."""
    if callable(getattr(model, "learn_one", None)) and callable(getattr(model, "predict_one", None)):
        return RiverModel
    if callable(getattr(model, "partial_fit", None)) and callable(getattr(model, "predict", None)):
        return SklearnModel
    name = getattr(model, "__name__", type(model).__name__)
    raise _refusal(text, f"{name} does not learn sample by sample")


def _made(text: str) -> Any:
    """The object that "module:Class", "module:Class(argument=1)" or "module:object" names."""
    module, colon, expression = text.partition(":")
    if not (module and colon and expression):
        raise _refusal(text, "it has no module and class, with a colon between")
    name, arguments = _called(text, expression)
    here = os.getcwd()
    if here not in sys.path:  # a module of the user's own lies where the command is called
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        _adapter(text, found)  # before it is called: nothing but an estimator's class is
        return found(**arguments) if isinstance(found, type) or arguments else found
    except InputError:
        raise
    except Exception as error:  # a module may raise anything when it is imported
        raise _refusal(text, " ".join(f"{type(error).__name__}: {error}".split())[:200]) from None


def _called(text: str, expression: str) -> tuple[str, dict[str, Any]]:
    """A dotted name and the plain values of its arguments; nothing is evaluated."""
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
        if not isinstance(tree, ast.Call):
            return ast.unparse(tree), {}
        if tree.args or any(keyword.arg is None for keyword in tree.keywords):
            raise ValueError("arguments need names")
        return ast.unparse(tree.func), {str(a.arg): ast.literal_eval(a.value) for a in tree.keywords}
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _refusal(text, f"{error}") from None


def _refusal(text: str, fact: str) -> InputError:
    return InputError(
        f"--add {text} cannot be used ({fact}); expected module:Class of an estimator with learn_one and "
        "predict_one (River) or partial_fit and predict (scikit-learn); name another"
    )


#: What is averaged over trials.
FIGURES = ("mse", "rmse", "us_per_sample", "bytes_sent", "mse_alone", "rmse_alone")
#: The figures of the table, in the order of its columns.
COLUMNS = ("mse", "rmse", "rmse_alone", "us_per_sample", "bytes_sent")
#: Called with how many contenders are done, of how many, and which is next.
Report = Callable[[int, int, str], object]


@dataclass(frozen=True)
class ComparisonRow:
    """A contender's figures; `reason` says why there are none."""

    name: str
    sees: str  # "a part" or "all"
    mse: float | None = None  # in the data's unit, squared
    rmse: float | None = None
    us_per_sample: float | None = None  # of CPU time
    bytes_sent: float | None = None  # by a learner in a round, all neighbours together
    mse_alone: float | None = None  # of a network's learners, had each its own samples only
    rmse_alone: float | None = None
    reason: str | None = None
    rmse_spread: float | None = None  # standard deviation over the trials; None for one
    trials: int = 1


def tables(
    source: Source,
    graph: Graph,
    seed: int = 0,
    report: Report = lambda i, n, name: None,
    added: Sequence[Contender] = (),
    trials: int = 1,
) -> list[list[ComparisonRow]]:
    """Everyone's error, time and traffic on the same samples; the best first, those left out last.

    A table for each target: networks of `Auto` learn all in one model, all others each by itself.

    Each of several trials has another seed, for all that is drawn; figures are then means.
    """
    checks.count("delay", source.split.one_delay, least=0)  # all of them wait equally long
    parts = source.parts()
    in_range = [scaled(part, losses.squared()) for part in parts]
    found: dict[str, list[list[ComparisonRow]]] = {}
    for number in range(checks.count("--trials", trials)):
        drawn = seed + number
        all = [*network_contenders(graph, drawn), *lone_contenders(drawn), *peer_contenders(drawn), *added]
        for i, contender in enumerate(all):
            report(number * len(all) + i, trials * len(all), contender.name)
            rows = _rows(contender, source, parts if contender.scales else in_range)
            found.setdefault(contender.name, []).append(rows)
    means = [[_mean([rows[k] for rows in each]) for each in found.values()] for k in range(len(parts))]
    return [sorted(rows, key=lambda row: (row.mse is None, row.mse or 0.0)) for rows in means]


def table(source: Source, graph: Graph, *rest: Any, **options: Any) -> list[ComparisonRow]:
    """The table of the first target: see `tables`."""
    return tables(source, graph, *rest, **options)[0]


def _mean(rows: list[ComparisonRow]) -> ComparisonRow:
    """The mean of a contender's trials; without figures if one trial has none."""
    failed = next((row for row in rows if row.mse is None), None)
    if failed is not None or len(rows) == 1:
        return failed or rows[0]
    values = {name: [getattr(row, name) for row in rows] for name in FIGURES}
    means: dict[str, Any] = {n: None if None in each else float(np.mean(each)) for n, each in values.items()}
    spread = float(np.std([row.rmse or 0.0 for row in rows], ddof=1))
    return dataclasses.replace(rows[0], **means, rmse_spread=spread, trials=len(rows))


#: What the columns of the table are.
LEGEND = {
    "sees": "what a learner sees of the data: its own part, or all",
    "RMSE": "root of the mean squared error (MSE) of predictions made before the label",
    "alone": "the same of a network's learners, had each its own samples only",
    "CPU time": "for one sample",
    "sent": "by a learner in a round, to all its neighbours or to the centre",
    "bold": "the least of a column",
}


def sheet(rows: list[ComparisonRow], title: str, unit: str) -> Sheet:
    """The table; the least of each column in bold, unless most have it."""
    shown = [row for row in rows if row.mse is not None]
    of, squared = (f"\n{each}" if unit else "" for each in (unit, f"{unit}²"))
    heads = ("learner", "sees", f"MSE{squared}", f"RMSE{of}", f"alone{of}", "CPU time\nµs", "sent\nbytes")
    figures = [[getattr(row, name) for row in shown] for name in COLUMNS]
    best = [least_of(column) for column in figures]
    bold = {(i, 2 + j) for j, places in enumerate(best) for i in places if 2 * len(places) <= len(shown)}
    return Sheet(
        title,
        heads,
        [_cells(row) for row in shown],
        words=frozenset({0, 1}),
        bold=frozenset(bold),
        spare=(2, 1, 6, 5, 4),
        legend=LEGEND,
    )


def _cells(row: ComparisonRow) -> list[str]:
    spread = f" ± {row.rmse_spread:.1g}" if row.rmse_spread else ""  # none where nothing is drawn
    mse, rmse, *rest = (digits(getattr(row, name)) for name in COLUMNS)
    return [row.name, row.sees, mse, rmse + spread, *rest]


def _rows(contender: Contender, source: Source, parts: Sequence[Source]) -> list[ComparisonRow]:
    """A contender's figures for each target: of one model of all, or of one for each part."""
    try:
        results = contender.run(source).parts() if contender.has_targets else map(contender.run, parts)
        return [_row(contender, part, result) for part, result in zip(parts, results, strict=True)]
    except Exception as error:  # another library may raise anything
        return [ComparisonRow(contender.name, contender.sees, reason=_reason(error))] * len(parts)


def _row(contender: Contender, source: Source, result: Result) -> ComparisonRow:
    y_hat, sent, seconds, alone = result
    mse = source.scale * float(np.mean((y_hat - source.split.y) ** 2))
    lone = None if alone is None else source.scale * float(alone.mean())
    return ComparisonRow(
        name=contender.name,
        sees=contender.sees,
        mse=mse,
        rmse=mse**0.5,
        us_per_sample=1e6 * seconds / source.split.y.size,
        bytes_sent=sent,
        mse_alone=lone,
        rmse_alone=None if lone is None else lone**0.5,
    )


def _reason(error: Exception) -> str:
    """Why a contender has no figures, in a line."""
    if isinstance(error, MissingExtra):
        return str(error).replace(" and this part of domkl needs it", "")
    words = str(error) if isinstance(error, Error) else f"{type(error).__name__}: {error}"
    return f"failed: {' '.join(words.split())[:200]}"


class ForecastRow(NamedTuple):
    """A contender's root mean squared error at each lead; `reason` says why there is none."""

    name: str
    sees: str
    rmse: list[float | None] = []  # noqa: RUF012
    us_per_reading: float | None = None  # of CPU time, all leads
    reason: str | None = None

    @property
    def place(self) -> float:
        """By which rows are ordered: the mean over the leads."""
        known = [each for each in self.rmse if each is not None]
        return sum(known) / len(known) if known else np.inf


def forecast_table(
    series: Series,
    horizon: Horizon,
    graph: Graph,
    seed: int = 0,
    report: Report = lambda i, n, name: None,
    added: Sequence[Contender] = (),
) -> list[ForecastRow]:
    """Everyone's error at each lead; the best first, those left out last.

    Others than domkl get what its forecaster sees: lags, calendar and profile; and learn how far the label
    lies from the last value.
    """
    online = [*lone_contenders(seed), *peer_contenders(seed), *added]
    others = [each for each in online if each.make is not None]
    report(0, 1 + len(others), OURS_AHEAD)
    start, data = time.process_time(), series.readings
    options: Any = {"times": data.times, "future": data.future}
    run = simulate(data.X, data.y, graph, model=Auto(seed=seed), horizon=horizon, **options)
    us = 1e6 * (time.process_time() - start) / run.y_hat[..., 0].size
    found = run.ahead
    assert found is not None
    rows = [ForecastRow(OURS_AHEAD, "a part", roots(run.mse), us)]
    if graph.J > 1:
        rows.append(ForecastRow(f"{OURS_AHEAD}, alone", "a part", roots(run.alone)))
    guesses = zip(NAIVE, np.moveaxis(found.naive, -1, 0), strict=True)
    rows += [ForecastRow(name, "a part", roots(found.errors(guess))) for name, guess in guesses]
    streams = leads(series, horizon)
    for i, each in enumerate(others):
        report(1 + i, 1 + len(others), each.name)
        rows.append(_forecast_row(each, streams, found))
    return sorted(rows, key=lambda row: row.place)


#: The network in a table of forecasts.
OURS_AHEAD = "domkl, auto"


def _forecast_row(contender: Contender, streams: Sequence[Lead], found: Ahead) -> ForecastRow:
    assert contender.make is not None
    start = time.process_time()
    try:
        y_hat = [stream.forecasts(contender.make(stream.X.shape[2])).T for stream in streams]
    except Exception as error:  # another library may raise anything
        return ForecastRow(contender.name, contender.sees, reason=_reason(error))
    us = 1e6 * (time.process_time() - start) / y_hat[0].size
    return ForecastRow(contender.name, contender.sees, roots(found.errors(np.stack(y_hat, -1))), us)


def forecast_sheet(rows: list[ForecastRow], horizon: Horizon, title: str) -> Sheet:
    """The table, a column for each lead; the least of each in bold. A narrow terminal shows fewer leads."""
    shown, H = [row for row in rows if row.rmse], len(horizon.names)
    best = [least_of([row.rmse[h] for row in shown]) for h in range(H)]
    return Sheet(
        title,
        ("learner", "sees", *horizon.names, "CPU time\nµs"),
        [[row.name, row.sees, *map(digits, row.rmse), digits(row.us_per_reading)] for row in shown],
        words=frozenset({0, 1}),
        bold=frozenset((i, 2 + h) for h, places in enumerate(best) for i in places),
        spare=(1, 2 + H, *range(H, 2, -1)),
        legend={**FORECAST_LEGEND, "sees": LEGEND["sees"], "bold": LEGEND["bold"]},
    )


#: What a table of forecasts shows beside what `LEGEND` tells.
FORECAST_LEGEND = {"CPU time": "for one reading, all leads"}
OURS, OTHERS = "#2a6f97", "#b0b0b0"


def draw(rows: list[ComparisonRow], title: str, unit: str, path: Path) -> Path:
    """A bar of the error for each contender, the best on top, as a PNG."""
    shown = [row for row in rows if row.rmse is not None][::-1]
    figure = need("matplotlib.figure", "cli").Figure(
        figsize=(8, 0.8 + 0.4 * len(shown)), layout="constrained"
    )
    need("matplotlib.backends.backend_agg", "cli").FigureCanvasAgg(figure)
    axes = figure.subplots()
    colours = [OURS if row.name.startswith("domkl") else OTHERS for row in shown]
    bars = axes.barh([row.name for row in shown], [row.rmse for row in shown], color=colours)
    axes.bar_label(bars, fmt="%.3g", padding=3)
    axes.set_xlabel(f"root mean squared error{f', {unit}' if unit else ''}")
    axes.set_title(title)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    return path
