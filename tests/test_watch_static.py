"""What a browser loads: complete, small, and what its authors published."""

from __future__ import annotations

import hashlib
import pathlib

import domkl.watch

STATIC = pathlib.Path(domkl.watch.__file__).parent / "static"


def test_uplot_is_what_its_author_published():
    for line in (STATIC / "uPlot.sha256").read_text().splitlines():
        digest, name = line.split()
        assert hashlib.sha256((STATIC / name).read_bytes()).hexdigest() == digest, name
    assert "MIT" in (STATIC / "uPlot.LICENSE").read_text()
    assert (
        (STATIC / "uPlot.iife.min.js").read_text().startswith("/*! https://github.com/leeoniya/uPlot (v1.6.")
    )
