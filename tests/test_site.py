"""The site's own check of links finds what leads nowhere."""

from __future__ import annotations

import importlib.util
import pathlib
import sys

SCRIPTS = pathlib.Path(__file__).parent.parent / "scripts"


def test_dead_links_and_anchors_are_found(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(SCRIPTS), *sys.path])
    spec = importlib.util.spec_from_file_location("make_site", SCRIPTS / "make_site.py")
    site = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(site)
    monkeypatch.setattr(site, "SITE", tmp_path)
    (tmp_path / "b.html").write_text('<h1 id="here">b</h1>')
    (tmp_path / "a.html").write_text(
        '<a href="b.html#here">1</a><a href="b.html#gone">2</a><a href="c.html">3</a><img src="d.png">'
    )
    assert site.dead_links() == ["a.html: b.html#gone", "a.html: c.html", "a.html: d.png"]
