"""State directories: one agent at a time, and only the one they belong to."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import subprocess
import sys

import pytest

import problems
from domkl import cli
from domkl.agent import Agent
from domkl.agent.checkpoint import Lock
from domkl.agent.config import CheckpointSection
from domkl.base.errors import DataError, InputError
from inmemory import config, d, run_all, stream

HOLD = """
import sys
from domkl.agent.checkpoint import Lock
lock = Lock(sys.argv[1])
print(lock.take(), flush=True)
sys.stdin.read()
"""
TOML = """
network = "net"
name = "a"
inputs = 3
[transport]
kind = "memory"
[checkpoint]
directory = "{directory}"
"""


@pytest.fixture
def other(tmp_path):
    """Another process that has the lock of tmp_path."""
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "\n"
        yield process
        process.kill()


def given(folder, **options):
    return config("a", checkpoint=CheckpointSection(str(folder), sync=False), **options)


def test_a_second_agent_on_a_directory_ends_with_one_line(other, tmp_path, capsys):
    (tmp_path / "a.toml").write_text(TOML.format(directory=tmp_path))
    assert cli.main(["agent", str(tmp_path / "a.toml")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert (
        f"is in use by process {other.pid}; expected one agent for a state directory; stop the other" in error
    )


def test_any_death_frees_the_lock(other, tmp_path):
    assert Lock(tmp_path).take() == f"process {other.pid}"
    os.kill(other.pid, signal.SIGKILL)
    other.wait()
    assert not Lock(tmp_path).take()
    assert not Lock(tmp_path).take()  # the one before is gone with its object


def test_a_second_agent_touches_nothing(tmp_path):
    X, y = problems.streams(1, 10, d)
    run_all([given(tmp_path)], X, y)
    first = Agent(given(tmp_path))
    (tmp_path / ".round-1-x.tmp").write_text("half of a checkpoint")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(InputError, match=f"is in use by process {os.getpid()}; "):
        Agent(given(tmp_path))
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    first.store.close()
    Agent(given(tmp_path)).store.close()
    assert not list(tmp_path.glob(".*"))  # what a dead process has left


def test_an_agent_that_could_not_lock_at_its_start_does_not_write_where_another_does(tmp_path, monkeypatch):
    X, y = problems.streams(1, 10, d)
    with monkeypatch.context() as patch:
        patch.setattr(Lock, "take", lambda _: os.open(tmp_path / "no" / "file", os.O_RDONLY))
        agent = Agent(given(tmp_path / "state"), stream=stream(X[0], y[0]), out=len)
        assert agent.store.saving.fault
    lock = Lock(tmp_path / "state")
    assert not lock.take()
    with pytest.raises(DataError, match=f"state cannot be saved: process {os.getpid()} uses .*state; "):
        asyncio.run(asyncio.wait_for(agent.run(), 30))
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["lock"]
    assert lock.is_held


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ({"name": "b"}, "is of 'a' in network 'net'; expected 'b' in 'net'; choose another"),
        ({"network": "other"}, "is of 'a' in network 'net'; expected 'a' in 'other'; choose another"),
    ],
)
def test_the_checkpoint_of_another_device_is_refused_in_one_line(tmp_path, change, shown):
    X, y = problems.streams(1, 10, d)
    run_all([given(tmp_path)], X, y)
    with pytest.raises(DataError, match=shown) as refused:
        Agent(dataclasses.replace(given(tmp_path), **change))
    assert "\n" not in str(refused.value)
    Agent(given(tmp_path)).store.close()
