"""State in files: named fields, versions, migrations, and files of earlier versions that load forever."""

from __future__ import annotations

import json
import pathlib
import runpy
import shutil

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

import domkl
from domkl.base.errors import DataError, InputError
from domkl.learner import files, handed, schema
from saved import tolerance

ROOT = pathlib.Path(__file__).parent.parent
MAKE = runpy.run_path(str(ROOT / "scripts" / "make_fixtures.py"))
FOLDER = ROOT / "tests" / "fixtures"
FIXTURES = sorted(FOLDER.glob("learner-*.json"))

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


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(states)
def test_a_state_survives_its_file(state):
    found, meta = schema.document("learner", state)
    assert same(schema.read("learner", found, json.loads(json.dumps(meta))), state)


def test_an_older_state_is_migrated_step_by_step(monkeypatch):
    found, meta = schema.document("model", {"old_name": 3})
    monkeypatch.setitem(schema.VERSIONS, "model", 3)
    monkeypatch.setitem(schema.MIGRATIONS, ("model", 1), lambda state: {"name": state["old_name"]})
    monkeypatch.setitem(schema.MIGRATIONS, ("model", 2), lambda state: {**state, "added": 0})
    assert schema.read("model", found, {**meta, "version": 1}) == {"name": 3, "added": 0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 99}, "newer version of domkl .version 99 .*; expected 6 or earlier; upgrade domkl"),
        ({"version": 2**63}, "was written by a newer version of domkl"),
        ({"schema": "model"}, "schema 'model'; expected 'learner'"),
        ({"schema": ["learner"]}, "schema .'learner'.; expected 'learner'"),
        ({"version": "1"}, "version '1'; expected a whole number from 1 to 6"),
        ({"version": 0}, "version 0; expected a whole number"),
        ({"version": -1}, "version -1; expected a whole number"),
        ({"version": True}, "version True; expected a whole number"),
        ({"version": 1.0}, "version 1.0; expected a whole number"),
        ({"version": None}, "version None; expected a whole number"),
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
    found = MAKE["teach"](learners, rounds)
    np.testing.assert_allclose(found, expected, **tolerance(path, rtol=1e-7, atol=1e-9))


def test_a_learner_with_other_settings_refuses_the_state():
    one, two = MAKE["pair"](domkl.Auto(size=60))[0], MAKE["pair"](domkl.Auto(size=80))[0]
    with pytest.raises(DataError, match="the saved learner has fingerprint"):
        two.load(*one.save())


@pytest.mark.parametrize("path", sorted(FOLDER.glob("checkpoint-*.json")), ids=lambda path: path.stem)
def test_agents_checkpoints_of_every_version_load_with_their_journals(path, tmp_path):
    shutil.copytree(path.with_suffix(""), tmp_path / "state")
    learner, kept = (
        MAKE["alone"](MAKE["MODELS"][path.stem.split("-", 2)[2]]),
        MAKE["memory"](tmp_path / "state"),
    )
    assert kept.load(learner) is not None
    again = list(kept.noted())
    assert [reading.index for reading in again] == [kept.readings, kept.readings + 1]
    for reading in again:
        learner.observe(reading.x, reading.y)
    kept.close()
    found = [learner.predict(MAKE["sample"](t, 0)[0]) for t in range(5)]
    expected = json.loads(path.read_text())
    np.testing.assert_allclose(found, expected, **tolerance(path, rtol=1e-7, atol=1e-9))


@pytest.mark.parametrize("path", sorted(FOLDER.glob("handed-*.json")), ids=lambda path: path.stem)
def test_handed_models_of_every_version_load(path):
    model = handed.read(path.with_suffix(".model"))
    assert model.names == ("first", "second")
    learner = domkl.Learner(model, name="a", engine="numpy")
    found = [learner.predict(MAKE["sample"](t, 0)[0]) for t in range(5)]
    expected = json.loads(path.read_text())
    np.testing.assert_allclose(found, expected, **tolerance(path, rtol=1e-5, atol=1e-6))


def test_a_journal_of_a_later_version_is_refused(tmp_path):
    kept = MAKE["memory"](tmp_path)
    learner = MAKE["alone"](MAKE["MODELS"]["paper"])
    kept.save(learner)
    kept._journal.append({"version": 99, "index": 0, "x": [1.0, 2.0], "y": 1.0, "id": None})
    kept.close()
    later = MAKE["memory"](tmp_path)
    with pytest.raises(DataError, match="'reading' was written by a newer version of domkl"):
        later.load(learner)
    later.close()
