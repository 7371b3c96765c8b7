"""Finding data files on this machine and checking that they are the right ones."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ..base.errors import DataError
from ..base.paths import near_file

#: Bytes that any packed file may have, and how many times its size larger ones may.
MOST_UNZIPPED, RATIO = 2**28, 100


@dataclass(frozen=True)
class File:
    """A known file. `digests` are of the uncompressed bytes; any one of them is right.

    `member` is the name inside UCI's zip ("" when it is not there); a file whose
    member ends in .xlsx is that table as CSV.
    """

    name: str
    digests: tuple[str, ...]
    size: int | None = None
    member: str = ""
    git: bool = False  # the digests are git blob sha1, not sha256

    def digest(self, data: bytes) -> str:
        """The digest of `data` in this file's kind.

        >>> File("empty", (), git=True).digest(b"")
        'e69de29bb2d1d6434b8b29ae775ad8c2e48c5391'
        """
        if self.git:
            return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
        return hashlib.sha256(data).hexdigest()

    def check(self, data: bytes, where: Path | str, remedy: str) -> None:
        """Raise unless `data` has a known digest."""
        found = self.digest(data)
        if found not in self.digests:
            kind = "git blob sha1" if self.git else "sha256"
            expected = " or ".join(self.digests)
            raise DataError(
                f"{where}: {kind} is {found}, expected {expected}; damaged or another version: {remedy}"
            )


def cache_dir() -> Path:
    """Where fetched files are kept."""
    if own := os.environ.get("DOMKL_CACHE"):
        return Path(own)
    if xdg := os.environ.get("XDG_CACHE_HOME"):
        return Path(xdg) / "domkl"
    return Path.home() / ".cache" / "domkl"


def places(data_dir: str | os.PathLike[str] | None = None) -> list[Path]:
    """Directories to look in: `data_dir` alone, or $DOMKL_DATA and then the cache."""
    if data_dir is not None:
        return [Path(data_dir)]
    shared = os.environ.get("DOMKL_DATA")
    return ([Path(shared)] if shared else []) + [cache_dir()]


def find(files: Iterable[File], where: Iterable[Path]) -> tuple[File, Path] | None:
    """The first of `files`, in their order, that is there; plain or .gz."""
    where = list(where)
    found = ((f, path) for f in files for d in where for path in _spellings(f, d) if path.is_file())
    return next(found, None)


def _spellings(file: File, directory: Path) -> Iterator[Path]:
    names = [file.name]
    if file.member.endswith(".csv") and file.member != "train.csv":  # any project has a train.csv
        names.append(file.member)
    return (directory / (name + end) for name in names for end in ("", ".gz"))


def unzipped(data: bytes) -> bytes:
    """What gzip has packed; far more than any table packs to so little is refused."""
    most = max(MOST_UNZIPPED, RATIO * len(data))
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        found = file.read(most + 1)
    if len(found) > most:
        raise gzip.BadGzipFile(f"more than {most} bytes from {len(data)}; gunzip it first if that is right")
    return found


def read_bytes(path: Path) -> bytes:
    """The file's bytes, gunzipped if its name ends in .gz."""
    try:
        if path.is_char_device():
            raise DataError(f"{path}: a device, which has no end; expected a file; choose one")
        data = path.read_bytes()
        return unzipped(data) if path.suffix.lower() == ".gz" else data
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; {near_file(path) or 'check the path'}") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path}: not a whole gzip file ({error}); get it again") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); check the path and its rights") from None
