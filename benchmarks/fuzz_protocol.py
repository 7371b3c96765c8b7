"""A certified neighbour that lies in any field of any message: every model, 200,000 messages each.

    python benchmarks/fuzz_protocol.py [--messages 200000] [--over memory zenoh mqtt] [--json FILE]

Three learners of one process; the third is hostile (see tests/hostile.py) and then turns honest. In memory
for all models, and a tenth of the messages over Zenoh and MQTT. Facts: refusals by kind, the slowest round,
memory that the process grew by after a tenth of the messages, and the errors of the honest while lies came
and after, beside those of the same three learners without a lie.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import logging
import pathlib
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests"))
import numpy as np

import brokers
import hostile
import test_hostile
from domkl.agent import transports
from domkl.agent.config import TransportSection

AFTER = 1000


def sections(kind, broker):
    """The [transport] of each of three learners."""
    if kind == "mqtt":
        return [TransportSection(kind="mqtt", broker=broker.address)] * 3
    if kind == "memory":
        return [TransportSection(kind="memory")] * 3
    places = [f"127.0.0.1:{port}" for port in brokers.free_ports(3)]
    return [
        TransportSection(kind="zenoh", listen=(here,), connect=tuple(p for p in places if p != here))
        for here in places
    ]


def errors(out, start, stop):
    found = [(one["y"] - one["y_hat"]) ** 2 for one in out[start:stop]]
    return float(np.mean(found)) if found else float("nan")


def measured(model, kind, count, broker=None):
    """One model over one transport, with lies and without."""
    configs = [
        dataclasses.replace(config, transport=section)
        for config, section in zip(
            test_hostile.network(test_hostile.MODELS[model]), sections(kind, broker), strict=True
        )
    ]
    make = lambda config: transports.make(config.transport_settings())  # noqa: E731
    start = time.monotonic()
    _, facts = asyncio.run(hostile.attacked(configs, make, count, copies=60, after=AFTER, seconds=3600.0))
    outs, marks = facts.pop("predictions"), facts.pop("marks")
    seconds = time.monotonic() - start
    _, calm = asyncio.run(hostile.attacked(configs, make, 0, after=2 * AFTER, seconds=600.0))
    return {
        "model": model,
        "transport": kind,
        **facts,
        "seconds": seconds,
        "error_during": max(errors(out, 0, mark) for out, mark in zip(outs[:-1], marks, strict=False)),
        "error_after": max(errors(out, -AFTER // 2, None) for out in outs[:-1]),
        "error_calm": max(errors(out, -AFTER // 2, None) for out in calm["predictions"][:-1]),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--models", nargs="*", default=list(test_hostile.MODELS))
    parser.add_argument("--over", nargs="*", default=["memory", "zenoh", "mqtt"])
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    rows = []
    with tempfile.TemporaryDirectory() as folder, brokers.running(pathlib.Path(folder)) as broker:
        for kind in args.over:
            for model in args.models:
                count = args.messages if kind == "memory" else args.messages // 10
                rows.append(measured(model, kind, count, broker))
                print(json.dumps(rows[-1]), flush=True)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
