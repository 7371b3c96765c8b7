"""W3: large networks, each in a process of its own that measures its peak memory."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, NamedTuple

from ...base.errors import Error
from . import machine, timing, w1
from .limits import Limits, LimitShape
from .timing import Report

DEGREE = 6


class W3Size(NamedTuple):
    """Learners and rounds of the three networks, and how often all of it is run."""

    small: tuple[int, int]
    large: tuple[int, int]
    ring: tuple[int, int]
    rounds: int


FULL = W3Size(small=(1000, 200), large=(100_000, 5), ring=(1_000_000, 3), rounds=2)
QUICK = W3Size(small=(60, 10), large=(300, 5), ring=(1000, 3), rounds=1)


class BenchNetwork(NamedTuple):
    """What a child process runs."""

    key: str  # "small", "large", "lattice" or "ring"
    J: int
    T: int
    P: int = 17
    D: int = 50
    d: int = 21
    bits: int = 64
    threads: int = 1
    keep_state: bool = True
    repeats: int = 1

    @property
    def name(self) -> str:
        """As the table calls it."""
        kind = {"ring": "ring of ", "lattice": "lattice of "}.get(self.key, "J = ")
        words = "one thread" if self.threads == 1 else f"{self.threads} threads"
        return f"{kind}{self.J:,}, {words}{', float32' * (self.bits == 32)}"

    @property
    def shape(self) -> LimitShape:
        """What its limit depends on."""
        scattered = self.key in ("small", "large")
        return LimitShape(self.J, self.P, self.D, self.d, 2 if self.key == "ring" else DEGREE, scattered)


def networks(size: W3Size) -> list[BenchNetwork]:
    """A network that the cache holds, two that it does not, and a very long ring.

    Of the large ones, neighbours lie anywhere in one (a random graph), and side by side in the other.
    """
    counts = (1, 2) if machine.usable_cores() > 1 else (1,)
    most = counts[-1]
    return [
        *(BenchNetwork("small", *size.small, threads=n, repeats=4) for n in counts),
        BenchNetwork("small", *size.small, threads=most, bits=32, repeats=4),
        *(BenchNetwork("large", *size.large, threads=n, keep_state=False) for n in counts),
        BenchNetwork("lattice", *size.large, keep_state=False),
        BenchNetwork("ring", *size.ring, P=3, D=16, threads=most, keep_state=False),
    ]


def measure(quick: bool, report: Report, known: list[Limits]) -> dict[str, Any]:
    """Every network's time and memory, beside the limits of this run."""
    size = QUICK if quick else FULL
    chosen, answers = networks(size), dict[str, dict[str, Any]]()
    trials = {network.name: _trial(network, answers) for network in chosen}
    timing.best(trials, size.rounds, report)
    rows = [_row(network, answers[network.name], known) for network in chosen]
    us = {row["key"]: row["rounds_us"] for row in rows if (row["bits"], row["threads"]) == (64, 1)}
    ratios = {f"{key}_to_small": us[key] / us["small"] for key in ("large", "lattice")}
    return {"rows": rows, "ratios": ratios}


def _trial(network: BenchNetwork, answers: dict[str, dict[str, Any]]) -> timing.Trial:
    """Runs a child, and keeps the fastest one's answer."""

    def trial() -> float:
        answer = _child(network)
        kept = answers.setdefault(network.name, answer)
        if answer["seconds"] < kept["seconds"]:
            answers[network.name] = answer
        return float(answer["seconds"])

    return trial


def _row(network: BenchNetwork, answer: dict[str, Any], known: list[Limits]) -> dict[str, Any]:
    same = (one for one in known if (one.bits, one.threads) == (network.bits, network.threads))
    beside = w1.against(next(same, None), network.shape, answer["us"] / 1e6)
    return {"name": network.name, **network._asdict(), "deg": network.shape.deg, **answer, **beside}


def _child(network: BenchNetwork) -> dict[str, Any]:
    """Run a network in a process of its own, so that its peak memory is its own."""
    command = [sys.executable, "-m", "domkl.lab.bench.child", json.dumps(network._asdict())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"signal {-done.returncode}"])[-1]
        raise Error(f"{network.name} failed: {last}; expected it to run; see whether memory was short")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
