"""Checkpoints: right to the last bit, or not believed."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import forgeries
from domkl.agent.checkpoint import Journal, load, save, sweep
from domkl.base import budget
from domkl.base.errors import DataError, InputError
from domkl.learner import files as store
from saved import ARRAYS, META, anything, one_folder, put


def listed(directory):
    return sorted(path.name for path in directory.iterdir())


def reseal(path, content, round=None):
    """Content under the name that belongs to it."""
    number = path.name.split("-")[1] if round is None else round
    digest = hashlib.sha256(content).hexdigest()[:32]
    path.unlink()
    new = path.with_name(f"round-{number}-{digest}.safetensors")
    new.write_bytes(content)
    return new


def rewritten(content, change):
    """A checkpoint's bytes after a change to its header."""
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    change(header)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content[8 + size :]


kinds = st.sampled_from([*store.DTYPES.values(), ">f8", ">i8"])
arrays = kinds.flatmap(lambda kind: hnp.arrays(kind, hnp.array_shapes(min_dims=0, min_side=0)))


@one_folder
@given(st.dictionaries(st.text(), arrays, max_size=4), st.dictionaries(st.text(), anything, max_size=4))
def test_a_checkpoint_comes_back_to_the_last_bit(tmp_path, arrays, meta):
    path = save(tmp_path, 7, arrays, meta, sync=False)
    found = load(tmp_path)
    assert (found.round, found.meta, found.skipped) == (7, meta, ())
    assert found.arrays.keys() == arrays.keys()
    for name, array in arrays.items():
        back = found.arrays[name]
        assert (back.shape, back.dtype) == (array.shape, array.dtype.newbyteorder("="))
        assert back.tobytes() == array.astype(back.dtype).tobytes()  # NaN too
        assert back.flags.writeable
        assert back.flags.aligned
    path.unlink()


def test_the_order_of_an_array_in_memory_does_not_matter(tmp_path):
    array = np.arange(24.0).reshape(4, 6)
    put(tmp_path, 1, turned=array.T, gaps=array[::2, ::3], fortran=np.asfortranarray(array))
    found = load(tmp_path).arrays
    np.testing.assert_array_equal(found["turned"], array.T)
    np.testing.assert_array_equal(found["gaps"], array[::2, ::3])
    np.testing.assert_array_equal(found["fortran"], array)


def test_the_name_holds_round_and_digest_and_only_the_owner_may_read(tmp_path):
    path = save(tmp_path / "new" / "place", 12, ARRAYS, META)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:32]
    assert path == tmp_path / "new" / "place" / f"round-12-{digest}.safetensors"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with Journal(path.parent) as journal:
        journal.start(12)
        journal.append({})
    assert stat.S_IMODE((path.parent / "journal-12.jsonl").stat().st_mode) == 0o600


def test_the_newest_two_stay_and_what_is_not_ours_is_not_touched(tmp_path):
    for name in ("notes.txt", "round-x.safetensors", ".round-abc.tmp", "journal-1.jsonl", "journal-x.jsonl"):
        (tmp_path / name).write_text("x")
    paths = [put(tmp_path, t) for t in (1, 5, 10, 100)]
    assert listed(tmp_path) == sorted(
        ["notes.txt", "round-x.safetensors", ".round-abc.tmp", "journal-x.jsonl"]
        + [path.name for path in paths[2:]]
    )
    assert load(tmp_path).round == 100  # not "10" or "5", as text would sort


def test_nothing_there_is_none(tmp_path):
    assert load(tmp_path) is None
    assert load(tmp_path / "nowhere") is None
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / f"round-1-{'0' * 32}.safetensors").mkdir()
    assert load(tmp_path) is None


def harm(how, path):
    content = path.read_bytes()
    change = {
        "bit": content[:-1] + bytes([content[-1] ^ 1]),
        "cut": content[:-1],
        "half": content[: len(content) // 2],
        "empty": b"",
        "longer": content + b"\0",
        "zeros": bytes(len(content)),
    }[how]
    path.write_bytes(change)


@pytest.mark.parametrize("how", ["bit", "cut", "half", "empty", "longer", "zeros"])
def test_a_damaged_checkpoint_is_passed_over_and_left_alone(tmp_path, how):
    put(tmp_path, 1)
    newer = put(tmp_path, 2)
    harm(how, newer)
    before = listed(tmp_path)
    found = load(tmp_path)
    assert found.round == 1
    assert found.skipped == (f"{newer.name}: its content is not what its name says",)
    assert listed(tmp_path) == before


def test_saving_after_damage_leaves_two_intact_ones(tmp_path):
    put(tmp_path, 1)
    harm("bit", put(tmp_path, 3))
    assert load(tmp_path).round == 1
    put(tmp_path, 2)  # the history in which round 3 was saved is given up
    assert [name.split("-")[1] for name in listed(tmp_path)] == ["1", "2"]
    harm("bit", put(tmp_path, 4))
    put(tmp_path, 5)
    assert [name.split("-")[1] for name in listed(tmp_path)] == ["2", "5"]
    assert load(tmp_path).skipped == ()


def test_a_round_saved_twice_is_the_second(tmp_path):
    put(tmp_path, 3, x=np.zeros(1))
    put(tmp_path, 3, x=np.ones(1))
    assert len(listed(tmp_path)) == 1
    assert load(tmp_path).arrays["x"] == 1


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda header: header.pop("__metadata__"), "it is not a checkpoint of this round in this format"),
        (lambda header: header["__metadata__"].pop("format"), "not a checkpoint of this round"),
        (lambda header: header["__metadata__"].update(round="3"), "not a checkpoint of this round"),
        (lambda header: header["__metadata__"].update(meta="[1]"), "its meta is no JSON object"),
        (lambda header: header["__metadata__"].update(meta="{"), "its meta is no JSON object"),
        (lambda header: header["__metadata__"].update(meta="[" * 100_000), "its meta is no JSON object"),
        (lambda header: header["__metadata__"].pop("meta"), "its meta is no JSON object"),
        (lambda header: header["theta"].update(dtype="I32", shape=[12]), "its array 'theta' has type I32"),
        (lambda header: header["theta"].update(shape=[2, 4]), "it is no safetensors file"),
        (lambda header: header["theta"].update(dtype="object"), "it is no safetensors file"),
        (lambda header: header["theta"].update(data_offsets=[0, 8]), "it is no safetensors file"),
    ],
)
def test_foreign_files_are_refused(tmp_path, change, fault):
    put(tmp_path, 1)
    newer = put(tmp_path, 2)
    reseal(newer, rewritten(newer.read_bytes(), change))
    found = load(tmp_path)
    assert found.round == 1
    assert fault in found.skipped[0]
    assert "\n" not in found.skipped[0]


def test_a_renamed_checkpoint_is_refused(tmp_path):
    path = put(tmp_path, 2)
    shutil.copy(path, tmp_path / path.name.replace("round-2-", "round-9-"))
    shutil.copy(path, tmp_path / "round-10.safetensors")
    reasons = [reason.split(": ")[1] for reason in load(tmp_path).skipped]
    assert reasons == ["it is not a checkpoint of this round in this format"]
    path.unlink()
    with pytest.raises(DataError, match="its name is not that of a checkpoint"):
        load(tmp_path)


def test_if_none_can_be_used_it_says_so(tmp_path):
    for t in (1, 2):
        put(tmp_path, t)
    for path in tmp_path.iterdir():
        harm("half", path)
    expected = "restore one from a backup, or move these files away to start again"
    with pytest.raises(DataError, match=rf"no checkpoint in .* can be used \(round-2-.*round-1-.*{expected}"):
        load(tmp_path)


@pytest.mark.parametrize("where", ["write", "fsync", "replace"])
def test_a_full_disk_leaves_the_old_checkpoint(tmp_path, monkeypatch, where):
    put(tmp_path, 1)
    before = listed(tmp_path)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(*{"write": (store, "write")}.get(where, (os, where)), full)
    with pytest.raises(
        DataError, match=r"cannot be written \(No space left on device\); expected room and perm"
    ):
        save(tmp_path, 2, ARRAYS, META)
    monkeypatch.undo()
    assert listed(tmp_path) == before
    assert load(tmp_path).round == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_really_full_device(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "tempfile.mkstemp", lambda *_: (os.open("/dev/full", os.O_WRONLY), str(tmp_path / "x"))
    )
    with pytest.raises(DataError, match="No space left on device"):
        save(tmp_path, 2, ARRAYS, META)


def test_a_file_where_the_directory_should_be(tmp_path):
    place = tmp_path / "place"
    place.write_text("x")
    with pytest.raises(DataError, match=r"place cannot be written \(File exists\)"):
        save(place, 1, ARRAYS, META)
    with pytest.raises(DataError, match=r"place cannot be read \(Not a directory\)"):
        load(place)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may do anything")
def test_missing_permission(tmp_path):
    path = put(tmp_path, 1)
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(DataError, match="Permission denied"):
            put(tmp_path, 2)
        path.chmod(0)
        with pytest.raises(DataError, match=r"round-1-.*: Permission denied"):
            load(tmp_path)
    finally:
        tmp_path.chmod(0o700)


def test_an_unreadable_checkpoint_is_passed_over(tmp_path, monkeypatch):
    put(tmp_path, 1)
    newer = put(tmp_path, 2)
    real = budget.read

    def read(path, most):
        if path == newer:
            raise OSError(errno.EIO, "Input/output error")
        return real(path, most)

    monkeypatch.setattr(budget, "read", read)
    assert load(tmp_path).skipped == (f"{newer.name}: Input/output error",)


@pytest.mark.parametrize(
    ("round", "arrays", "meta", "fault"),
    [
        (-1, ARRAYS, META, "round is -1"),
        (
            1,
            {"x": np.zeros(2, complex)},
            META,
            "x has type complex128; expected one of float64, float32, int64",
        ),
        (1, {"x": np.array([object()])}, META, "x has type object"),
        (1, {"__metadata__": np.zeros(2)}, META, "an array is called '__metadata__'"),
        (1, {7: np.zeros(2)}, META, "an array is called 7"),
        (1, ARRAYS, {"x": np.zeros(2)}, "meta cannot be written as JSON"),
        (1, ARRAYS, {"x": float("nan")}, "meta cannot be written as JSON"),
    ],
)
def test_the_callers_faults(tmp_path, round, arrays, meta, fault):
    with pytest.raises(InputError, match=fault):
        save(tmp_path, round, arrays, meta)
    assert listed(tmp_path) == []


KILLED = """
import os, sys, numpy as np
from domkl.agent import checkpoint
directory, where = sys.argv[1:]
checkpoint.save(directory, 1, {"x": np.ones(3)}, {})
setattr(*{"fsync": (os, "fsync"), "replace": (os, "replace"), "tidy": (checkpoint, "_tidy")}[where],
        lambda *_: os._exit(9))
checkpoint.save(directory, 2, {"x": np.zeros(3)}, {})
"""


@pytest.mark.parametrize(("where", "round"), [("fsync", 1), ("replace", 1), ("tidy", 2)])
def test_a_process_killed_in_the_middle_of_a_save(tmp_path, where, round):
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), where], check=False)
    assert done.returncode == 9
    found = load(tmp_path)
    assert (found.round, found.skipped) == (round, ())
    put(tmp_path, 3)
    sweep(tmp_path)  # as whoever has the directory's lock does at its start
    assert not list(tmp_path.glob(".*"))
    assert [name.split("-")[1] for name in listed(tmp_path)] == [str(round), "3"]


def test_files_are_those_of_safetensors():
    safetensors = pytest.importorskip("safetensors.numpy")
    arrays = {
        "a": np.arange(6.0).reshape(2, 3),
        "b": np.array([True, False]),
        "c": np.zeros((0, 4), np.float32),
    }
    arrays |= {"d": np.array(7), "e": np.arange(3, dtype=np.uint8)}
    for content in (store.content({}, arrays, {"x": 1}), safetensors.save(arrays, {"meta": "{}"})):
        _, ours = store.parsed(content)
        theirs = safetensors.load(content)
        assert ours.keys() == theirs.keys() == arrays.keys()
        for name, array in arrays.items():
            assert ours[name].dtype == theirs[name].dtype == array.dtype
            np.testing.assert_array_equal(ours[name], array)
            np.testing.assert_array_equal(theirs[name], array)


@pytest.mark.parametrize("seed", range(2))
def test_no_damaged_file_is_believed_and_no_forged_one_crashes(seed):
    tallies = forgeries.checkpoints(400, seed)
    assert not tallies["damaged"].bad
    assert not tallies["forged"].bad
    assert tallies["damaged"]["refused"] > 190
