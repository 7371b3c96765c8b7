"""Damaged and forged messages, checkpoints and journals: none may crash a learner, none may be believed.

    python benchmarks/fuzz.py [--messages 100000] [--checkpoints 10000] [--journals 10000] [--json FILE]

What is damaged and what is forged: see tests/forgeries.py.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests"))
from forgeries import checkpoints, journals, messages


def resident():
    """Bytes of memory that this process holds."""
    gc.collect()
    pages = pathlib.Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def measured(what, count):
    """The rows of one subject, with seconds and growth of memory after a first tenth."""
    what(count // 10, seed=1)
    before, start = resident(), time.perf_counter()
    tallies = what(count)
    seconds, grown = time.perf_counter() - start, resident() - before
    return [
        {"what": what.__name__, "kind": kind, "count": tally.total(), **tally, "bad": len(tally.bad)}
        | {"seconds": round(seconds, 1), "grown_mb": round(grown / 2**20, 2)}
        for kind, tally in tallies.items()
    ]


def table(rows):
    columns = ("what", "kind", "count", "refused", "same", "cut short", "sound")
    columns += ("differs", "unsound", "crashed", "grown_mb", "seconds")
    print(" ".join(f"{column:>11}" for column in columns))
    for row in rows:
        print(" ".join(f"{row.get(column, 0):>11}" for column in columns))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--checkpoints", type=int, default=10_000)
    parser.add_argument("--journals", type=int, default=10_000)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    rows = measured(messages, options.messages) + measured(checkpoints, options.checkpoints)
    rows += measured(journals, options.journals)
    table(rows)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    sys.exit(any(row["bad"] for row in rows))


if __name__ == "__main__":
    main()
