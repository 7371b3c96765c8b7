"""`Auto` as a function of its inputs, for `learning.explain`: one device, with its parameters of now."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import numpy as np

from ...base.types import Array
from .. import explain

if TYPE_CHECKING:
    from .model import AutoRows


def function(rows: AutoRows, row: int, only: int = 0) -> explain.Function:
    """What device `row` predicts of target `only`, for any number of samples (n, d).

    It holds the parameters of now: it may be asked in another thread while the learner goes on.
    """
    at = slice(row, row + 1)
    scale, weights = rows.scale, rows.mixture.mixer.weights[row, only]
    columns = rows.consensus.functions(row)[only]  # (3, K)
    beta, expected = rows.recent.beta[row, only].copy(), float(rows.mixture.echo.predict()[row, only])
    measure, features, terms = copy.copy(scale), rows.features, rows.recent.terms
    for field in scale.FIELDS:
        setattr(measure, field.name, getattr(scale, field.name)[at].copy())
    low, high = (float(bound[0, only]) for bound in measure.bounds())
    center, width = float(measure.center[0, only]), float(measure.width[0, only])

    def predict(X: Array) -> Array:
        inputs = measure.inputs(np.asarray(X, np.float64)[None])
        f = features(inputs)[0].astype(np.float64) @ columns.T
        f = np.hstack([f, (terms(inputs.deviations)[0] @ beta)[:, None]])
        f = np.clip(f, low, high)
        echo = np.clip(f @ (weights[:-1] / weights[:-1].sum()) + expected, low, high)
        return np.asarray(center + width * (f @ weights[:-1] + weights[-1] * echo))

    return predict
