"""docs/watch.md: what the live page costs, from page.py."""

from __future__ import annotations

from typing import Any

from .common import Maker, figure, read, table

#: Part of page.json: what it is.
RUNS = {
    "run": "`run --live`, 50 learners",
    "small": "`run --live`, 3 learners",
    "paper": "`run --live`, 50 learners of `Paper`",
    "agents": "3 agents in a process, a page each",
}
HEADS = "what | rounds a second | of a core | counted | compared, by processor time | by the clock | pairs"


def _percent(part: float) -> str:
    return f"{100 * part:.1f} %"


def _between(found: dict[str, Any], clock: str) -> str:
    return (
        f"{_percent(found[clock])} ({100 * found[clock + '_low']:.1f} to {100 * found[clock + '_high']:.1f})"
    )


def costs() -> str:
    kept = read("page")
    rows = (
        [
            what,
            figure(kept[name]["rounds_per_second"]),
            _percent(kept[name]["core"]),
            _percent(kept[name]["direct"]),
            *(_between(kept[name], clock) for clock in ("cpu", "wall")),
            f"{kept[name]['pairs']:.0f}",
        ]
        for name, what in RUNS.items()
    )
    return table(HEADS, rows)


MADE: dict[str, Maker] = {
    "page-costs": costs,
    "page-serving": lambda: _percent(read("page")["serve"]["core"]),
    "page-crowd": lambda: _percent(read("page")["crowd"]["core"]),
    "page-sample": lambda: f"{read('page')['feed']['agent_sample_us']:.0f} µs",
    "page-round": lambda: f"{read('page')['feed']['run_round_us']:.0f} µs",
}
