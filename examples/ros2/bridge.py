"""ROS 2 messages on Zenoh as flat JSON on another key, which a `domkl agent` reads.

    python bridge.py "0/env/temperature/**" sensors/robot/env sensor_msgs/msg/Temperature \\
        --connect tcp/127.0.0.1:7447 --listen tcp/127.0.0.1:7450

With rmw_zenoh a topic's key is <domain>/<topic>/<type>/<hash>, with zenoh-bridge-ros2dds it is the topic's
name without its first slash. Either way messages are CDR, which this file decodes for the types below.
"""

from __future__ import annotations

import argparse
import json
import struct
import time
from typing import Any

#: Fields of each type: h is a std_msgs/Header, the others are struct's letters.
TYPES = {
    "std_msgs/msg/Float64": "data:d",
    "std_msgs/msg/Float32": "data:f",
    "std_msgs/msg/Int32": "data:i",
    "std_msgs/msg/Bool": "data:?",
    "sensor_msgs/msg/Temperature": "header:h temperature:d variance:d",
    "sensor_msgs/msg/RelativeHumidity": "header:h relative_humidity:d variance:d",
    "sensor_msgs/msg/FluidPressure": "header:h fluid_pressure:d variance:d",
    "sensor_msgs/msg/Illuminance": "header:h illuminance:d variance:d",
}


class Cdr:
    """Reads values of plain CDR, each at a multiple of its own size; ValueError where they do not fit."""

    def __init__(self, data: bytes) -> None:
        if len(data) < 4 or data[:2] not in (b"\x00\x00", b"\x00\x01"):
            raise ValueError("not plain CDR")
        self.order, self.data, self.at = "<" if data[1] else ">", data[4:], 0

    def take(self, letter: str) -> Any:
        """The next number or truth value."""
        size = struct.calcsize(letter)
        self.at += -self.at % size
        if self.at + size > len(self.data):
            raise ValueError("the message is too short")
        (value,) = struct.unpack_from(self.order + letter, self.data, self.at)
        self.at += size
        return value

    def text(self) -> str:
        """A string: its length with the zero at its end, then its bytes."""
        length = self.take("I")
        found = self.data[self.at : self.at + length]
        if len(found) < length or not found.endswith(b"\x00"):
            raise ValueError("the message is too short")
        self.at += length
        return found[:-1].decode()


def decode(kind: str, data: bytes) -> dict[str, Any]:
    """A message as a flat reading, with the header's time in seconds.

    >>> decode("std_msgs/msg/Float64", b"\\x00\\x01\\x00\\x00" + struct.pack("<d", 21.5))
    {'data': 21.5}
    """
    cdr, reading = Cdr(data), {}
    for field in TYPES[kind].split():
        name, letter = field.split(":")
        if letter == "h":
            seconds, nanoseconds = cdr.take("i"), cdr.take("I")
            reading["time"] = seconds + nanoseconds / 1e9
            reading["frame_id"] = cdr.text()
        else:
            reading[name] = cdr.take(letter)
    return reading


def main() -> None:
    """Translate until interrupted; what cannot be decoded is counted and told."""
    import zenoh

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("source", help="key expression of the ROS topic")
    parser.add_argument("sink", help="key to publish JSON on")
    parser.add_argument("type", choices=TYPES)
    parser.add_argument("--connect", action="append", default=[], help="such as tcp/127.0.0.1:7447")
    parser.add_argument("--listen", action="append", default=[], help="such as tcp/127.0.0.1:7450")
    args = parser.parse_args()
    config = zenoh.Config()
    config.insert_json5("scouting/multicast/enabled", "false")
    config.insert_json5("connect/endpoints", json.dumps(args.connect))
    config.insert_json5("listen/endpoints", json.dumps(args.listen))
    refused = 0
    with zenoh.open(config) as session:

        def translate(sample: Any) -> None:
            nonlocal refused
            try:
                session.put(args.sink, json.dumps(decode(args.type, sample.payload.to_bytes())))
            except ValueError as error:
                refused += 1
                print(f"{refused} refused, {sample.key_expr}: {error}", flush=True)

        session.declare_subscriber(args.source, translate)
        print(f"{args.source} -> {args.sink}", flush=True)
        while True:
            time.sleep(1)


if __name__ == "__main__":
    main()
