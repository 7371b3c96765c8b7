"""A million rounds on two agents: does their memory stay flat?

    python benchmarks/soak.py [--transport zenoh|mqtt] [--model paper|auto] [--rounds N] [--json]

Resident memory of each process after the first 10,000 rounds, and the most after that.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import pathlib
import sys
import tempfile
import time
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests"))
import brokers
import faults
from domkl.lab import fleet
from domkl.models.settings import KernelSpec

FIRST = 10_000
SMALL = KernelSpec(D=4, sigma2=(1.0, 4.0))
MODELS = {"paper": dataclasses.replace(faults.FIRST, kernels=SMALL), "auto": faults.AUTO}


def resident(pid: int) -> float:
    """Megabytes."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def soak(kind: str, rounds: int, model: str) -> dict[str, Any]:
    experiment, source = faults.made(2, rounds, graph="path", model=MODELS[model])
    more = {"output": {"predictions": ""}, "checkpoint": {"directory": "{name}.ckpt", "every_rounds": 20_000}}
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        transport: dict[str, str] = {"kind": kind}
        if kind == "mqtt":
            transport["broker"] = stack.enter_context(brokers.running(folder)).address
        names = fleet.lay_out(folder / "net", experiment, source, transport, more)
        net = stack.enter_context(fleet.Fleet(folder / "net", names))
        net.start()
        start, at_first, most = time.monotonic(), dict[str, float](), dict.fromkeys(names, 0.0)
        while net.running:
            time.sleep(1.0)
            look(net, at_first, most)
        net.wait(10)
        seconds = time.monotonic() - start
        done = [net.status(name)["samples"] for name in names]
    growth = {name: most[name] - at_first[name] for name in names}
    facts = {"transport": kind, "model": model, "rounds": done, "seconds": seconds}
    return {**facts, "at_first": at_first, "growth": growth}


def look(net: fleet.Fleet, at_first: dict[str, float], most: dict[str, float]) -> None:
    """Note the memory of the processes that still run."""
    for name in net.running:
        if net.status(name).get("round", 0) < FIRST:
            continue
        with contextlib.suppress(FileNotFoundError, IndexError):
            now = resident(net.processes[name].pid)
            at_first.setdefault(name, now)
            most[name] = max(most[name], now)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transport", choices=["zenoh", "mqtt"], default="zenoh")
    parser.add_argument("--model", choices=MODELS, default="paper")
    parser.add_argument("--rounds", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = soak(args.transport, args.rounds, args.model)
    if args.json:
        print(json.dumps(found))
        return
    print(f"{min(found['rounds'])} rounds in {found['seconds']:.0f} s over {args.transport}")
    for name, growth in found["growth"].items():
        first = found["at_first"][name]
        print(f"{name}: {first:.1f} MB after {FIRST} rounds, at most {growth:+.2f} MB after that")


if __name__ == "__main__":
    main()
