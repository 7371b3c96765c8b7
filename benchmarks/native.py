"""What a sample of `Auto` costs, as ratios of one run; CPU time of one thread.

    python benchmarks/native.py [--before FOLDER] [--json FILE]

On bike, twelve inputs, float32 where not said otherwise: `predict` and `learn` of one device from Python
after 1,000 samples (600 of what is slow), native, in NumPy, and by River's forest of ten; River's face on
dictionaries; blocks of 256 samples; `domkl.simulate` of five learners on a ring; 100,000 rows through
`domkl run`. `--before` is a checkout of an earlier commit that is installed in its `.venv`: the same calls
are measured there.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np

import domkl

SIZES = (400, 1700)
FIRST = 1000  # samples that are learnt before
FEW = 600  # the same of what is slow: after 528 samples no scale is taken any more
ROUNDS = 1000  # of five learners


def bike():
    found = np.load(pathlib.Path(os.environ["DOMKL_DATA"]) / "streams" / "bike.npz")
    return found["X"].astype(np.float64), found["y"].astype(np.float64)


def each(work, first, n):
    """Microseconds of CPU time of work(t), for n samples after the first ones."""
    for t in range(first):
        work(t)
    start = time.process_time()
    for t in range(first, first + n):
        work(t)
    return 1e6 * (time.process_time() - start) / n


def of_face(size, n):
    X, y = bike()
    model = domkl.DOMKL(model=domkl.Auto(size=size))

    def one(t):
        model.predict(X[t])
        model.learn(X[t], y[t])

    return each(one, FEW, n)


def of_five(size, **more):
    X, y = bike()
    J, T = 5, ROUNDS
    X, y = X[: J * T].reshape(T, J, -1).swapaxes(0, 1), y[: J * T].reshape(T, J).T
    start = time.process_time()
    domkl.simulate(X, y, "ring", model=domkl.Auto(size=size), dtype=np.float32, threads=1, **more)
    return 1e6 * (time.process_time() - start) / T


def common():
    """What every version can do."""
    found = {f"face_{size}_float64": of_face(size, 400 if size < 1000 else 100) for size in SIZES}
    return {**found, "five_400": of_five(400)}


def of_online(size, engine, n):
    """One device through the rows of the faces, in float32."""
    from domkl.faces.online import OnlineRows
    from domkl.models.settings import Means

    X, y = bike()
    model = OnlineRows(domkl.Auto(size=size), X.shape[1], dtype=np.float32)
    if engine == "numpy":
        model.rows = domkl.Auto(size=size).make(1, X.shape[1], np.float32, 1, Means("numpy"))

    def one(t):
        model.predict(X[t : t + 1])
        model.learn(X[t : t + 1], y[t : t + 1, None])

    return each(one, FIRST if engine == "auto" else FEW, n)


def of_blocks(size, n=2048, block=256):
    from domkl.faces.online import OnlineRows

    X, y = bike()
    rows = OnlineRows(domkl.Auto(size=size), X.shape[1], dtype=np.float32).rows
    rows.rounds(X[None, :FIRST], y[None, :FIRST])
    start = time.process_time()
    for t in range(FIRST, FIRST + n, block):
        rows.rounds(X[None, t : t + block], y[None, t : t + block])
    return 1e6 * (time.process_time() - start) / n


def of_river(make, n):
    X, y = bike()
    names = [f"x{i}" for i in range(X.shape[1])]
    samples, model = [dict(zip(names, x, strict=True)) for x in X[: FIRST + n].tolist()], make()

    def one(t):
        model.predict_one(samples[t])
        model.learn_one(samples[t], y[t])

    return each(one, FIRST, n)


def of_run(rows=100_000):
    """Seconds of CPU time for a table through `domkl run`."""
    X, y = bike()
    with tempfile.TemporaryDirectory() as folder:
        table = pathlib.Path(folder) / "table.csv"
        again = -(-rows // len(X))
        values = np.hstack([np.tile(X, (again, 1)), np.tile(y, again)[:, None]])[:rows]
        names = [*(f"x{i}" for i in range(X.shape[1])), "y"]
        np.savetxt(table, values, delimiter=",", header=",".join(names), comments="", fmt="%.6g")
        command = [
            "-m",
            "domkl",
            "run",
            "--data",
            str(table),
            "--target",
            "y",
            "--out",
            str(pathlib.Path(folder) / "out"),
        ]
        before = os.times()
        subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)
        after = os.times()
        return after.children_user - before.children_user


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--before", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--common", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.common:
        print(json.dumps(common()))
        return
    from river import forest

    import domkl.river

    us = {
        **{f"native_{size}": of_online(size, "auto", 2000 if size < 1000 else 500) for size in SIZES},
        **{f"numpy_{size}": of_online(size, "numpy", 200 if size < 1000 else 40) for size in SIZES},
        **{f"block_{size}": of_blocks(size) for size in SIZES},
        **common(),
        "five_400_numpy": of_five(400, engine="numpy"),
        "arf": of_river(lambda: forest.ARFRegressor(n_models=10, seed=1), 300),
        "river_400": of_river(lambda: domkl.river.MultiKernelRegressor(domkl.Auto(size=400)), 2000),
    }
    ratios = {
        "ARF(10) / native, size 400": us["arf"] / us["native_400"],
        "NumPy / native, size 400": us["numpy_400"] / us["native_400"],
        "NumPy / native, size 1700": us["numpy_1700"] / us["native_1700"],
        "river face / native, size 400": us["river_400"] / us["face_400_float64"],
        "Python's share, size 400": 1 - us["block_400"] / us["native_400"],
        "one by one / blocks of 256, size 400": us["native_400"] / us["block_400"],
        "one by one / blocks of 256, size 1700": us["native_1700"] / us["block_1700"],
        "five learners, NumPy / native": us["five_400_numpy"] / us["five_400"],
    }
    if args.before:
        here = str(pathlib.Path(__file__).resolve())
        python = str(args.before.resolve() / ".venv" / "bin" / "python")
        done = subprocess.run([python, here, "--common"], check=True, capture_output=True, cwd=args.before)
        before = json.loads(done.stdout)
        for name, value in before.items():
            us[f"before_{name}"] = value
            ratios[f"before / now, {name}"] = value / us[name]
    found = {"microseconds": us, "ratios": ratios}
    print(json.dumps(found, indent=1), flush=True)
    found["run_100000_rows_seconds"] = of_run()
    print(found["run_100000_rows_seconds"])
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
