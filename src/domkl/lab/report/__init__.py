"""A finished experiment as JSON, in the terminal, and as a page with figures.

facts      everything as plain data, ready for JSON; the same as columns of text and in words
terminal   what `domkl run` prints (rich)
figures    error over time, weights over time, the network (matplotlib)
page       one self-contained HTML file (Jinja2, page.html), written beside the figures
"""

from __future__ import annotations

from .facts import document
from .page import write
from .terminal import summary

__all__ = ["document", "summary", "write"]
