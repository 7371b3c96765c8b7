"""Streams of all learners as blocks of rounds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias, cast

import numpy.typing as npt

from ..base import checks
from ..base.errors import InputError
from ..base.types import Array, Float

#: A block of rounds: X (J, B, d) and y (J, B).
Block: TypeAlias = "tuple[Array, Array]"


def open_stream(
    X: npt.ArrayLike | Iterable[Block], y: npt.ArrayLike | None, dtype: Float, delay: int
) -> tuple[Iterator[Block], tuple[int, int, int], tuple[int, ...]]:
    """The stream as blocks, its J, T (0 if unknown), d, and the further shape of the labels."""
    if y is None:
        blocks = _checked(iter(cast(Iterable[Block], X)), dtype)
        first = next(blocks, None)
        if first is None:
            raise InputError("X holds no block; expected blocks of rounds; give at least one")
        return _again(first, blocks), (first[0].shape[0], 0, first[0].shape[2]), ()
    whole, labels = checks.floats("X", cast(Array, X), dtype), checks.floats("y", y, dtype)
    targets = labels.shape[2:]
    if labels.ndim == 3 and targets == (1,):
        labels = labels[..., 0]
    elif labels.ndim == 3:
        raise InputError(f"y has {targets[0]} targets; expected one; run a network for each of them")
    _check_shapes(whole, labels)
    if delay >= whole.shape[1]:
        raise InputError(
            f"delay is {delay} in {whole.shape[1]} rounds, so no label is learnt; "
            "expected more rounds than delay; give more"
        )
    return iter([(whole, labels)]), (whole.shape[0], whole.shape[1], whole.shape[2]), targets


def _checked(blocks: Iterator[Block], dtype: Float) -> Iterator[Block]:
    for pair in blocks:
        X, y = checks.floats("X", pair[0], dtype), checks.floats("y", pair[1], dtype)
        _check_shapes(X, y)
        yield X, y


def _again(first: Block, rest: Iterator[Block]) -> Iterator[Block]:
    yield first
    yield from rest


def _check_shapes(X: Array, y: Array) -> None:
    if X.ndim != 3 or 0 in X.shape:
        raise InputError(
            f"X has shape {X.shape}; expected (J, T, d): learners, rounds, features; "
            "see domkl.datasets for splitting one table over learners"
        )
    checks.shape("y", y, X.shape[:2], "give one label for each sample of X")
