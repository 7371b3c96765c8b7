"""What an agent's columns are: as its file says, and guessed from the first rows of a file of readings.

A guess is kept beside the checkpoints, so that a restart encodes rows as before, whatever the file holds.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import DataError, InputError
from ..datasets import guess, readers, table
from ..datasets.columns import Columns
from ..datasets.encoder import Encoder
from .config import AgentConfig
from .files import LONGEST
from .logs import tell
from .rows import RowRefused
from .sections import STORED, TABLES
from .tables import cells_of, header_of, text_of

LOG = logging.getLogger(__name__)
#: Rows that are looked at, and bytes.
FIRST, MOST_BYTES = 200, 2**22
#: The file of a guess, in the directory of the checkpoints.
KEPT = "columns.json"


def completed(config: AgentConfig) -> AgentConfig:
    """The settings with nothing left open about columns; `inputs` is then how many x has."""
    is_table = config.stream.kind in TABLES and not config.columns.features  # its rows have names only
    if config.stream.kind not in STORED or (config.inputs and not is_table):
        return config
    columns = _with_target(config)
    found = _kept(config, columns) or _guessed(config, columns)
    return dataclasses.replace(config, columns=found, inputs=config.inputs or Encoder(found).d)


def keep(given: AgentConfig, config: AgentConfig) -> None:
    """Write down what was guessed; a disk that refuses costs a new guess at the next start."""
    directory, before = config.checkpoint.directory, _with_target(given)
    if directory is None or given.columns == config.columns or _kept(given, before) == config.columns:
        return
    document = {"given": before.table(), "found": config.columns.table()}
    try:
        Path(directory).mkdir(parents=True, exist_ok=True)
        new = Path(directory) / f".{KEPT}.{os.getpid()}"
        new.write_text(json.dumps(document), encoding="utf-8")
        os.replace(new, Path(directory) / KEPT)
    except OSError as error:
        tell(LOG, logging.WARNING, "columns cannot be saved", reason=error.strerror)


def _with_target(config: AgentConfig) -> Columns:
    return dataclasses.replace(config.columns, target=config.target)


def _kept(config: AgentConfig, columns: Columns) -> Columns | None:
    """The guess of an earlier start with the same settings."""
    if config.checkpoint.directory is None:
        return None
    try:
        found = json.loads((Path(config.checkpoint.directory) / KEPT).read_text(encoding="utf-8"))
        if found["given"] == json.loads(json.dumps(columns.table())):
            return Columns.from_table(found["found"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):  # InputError is a ValueError
        pass
    return None


def _guessed(config: AgentConfig, columns: Columns) -> Columns:
    if config.stream.kind in TABLES:
        return _guessed_of_table(config, columns)
    rows = list(itertools.islice(_rows(Path(str(config.stream.path)), config.stream.kind, columns), FIRST))
    if not rows:
        return _without_rows(columns, config.stream.shown)
    if columns.features and config.stream.kind == "jsonl" and not any(columns.target in row for row in rows):
        return columns  # labels come later, with an id
    return _alike(config, columns, Encoder.fit(rows, columns).columns)


def _guessed_of_table(config: AgentConfig, columns: Columns) -> Columns:
    """The same for a Parquet file or a query, whose rows are put in order of time, if they have one."""
    stream = config.stream
    path = Path(str(stream.path))
    if stream.kind == "parquet" and path.exists() and not path.is_file():  # a pipe would never end
        raise DataError(f"{path}: not a regular file; expected a Parquet file; fix [stream] path")
    if stream.kind == "parquet" and stream.follow and not path.exists():
        return _without_rows(columns, stream.shown)
    raw = readers.read(str(stream.path), columns, stream.query, FIRST)
    if not len(raw):
        return _without_rows(columns, stream.shown)
    found = guess.guess(raw.columns, columns, views=False)
    found.check(stream.shown)
    times, rows = table.times_of(raw, Encoder(found.columns)), np.arange(len(raw))
    return _alike(config, columns, table.by_time(times, rows, given_by=found, columns=found.columns)[1])


def _without_rows(columns: Columns, shown: str) -> Columns:
    if columns.features:
        return columns
    raise InputError(
        f"{shown} has no rows yet and [columns] features is not given; expected one of them; name the inputs"
    )


def _alike(config: AgentConfig, given: Columns, found: Columns) -> Columns:
    """A guess that neighbours make, too: of names in order, and of no values that only we have seen."""
    if not config.neighbours:
        return found
    for name in found.categories:
        if name not in given.categories:
            values = json.dumps(list(found.categories[name]))
            raise InputError(
                f"column {name!r} has words, and neighbours may have others; expected the same values "
                f"everywhere; add [columns.categories] {json.dumps(name)} = {values} and theirs"
            )
    features = given.features or tuple(sorted(found.features))
    return dataclasses.replace(found, features=features)


def _rows(path: Path, kind: str, columns: Columns) -> Iterator[Mapping[str, Any]]:
    """The first rows of a file as they are, without those that cannot be read."""
    try:
        with open(path, "rb") as file:
            lines = file.read(MOST_BYTES).split(b"\n")
    except FileNotFoundError:
        return
    except OSError as error:
        raise DataError(
            f"{path} cannot be read: {error.strerror}; expected a readable file; fix the file"
        ) from None
    whole = [line for line in lines[: 2 * FIRST] if line.strip() and len(line) <= LONGEST]
    yield from _objects(whole) if kind == "jsonl" else _cells(whole, columns, path)


def _objects(lines: list[bytes]) -> Iterator[Mapping[str, Any]]:
    for line in lines:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            yield found


def _cells(lines: list[bytes], columns: Columns, path: Path) -> Iterator[Mapping[str, Any]]:
    if not lines:
        return
    try:
        needed = (*columns.features, columns.target)
        separator, names = header_of(text_of(lines[0]).lstrip("\ufeff"), columns, needed)
    except RowRefused as fault:
        raise DataError(f"{path}, header: {fault.reason}; fix the file or [columns]") from None
    for line in lines[1:]:
        try:
            cells = cells_of(text_of(line), separator)
        except RowRefused:
            continue
        if len(cells) == len(names):
            yield dict(zip(names, cells, strict=True))
