"""Records between two checkpoints of an agent, on disk before what they describe is learnt."""

from __future__ import annotations

import io
import json
import os
import re
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from ..base import checks
from ..base.errors import DataError, InputError
from ..learner import files

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
        paths = sorted((each, path) for each, path in found(self._directory).items() if each > round)
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
        """All records so far."""
        round = self._started()
        return _lines(_journal_path(self._directory, round), round).records

    def close(self) -> None:
        """Close the file."""
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


def found(directory: Path) -> dict[int, Path]:
    """The journals in a directory, by the rounds of their checkpoints."""
    named = ((_JOURNAL.fullmatch(path.name), path) for path in directory.iterdir())
    return {int(name[1]): path for name, path in named if name is not None}


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
