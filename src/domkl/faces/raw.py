"""Dictionaries of any cells as dictionaries of numbers, one sample after the other, for models that grow.

What a feature is, its first value tells: a number, a time, or a category. A time becomes its hour, weekday
and season, a category an input of 0 or 1 for each of its words, as `domkl.datasets.Encoder` does with tables.

>>> cells = RawCells()
>>> cells.plain({"city": "Rome", "t": 20.5}), cells.plain({"city": "Oslo", "t": None})
({'city=Rome': 1.0, 't': 20.5}, {'city=Rome': 0.0, 'city=Oslo': 1.0, 't': None})
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from datetime import date
from typing import Any

import numpy as np

from ..datasets import cells
from ..datasets.columns import CALENDAR
from ..datasets.encoder import calendar, waves

#: Words of a category that become inputs; later ones are none of them.
MOST_WORDS = 20


class RawCells:
    """The kinds of the features that are no numbers, and the words of their categories so far."""

    def __init__(self) -> None:
        self.times: set[Hashable] = set()
        self.words: dict[Hashable, list[str]] = {}

    def plain(self, x: Mapping[Any, Any]) -> dict[Hashable, Any]:
        """The sample with an input for each word and for each part of a time; numbers stay as they are."""
        found: dict[Hashable, Any] = {}
        for name, value in x.items():
            if name in self.words or name in self.times or isinstance(value, (str, date, np.datetime64)):
                found |= self._parts(name, value)
            else:
                found[name] = value
        return found

    def group(self, inputs: Hashable) -> Hashable:
        """The feature that an input was made of."""
        if isinstance(inputs, str):
            made: list[tuple[str, Callable[[Hashable], bool]]] = [
                ("=", self.words.__contains__), (":", self.times.__contains__)
            ]  # fmt: skip
            for mark, is_known in made:
                name = inputs.partition(mark)[0]
                if name != inputs and is_known(name):
                    return name
        return inputs

    def _parts(self, name: Hashable, value: Any) -> dict[Hashable, Any]:
        is_gone = cells.is_missing(value)
        if name not in self.words and name not in self.times:
            if is_gone or (isinstance(value, str) and cells.is_number(value)):
                return {name: None if is_gone else cells.number(value)}
            if _is_time(value):
                self.times.add(name)
            else:
                self.words[name] = []
        if name in self.times:
            inputs = waves(str(name), CALENDAR)
            if is_gone or not _is_time(value):
                return dict.fromkeys(inputs)
            return dict(zip(inputs, calendar(cells.moment(value), CALENDAR), strict=True))
        words = self.words[name]
        word = "" if is_gone else cells.word(value)
        if word and word not in words and len(words) < MOST_WORDS:
            words.append(word)
        return {f"{name}={each}": float(each == word) for each in words}


def _is_time(value: Any) -> bool:
    try:
        cells.moment(value)
    except ValueError:
        return False
    return True
