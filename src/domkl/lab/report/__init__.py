"""A finished experiment as JSON, in the terminal, and as a page with figures.

facts      everything as plain data, ready for JSON; all else shows these
tables     the facts as columns of text
sentences  the facts in words: result, settings, glossary
terminal   what `domkl run` prints (rich)
figures    error over time, weights over time, the network (matplotlib): a module each, `labels`, `style`
page       one self-contained HTML file (Jinja2, page.html), written beside the figures
"""

from __future__ import annotations

from .facts import document
from .page import write
from .terminal import summary

__all__ = ["document", "summary", "write"]
