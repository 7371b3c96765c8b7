"""Odd rows and odd configuration files: none may end an agent, and none may be lost without a count.

    python benchmarks/fuzz_rows.py [--rows 50000] [--configurations 20000] [--json FILE]

Rows go through a whole agent, as JSON lines and as a table, for each model; what is odd about them: see
tests/oddities.py. Configurations go through `load`: see tests/odd_settings.py. Whatever must hold is
asserted there; the figures are counts.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests"))
from odd_settings import odd_configurations
from oddities import MODELS, odd_rows

#: Rows, or configurations, of one agent or process before a new one is started.
AT_ONCE = 5000


def resident():
    """Bytes of memory that this process holds."""
    gc.collect()
    pages = pathlib.Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def measured(name, run, count):
    """Counts of one subject, with seconds and the growth of memory after a first tenth."""
    run(max(1, count // 10), seed=1)
    before, start, total = resident(), time.perf_counter(), {}
    for seed, done in enumerate(range(0, count, AT_ONCE), start=2):
        for key, value in run(min(AT_ONCE, count - done), seed=seed).items():
            total[key] = total.get(key, 0) + value
    total.pop("error", None)  # of rows with labels up to 1e100 it means nothing
    grown = (resident() - before) / 2**20
    print(f"{name:>22}  {total}  {grown:.1f} MB", flush=True)
    seconds = round(time.perf_counter() - start, 1)
    return {"what": name, **total, "seconds": seconds, "grown_mb": round(grown, 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=50_000, help="of each model")
    parser.add_argument("--configurations", type=int, default=20_000)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    logging.getLogger("domkl").addHandler(logging.NullHandler())
    found = [measured("configurations", odd_configurations, args.configurations)]
    for model in MODELS:
        for kind in ("jsonl", "csv", "flat"):

            def run(count, seed, model=model, kind=kind):
                return odd_rows(model, kind, count, seed)

            found.append(measured(f"{model}, {kind}", run, args.rows // 2))
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
