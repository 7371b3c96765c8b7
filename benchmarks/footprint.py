"""What an agent needs where nothing happens: its processor and its memory.

    python benchmarks/footprint.py [--seconds N] [--json]

Two agents with 17 kernels and D = 50 meet and learn a hundred samples; then their streams are silent. The
share of a core is that of the silence, the memory the most they ever had.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests"))
import brokers
import domkl
import faults
from domkl.lab import fleet

SAMPLES = 100
#: 17 kernels with D = 50.
MODEL = domkl.Paper(rates=faults.RATES)


def used(pid: int) -> float:
    """Seconds of processor."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak(pid: int) -> float:
    """The most memory so far, in megabytes."""
    return int(pathlib.Path(f"/proc/{pid}/status").read_text().split("VmHWM:")[1].split()[0]) / 1024


def measure(kind: str, seconds: float) -> dict[str, object]:
    """The worse of two agents."""
    experiment, source = faults.made(2, SAMPLES, d=21, graph="path", model=MODEL)
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        transport = {"kind": kind}
        if kind == "mqtt":
            transport["broker"] = stack.enter_context(brokers.running(folder)).address
        silent = {"stream": {"kind": "jsonl", "path": "{name}.jsonl", "follow": True}}
        names = fleet.lay_out(folder / "net", experiment, source, transport, silent)
        net = stack.enter_context(fleet.Fleet(folder / "net", names))
        net.start()
        for name in names:
            faults.wait_for_rounds(net, name, SAMPLES - 1)
        time.sleep(1.0)
        pids = [net.processes[name].pid for name in names]
        before = [used(pid) for pid in pids]
        time.sleep(seconds)
        shares = [(used(pid) - start) / seconds for pid, start in zip(pids, before, strict=True)]
        return {"transport": kind, "core": max(shares), "peak_mb": max(map(peak, pids))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = [measure(kind, args.seconds) for kind in ("zenoh", "mqtt")]
    if args.json:
        print(json.dumps(found))
        return
    for one in found:
        print("{transport:6} idle {core:.2%} of a core, at most {peak_mb:.0f} MB".format(**one))


if __name__ == "__main__":
    main()
