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


def put(directory, round, **arrays):
    return save(directory, round, ARRAYS | arrays, META, sync=False)
