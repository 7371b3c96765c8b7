"""What reading something may cost, counted while it is read: a small file may claim anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from .errors import DataError

#: Bytes that are read at once.
PIECE = 2**20


@dataclass(frozen=True)
class Budget:
    """The most that one source may have, and may take."""

    rows: int = 10**7
    columns: int = 10_000
    cells: int = 5 * 10**7
    learners: int = 2000
    bytes: int = 2**30
    seconds: float = 300.0  # of a query


#: Of tables; of files with settings or a password; of models and checkpoints.
TABLE, SETTINGS, STATE = Budget(), Budget(bytes=2**18), Budget(bytes=2**31)


class Spent:
    """Counts what one source has taken, by a `clock` in seconds too; one thing too many is a `DataError`.

    >>> spent = Spent("my.csv", Budget(rows=2))
    >>> spent.row(3), spent.row(3)
    (None, None)
    >>> spent.row(3)
    Traceback (most recent call last):
    domkl.base.errors.DataError: my.csv: more than 2 rows; expected fewer; leave some out, ...
    """

    def __init__(
        self, name: str, budget: Budget | None = None, clock: Callable[[], float] = lambda: 0.0
    ) -> None:
        self.name, self.budget = name, TABLE if budget is None else budget
        self._clock, self._end = clock, clock() + self.budget.seconds
        self._rows = self._cells = self._bytes = 0

    @property
    def is_overdue(self) -> bool:
        """Whether it takes too long."""
        return self._clock() > self._end

    def row(self, cells: int) -> None:
        """One more row with so many cells."""
        self.table(1, cells)

    def table(self, rows: int, columns: int) -> None:
        """So many more rows of so many cells each."""
        self._rows += rows
        self._cells += rows * columns
        budget = self.budget
        if columns > budget.columns:
            raise self._refusal(budget.columns, "columns")
        if self._rows > budget.rows:
            raise self._refusal(budget.rows, "rows")
        if self._cells > budget.cells:
            raise self._refusal(budget.cells, "cells")

    def size(self, count: int) -> None:
        """So many more bytes, or characters."""
        self._bytes += count
        if self._bytes > self.budget.bytes:
            raise self._refusal(self.budget.bytes, "bytes")

    def check_time(self) -> None:
        """Refuse to go on for longer."""
        if self.is_overdue:
            raise self._refusal(self.budget.seconds, "seconds")

    def whole(self, file: BinaryIO) -> bytes:
        """All bytes of a file, or of a pipe that may have no end."""
        pieces = []
        while piece := file.read(PIECE):
            self.size(len(piece))
            pieces.append(piece)
        return b"".join(pieces)

    def _refusal(self, most: float, unit: str) -> DataError:
        return DataError(
            f"{self.name}: more than {most:,.0f} {unit}; expected fewer; leave some out, or "
            "choose what is needed with a query"
        )


def read(path: str | Path, budget: Budget | None = None) -> bytes:
    """A file's bytes; raises OSError as `open` does."""
    with Path(path).open("rb") as file:
        return Spent(str(path), budget).whole(file)
