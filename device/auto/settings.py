"""The settings of a device as settings.h: sizes, constants and frequencies, as `domkl.Auto` has them.

python settings.py --size 96 --inputs 4 --name 0 --neighbours 1 2 > settings.h
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import domkl
from domkl.exchange.message import most_parameter
from domkl.learner import learner
from domkl.learning.auto.consensus import Consensus
from domkl.learning.auto.echo import Echo
from domkl.learning.auto.features import Features
from domkl.learning.auto.guard import Guard
from domkl.learning.auto.mixer import Mixer
from domkl.learning.auto.model import AutoRows
from domkl.learning.auto.recent import Recent
from domkl.learning.auto.scale import EXACT, FARTHEST, Scale
from domkl.learning.auto.trust import Trust
from domkl.learning.fields import LARGEST

CONCEPTS = (Consensus, Echo, Guard, Mixer, Recent, Scale, Trust)


def constants() -> Iterator[str]:
    """What somebody chose in each concept."""
    for kind in CONCEPTS:
        for name, value in vars(kind).items():
            if isinstance(value, int | float):
                yield f"#define {kind.__name__.upper()}_{name.upper()} {value!r}"
    noise = next(field for field in Recent.FIELDS if field.name == "noise")
    yield f"#define RECENT_NOISE {noise.first!r}"
    for name, spread in zip(("RANGES", "RANKS"), Features.spread, strict=True):
        yield f"#define FEATURES_SPREAD_{name} {spread!r}"


def initializer(values: Any) -> str:
    """An array in C; the bits of each number."""
    inner = (initializer(value) if np.ndim(value) else f"{float(value).hex()}f" for value in values)
    return "{" + ", ".join(inner) + "}"


def header(model: domkl.Auto, inputs: int, name: int, neighbours: Sequence[int], devices: int) -> str:
    """C source. Devices are called 0, 1 .. on the line, `devices` of them in the whole network."""
    if (model.loss, model.forgetting, model.outliers, model.bounds) != ("squared", "auto", "bound", None):
        raise ValueError(f"model is {model}; expected size, seed and start alone; leave the rest out")
    features = Features(inputs, model.size, model.seed, np.float32)
    recent = Recent(1, inputs, 1, model.size)
    sizes = {
        "INPUTS": inputs,
        "K": features.K,
        "D": features.D,
        "LINEAR": features.linear,
        "RECENT_DEGREE": recent.degree,
        "RECENT_SINGLE": recent.single,
        "NAME": name,
        "NEIGHBOURS": len(neighbours),
        "MOST_NEIGHBOURS": max(1, len(neighbours)),
        "DEVICES": devices,
        "REWEIGHED": learner.REWEIGHED,
        "MOST_DEGREE": learner.MOST_DEGREE,
    }
    lines = [
        "/* Made by settings.py. */",
        "#ifndef DOMKL_SETTINGS_H",
        "#define DOMKL_SETTINGS_H",
        *(f"enum {{ {key} = {value} }};" for key, value in sizes.items()),
        f"#define START {model.start!r}",
        f"#define LARGEST {LARGEST!r}",
        f"#define FARTHEST {FARTHEST!r}",
        f"#define MOST_NUMBER {float(EXACT)!r}",
        f"#define MOST_THETA {most_parameter(np.float32, AutoRows.largest)!r}",
        f"#define NEIGHBOUR_NAMES {{{', '.join(map(str, neighbours)) or '0'}}}",
        *constants(),
        f"#define FREQUENCIES {initializer(features.V)}",
        "#endif",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--size", type=int, default=96)
    parser.add_argument("--inputs", type=int, required=True)
    parser.add_argument("--name", type=int, default=0, help="of this device, as the line has it")
    parser.add_argument("--neighbours", type=int, nargs="*", default=[], help="their names")
    parser.add_argument("--devices", type=int, default=8, help="of the whole network, at most")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    model = domkl.Auto(size=args.size, seed=args.seed)
    print(header(model, args.inputs, args.name, args.neighbours, args.devices), end="")


if __name__ == "__main__":
    main()
