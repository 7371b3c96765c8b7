"""docs/auto.md: public streams, from streams.py."""

from __future__ import annotations

from typing import Any

from .common import Maker, read, table

#: As streams.py says, where the reasons are.
TUNED = ("fried", "electricity", "bike")
REPORTED = ("elevators", "ailerons", "House8L", "MetroTraffic", "adult", "synth_RandomRBFDrift")


def _row(name: str, kept: dict[str, Any]) -> list[str]:
    kind = "R2" if kept["task"] == "regression" else f"accuracy, {kept['classes']} classes"
    best = f"{kept['best']:.3f} ({kept['best_is']})"
    ours = f"**{kept['domkl']:.3f}**" if kept["domkl"] > kept["best"] else f"{kept['domkl']:.3f}"
    plain = [f"{kept[key]:.3f}" for key in ("no_change", "running")]
    return [name, f"{kept['rows']:,} x {kept['inputs']}", kind, ours, *plain, f"{kept['ARF']:.3f}", best]


def _streams(names: tuple[str, ...]) -> str:
    kept = read("streams")
    whole = all(kept[name]["rows"] == kept[name]["their_rows"] for name in names)
    assert whole, "published figures are for whole streams"
    headings = "stream | rows x inputs | measure | domkl.Auto(size=400) | no change | running | ARF | best"
    return table(headings, (_row(name, kept[name]) for name in names))


MADE: dict[str, Maker] = {
    "streams-tuned": lambda: _streams(TUNED),
    "streams-reported": lambda: _streams(REPORTED),
}
