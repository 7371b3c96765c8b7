"""The password of a broker: from a file, a variable, or asked for; not an option, which others could see."""

from __future__ import annotations

import getpass
import os
import sys
from pathlib import Path

from ..base.errors import InputError

#: The variable that may hold it.
SECRET = "BROKER_PASSWORD"


def ask(user: str | None, file: str | None, broker: str) -> str | None:
    """The password of a user at a broker; None where there is no user."""
    if user is None:
        if file is not None:
            raise InputError("--password-file is given without --user; expected both; add --user")
        return None
    if file is not None:
        return _first_line(file)
    if SECRET in os.environ:
        return os.environ[SECRET]
    if not sys.stdin.isatty():
        raise InputError(
            f"no password of {user} is given and nobody can be asked; expected --password-file or the "
            f"variable {SECRET}; give one"
        )
    return getpass.getpass(f"Password of {user} at {broker}: ")


def _first_line(file: str) -> str:
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise InputError(f"{file} is not UTF-8 text; expected a password in its first line; fix it") from None
    return lines[0] if lines else ""
