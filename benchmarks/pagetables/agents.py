"""docs/agents.md and docs/privacy.md: faults, rates, memory, damaged messages, learners that wait for nobody,
and what a neighbour recovers."""

from __future__ import annotations

from typing import Any

from .common import Maker, figure, read, scientific, span, table

#: In the order of the page.
FAULTS = (
    *("kill-zenoh", "kill-mqtt", "kill-auto", "broker", "hang", "hang-auto"),
    *("loss", "partition", "partition-mqtt"),
)
#: Step and mode in asynchronous.json.
MODES = {
    "second order, alone": ("newton", "alone"),
    "second order, asynchronous": ("newton", "asynchronous"),
    "second order, synchronous": ("newton", "synchronous"),
    "first order, asynchronous": ("first", "asynchronous"),
    "first order, synchronous": ("first", "synchronous"),
}


def _fault(row: dict[str, Any]) -> list[str]:
    error = "the same bits" if row["identical"] else f"{row['error_ratio']:.3f} times"
    stall = f"{row['stall']:.2f} s" if "stall" in row else ""
    whole = "all once" if row["whole"] else "**not all**"
    return [row["fault"], f"{row['seconds']:.0f}", whole, scientific(row["duals"]), stall, error]


def faults() -> str:
    kept = {row["name"]: row for row in read("chaos")}
    headings = "fault | seconds | readings | duals off by | longest stall | error against an undisturbed run"
    return table(headings, (_fault(kept[name]) for name in FAULTS))


def rates() -> str:
    rows = (
        [
            row["transport"],
            str(len(row["all"])),
            figure(row["bare"]),
            figure(row["agents"]),
            f"{row['ratio']:.2f} ({span((ours / bare for bare, ours in row['all']), '.2f')})",
        ]
        for row in read("agents")
    )
    return table("transport | turns | bare rounds a second | agents' rounds a second | ratio", rows)


def footprint() -> str:
    rows = (
        [row["transport"], f"{100 * row['core']:.1f} %", f"{row['peak_mb']:.0f} MB"]
        for row in read("footprint")
    )
    return table("idle agent | of a core | memory at most", rows)


def scale() -> str:
    rows = (
        [
            f"{row['agents']} of {row['model'].capitalize()}, {row['version']}",
            f"{row['sockets']:,}",
            f"{row['start']:.0f} s",
            figure(row["rounds"]),
            str(row["threads"]),
            f"{row['memory']:.0f} MB",
            f"{row['cpu_ms']:.1f} ms",
            str(row["lost"]),
        ]
        for row in read("scale_agents")
    )
    headings = "agents | sockets in all | until all learn | rounds a second | threads each | memory each"
    return table(f"{headings} | processor each, a round | neighbours lost", rows)


def soak() -> str:
    kept = read("soak")
    return table(
        "agents | rounds | seconds | memory after the first 10,000 | growth after that",
        [
            [
                f"2 of {kept['model'].capitalize()}, {kept['transport']}",
                f"{min(kept['rounds']):,}",
                f"{kept['seconds']:.0f}",
                f"{max(kept['at_first'].values()):.0f} MB",
                f"{max(kept['growth'].values()):.1f} MB",
            ]
        ],
    )


def fuzz() -> str:
    columns = {"refused": "refused", "same": "nothing had changed", "cut short": "read up to the damage"}
    columns |= {"sound": "forged, and sound", "differs": "taken though damaged"}
    columns |= {"unsound": "taken though unsound", "crashed": "crashed"}
    rows = (
        [f"{row['what']}, {row['kind']}", f"{row['count']:,}", *(f"{row.get(key, 0):,}" for key in columns)]
        for row in read("fuzz")
    )
    return table(f"what | tried | {' | '.join(columns.values())}", rows)


def fuzz_rows() -> str:
    def row(found: dict[str, Any]) -> list[str]:
        tried = found.get("rows") or found["loaded"] + found["refused"]
        used, honest = found.get("used", found.get("loaded", 0)), found.get("honest", 0)
        shown = [tried, honest, used - honest, tried - used]
        return [found["what"], *(f"{count:,}" for count in shown)]

    headings = "what | tried | honest, all learnt | odd, and usable | refused"
    return table(headings, map(row, read("fuzz_rows")))


def fuzz_protocol() -> str:
    def row(found: dict[str, Any]) -> list[str]:
        refused = [sum(kinds.values()) for kinds in found["refused"].values()]
        errors = [figure(found[f"error_{when}"]) for when in ("during", "after", "calm")]
        about = [f"{found['model']}, {found['transport']}", f"{found['messages']:,}", f"{min(refused):,}"]
        return [*about, f"{found['slowest_round']:.1f} s", f"{found['grown_mb']:.1f} MB", *errors]

    headings = "model and transport | lies | refused | longest pause | memory grown | error while they come"
    return table(f"{headings} | afterwards | without a liar", map(row, read("fuzz_protocol")))


def asynchronous() -> str:
    kept = {(row["sees"], row["step"], row["mode"]): row for row in read("asynchronous")}

    def row(title: str) -> list[str]:
        every, part = (kept[(sees, *MODES[title])] for sees in ("all", "a fifth"))
        return [title, figure(every["stream"]), figure(part["stream"]), figure(part["everywhere"], 2)]

    headings = " | each sees everything: on its own stream | each sees a fifth: on its own stream"
    return table(f"{headings} | on everybody's inputs", map(row, MODES))


def attack() -> str:
    rows = (
        [name, *(span((100 * share for share in found[key]), ".3g") + " %" for key in ("x", "y"))]
        for name, found in read("privacy_attack").items()
    )
    return table("what is sent | samples recovered | with their labels", rows)


MADE: dict[str, Maker] = {
    "faults": faults,
    "agents": rates,
    "footprint": footprint,
    "soak": soak,
    "scale": scale,
    "fuzz": fuzz,
    "fuzz_rows": fuzz_rows,
    "fuzz_protocol": fuzz_protocol,
    "asynchronous": asynchronous,
    "attack": attack,
}
