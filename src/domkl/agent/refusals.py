"""Rows of a stream that cannot be used: counted by reason, logged, and kept in a dead-letter file."""

from __future__ import annotations

import logging
import os
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from .config import AgentConfig
from .joining import Message
from .logs import Limited
from .rows import RowRefused

LOG = logging.getLogger(__name__)
#: Bytes of the dead-letter file; a full one is renamed to FILE.1, and the one that was there is dropped.
MOST_BYTES = 5_000_000
#: Characters of a row that are kept.
MOST_CHARACTERS = 10_000
#: Reasons that a summary names.
TOP = 3


class RefusedRows(Counter[str]):
    """Refused rows by reason, beside how many were used; each is logged now and then, and written down."""

    def __init__(self, letters: DeadLetters | None = None, *, is_logged: bool = True) -> None:
        super().__init__()
        self.used = 0
        self.letters = letters or DeadLetters("")
        self.first: RowRefused | None = None
        self._examples: dict[str, str] = {}
        self._limited = Limited(LOG) if is_logged else None

    def note(self, fault: RowRefused, index: int, line: int | None, row: object) -> None:
        """A row that cannot be used: its number in the stream, its line in the source, and what it was."""
        place = f"row {index}" if line is None else f"line {line}"
        self[fault.kind] += 1
        self.first = self.first or RowRefused(fault.kind, f"{place}: {fault.reason}", fault.remedy)
        self._examples.setdefault(fault.kind, f"{place}: {fault.reason}")
        if self._limited is not None:
            self._limited.warn(fault.kind, "row refused", index=index, line=line, reason=fault.reason)
        about = {"index": index, "line": line, "kind": fault.kind, "reason": fault.reason}
        self.letters.write({**about, "remedy": fault.remedy, "row": _text(row)})

    @property
    def read(self) -> int:
        """How many rows came, used or refused."""
        return self.used + self.total()

    def top(self) -> list[str]:
        """The most frequent reasons, with an example of each."""
        most = self.most_common(TOP)
        return [f"{count} {kind}, first {self._examples[kind][:200]}" for kind, count in most]


class DeadLetters:
    """Refused rows as JSON lines; a file that cannot be written costs the record, which is counted."""

    def __init__(self, place: str) -> None:
        self.place, self.lost = place, 0
        self._file: int | None = None
        self._size, self._torn = 0, False
        self._limited = Limited(LOG)

    def write(self, record: dict[str, Any]) -> None:
        """Append a record; nothing is raised."""
        if not self.place:
            return
        try:
            self._append(msgspec.json.encode(record) + b"\n")
        except OSError as error:
            self.lost += 1
            self._limited.warn("dead letter", "dead letter lost", path=self.place, reason=error.strerror)

    def _append(self, line: bytes) -> None:
        if self._file is None:
            self._open()
        elif self._size + len(line) > MOST_BYTES:
            self.close()
            os.replace(self.place, f"{self.place}.1")
            self._open()
        assert self._file is not None
        whole = b"\n" + line if self._torn else line  # a record that was cut short must not spoil this one
        written = os.write(self._file, whole)
        self._size, self._torn = self._size + written, written < len(whole)
        if self._torn:
            raise OSError(0, "there was room for a part of it only")

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NONBLOCK", 0)  # a pipe may be full
        self._file = os.open(self.place, flags, 0o600)
        self._size = os.fstat(self._file).st_size

    def close(self) -> None:
        """Close the file; the next record opens it again."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def letters_of(config: AgentConfig) -> DeadLetters:
    """Where an agent's refused rows go: as its file says, or else beside its checkpoints, if it has any."""
    given, directory = config.stream.dead_letters, config.checkpoint.directory
    if given is None and directory is not None:
        return DeadLetters(str(Path(directory) / "refused.jsonl"))
    return DeadLetters(given or "")


def _text(row: object) -> str:
    """A row as it came, or the beginning of a long one."""
    if isinstance(row, bytes):
        return row[:MOST_CHARACTERS].decode(errors="backslashreplace")
    return (str(row) if isinstance(row, Message) else repr(row))[:MOST_CHARACTERS]
