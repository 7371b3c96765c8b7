"""Rounds a second of five agents in a ring, beside the bare transport's, in one run.

    python benchmarks/agents.py [--transport zenoh|mqtt] [--rounds N] [--repeats R] [--json]

17 kernels with D = 50 and 21 inputs: the paper's message, 13.8 kB. The bare ring sends as many bytes in the
same rounds and does nothing else.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests"))
import brokers
import domkl
import faults
from domkl.lab import fleet

#: 17 kernels with D = 50.
MODEL = domkl.Paper(rates=faults.RATES)
RAW = pathlib.Path(__file__).parent / "raw_ring.py"


def bare(kind: str, rounds: int) -> float:
    """The transport's own rate."""
    command = [
        sys.executable,
        str(RAW),
        "--transport",
        kind,
        "--rounds",
        str(rounds),
        "--json",
    ]
    said = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return float(said["rounds_per_second"])


def agents(kind: str, rounds: int) -> float:
    """The slowest agent's rate."""
    experiment, source = faults.made(5, rounds, d=21, model=MODEL)
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        transport = {"kind": kind}
        if kind == "mqtt":
            transport["broker"] = stack.enter_context(brokers.running(folder)).address
        names = fleet.lay_out(folder / "net", experiment, source, transport)
        net = stack.enter_context(fleet.Fleet(folder / "net", names))
        net.start()
        net.wait(60 + rounds / 20)
        ends = [net.status(name) for name in names]
    return min(end["samples"] / end["seconds"] for end in ends)


def measure(kind: str, rounds: int, repeats: int) -> dict[str, object]:
    """Both by turns; medians, as a shared machine's speed changes from turn to turn."""
    rates = [(bare(kind, rounds), agents(kind, rounds)) for _ in range(repeats)]
    raw, ours = (statistics.median(rate) for rate in zip(*rates, strict=True))
    ratio = statistics.median(b / a for a, b in rates)
    return {"transport": kind, "bare": raw, "agents": ours, "ratio": ratio, "all": rates}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transport", choices=["zenoh", "mqtt"], action="append")
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = [measure(kind, args.rounds, args.repeats) for kind in args.transport or ["zenoh", "mqtt"]]
    if args.json:
        print(json.dumps(found))
        return
    print("transport  bare rounds/s  agents  ratio (wanted 0.4)")
    for one in found:
        print("{transport:9}  {bare:13.0f}  {agents:6.0f}  {ratio:.2f}".format(**one))


if __name__ == "__main__":
    main()
