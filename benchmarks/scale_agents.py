"""Many agents over Zenoh on a ring: sockets, time to start, rounds a second, threads, memory, processor.

    python benchmarks/scale_agents.py [--agents N] [--model paper|auto] [--python OTHER/bin/python]

With --python the same network also runs with another installed version, one after the other on the same
machine. Everything is per network of N processes; memory is the proportional share (PSS).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

INPUTS, LINES = 3, 20_000
#: Patience, so that a busy machine loses no neighbour.
PATIENT = {"DOMKL_ROUNDS_DEADLINE": "60", "DOMKL_ROUNDS_START": "300", "OPENBLAS_NUM_THREADS": "1"}
PAPER = {"D": 20, "sigma2": [0.1, 1.0, 10.0]}
SIZE = 100


def has_sections(python: str) -> bool:
    """Whether that version's files have one [model] section; earlier ones had [kernels] and [auto]."""
    return subprocess.run([python, "-c", "import domkl.learning"], capture_output=True).returncode == 0


def model_section(model: str, names: list[str], new: bool) -> str:
    """The model in an agent's file, in the words of either version."""
    kernels = f"D = {PAPER['D']}\nsigma2 = {PAPER['sigma2']}\n"
    if model == "paper":
        before = "model." if new else ""
        kind = '[model]\nkind = "paper"\n' if new else ""
        return f"{kind}[{before}kernels]\n{kernels}[{before}rates]\nhorizon = 1000\n"
    if new:
        return f'[model]\nkind = "auto"\nsize = {SIZE}\n'
    return f"[auto]\nlearners = {json.dumps(names)}\ndiameter = {len(names) // 2}\nsize = {SIZE}\n"


def lay_out(folder: pathlib.Path, count: int, model: str, new: bool) -> list[str]:
    """Write a file and a stream for each agent of a ring; returns their names."""
    names = [f"n{j}" for j in range(count)]
    first = random.SystemRandom().randrange(20_000, 31_000 - count)
    places = {name: f"127.0.0.1:{first + j}" for j, name in enumerate(names)}
    for j, name in enumerate(names):
        near = [names[j - 1], names[(j + 1) % count]]
        preset = 'preset = "auto"\n' if model == "auto" and not new else ""
        top = (
            f'network = "ring"\nname = "{name}"\nneighbours = {json.dumps(near)}\ninputs = {INPUTS}\n{preset}'
        )
        transport = f'[transport]\nkind = "zenoh"\nlisten = ["{places[name]}"]\n'
        transport += f"connect = {json.dumps([places[other] for other in near])}\n"
        rest = f'[stream]\nkind = "jsonl"\npath = "{name}.jsonl"\n[output]\npredictions = "{name}.out"\n'
        (folder / f"{name}.toml").write_text(top + model_section(model, names, new) + transport + rest)
        rng = random.Random(j)
        rows = ([rng.random() for _ in range(INPUTS)] for _ in range(LINES))
        text = "".join(json.dumps({"x": x, "y": x[0] - x[1] * x[2]}) + "\n" for x in rows)
        (folder / f"{name}.jsonl").write_text(text)
    return names


@contextlib.contextmanager
def running(folder: pathlib.Path, names: list[str], python: str) -> Iterator[list[int]]:
    """The agents' processes, by id; ended by their ids."""
    environ = {**os.environ, **PATIENT}
    processes = []
    for name in names:
        with open(folder / f"{name}.log", "wb") as log:
            command = [python, "-m", "domkl", "agent", f"{name}.toml"]
            processes.append(subprocess.Popen(command, cwd=folder, env=environ, stderr=log))
    try:
        yield [process.pid for process in processes]
    finally:
        for process in processes:
            process.send_signal(signal.SIGKILL)
        for process in processes:
            process.wait()


def rounds(folder: pathlib.Path, names: list[str]) -> list[int]:
    """Predictions that each agent has written."""
    paths = [folder / f"{name}.out" for name in names]
    return [path.read_bytes().count(b"\n") if path.exists() else 0 for path in paths]


def sockets(pids: list[int]) -> int:
    """TCP sockets of all processes, listening ones included."""
    tables = [pathlib.Path(f"/proc/net/{kind}").read_text().splitlines()[1:] for kind in ("tcp", "tcp6")]
    inodes = {line.split()[9] for table in tables for line in table}
    return sum(inode in inodes for pid in pids for inode in inodes_of(pid))


def inodes_of(pid: int) -> list[str]:
    found = []
    for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            target = os.readlink(entry)
            found += [target[8:-1]] if target.startswith("socket:[") else []
    return found


def threads(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/task"))


def memory(pid: int) -> float:
    """The share of memory of a process, in MB."""
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(text.split("\nPss:")[1].split()[0]) / 1024


def used(pid: int) -> float:
    """Seconds of processor."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(python: str, count: int, model: str, seconds: float) -> dict[str, object]:
    """Start a network, let it learn for so many seconds, and look at its processes."""
    with tempfile.TemporaryDirectory() as place:
        folder, load = pathlib.Path(place), os.getloadavg()[0]
        names = lay_out(folder, count, model, has_sections(python))
        start = time.monotonic()
        with running(folder, names, python) as pids:
            while min(rounds(folder, names)) < 2:
                if time.monotonic() - start > 400:
                    raise SystemExit(f"not all learn: {rounds(folder, names)}")
                time.sleep(0.5)
            started = time.monotonic() - start
            time.sleep(5)
            before, spent, since = rounds(folder, names), sum(map(used, pids)), time.monotonic()
            time.sleep(seconds)
            after, spent = rounds(folder, names), sum(map(used, pids)) - spent
            passed = time.monotonic() - since
            rate = min(late - early for early, late in zip(before, after, strict=True)) / passed
            found = {
                "sockets": sockets(pids),
                "start": round(started, 1),
                "rounds": round(rate, 2),
                "threads": max(map(threads, pids)),
                "memory": round(sum(map(memory, pids)) / count, 1),
                "core": round(spent / passed / count, 4),
                "cpu_ms": round(1000 * spent / count / max(rate * passed, 1), 2),
            }
            lost = sum((folder / f"{name}.log").read_bytes().count(b"neighbour lost") for name in names)
    return {"agents": count, "model": model, **found, "lost": lost, "load_before": round(load, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agents", type=int, default=50)
    parser.add_argument("--model", choices=["paper", "auto"], default="paper")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--python", help="of another version; it runs first")
    args = parser.parse_args()
    versions = {"before": args.python, "now": sys.executable}
    for version, python in versions.items():
        if python:
            found = measure(python, args.agents, args.model, args.seconds)
            print(json.dumps({"version": version, **found}), flush=True)


if __name__ == "__main__":
    main()
