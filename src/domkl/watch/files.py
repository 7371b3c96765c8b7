"""What a browser loads besides data: read once, kept as gzip."""

from __future__ import annotations

import functools
import gzip
from collections.abc import Mapping
from http import HTTPStatus
from importlib import resources
from typing import NamedTuple

from .requests import Answer, Request

KINDS = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
#: Where each file is served; nothing else of the folder is.
PLACES = {
    "/": "page.html",
    "/page.css": "page.css",
    "/page.js": "page.js",
    "/plots.js": "plots.js",
    "/network.js": "network.js",
    "/icon.svg": "icon.svg",
    "/uPlot.js": "uPlot.iife.min.js",
    "/uPlot.css": "uPlot.min.css",
}


class Stored(NamedTuple):
    """A file as it is, and compressed."""

    kind: str
    plain: bytes
    zipped: bytes


@functools.cache
def stored() -> Mapping[str, Stored]:
    """All files, by the place where they are served."""
    folder = resources.files(__package__) / "static"
    found = {}
    for place, name in PLACES.items():
        plain = (folder / name).read_bytes()
        found[place] = Stored(KINDS[name.rpartition(".")[2]], plain, gzip.compress(plain, 9, mtime=0))
    return found


def answer(request: Request) -> Answer:
    """The file at a request's path."""
    kind, plain, zipped = stored()[request.path]
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Answer(HTTPStatus.OK, zipped, kind, {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"})
    return Answer(HTTPStatus.OK, plain, kind, {"Vary": "Accept-Encoding"})
