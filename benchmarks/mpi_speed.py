"""How much faster two ranks are than one process, measured in this one run, on the same bits.

    python benchmarks/mpi_speed.py [--model paper|auto] [--ranks 2] [--repeats 3] [--json FILE]

Paper: J = 20,000 learners on a ring lattice, each linked to the 3 nearest on either side; both sides run the
NumPy engine. Auto: J = 64 learners of size 1000 on such a lattice, with the native engine in each process,
in float32. One thread a process; the seconds are those of `simulate`, after one warm-up, gathering included.
The processes take turns, and the ratio is that of the fastest runs. Ranks wait for each other, so that other
work on the machine slows two of them more than one process: `others_cores` tells, run by run, how many cores
other processes (and, on a virtual machine, other guests) took meanwhile. Believe quiet runs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import pathlib
import resource
import subprocess
import sys
import time

import numpy as np

import domkl
from domkl.cli.bench import machine

REACH, d = 3, 5
PROBLEMS = {
    "paper": {"J": 20_000, "T": 150, "P": 3, "D": 20},
    "auto": {"J": 64, "T": 600, "size": 1000},
}
#: What is compared: of `Auto`, sums of errors are added up in another order in one process.
FIELDS = {
    "paper": ("y_hat", "theta", "lam", "L", "q", "mse", "cv"),
    "auto": ("y_hat", "theta", "lam", "q", "believed"),
}
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "VECLIB_MAXIMUM")}


def problem(name):
    """The same on every rank."""
    rng, J, T = np.random.default_rng(0), PROBLEMS[name]["J"], PROBLEMS[name]["T"]
    X = rng.uniform(-1, 1, size=(J, T, d))
    y = np.sin(2 * X[..., 0]) + 0.1 * rng.standard_normal((J, T))
    edges = [(j, (j + k) % J) for j in range(J) for k in range(1, REACH + 1)]
    V = domkl.kernels.gaussian(d, PROBLEMS["paper"]["D"], sigma2=[0.1, 1.0, 10.0])
    model = domkl.Paper(kernels=V, rates=domkl.Rates(rho=0.5, eta=0.5, eta_g=2.0))
    model = model if name == "paper" else domkl.Auto(size=PROBLEMS["auto"]["size"])
    return X, y, domkl.graph.as_graph(edges, J), model


def checksum(run, name):
    fields = b"".join(getattr(run, field).tobytes() for field in FIELDS[name])
    return hashlib.sha256(fields).hexdigest()[:16]


def work(name, engine):
    """One measured run, as JSON on the output: what the processes below are started for."""
    X, y, graph, model = problem(name)
    how = {"engine": engine, "threads": 1, "dtype": np.float64 if name == "paper" else np.float32}
    domkl.simulate(X[:, :2], y[:, :2], graph, model=model, **how)
    start = time.perf_counter()
    run = domkl.simulate(X, y, graph, model=model, **how)
    seconds = time.perf_counter() - start
    if engine != "mpi" or is_first():
        print(json.dumps({"seconds": seconds, "checksum": checksum(run, name)}))


def is_first():
    from mpi4py import MPI

    return MPI.COMM_WORLD.rank == 0


def measure(name, engine, ranks):
    start = [sys.executable, __file__, "--model", name, "--work", engine]
    if engine == "mpi":
        start = [str(pathlib.Path(sys.executable).with_name("mpiexec")), "-n", str(ranks), *start]
    begin, busy = time.perf_counter(), busy_elsewhere()
    done = subprocess.run(start, env={**os.environ, **ONE_THREAD}, capture_output=True, text=True, check=True)
    others = (busy_elsewhere() - busy) / (time.perf_counter() - begin)
    return {**json.loads(done.stdout), "others_cores": round(others, 2)}


def busy_elsewhere():
    """Seconds of all cores so far that went neither to our processes nor to idling; 0 where Linux is not."""
    stat = pathlib.Path("/proc/stat")
    if not stat.exists():
        return 0.0
    user, nice, system, _, _, irq, softirq, steal, *_ = map(int, stat.read_text().split()[1:11])
    ours = resource.getrusage(resource.RUSAGE_CHILDREN)
    every = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
    return every - ours.ru_utime - ours.ru_stime


def compare(name, ranks, repeats):
    alone = "numpy" if name == "paper" else "native"
    pairs = [(measure(name, alone, 1), measure(name, "mpi", ranks)) for _ in range(repeats)]
    one, many = (min(pair[side]["seconds"] for pair in pairs) for side in (0, 1))
    return {
        "problem": {"model": name, **PROBLEMS[name], "neighbours": 2 * REACH, "d": d},
        "ranks": ranks,
        "one_process_s": one,
        "ranks_s": many,
        "ratio": one / many,
        "pairs_s": [[side["seconds"] for side in pair] for pair in pairs],
        "others_cores": [[side["others_cores"] for side in pair] for pair in pairs],
        "checksums": sorted({side["checksum"] for pair in pairs for side in pair}),
    }


def main():
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--model", choices=PROBLEMS, default="paper")
    options.add_argument("--ranks", type=int, default=2, help="processes of the partitioned run")
    options.add_argument("--repeats", type=int, default=3, help="runs of each")
    options.add_argument("--json", metavar="FILE", help="also write the figures to FILE")
    options.add_argument("--work", metavar="ENGINE", help=argparse.SUPPRESS)
    args = options.parse_args()
    if args.work:
        work(args.model, args.work)
        return
    result = {"machine": machine(), **compare(args.model, args.ranks, args.repeats)}
    print(", ".join(f"{name} {value}" for name, value in result["problem"].items()))
    print(f"  one process {result['one_process_s']:.2f} s, {args.ranks} ranks {result['ranks_s']:.2f} s")
    print(f"  cores that others took meanwhile, run by run: {result['others_cores']}")
    print(f"  ratio {result['ratio']:.2f}, checksum {' is not '.join(result['checksums'])}")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(result, indent=2) + "\n")
    sys.exit(0 if len(result["checksums"]) == 1 else "the checksums differ")


if __name__ == "__main__":
    main()
