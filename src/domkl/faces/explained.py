"""Explanations of models of one device, and of the learners of a network: see `domkl.learning.explain`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..base.errors import InputError
from ..base.types import Array
from ..learning import explain
from ..learning.explain import Contributions, Effects, Function, Usual
from .auto import SingleAuto
from .online import OnlineRows

if TYPE_CHECKING:
    from .models import Single


def of_single(
    model: Single, x: Array | None, names: Sequence[str] = (), groups: Sequence[explain.Group] = ()
) -> Effects | Contributions:
    """Which inputs matter to a model of one device: overall, or to the prediction of x (d,)."""
    refuse_untaught(model.n)
    if isinstance(model, SingleAuto):
        assert model.online is not None
        return of_rows(model.online, 0, x, names, groups)
    return _ask(model.as_function(), len(model.keys), x, names, groups)


def of_rows(
    online: OnlineRows,
    row: int,
    x: Array | None,
    names: Sequence[str] = (),
    groups: Sequence[explain.Group] = (),
) -> Effects | Contributions:
    """The same for a learner of a network."""
    refuse_untaught(online.n)
    return _ask(online.as_function(row), online.d, x, names, groups)


def _ask(
    model: tuple[Function, Usual],
    d: int,
    x: Array | None,
    names: Sequence[str],
    groups: Sequence[explain.Group],
) -> Effects | Contributions:
    groups = groups or [[i] for i in range(d)]
    names = names or [f"x{group[0]}" for group in groups]
    if len(names) != len(groups) or sorted(i for group in groups for i in group) != list(range(d)):
        raise InputError(
            f"{len(names)} names and {len(groups)} groups are given for {d} inputs; expected every input in "
            "one group, and a name for each; fix them"
        )
    if x is None:
        return explain.effects(*model, names, groups)
    return explain.contributions(*model, x, names, groups)


def refuse_untaught(n: int) -> None:
    """Refuse to explain what knows nothing."""
    if not n:
        raise InputError("the model has learnt no sample; expected a model that was taught; teach it first")


def mean_part(models: Sequence[Single]) -> Array:
    """How much each input matters, averaged over models of the same inputs; they sum to 1. (d,)"""
    found = [of_single(model, None) for model in models]
    return np.asarray(np.mean([each.part for each in found if isinstance(each, Effects)], axis=0))
