"""Every error domkl raises on purpose, and whose fault it is.

Error
├── InputError     the caller gave something unusable        (also a ValueError)
├── PeerError      another learner sent something unusable   (also a ValueError)
├── DataError      a file or a download is not what it must be (also a ValueError)
└── MissingExtra   an optional package is not installed      (also an ImportError)

Each message is one line: the fact, the expectation, the remedy.
"""

from __future__ import annotations


class Error(Exception):
    """Base of all errors that domkl raises on purpose."""


class InputError(Error, ValueError):
    """The caller gave something unusable; nothing was changed."""


class PeerError(Error, ValueError):
    """A peer's message is unusable; it was refused and nothing was changed."""


class DataError(Error, ValueError):
    """A data file is missing, damaged or of the wrong form."""


class MissingExtra(Error, ImportError):
    """An optional dependency is not installed; the message holds the install line."""
