"""`domkl predict`: what a saved model expects of new rows."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import numpy as np

from .. import datasets
from ..base import checks
from ..base.errors import DataError, InputError
from ..base.types import Array
from ..base.words import iso, number, plural
from ..datasets import Columns, Table
from ..faces.ahead import Forecasts
from ..faces.estimator import DOMKL
from ..lab import results
from ..learning import conformal
from . import ahead, declare, options, show

#: The best learner is the one whose bounds of this coverage are the narrowest.
BEST = 0.9


def add_to(commands: Any) -> None:
    """Declare the command."""
    text = "predict new rows with a saved model, or what comes next in a series"
    more = "With --horizon the file is a series: it is learnt, and what comes after its target is forecast."
    add = declare(commands, "predict", text, run, more)
    text = "a model such as domkl-report/model.domkl; with --horizon, a table"
    add("model_file", metavar="FILE", help=text)
    add("--data", metavar="SOURCE", help="new rows, with the columns of the old; as in run")
    options.add_columns(add)
    options.add_horizon(add)
    add("--graph", help="which learners are neighbours, with --learner-column (default: ring)")
    options.add_model(add)
    add("--learner", metavar="NAME", help="whose model to use (default: the learner column's, else the best)")
    text = "share of labels that bounds are to hold (default: %(default)s)"
    add("--coverage", type=float, default=0.9, metavar="C", help=text)
    add("--out", metavar="FILE", help="write the CSV there (default: standard output)")


def run(args: argparse.Namespace) -> None:
    """Read, predict, write."""
    options.refuse_without(args)
    if args.horizon is not None:
        ahead.predict(args)
        return
    model, coverage = DOMKL.load(args.model_file), conformal.check_coverage(args.coverage)
    if isinstance(model, Forecasts):
        ahead.go_on(model, args, coverage)
        return
    if args.data is None:
        raise InputError("no rows to predict are given; expected --data SOURCE, or --horizon; add one")
    if args.out is not None:
        show.check_file(args.out, "--out")
        for given in filter(os.path.exists, (args.model_file, args.data)):
            if os.path.exists(args.out) and os.path.samefile(args.out, given):
                raise InputError(f"--out is {given}, which is read; expected another file; choose one")
    table = rows_of(model, args.model_file, args.data, args.query or "")
    who = learners_of(model, table, args.learner)
    with show.progress(f"predicting {plural(len(table.X), 'row')}") as bar:
        y_hat, wide = _predict(model, table.X, who, coverage, bar)
    rows = _rows(model, table, who, y_hat, wide)
    about = _about(model, table, y_hat)
    by = described(model, who[0]) if len(model.learners) > 1 and len({*who}) == 1 else ""
    if args.json:
        show.document({**about, "rows": rows})
    elif args.out is not None:
        results.write_whole(Path(args.out), results.csv_of(rows).encode())
    else:
        sys.stdout.write(results.csv_of(rows))
    if not args.json:
        _tell(about, args.out, by)


def targets_of(model: DOMKL) -> tuple[str, ...]:
    """What a model predicts; without a name, of one made in Python, "" or numbers."""
    columns, target = model.about.columns, model.about.target
    if isinstance(model, Forecasts):  # whose leads are many, and whose target is one
        return (target,)
    if columns is not None and len(columns.targets) == model.targets:
        return columns.targets
    return (target,) if model.targets == 1 else tuple(f"y{k + 1}" for k in range(model.targets))


def rows_of(model: DOMKL, path: str, source: str, query: str = "") -> Table:
    """The rows of a source as the inputs of the model in a file, encoded as when it was taught."""
    about = model.about
    if about.columns is None and not about.inputs:
        raise InputError(
            f"{path} does not say what its inputs are called; expected a model of `domkl run`, or one "
            "with names in model.about; use it from Python"
        )
    columns = about.columns or Columns(features=about.inputs)
    table = datasets.read_table(source, columns, query=query, unlabelled=True)
    if table.feature_names != about.inputs:
        raise DataError(
            f"{source} gives {plural(len(table.feature_names), 'input')} and the model has "
            f"{len(about.inputs)}; expected the same columns; see domkl inspect {source}"
        )
    return table


def learners_of(model: DOMKL, table: Table, asked: str | None) -> list[int]:
    """The place of each row's learner in the model."""
    places = {str(name): j for j, name in enumerate(model.learners)}
    if asked is None and table.learners is not None and len(places) > 1:
        return [places[checks.one_of("a row's learner", name, places)] for name in table.learners]
    return [chosen(model, asked)] * len(table.X)


def chosen(model: DOMKL, asked: str | None) -> int:
    """The place of the learner that is asked for; else of the best, which errs least where it was taught."""
    names = [str(name) for name in model.learners]
    if asked is not None:
        return names.index(checks.one_of("--learner", asked, names))
    return int(np.argmin(_widths(model))) if len(names) > 1 else 0


def _widths(model: DOMKL) -> Array:
    """How wide each learner's bounds are; of several targets in parts of the usual width. (J,)"""
    widths = model.widths(BEST).reshape(len(model.learners), -1)
    if widths.shape[1] == 1 or not np.isfinite(widths).all():
        return np.asarray(widths[:, 0])
    return np.asarray((widths / widths.mean(0)).mean(1))


def described(model: DOMKL, place: int) -> str:
    """A learner of a network in words, and whether it is the best."""
    name, count = str(model.learners[place]), len(model.learners)
    if place != chosen(model, None):
        return f"learner {name}"
    known = bool(np.isfinite(_widths(model)[place]))
    why = f"the best of {count}" if known else f"the first of {count}, all with too few samples to compare"
    return f"learner {name}, {why}"


def _predict(model: DOMKL, X: Array, who: list[int], coverage: float, bar: Any) -> tuple[Array, Array]:
    """Predictions and half-widths of their bounds, in the target's unit. (N, m) each"""
    J, m = len(model.learners), model.targets
    found, wide = np.empty((2, len(X), m))
    for i, (x, j) in enumerate(zip(X, who, strict=True)):
        sample = x if model.graph is None else np.tile(x, (J, 1))
        for rows, values in ((found, model.predict(sample)), (wide, model.widths(coverage, sample))):
            rows[i] = np.reshape(values, (J, m))[j]
        bar(i + 1, len(X))
    return np.asarray(model.about.in_units(found)), np.asarray(abs(model.about.factor) * wide)


def _rows(model: DOMKL, table: Table, who: list[int], y_hat: Array, wide: Array) -> list[dict[str, Any]]:
    names: tuple[Hashable, ...] = model.learners
    targets, y, rows = targets_of(model), _labels(table, y_hat), []
    heads = [results.value_heads(name, targets) for name in targets]
    for i in np.argsort(table.rows, kind="stable"):
        row: dict[str, Any] = {"row": table.rows[i]}
        if table.times is not None:
            row["time"] = iso(float(table.times[i]))
        if len(names) > 1:
            row["learner"] = str(names[who[i]])
        for k, four in enumerate(heads):
            bounds = (y_hat[i, k] + sign * wide[i, k] for sign in (-1, 1))
            numbers = (y[i, k], y_hat[i, k], *(() if table.labels else bounds))
            row |= zip(four, map(_known, numbers), strict=False)
        if table.labels:
            row["class"] = _class(table, y_hat[i, 0])
        rows.append(row)
    return rows


def _labels(table: Table, y_hat: Array) -> Array:
    """Labels as predictions (N, m) are; NaN where the table does not know what is predicted."""
    return table.y.reshape(y_hat.shape) if table.y.size == y_hat.size else np.full_like(y_hat, np.nan)


def _class(table: Table, score: float) -> str:
    positive = table.columns.positive_label
    others = [label for label in table.labels if label != positive]
    return positive if score > 0 else others[0] if len(others) == 1 else f"not {positive}"


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _about(model: DOMKL, table: Table, y_hat: Array) -> dict[str, Any]:
    """How many rows, and how large the errors are where labels are known."""
    y = _labels(table, y_hat)
    known = np.isfinite(y)
    with np.errstate(invalid="ignore"):
        roots = np.sqrt(np.where(known, (y_hat - y) ** 2, 0).sum(0) / known.sum(0))
        right = float((y_hat * y > 0)[known].mean()) if table.labels and known.any() else None
    rmse = dict(zip(targets_of(model), map(_known, roots), strict=True))
    return {
        "target": model.about.target,
        "unit": model.about.unit,
        "predicted": len(table.X),
        "refused": table.refused,
        "known": int(known.all(1).sum()),
        "rmse": None if table.labels else rmse if len(rmse) > 1 else next(iter(rmse.values())),
        "accuracy": right,
    }


def _tell(about: dict[str, Any], out: str | None, by: str) -> None:
    """A line for people, on standard error: standard output may be the CSV."""
    words = [f"{plural(about['predicted'], 'row')} predicted{f' by {by}' if by else ''}"]
    if about["refused"]:
        words.append(f"{about['refused']} refused")
    if about["rmse"] is not None:
        several = about["rmse"].items() if isinstance(about["rmse"], dict) else [("", about["rmse"])]
        errors = [
            f"{number(rmse)} {name or about['unit']}".strip() for name, rmse in several if rmse is not None
        ]
        words += [f"RMSE {', '.join(errors)} on {about['known']} with a label"] * bool(errors)
    if about["accuracy"] is not None:
        words.append(f"{100 * about['accuracy']:.1f} % of the classes right")
    place = f": {out}" if out else ""
    print(f"domkl: {', '.join(words)}{place}", file=sys.stderr)
