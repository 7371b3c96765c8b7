"""What a learner refuses in words, and state that survives changes of its neighbours."""

from __future__ import annotations

import numpy as np
import pytest

import domkl
import inmemory
from domkl.base.errors import InputError, PeerError
from domkl.exchange.edges import Held
from domkl.learner import handed
from taught import MODELS, taught


@pytest.mark.parametrize("neighbours", ["ab", 3, ["b", "b"], [["b"]], None])
def test_neighbours_are_a_list_of_different_names(neighbours):
    with pytest.raises(InputError, match="expected a list of different names; name each once"):
        domkl.Learner(inmemory.PAPER, neighbours, name="a", inputs=2)


@pytest.mark.parametrize("kind", MODELS)
def test_a_handed_model_has_its_own_inputs(kind, tmp_path):
    handed.write(tmp_path / "a.model", taught(kind, 64))
    model = handed.read(tmp_path / "a.model")
    with pytest.raises(InputError, match=f"expected {model.inputs}, as taught; leave it out"):
        domkl.Learner(model, name="a", inputs=model.inputs + 1)
    assert domkl.Learner(model, name="a", inputs=model.inputs).round == 0


def test_a_handed_auto_model_needs_a_name_too(tmp_path):
    handed.write(tmp_path / "a.model", taught("auto", 64))
    with pytest.raises(InputError, match="name is not given"):
        domkl.Learner(handed.read(tmp_path / "a.model"))


@pytest.mark.parametrize("model", [inmemory.paper(loss="logistic"), domkl.Auto(size=60, loss="logistic")])
def test_a_step_has_the_label_as_the_model_learns_it(model):
    one = domkl.Learner(model, name="a", inputs=2)
    one.observe([0.1, 0.2], 0)
    assert one.step.y == -1


def test_a_neighbour_that_joined_later_is_restored_as_it_was():
    """Its last parameters pull in the next step."""

    def pair():
        return [domkl.Learner(inmemory.PAPER, [], name=name, inputs=inmemory.d) for name in "ab"]

    def go_on(a, b, x):
        from_a, from_b = a.observe(x[0], x[0, 0]), b.observe(x[1], x[1, 0])
        a.receive("b", from_b)
        b.receive("a", from_a)

    X = np.random.default_rng(0).random((30, 2, inmemory.d))
    members = pair()
    members[0].join("b", 1)
    members[1].join("a", 1)
    for x in X[:20]:
        go_on(*members, x)
    restored = pair()
    for new, old in zip(restored, members, strict=True):
        new.load(*old.save())
    for x in X[20:]:
        go_on(*members, x)
        go_on(*restored, x)
        for new, old in zip(restored, members, strict=True):
            np.testing.assert_array_equal(new.state.theta, old.state.theta)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("degree", value) for value in (-1, 2**63 - 1, 1.5, float("nan"), "3", True, None)],
        *[("round", value) for value in (-1, 2**52, 2**63 - 1, 1.0, True)],
        *[("edges", value) for value in (5, None, {"a": 3}, {"a": (1, 2, 0, 0, 0)}, {"a": Held(1.0)})],
        *[("edges", {"a": held}) for held in (Held(-1), Held(0, 2**63), Held(seen=-2), Held(moved=2**52))],
        *[("news", value) for value in (5, None)],
    ],
)
def test_an_update_with_a_value_that_none_can_have_is_refused_and_changes_nothing(field, value):
    a, b = (domkl.Learner(inmemory.PAPER, [near], name=own, inputs=2) for own, near in ("ab", "ba"))
    sent = b.observe([0.1, 0.2], 1.0)
    a.observe([0.1, 0.2], 1.0)
    with pytest.raises(PeerError, match="fix that learner"):
        a.receive("b", sent._replace(**{field: value}))
    assert a.missing == ("b",)
    assert a.receive("b", sent)
