"""Taking times so that noise hits all alike: contenders take turns, and each keeps its best."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

#: Does some work and returns how many seconds it took, for one unit of it.
Trial: TypeAlias = Callable[[], float]
#: Called with what is measured now.
Report: TypeAlias = Callable[[str], object]


def timed(call: Callable[[], object], units: float = 1.0) -> Trial:
    """A trial that measures the wall-clock time of a call, for one of `units`."""

    def trial() -> float:
        start = time.perf_counter()
        call()
        return (time.perf_counter() - start) / units

    return trial


def best(trials: Mapping[str, Trial], rounds: int, report: Report = lambda _: None) -> dict[str, float]:
    """Every trial once a round, in turn; the least seconds of each.

    >>> from domkl.lab.bench import timing
    >>> seconds = iter([3.0, 1.0, 2.0])
    >>> timing.best({"a": lambda: next(seconds)}, rounds=3)
    {'a': 1.0}
    """
    least = dict.fromkeys(trials, float("inf"))
    for number, (name, trial) in _turns(trials.items(), rounds):
        report(f"round {number + 1} of {rounds}: {name}")
        least[name] = min(least[name], trial())
    return least


def _turns(items: Iterable[tuple[str, Trial]], rounds: int) -> Iterator[tuple[int, tuple[str, Trial]]]:
    fixed = list(items)
    for number in range(rounds):
        for item in fixed:
            yield number, item
