"""`domkl run --horizon` and `domkl predict SOURCE --horizon`: forecasts of a user's own series."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..base.errors import InputError
from ..base.words import plural
from ..exchange.graph import LONE, Graph
from ..faces.ahead import Forecasts
from ..faces.saved import About
from ..lab import ahead, experiment, results, trial
from ..lab.ahead import Series
from ..lab.experiment import Experiment
from ..lab.report.ahead import page
from ..lab.report.facts import unused, unused_words
from ..learning.conformal import check_coverage
from ..learning.horizon import Horizon
from ..learning.horizon import horizon as as_horizon
from ..models.settings import Auto
from ..simulator import Run, simulate
from . import options, show

#: Files of a run.
PREDICTIONS, FORECAST, MODEL, PAGE = "predictions.csv", "forecast.csv", "model.domkl", "index.html"


#: The experiment of the shipped stations.
STATIONS = "three-stations"


def learn(args: argparse.Namespace, source: str | None, levels: tuple[float, ...]) -> tuple[Series, Run]:
    """Read a series, and let a network forecast it."""
    horizon, chosen = as_horizon(args.horizon), experiment_of(args)
    series = series_of(args, source, chosen, horizon)
    model = options.choose_model(args, chosen).model
    with show.progress(f"forecasting {series.table.name}") as bar:
        run = _simulated(series, horizon, model, graph_of(args, series, chosen), levels, args, bar)
    return series, run


def experiment_of(args: argparse.Namespace) -> Experiment:
    """The experiment that is named; else one of the shipped stations, with the usual model and graph."""
    name = getattr(args, "experiment", None)
    chosen = experiment.load(name or STATIONS)
    if name not in (None, STATIONS):
        return chosen
    return dataclasses.replace(chosen, model=Auto(), graphs=("ring",))


def series_of(args: argparse.Namespace, source: str | None, chosen: Experiment, horizon: Horizon) -> Series:
    """The series of a source; without one those of the experiment, or of the shipped stations."""
    future, data = options.names(args.future) or (), chosen.data
    given, query = options.columns(args, chosen.columns), args.query or data.query
    path = source or data.path
    if path:
        series = ahead.series_of(path, given, horizon, query=query, future=future)
    elif data.names[0] == "stations":
        options.need_data(args, *options.FIELDS, "query", "future")
        series = ahead.stations()
    else:
        raise InputError(
            f"--horizon is given and the data are {data.names[0]}; expected the stations or data of your "
            "own; leave it out"
        )
    rounds = getattr(args, "rounds", None)
    return series if rounds is None else series.first(rounds)


def graph_of(args: argparse.Namespace, series: Series, chosen: Experiment) -> Graph:
    """Who is whose neighbour."""
    if len(series.names) == 1:
        return LONE
    return trial.network(getattr(args, "graph", None) or chosen.graphs[0], series.names)


def _simulated(
    series: Series, horizon: Horizon, model: Any, graph: Graph, levels: tuple[float, ...], args: Any, bar: Any
) -> Run:
    whole = series.readings
    return simulate(
        whole.X,
        whole.y,
        graph,
        model=model,
        horizon=horizon,
        times=whole.times,
        future=whole.future,
        levels=levels,
        least=args.least,
        most=args.most,
        dtype=model.precision,
        progress=bar,
    )


def model_of(series: Series, run: Run) -> Forecasts:
    """The network of a run, with what its numbers mean."""
    table = series.table
    model = Forecasts.from_run(run)
    model.about = About(table.feature_names, table.target, "", table.columns)
    return model


def run(args: argparse.Namespace) -> None:
    """Forecast a table's series; print the error of each lead, and write forecasts and model."""
    options.refuse_beside_horizon(
        args, "learners", "split", "live", "alarm_rate", "predictions", "save", "check"
    )
    if not args.no_report:
        show.check_folder(args.out)
    series, found = learn(args, args.data, ahead.LEVELS)
    assert found.ahead is not None
    rows, J, T, _ = ahead.lead_rows(found), *found.y_hat.shape
    files = {} if args.no_report else _write(series, found, Path(args.out))
    if args.json:
        about = {
            "data": series.table.name,
            "target": series.table.target,
            "learners": list(series.names),
            "rounds": T,
        }
        notes = [*series.notes, *map(str, series.table.faults)]
        show.document(
            {**about, "leads": rows, "notes": notes, "files": [str(path) for path in files.values()]}
        )
        return
    who = f"{plural(J, 'learner')}, {plural(T, 'reading')} each"
    title = f"{series.table.name}: {series.table.target} ahead, {who}"
    show.sheet(ahead.sheet(rows, title, J))
    words = unused_words(unused(found.trust), J).strip()
    refused = [f"refused {fault}" for fault in series.table.faults]
    show.notes([*[words] * bool(words), *series.notes, *refused])
    show.written_files(files)


def _write(series: Series, found: Run, folder: Path) -> dict[str, Path]:
    """Past forecasts, the next ones, the model, and a page that shows them."""
    path, told = ahead.write_predictions(found, series, folder / PREDICTIONS)
    what = "Predictions" if told == found.y_hat.shape[1] else f"Predictions (the last {told:,} readings)"
    model = model_of(series, found)
    results.write_whole(folder / FORECAST, results.csv_of(ahead.forecast_rows(model, 0.9)).encode())
    model.save(folder / MODEL)
    results.write_whole(folder / PAGE, page(found, series, model).encode())
    files = {"Report": PAGE, "Forecast": FORECAST, "Model": MODEL}
    return {what: path, **{name: folder / file for name, file in files.items()}}


def predict(args: argparse.Namespace) -> None:
    """Learn a table's series, and forecast what comes next."""
    coverage = check_coverage(args.coverage)
    if args.out is not None:
        show.check_file(args.out, "--out")
    series, found = learn(args, args.model_file, ())
    rows = ahead.forecast_rows(model_of(series, found), coverage)
    _tell(args, rows, series.table.target, coverage, plural(series.rounds, "reading"), series.notes)


def go_on(model: Forecasts, args: argparse.Namespace, coverage: float) -> None:
    """Forecast from a saved model's last readings; from newer ones where --data has some."""
    if args.data is not None:
        raise InputError(
            "--data is given with a model that has a horizon; expected none, as it goes on by itself; "
            "use `domkl predict FILE --horizon` to learn a table"
        )
    rows = ahead.forecast_rows(model, coverage)
    _tell(args, rows, model.about.target, coverage, "the model's last reading", ())


def _tell(
    args: argparse.Namespace,
    rows: list[dict[str, Any]],
    target: str,
    coverage: float,
    after: str,
    notes: Sequence[str],
) -> None:
    if args.json:
        show.document({"target": target, "coverage": coverage, "rows": rows, "notes": list(notes)})
    elif args.out is not None:
        results.write_whole(Path(args.out), results.csv_of(rows).encode())
    else:
        sys.stdout.write(results.csv_of(rows))
    if not args.json:
        place = f": {args.out}" if args.out else ""
        bounds = f"{100 * coverage:g} % bounds"
        print(f"domkl: {plural(len(rows), 'forecast')} with {bounds} after {after}{place}", file=sys.stderr)
