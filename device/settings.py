"""The settings of a device as settings.h, drawn as `domkl.Paper` draws them.

python settings.py --inputs 8 --degree 2 --features 50 --rates 1 1 1 > settings.h
"""

from __future__ import annotations

import argparse

import numpy as np

import domkl


def header(model: domkl.Paper, inputs: int, degree: int) -> str:
    """C source; sizes are those of DOMKL_KERNELS, DOMKL_FEATURES and DOMKL_INPUTS of the build."""
    V = model.draw(inputs).astype(np.float32)
    numbers = ", ".join(f"{float(v).hex()}f" for v in V.ravel())
    rates = ", ".join(f"{float(v).hex()}f" for v in (model.rates.rho, model.rates.eta, model.rates.eta_g))
    P, D, d = V.shape
    return f"""/* Made by settings.py. */
#if DOMKL_KERNELS != {P} || DOMKL_FEATURES != {D} || DOMKL_INPUTS != {d}
#error "compile with -DDOMKL_KERNELS={P} -DDOMKL_FEATURES={D} -DDOMKL_INPUTS={d}"
#endif
enum {{ DEGREE = {degree} }};
static const domkl_rates RATES = {{{rates}}};
static const float NUMBERS[{P} * {D} * {d}] = {{{numbers}}};
#define FREQUENCIES ((const float (*)[DOMKL_FEATURES][DOMKL_INPUTS])NUMBERS)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--inputs", type=int, required=True)
    parser.add_argument("--degree", type=int, default=1, help="neighbours of the device")
    parser.add_argument("--features", type=int, default=50, help="D")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rates", type=float, nargs=3, metavar=("RHO", "ETA", "ETA_G"), required=True)
    args = parser.parse_args()
    spec = domkl.KernelSpec(D=args.features, seed=args.seed)
    model = domkl.Paper(kernels=spec, rates=domkl.Rates(*args.rates))
    print(header(model, args.inputs, args.degree), end="")


if __name__ == "__main__":
    main()
