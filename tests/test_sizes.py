"""What many inputs, parameters and learners take is said before they take it."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import domkl
from domkl.base.errors import InputError
from domkl.models import settings


@pytest.mark.parametrize(
    ("J", "size", "d", "m", "dtype"),
    [(300, 100, 5, 1, np.float32), (8, 700, 12, 2, np.float64), (1, 1500, 500, 1, np.float32)],
)
def test_memory_is_about_what_was_said(J, size, d, m, dtype):
    model, rng = domkl.Auto(size=size), np.random.default_rng(0)
    X, y = rng.uniform(size=(J, 6, d)), rng.uniform(size=(J, 6, m))
    tracemalloc.start()
    numpy = model.make(J, d, dtype, m, settings.Means("numpy"))
    for t in range(6):
        numpy.learn_alone(numpy.predict(X[:, t]), y[:, t])
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    said = model.memory(J, d, m, dtype, degree=0)
    half = J * np.dtype(dtype).itemsize * size**2 / 2  # of each matrix, which C++ does not store
    assert 0.6 * said < taken - half < 1.25 * said


def test_what_does_not_fit_is_refused_before_it_is_made(monkeypatch):
    monkeypatch.setattr(settings, "_machine_bytes", lambda: 2e9)
    X, y = np.zeros((10_000, 2, 5)), np.zeros((10_000, 2))
    with pytest.raises(InputError, match=r"10,000 learners of size 1,000 take about 2\d\.\d GB; .* 2\.0 GB"):
        domkl.simulate(X, y, "ring", model=domkl.Auto(), dtype=np.float32)


def test_ten_thousand_inputs_are_refused_and_five_hundred_learnt():
    with pytest.raises(InputError, match=r"there are 10,000 inputs; expected at most 4,096; .*project them"):
        domkl.DOMKL().predict(np.zeros(10_000))
    X, errors = np.random.default_rng(0).normal(size=(300, 500)), []
    model = domkl.DOMKL(model=domkl.Auto(size=600))
    for x in X:
        y = x[:5].sum()
        errors.append((model.predict(x) - y) ** 2)
        model.learn(x, y)
    assert np.mean(errors[200:]) < np.mean(errors[:100])
