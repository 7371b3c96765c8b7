"""benchmarks/drift_limit.py: the oracle knows what River's generator does, and no more than it is told."""

from __future__ import annotations

import pathlib
import runpy

import numpy as np
import pytest

LIMIT = runpy.run_path(str(pathlib.Path(__file__).parent.parent / "benchmarks" / "drift_limit.py"))


@pytest.mark.parametrize("change", [1, 2, 3])
def test_the_written_functions_leave_only_the_noise_of_rivers(change):
    pytest.importorskip("river")
    X, y = LIMIT["local"](change, 4000, 0)
    f, touched = LIMIT["old"](X), 0
    for box, values in enumerate(LIMIT["new"](X)):
        inside = (LIMIT["depths"](X, box, 5 - change) < LIMIT["REACH"]).all(-1)
        f[inside], touched = values[inside], touched + inside.sum()
    assert np.abs(y - f).max() < 5
    assert (y - f).var() == pytest.approx(1, abs=0.1)
    assert touched / 4000 == pytest.approx(2 * 0.3 ** (5 - change), rel=0.3)


def test_the_oracle_averages_over_the_thresholds_that_samples_allow():
    """Beside draws from the prior of which those that contradict a sample are thrown away."""
    rng = np.random.default_rng(1)
    X, T = rng.uniform(size=(60, 10)), rng.uniform(size=(300, 10))
    expected, near = LIMIT["old"](T), 0
    for box, values in enumerate(LIMIT["new"](T)):
        u, v = LIMIT["depths"](X, box, 2), LIMIT["depths"](T, box, 2)
        drawn = rng.uniform(size=(40_000, 1, 2))
        agrees = ((u < drawn).all(-1) == (u < LIMIT["REACH"]).all(-1)).all(-1)
        share = (v < drawn[agrees]).all(-1).mean(0)
        near += ((share > 0.05) & (share < 0.95)).sum()
        expected += share * (values - LIMIT["old"](T))
    assert agrees.sum() > 100
    assert near > 10
    found = LIMIT["oracle"](X, T, 3, seed=0, draws=4000)
    assert np.abs(found - expected).max() < 0.1 * np.abs(expected - LIMIT["old"](T)).max()


def test_ratios_are_of_sums_over_all_change_times():
    rows = {"0": {"changed": [[2.0, 1.0]], "unchanged": [[1.0, 1.0]]}}
    rows["1"] = {"changed": [[4.0, 3.0]], "unchanged": [[1.0, 3.0]]}
    means, spread = LIMIT["ratio"](rows, "changed")
    assert means.tolist() == [3.0, 1.0]
    assert spread[0] > 0.5
    assert spread[1] == 0
