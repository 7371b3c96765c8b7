"""The paper's datasets, made from UCI's files by fixed recipes."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import islice

import numpy as np

from ..base import checks
from ..base.errors import DataError, InputError
from ..base.types import Array
from .base import Dataset, embed
from .files import File, find, places, read_bytes
from .scaling import X_SCALES, Y_SCALES, scale_y
from .sources import SHAPES, SOURCES, WAVE_DIGESTS

ALIASES = {"air": "air_quality", "wave": "wave_energy"}
SERIES = {"traffic": ("traffic_volume", 6500), "temperature": ("temp", 5500)}
MISSING = ("mean", "drop")


def load(
    name: str,
    *,
    x_scale: str = "default",
    y_scale: str = "default",
    data_dir: str | os.PathLike[str] | None = None,
    rows: int | None = None,
    missing: str = "mean",
    farm: str = "adelaide",
    sha1: str | None = None,
) -> Dataset:
    """Load one of the paper's datasets; see `catalogue()` for the names.

    The file is looked for in `data_dir`, or else in $DOMKL_DATA and then in the
    cache that `fetch` fills, and its checksum is verified.

    Parameters
    ----------
    name
        "weather", "conductivity", "air_quality" ("air"), "wave_energy" ("wave"), or
        "traffic/p" and "temperature/p" for the AR(p) samples of a series (p = 5 if left out).
    x_scale, y_scale
        A scaling of `domkl.datasets.scaling`. "default" is "minmax" for both, except for
        Air quality: X = (X + 200) / 2975 and y = (CO - 0.1) / 11.8.
        Of a series, `y_scale` scales the series before it is embedded, so that lags and
        target share one scale; an `x_scale` other than "default" or "none" then scales
        the lag columns once more.
    rows
        Use the first `rows` samples (values, for a series) instead of the paper's number.
    missing
        Weather only: "mean" fills missing cells, the 27 missing targets too, with the
        column's mean; "drop" leaves out the rows that have one.
    farm, sha1
        Wave energy only: the farm's file, and the git blob sha1 it must have.
    """
    key, p = _resolve(name)
    checks.one_of("x scale", x_scale, ("default", *X_SCALES))
    checks.one_of("y scale", y_scale, ("default", *Y_SCALES))
    checks.one_of("missing", missing, MISSING)
    checks.one_of("farm", farm, WAVE_DIGESTS)
    _only("missing", missing != "mean", key, "weather")
    _only("farm", farm != "adelaide", key, "wave_energy")
    _only("sha1", sha1 is not None, key, "wave_energy")
    text = _text(key, _files(key, farm, sha1), data_dir)
    if key in SERIES:
        return _series(key, p, _first(rows, SERIES[key][1]), text, x_scale, y_scale)
    data = RECIPES[key](text, _first(rows, SHAPES[key][1]))
    if key == "weather":
        data = _complete(data, missing)
    return _scaled(data, x_scale, y_scale)


def _resolve(name: str) -> tuple[str, int]:
    """The canonical name and the order of a series (0 otherwise)."""
    name = ALIASES.get(name, name)
    if match := re.fullmatch(r"(traffic|temperature)(?:/(\d+))?", str(name)):
        return match[1], checks.count("p", int(match[2] or 5), 1)
    if name == "stations":
        raise InputError("'stations' comes divided over its learners; use load_stations() instead of load()")
    if name not in SHAPES:
        raise InputError(f"dataset {name!r} is unknown; {checks.hint(name, [*SHAPES, *ALIASES])}")
    return name, 0


def _only(option: str, changed: bool, key: str, owner: str) -> None:
    if changed and key != owner:
        raise InputError(f"{option} has no meaning for {key!r}; give it for {owner!r} only")


def _first(rows: int | None, default: int) -> int:
    return default if rows is None else checks.count("rows", rows, 1)


def _files(key: str, farm: str, sha1: str | None) -> tuple[File, ...]:
    files = SOURCES[key].files
    if key != "wave_energy":
        return files
    file = next(f for f in files if f.name.lower().startswith(farm))
    return (replace(file, digests=(sha1.lower(),)) if sha1 else file,)


def _text(key: str, files: tuple[File, ...], data_dir: str | os.PathLike[str] | None) -> str:
    """The verified text of the first of `files` that is there."""
    where = places(data_dir)
    found = find(files, where)
    if found is None:
        names = " or ".join(f"{file.name}[.gz]" for file in files)
        looked = ", ".join(str(directory) for directory in where)
        raise DataError(
            f"{key}: no {names} in {looked}; run `domkl data fetch {key}` or set DOMKL_DATA to its directory"
        )
    file, path = found
    data = read_bytes(path)
    file.check(data, path, f"delete it and run `domkl data fetch {key}`")
    return data.decode("utf-8-sig", errors="replace")


def _lines(text: str, rows: int | None = None, delimiter: str = ",") -> list[list[str]]:
    """The header, if there is one, and `rows` lines."""
    return list(islice(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), rows))


def _numbers(lines: list[list[str]]) -> Array:
    return np.array([[float(cell) if cell else np.nan for cell in line] for line in lines])


def _enough(have: int, rows: int, key: str) -> None:
    if have < rows:
        raise DataError(f"{key}: the file has {have} usable rows, {rows} are asked for; pass rows={have}")


def _weather(text: str, rows: int) -> Dataset:
    head, *lines = _lines(text)
    # The last two lines, without station and date, are the columns' minima and maxima.
    lines = [line[2:] for line in lines if line[0] and line[1]]
    _enough(len(lines), rows, "weather")
    V = _numbers(lines[:rows])
    return Dataset("weather", V[:, :-2], V[:, -1], tuple(head[2:-2]), head[-1])


def _complete(data: Dataset, missing: str) -> Dataset:
    """Without missing cells: rows dropped, or cells filled with the column's mean."""
    V = np.column_stack([data.X, data.y])
    if missing == "drop":
        V = V[~np.isnan(V).any(axis=1)]
    V = np.where(np.isnan(V), np.nanmean(V, axis=0), V)
    return replace(data, X=V[:, :-1], y=V[:, -1])


def _conductivity(text: str, rows: int) -> Dataset:
    head, *lines = _lines(text, rows + 1)
    _enough(len(lines), rows, "conductivity")
    V = _numbers(lines)
    return Dataset("conductivity", V[:, :-1], V[:, -1], tuple(head[:-1]), head[-1])


def _air_quality(text: str, rows: int) -> Dataset:
    """Rows with a CO value; time of day as a fraction, then the other 12 columns, -200 left in."""
    if ";" in text[:200]:  # UCI's CSV: the same table, rounded, with decimal commas
        text = text.replace(",", ".").replace(";", ",")
    head, *lines = _lines(text)
    V = _numbers([[_clock(line[1]), *line[2:15]] for line in lines if line[0]])
    V = V[V[:, 1] != -200.0]
    _enough(len(V), rows, "air_quality")
    V = V[:rows]
    return Dataset("air_quality", np.delete(V, 1, axis=1), V[:, 1], ("Time", *head[3:15]), head[2])


def _clock(cell: str) -> str:
    """Time of day in days: '18:00:00' or '18.00.00'."""
    return str(int(cell[:2]) / 24)


def _wave_energy(text: str, rows: int) -> Dataset:
    lines = _lines(text, rows)
    _enough(len(lines), rows, "wave_energy")
    try:
        V = _numbers(lines)
    except ValueError:  # text, or lines of unequal length
        V = np.empty((0, 0))
    if V.shape != (rows, 49) or not np.isfinite(V).all():
        raise DataError("wave_energy: not lines of 49 numbers X1..X16, Y1..Y16, P1..P16, total; get it again")
    names = tuple(f"{letter}{i}" for letter in "XYP" for i in range(1, 17))
    return Dataset("wave_energy", V[:, :-1], V[:, -1], names, "total")


RECIPES: dict[str, Callable[[str, int], Dataset]] = {
    "weather": _weather,
    "conductivity": _conductivity,
    "air_quality": _air_quality,
    "wave_energy": _wave_energy,
}


def _scaled(data: Dataset, x: str, y: str) -> Dataset:
    if data.name == "air_quality":
        # Constants, not minima and maxima, so that a part of the rows has the same scale.
        X = (data.X + 200) / 2975 if x == "default" else data.X
        target = (data.y - 0.1) / 11.8 if y == "default" else data.y
        data, x, y = replace(data, X=X, y=target), x.replace("default", "none"), y.replace("default", "none")
    return data.scaled(x.replace("default", "minmax"), y.replace("default", "minmax"))


def _series(key: str, p: int, n: int, text: str, x: str, y: str) -> Dataset:
    column = SERIES[key][0]
    head, *lines = _lines(text, n + 1)
    _enough(len(lines), n, key)
    values = np.array([float(line[head.index(column)]) for line in lines])
    X, target = embed(scale_y(values, y.replace("default", "minmax")), p)
    names = tuple(f"{column}[t-{lag}]" for lag in range(1, p + 1))
    return Dataset(f"{key}/{p}", X, target, names, column).scaled(x=x.replace("default", "none"))
