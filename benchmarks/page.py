"""What the live page costs: processor time of serving 50 learners, and of the rounds that it shows.

    python benchmarks/page.py [--seconds 180] [--only run]     the last four parts take --seconds each

feed    microseconds of the learner's own thread, a sample of an agent and a round of 50 learners.
serve   50 learners of 10 samples a second each, with bounds, are fed to a server for 20 s: share of a core.
crowd   the same with eight pages open.
run     `domkl run --live` of 50 learners on a ring of `Auto`, with the page on and off in turns.
small   the same with 3 learners, whose rounds are short.
paper   the same with 50 learners of `Paper`, whose rounds are shorter still.
agents  three agents in one process, a page each, on and off in turns.

A client in another process reads all events; how turns are compared is in switching.py. A page is on half of
the time only, so inputs are explained half as often as usual. Its work is by the second: on a busy machine,
where fewer rounds are done in a second, it is a larger part of theirs.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from switching import Switch

import domkl
from domkl.agent import serve as serving
from domkl.agent.config import AgentConfig, HttpSection, OutputSection, TransportSection
from domkl.agent.loop import Agent
from domkl.agent.serve import service_of
from domkl.agent.streams import aiter_of
from domkl.cli import live
from domkl.cli.bench import machine
from domkl.cli.live import RunWatch
from domkl.datasets import Split
from domkl.lab.experiment import Experiment
from domkl.lab.trial import Source
from domkl.simulator import Watched
from domkl.watch import Feed, RunFeed, Server

RESULTS = Path(__file__).parent / "results" / "page.json"
LOOPBACK = ("127.0.0.1", 0)
LEARNERS, RATE, SECONDS = 50, 10, 20
#: Rounds before the comparison begins: a young `Auto` grows at times, which takes long.
WARM = {"auto": 520, "paper": 1000}
#: Every so many rounds of `Auto` one takes longer, so that blocks are multiples of it.
PERIOD = 32
PAPER = domkl.Paper(rates=domkl.Rates(1, 1, 1))
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
def client(server: Server, number: int = 1) -> Iterator[subprocess.Popen[bytes]]:
    """A process that follows the page, as the first, second, ... one."""
    process = subprocess.Popen([sys.executable, "-c", CLIENT, server.url], stdout=subprocess.PIPE)
    try:
        while server.counts["streams"] < number:
            time.sleep(0.01)
        yield process
    finally:
        server.close()
        process.wait(30)


def serve(pages: int = 1) -> dict[str, Any]:
    """Share of a core for all that so many open pages need, feeding included."""
    rng = np.random.default_rng(0)
    feed, names = Feed("fifty"), [f"learner-{j}" for j in range(LEARNERS)]
    near = {name: [names[j - 1], names[(j + 1) % LEARNERS]] for j, name in enumerate(names)}
    with Server(LOOPBACK, feed) as server, contextlib.ExitStack() as stack:
        readers = [stack.enter_context(client(server, k + 1)) for k in range(pages)]
        start, cpu = time.monotonic(), time.process_time()
        for t in range(SECONDS * RATE):
            values = rng.normal(size=(2, LEARNERS)).tolist()
            for name, y_hat, y in zip(names, *values, strict=True):
                bounds = {"low": y_hat - 2, "high": y_hat + 2}
                feed.sample({"learner": name, "index": t, "round": t, "y_hat": y_hat, **bounds})
                feed.truth(name, t, y)
            if t % RATE == 0:
                for name in names:
                    feed.status(_status(name, t, near[name]))
            time.sleep(max(0.0, start + (t + 1) / RATE - time.monotonic()))
        share = (time.process_time() - cpu) / (time.monotonic() - start)
    output = readers[0].stdout.read() if readers[0].stdout else b"0"
    return {
        "pages": pages,
        "learners": LEARNERS,
        "samples_per_second": LEARNERS * RATE,
        "core": share,
        "kB_per_second": int(output) / 1000 / SECONDS,
    }


def _status(name: str, t: int, near: list[str]) -> dict[str, Any]:
    links = [{"name": other, "up": True, "trust": 1.0} for other in near]
    counts = dict.fromkeys(("samples", "messages_sent", "bytes_sent", "bytes_received", "refused"), t)
    weights = [[f"expert {k}", 0.1] for k in range(10)]
    about = {"learner": name, "state": "ready", "round": t, "neighbours": links, "weights": weights}
    return {**about, **counts}


class Timed:
    """Calls a function, and adds up the processor time of the calling thread."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.seconds = function, 0.0

    def __call__(self, *given: Any) -> Any:
        start = time.thread_time()
        try:
            return self.function(*given)
        finally:
            self.seconds += time.thread_time() - start


def simulated(J: int, model: domkl.Auto | domkl.Paper, block: int, seconds: float) -> dict[str, Any]:
    """A network on a ring, as `domkl run --live` has it; a block of rounds takes one to two seconds."""
    T, rng = 5000, np.random.default_rng(0)
    X = rng.uniform(size=(J, T, 8))
    y = np.sin(6 * X[..., 0]) + X[..., 1] * X[..., 2]
    names = tuple(f"learner-{j}" for j in range(J))
    source = Source("ring", Split(X, y, names), inputs=tuple(f"input {k}" for k in range(8)))
    watch = RunWatch(Experiment("ring", graphs=("ring",), model=model), source)
    page, switch, done = Timed(watch), Switch(seconds, block), 0

    def watched(seen: Watched) -> None:
        nonlocal done
        done += seen.y.shape[1]
        if done < WARM[model.kind]:
            return
        if done - seen.y.shape[1] < WARM[model.kind]:
            switch.start()
        if switch.is_on:
            page(seen)
        switch.tick(seen.y.shape[1])

    dtype = np.float32 if model.kind == "auto" else np.float64
    with Server(LOOPBACK, watch.feed) as server, client(server):
        while not switch.is_over:
            domkl.simulate(
                X,
                y,
                "ring",
                model=model,
                threads=1,
                dtype=dtype,
                watch=watched,
                progress=lambda done, T: "stop" if switch.is_over else None,
            )
    return switch.result(page.seconds)


def agents(seconds: float) -> dict[str, Any]:
    """Three agents on a path, in one process."""
    return asyncio.run(_agents(seconds))


async def _agents(seconds: float) -> dict[str, Any]:
    near = {"a": ("b",), "b": ("a", "c"), "c": ("b",)}
    switch = Switch(seconds, 2 * PERIOD)
    all_ = [_agent(name, neighbours) for name, neighbours in near.items()]
    pages = [Switched(switch) for _ in all_]
    async with contextlib.AsyncExitStack() as stack:
        for agent, page in zip(all_, pages, strict=True):
            service = stack.enter_context(service_of(agent, LOOPBACK))
            stack.enter_context(client(service))
            page.feed, agent.predictions.feed = agent.predictions.feed, page
            await stack.enter_async_context(serving.explained(agent))
        telling = asyncio.create_task(_tell(all_))
        running = [asyncio.create_task(agent.run()) for agent in all_]
        rounds = 0
        while not switch.is_over:
            await asyncio.sleep(0.01)
            if rounds < 100 <= all_[0].learner.round:
                switch.start()
            switch.tick(all_[0].learner.round - rounds)
            rounds = all_[0].learner.round
        for agent in all_:
            agent.stop()
        await asyncio.gather(*running)
        telling.cancel()
    return switch.result(sum(page.seconds for page in pages))


class Switched:
    """A feed that gets only what comes while a page is on; adds up what that takes."""

    feed: Any = None

    def __init__(self, switch: Switch) -> None:
        self.switch, self.seconds = switch, 0.0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.feed, name)
        return self._when_on(found) if callable(found) else found

    def _when_on(self, method: Callable[..., Any]) -> Callable[..., None]:
        def call(*given: Any) -> None:
            if self.switch.is_on:
                timed = Timed(method)
                timed(*given)
                self.seconds += timed.seconds

        return call


def _agent(name: str, neighbours: tuple[str, ...]) -> Agent:
    rng = np.random.default_rng(0)
    how = {"transport": TransportSection(kind="memory"), "output": OutputSection(coverage=0.9)}
    config = AgentConfig("net", name, neighbours, inputs=8, http=HttpSection(), **how)
    samples = ((x, x.sum()) for x in (rng.uniform(size=8) for _ in itertools.count()))
    return Agent(config, stream=aiter_of(samples, 8), out=lambda record: None)


async def _tell(all_: list[Agent]) -> None:
    while True:
        for agent in all_:
            agent.show_status()
        await asyncio.sleep(1.0)


def feed() -> dict[str, Any]:
    """Microseconds that a learner's own thread spends: for an agent's sample, and a round of 50."""
    names = [f"learner-{j}" for j in range(LEARNERS)]
    one, many = Feed("one", own="a"), RunFeed("fifty", names, [[]] * LEARNERS)
    cpu, count = time.process_time(), 20_000
    for t in range(count):
        one.sample({"learner": "a", "index": t, "round": t, "y_hat": 1.5, "low": 1.0, "high": 2.0})
        one.truth("a", t, 1.25)
    sample = (time.process_time() - cpu) / count
    values, weights = np.random.default_rng(0).normal(size=(3, LEARNERS, 1)), np.full((LEARNERS, 10), 0.1)
    cpu, count = time.process_time(), 5000
    for _ in range(count):
        many.rounds(*values, weights)
    return {"agent_sample_us": 1e6 * sample, "run_round_us": 1e6 * (time.process_time() - cpu) / count}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=180, help="of each part that goes in turns")
    parts: dict[str, Callable[[float], dict[str, Any]]] = {
        "feed": lambda seconds: feed(),
        "serve": lambda seconds: serve(),
        "crowd": lambda seconds: serve(pages=8),
        "run": lambda seconds: simulated(LEARNERS, domkl.Auto(), PERIOD, seconds),
        "small": lambda seconds: simulated(3, domkl.Auto(), 10 * PERIOD, seconds),
        "paper": lambda seconds: simulated(LEARNERS, PAPER, 10_000, seconds),
        "agents": agents,
    }
    parser.add_argument("--only", choices=[*parts])
    args = parser.parse_args()
    live.EVERY *= 2
    serving.EXPLAIN_EVERY *= 2
    for name, measure in parts.items():
        if args.only in (None, name):
            found = {key: float(f"{value:.4g}") for key, value in measure(args.seconds).items()}
            print(name, json.dumps(found), flush=True)
            kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
            kept |= {name: found, "machine": machine()}
            RESULTS.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
