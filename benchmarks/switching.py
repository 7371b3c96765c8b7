"""What something costs that can be turned on and off while the same process goes on.

Runs of their own differ by far more than a few per cent: another place in memory, another moment of a busy
machine. Here one process goes through short blocks, off, on, on, off, ..., so that what changes slowly falls
on both alike. Two neighbouring blocks make a pair; the cost is the median over pairs, with a 95 % interval of
that median (bootstrap over pairs), by processor time of the whole process and by the clock on the wall.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

#: Of the bootstrap.
RESAMPLES = 4000
ORDER = (False, True, True, False)


class Block(NamedTuple):
    """What happened between two switches."""

    is_on: bool
    rounds: int
    cpu: float  # seconds of all threads
    main: float  # of the thread that learns
    wall: float


class Switch:
    """Call `tick` after each round, from the thread that learns; `is_on` says what the next one does.

    A block has the same number of rounds always: some rounds take longer, and each block has to have as many.
    """

    def __init__(self, seconds: float, block: int) -> None:
        self.blocks: list[Block] = []
        self._seconds, self._block = seconds, block
        self.start()

    def start(self) -> None:
        """Forget what was, and begin."""
        self.blocks.clear()
        self._begun = time.perf_counter()
        self._open()

    def _open(self) -> None:
        self.is_on, self._rounds = ORDER[len(self.blocks) % len(ORDER)], 0
        self._before = self._clocks()

    @staticmethod
    def _clocks() -> tuple[float, float, float]:
        return time.process_time(), time.thread_time(), time.perf_counter()

    def tick(self, rounds: int = 1) -> None:
        """So many rounds are done."""
        self._rounds += rounds
        if self._rounds >= self._block:
            passed = (now - before for now, before in zip(self._clocks(), self._before, strict=True))
            self.blocks.append(Block(self.is_on, self._rounds, *passed))
            self._open()

    @property
    def is_over(self) -> bool:
        """Whether there are enough blocks, as many on as off."""
        has_pairs = bool(self.blocks) and len(self.blocks) % len(ORDER) == 0
        return has_pairs and time.perf_counter() - self._begun > self._seconds

    def result(self, inside: float) -> dict[str, Any]:
        """Costs as parts of the rate of rounds.

        `direct` is what can be seen without a comparison: seconds that the learning thread spent `inside`
        it, and all that other threads used, of the processor time of a usual block; `core` is the same of the
        time on the wall.
        """
        on = [block for block in self.blocks if block.is_on]
        usual = len(on) * float(np.median([block.cpu for block in on]))
        others = sum(block.cpu - block.main for block in self.blocks)
        found: dict[str, Any] = {
            "rounds_per_second": sum(block.rounds for block in on) / sum(block.wall for block in on),
            "inside": inside / usual,
            "direct": (inside + others) / usual,
            "core": (inside + others) / sum(block.wall for block in on),
            "pairs": len(self.blocks) // 2,
        }
        for name in ("cpu", "wall"):
            middle, low, high = interval(self.costs(name))
            found |= {name: middle, f"{name}_low": low, f"{name}_high": high}
        return found

    def costs(self, clock: str) -> np.ndarray:
        """The part of the rate that is lost, of each pair of neighbours."""
        rates = [block.rounds / getattr(block, clock) for block in self.blocks]
        pairs = zip(self.blocks[::2], rates[::2], rates[1::2], strict=True)
        return np.array([1 - a / b if first.is_on else 1 - b / a for first, a, b in pairs])


def interval(values: np.ndarray) -> tuple[float, float, float]:
    """The median, and where 95 % of the medians of resamples are."""
    rng = np.random.default_rng(0)
    medians = np.median(rng.choice(values, (RESAMPLES, len(values))), axis=1)
    low, high = np.quantile(medians, [0.025, 0.975])
    return float(np.median(values)), float(low), float(high)
