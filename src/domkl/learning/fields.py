"""State that is declared once: a concept lists its arrays, and everything else derives from the list.

    class Mixer(Concept):
        age: Array = field("J")
        errors: Array = field("J m E", low=0.0)
        rounds: int = scalar("int64", low=0)

Making the arrays, saving, loading and checking a hostile file read these lines; a new field is one more.
Numbers that somebody chose stand in the class body too, `heat: float = 4.4`, with what they mean beside them:
arguments of the constructor with these defaults.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from ..base.checks import short
from ..base.errors import InputError
from ..base.types import Array

#: No number that a model keeps is larger: the square of it is still finite.
LARGEST = 1e150
#: The most that a counter may be, so that it can go on.
MOST_COUNT = 2.0**53
#: What a matrix of zeros is lifted by, to be factored.
TINY = 1e-200


def prove_semidefinite(name: str, matrices: Array) -> None:
    """Refuse matrices (J, K, K) of a file that are no sums of squares, but for rounding; one factoring each.

    Finite numbers are not enough: with an indefinite matrix a model predicts well until a sample falls where
    it is negative.

    >>> prove_semidefinite("S", np.array([[[2.0, 1.0], [1.0, 2.0]]]))
    >>> prove_semidefinite("S", np.array([[[1.0, 2.0], [2.0, 1.0]]]))
    Traceback (most recent call last):
    domkl.base.errors.InputError: S is no sum of squares; expected a symmetric ...; take another file
    """
    slack = matrices.shape[-1] * float(np.finfo(matrices.dtype).eps)
    for S in matrices.astype(np.float64):
        lift = slack * float(np.abs(S.diagonal()).max(initial=0.0)) + TINY
        try:
            np.linalg.cholesky(S + lift * np.eye(len(S)))  # which reads one half
            good = bool((np.abs(S - S.T) <= lift).all())
        except np.linalg.LinAlgError:
            good = False
        if not good:
            wanted = "a symmetric matrix without negative eigenvalues"
            raise InputError(f"{name} is no sum of squares; expected {wanted}; take another file")


class Field(NamedTuple):
    """One array of a concept's state, or one number."""

    shape: str | None  # names of sizes and numbers, as in "J m K" or "J 32"; None for a number of Python's
    kind: str = "float64"  # a dtype, or "model" for the precision that the model computes in
    first: float = 0.0  # what it holds at first
    low: float = -LARGEST
    high: float = LARGEST
    missing: bool = False  # whether NaN may stand in it
    is_sum: bool = False  # whether it holds sums of squares: matrices with no negative eigenvalue
    name: str = ""


def field(
    shape: str,
    kind: str = "float64",
    first: float = 0.0,
    low: float = -LARGEST,
    high: float = LARGEST,
    missing: bool = False,
    is_sum: bool = False,
) -> Any:
    """Declare an array of a concept, in its class body."""
    most = min(high, MOST_COUNT) if kind == "int64" else high
    return Field(shape, kind, first, low, most, missing, is_sum)


def scalar(kind: str = "float64", first: float = 0, low: float = -LARGEST, high: float | None = None) -> Any:
    """Declare a number of Python's, in the class body of a concept: an int, a float or a bool."""
    most = {"int64": MOST_COUNT, "bool": 1}.get(kind, LARGEST) if high is None else high
    return Field(None, kind, NUMBERS[kind](first), low, most)


#: What numbers are in Python, by the dtype that they would have.
NUMBERS: dict[str, type[Any]] = {"float64": float, "int64": int, "bool": bool}


class Concept:
    """Owns what its class declares, arrays and numbers; subclasses compute with them.

    What happens now and then changes arrays in place: native code may be at work on the same ones.
    """

    FIELDS: ClassVar[tuple[Field, ...]] = ()
    #: Names of attributes that are concepts themselves; their state is part of this one's.
    PARTS: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        declared = [(name, value) for name, value in vars(cls).items() if isinstance(value, Field)]
        cls.FIELDS += tuple(value._replace(name=name) for name, value in declared)

    def choose(self, numbers: Mapping[str, float]) -> None:
        """Take these in place of what the class has chosen.

        >>> class Mixer(Concept):
        ...     heat: float = 4.4
        ...
        ...     def __init__(self, **chosen: float) -> None:
        ...         self.choose(chosen)
        >>> Mixer().heat, Mixer(heat=5.0).heat
        (4.4, 5.0)
        >>> Mixer(cold=5.0)
        Traceback (most recent call last):
        TypeError: Mixer has no number 'cold' to choose
        """
        for name, value in numbers.items():
            if not isinstance(getattr(type(self), name, None), int | float):
                raise TypeError(f"{type(self).__name__} has no number {name!r} to choose")
            setattr(self, name, value)

    def allocate(self, dtype: Any = np.float64, **sizes: int) -> None:
        """Make every field with its first value; `sizes` gives the letters of the shapes."""
        self.sizes, self.dtype = sizes, np.dtype(dtype)
        for field in self.FIELDS:
            if field.shape is None:
                setattr(self, field.name, field.first)
            else:
                setattr(self, field.name, np.full(self.shape_of(field), field.first, self.kind_of(field)))

    def shape_of(self, field: Field) -> tuple[int, ...]:
        """The shape of a field, as numbers."""
        return tuple(
            int(size) if size.isdigit() else self.sizes[size] for size in (field.shape or "").split()
        )

    def kind_of(self, field: Field) -> np.dtype[Any]:
        """The dtype of a field."""
        return self.dtype if field.kind == "model" else np.dtype(field.kind)

    def state(self) -> dict[str, Any]:
        """A copy of every field, by name."""
        own = {field.name: copy.copy(getattr(self, field.name)) for field in self.FIELDS}
        return {**own, **{name: getattr(self, name).state() for name in self.PARTS}}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Inverse of `state`; what no model can have is refused with an `InputError`."""
        for field in self.FIELDS:
            value = self._checked(field, state.get(field.name))
            if field.shape is None:
                setattr(self, field.name, value)
            else:
                getattr(self, field.name)[...] = value
        for name in self.PARTS:
            getattr(self, name).restore(state[name])

    def _checked(self, field: Field, value: Any) -> Any:
        where = f"{type(self).__name__}.{field.name}"
        if field.shape is None:
            if type(value) is not NUMBERS[field.kind] or not field.low <= value <= field.high:
                wanted = f"{field.kind} of {field.low} to {field.high}"
                raise InputError(f"{where} is {short(value)}; expected {wanted}; take another file")
            return value
        found, shape, kind = np.asarray(value), self.shape_of(field), self.kind_of(field)
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
        if field.is_sum:
            prove_semidefinite(where, found)
        return np.array(found)

    def _with_size(self, letter: str) -> Iterator[tuple[Field, int]]:
        """The fields with a size of that name, and its axis."""
        for field in self.FIELDS:
            if letter in (field.shape or "").split():
                yield field, (field.shape or "").split().index(letter)

    def lengthen(self, letter: str, size: int) -> None:
        """Have more of what that letter counts; the new ones come last, with the first values."""
        more, self.sizes[letter] = size - self.sizes[letter], size
        for field, axis in self._with_size(letter):
            value = getattr(self, field.name)
            room = [(0, more if i == axis else 0) for i in range(value.ndim)]
            setattr(self, field.name, np.pad(value, room, constant_values=field.first))

    def widen_targets(self, m: int) -> None:
        """Have m targets from now on, if it has targets."""
        if "m" in self.sizes:
            self.lengthen("m", m)

    def keep_target(self, k: int) -> None:
        """Have target k alone from now on, if it has targets."""
        self.sizes.update({"m": 1} if "m" in self.sizes else {})
        for field, axis in self._with_size("m"):
            setattr(self, field.name, np.take(getattr(self, field.name), [k], axis))

    def reset(self, rows: Any, *names: str) -> None:
        """Give rows the first values of some fields, or of all."""
        for field in self.FIELDS:
            if not names or field.name in names:
                getattr(self, field.name)[rows] = field.first


@contextmanager
def unchanged(missing: npt.NDArray[np.bool_] | None, *concepts: Concept) -> Iterator[None]:
    """Leave targets (J, m) that are missing, and rows without any other, as they are. None: none is."""
    if missing is None:
        yield
        return
    before, rows = [concept.state() for concept in concepts], missing.all(1)
    yield
    for concept, state in zip(concepts, before, strict=True):
        for field in concept.FIELDS:
            at = missing if (field.shape or "").startswith("J m") else rows
            getattr(concept, field.name)[at] = state[field.name][at]
