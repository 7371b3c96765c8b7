"""How fast, as ratios measured in this one run: NumPy engine against literal twin, imports against numpy.

    python benchmarks/speed.py [--json FILE]

The twin is `tests/naive.py`: Algorithm 2 learner by learner, kernel by kernel, edge by edge, with a
matrix solve each. J = 5, P = 17, D = 50 on the complete graph; d = 21 is Weather, d = 81 Conductivity.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import subprocess
import sys
import time

import numpy as np

import domkl
from domkl.cli.bench import machine

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests"))
import naive

J, P, D = 5, 17, 50


def fastest(call, repeats=5):
    """Seconds of the best of some calls: what the machine can do when left alone."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def against_the_twin(d):
    """Microseconds for one learner and step, all kernels, with MSE and CV: simulator and twin."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(J, 200, d)), rng.uniform(size=(J, 200))
    V, rates = domkl.kernels.gaussian(d, D), domkl.Rates.paper(200)
    near = domkl.graph.named("complete", J).neighbours
    model = domkl.Paper(kernels=V, rates=rates)
    fast = fastest(lambda: domkl.simulate(X, y, "complete", model=model, engine="numpy")) / (J * 200)
    slow = fastest(lambda: naive.domkl(X[:, :4], y[:, :4], near, V, rates.rho, rates.eta, rates.eta_g))
    slow /= J * 4
    return {"d": d, "simulate_us": 1e6 * fast, "twin_us": 1e6 * slow, "ratio": slow / fast}


FIRST = """
import domkl, numpy
model = domkl.Paper(rates=domkl.Rates(1, 1, 1))
learner = domkl.Learner(model, [], inputs=21)
learner.predict(numpy.zeros(21))
"""


def import_seconds(code):
    return fastest(lambda: subprocess.run([sys.executable, "-c", code], check=True), repeats=15)


def imports():
    """Seconds that importing domkl, and then touching its main names, adds to importing numpy."""
    numpy_alone = import_seconds("import numpy")
    touched = "import domkl; domkl.simulate; domkl.Learner"
    return {
        "numpy_s": numpy_alone,
        "domkl_adds_s": import_seconds("import numpy, domkl") - numpy_alone,
        "simulate_and_learner_add_s": import_seconds(touched) - numpy_alone,
        "first_prediction_adds_s": import_seconds(FIRST) - numpy_alone,
    }


def main():
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--json", metavar="FILE", help="also write the figures to FILE")
    args = options.parse_args()
    result = {
        "machine": machine(),
        "twin": [against_the_twin(d) for d in (21, 81)],
        "imports": imports(),
    }
    print("NumPy engine, one learner and step, 17 kernels of D = 50, complete graph of 5")
    for row in result["twin"]:
        print(
            f"  d = {row['d']}: simulate {row['simulate_us']:6.1f} us, "
            f"literal twin {row['twin_us']:7.1f} us, ratio {row['ratio']:.0f}"
        )
    adds = result["imports"]
    print(f"import numpy {adds['numpy_s']:.3f} s; domkl adds {adds['domkl_adds_s']:.3f} s,", end=" ")
    print(f"with simulate and Learner loaded {adds['simulate_and_learner_add_s']:.3f} s,", end=" ")
    print(f"up to a first prediction {adds['first_prediction_adds_s']:.3f} s")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
