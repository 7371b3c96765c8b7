"""Texts that nobody may read: passwords, tokens, addresses that hold one; and files that others may read."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from . import budget
from .errors import DataError, InputError

HIDDEN = "***"


class Secret(str):
    """A text that shows as something else wherever it is printed, logged, encoded or pickled.

    Whoever needs the text itself says so with `plain`. Forgetting that fails, and shows nothing.

    >>> key = Secret("s3cret")
    >>> f"{key} {key!r} {[key]} {key.encode()!r}", plain(key)
    ("*** '***' ['***'] b'***'", 's3cret')
    """

    __slots__ = ("_text",)
    _text: str

    def __new__(cls, text: str, shown: str = HIDDEN) -> Secret:
        made = super().__new__(cls, shown)
        made._text = plain(text)
        return made

    @classmethod
    def address(cls, url: str) -> Secret:
        """A web address or a database's, of which the scheme and the machine may be known.

        >>> Secret.address("https://hooks.example.org:8443/services/T0/s3cret?key=s3cret")
        'https://hooks.example.org:8443/***'
        """
        try:
            parts = urlsplit(plain(url))
            port = "" if parts.port is None else f":{parts.port}"
            host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        except ValueError:
            return cls(url)
        return cls(url, f"{parts.scheme}://{host}{port}/{HIDDEN}" if parts.scheme and host else HIDDEN)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and plain(self) == plain(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self._text)

    def __bool__(self) -> bool:
        return bool(self._text)

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str(self),)


def plain(text: str) -> str:
    """The text itself, of a `Secret` or any other."""
    return text._text if isinstance(text, Secret) else text


def first_line(what: str, path: str, expected: str, encoding: str = "utf-8") -> Secret:
    """The secret in the first line of a file, whose errors call it `what`."""
    try:
        lines = budget.read(path, budget.SETTINGS).decode(encoding).splitlines()
        return Secret(lines[0] if lines else "")
    except DataError:
        raise
    except (OSError, ValueError) as error:
        words = {"utf-8": "not text", "ascii": "it is not ASCII"}[encoding]
        reason = getattr(error, "strerror", None) or words
        raise InputError(f"{what} cannot be read: {reason}; expected a file with {expected}") from None


def exposed(files: Iterable[str | Path]) -> list[str]:
    """A sentence for each file with a secret that other users of this machine may read or change."""
    found = []
    for path in files:
        try:
            mode = Path(path).stat().st_mode
        except OSError:  # whoever needs it will say that it is not there
            continue
        may = [what for bits, what in ((0o044, "read"), (0o022, "change")) if mode & bits]
        if sys.platform != "win32" and may:
            who = f"{path} holds a password, token or key that other users may {' and '.join(may)}"
            found.append(f"{who}; expected its owner alone; run: chmod 600 {path}")
    return found
