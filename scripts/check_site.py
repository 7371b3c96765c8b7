"""Ask axe-core, in Chromium, about every page of the site in build/site: what could readers not reach?

python scripts/check_site.py        after `make site`; needs scripts/install_system.sh and install_axe.sh
"""

from __future__ import annotations

import functools
import http.server
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
SITE, AXE = ROOT / "build" / "site", ROOT / "build" / "axe.min.js"
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
CHECK = "axe.run(document, {runOnly: arguments[0]}).then(arguments[1])"
SETTLE = 0.4  # seconds until the scripts of a page have run

sys.path.insert(0, str(ROOT / "tests"))
import browser  # noqa: E402


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Files, without a line for each."""

    def log_message(self, *args: object) -> None:
        """Nothing."""


def main() -> int:
    """Print what is wrong, and say how much was looked at."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    pages = sorted(page.relative_to(SITE) for page in SITE.rglob("*.html"))
    wrong = 0
    with browser.opened() as window:
        for page in pages:
            window.open(f"http://127.0.0.1:{server.server_port}/{page}")
            time.sleep(SETTLE)
            window.devtools("Runtime.evaluate", {"expression": AXE.read_text(encoding="utf-8")})
            for each in window.run_later(CHECK, TAGS)["violations"]:
                wrong += 1
                print(f"{page}: {each['help']}: {each['nodes'][0]['html'][:120]}")
    print(f"{len(pages)} pages, {wrong} violations")
    return wrong > 0 or not pages


if __name__ == "__main__":
    sys.exit(main())
