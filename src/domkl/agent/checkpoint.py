"""A learner's state on disk: if a write is interrupted, the state before it remains.

    round-<n>-<digest>.safetensors   a checkpoint; the digest is of all its bytes
    journal-<n>.jsonl                records since the checkpoint of round n, a line each
    lock                             see `Lock`: one process writes to a directory at a time

A checkpoint has its name only once all of it is on disk, so a file whose digest is not that in its name was
damaged later, or is not ours.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import weakref
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy.typing as npt

from ..base import budget, checks
from ..base.errors import DataError, InputError
from ..learner import files

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
    content = budget.read(path, budget.STATE)
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
    journals = _journals_in(saved.parent).items()
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
    with contextlib.suppress(OSError, DataError):
        return f"-{files.digest(budget.read(path, budget.STATE))}." in path.name
    return False


_JOURNAL = re.compile(r"journal-(0|[1-9][0-9]{0,15})\.jsonl", re.ASCII)


class Journal:
    """Records between two checkpoints, each a line with a checksum over it and all before it.

    `start` it with each checkpoint of a new round; after each `load`, `resume` it. It is removed with its
    checkpoint. The file is opened by the first `append`, and again after one that failed.

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
        self.round: int | None = None  # of its checkpoint; None before it is started
        self._checksum = self._size = 0

    def start(self, round: int, records: Iterable[Mapping[str, Any]] = (), *, sync: bool = True) -> None:
        """Start the journal of the checkpoint of that round with some records; if that fails, the one before
        goes on."""
        content, checksum = b"", _seed(round)
        for record in records:
            line, checksum = _line(record, checksum)
            content += line
        with files.writing(self._directory):
            files.make_directory(self._directory, sync)
            files.replace(_journal_path(self._directory, round), content, sync)
        self._continue(round, len(content), checksum)

    def resume(self, round: int) -> list[dict[str, Any]]:
        """Continue the journal of that checkpoint, and return its records.

        A last line that is incomplete or damaged is ignored, and overwritten by the next.
        """
        lines = _lines(_journal_path(self._directory, round), round)
        self._continue(round, lines.size, lines.checksum)
        return lines.records

    def later(self, round: int) -> list[dict[str, Any]]:
        """Records after later checkpoints, for when those are damaged."""
        paths = sorted((each, path) for each, path in _journals_in(self._directory).items() if each > round)
        return [record for each, path in paths for record in _lines(path, each).records]

    def append(self, record: Mapping[str, Any], sync: bool = False) -> None:
        """Add a record; with `sync` it is safe on disk when this returns."""
        line, checksum = _line(record, self._checksum)
        with files.writing(self._directory):
            try:
                files.write(self._opened(sync), line, sync)
            except OSError:
                self.close()  # opened again, it is cut to its good lines first
                raise
        self._checksum, self._size = checksum, self._size + len(line)

    def read(self) -> list[dict[str, Any]]:
        round = self._started()
        return _lines(_journal_path(self._directory, round), round).records

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _started(self) -> int:
        if self.round is None:
            raise InputError("no journal is started; expected one; call start() or resume() first")
        return self.round

    def _continue(self, round: int, size: int, checksum: int) -> None:
        self.close()
        self.round, self._size, self._checksum = round, size, checksum

    def _opened(self, sync: bool) -> io.FileIO:
        if self._file is None:
            path = _journal_path(self._directory, self._started())
            self._file = io.FileIO(path, "ab", opener=_private)
            self._file.truncate(self._size)
            if sync:
                files.sync_directory(self._directory)
        return self._file


def _line(record: Mapping[str, Any], before: int) -> tuple[bytes, int]:
    """A record as a line, and the checksum over it and all before it."""
    text = files.as_json("record", record)
    checksum = zlib.crc32(text, before)
    return b"%08x %s\n" % (checksum, text), checksum


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
        record = _record_of(content[size:end], checksum)
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
        return budget.read(path, budget.STATE)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise DataError(
            f"{path} cannot be read ({error.strerror}); expected a journal; check its permissions"
        ) from None


def _record_of(line: bytes, before: int) -> dict[str, Any] | None:
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


def _journals_in(directory: Path) -> dict[int, Path]:
    """The journals in a directory, by the rounds of their checkpoints."""
    named = ((_JOURNAL.fullmatch(path.name), path) for path in directory.iterdir())
    return {int(name[1]): path for name, path in named if name is not None}


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


try:
    import fcntl
except ImportError:  # only POSIX has it; elsewhere nothing keeps a second agent away
    fcntl = None  # type: ignore[assignment]

#: The lock's file in the directory; it holds the process id of the agent that has the lock.
LOCK = "lock"


class Lock:
    """An exclusive lock on a directory; `take` it before anything there is written.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     one, two = Lock(directory), Lock(directory)
    ...     one.take() or "free", two.take() == f"process {os.getpid()}"
    ...     one.release()
    ...     two.take() or "free"
    ('free', True)
    'free'
    """

    def __init__(self, directory: str | Path) -> None:
        self._path = Path(directory) / LOCK
        self._held: weakref.finalize[..., Lock] | None = None  # closes the file, if need be when we are gone

    @property
    def is_held(self) -> bool:
        return self._held is not None

    def take(self) -> str:
        """Take the lock; "" if we have it now, or who has it. OSError if the file cannot be opened."""
        if self.is_held or fcntl is None:
            return ""
        # Not for writing: a read-only disk can be locked too, and one that is locked be made read-only.
        number = os.open(self._path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        held = weakref.finalize(self, os.close, number)
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(number, 20, 0).decode("ascii", "replace").strip()
            held()
            if not isinstance(error, BlockingIOError):
                raise
            return f"process {holder or 'unknown'}"
        self._held = held
        self._write_id()
        return ""

    def _write_id(self) -> None:
        """Write our process id, if the disk lets us; the lock is ours in any case."""
        with contextlib.suppress(OSError):
            self._path.write_bytes(b"")  # better no number than that of an earlier process
            self._path.write_bytes(b"%d\n" % os.getpid())

    def release(self) -> None:
        """Release the lock; the file stays, as removing it would race with others that open it."""
        if self._held is not None:
            self._held()
            self._held = None
