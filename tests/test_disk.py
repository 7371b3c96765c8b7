"""Full and read-only disks: the agent goes on, reports it, and saves again as soon as it can."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import json
import os
import pathlib
import subprocess
import sys

import networkx as nx
import numpy as np
import pytest

import domkl
import problems
from domkl.agent import Agent, checkpoint, logs, serve
from domkl.agent.config import CheckpointSection, OutputSection, StreamSection
from domkl.agent.output import MOST, Lines
from domkl.agent.streams import Reading, aiter_of
from domkl.base.errors import DataError
from domkl.cli import main
from domkl.learner import files
from inmemory import PAPER, config, configs, d, paced, stream, until, y_hats

FULL = "state cannot be saved: No space left on device"
HERE = pathlib.Path(__file__).parent


class Disk:
    """A disk that can be full."""

    def __init__(self):
        self.full = False
        self._write = files.write

    def write(self, file, content, sync):
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        self._write(file, content, sync)


@pytest.fixture
def disk(monkeypatch):
    disk = Disk()
    monkeypatch.setattr(files, "write", disk.write)
    monkeypatch.setattr(logs, "RETRY", 0.05)
    return disk


def section(folder, **options):
    return CheckpointSection(str(folder), **{"every_rounds": 5, "sync": False, **options})


async def killed(task):
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def live(X, y, first=0):
    """Readings that come once, a few at a time."""
    for t in range(first, len(y)):
        yield Reading(t, X[t], y[t], None)
        await asyncio.sleep(0.002)


def test_an_agent_goes_on_while_its_disk_is_full_and_saves_as_soon_as_there_is_room(disk, tmp_path):
    X, y = problems.streams(1, 150, d)
    one = config("a", checkpoint=section(tmp_path), stream=StreamSection("stdin", journal=True))
    out = []

    async def main():
        agent = Agent(one, stream=live(X[0], y[0]), out=out.append)
        task = asyncio.create_task(agent.run())
        await until(lambda: agent.store.saved >= 10)
        disk.full, saved = True, agent.store.saved
        await until(lambda: agent.learner.round > 60 and len(agent.status.faults) == 2)
        assert agent.status.faults[0] == FULL
        assert agent.store.durable(agent.learner.round) == saved == checkpoint.load(tmp_path).round
        assert serve._health(agent.status, 30.0).status == 200
        page = serve._readiness(agent.status)
        assert (page.status, page.body.decode().split("; ")[0]) == (503, "state cannot be saved")
        facts = agent.metrics()
        assert facts["saves_failed"] > 0
        assert facts["readings_unjournalled"] > 20
        assert facts["checkpoint_age_seconds"] > 0.05
        disk.full = False
        await until(lambda: not agent.store.saving.fault)
        assert agent.store.saved > 60
        await task
        assert serve._readiness(agent.status).status == 200
        return agent

    agent = asyncio.run(asyncio.wait_for(main(), 30))
    run = domkl.simulate(X, y, nx.empty_graph(1), model=PAPER)
    np.testing.assert_array_equal(y_hats([out]), run.y_hat)
    assert checkpoint.load(tmp_path).round == agent.learner.round == 150


def test_saving_is_tried_again_although_no_reading_comes(disk, tmp_path):
    X, y = problems.streams(1, 12, d)

    async def then_silence():
        async for reading in live(X[0], y[0]):
            yield reading
        await asyncio.sleep(60)

    async def main():
        agent = Agent(config("a", checkpoint=section(tmp_path)), stream=then_silence(), out=len)
        task = asyncio.create_task(agent.run())
        await until(lambda: agent.store.saved >= 5)
        disk.full = True
        await until(lambda: agent.learner.round == 12 and agent.store.saving.fault)
        disk.full = False
        await until(lambda: agent.store.saved == 12)
        await killed(task)

    asyncio.run(asyncio.wait_for(main(), 30))


def test_a_crash_while_the_disk_is_full_goes_back_to_the_last_checkpoint_with_the_same_bits(disk, tmp_path):
    """`durable` is truthful meanwhile, so the neighbour still has the updates that the replay needs; and the
    restart works on the full disk."""
    graph = nx.path_graph(2)
    X, y = problems.streams(2, 80, d)
    first, other = configs(graph)
    first = dataclasses.replace(first, checkpoint=section(tmp_path))
    outs = [[], []]

    async def main():
        agent = Agent(first, stream=stream(X[0], y[0]), out=outs[0].append)
        near = Agent(other, stream=stream(X[1], y[1]), out=outs[1].append)
        tasks = [asyncio.create_task(each.run()) for each in (agent, near)]
        await until(lambda: agent.store.saved >= 10)
        disk.full, saved = True, agent.store.saved
        while agent.learner.round < 60:
            await asyncio.sleep(0)
        assert near.peers["l0"].durable == saved
        await killed(tasks[0])
        again = Agent(first, out=outs[0].append)
        assert again.learner.round == saved < 60
        again.stream = stream(X[0], y[0], skip=again.store.readings)
        with pytest.raises(DataError, match=f"{FULL}; expected room .* goes on from round {saved}"):
            await again.run()  # to the end of its stream, where it says what is not saved
        await tasks[1]

    asyncio.run(asyncio.wait_for(main(), 30))
    last = [{record["index"]: record["y_hat"] for record in out} for out in outs]
    y_hat = [[one[t] for t in range(80)] for one in last]
    np.testing.assert_array_equal(y_hat, domkl.simulate(X, y, graph, model=PAPER).y_hat)


def test_a_new_device_whose_disk_is_full_learns(disk, tmp_path):
    X, y = problems.streams(1, 20, d)
    journalled, out = StreamSection("stdin", journal=True), []
    disk.full = True
    one = config("a", checkpoint=section(tmp_path / "state"), stream=journalled)
    agent = Agent(one, stream=live(X[0], y[0]), out=out.append)
    with pytest.raises(DataError, match=FULL):
        asyncio.run(asyncio.wait_for(agent.run(), 30))
    assert len(out) == agent.learner.round == agent.store.noting.failed == 20


def test_a_journal_outlives_starts_on_a_full_disk(disk, tmp_path):
    """No step of a start may remove readings before they are safe elsewhere."""
    X, y = problems.streams(1, 30, d)
    journalled = StreamSection("stdin", journal=True)
    one = config("a", checkpoint=section(tmp_path, every_rounds=1000), stream=journalled)

    async def life(readings, until_round):
        agent = Agent(one, stream=readings, out=len)
        task = asyncio.create_task(agent.run())
        await until(lambda: agent.learner.round >= until_round)
        await killed(task)
        return agent

    async def main():
        await life(live(X[0], y[0]), 20)
        disk.full = True
        for _ in range(2):
            agent = await life(live(X[0], y[0], first=30), 20)
            assert agent.store.saved == 0
            assert agent.store.saving.failed > 0
        disk.full = False
        return await life(live(X[0], y[0], first=agent.store.readings), 30)

    agent = asyncio.run(asyncio.wait_for(main(), 30))
    alone = domkl.simulate(X, y, nx.empty_graph(1), model=PAPER)
    np.testing.assert_array_equal(agent.learner.state.theta.reshape(alone.theta[0].shape), alone.theta[0])


# Predictions


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_predictions_file_is_named_and_nothing_stops(tmp_path):
    X, y = problems.streams(1, 200, d)
    one = config("a", output=OutputSection("/dev/full"))
    agent = Agent(one, stream=aiter_of(paced(X[0], y[0], 0.001), d))

    async def main():
        task = asyncio.create_task(agent.run())
        await until(lambda: agent.status.faults)
        await task

    asyncio.run(asyncio.wait_for(main(), 30))
    assert agent.status.faults == ("predictions cannot be written: /dev/full: No space left on device",)
    assert agent.learner.round == 200
    assert agent.metrics()["predictions_lost"] == 200


def test_predictions_wait_for_room_and_are_then_whole(tmp_path):
    """Lines wait up to a limit; beyond it they are counted as lost. None is cut in two."""
    place = tmp_path / "later" / "predictions.jsonl"
    lines = Lines(str(place))
    count = 0
    while not lines.lost:
        lines.write({"index": count, "text": "x" * 1000})
        count += 1
    assert lines.writing.fault == f"predictions cannot be written: {place}: No such file or directory"
    assert MOST // 1100 < count < MOST // 1000
    place.parent.mkdir()
    place.write_text('{"index": 0, "te')  # what an earlier process could not end
    lines.write({"index": count, "text": ""})
    lines.flush()
    assert (lines.writing.fault, lines.lost) == ("", 1)
    lines.close()
    cut, *whole = place.read_text().splitlines()
    assert cut == '{"index": 0, "te'
    assert [json.loads(line)["index"] for line in whole] == [*range(count - 1), count]


def test_a_full_disk_is_in_the_closing_line_and_the_exit_code(tmp_path, capsys):
    (tmp_path / "in.jsonl").write_text('{"x": [1], "y": 1}\n' * 30)
    text = 'inputs = 1\nmodel = {size = 20}\nstream = {path = "in.jsonl"}\n'
    (tmp_path / "a.toml").write_text(f'{text}output = {{predictions = "/dev/full"}}\n')
    assert main(["agent", str(tmp_path / "a.toml")]) == 2
    *_, closing, error = capsys.readouterr().err.splitlines()
    assert (json.loads(closing)["predictions_lost"], json.loads(closing)["used"]) == (30, 30)
    assert "30 predictions are lost: predictions cannot be written: /dev/full: No space left" in error


def test_predictions_of_the_same_rows_are_not_written_twice(tmp_path):
    (tmp_path / "in.jsonl").write_text('{"x": [1], "y": 1}\n' * 5)
    text = 'inputs = 1\nmodel = {size = 20}\nstream = {path = "in.jsonl"}\noutput = {predictions = "out"}\n'
    for directory, expected in (("", 5), ("state", 5), ("state", 6)):
        (tmp_path / "a.toml").write_text(f'{text}checkpoint = {{directory = "{directory}"}}\n')
        assert main(["agent", str(tmp_path / "a.toml")]) == 0
        indices = [json.loads(line)["index"] for line in (tmp_path / "out").read_text().splitlines()]
        assert indices == list(range(expected))
        with (tmp_path / "in.jsonl").open("a") as file:
            file.write('{"x": [2], "y": 1}\n' if directory else "")


# A real disk

REAL = """
import asyncio, os, pathlib, subprocess, sys
sys.path.insert(0, sys.argv[1])
import problems
from domkl.agent import Agent, checkpoint, logs
from inmemory import config, d, paced, until
from domkl.agent.config import CheckpointSection, StreamSection
from domkl.agent.streams import aiter_of

place = sys.argv[2]
logs.RETRY = 0.1
X, y = problems.streams(1, 4000, d)
one = config("a", checkpoint=CheckpointSection(place + "/state", every_rounds=20))

def mount(*options):
    subprocess.run(["mount", *options, place], check=True)

async def started(seen):
    agent = Agent(one, out=len)
    agent.stream = aiter_of(paced(X[0], y[0], 0.001), d, agent.store.readings)
    task = asyncio.create_task(agent.run())
    await until(seen(agent))
    return agent, task

async def main():
    mount("-t", "tmpfs", "-o", "size=400k,mode=700", "none")
    agent, task = await started(lambda one: lambda: one.store.saved >= 40)
    filler = open(place + "/filler", "wb", buffering=0)
    try:
        while filler.write(bytes(4096)):
            pass
    except OSError:
        pass
    await until(lambda: agent.store.saving.fault)
    print(agent.store.saving.fault)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    saved = checkpoint.load(place + "/state").round
    full, task = await started(lambda one: lambda: one.learner.round > saved + 50)
    await until(lambda: full.store.saving.fault)
    os.truncate(place + "/filler", 0)
    filler.close()
    await until(lambda: full.store.saved > saved + 50)
    mount("-o", "remount,ro")
    await until(lambda: full.store.saving.fault)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    saved = checkpoint.load(place + "/state").round
    again, task = await started(lambda one: lambda: one.learner.round > saved + 50)
    await until(lambda: again.store.saving.fault)
    print(again.store.saving.fault)
    mount("-o", "remount,rw")
    await until(lambda: again.store.saved > saved + 50)
    print(sorted(path.suffix or path.name for path in pathlib.Path(place, "state").iterdir()))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

asyncio.run(asyncio.wait_for(main(), 60))
"""


def test_a_real_disk_that_is_full_then_read_only_then_well(tmp_path):
    if subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode:
        pytest.skip("mounting a small disk needs root and Linux's unshare")
    command = ["unshare", "-m", sys.executable, "-c", REAL, str(HERE), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.splitlines() == [
        FULL,
        "state cannot be saved: Read-only file system",
        "['.safetensors', '.safetensors', 'lock']",
    ], done.stderr[-2000:]
