"""W2: one device and one sample at a time, called from Python: predict, then learn; against peers."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from ...base.types import Array, Float
from ...learner import Learner
from ...learning import kernels
from ...learning.first_order import Rates
from ...learning.settings import Paper
from . import peers, timing, w1
from .limits import Limits, LimitShape
from .peers import Act
from .timing import Report, Trial

OURS = "domkl Learner, 17 kernels"
SHAPE = LimitShape(J=1, P=17, D=50, d=21, deg=0)


class W2Size(NamedTuple):
    samples: int  # of the stream
    seconds: float  # that a contender's turn lasts
    rounds: int


FULL = W2Size(samples=20_000, seconds=0.15, rounds=8)
QUICK = W2Size(samples=200, seconds=0.005, rounds=2)


def measure(quick: bool, report: Report, limit: Limits | None = None) -> dict[str, Any]:
    """Everyone's CPU time of one sample, predicted and then learnt.

    Contenders take turns; each goes on along the stream where its turn before ended. The best turn counts,
    which for those that grow slower as they learn (trees, neighbours) is an early one.
    """
    size = QUICK if quick else FULL
    X, y = (part[0] for part in w1.stream(1, size.samples, SHAPE.d))
    acts = {OURS: ours(X, y), f"{OURS}, float32": ours(X, y, np.float32)} | {
        peer.name: peer.make(X, y) for peer in peers.present()
    }
    turns = {name: _turn(act, size) for name, act in acts.items()}
    least = timing.best(turns, size.rounds, report)
    rows = [{"name": name, "us": 1e6 * s, "times_ours": s / least[OURS]} for name, s in least.items()]
    rows[0].update(w1.against(limit, SHAPE, least[OURS]))
    return {"setting": SHAPE._asdict(), "rows": rows, "missing": peers.missing()}


def ours(X: Array, y: Array, dtype: Float = np.float64) -> Act:
    """Our learner as a single device, without neighbours."""
    model = Paper(kernels=kernels.gaussian(SHAPE.d, SHAPE.D), rates=Rates.paper(len(y)))
    learner = Learner(model, name="device", dtype=dtype)
    samples, labels = list(np.ascontiguousarray(X)), [float(label) for label in y]

    def act(i: int) -> Any:
        y_hat = learner.predict(samples[i])
        learner.observe(samples[i], labels[i])
        return y_hat

    return act


def _turn(act: Act, size: W2Size) -> Trial:
    """CPU seconds for a sample, over as many samples as a turn's time allows."""
    at = 0

    def trial() -> float:
        nonlocal at
        count, start = 0, time.process_time()
        until = start + size.seconds
        while True:
            for _ in range(batch):
                act(at % size.samples)
                at += 1
            count += batch
            now = time.process_time()
            if now >= until:
                return (now - start) / count

    first = time.process_time()
    act(at)
    # Between two looks at the clock, so many samples that looking costs nothing.
    batch = max(1, min(100, int(size.seconds / 4 / max(time.process_time() - first, 1e-6))))
    return trial
