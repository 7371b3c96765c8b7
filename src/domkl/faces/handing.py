"""Handing a taught model over to agents: see `domkl.learner.handed`."""

from __future__ import annotations

import copy
import os
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from ..base.errors import InputError
from ..learner import handed
from ..learner.handed import HandedAuto, HandedModel
from .classes import OneVsRest
from .models import Single
from .online import OnlineRows
from .paper import SinglePaper


def write(path: str | os.PathLike[str], model: Single | OnlineRows, names: Sequence[Hashable] = ()) -> None:
    """Write what one device, or a network of one, has learnt, and no sample, to a file."""
    handed.write(path, made(model, names))


def made(model: Single | OnlineRows, names: Sequence[Hashable] = ()) -> HandedModel:
    """What one device, or a network of one, has learnt, and no sample."""
    handed.refuse_untaught(model.n)
    given = handed.input_names(names)
    if isinstance(model, SinglePaper):
        return model.handed(given)
    if isinstance(model, OnlineRows):
        return handed_over(model, given)
    assert model.online is not None
    return handed_over(model.online, given)


def handed_over(online: OnlineRows, names: tuple[str, ...] = ()) -> HandedAuto:
    """One device's model with its scale fixed, without samples."""
    handed.refuse_untaught(online.n)
    rows = copy.deepcopy(online.rows)
    rows.drop_samples()
    return HandedAuto(online.settings, rows.state(), names)


def one_model(model: Single | OneVsRest[Any], classes: Sequence[Any] = ()) -> Single:
    """The one model of numbers, or of two classes, behind a face."""
    if not isinstance(model, OneVsRest):
        return model
    if not _are_plain(classes):
        shown = ", ".join(map(str, classes))
        raise InputError(
            f"the model's classes are {shown}; expected 0 and 1, or -1 and 1, as agents have; "
            "teach it with such labels"
        )
    return model.models[0][1]


def _are_plain(classes: Sequence[Any]) -> bool:
    numbers = {value for value in classes if isinstance(value, bool | int | float | np.number | np.bool_)}
    return len(numbers) == len(classes) == 2 and numbers in ({0, 1}, {-1, 1})
