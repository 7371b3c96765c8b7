"""How much faster two ranks are than one process, measured in this one run, on the same bits.

    python benchmarks/mpi_speed.py [--ranks 2] [--repeats 3] [--json FILE]

J = 20,000 learners on a ring lattice, each linked to the 3 nearest on either side. Both sides run the NumPy
engine with one BLAS thread a process; the seconds are those of `simulate`, after one warm-up, gathering
included. The processes take turns, and the ratio is that of the fastest runs. Ranks wait for each other, so
that other work on the machine slows two of them more than one process: `others_cores` tells, run by run, how
many cores other processes (and, on a virtual machine, other guests) took meanwhile. Believe quiet runs.
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

J, REACH, P, D, d, T = 20_000, 3, 3, 20, 5, 150
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "VECLIB_MAXIMUM")}


def problem():
    """The same on every rank."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(J, T, d))
    y = np.sin(2 * X[..., 0]) + 0.1 * rng.standard_normal((J, T))
    edges = [(j, (j + k) % J) for j in range(J) for k in range(1, REACH + 1)]
    V = domkl.kernels.gaussian(d, D, sigma2=[0.1, 1.0, 10.0])
    model = domkl.Paper(kernels=V, rates=domkl.Rates(rho=0.5, eta=0.5, eta_g=2.0))
    return X, y, domkl.graph.as_graph(edges, J), model


def checksum(run):
    names = ("y_hat", "theta", "lam", "L", "q", "mse", "cv")
    return hashlib.sha256(b"".join(getattr(run, name).tobytes() for name in names)).hexdigest()[:16]


def work(engine):
    """One measured run, as JSON on the output: what the processes below are started for."""
    X, y, graph, model = problem()
    domkl.simulate(X[:, :2], y[:, :2], graph, model=model, engine=engine)
    start = time.perf_counter()
    run = domkl.simulate(X, y, graph, model=model, engine=engine)
    seconds = time.perf_counter() - start
    if engine != "mpi" or is_first():
        print(json.dumps({"seconds": seconds, "checksum": checksum(run)}))


def is_first():
    from mpi4py import MPI

    return MPI.COMM_WORLD.rank == 0


def measure(engine, ranks):
    start = [sys.executable, __file__, "--work", engine]
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


def compare(ranks, repeats):
    pairs = [(measure("numpy", 1), measure("mpi", ranks)) for _ in range(repeats)]
    one, many = (min(pair[side]["seconds"] for pair in pairs) for side in (0, 1))
    return {
        "problem": {"J": J, "neighbours": 2 * REACH, "P": P, "D": D, "d": d, "T": T},
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
    options.add_argument("--ranks", type=int, default=2, help="processes of the partitioned run")
    options.add_argument("--repeats", type=int, default=3, help="runs of each")
    options.add_argument("--json", metavar="FILE", help="also write the figures to FILE")
    options.add_argument("--work", metavar="ENGINE", help=argparse.SUPPRESS)
    args = options.parse_args()
    if args.work:
        work(args.work)
        return
    result = {"machine": machine(), **compare(args.ranks, args.repeats)}
    print(f"J = {J} on a ring lattice, P = {P}, D = {D}, d = {d}, T = {T}")
    print(f"  one process {result['one_process_s']:.2f} s, {args.ranks} ranks {result['ranks_s']:.2f} s")
    print(f"  cores that others took meanwhile, run by run: {result['others_cores']}")
    print(f"  ratio {result['ratio']:.2f}, checksum {' is not '.join(result['checksums'])}")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(result, indent=2) + "\n")
    sys.exit(0 if len(result["checksums"]) == 1 else "the checksums differ")


if __name__ == "__main__":
    main()
