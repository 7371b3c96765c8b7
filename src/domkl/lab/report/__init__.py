"""What a finished experiment looks like: as JSON, in the terminal, and as a page with figures.

facts    the numbers, JSON-ready; everything else shows these
tables   the same numbers as columns of text
terminal tables for the terminal (rich)
figures  error over time, kernel weights over time, the network (matplotlib): one file each,
         with the error's `measure` and a common `style`
page     one self-contained HTML file
files    writes page and figures
"""

from __future__ import annotations

from .facts import document
from .files import write
from .terminal import summary

__all__ = ["document", "summary", "write"]
