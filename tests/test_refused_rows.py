"""Rows that cannot be used: counted, passed, kept in a dead-letter file, and never the end of an agent."""

from __future__ import annotations

import asyncio
import json

import numpy as np
import pytest

import problems
from domkl.agent import Agent
from domkl.agent import rows as refused_rows
from domkl.agent.config import CheckpointSection, StreamSection
from domkl.agent.loop import ROLLING, Progress
from domkl.agent.rows import DeadLetters
from domkl.learning.first_order import Step
from inmemory import AUTO, PAPER, config, d, readings, run_all, saved_state, together

MODELS = pytest.mark.parametrize("model", [AUTO, PAPER], ids=["auto", "paper"])


def lines_of(X, y):
    return [json.dumps({"x": x.tolist(), "y": label}) for x, label in zip(X, y, strict=True)]


def odd_rows(T=20):
    """Rows of which one has a label that cannot be squared."""
    X, y = problems.streams(1, 30, d)
    y[0, 7] = 1e160
    return lines_of(X[0], y[0])[:T]


def run_file(folder, lines, **options):
    """An agent that has read a file of JSON lines, and its predictions."""
    path, out = folder / "in.jsonl", []
    path.write_text("\n".join(lines))
    options = {"stream": StreamSection(kind="jsonl", path=str(path)), **options}
    agent = Agent(config("a", **options), out=out.append)
    asyncio.run(together(agent))
    return agent, out


def letters(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def is_finite(agent):
    arrays, _ = agent.learner.save()
    return all(np.isfinite(array).all() for array in arrays.values())


# One row


@MODELS
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_no_finite_label_ends_an_agent_or_leaves_a_state_that_is_not_finite(model, dtype):
    X, y = problems.streams(1, 90, d)
    y[0, 70:76] = 1e100, 1.1e100, 1e154, -1e160, 1e308, -1e308
    (agent,), y_hat = run_all([config("a", model=model, dtype=dtype)], X, y)
    assert agent.rows["sample"] == 5 + (model is PAPER and dtype == "float32")
    assert agent.progress.samples == 90 - agent.rows["sample"]
    assert np.isfinite(y_hat).all()
    assert is_finite(agent)
    assert np.isfinite(agent.progress.rmse)


@MODELS
def test_inputs_too_large_to_square_are_refused(model):
    X, y = problems.streams(1, 30, d)
    X[0, 5, 1] = -1e101
    (agent,), _ = run_all([config("a", model=model)], X, y)
    assert (agent.rows["sample"], agent.rows.used, agent.progress.samples) == (1, 29, 29)


@MODELS
def test_a_refused_row_is_passed_and_kept_with_its_reason(tmp_path, model):
    directory = tmp_path / "state"
    agent, out = run_file(tmp_path, odd_rows(), model=model, checkpoint=CheckpointSection(str(directory)))
    assert [record["index"] for record in out] == [*range(20)]
    assert (agent.rows.read, agent.rows.used, dict(agent.rows)) == (20, 19, {"sample": 1})
    (letter,) = letters(directory / "refused.jsonl")
    assert (letter["index"], letter["line"], letter["kind"]) == (7, 8, "sample")
    assert letter["reason"].startswith("y is 1e+160, too large to be squared; expected at most 1e+100")
    assert letter["row"] == odd_rows()[7]
    assert (directory / "refused.jsonl").stat().st_mode & 0o777 == 0o600
    assert saved_state(directory)["readings"] == 20
    again, out = run_file(tmp_path, odd_rows(30), model=model, checkpoint=CheckpointSection(str(directory)))
    assert [record["index"] for record in out] == [*range(20, 30)]
    assert not again.rows


@MODELS
def test_a_row_in_the_journal_is_passed_too(tmp_path, model):
    X, y = problems.streams(1, 20, d)
    y[0, 7] = 1e160
    section = CheckpointSection(str(tmp_path), every_rounds=5, sync=False)
    options = {"model": model, "checkpoint": section, "stream": StreamSection(journal=True)}

    async def main():
        async def first():
            async for reading in readings(X[0, :9], y[0, :9]):
                yield reading
            await asyncio.Event().wait()

        agent = Agent(config("a", **options), stream=first(), out=len)
        task = asyncio.create_task(agent.run())
        while agent.store.readings < 9:
            await asyncio.sleep(0.001)
        task.cancel()  # as when it is killed: the last readings are in the journal alone
        await asyncio.gather(task, return_exceptions=True)
        out = []
        again = Agent(config("a", **options), out=out.append)
        assert again.store.readings < 7
        again.stream = readings(X[0, 9:], y[0, 9:])
        await together(again)
        return again, out

    again, out = asyncio.run(main())
    assert again.rows["sample"] == 1
    assert len(out) == again.rows.read
    assert again.progress.samples == again.rows.used
    assert {letter["index"] for letter in letters(tmp_path / "refused.jsonl")} == {7}


@pytest.mark.parametrize("step", ["predict", "observe"])
def test_an_error_that_nobody_foresaw_costs_one_row(monkeypatch, step):
    X, y = problems.streams(1, 12, d)
    agent = Agent(config("a"), stream=readings(X[0], y[0]), out=len)
    call = getattr(agent.learner, step)

    def failing(x, *label):
        if x[0] == X[0, 4, 0]:
            raise ZeroDivisionError("unforeseen")
        return call(x, *label)

    monkeypatch.setattr(agent.learner, step, failing)
    asyncio.run(together(agent))
    assert (agent.rows["sample"], agent.rows.used) == (1, 11)
    assert agent.store.readings == 12


def test_the_recent_error_is_finite_whatever_the_errors_are():
    progress = Progress()
    for y, y_hat in ((1e308, -1e308), (1e160, 0.0), (-1e154, 1e154), (5e-324, 0.0), (0.0, np.nan)):
        progress.account(y, y_hat, Step(0, "a", y, y_hat, np.ones(1), y_hat))
        assert np.isfinite([progress.rmse, progress.rmse_alone]).all()


def test_errors_of_together_and_alone_are_averaged_in_the_same_way():
    progress, rng = Progress(), np.random.default_rng(0)
    for y, y_hat, alone in rng.normal(size=(ROLLING, 3)):
        progress.account(y, y_hat, Step(0, "a", y, y_hat, np.ones(1), alone))
    y, y_hat, alone = np.random.default_rng(0).normal(size=(ROLLING, 3)).T
    assert progress.rmse == pytest.approx(np.sqrt(np.mean((y - y_hat) ** 2)))
    assert progress.rmse_alone == pytest.approx(np.sqrt(np.mean((y - alone) ** 2)))
    without = Progress()
    assert (without.rmse, without.rmse_alone) == (None, None)  # no sample yet
    without.account(1.0, 0.0, Step(0, "a", 1.0, 0.0, np.ones(1)))
    assert without.rmse_alone is None


# The dead-letter file


def test_rows_that_cannot_be_read_are_kept_as_they_came(tmp_path):
    lines = [
        '{"x": [1, 2, 3], "y": 1}',
        "1;2;3",
        '{"x": [1, 2], "y": 1}',
        '{"y": 3, "id": "k"}',
        "\x00\ufeff{",
    ]
    section = StreamSection(kind="jsonl", path=str(tmp_path / "in.jsonl"), dead_letters=str(tmp_path / "bad"))
    agent, out = run_file(tmp_path, lines, stream=section)
    assert (len(out), agent.rows.used, agent.rows.read) == (1, 1, 5)
    found = letters(tmp_path / "bad")
    assert [letter["row"] for letter in found if letter["line"]] == lines[1:]
    kinds = ["not a reading", "wrong length", "label without input", "not a reading"]
    assert [letter["kind"] for letter in found] == kinds
    assert all(letter["reason"] and letter["remedy"] for letter in found)


def test_bytes_that_are_no_text_and_long_rows_are_kept_as_far_as_they_can_be(tmp_path):
    rows = refused_rows.RefusedRows(DeadLetters(str(tmp_path / "bad")))
    for row in (b"\xff\x00", b"a" * 100_000, object()):
        rows.note(refused_rows.RowRefused("not a row", "odd"), 0, 1, row)
    rows.letters.close()
    first, second, third = (letter["row"] for letter in letters(tmp_path / "bad"))
    assert (first, len(second), third[:7]) == ("\\xff\x00", refused_rows.MOST_CHARACTERS, "<object")


def test_the_file_is_bounded_and_holds_the_last_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(refused_rows, "MOST_LETTER_BYTES", 1000)
    kept = DeadLetters(str(tmp_path / "bad"))
    for index in range(200):
        kept.write({"index": index})
    kept.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad", "bad.1"]
    assert all(path.stat().st_size <= 1000 for path in tmp_path.iterdir())
    found = [*letters(tmp_path / "bad.1"), *letters(tmp_path / "bad")]
    assert [letter["index"] for letter in found] == [*range(200)][-len(found) :]
    assert kept.lost == 0


def test_a_file_that_cannot_be_written_is_counted(tmp_path, log):
    section = StreamSection(
        kind="jsonl", path=str(tmp_path / "in.jsonl"), dead_letters=str(tmp_path / "no" / "bad")
    )
    agent, out = run_file(tmp_path, odd_rows(), stream=section)
    assert (len(out), agent.rows.used, agent.rows.letters.lost) == (20, 19, 1)
    assert [line for line in log() if line["event"] == "dead letter lost"]


def test_a_record_cut_short_does_not_spoil_the_next(tmp_path, monkeypatch):
    kept, write = DeadLetters(str(tmp_path / "bad")), refused_rows.os.write
    kept.write({"index": 0})
    monkeypatch.setattr(refused_rows.os, "write", lambda file, data: write(file, data[:5]))
    kept.write({"index": 1})
    monkeypatch.setattr(refused_rows.os, "write", write)
    kept.write({"index": 2})
    kept.close()
    first, _, last = (tmp_path / "bad").read_text().splitlines()
    assert (json.loads(first), json.loads(last), kept.lost) == ({"index": 0}, {"index": 2}, 1)


def test_nothing_is_kept_where_the_settings_say_so(tmp_path):
    directory = tmp_path / "state"
    section = StreamSection(kind="jsonl", path=str(tmp_path / "in.jsonl"), dead_letters="")
    run_file(tmp_path, odd_rows(), stream=section, checkpoint=CheckpointSection(str(directory)))
    assert not (directory / "refused.jsonl").exists()
