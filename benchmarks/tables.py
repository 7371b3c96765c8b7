"""Write the tables of README.md and docs/*.md again from benchmarks/results.

    python benchmarks/tables.py [--check]

A table stands between <!-- table: NAME --> and <!-- end -->, a figure in a sentence between
<!-- figure: NAME --> and <!-- end -->. What they hold is in pagetables/; no figure is typed by hand.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from pagetables import MADE

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted(page for page in (ROOT / "docs").glob("*.md"))]
MARKED = re.compile(r"<!-- (table|figure): (\S+) -->(.*?)<!-- end -->", re.DOTALL)


def fill(page: str) -> str:
    """A page's text with everything between markers made again."""

    def make(found: re.Match[str]) -> str:
        kind, name = found[1], found[2]
        text = f"\n\n{MADE[name]()}\n\n" if kind == "table" else MADE[name]()
        return f"<!-- {kind}: {name} -->{text}<!-- end -->"

    return MARKED.sub(make, page)


def main() -> int:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--check", action="store_true", help="write nothing; 1 if a page is out of date")
    args = options.parse_args()
    old = {page: page.read_text(encoding="utf-8") for page in PAGES}
    new = {page: fill(text) for page, text in old.items()}
    stale = [page for page in new if old[page] != new[page]]
    for page in stale:
        print(page.relative_to(ROOT))
        if not args.check:
            page.write_text(new[page], encoding="utf-8")
    return int(args.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
