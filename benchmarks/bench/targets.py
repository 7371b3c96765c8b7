"""Performance targets of the project, beside what a run has measured."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

Target: TypeAlias = "dict[str, Any]"


def judge(document: dict[str, Any]) -> list[Target]:
    """Every target that this run has figures for."""
    parts = {"w1": _w1, "w2": _w2, "w3": _w3, "w4": _w4}
    return [target for name, judged in parts.items() for target in judged(document.get(name))]


def _least(what: str, wanted: float, got: float | None) -> Iterator[Target]:
    if got is not None:
        yield {"what": what, "wanted": wanted, "direction": "at least", "got": got, "met": got >= wanted}


def _most(what: str, wanted: float, got: float | None) -> Iterator[Target]:
    if got is not None:
        yield {"what": what, "wanted": wanted, "direction": "at most", "got": got, "met": got <= wanted}


def _by_name(part: dict[str, Any], value: str) -> dict[str, float]:
    return {row["name"]: row[value] for row in part["rows"] if row.get(value) is not None}


def _w1(part: dict[str, Any] | None) -> Iterator[Target]:
    if part is None:
        return
    fraction, ratios = _by_name(part, "fraction"), part["ratios"]
    one, two = (fraction.get(f"native, float64, {n}") for n in ("one thread", "two threads"))
    yield from _least("W1, fraction of the limit, one thread", 0.60, one)
    yield from _least("W1, fraction of the limit, two threads", 0.55, two)
    yield from _least("W1, times the literal twin", 1000, ratios.get("twin_to_native"))
    yield from _least("W1, times NumPy", 20, ratios.get("numpy_to_native"))
    yield from _least("W1, float32 times float64", 1.6, ratios.get("float64_to_float32"))


def _w2(part: dict[str, Any] | None) -> Iterator[Target]:
    if part is None:
        return
    times = _by_name(part, "times_ours")
    for peer, wanted in (
        ("River LinearRegression", 1),
        ("River HoeffdingTreeRegressor", 10),
        ("River RBFSampler(100) + LinearRegression", 150),
        ("River Hedge over 17 of those", 4000),
    ):
        yield from _least(f"W2, times {peer}", wanted, times.get(peer))
    linear = times.get("River LinearRegression")
    for name, how in (
        ("domkl Learner, 17 kernels, float32", "ours in float32"),
        ("domkl.river, 17 kernels, dictionaries", "ours through River"),
    ):
        if linear and name in times:
            yield from _least(f"W2, times River LinearRegression, {how}", 1, linear / times[name])


def _w3(part: dict[str, Any] | None) -> Iterator[Target]:
    if part is None:
        return
    small = [row.get("fraction") for row in part["rows"] if (row["key"], row["bits"]) == ("small", 64)]
    yield from _least("W3, J = 1000, fraction of the limit, two threads", 0.45, small[-1])
    peaks = [row["peak_bytes"] for row in part["rows"] if row["key"] == "large" and row["peak_bytes"]]
    yield from _most("W3, J = 100,000, peak of memory, GB", 1.0, max(peaks) / 1e9 if peaks else None)
    for key, kind in (("large", "random graph"), ("lattice", "lattice")):
        yield from _most(
            f"W3, J = 100,000 against J = 1000, time, {kind}", 2.5, part["ratios"][f"{key}_to_small"]
        )


def _w4(part: dict[str, Any] | None) -> Iterator[Target]:
    if part is None:
        return
    fraction = _by_name(part["network"], "fraction")
    for count in ("one thread", "two threads"):
        got = fraction.get(f"native, float64, {count}")
        yield from _least(f"W4, fraction of the limit, {count}", 0.5, got)
        got = fraction.get(f"native, float32, {count}")
        yield from _least(f"W4, fraction of the limit, {count}, float32", 0.5, got)
