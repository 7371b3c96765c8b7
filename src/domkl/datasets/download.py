"""Fetching UCI's zips into the user's cache."""

from __future__ import annotations

import contextlib
import gzip
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from ..base import checks
from ..base.errors import DataError
from .files import File, cache_dir, find, read_bytes
from .sources import SOURCES, STATIONS, WAVE_DIGESTS, DataSource
from .uci import _files, _only, _resolve

UCI = "https://archive.ics.uci.edu/static/public"
TIMEOUT = 60.0
CHUNK = 1 << 16

Progress = Callable[[int, "int | None"], None]


def fetch(
    name: str,
    *,
    cache: str | os.PathLike[str] | None = None,
    base_url: str = UCI,
    progress: Progress | None = None,
    farm: str = "adelaide",
) -> Path:
    """Download a dataset's file into the cache, verify it, and return its path.

    A good file that is there already is kept and nothing is downloaded. A failure
    leaves the cache as it was. The stations come with domkl: theirs is the shipped file.
    `progress(done, total)` is called with bytes; `total`
    is None when the server does not tell. Air quality comes from the Excel sheet, or,
    if that is not the known one, from UCI's CSV, whose values are rounded.
    """
    if name == "stations":
        return STATIONS
    key, _ = _resolve(name)
    files = _files(key, checks.one_of("farm", farm, WAVE_DIGESTS), None)
    _only("farm", farm != "adelaide", key, "wave_energy")
    directory = Path(cache) if cache is not None else cache_dir()
    if kept := _kept(files, directory):
        return kept
    with _writing_into(directory), _temporary(directory) as new, new.open("w+b") as body:
        _download(_url(SOURCES[key], base_url), body, progress)
        return _store([file for file in files if file.member], body, directory)


@contextlib.contextmanager
def _writing_into(directory: Path) -> Iterator[None]:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise DataError(
            f"{directory}: cannot be written into ({error.strerror}); expected a directory to keep files in; "
            "choose another with --cache or DOMKL_CACHE"
        ) from None


def _kept(files: tuple[File, ...], directory: Path) -> Path | None:
    """A good file that is there already."""
    found = find(files, [directory])
    if found is None:
        return None
    file, path = found
    try:
        file.check(read_bytes(path), path, "")
    except DataError:
        return None
    return path


def _url(source: DataSource, base_url: str) -> str:
    return f"{base_url.rstrip('/')}/{source.uci}/{source.slug}.zip"


@contextlib.contextmanager
def _temporary(directory: Path) -> Iterator[Path]:
    """An empty file in `directory` that is gone afterwards, unless it was renamed."""
    handle, name = tempfile.mkstemp(prefix=".fetch-", dir=directory)
    os.close(handle)
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _download(url: str, body: IO[bytes], progress: Progress | None) -> None:
    """Stream `url` into `body`."""
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import urlopen

    remedy = "try again, or download it by hand and set DOMKL_DATA to its directory"
    try:
        with urlopen(url, timeout=TIMEOUT) as answer:
            length = answer.headers.get("Content-Length")
            total = int(length) if length else None
            done = _copy(answer, body, total, progress)
    except HTTPError as error:
        error.close()
        raise DataError(f"{url}: the server answered {error.code} {error.reason}; {remedy}") from None
    except (OSError, HTTPException, ValueError) as error:
        raise DataError(f"{url}: no connection or a broken one ({error}); {remedy}") from None
    if total is not None and done != total:
        raise DataError(f"{url}: the connection broke after {done} of {total} bytes; {remedy}")


def _copy(answer: IO[bytes], body: IO[bytes], total: int | None, progress: Progress | None) -> int:
    done = 0
    while chunk := answer.read(CHUNK):
        body.write(chunk)
        done += len(chunk)
        if progress:
            progress(done, total)
    return done


def _store(files: list[File], body: IO[bytes], directory: Path) -> Path:
    """Put the first of `files` that the zip holds in a good state into the cache."""
    failure: DataError | None = None
    for file in files:
        try:
            data = _extract(body, file)
            file.check(data, f"{file.member} in the download", "UCI may have changed it; nothing was kept")
        except DataError as error:
            failure = error
            continue
        return _replace(directory / file.name, data)
    assert failure is not None  # every source has a file that UCI's zip holds
    raise failure


def _extract(body: IO[bytes], file: File) -> bytes:
    """The bytes of the file, which may be gzipped or in a folder inside the zip."""
    import zlib
    from zipfile import BadZipFile, ZipFile

    from .xlsx import to_csv

    try:
        with ZipFile(body) as archive:
            names = {name.rsplit("/", 1)[-1]: name for name in archive.namelist()}
            member = names.get(file.member) or names.get(file.member + ".gz")
            if member is None:
                raise DataError(f"the download holds no {file.member}, only {', '.join(names)}; tell domkl")
            data = archive.read(member)
            data = gzip.decompress(data) if member.endswith(".gz") else data
    except (BadZipFile, OSError, EOFError, zlib.error, NotImplementedError) as error:
        raise DataError(f"the download is not a whole zip ({error}); try again") from None
    return to_csv(data) if file.member.endswith(".xlsx") else data


def _replace(path: Path, data: bytes) -> Path:
    """Write atomically: readers see the old file or the whole new one."""
    with _temporary(path.parent) as new:
        new.write_bytes(data)
        os.replace(new, path)
    return path
