"""Execute the pages in docs/gallery and save what each has drawn: make_gallery.py [PAGE ...]"""

from __future__ import annotations

import doctest
import sys
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

DOCS = Path(__file__).parent.parent / "docs"


def main(names: list[str]) -> int:
    failed = 0
    for page in sorted((DOCS / "gallery").glob("*.md")):
        if page.stem == "index" or (names and page.stem not in names):
            continue
        start = time.perf_counter()
        failed += doctest.testfile(str(page), module_relative=False, encoding="utf-8").failed
        place = DOCS / "images" / "gallery" / f"{page.stem}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        plt.gcf().savefig(place, dpi=90, metadata={"Software": None})
        plt.close("all")
        print(f"{page.stem}: {time.perf_counter() - start:.1f} s, {place.stat().st_size / 1000:.0f} kB")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
