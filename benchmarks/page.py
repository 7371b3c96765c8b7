"""What the live page costs: processor time of serving 50 learners, and of the rounds that it shows.

    python benchmarks/page.py            three measurements, with a client that reads all events

feed    microseconds of the learner's own thread, a sample of an agent and a round of 50 learners.
serve   50 learners of 10 samples a second each, with bounds, are fed to a server for 20 s: share of a core.
run     `domkl.simulate` with 50 learners on a ring, with and without the page: rounds a processor second.
agents  three agents in one process, a page and a client for each, and without: the same.

Rates are by processor time of the whole process, the server's threads included: others may use the machine at
the same time. Runs with and without the page alternate; the cost is the median over pairs, with quartiles.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import domkl
from domkl.agent.config import AgentConfig, HttpSection, OutputSection, TransportSection
from domkl.agent.loop import Agent
from domkl.agent.serve import service_of, show_status
from domkl.agent.streams import aiter_of
from domkl.lab.bench import machine
from domkl.watch import Feed, RunFeed, Server

RESULTS = Path(__file__).parent / "results" / "page.json"
LOOPBACK = ("127.0.0.1", 0)
LEARNERS, RATE, SECONDS = 50, 10, 20
#: Reads events until the server ends, and tells how many bytes they had.
CLIENT = """
import sys, urllib.request
count = 0
with urllib.request.urlopen(sys.argv[1] + "events", timeout=60) as events:
    for line in events:
        count += len(line)
print(count)
"""


@contextlib.contextmanager
def client(server: Server) -> Iterator[subprocess.Popen[bytes]]:
    """A process that follows the page."""
    process = subprocess.Popen([sys.executable, "-c", CLIENT, server.url], stdout=subprocess.PIPE)
    try:
        while not server.counts["streams"]:
            time.sleep(0.01)
        yield process
    finally:
        server.close()
        process.wait(30)


def serve() -> dict[str, Any]:
    """Share of a core for all that the page needs, feeding included."""
    rng = np.random.default_rng(0)
    feed, names = Feed("fifty"), [f"learner-{j}" for j in range(LEARNERS)]
    near = {name: [names[j - 1], names[(j + 1) % LEARNERS]] for j, name in enumerate(names)}
    with Server(LOOPBACK, feed) as server, client(server) as reader:
        start, cpu = time.monotonic(), time.process_time()
        for t in range(SECONDS * RATE):
            values = rng.normal(size=(2, LEARNERS)).tolist()
            for name, y_hat, y in zip(names, *values, strict=True):
                feed.sample(
                    {
                        "learner": name,
                        "index": t,
                        "round": t,
                        "y_hat": y_hat,
                        "low": y_hat - 2,
                        "high": y_hat + 2,
                    }
                )
                feed.truth(name, t, y)
            if t % RATE == 0:
                for name in names:
                    feed.status(_status(name, t, near[name]))
            time.sleep(max(0.0, start + (t + 1) / RATE - time.monotonic()))
        share = (time.process_time() - cpu) / (time.monotonic() - start)
    output = reader.stdout.read() if reader.stdout else b"0"
    return {
        "learners": LEARNERS,
        "samples_per_second": LEARNERS * RATE,
        "core": share,
        "kB_per_second": int(output) / 1000 / SECONDS,
    }


def _status(name: str, t: int, near: list[str]) -> dict[str, Any]:
    links = [{"name": other, "up": True, "trust": 1.0} for other in near]
    counts = dict.fromkeys(("samples", "messages_sent", "bytes_sent", "bytes_received", "refused"), t)
    weights = [[f"expert {k}", 0.1] for k in range(10)]
    return {
        "learner": name,
        "state": "ready",
        "round": t,
        "rmse_alone": 1.0,
        "neighbours": links,
        "weights": weights,
        **counts,
    }


def simulated(is_watched: bool, rounds: int = 60) -> float:
    """Rounds a second of processor time, of 50 learners on a ring."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(LEARNERS, rounds, 8))
    y = np.sin(6 * X[..., 0]) + X[..., 1] * X[..., 2]
    with contextlib.ExitStack() as stack:
        watch = _watch(stack, rounds) if is_watched else None
        cpu = time.process_time()
        domkl.simulate(X, y, "ring", threads=1, dtype=np.float32, watch=watch)
        return rounds / (time.process_time() - cpu)


def _watch(stack: contextlib.ExitStack, rounds: int) -> Any:
    near = [[(j - 1) % LEARNERS, (j + 1) % LEARNERS] for j in range(LEARNERS)]
    feed = RunFeed("fifty", [f"learner-{j}" for j in range(LEARNERS)], near, rounds=rounds)
    stack.enter_context(client(stack.enter_context(Server(LOOPBACK, feed))))

    def watch(y_hat: Any, y: Any, alone: Any, weights: Any) -> None:
        feed.round(y_hat[:, 0], y[:, 0], alone[:, 0], weights)

    return watch


def devices(is_watched: bool, rounds: int = 300) -> float:
    """Rounds a second of processor time, of three agents on a path."""
    return asyncio.run(_devices(is_watched, rounds))


async def _devices(is_watched: bool, rounds: int) -> float:
    rng = np.random.default_rng(0)
    near = {"a": ("b",), "b": ("a", "c"), "c": ("b",)}
    agents = []
    for name, neighbours in near.items():
        X = rng.uniform(size=(rounds, 8))
        more = {
            "transport": TransportSection(kind="memory"),
            "output": OutputSection(coverage=0.9),
            "http": HttpSection(),
        }
        config = AgentConfig("net", name, neighbours, inputs=8, **more)
        agents.append(
            Agent(config, stream=aiter_of(zip(X, X.sum(1), strict=True), 8), out=lambda record: None)
        )
    with contextlib.ExitStack() as stack:
        for agent in agents if is_watched else ():
            service = stack.enter_context(service_of(agent, LOOPBACK))
            stack.enter_context(client(service.server))
        telling = asyncio.create_task(_tell(agents)) if is_watched else None
        cpu = time.process_time()
        await asyncio.gather(*(agent.run() for agent in agents))
        rate = rounds / (time.process_time() - cpu)
        if telling is not None:
            telling.cancel()
    return rate


async def _tell(agents: list[Agent]) -> None:
    while True:
        for agent in agents:
            show_status(agent)
        await asyncio.sleep(1.0)


def feed() -> dict[str, Any]:
    """Microseconds that a learner's own thread spends: for an agent's sample, and a round of 50."""
    one, many = (
        Feed("one", own="a"),
        RunFeed("fifty", [f"learner-{j}" for j in range(LEARNERS)], [[]] * LEARNERS),
    )
    cpu, count = time.process_time(), 20_000
    for t in range(count):
        one.sample({"learner": "a", "index": t, "round": t, "y_hat": 1.5, "low": 1.0, "high": 2.0})
        one.truth("a", t, 1.25)
    sample = (time.process_time() - cpu) / count
    values, weights = np.random.default_rng(0).normal(size=(3, LEARNERS)), np.full((LEARNERS, 10), 0.1)
    cpu, count = time.process_time(), 2000
    for _ in range(count):
        many.round(*values, weights)
    return {"agent_sample_us": 1e6 * sample, "run_round_us": 1e6 * (time.process_time() - cpu) / count}


def compared(measure: Any, repeats: int) -> dict[str, Any]:
    """Rates without and with the page, and the part of the rate that it costs, with quartiles."""
    measure(False)  # warm
    pairs = []
    for k in range(repeats):  # in turns, so that a machine that gets slower favours neither
        first = measure(k % 2 == 1)
        second = measure(k % 2 == 0)
        pairs.append((first, second) if k % 2 == 0 else (second, first))
    costs = [1 - watched / plain for plain, watched in pairs]
    low, middle, high = statistics.quantiles(costs, n=4)
    plain, watched = (statistics.median(each) for each in zip(*pairs, strict=True))
    rates = {"without": plain, "with": watched}
    return {**rates, "cost": middle, "cost_low": low, "cost_high": high, "repeats": repeats}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--only", choices=["feed", "serve", "run", "agents"])
    args = parser.parse_args()
    parts = {
        "feed": feed,
        "serve": serve,
        "run": lambda: compared(simulated, args.repeats),
        "agents": lambda: compared(devices, args.repeats),
    }
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name, measure in parts.items():
        if args.only in (None, name):
            kept[name] = {key: float(f"{value:.4g}") for key, value in measure().items()}
            print(name, json.dumps(kept[name]), flush=True)
            kept["machine"] = machine.describe()
            RESULTS.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
