"""docs/performance.md: from `domkl bench`, native.py and scaling.py."""

from __future__ import annotations

from typing import Any

from .common import Maker, figure, read, table


def machine() -> str:
    bench = read("bench")
    it = bench["machine"]
    caches = ", ".join(f"{name} {size // 1024:,} KiB" for name, size in it["caches"].items())
    versions = ", ".join(f"{name} {v}" for name, v in {"numpy": it["numpy"], **it["peers"]}.items())
    return (
        f"{it['processor']}, {it['usable_cores']} cores, {caches or 'caches unknown'}; "
        f"instruction set {bench['engine']['isa']}; Python {it['python']}, {versions}."
    )


def limits() -> str:
    bench = read("bench")
    rows = (
        [
            f"float{row['bits']}, {row['threads']} thread{'s' * (row['threads'] > 1)}",
            *(figure(row[k]) for k in ("fma_per_ns", "sincos_ns", "vector_ns", "stored_ns")),
            figure(row["memory_GB_per_s"]),
        ]
        for row in bench["limits"]
    )
    return table(" | FMA per ns | ns per sincos | ns per vector operation | ns per stored one | GB/s", rows)


def beside(row: dict[str, Any]) -> list[str]:
    if "fraction" not in row:
        return [figure(row["us"]), "", ""]
    return [figure(row["us"]), figure(row["limit_us"]), f"{row['fraction']:.2f}"]


def w1() -> str:
    bench = read("bench")
    part = bench["w1"]
    first = part["rows"][0]["us"]
    rows = ([row["name"], *beside(row), figure(row["us"] / first)] for row in part["rows"])
    return table("W1 | µs | limit, µs | fraction of the limit | times the first", rows)


def parts() -> str:
    bench = read("bench")
    names = ("fma", "sincos", "vector")
    rows = [
        [row["name"], *(figure(row["limit_parts_us"][name]) for name in names), figure(row["limit_us"])]
        for row in bench["w1"]["rows"]
        if row["engine"] == "native"
    ]
    return table("of the limit of W1, µs | FMA | sincos | vector operations | together", rows)


def w2() -> str:
    bench = read("bench")
    rows = ([row["name"], figure(row["us"]), figure(row["times_ours"])] for row in bench["w2"]["rows"])
    return table("W2 | µs for a sample | times ours", rows)


def w3() -> str:
    bench = read("bench")
    rows = (
        [
            row["name"],
            *beside(row),
            row.get("bound_by", ""),
            figure(row["rounds_us"]),
            figure(row["seconds"]),
            figure((row["peak_bytes"] or 0) / 1e6),
        ]
        for row in bench["w3"]["rows"]
    )
    headings = "W3 | µs | limit, µs | fraction | bound by | rounds alone, µs | seconds | peak of memory, MB"
    return table(headings, rows)


def w4() -> str:
    bench = read("bench")
    rows = (
        [
            row["name"],
            *beside(row),
            row.get("bound_by", ""),
            figure(row["read_GB_per_s"]) if "read_GB_per_s" in row else "",
        ]
        for row in bench["w4"]["network"]["rows"]
    )
    return table("W4 | µs | limit, µs | fraction of the limit | bound by | reading, GB/s", rows)


def targets() -> str:
    bench = read("bench")
    rows = (
        [
            row["what"],
            f"{row['direction']} {row['wanted']:g}",
            figure(row["got"]),
            "yes" if row["met"] else "**no**",
        ]
        for row in bench["targets"]
    )
    return table("target | wanted | measured | met", rows)


def auto_machine() -> str:
    found = read("auto")
    it = found["machine"]
    where = f"{it['processor']}, {it['usable_cores']} cores; {found['engine']['isa']}; numpy {it['numpy']}."
    if it["load"] <= it["usable_cores"] + 1:
        return where
    return (
        f"{where} **The machine was busy**: {it['load']:g} processes wanted its {it['usable_cores']} cores "
        "while this was measured. The limits are those of the few moments in which a loop was left alone, so "
        "the fractions are too low, those of two threads by far."
    )


def w5() -> str:
    part = read("auto")["w5"]
    names = ("matrix", "features", "recent", "trust", "vectors")
    rows = (
        [f"{key}: {row['name']}", *beside(row), *(figure(row["limit_parts_us"][name]) for name in names)]
        for key in ("device", "network")
        for row in part[key]["rows"]
    )
    return table("W5 | µs | limit, µs | fraction | matrix | features | recent | trust | vectors", rows)


def sizes() -> str:
    rows = (
        [
            f"{row['size']:,}",
            figure(row["alone_us"] / 1000),
            figure(row["linked_us"] / 1000),
            figure(row["bytes"] / 1e6),
            figure(row["message_bytes"] / 1000),
        ]
        for row in read("auto")["sizes"]
    )
    return table("size | alone, ms | with two neighbours, ms | memory, MB | message, kB", rows)


def scaling() -> str:
    return _exponents(read("scaling")["sweeps"])


def scaling_auto() -> str:
    return _exponents(read("scaling")["auto"]["sweeps"])


def native() -> str:
    us, ratios = (read("native")[name] for name in ("microseconds", "ratios"))
    named = {
        "`predict`, `learn` of one device, size 400, float32": us["native_400"],
        "NumPy instead of C++": us["numpy_400"],
        "C++, in blocks of 256 samples": us["block_400"],
        "size 1700": us["native_1700"],
        "size 1700, in blocks of 256": us["block_1700"],
        "`domkl.DOMKL`, size 400, float64": us["face_400_float64"],
        "`domkl.river` on dictionaries, the same": us["river_400"],
        "River's ARF(10)": us["arf"],
        "`simulate`, a round of five learners on a ring": us["five_400"],
        "NumPy, a round of five": us["five_400_numpy"],
    }
    rows = [[name, figure(value)] for name, value in named.items()]
    rows += [[f"{name} (a ratio)", figure(ratios[name])] for name in ratios if name.startswith("before")]
    rows.append(["100,000 rows through `domkl run`, s", figure(read("native")["run_100000_rows_seconds"])])
    return table("`Auto` on bike, twelve inputs | µs", rows)


def _exponents(sweeps: list[dict[str, Any]]) -> str:
    rows = (
        [
            row["over"],
            f"{row['x'][0]} to {row['x'][-1]}",
            f"{row['exponent']:.2f}",
            f"{row['last_slope']:.2f}",
            f"{100 * row['fixed_us'] / row['us'][0]:.0f} %",
        ]
        for row in sweeps
    )
    headings = "cost against | from .. to | exponent | slope of the last step | fixed part of the first point"
    return table(headings, rows)


MADE: dict[str, Maker] = {
    "machine": machine,
    "limits": limits,
    "w1": w1,
    "limit-parts": parts,
    "w2": w2,
    "w3": w3,
    "w4": w4,
    "auto-machine": auto_machine,
    "w5": w5,
    "auto-sizes": sizes,
    "auto-others": native,
    "scaling-auto": scaling_auto,
    "targets": targets,
    "scaling": scaling,
}
