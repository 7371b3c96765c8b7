"""State in files: named fields and versions; files of another version are refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

import domkl
import inmemory
from domkl.agent.config import CheckpointSection
from domkl.agent.store import Store
from domkl.base.errors import DataError, InputError
from domkl.learner import schema

arrays = arrays_of.arrays(np.float64, arrays_of.array_shapes(max_dims=2, max_side=3))
leaves = (
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text() | arrays
)
NOW = schema.VERSIONS["learner"]
states = st.dictionaries(
    st.text("abc", min_size=1, max_size=4),
    st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("xyz"), inner)),
    max_size=4,
)


def same(a, b):
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=True)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(states)
def test_a_state_survives_its_file(state):
    found, meta = schema.document("learner", state)
    assert same(schema.read("learner", found, json.loads(json.dumps(meta))), state)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 99}, f"has version 99 of its schema; expected {NOW}; use the domkl that wrote it"),
        ({"version": 2**63}, "has version 9223372036854775808 of its schema"),
        ({"schema": "model"}, "schema 'model'; expected 'learner'"),
        ({"schema": ["learner"]}, "schema .'learner'.; expected 'learner'"),
        ({"version": "1"}, "version '1' of its schema"),
        ({"version": 0}, f"version 0 of its schema; expected {NOW}"),
        ({"version": -1}, f"version -1 of its schema; expected {NOW}"),
        ({"version": True}, "version True of its schema"),
        ({"version": 1.0}, "version 1.0 of its schema"),
        ({"version": None}, "version None of its schema"),
        (
            {"state": {"pickle": "x"}},
            "holds {'pickle': 'x'}; expected an array of the file",
        ),
        ({"state": {}}, "holds {}; expected an array"),
        ({"state": {"fields": {}, "more": 1}}, "expected an array of the file"),
        ({"state": {"fields": []}}, "holds {'fields': ..}; expected an array"),
        (
            {"state": {"array": "learner.gone"}},
            "'learner.gone'}; expected an array of the file",
        ),
        ({"state": {"array": ["x"]}}, "expected an array of the file"),
        ({"state": {"float": 1}}, "expected an array of the file"),
        ({"state": {"float": "one"}}, "'learner' is not whole .ValueError"),
        ({"state": {"fields": {"a": {"float": "0x1p99999"}}}}, "'learner' is not whole .OverflowError"),
        ({"state": 1.5}, "holds 1.5; expected"),
        ({"state": []}, "'learner' is not whole .TypeError: it has no fields"),
        ({"state": None}, "'learner' is not whole"),
        ({"state": json.loads("[" * 900 + "]" * 900)}, "'learner' is not whole"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(change, message):
    found, meta = schema.document("learner", {"a": 1})
    with pytest.raises(DataError, match=message) as refused:
        schema.read("learner", found, {**meta, **change})
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "meta", [None, [], "learner", {}, {"schema": "learner"}, {"schema": "learner", "version": 1}]
)
def test_a_document_that_is_not_whole_is_refused(meta):
    with pytest.raises(DataError, match=r"; expected .*; "):
        schema.read("learner", {}, meta)


def test_dots_in_keys_do_not_let_two_arrays_share_a_name():
    """Names of learners may have dots; {"a.b": x} and {"a": {"b": y}} are different arrays."""
    state = {"a.b": np.zeros(2), "a": {"b": np.ones(2)}, "a%2Eb": np.full(2, 3.0)}
    found, meta = schema.document("learner", state)
    assert len(found) == 3
    assert same(schema.read("learner", found, meta), state)
    with pytest.raises(InputError, match="a state has the key 1; expected texts as keys"):
        schema.document("learner", {1: np.zeros(2), "1": np.ones(2)})


def test_a_learner_with_other_settings_refuses_the_state():
    one, two = (domkl.Learner(domkl.Auto(size=size), name="a", inputs=2) for size in (60, 80))
    with pytest.raises(DataError, match="the saved learner has fingerprint"):
        two.load(*one.save())


def memory(folder):
    return Store(CheckpointSection(str(folder), sync=False), True, "a", "net")


def test_a_journal_of_a_later_version_is_refused(tmp_path):
    learner = domkl.Learner(domkl.Auto(size=60), name="a", inputs=2)
    kept = memory(tmp_path)
    kept.save(learner)
    kept._journal.append({"version": 99, "index": 0, "x": [1.0, 2.0], "y": 1.0, "id": None})
    kept.close()
    later = memory(tmp_path)
    with pytest.raises(DataError, match="'reading' has version 99 of its schema; expected 1"):
        later.load(learner)
    later.close()


KINDS = {"auto": domkl.Auto(size=60), "paper": inmemory.PAPER, "newton": inmemory.paper(step="newton")}


def taught(model, rounds):
    """A pair of learners after so many rounds, and what they predicted in each."""
    pair = [domkl.Learner(model, [other], name=name, inputs=inmemory.d) for name, other in ("ab", "ba")]
    return pair, teach(pair, range(rounds))


def teach(pair, rounds):
    found = []
    for t in rounds:
        X = np.random.default_rng(t).random((2, inmemory.d))
        one, other = (each.observe(x, np.sin(3 * x[0]) + x[1]) for each, x in zip(pair, X, strict=True))
        pair[0].receive("b", other), pair[1].receive("a", one)
        found.append([each.step.y_hat for each in pair])
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rounds", [0, 1, 3, 40, 100])
def test_a_learner_goes_on_from_its_file_with_the_same_bits(kind, rounds):
    pair, _ = taught(KINDS[kind], rounds)
    again, _ = taught(KINDS[kind], 0)
    for new, old in zip(again, pair, strict=True):
        found, meta = old.save()
        new.load({name: array.copy() for name, array in found.items()}, json.loads(json.dumps(meta)))
    later = range(rounds, rounds + 40)
    assert teach(again, later) == teach(pair, later)


def damaged(state, rng):
    """A description with one of its places put to something else."""
    text = json.loads(json.dumps(state))
    at = text
    while True:
        keys = [*at] if isinstance(at, dict) else [*range(len(at))]
        key = keys[rng.integers(len(keys))]
        if not isinstance(at[key], dict | list) or not at[key] or rng.random() < 0.1:
            at[key] = [None, [], {}, "x", -1, {"float": "nan"}, {"array": "no"}][rng.integers(7)]
            return text
        at = at[key]


@pytest.mark.parametrize("kind", KINDS)
def test_a_learner_with_a_damaged_state_is_refused_in_one_line_or_learns_on(kind):
    pair, _ = taught(KINDS[kind], 20)
    arrays, meta = pair[0].save()
    rng, refused = np.random.default_rng(0), []
    for _ in range(150):
        new = domkl.Learner(KINDS[kind], ["b"], name="a", inputs=inmemory.d)
        try:
            new.load(arrays, {**meta, "state": damaged(meta["state"], rng)})
        except DataError as error:
            refused.append(str(error))
    assert len(refused) > 50
    assert not any("\n" in line for line in refused)
