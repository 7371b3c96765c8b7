"""Checkpoints for tests: small ones, and what JSON can hold."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from domkl.agent.checkpoint import save

ARRAYS = {"theta": np.arange(6.0).reshape(2, 3), "round": np.array([7])}
META = {"name": "a", "edges": {"b": [1, 2, None, True, 0.1]}}
#: One folder for all examples of a test.
one_folder = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)

#: Files of `auto` from before it had experts of its own samples: they go on with these, nearly as before.
FEWER_EXPERTS = ("learner-1-auto", "checkpoint-1-auto", "checkpoint-2-auto", "handed-1-auto")


#: States whose own samples took plain steps towards the weak ridge, or whose Hedge had another temperature.
OTHER_STEPS = (
    *("learner-2-auto", "learner-3-auto", "learner-4-auto"),
    *("checkpoint-2-auto", "checkpoint-3-auto", "handed-2-auto"),
)


def tolerance(path, **exact):
    """How near to the expected ones predictions must be; targets span 4."""
    atol = 0.04 if path.stem in FEWER_EXPERTS else 1e-3 if path.stem in OTHER_STEPS else 0
    return {"rtol": 0, "atol": atol} if atol else exact


def put(directory, round, **arrays):
    return save(directory, round, ARRAYS | arrays, META, sync=False)
