"""Lines of files that may grow or be replaced, read without blocking the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import io
import logging
import os
import queue
import stat
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

from ..base.errors import DataError
from .logs import Attempts, tell

CHUNK = 1 << 16  # bytes read at once: some hundred rows, a few milliseconds of work
LONGEST = 1 << 20  # bytes of one row
HEAD = 1024  # bytes at a file's top that identify it; inodes are reused
LOG = logging.getLogger(__name__)

T = TypeVar("T")
Numbered: TypeAlias = "list[tuple[int, T]]"  # items with their line, as an editor counts it


class Worker:
    """A thread that makes blocking calls, one after the other.

    asyncio waits for its own pool at exit, so an idle standard input would block the exit.
    """

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], Any] | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="domkl-stream", daemon=True).start()

    async def run(self, call: Callable[[], T]) -> T:
        """Run a call in the thread and return its result."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._jobs.put((call, future))
        return await future

    def close(self, last: Callable[[], None] | None = None) -> None:
        """End the thread after a last call; does not wait for it."""
        if last is not None:
            self._jobs.put((last, None))
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            call, future = job
            result, error = _outcome(call)
            if future is not None:
                _hand_over(future, result, error)


def _outcome(call: Callable[[], T]) -> tuple[T | None, Exception | None]:
    try:
        return call(), None
    except Exception as error:
        return None, error


def _hand_over(future: asyncio.Future[Any], result: object, error: Exception | None) -> None:
    def settle() -> None:
        if future.done():  # cancelled meanwhile
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    with contextlib.suppress(RuntimeError):  # the loop has closed: nobody waits any more
        future.get_loop().call_soon_threadsafe(settle)


class Splitter:
    """Splits bytes into whole lines that are not blank; an unfinished line is held until its end."""

    def __init__(self) -> None:
        self.line, self.rest = 1, b""

    def feed(self, data: bytes) -> Numbered[bytes]:
        *lines, rest = (self.rest + data).split(b"\n")
        self.rest = rest[: LONGEST + 1]  # enough to see that it is too long
        found = [(n, line) for n, line in enumerate(lines, self.line) if line and not line.isspace()]
        self.line += len(lines)
        return found

    def end(self) -> Numbered[bytes]:
        """The last line, if it has no line break."""
        return self.feed(b"\n") if self.rest else []


class Origin(NamedTuple):
    """The file that a reading came from, so that a restart can find out whether it was replaced."""

    first: int  # the number of the file's first reading
    size: int  # bytes read of it
    head: str  # digest of the first of them

    @classmethod
    def of(cls, kept: Sequence[Any]) -> Origin:
        """What a checkpoint has kept; of a table, it is of no file at all."""
        return cls(*kept) if len(kept) == len(cls._fields) else cls(0, 0, "none")


class Tail:
    """Reads a file from its top; with `follow` for ever, and from the top of any file that replaces it.

    A followed file that cannot be read is tried again; `reading.fault` explains it meanwhile. Reading goes on
    where it was if the file then still begins with the same bytes. `known` describes the file of an earlier
    process; `is_known` is whether the file is still that one.
    """

    pause = 0.1  # seconds between two looks at a file that may have grown

    def __init__(self, path: Path, follow: bool, known: Origin | None = None) -> None:
        if not follow and not path.is_file():
            raise DataError(f"{path}: no such file; expected a file of readings; check the path")
        self.path, self.follow, self.known = path, follow, known
        self.is_known = self._is_interrupted = False
        self.opened, self.size, self.head = 0, 0, b""  # how many files; bytes of the last, and its first ones
        self.reading = Attempts(f"readings cannot be read from {path}")
        self._origin, self._begun = known, 0  # of the last batch, and in which file it was
        self._file: io.FileIO | None = None
        self._splitter = Splitter()

    def read(self) -> Numbered[bytes] | None:
        """The next lines; none if there are none yet, None at the end. Blocks: not for the event loop."""
        try:
            lines = self._read()
        except FileNotFoundError:
            return []  # between rotation's two steps, or not written yet
        except OSError as error:
            self._fail(error.strerror or str(error))
            return []
        self.reading.succeed()
        return lines

    def _fail(self, reason: str) -> None:
        if not self.follow:
            raise DataError(
                f"{self.path} cannot be read: {reason}; expected a readable file; fix the file"
            ) from None
        self.reading.fail(reason)
        if self._file is not None:
            self._is_interrupted = True
            self.close()

    def _read(self) -> Numbered[bytes] | None:
        file = self._file or self._open()
        replaced, fault = self._look(file)  # asked before reading: so the old file's end is read
        if data := file.read(CHUNK):
            self.size, self.head = self.size + len(data), self.head + data[: HEAD - len(self.head)]
            return self._splitter.feed(data)
        if fault is not None:
            raise fault
        if replaced:
            self._start_again()
        return [] if self.follow else self._splitter.end() or None

    def _open(self) -> io.FileIO:
        file = io.FileIO(self.path, "rb", opener=without_waiting)
        try:
            self._begin(file)
        except OSError:
            file.close()
            raise
        self._file = file
        return file

    def _begin(self, file: io.FileIO) -> None:
        """Go on where a fault has interrupted reading, or start at the top."""
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        if not self._is_interrupted or not _is_same(file, self.size, digest(self.head)):
            self.is_known = self.known is not None and _is_same(file, self.known.size, self.known.head)
            self._splitter, self.opened, self.size, self.head = Splitter(), self.opened + 1, 0, b""
        file.seek(self.size)
        self._is_interrupted = False

    def _look(self, file: io.FileIO) -> tuple[bool, OSError | None]:
        """Whether another file has taken our file's place, or why that cannot be found out."""
        if not self.follow:
            return False, None
        try:
            now, ours = self.path.stat(), os.fstat(file.fileno())
        except FileNotFoundError:
            return False, None
        except OSError as fault:
            return False, fault
        return (now.st_dev, now.st_ino) != (ours.st_dev, ours.st_ino) or now.st_size < file.tell(), None

    def _start_again(self) -> None:
        # Half a number can look like a number: a line without a line break is not read.
        fields = {"path": str(self.path), "unfinished_bytes": len(self._splitter.rest)}
        tell(LOG, logging.INFO, "file replaced or truncated, reading from its top", **fields)
        self.close()

    def begin(self, index: int, wanted: int) -> int:
        """Use a batch; the number of its first reading, of which `wanted` is the first to hand out."""
        if not self._begun and self.known is not None:
            index = self._resumed(self.known, wanted)
        first = index if self._origin is None or self._begun != self.opened else self._origin.first
        self._begun, self._origin = self.opened, Origin(first, self.size, digest(self.head))
        return index

    def _resumed(self, known: Origin, wanted: int) -> int:
        """The number of the first reading of a file, after a restart."""
        if self.is_known:
            return min(known.first, wanted)
        place = str(self.path)
        tell(LOG, logging.WARNING, "another file since the last start, reading from its top", path=place)
        return wanted

    def origin_at(self, readings: int) -> Origin | None:
        """The file that the last readings came from, however many; None before the first."""
        return self._origin

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def digest(head: bytes) -> str:
    """Identifies a file by its first bytes."""
    return hashlib.sha256(head).hexdigest()[:16]


def _is_same(file: io.FileIO, size: int, head: str) -> bool:
    """Whether a file is one of which so many bytes, with such a head, have been read."""
    file.seek(0)
    return digest(file.read(min(HEAD, size))) == head and os.fstat(file.fileno()).st_size >= size


def without_waiting(path: str, flags: int) -> int:
    """Opens a file; a pipe does not wait for its other end, neither now nor later."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o666)
