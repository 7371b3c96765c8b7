"""Parameters that predict absurd values at the receiver's own input count as missing."""

from __future__ import annotations

import numpy as np
import pytest

import domkl
import inmemory

d = inmemory.d
MODELS = {"first": inmemory.PAPER, "newton": inmemory.paper(step="newton"), "auto": inmemory.AUTO}


def pair(model):
    return [domkl.Learner(model, [other], name=name, inputs=d) for name, other in ("ab", "ba")]


def taught(model, rounds=60):
    """Two learners that have learnt together, and the samples they go on with."""
    rng = np.random.default_rng(0)
    X = rng.random((rounds + 20, 2, d))
    y = X[..., 0] + X[..., 1] * X[..., 2]
    a, b = pair(model)
    for t in range(rounds):
        go_on(a, b, X[t], y[t])
    return a, b, X[rounds:], y[rounds:]


def go_on(a, b, x, y, changed=lambda update: update):
    from_a, from_b = a.observe(x[0], y[0]), b.observe(x[1], y[1])
    a.receive("b", changed(from_b))
    b.receive("a", from_a)
    if a.waiting:
        a.close()


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("lie", [1e5, -1e6])
def test_absurd_parameters_do_not_move_a_learner(model, lie):
    a, b, X, y = taught(MODELS[model])
    go_on(a, b, X[0], y[0], lambda update: update._replace(theta=np.full_like(update.theta, lie)))
    assert a.implausible == ["b"]
    assert np.abs(a.state.theta).max() < 1e3
    errors = []
    for x, label in zip(X[1:], y[1:], strict=True):
        errors.append(a.predict(x[0]) - label[0])
        go_on(a, b, x, label)
    assert a.implausible == ["b"]  # and it is heard again
    assert np.mean(np.square(errors)) < np.var(y)


@pytest.mark.parametrize("model", MODELS)
def test_what_honest_learners_send_is_plausible(model):
    a, b, X, y = taught(MODELS[model])
    smaller = 1 if model == "auto" else 1e-3  # after such a change no neighbour of auto is a guide
    for x, label in zip(X, smaller * y, strict=True):
        go_on(a, b, x, label)
    assert a.implausible == b.implausible == []


def test_labels_of_zero_make_nothing_implausible():
    a, b = pair(inmemory.PAPER)
    rng = np.random.default_rng(0)
    for x in rng.random((10, 2, d)):
        go_on(a, b, x, (0.0, 5.0))
    assert a.implausible == []


def test_a_first_label_near_zero_makes_nothing_implausible():
    a, b = pair(inmemory.PAPER)
    rng = np.random.default_rng(0)
    for t in range(6):
        go_on(a, b, rng.random((2, d)), np.array([1e-5 if t == 0 else 1.0, 2.0]))
    assert a.implausible == b.implausible == []
