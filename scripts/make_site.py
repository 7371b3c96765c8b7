"""Build the site in build/site from the Markdown of this repository, and follow every link in it, offline.

Pages stay where they are; the site gets copies, so that links between them hold here and there. Links to
sources become plain text, as the site has none of them.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import make_reference

ROOT = Path(__file__).parent.parent
PAGES, SITE = ROOT / "build" / "pages", ROOT / "build" / "site"
#: Besides docs/*.md. The README is the first page.
MORE = ("CHANGELOG.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "SECURITY.md", "examples/README.md")
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")


def gather() -> None:
    """Copies of all pages, their script, the reference and the pictures."""
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(ROOT / "docs" / "images", PAGES / "docs" / "images")
    shutil.copy(ROOT / "docs" / "site.js", PAGES / "docs")
    pages = {ROOT / name: PAGES / name for name in MORE}
    pages |= {page: PAGES / page.relative_to(ROOT) for page in (ROOT / "docs").rglob("*.md")}
    pages[ROOT / "README.md"] = PAGES / "index.md"
    for source, target in pages.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_linked(source, pages), encoding="utf-8")
    (PAGES / "docs" / "reference.md").write_text(make_reference.page(), encoding="utf-8")


def _linked(source: Path, pages: dict[Path, Path]) -> str:
    """A page whose links lead to pages of the site."""

    def link(found: re.Match[str]) -> str:
        text, to = found[1], found[2]
        name, _, anchor = to.partition("#")
        if "://" in to or not name:
            return found[0]
        target = (source.parent / name).resolve()
        if target == ROOT / "README.md":
            up = "../" * len(source.parent.relative_to(ROOT).parts)
            return f"[{text}]({up}index.md{'#' + anchor if anchor else ''})"
        return found[0] if target in pages else text

    return LINK.sub(link, source.read_text(encoding="utf-8"))


class _Page(HTMLParser):
    """Anchors and links of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors, self.links = set[str](), list[str]()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.anchors |= {found.get("id") or "", found.get("name") or ""}
        self.links += [value for name in ("href", "src") if (value := found.get(name))]


def dead_links() -> list[str]:
    """Links within the site that lead nowhere."""
    pages = {path.resolve(): _Page(path) for path in SITE.rglob("*.html") if path.name != "404.html"}
    dead = []
    for path, page in pages.items():
        for link in page.links:
            to = urlsplit(link)
            if to.scheme or to.netloc:
                continue
            target = (path.parent / unquote(to.path)).resolve() if to.path else path
            target = target / "index.html" if target.is_dir() else target
            is_there = target in pages if target.suffix == ".html" else target.is_file()
            if not is_there or (to.fragment and target in pages and to.fragment not in pages[target].anchors):
                dead.append(f"{path.relative_to(SITE.resolve())}: {link}")
    return dead


def main() -> int:
    gather()
    shutil.rmtree(SITE, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "zensical", "build", "--clean"], cwd=ROOT, check=True)
    dead = dead_links()
    print("\n".join(dead) or f"{len(list(SITE.rglob('*.html')))} pages, no dead link")
    return int(bool(dead))


if __name__ == "__main__":
    sys.exit(main())
