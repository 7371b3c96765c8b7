"""Agents over MQTT whose sensors have 8, 2 and 1/3 readings a second: how long a prediction takes.

    python benchmarks/unequal_rates_agents.py [--seconds 15] [--mode sync] [--json]

A reading's time runs from its publication until its prediction is back from the broker. `alone` are the same
three agents without neighbours; `alike` are neighbours that learn the same from the same inputs, `unlike`
neighbours of which one has the opposite labels, so that messages are refused. Cases take turns and their
times count together, as the speed of a machine changes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import pathlib
import sys
import tempfile
import threading
import time
from typing import Any

import numpy as np
import paho.mqtt.client as mqtt

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests"))
import brokers
from domkl.lab import fleet

RESULTS = pathlib.Path(__file__).parent / "results" / "unequal_rates_agents.json"
RATES = {"fast": 8.0, "medium": 2.0, "slow": 1 / 3}
CASES = ("alone", "alike", "unlike")
INPUTS = 4
#: Seconds to wait for agents to connect, and for the last predictions.
START, LAST = 20.0, 1.0


def label(case: str, j: int, x: np.ndarray) -> float:
    """What a sensor measures."""
    y = 5 * np.sin(3 * x[0]) + 3 * x[1] * x[2]
    return float(20 + y if case != "unlike" or j == 1 else 20 - y)


class Sensors:
    """Publishes readings at their rates and notes when the prediction of each is back."""

    def __init__(self, address: str, case: str) -> None:
        self.case, self.sent, self.taken = case, {}, {name: [] for name in RATES}
        self._lock, self._states = threading.Lock(), set()
        self._client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
        self._client.on_message = self._receive
        host, port = address.split(":")
        self._client.connect(host, int(port))
        self._client.subscribe([("predictions/+", 0), ("domkl/bench/+/state", 0)])
        self._client.loop_start()

    def _receive(self, client: Any, data: Any, message: Any) -> None:
        now = time.monotonic()
        if message.topic.startswith("domkl/"):
            if message.payload.startswith(b"{") and json.loads(message.payload)["state"] == "ready":
                self._states.add(message.topic)
            return
        found = json.loads(message.payload)
        with self._lock:
            sent = self.sent.pop(found["id"])
            self.taken[message.topic.rpartition("/")[2]].append(now - sent)

    def run(self, seconds: float) -> None:
        """Publish until the time is over."""
        until = time.monotonic() + START
        while len(self._states) < len(RATES) and time.monotonic() < until:
            time.sleep(0.05)
        rng, start = np.random.default_rng(0), time.monotonic()
        due = sorted((k / rate, j, name) for j, (name, rate) in enumerate(RATES.items())
                     for k in range(int(seconds * rate)))  # fmt: skip
        for n, (at, j, name) in enumerate(due):
            time.sleep(max(0.0, start + at - time.monotonic()))
            x = rng.uniform(-1, 1, INPUTS)
            reading = {"id": str(n), "x": x.tolist(), "y": label(self.case, j, x)}
            with self._lock:
                self.sent[str(n)] = time.monotonic()
            self._client.publish(f"sensors/{name}", json.dumps(reading))
        time.sleep(LAST)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


def table(name: str, case: str, address: str, mode: str) -> dict[str, Any]:
    """An agent's settings."""
    near = [] if case == "alone" else [other for other in RATES if other != name]
    return {
        "network": "bench",
        "name": name,
        "neighbours": near,
        "inputs": INPUTS,
        "stream": {"topic": f"sensors/{name}"},
        "transport": {"kind": "mqtt", "broker": address},
        "output": {"predictions": "", "topic": f"predictions/{name}"},
        **({"rounds": {"mode": mode}} if mode else {}),
    }


def measure(case: str, seconds: float, mode: str) -> dict[str, Any]:
    """Times and traffic of one network."""
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = stack.enter_context(brokers.running(folder))
        for name in RATES:
            (folder / f"{name}.toml").write_text(fleet.as_toml(table(name, case, broker.address, mode)))
        net = stack.enter_context(fleet.Fleet(folder, tuple(RATES)))
        net.start()
        sensors = Sensors(broker.address, case)
        sensors.run(seconds)
        status = {name: net.status(name) for name in RATES}
        sensors.close()
    return {
        "times": [each for name in RATES for each in sensors.taken[name]],
        "readings": sum(map(len, sensors.taken.values())) + len(sensors.sent),
        "bytes_a_second": round(sum(each["bytes_sent"] for each in status.values()) / seconds),
        "messages_a_second": round(sum(each["messages_sent"] for each in status.values()) / seconds, 1),
        "messages_refused": sum(each["messages_refused"] for each in status.values()),
        "trust": {name: status[name]["trust"] for name in RATES},
        "neighbours_used": {name: status[name]["neighbours_used"] for name in RATES},
        "rmse": {name: status[name]["rmse"] for name in RATES},
        "rmse_alone": {name: status[name]["rmse_alone"] for name in RATES},
        "samples": {name: status[name]["samples"] for name in RATES},
    }


def pooled(turns: list[dict[str, Any]]) -> dict[str, Any]:
    """The times of all turns, and all else of the last."""
    times = np.array([each for turn in turns for each in turn["times"]])
    part = lambda q: float(f"{1000 * np.quantile(times, q):.4g}") if len(times) else None  # noqa: E731
    last = {key: value for key, value in turns[-1].items() if key != "times"}
    counts = {"readings": sum(turn["readings"] for turn in turns), "predicted": len(times)}
    return {**last, **counts, "p50_ms": part(0.5), "p99_ms": part(0.99), "most_ms": part(1.0)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--mode", default="", help="[rounds] mode; by default what agents do by themselves")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--json", action="store_true", help="write the result file, too")
    args = parser.parse_args()
    cases = args.cases.split(",")
    turns = [{case: measure(case, args.seconds, args.mode) for case in cases} for _ in range(args.turns)]
    found = {case: pooled([turn[case] for turn in turns]) for case in cases}
    for case, one in found.items():
        if one["p99_ms"] and found.get("alone", {}).get("p99_ms"):
            one["p99_over_alone"] = round(one["p99_ms"] / found["alone"]["p99_ms"], 3)
        print(case, json.dumps(one))
    if args.json:
        RESULTS.write_text(json.dumps({"seconds": args.seconds, **found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
