"""A lock on a state directory, so that two agents never write to one; the kernel frees it at any death."""

from __future__ import annotations

import contextlib
import os
import weakref
from pathlib import Path

try:
    import fcntl
except ImportError:  # only POSIX has it; elsewhere nothing keeps a second agent away
    fcntl = None  # type: ignore[assignment]

#: The lock's file in the directory; it holds the process id of the agent that has the lock.
NAME = "lock"


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
        self._path = Path(directory) / NAME
        self._held: weakref.finalize[..., Lock] | None = None  # closes the file, if need be when we are gone

    @property
    def is_held(self) -> bool:
        """Whether this object has the lock."""
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
