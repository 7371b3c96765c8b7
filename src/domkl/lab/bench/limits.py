"""What the machine can do at most, measured, and what that means for a learner's step.

One learner, one step and one kernel need, whatever the program:

    D d           multiplications with addition, at the measured peak,
    D             pairs of sin and cos, by the engine's own polynomials, from L1 to L1,
    (8 + 2 deg) 2D  vector operations on values in L1: eight of the update, two for each neighbour,

one after the other. Where the state is larger than the last cache, its bytes must also come from memory
and go back; the larger of the two bounds counts.
"""

from __future__ import annotations

from typing import NamedTuple

from . import machine
from .timing import Trial

LOOPS = ("fma", "sincos", "vector", "stored", "triad")


class LimitShape(NamedTuple):
    """What the cost of a step depends on."""

    J: int
    P: int
    D: int
    d: int
    deg: float
    scattered: bool = False  # whether neighbours lie anywhere in memory, as in a random graph

    @property
    def operations(self) -> tuple[int, int, float]:
        """FMAs, pairs of sin and cos, and vector operations of one learner, step and kernel."""
        return self.D * self.d, self.D, (8 + 2 * self.deg) * 2 * self.D


class Limits(NamedTuple):
    """Work per second of all threads together."""

    bits: int
    threads: int
    fma: float
    sincos: float  # pairs
    vector: float  # elements: a sum and a product of each number that is loaded
    stored: float  # elements: load, load, FMA, store
    triad: float  # bytes

    def document(self) -> dict[str, float]:
        """As people quote them."""
        return {
            "bits": self.bits,
            "threads": self.threads,
            "fma_per_ns": self.fma / 1e9,
            "sincos_ns": 1e9 / self.sincos,
            "vector_ns": 1e9 / self.vector,
            "stored_ns": 1e9 / self.stored,
            "memory_GB_per_s": self.triad / 1e9,
        }


class Bound(NamedTuple):
    """The least nanoseconds of one learner, step and kernel, and what they are bound by."""

    ns: float
    by: str
    parts: dict[str, float]  # ns


def bound(limits: Limits, shape: LimitShape, last_cache: int | None = None) -> Bound:
    """The limit for a shape, by the model above.

    >>> from domkl.lab.bench.limits import Limits, LimitShape, bound
    >>> peak = Limits(64, 1, fma=44e9, sincos=1.33e9, vector=44e9, stored=22e9, triad=20e9)
    >>> limit = bound(peak, LimitShape(5, 17, 50, 81, 4), last_cache=32 << 20)
    >>> round(limit.ns), limit.by
    (166, 'compute')
    """
    fmas, pairs, operations = shape.operations
    parts = {
        "fma": 1e9 * fmas / limits.fma,
        "sincos": 1e9 * pairs / limits.sincos,
        "vector": 1e9 * operations / limits.vector,
    }
    compute = sum(parts.values())
    parts["memory"] = 1e9 * memory_bytes(shape, limits, last_cache) / limits.triad
    by = "memory" if parts["memory"] > compute else "compute"
    return Bound(max(compute, parts["memory"]), by, parts)


def memory_bytes(shape: LimitShape, limits: Limits, last_cache: int | None = None) -> float:
    """Bytes that one learner, step and kernel move between memory and the last cache.

    Of the state: theta and mu are read, the new ones written; of the data, x is read. In a scattered graph
    neighbours' rows come from memory as well, but for the part of theta that the cache holds.
    """
    cache = machine.last_cache() if last_cache is None else last_cache
    size = limits.bits // 8
    row = 2 * shape.D * size
    theta = shape.J * row * limits.threads  # each thread is at a kernel of its own
    if 3 * theta <= cache:
        return 0.0
    absent = shape.deg * max(0.0, 1 - cache / theta) if shape.scattered else 0.0
    return (4 + absent) * row + shape.d * size


def trials(isa: str, bits: int, threads: int, seconds: float, megabytes: int) -> dict[str, Trial]:
    """One trial for each loop, whose least seconds for a unit of work make `Limits`."""
    from ...engines._native import _engine

    def trial(loop: str) -> Trial:
        return lambda: (
            1
            / _engine.limit(
                loop, isa, single=bits == 32, seconds=seconds, threads=threads, bytes=megabytes << 20
            )
        )

    return {_name(loop, bits, threads): trial(loop) for loop in LOOPS}


def of(least: dict[str, float], bits: int, threads: int) -> Limits:
    """`Limits` from what `timing.best` has found for `trials`."""
    return Limits(bits, threads, **{loop: 1 / least[_name(loop, bits, threads)] for loop in LOOPS})


def _name(loop: str, bits: int, threads: int) -> str:
    """Memory does not care what its bytes mean: one trial serves both precisions."""
    return f"{loop}, {threads} threads" if loop == "triad" else f"{loop}, float{bits}, {threads} threads"
