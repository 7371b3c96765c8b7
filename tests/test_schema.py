"""State in files: named fields, versions, migrations, and files of earlier versions that load forever."""

from __future__ import annotations

import json
import pathlib
import runpy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

import domkl
from domkl.base.errors import DataError
from domkl.learner import files, schema

ROOT = pathlib.Path(__file__).parent.parent
MAKE = runpy.run_path(str(ROOT / "scripts" / "make_fixtures.py"))
FIXTURES = sorted((ROOT / "tests" / "fixtures").glob("learner-*.json"))

arrays = arrays_of.arrays(np.float64, arrays_of.array_shapes(max_dims=2, max_side=3))
leaves = (
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text() | arrays
)
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


@given(states)
def test_a_state_survives_its_file(state):
    found, meta = schema.document("learner", state)
    assert same(schema.read("learner", found, json.loads(json.dumps(meta))), state)


def test_an_older_state_is_migrated_step_by_step(monkeypatch):
    found, meta = schema.document("model", {"old_name": 3})
    monkeypatch.setitem(schema.VERSIONS, "model", 3)
    monkeypatch.setitem(schema.MIGRATIONS, ("model", 1), lambda state: {"name": state["old_name"]})
    monkeypatch.setitem(schema.MIGRATIONS, ("model", 2), lambda state: {**state, "added": 0})
    assert schema.read("model", found, meta) == {"name": 3, "added": 0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 99}, "version 99 of schema 'learner'; expected 1 or earlier; install the version"),
        ({"schema": "model"}, "schema 'model'; expected 'learner'"),
        ({"version": "1"}, "schema 'learner'; expected 'learner'"),
        ({"state": {"pickle": "x"}}, "holds 'pickle'; expected array, float or fields"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(change, message):
    found, meta = schema.document("learner", {"a": 1})
    with pytest.raises(DataError, match=message):
        schema.read("learner", found, {**meta, **change})


def test_every_version_before_todays_has_a_migration():
    for name, version in schema.VERSIONS.items():
        assert all((name, each) in schema.MIGRATIONS for each in range(1, version))


def test_there_is_a_fixture_of_todays_version_for_every_kind():
    names = {path.stem for path in FIXTURES}
    assert names >= {f"learner-{schema.VERSIONS['learner']}-{kind}" for kind in MAKE["MODELS"]}


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_files_of_every_version_load_and_go_on(path):
    kind = path.stem.split("-", 2)[2]
    learners = MAKE["pair"](MAKE["MODELS"][kind])
    for j, learner in enumerate(learners):
        about, found = files.parsed(path.with_name(f"{path.stem}-{j}.safetensors").read_bytes())
        learner.load(found, files.meta(about))
    expected = json.loads(path.read_text())
    rounds = range(MAKE["ROUNDS"], MAKE["ROUNDS"] + len(expected))
    assert learners[0].round == rounds[0]
    np.testing.assert_allclose(MAKE["teach"](learners, rounds), expected, rtol=1e-7, atol=1e-9)


def test_a_learner_with_other_settings_refuses_the_state():
    one, two = MAKE["pair"](domkl.Auto(size=60))[0], MAKE["pair"](domkl.Auto(size=80))[0]
    with pytest.raises(DataError, match="the saved learner has fingerprint"):
        two.load(*one.save())
