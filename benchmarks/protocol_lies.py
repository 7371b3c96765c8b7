"""Neighbours that lie in what a message holds besides parameters: what honest devices lose.

    python benchmarks/protocol_lies.py                  what is not kept yet, three seeds
    python benchmarks/protocol_lies.py --jobs 2         on two cores
    python benchmarks/protocol_lies.py --column before  with an earlier version, beside the others

Five devices (`domkl.Learner`) on a ring or a complete graph, one of which learns as it should and sends true
parameters, but lies about statistics of first samples, in its own name or in everybody's; about the scale,
which it widens fifty times, or in which inputs seem constant, and calls fixed; it holds statistics back; or
lies about changes: alarms and restarts that nobody raised, false
errors of its memories, or both. 700 rounds of a made function, 200 parameters.

Kept are mean squared errors of the honest ones as a multiple of those in the same network where nobody lies:
in rounds 0 to 64, 64 to 300 and 300 to 700, and "alone", in all rounds, as a multiple of the same devices
without links.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

import domkl
from domkl.exchange.message import Update
from domkl.learner.scales import headed, name_number
from domkl.learning.auto import message as parts
from domkl.learning.auto.scale import scale_number

RESULTS = Path(__file__).parent / "results" / "protocol_lies.json"
J, ROUNDS, SIZE, SEEDS, LIAR = 5, 700, 200, 3, 0
SPANS = {"0-64": slice(0, 64), "64-300": slice(64, 300), "300-700": slice(300, 700)}
NETS = {
    "ring": [[(j - 1) % J, (j + 1) % J] for j in range(J)],
    "complete": [[i for i in range(J) if i != j] for j in range(J)],
    "alone": [[] for _ in range(J)],
}
#: Whose statistics they are that make a fixed scale, as messages say it.
FIXED = -2
#: What a liar sends in place of its update of a round.
Lie: TypeAlias = Callable[[domkl.Learner, Update, int], Update]


def streams(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """One function for all. (J, T, 3), (J, T)"""
    rng = np.random.default_rng([16, seed])
    X = rng.uniform(0, 10, (J, ROUNDS, 3))
    y = np.sin(X[..., 0]) + np.cos(0.7 * X[..., 1] + 0.3 * X[..., 2]) / 2 + 0.3 * np.abs(X[..., 2] - 5)
    return X, 20 + 5 * y + X[..., 0] * X[..., 1] / 10 + rng.normal(0, 0.5, y.shape)


def changed(learner: domkl.Learner, update: Update, **small: Any) -> Update:
    """The update with other values of some of its parts."""
    row: Any = learner._row
    values = row._unpacked(update) | {name: np.array(value, float) for name, value in small.items()}
    theta, scalars = row.layout.pack(values)
    return update._replace(theta=theta, scalars=scalars)


def statistics(learner: domkl.Learner) -> np.ndarray | None:
    """The liar's own statistics, a row for each kind; none once its samples are dropped."""
    warm: Any = learner._row.model.warm
    return parts.packed(warm.statistics()).reshape(-1, 4) if warm.samples else None


def false_statistics(names: range) -> Lie:
    """A thousand times too large, in these names."""

    def lie(learner: domkl.Learner, update: Update, t: int) -> Update:
        found = statistics(learner)
        if found is None:
            return update
        false = np.vstack([found[:1], 1000 * found[1:]]).ravel()
        rounds = range(t + 1, t + 2 + learner._row.model.diameter)
        return update._replace(
            more=np.concatenate([headed(r, name_number(n), 1, false, 4) for r in rounds for n in names])
        )

    return lie


def wide_scale(since: int) -> Lie:
    """A scale fifty times too wide, which claims to be fixed and of as many learners as there can be."""
    made: list[np.ndarray] = []

    def lie(learner: domkl.Learner, update: Update, t: int) -> Update:
        found = statistics(learner)
        if t < since or (found is None and not made):
            return update
        if not made:
            assert found is not None
            centre = found[1]
            widened = np.vstack([found[:2], 50 * found[2:3], centre + 50 * (found[3:] - centre)])
            steps = np.linspace(0, 1, 17)
            fine = [np.interp(steps, np.linspace(0, 1, len(widened) - 5), v) for v in widened[5:].T]
            made.append(np.vstack([widened[:5], np.stack(fine, 1)]).ravel())
        rank = parts.FIXED_RANK + parts.MOST_COUNT
        update = changed(learner, update, scale=[scale_number(made[0])], rank=[rank])
        return update._replace(more=headed(t, FIXED, parts.MOST_COUNT, made[0], 4))

    return lie


def no_deviations(since: int) -> Lie:
    """Its own scale, but all inputs seem constant; it claims to be fixed and of as many as there can be."""

    def lie(learner: domkl.Learner, update: Update, t: int) -> Update:
        scale: Any = learner._row.model.scale
        if t < since or scale is None or not len(scale.whole):
            return update
        false = scale.whole.reshape(-1, 4).copy()
        false[2, :-1] = 0.0
        rank = parts.FIXED_RANK + parts.MOST_COUNT
        update = changed(learner, update, scale=[scale_number(false.ravel())], rank=[rank])
        return update._replace(more=headed(t, FIXED, parts.MOST_COUNT, false.ravel(), 4))

    return lie


def held_back(learner: domkl.Learner, update: Update, t: int) -> Update:
    """No statistics, neither its own nor any that it should pass on."""
    return update._replace(more=None)


def decisions(alarms: bool, errors: bool, since: int) -> Lie:
    """Alarms and restarts that nobody raised, and errors by which the memories seem outdated."""

    def lie(learner: domkl.Learner, update: Update, t: int) -> Update:
        if t < since:
            return update
        if alarms and t % 31 == 0:
            return changed(learner, update, alarm=[[t + 1, -1e9]])
        small: dict[str, Any] = {"restart": [[t + 1, -2]]} if alarms else {}
        small |= {"errors": [[10, 10, 10, 0, 0]], "votes": [1.0]} if errors else {}
        return changed(learner, update, **small)

    return lie


LIES: dict[str, Callable[[], Lie]] = {
    "own statistics x 1000": lambda: false_statistics(range(1)),
    "everybody's statistics x 1000": lambda: false_statistics(range(J)),
    "scale 50 times too wide, from round 3": lambda: wide_scale(3),
    "scale 50 times too wide, from round 200": lambda: wide_scale(200),
    "scale without deviations, from round 40": lambda: no_deviations(40),
    "statistics held back": lambda: held_back,
    "alarms and restarts, from round 150": lambda: decisions(alarms=True, errors=False, since=150),
    "false errors, from round 150": lambda: decisions(alarms=False, errors=True, since=150),
    "both, from round 150": lambda: decisions(alarms=True, errors=True, since=150),
    "both, from round 560": lambda: decisions(alarms=True, errors=True, since=560),
}


def squares(net: str, lie: Lie | None, seed: int) -> np.ndarray:
    """Squared errors of the honest devices. (J - 1, T)"""
    X, y = streams(seed)
    model = domkl.Auto(size=SIZE, start=20.0)
    members = [domkl.Learner(model, near, name=j, inputs=3) for j, near in enumerate(NETS[net])]
    domkl.introduce(members)
    y_hat = np.zeros((J, ROUNDS))
    for t in range(ROUNDS):
        updates = [one.observe(X[j, t], y[j, t]) for j, one in enumerate(members)]
        y_hat[:, t] = [one.step.y_hat for one in members]
        if lie is not None:
            updates[LIAR] = lie(members[LIAR], updates[LIAR], t)
        for j, one in enumerate(members):
            for i in NETS[net][j]:
                one.receive(i, updates[i])
    return np.delete((y_hat - y) ** 2, LIAR, 0)


def measured(net: str, seed: int) -> dict[str, dict[str, float]]:
    """Every lie in one network."""
    honest, alone = squares(net, None, seed), squares("alone", None, seed)
    found = {name: squares(net, make(), seed) for name, make in LIES.items()}
    return {
        f"{net} {name} seed {seed}": {
            **{span: float(f"{e[:, at].mean() / honest[:, at].mean():.4g}") for span, at in SPANS.items()},
            "alone": float(f"{e.mean() / alone.mean():.4g}"),
        }
        for name, e in found.items()
    }


def cases(seeds: int) -> Iterator[tuple[str, int]]:
    for seed in range(seeds):
        for net in ("ring", "complete"):
            yield net, seed


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--again", action="store_true", help="measure what is kept, too")
    parser.add_argument("--column", default="now", help="where to keep the figures")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="of the streams")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    args = parser.parse_args()
    kept: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}

    def is_kept(net: str, seed: int) -> bool:
        return all(args.column in kept.get(f"{net} {name} seed {seed}", {}) for name in LIES)

    todo = [case for case in cases(args.seeds) if args.again or not is_kept(*case)]
    with ProcessPoolExecutor(args.jobs) as pool:
        for future in as_completed([pool.submit(measured, *case) for case in todo]):
            for name, row in future.result().items():
                kept.setdefault(name, {})[args.column] = row
                print(name, args.column, row, flush=True)
            RESULTS.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
