"""`python -m domkl.lab.bench '{"only": [...], "quick": true}'`: measure, print one JSON document."""

from __future__ import annotations

import json
import sys

from . import run

ASKED = json.loads(sys.argv[1])
CHANGING = "\r\x1b[K" if sys.stderr.isatty() else ""


def report(text: str) -> None:
    """What is measured now, on standard error: one changing line, on a terminal."""
    if CHANGING:
        print(f"{CHANGING}{text}", end="", file=sys.stderr, flush=True)


document = run(ASKED["only"], quick=ASKED["quick"], report=report)
report("")
print(json.dumps(document, allow_nan=False))
