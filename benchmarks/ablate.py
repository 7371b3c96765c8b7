"""What each part of `Auto` is worth: the error without it over the error with it.

    python benchmarks/ablate.py                             all parts on the streams of judge.py, three seeds
    python benchmarks/ablate.py --only "trust;echo" --seeds 0 --streams weather
    python benchmarks/ablate.py --only "trust;trimmed" --harms

Parts are removed by patches of the classes, made here; the learner itself has no switches. Size 400, float32,
the network only. Harms are attacks of lies.py, from their first round on, and wrong labels of outliers.py:
five on a ring, size 200, stream "made"; and some of faults.py.

Kept in results/ablate.json: column -> part -> stream -> seed -> error without it over the error with it
(above 1 the part helps), and under "whole" the error with everything. What is there is not run again: name
another --column for that.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import lies
import numpy as np
import outliers
from judge import case, names, score

import domkl
import faults
from domkl.learning.auto import model
from domkl.learning.auto.echo import Echo
from domkl.learning.auto.features import Features
from domkl.learning.auto.guard import Guard
from domkl.learning.auto.mixer import Mixer
from domkl.learning.auto.model import AutoRows
from domkl.learning.auto.recent import Recent
from domkl.learning.auto.scale import Scale
from domkl.learning.auto.trust import Trust

RESULTS = Path(__file__).parent / "results" / "ablate.json"
SIZE = 400
#: Each member of a class and what stands in its place.
Patches = list[tuple[type, str, Any]]


def without_experts(*gone: str) -> Patches:
    """The mixers give them no weight, and measure the others without them."""
    begin, favour = AutoRows._begin_weights, Mixer.favour

    def places(mixer: Mixer) -> list[int]:
        names = model.EXPERTS if mixer.log.shape[-1] == len(model.EXPERTS) else model.APART
        return [names.index(name) for name in gone if name in names]

    def new_begin(self: AutoRows, j: int, first: int = 0) -> None:
        begin(self, j, first)
        for mixer in (self.mixture.mixer, self.apart.mixer):
            mixer.log[j, first:, places(mixer)] = -np.inf

    def new_favour(self: Mixer, row: int, expert: int, first: int = 0, **more: float) -> None:
        if expert not in places(self):
            favour(self, row, expert, first, **more)
            self.log[row, first:, places(self)] = -np.inf

    return [(AutoRows, "_begin_weights", new_begin), (Mixer, "favour", new_favour)]


def without_map(removed: int) -> Patches:
    """Frequencies of one map (0: ranges, 1: ranks) see the inputs through the other."""
    draw = Features._draw

    def new_draw(self: Features, *args: Any) -> Any:
        V = draw(self, *args).reshape(self.D, 2, self.d)
        for r in np.flatnonzero(V[:, removed].any(-1)):
            V[r, 1 - removed], V[r, removed] = V[r, removed].copy(), 0
        return V.reshape(self.D, -1)

    return [(Features, "_draw", new_draw)]


def always(cls: type, name: str, value: Any) -> Patches:
    """An attribute that keeps a value, whatever is assigned to it."""
    return [(cls, name, property(lambda self: value, lambda self, _: None))]


def scales_only_at(*when: int) -> Patches:
    publish = Scale.publish

    def new_publish(self: Scale, counts: Any, X: Any, Y: Any) -> None:
        publish(self, np.where(np.isin(counts, when), counts, 3), X, Y)  # nothing is published after 3

    return [(Scale, "publish", new_publish)]


def replay(most: int) -> Patches:
    """A device with a new scale learns at most so many of its last samples again."""
    where, rebuild = AutoRows._rebuild_where, AutoRows._rebuild

    def new_where(self: AutoRows, begins: Any) -> None:
        self.begins = begins
        where(self, begins)

    def new_rebuild(self: AutoRows, j: int, n: int) -> None:
        rebuild(self, j, n if self.begins[j] else min(n, most))

    return [(AutoRows, "_rebuild_where", new_where), (AutoRows, "_rebuild", new_rebuild)]


def no_recheck(self: Guard, row: int, y: Any) -> Any:
    self.least[row], self.most[row] = y.min(0), y.max(0)
    return y


def first_sample(self: Scale, row: int, own: Any, made: Any) -> Any:
    """As `Scale._joint`, with all that are known from the first sample on."""
    return joint(self, row, own and own._replace(samples=max(own.samples, 2)), made)


def all_by_size(self: Scale, row: int, one: Any) -> Any:
    """As `Scale._rank`, whether a summary suits the own samples or not."""
    return one.samples, True, one.key()


joint = Scale._joint
NO_ALARM: Patches = always(Recent, "alarm", 1e300)
NO_GIVING_UP: Patches = always(Recent, "better", 0.0)
#: What is removed, in the words of the table, and how.
REMOVALS: dict[str, Callable[[], Patches]] = {
    "trust": lambda: always(Trust, "most", 1e300),
    **{name: lambda name=name: without_experts(name) for name in model.EXPERTS},
    "correlation": lambda: always(Echo, "most", 0.0),
    "alarm": lambda: NO_ALARM,
    "giving up": lambda: NO_GIVING_UP,
    "variances": lambda: always(Recent, "weak", 1e12),
    "ranges": lambda: without_map(0),
    "ranks": lambda: without_map(1),
    "linear": lambda: always(Features, "linear", 0),
    "label guard": lambda: [
        *always(Guard, "near", 1e300),
        (Guard, "recheck", no_recheck),
    ],
    "spread": lambda: always(Scale, "spread", 0),
    "first sample": lambda: [(Scale, "_joint", first_sample)],
    "rank": lambda: [(Scale, "_rank", all_by_size)],
    "first weights": lambda: [(AutoRows, "_begin_weights", lambda self, j, first=0: None)],
    "told again": lambda: [(Scale, "compare", lambda self, heard, unlike: None)],
    "recheck": lambda: [(Guard, "recheck", no_recheck)],
    "leave-one-out": lambda: [(Trust, "renew", lambda self, row, Z, y, own: self.reset(row))],
    "forgotten errors": lambda: [(AutoRows, "_forget_errors", lambda self, j: None)],
    "favour": lambda: [(Mixer, "favour", lambda self, row, expert, first=0, part=0.5: None)],
    "early scales": lambda: scales_only_at(64, 512),
    "half of the early scales": lambda: scales_only_at(1, 8, 64, 512),
    "replay": lambda: replay(64),
    "trimmed": lambda: always(Scale, "trim", 10**9),
    "suits": lambda: [(Scale, "_suits", lambda self, table, own: True)],
    "recent, alarm, giving up": lambda: without_experts("recent") + NO_ALARM + NO_GIVING_UP,
}


@contextmanager
def patched(patches: Patches) -> Iterator[None]:
    """The learner with other members in its classes."""
    with ExitStack() as stack:
        for cls, name, value in patches:
            stack.enter_context(patch.object(cls, name, value, create=True))
        lies.honest.cache_clear()
        yield


ATTACKS = (
    *("sign flipped", "noise", "alternating", "copy with a bias", "slow scaling", "now and then"),
    *("hidden from the last 32", "early: sign flipped", "early: hidden from the last 32", "labels flipped"),
    *("own summary x 4", "own summary x 1000", "own summary shifted", "own summary narrow"),
    *("20 ghosts x 100", "others' summaries x 100", "ever newer summaries"),
)
#: Wrong labels: when and by how many ranges, or which 5 % of them, or the other unit.
LABELS = (*("0 100", "3 100", "8 100", "60 1e+06"), *outliers.MANY, *outliers.UNITS)
#: Faults of faults.py, on six devices of stream "a0".
FAULTS = {"20 % of messages lost": "loss", "outage of 40 rounds": "outage all 10", "a device joins": "join"}
#: What a part may defend against long after: of this attack the rounds from 200 after it on.
AFTER = ("after others' summaries x 100", "after labels flipped")
HARMS = (*ATTACKS, *AFTER, *FAULTS, *(f"labels {what}" for what in LABELS))


def harmed(name: str, seed: int) -> float:
    """The error where somebody lies, of the honest ones, where messages are lost, or where labels are wrong,
    against true ones."""
    if name in FAULTS:
        stream = faults.case("a0", seed)
        fault = faults.faults(len(stream.y), seed)[FAULTS[name]]
        return float(np.nanmean(faults.run(stream, seed, fault, {})["errors"][:, max(fault.begins, 1) :]))
    if name in (*ATTACKS, *AFTER):
        attack = lies.Case("ring", "made", name.removeprefix("after "), seed)
        first = attack.span[1] + lies.RECOVERY if name in AFTER else max(attack.span[0], 1)
        return float(lies.attacked(attack)[:, first : attack.last].mean())
    case, what = outliers.Case("made", seed), name.removeprefix("labels ")
    labels = {**case.one([int(what.split()[0])] if what in LABELS[:4] else []), **case.many(), **case.unit()}
    true = labels[what] if what in outliers.UNITS else case.y
    squares = case.errors([labels[what]], [true])[0][:, 1:]
    if what in outliers.UNITS:  # in the first unit, from the change on
        squares = squares[:, outliers.ROUNDS // 2 :]
        squares[0] /= outliers.UNITS[what][1] ** 2
    return float(squares.mean())


def error(name: str, seed: int) -> float:
    """Of the network on one stream, as `judge.measure` has it."""
    if name in HARMS:
        return harmed(name, seed)
    c = case(name)
    settings = domkl.Auto(size=SIZE, seed=seed, start=float(c.y[:, 0].mean()))
    A = c.A if c.A.any() else "path"
    run = domkl.simulate(c.X, c.y, A, model=settings, delay=c.delay, dtype=np.float32)
    return score(run.y_hat.reshape(c.y.shape), c.y)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--only", default=";".join(REMOVALS))
    options.add_argument("--seeds", default="0,1,2")
    options.add_argument("--streams", default="")
    options.add_argument("--column", default="now")
    options.add_argument("--harms", action="store_true", help="lies and wrong labels, not streams")
    args = options.parse_args()
    chosen = args.streams.split(",") if args.streams else HARMS if args.harms else names()
    for seed in args.seeds.split(","):
        for name in chosen:
            for what in args.only.split(";"):
                measure(args.column, what, name, seed)


def measure(column: str, what: str, name: str, seed: str) -> None:
    """One ratio, unless it is there."""
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    parts = kept.setdefault(column, {})
    rows, known = (parts.setdefault(part, {}).setdefault(name, {}) for part in (what, "whole"))
    if seed in rows:
        return
    began = time.process_time()
    with patched([]):
        whole = known[seed] if seed in known else error(name, int(seed))
    with patched(REMOVALS[what]()):
        without = error(name, int(seed))
    known[seed], rows[seed] = whole, round(without / whole, 5)
    RESULTS.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
    print(what, name, seed, rows[seed], f"{time.process_time() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main()
