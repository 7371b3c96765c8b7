"""Three sensors that pretend: hourly weather of three New York airports, as flat JSON on a topic of each.

    python sensors.py --broker 127.0.0.1:1883 --user weather --rate 20 --count 300

They publish on sensors/ewr/env, sensors/jfk/env and sensors/lga/env; the password is in SENSORS_PASSWORD.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import importlib.resources
import io
import json
import os
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

import paho.mqtt.client as mqtt

AIRPORTS = ("EWR", "JFK", "LGA")
START = datetime(2013, 1, 1, tzinfo=timezone.utc)


def readings() -> Iterator[dict[str, dict[str, object]]]:
    """An hour at each airport after another, as its sensor would say it; missing values are left out."""
    packed = importlib.resources.files("domkl.datasets.data") / "nyc_weather_2013.csv.gz"
    text = gzip.decompress(packed.read_bytes()).decode()
    for row in csv.DictReader(io.StringIO(text)):
        when = START + timedelta(hours=int(row["hour"]))
        yield {name.lower(): {"time": when.isoformat(), **_of(name, row)} for name in AIRPORTS}


def _of(name: str, row: dict[str, str]) -> dict[str, float]:
    mine = {key.removeprefix(f"{name}_"): cell for key, cell in row.items() if key.startswith(f"{name}_")}
    return {key: float(cell) for key, cell in mine.items() if cell}


def main() -> None:
    """Publish until all is said."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--broker", default="127.0.0.1:1883")
    parser.add_argument("--user")
    parser.add_argument("--rate", type=float, default=2.0, help="readings a second of each sensor")
    parser.add_argument("--count", type=int, default=1000, help="readings of each sensor")
    args = parser.parse_args()
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
    if args.user:
        client.username_pw_set(args.user, os.environ.get("SENSORS_PASSWORD"))
    host, _, port = args.broker.rpartition(":")
    client.connect(host, int(port))
    client.loop_start()
    for _, hour in zip(range(args.count), readings(), strict=False):
        for name, reading in hour.items():
            client.publish(f"sensors/{name}/env", json.dumps(reading), qos=1).wait_for_publish(10)
        time.sleep(1 / args.rate)
    client.disconnect()
    client.loop_stop()


if __name__ == "__main__":
    main()
