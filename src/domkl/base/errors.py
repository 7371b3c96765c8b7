"""Every error domkl raises on purpose, and whose fault it is.

Error
├── InputError     the caller gave something unusable        (also a ValueError)
├── PeerError      another learner sent something unusable   (also a ValueError)
├── DataError      a file or a download is not what it must be (also a ValueError)
│   └── DiskError  a file cannot be written now
└── MissingExtra   an optional package is not installed      (also an ImportError)

Each message is one line: the fact, the expectation, the remedy.
"""

from __future__ import annotations

#: Characters of a message: what it repeats may be of a file.
LONGEST = 4000


class Error(Exception):
    """Base of all errors that domkl raises on purpose."""

    def __str__(self) -> str:
        text = super().__str__()
        return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


class InputError(Error, ValueError):
    """The caller gave something unusable; nothing was changed."""


class PeerError(Error, ValueError):
    """A peer's message is unusable; it was refused and nothing was changed."""


class DataError(Error, ValueError):
    """A data file is missing, damaged or of the wrong form."""


class DiskError(DataError):
    """A file cannot be written now: no room, no permission, or a fault; what was there before still is."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason  # as the operating system words it


class MissingExtra(Error, ImportError):
    """An optional dependency is not installed; the message holds the install line."""


__all__ = ["DataError", "DiskError", "Error", "InputError", "MissingExtra", "PeerError"]


def __dir__() -> list[str]:
    return __all__
