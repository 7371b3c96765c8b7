"""Files of earlier and later versions, and networks of several: they work, or say in one line why not."""

from __future__ import annotations

import json
import pathlib
import runpy
import shutil
import struct
import zlib

import msgspec
import numpy as np
import pytest

from domkl.agent import Agent, checkpoint, wire
from domkl.agent.lives import Life
from domkl.base.errors import DataError
from domkl.learner import files, handed, schema
from domkl.learning.auto import constants
from inmemory import config
from saved import tolerance

ROOT = pathlib.Path(__file__).parent.parent
MAKE = runpy.run_path(str(ROOT / "scripts" / "make_fixtures.py"))
FOLDER = ROOT / "tests" / "fixtures"
#: The record of constants of each version: whoever changes a constant adds a version.
RECORDS = {
    **{1: "20622136", 2: "bd4f2cdf", 3: "b172d5e4", 4: "1aed7424", 5: "e1ef5947"},
    **{6: "0f170403", 7: "639fe325", 8: "b88a75fb"},
}


def renamed(old, new):
    """A migration: a field has another name."""
    return lambda state: {new if key == old else key: value for key, value in state.items()}


@pytest.fixture
def upgraded(monkeypatch):
    """A version of domkl in which every schema has changed twice: a field was renamed, and renamed back."""
    for name, field in {"learner": "round", "agent": "readings", "reading": "y", "model": "kind"}.items():
        today = schema.VERSIONS[name]
        monkeypatch.setitem(schema.VERSIONS, name, today + 2)
        monkeypatch.setitem(schema.MIGRATIONS, (name, today), renamed(field, "other"))
        monkeypatch.setitem(schema.MIGRATIONS, (name, today + 1), renamed("other", field))


@pytest.mark.usefixtures("upgraded")
@pytest.mark.parametrize("path", sorted(FOLDER.glob("checkpoint-*.json")), ids=lambda path: path.stem)
def test_a_state_directory_survives_an_upgrade(path, tmp_path):
    shutil.copytree(path.with_suffix(""), tmp_path / "state")
    learner = MAKE["alone"](MAKE["MODELS"][path.stem.split("-", 2)[2]])
    kept = MAKE["memory"](tmp_path / "state")
    assert kept.load(learner) is not None
    for reading in kept.noted():
        learner.observe(reading.x, reading.y)
    kept.close()
    found = [learner.predict(MAKE["sample"](t, 0)[0]) for t in range(5)]
    np.testing.assert_allclose(found, json.loads(path.read_text()), **tolerance(path, rtol=1e-7, atol=1e-9))


@pytest.mark.usefixtures("upgraded")
@pytest.mark.parametrize("path", sorted(FOLDER.glob("handed-*.json")), ids=lambda path: path.stem)
def test_a_handed_model_survives_an_upgrade(path):
    assert handed.read(path.with_suffix(".model")).names == ("first", "second")


@pytest.mark.usefixtures("upgraded")
def test_what_an_upgraded_version_wrote_is_refused_by_todays_in_clear_words(tmp_path, monkeypatch):
    learner, kept = MAKE["alone"](MAKE["MODELS"]["paper"]), MAKE["memory"](tmp_path)
    kept.save(learner)
    kept.close()
    monkeypatch.undo()
    with pytest.raises(DataError, match=r"written by a newer version of domkl .*; upgrade domkl$") as refused:
        MAKE["memory"](tmp_path).load(learner)
    assert "damage" not in str(refused.value)
    assert "whole" not in str(refused.value)


def test_a_checkpoint_of_a_newer_format_is_not_passed_over_for_an_older_one(tmp_path, monkeypatch):
    """Else a device that was downgraded would learn again from the past, in silence."""
    checkpoint.save(tmp_path, 1, {}, {}, sync=False)
    monkeypatch.setattr(checkpoint, "_VERSION", 3)
    checkpoint.save(tmp_path, 2, {}, {}, sync=False)
    monkeypatch.undo()
    expected = (
        r"round-2-.* was written by a newer version of domkl \(format 3\); expected format 2; upgrade domkl"
    )
    with pytest.raises(DataError, match=expected):
        checkpoint.load(tmp_path)


def test_a_learner_with_other_constants_is_refused_with_both_versions(monkeypatch):
    learner = MAKE["alone"](MAKE["MODELS"]["auto"])
    arrays, meta = learner.save()
    monkeypatch.setattr(constants, "VERSION", 9)
    later = MAKE["alone"](MAKE["MODELS"]["auto"])
    with pytest.raises(
        DataError, match=r"has version 8 of the constants of auto; expected 9, which .*; install"
    ):
        later.load(arrays, meta)


def test_constants_do_not_change_without_a_new_version():
    assert RECORDS[constants.VERSION] == constants.C.fingerprint
    path = FOLDER / f"learner-{schema.VERSIONS['learner']}-auto-0.safetensors"
    about, arrays = files.parsed(path.read_bytes())
    saved = schema.read("learner", arrays, files.meta(about))
    learner = MAKE["pair"](MAKE["MODELS"]["auto"])[0]
    assert saved["fingerprint"] in (learner.fingerprint, *learner._row.earlier)


# Mixed versions in one network


def sealed(major, minor, fields):
    """A message of some version of the format."""
    body = msgspec.msgpack.encode(fields)
    start = b"dk" + bytes([major, minor])
    return start + struct.pack("<I", zlib.crc32(body, zlib.crc32(start))) + body


def test_another_major_version_is_refused_in_one_line_that_names_both(caplog):
    major, _ = wire.VERSION
    agent = Agent(config("a", ["b"]))
    with caplog.at_level("WARNING", "domkl"):
        for _ in range(100):
            agent.conversation.receive("domkl/net/b/hello", sealed(major + 1, 0, {"type": "other"}))
    assert agent.refused == {"version": 100}
    lines = [record.fields for record in caplog.records]
    assert len(lines) == 5 + 4  # the first five, then powers of two
    assert lines[0]["sender"] == "b"
    expected = f"a message has version {major + 1} of the format; expected {major}; let all learners run"
    assert lines[0]["reason"].startswith(expected)


def test_a_later_minor_version_with_more_fields_is_understood():
    (major, minor), agent = wire.VERSION, Agent(config("a", ["b"]))
    hello = wire.Hello(agent.learner.fingerprint, Life(1, 2), 7, 5, {"b": 6}, {}, False, 1)
    fields = {**msgspec.msgpack.decode(wire.encode(hello)[8:]), "colour": "red", "more": [1, {"x": 2}]}
    assert agent.post.decoder.decode(sealed(major, minor + 1, fields)) == hello
