"""A learner's state on disk: if a write is interrupted, the state before it remains.

    round-<n>-<digest>.safetensors   a checkpoint; the digest is of all its bytes
    journal-<n>.jsonl                records since the checkpoint of round n, a line each
    lock                             see `Lock`: one process writes to a directory at a time

A checkpoint has its name only once all of it is on disk, so a file whose digest is not that in its name was
damaged later, or is not ours.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy.typing as npt

from ..base import checks
from ..base.errors import DataError
from ..learner import files
from . import journal

_FORMAT, _VERSION = "domkl checkpoint", 2
_CHECKPOINT = re.compile(r"round-(0|[1-9][0-9]{0,15})-([0-9a-f]{32})\.safetensors", re.ASCII)


class NewerVersion(DataError):
    """A file that a newer version of domkl has written; it is never passed over for an older one."""


class Checkpoint(NamedTuple):
    """A checkpoint that was loaded."""

    round: int
    arrays: dict[str, npt.NDArray[Any]]
    meta: dict[str, Any]
    skipped: tuple[str, ...] = ()  # newer files that were refused, and why


def save(
    directory: str | Path,
    round: int,
    arrays: Mapping[str, npt.NDArray[Any]],
    meta: Mapping[str, Any],
    *,
    sync: bool = True,
    ready: Callable[[], None] | None = None,
    done: Callable[[], None] | None = None,
) -> Path:
    """Write a checkpoint; of those before it the newest intact one is kept, the others are removed.

    Later ones are removed too: they are of a history that was dropped. `meta` is anything JSON can hold.
    Without `sync` the operating system may still lose the checkpoint when the power fails. `ready` is called
    when all is written but the checkpoint has not yet its name, `done` when it has. If the disk refuses, this
    raises `DiskError` and the checkpoints before it remain.

    >>> import tempfile, numpy as np
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = save(directory, 7, {"theta": np.ones((2, 3))}, {"name": "a"})
    ...     found = load(directory)
    >>> path.name[:8], path.suffix
    ('round-7-', '.safetensors')
    >>> found.round, found.meta, found.arrays["theta"].shape
    (7, {'name': 'a'}, (2, 3))
    """
    checks.count("round", round, least=0)
    about = {"format": f"{_FORMAT} {_VERSION}", "round": str(round)}
    content = files.content(about, arrays, meta)
    digest = files.digest(content)
    path = Path(directory) / f"round-{round}-{digest}.safetensors"
    with files.writing(path.parent):
        files.make_directory(path.parent, sync)
        files.replace(path, content, sync, ready)
    if done is not None:
        done()
    with contextlib.suppress(OSError, DataError):  # what is left costs space; the next save tries again
        _tidy(path, round)
    return path


def load(directory: str | Path) -> Checkpoint | None:
    """The newest intact checkpoint; None if there are no such files."""
    skipped: list[str] = []
    for path in _newest_first(Path(directory)):
        try:
            return _read(path)._replace(skipped=tuple(skipped))
        except NewerVersion:
            raise
        except (OSError, DataError) as error:
            skipped.append(f"{path.name}: {getattr(error, 'strerror', None) or error}")
    if skipped:
        raise DataError(
            f"no checkpoint in {directory} can be used ({'; '.join(skipped)}); expected an intact one; "
            "restore one from a backup, or move these files away to start again"
        )
    return None


def _read(path: Path) -> Checkpoint:
    named = _CHECKPOINT.fullmatch(path.name)
    if named is None:
        raise DataError("its name is not that of a checkpoint")
    content = path.read_bytes()
    if files.digest(content) != named[2]:
        raise DataError("its content is not what its name says")
    about, arrays = files.parsed(content)
    if _version(path, about.get("format", "")) != _VERSION or about.get("round") != named[1]:
        raise DataError("it is not a checkpoint of this round in this format")
    return Checkpoint(int(named[1]), arrays, files.meta(about))


def _version(path: Path, format: str) -> int:
    """The version of a checkpoint's format, 0 if it is none; refuses a newer one than ours."""
    named = re.fullmatch(rf"{_FORMAT} ([1-9][0-9]{{0,8}})", format, re.ASCII)
    version = int(named[1]) if named else 0
    if version > _VERSION:
        raise NewerVersion(
            f"{path} was written by a newer version of domkl (format {version}); expected format {_VERSION}; "
            "upgrade domkl, or move the file away to go on from an earlier checkpoint"
        )
    return version


def _newest_first(directory: Path) -> list[Path]:
    """Possible checkpoints, by round: clocks of small devices are not reliable."""
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise DataError(
            f"{directory} cannot be read ({error.strerror}); expected a directory; check its permissions"
        ) from None
    paths = [
        directory / name for name in names if name.startswith("round-") and name.endswith(".safetensors")
    ]
    return sorted((path for path in paths if path.is_file()), key=_age, reverse=True)


def _age(path: Path) -> tuple[int, int]:
    with contextlib.suppress(OSError):
        return _round(path), path.stat().st_mtime_ns
    return _round(path), 0


def _round(path: Path) -> int:
    named = _CHECKPOINT.fullmatch(path.name)
    return int(named[1]) if named else -1


def _tidy(saved: Path, round: int) -> None:
    """Remove files that the checkpoint just saved has made useless."""
    others = [path for path in _newest_first(saved.parent) if path != saved and _round(path) >= 0]
    before = next((path for path in others if _round(path) < round and _intact(path)), saved)
    useless = [path for path in others if path != before]
    journals = journal.found(saved.parent).items()
    useless += [path for each, path in journals if not _round(before) <= each <= round]
    _remove(useless)


def sweep(directory: Path) -> None:
    """Remove what processes that died have left half written; only for who has the directory's lock."""
    _remove(directory.glob(files.PREFIX + "*" + files.SUFFIX))


def _remove(useless: Iterable[Path]) -> None:
    for path in useless:
        with contextlib.suppress(OSError):
            path.unlink()


def _intact(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return f"-{files.digest(path.read_bytes())}." in path.name
    return False
