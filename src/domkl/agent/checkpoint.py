"""A learner's state on disk: if a write is interrupted, the state before it remains.

    round-<n>-<digest>.safetensors   a checkpoint; the digest is of all its bytes
    journal-<n>.jsonl                records since the checkpoint of round n, a line each

One process writes to a directory at a time. A checkpoint has its name only once all of it is on disk, so a
file whose digest is not that in its name was damaged later, or is not ours.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy.typing as npt

from ..base import checks
from ..base.errors import DataError, InputError
from ..learner import files

_FORMAT = "domkl checkpoint 2"
_CHECKPOINT = re.compile(r"round-(0|[1-9][0-9]{0,15})-([0-9a-f]{32})\.safetensors", re.ASCII)
_JOURNAL = re.compile(r"journal-(0|[1-9][0-9]{0,15})\.jsonl", re.ASCII)


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
) -> Path:
    """Write a checkpoint; of those before it the newest intact one is kept, the others are removed.

    Later ones are removed too: they are of a history that was dropped. `meta` is anything JSON can hold.
    Without `sync` the operating system may still lose the checkpoint when the power fails.

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
    content = files.content({"format": _FORMAT, "round": str(round)}, arrays, meta)
    digest = files.digest(content)
    path = Path(directory) / f"round-{round}-{digest}.safetensors"
    with files.writing(path.parent):
        _make(path.parent, sync)
        # A journal of this round belongs to a checkpoint that is given up; it must not meet the new one.
        _journal_path(path.parent, round).unlink(missing_ok=True)
        files.replace(path, content, sync)
    _tidy(path, round)
    return path


def load(directory: str | Path) -> Checkpoint | None:
    """The newest intact checkpoint; None if there are no such files."""
    skipped: list[str] = []
    for path in _newest_first(Path(directory)):
        try:
            return _read(path)._replace(skipped=tuple(skipped))
        except (OSError, DataError) as error:
            skipped.append(f"{path.name}: {getattr(error, 'strerror', None) or error}")
    if skipped:
        raise DataError(
            f"no checkpoint in {directory} can be used ({'; '.join(skipped)}); expected an intact one; "
            "restore one from a backup, or move these files away to start again"
        )
    return None


class Journal:
    """Records between two checkpoints, each a line with a checksum over it and all before it.

    After each `save`, `start` it again; after each `load`, `resume` it. Records belong to one checkpoint
    and are removed with it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     with Journal(directory) as journal:
    ...         journal.start(7)
    ...         journal.append({"round": 8, "peer": "b"}, sync=True)
    ...     with Journal(directory) as journal:
    ...         journal.resume(7)
    [{'round': 8, 'peer': 'b'}]
    """

    def __init__(self, directory: str | Path) -> None:
        self._directory = Path(directory)
        self._file: io.FileIO | None = None
        self._round = self._checksum = self._size = 0

    def start(self, round: int, *, sync: bool = True) -> None:
        """Start the empty journal of the checkpoint of that round."""
        self._open(round, _Lines([], 0, _seed(round)), sync)

    def resume(self, round: int) -> list[dict[str, Any]]:
        """Continue the journal of that checkpoint, and return its records.

        A last line that is incomplete or damaged is removed.
        """
        lines = _lines(_journal_path(self._directory, round), round)
        self._open(round, lines, sync=True)
        return lines.records

    def later(self, round: int) -> list[dict[str, Any]]:
        """Records after later checkpoints, for when those are damaged."""
        found = (_JOURNAL.fullmatch(path.name) for path in self._directory.iterdir())
        rounds = sorted(int(name[1]) for name in found if name is not None and int(name[1]) > round)
        paths = [(_journal_path(self._directory, each), each) for each in rounds]
        return [record for path, each in paths for record in _lines(path, each).records]

    def append(self, record: Mapping[str, Any], sync: bool = False) -> None:
        """Add a record; with `sync` it is safe on disk when this returns."""
        file, text = self._opened(), files.as_json("record", record)
        checksum = zlib.crc32(text, self._checksum)
        line = b"%08x %s\n" % (checksum, text)
        with files.writing(self._directory):
            try:
                files.write(file, line, sync)
            except OSError:
                file.truncate(self._size)  # or the next line would follow half of this one
                raise
        self._checksum, self._size = checksum, self._size + len(line)

    def read(self) -> list[dict[str, Any]]:
        """All records so far."""
        self._opened()
        return _lines(_journal_path(self._directory, self._round), self._round).records

    def close(self) -> None:
        """Close the file; `start` and `resume` open one again."""
        if self._file is not None:
            self._file.close()
        self._file = None

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _opened(self) -> io.FileIO:
        if self._file is None:
            raise InputError("no journal is open; expected one; call start() or resume() first")
        return self._file

    def _open(self, round: int, lines: _Lines, sync: bool) -> None:
        self.close()
        self._round, self._checksum, self._size = round, lines.checksum, lines.size
        with files.writing(self._directory):
            _make(self._directory, sync)
            path = _journal_path(self._directory, round)
            self._file = io.FileIO(path, "ab", opener=_private)
            self._file.truncate(lines.size)
            if sync:
                os.fsync(self._file.fileno())
                files.sync_directory(self._directory)


class _Lines(NamedTuple):
    records: list[dict[str, Any]]
    size: int  # bytes of the good lines
    checksum: int


def _lines(path: Path, round: int) -> _Lines:
    """The good lines of a journal; only its last line may be bad."""
    content = _journal_content(path)
    records: list[dict[str, Any]] = []
    size, checksum = 0, _seed(round)
    while size < len(content):
        end = content.find(b"\n", size) + 1  # 0: the line was cut off
        record = _record(content[size:end], checksum)
        if record is None:
            if 0 < end < len(content):
                raise DataError(
                    f"{path} is damaged at line {len(records) + 1}; expected that of the last at most; "
                    f"move it away to go on from the checkpoint of round {round} alone"
                )
            break
        records.append(record)
        checksum, size = int(content[size : size + 8], 16), end
    return _Lines(records, size, checksum)


def _journal_content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise DataError(
            f"{path} cannot be read ({error.strerror}); expected a journal; check its permissions"
        ) from None


def _record(line: bytes, before: int) -> dict[str, Any] | None:
    text = line[9:-1]
    if line[:9] != b"%08x " % zlib.crc32(text, before):
        return None
    try:
        record = json.loads(text)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def _seed(round: int) -> int:
    """Start of a journal's checksums, so that lines of another round do not fit."""
    return zlib.crc32(b"journal %d" % round)


def _journal_path(directory: Path, round: int) -> Path:
    return directory / f"journal-{checks.count('round', round, least=0)}.jsonl"


def _read(path: Path) -> Checkpoint:
    named = _CHECKPOINT.fullmatch(path.name)
    if named is None:
        raise DataError("its name is not that of a checkpoint")
    content = path.read_bytes()
    if files.digest(content) != named[2]:
        raise DataError("its content is not what its name says")
    about, arrays = files.parsed(content)
    if about.get("format") != _FORMAT or about.get("round") != named[1]:
        raise DataError("it is not a checkpoint of this round in this format")
    return Checkpoint(int(named[1]), arrays, files.meta(about))


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
    kept = {round, _round(before)}
    journals = (path for path in saved.parent.iterdir() if _JOURNAL.fullmatch(path.name))
    useless = [path for path in others if path != before]
    useless += [path for path in journals if int(path.stem.split("-")[1]) not in kept]
    useless += saved.parent.glob(files.PREFIX + "*" + files.SUFFIX)
    for path in useless:
        with contextlib.suppress(OSError):  # it costs space, and the next save tries again
            path.unlink()


def _intact(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return f"-{files.digest(path.read_bytes())}." in path.name
    return False


def _make(directory: Path, sync: bool) -> None:
    if directory.is_dir():
        return
    _make(directory.parent, sync)
    directory.mkdir(mode=0o700, exist_ok=True)
    if sync:
        files.sync_directory(directory.parent)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
