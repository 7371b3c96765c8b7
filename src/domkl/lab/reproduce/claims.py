"""Which of the paper's statements hold in our figures, and in its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from ...learning.metrics import exponent
from .tables import Figure
from .tasks import LENGTHS, Rows

#: Trials from which claims are judged: one draw of the kernels proves nothing.
LEAST = 2


class Claim(NamedTuple):
    """A statement of the paper, the number it stands on, and whether it holds (None: not known)."""

    statement: str
    measure: str
    bound: str
    ours: float | None
    holds: bool | None
    printed: float | None  # the same number from the paper's own figures


def judge(figures: list[Figure], rows: Rows) -> list[Claim]:
    """Every claim, from the tables' figures and the regrets' rows."""
    regression = [f for f in figures if "/" not in f.dataset]
    traffic = [f for f in figures if f.dataset.startswith("traffic")]
    claims = [
        _ratio_claim("DOMKL is 5 to 6 times as accurate as DOKL2", regression, "DOKL2", "DOMKL", at_least=5),
        _ratio_claim("on Traffic it is 15 to 20 times as accurate", traffic, "DOKL2", "DOMKL", at_least=15),
        _ratio_claim("DOMKL is near the best single kernel", figures, "DOMKL", "best kernel", at_most=1.25),
        _ratio_claim("DOMKL is comparable with the centralised OMKL", figures, "DOMKL", "OMKL", at_most=2),
        _violation_claim(figures),
        _regret_claim("learning regret grows like sqrt(T) or slower", rows, "regret_a"),
        _regret_claim("discrepancy regret grows like sqrt(T) or slower", rows, "regret_d"),
    ]
    enough = all(figure.trials >= LEAST for figure in figures)
    return claims if enough else [claim._replace(holds=None) for claim in claims]


def _ratio_claim(
    statement: str,
    figures: list[Figure],
    over: str,
    under: str,
    at_least: float = 0.0,
    at_most: float = np.inf,
) -> Claim:
    ours = _mean_ratio(figures, over, under, lambda f: f.value)
    theirs = _mean_ratio(figures, over, under, lambda f: f.printed)
    bound = f"at least {at_least:g}" if at_least else f"at most {at_most:g}"
    holds = None if ours is None else at_least <= ours <= at_most
    return Claim(statement, f"MSE of {over} / MSE of {under}, geometric mean", bound, ours, holds, theirs)


def _mean_ratio(
    figures: list[Figure], over: str, under: str, value: Callable[[Figure], float | None]
) -> float | None:
    """Geometric mean, over datasets, networks and learners, of one method's error over another's."""
    errors = {f[2:6]: value(f) for f in figures if f.metric == "mse"}
    ratios = []
    for (dataset, network, method, learner), top in errors.items():
        bottom = errors.get((dataset, network, under, None if under == "OMKL" else learner))
        if method == over and top and bottom:
            ratios.append(top / bottom)
    return _geometric_mean(ratios)


def _violation_claim(figures: list[Figure]) -> Claim:
    """Small: neighbours differ, in root mean square, by at most a tenth of the labels' range of 1."""
    cells = [f for f in figures if (f.metric, f.method) == ("cv", "DOMKL")]
    ours = _geometric_mean(f.value for f in cells)
    theirs = _geometric_mean(f.printed for f in cells if f.printed)
    holds = None if ours is None else ours <= 0.01
    measure = "CV of DOMKL, geometric mean"
    return Claim("the consensus violation of DOMKL is small", measure, "at most 0.01", ours, holds, theirs)


def _regret_claim(statement: str, rows: Rows, metric: str) -> Claim:
    """The exponent of the worst learner's regret over T; 0.5 is sqrt(T), 0.6 leaves room for noise."""
    worst = [_worst(rows, metric, T) for T in LENGTHS]
    known = [value for value in worst if value is not None]
    ours = exponent(LENGTHS, known) if len(known) == len(LENGTHS) and min(known) > 0 else None
    holds = None if ours is None else ours <= 0.6
    return Claim(statement, "exponent fitted over T = 250 .. 16000", "at most 0.6", ours, holds, None)


def _worst(rows: Rows, metric: str, T: int) -> float | None:
    at_T = (r["value"] for r in rows if (r["dataset"], r["metric"], r["network"]) == ("regret", metric, T))
    return max(at_T, default=None)


def _geometric_mean(values: Iterable[float]) -> float | None:
    logs = np.log(list(values))
    return float(np.exp(logs.mean())) if len(logs) else None
