"""The files that settings name: seen from the settings' own folder, and none both read and written."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..datasets.readers import queries
from .sections import need_that
from .transports import security

if TYPE_CHECKING:
    from .config import AgentConfig

#: Settings that name a file.
PATHS = {
    "model": ("path",),
    "stream": ("path", "dead_letters", "password_file", "ca"),
    "transport": ("ca", "cert", "key", "revoked", "password_file"),
    "checkpoint": ("directory",),
    "output": ("predictions",),
    "http": ("token_file",),
}
#: Those that are written.
WRITTEN = ("[output] predictions", "[stream] dead_letters")


#: What stands where a file may be named, and is none.
NO_FILE = (None, "", "-", security.SYSTEM)


def anchored(config: AgentConfig, folder: Path) -> AgentConfig:
    """The same settings with absolute paths; relative ones start from `folder`."""
    changed = {}
    for name, keys in PATHS.items():
        section = getattr(config, name)
        given = {key: getattr(section, key, None) for key in keys}
        paths = {key: queries.anchored(path, folder) for key, path in given.items() if path not in NO_FILE}
        changed[name] = dataclasses.replace(section, **paths)
    return dataclasses.replace(config, **changed)


def check(config: AgentConfig, where: str) -> None:
    """Refuse to write what is read: that would empty it, or be read again for ever; `where` is the file."""
    found = dict(_named(config))
    for written in filter(found.get, WRITTEN):
        for other, path in found.items():
            wrong = (
                f"{where}: {written} and {other} are one file, which would be lost; expected two; choose "
                f"another for {written}"
            )
            need_that(other == written or path != found[written], wrong)


def _named(config: AgentConfig) -> Iterator[tuple[str, str]]:
    """Every file that is named, without links on the way to it; /dev/null may be named twice."""
    for name, keys in PATHS.items():
        for key in keys:
            given = getattr(getattr(config, name), key, None)
            path = os.path.realpath(queries.file_of(given or ""))
            if given not in NO_FILE and (os.path.isfile(path) or not os.path.exists(path)):
                yield f"[{name}] {key}", path
