"""State that is declared once: a concept lists its arrays, and everything else derives from the list.

    class Mixer(Concept):
        age: Array = field("J")
        errors: Array = field("J m E", low=0.0)

Making the arrays, saving, loading and checking a hostile file read these lines; a new field is one more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..base.errors import InputError
from ..base.types import Array

#: No number that a model keeps is larger: the square of it is still finite.
LARGEST = 1e150
#: The most that a counter may be, so that it can go on.
MOST_COUNT = 2.0**53


class Field(NamedTuple):
    """One array of a concept's state."""

    shape: str  # names of sizes and numbers, as in "J m K" or "J 32"
    kind: str = "float64"  # a dtype, or "model" for the precision that the model computes in
    first: float = 0.0  # what it holds at first
    low: float = -LARGEST
    high: float = LARGEST
    missing: bool = False  # whether NaN may stand in it
    name: str = ""


def field(
    shape: str,
    kind: str = "float64",
    first: float = 0.0,
    low: float = -LARGEST,
    high: float = LARGEST,
    missing: bool = False,
) -> Any:
    """Declare an array of a concept, in its class body."""
    most = min(high, MOST_COUNT) if kind == "int64" else high
    return Field(shape, kind, first, low, most, missing)


class Concept:
    """Owns the arrays that its class declares, one row a device; subclasses compute with them."""

    FIELDS: ClassVar[tuple[Field, ...]] = ()

    def __init_subclass__(cls) -> None:
        declared = [(name, value) for name, value in vars(cls).items() if isinstance(value, Field)]
        cls.FIELDS = tuple(value._replace(name=name) for name, value in declared)

    def allocate(self, dtype: Any, **sizes: int) -> None:
        """Make every array with its first value; `sizes` gives the letters of the shapes."""
        self.sizes, self.dtype = sizes, np.dtype(dtype)
        for field in self.FIELDS:
            setattr(self, field.name, np.full(self.shape_of(field), field.first, self.kind_of(field)))

    def shape_of(self, field: Field) -> tuple[int, ...]:
        """The shape of a field, as numbers."""
        return tuple(int(size) if size.isdigit() else self.sizes[size] for size in field.shape.split())

    def kind_of(self, field: Field) -> np.dtype[Any]:
        """The dtype of a field."""
        return self.dtype if field.kind == "model" else np.dtype(field.kind)

    def state(self) -> dict[str, Array]:
        """A copy of every array, by name."""
        return {field.name: np.array(getattr(self, field.name)) for field in self.FIELDS}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Inverse of `state`; what no model can have is refused with an `InputError`."""
        for field in self.FIELDS:
            setattr(self, field.name, self._checked(field, state.get(field.name)))

    def _checked(self, field: Field, value: Any) -> Array:
        found, shape, kind = np.asarray(value), self.shape_of(field), self.kind_of(field)
        where = f"{type(self).__name__}.{field.name}"
        if value is None or found.shape != shape or found.dtype != kind:
            raise InputError(
                f"{where} is {found.dtype} {found.shape}; expected {kind} {shape}; take another file"
            )
        plain = found[~np.isnan(found)] if field.missing and kind.kind == "f" else found
        # As Python's floats: 1e150 is too large for float32. NaN is neither.
        if plain.size and not (float(plain.min()) >= field.low and float(plain.max()) <= field.high):
            raise InputError(
                f"{where} holds {plain.min()} to {plain.max()}; expected {field.low} to {field.high};"
                " take another file"
            )
        return np.array(found)

    def put_back(self, before: Mapping[str, Array], missing: Any) -> None:
        """Give targets (J, m) that are missing, and rows without any other, the state of before."""
        rows = missing.all(1)
        for field in self.FIELDS:
            at = missing if field.shape.startswith("J m") else rows
            getattr(self, field.name)[at] = before[field.name][at]

    def reset(self, rows: Any, *names: str) -> None:
        """Give rows the first values of some fields, or of all."""
        for field in self.FIELDS:
            if not names or field.name in names:
                getattr(self, field.name)[rows] = field.first


def fields_of(part: Any) -> dict[str, Any]:
    """The state of a part whose FIELDS are names of attributes, arrays or numbers of any size."""
    return {name: getattr(part, name) for name in part.FIELDS}


def set_fields(part: Any, state: Mapping[str, Any]) -> None:
    """Inverse of `fields_of`."""
    for name in part.FIELDS:
        setattr(part, name, state[name])
