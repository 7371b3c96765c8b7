"""Journals: what happened since the last checkpoint, a line each."""

from __future__ import annotations

import errno
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import forgeries
from domkl.agent.checkpoint import Journal
from domkl.base.errors import DataError, InputError
from domkl.learner import files as store
from saved import anything, one_folder, put

RECORDS = [{"round": t, "peer": "b\n\r\u2028", "deep": {"x": [1.5, None]}} for t in range(5)]


def written(directory, round=7, records=RECORDS):
    with Journal(directory) as journal:
        journal.start(round, sync=False)
        for record in records:
            journal.append(record)
    return directory / f"journal-{round}.jsonl"


@pytest.fixture
def no_waiting(monkeypatch):
    """Nothing waits for the disk."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.mark.usefixtures("no_waiting")
@one_folder
@given(st.lists(st.dictionaries(st.text(), anything, max_size=3), max_size=6), st.booleans())
def test_records_come_back(tmp_path, records, sync):
    with Journal(tmp_path) as journal:
        journal.start(7, sync=False)
        for record in records:
            journal.append(record, sync)
        assert journal.read() == records
    with Journal(tmp_path) as journal:
        assert journal.resume(7) == records
        journal.append({"more": 1})
        assert journal.read() == [*records, {"more": 1}]


@pytest.mark.usefixtures("no_waiting")
def test_a_journal_cut_anywhere_keeps_its_whole_lines_and_goes_on(tmp_path):
    path = written(tmp_path)
    content = path.read_bytes()
    for size in range(len(content)):
        path.write_bytes(content[:size])
        whole = content[:size].count(b"\n")
        with Journal(tmp_path) as journal:
            assert journal.resume(7) == RECORDS[:whole]
            journal.append({"more": 1})
            assert journal.read() == [*RECORDS[:whole], {"more": 1}]


def test_damage_in_the_last_line_is_ignored_and_damage_before_it_is_told(tmp_path):
    path = written(tmp_path)
    content = path.read_bytes()
    last = content.rindex(b"\n", 0, -1) + 1
    for where in (last, last + 3, last + 20, len(content) - 1):
        path.write_bytes(content[:where] + bytes([content[where] ^ 4]) + content[where + 1 :])
        with Journal(tmp_path) as journal:
            assert journal.resume(7) == RECORDS[:-1]
    path.write_bytes(content[:20] + b"?" + content[21:])
    with (
        Journal(tmp_path) as journal,
        pytest.raises(DataError, match=r"is damaged at line 1; .*move it away to go"),
    ):
        journal.resume(7)
    assert path.stat().st_size == len(content)


@pytest.mark.parametrize("change", ["swapped", "twice", "without"])
def test_lines_have_their_place(tmp_path, change):
    path = written(tmp_path)
    a, b, *rest = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join({"swapped": [b, a], "twice": [a, a, b], "without": [b]}[change] + rest))
    with Journal(tmp_path) as journal, pytest.raises(DataError, match="is damaged at line"):
        journal.resume(7)


def test_a_journal_belongs_to_one_checkpoint(tmp_path):
    path = written(tmp_path, 7)
    path.rename(tmp_path / "journal-8.jsonl")
    with Journal(tmp_path) as journal:
        with pytest.raises(DataError, match="is damaged at line 1"):
            journal.resume(8)
        assert journal.resume(9) == []


def test_journals_go_with_their_checkpoints(tmp_path):
    with Journal(tmp_path) as journal:
        journal.start(0)
        for t in (10, 20, 30):
            put(tmp_path, t)
            journal.start(t)
            journal.append({"after": t})
        assert journal.read() == [{"after": 30}]
    assert [path.name for path in sorted(tmp_path.glob("journal-*"))] == [
        "journal-20.jsonl",
        "journal-30.jsonl",
    ]
    put(tmp_path, 30, x=np.ones(1))  # the round again: its records are still since that round
    with Journal(tmp_path) as journal:
        assert journal.resume(30) == [{"after": 30}]
        assert journal.resume(20) == [{"after": 20}]


def test_half_a_line_is_taken_back_when_the_disk_is_full(tmp_path, monkeypatch):
    with Journal(tmp_path) as journal:
        journal.start(7)
        journal.append({"good": 1})

        def half(file, line, sync):
            file.write(line[:5])
            raise OSError(errno.ENOSPC, "No space left on device")

        size = (tmp_path / "journal-7.jsonl").stat().st_size
        monkeypatch.setattr(store, "write", half)
        with pytest.raises(DataError, match="No space left on device"):
            journal.append({"bad": 1})
        monkeypatch.undo()
        assert (tmp_path / "journal-7.jsonl").stat().st_size == size + 5
        journal.append({"good": 2})
        assert journal.read() == [{"good": 1}, {"good": 2}]


def test_a_journal_must_be_open_and_its_records_plain(tmp_path):
    journal = Journal(tmp_path)
    for call in (journal.read, lambda: journal.append({})):
        with pytest.raises(InputError, match=r"no journal is started; .*start\(\) or resume\(\)"):
            call()
    with journal:
        journal.start(1)
        with pytest.raises(InputError, match="record cannot be written as JSON"):
            journal.append({"x": object()})
        assert journal.read() == []
    with pytest.raises(InputError, match="round is -1"):
        journal.start(-1)


def test_a_journal_that_cannot_be_read(tmp_path):
    (tmp_path / "journal-1.jsonl").mkdir()
    with pytest.raises(DataError, match=r"journal-1.jsonl cannot be read \(Is a directory\)"):
        Journal(tmp_path).resume(1)
    with pytest.raises(DataError, match=r"cannot be written \(Is a directory\)"):
        Journal(tmp_path).start(1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["journal-1.jsonl"]


@pytest.mark.parametrize("seed", range(2))
def test_no_damaged_journal_is_believed(seed):
    tally = forgeries.journals(200, seed)["damaged"]
    assert not tally.bad
    assert tally["cut short"] > 0
