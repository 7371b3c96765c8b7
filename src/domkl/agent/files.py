"""Lines of files that may grow or be replaced, read without blocking the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, TypeAlias, TypeVar

from ..base.errors import DataError
from .logs import tell

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


class Tail:
    """Reads a file from its top; with `follow` for ever, and from the top of any file that replaces it."""

    def __init__(self, path: Path, follow: bool) -> None:
        if not follow and not path.is_file():
            raise DataError(f"{path}: no such file; expected a file of readings; check the path")
        self.path, self.follow = path, follow
        self.opened, self.size, self.head = 0, 0, b""  # how many files; bytes of the last, and its first ones
        self._file: IO[bytes] | None = None
        self._splitter = Splitter()

    def read(self) -> Numbered[bytes] | None:
        """The next lines; none if there are none yet, None at the end. Blocks: not for the event loop."""
        try:
            return self._read()
        except FileNotFoundError:
            return []  # between rotation's two steps, or not written yet
        except OSError as error:
            raise DataError(
                f"{self.path} cannot be read: {error.strerror}; expected a readable file; fix the file"
            ) from None

    def _read(self) -> Numbered[bytes] | None:
        file = self._file or self._open()
        replaced = self.follow and self._replaced(file)  # asked before reading: so the old file's end is read
        if data := file.read(CHUNK):
            self.size, self.head = self.size + len(data), self.head + data[: HEAD - len(self.head)]
            return self._splitter.feed(data)
        if replaced:
            self._start_again()
        return [] if self.follow else self._splitter.end() or None

    def _open(self) -> IO[bytes]:
        self._file = self.path.open("rb", buffering=0)
        self._splitter, self.opened, self.size, self.head = Splitter(), self.opened + 1, 0, b""
        return self._file

    def _replaced(self, file: IO[bytes]) -> bool:
        try:
            now, ours = self.path.stat(), os.fstat(file.fileno())
        except FileNotFoundError:
            return False
        return (now.st_dev, now.st_ino) != (ours.st_dev, ours.st_ino) or now.st_size < file.tell()

    def _start_again(self) -> None:
        # Half a number can look like a number: a line without a line break is not read.
        fields = {"path": str(self.path), "unfinished_bytes": len(self._splitter.rest)}
        tell(LOG, logging.INFO, "file replaced or truncated, reading from its top", **fields)
        self.close()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
