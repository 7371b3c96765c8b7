"""Inputs that never come: a misspelt path makes an input missing for ever, and nothing else would tell."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..datasets.columns import is_flat
from ..datasets.encoder import Encoder
from .logs import tell

LOG = logging.getLogger(__name__)
#: Readings after which an input that none of them had is reported, and which names of a reading are shown.
READINGS, NAMES, LONGEST = 20, 20, 80


class Absent:
    """Looks at the first readings, and warns once of the columns that none of them had."""

    def __init__(self, encoder: Encoder) -> None:
        self._columns, self._seen = encoder.columns, 0
        self._left: dict[str, slice] = {}
        start = 0
        for part in encoder.parts:
            self._left[part.name] = slice(start, start + len(part.inputs))
            start += len(part.inputs)

    def look(self, x: Sequence[float], record: Mapping[str, Any]) -> None:
        """Note which columns a reading has: numbers that are known, a value among a category's."""
        if not self._left:
            return
        for name, place in list(self._left.items()):
            if any(math.isfinite(v) and (v != 0 or self._is_number(name)) for v in x[place]):
                del self._left[name]
        self._seen += 1
        if self._left and self._seen >= READINGS:
            self._warn(record)
            self._left = {}

    def _is_number(self, name: str) -> bool:
        """Whether zero is a value; of a word it means that it is missing, or none of the category's."""
        kind = self._columns.kinds.get(name, "number")
        return kind in ("number", "boolean") and name not in self._columns.categories

    def _warn(self, record: Mapping[str, Any]) -> None:
        """Say which, where they were looked for, and what a reading has."""
        paths = self._columns.paths
        where = [f"{name} ({paths[name]})" if name in paths else name for name in self._left]
        names = record if is_flat(record) else self._columns.flatten(record)
        has = [str(name)[:LONGEST] for name in list(names)[:NAMES]]
        remedy = "fix [columns] features or paths, or leave it out"
        tell(
            LOG,
            logging.WARNING,
            "input never came",
            columns=where,
            readings=self._seen,
            has=has,
            remedy=remedy,
        )
