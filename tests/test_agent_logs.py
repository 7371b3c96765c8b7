"""Logs of an agent: one line an event, whatever it holds and however many there are."""

from __future__ import annotations

import io
import json
import logging
import math

import pytest

from domkl.agent import logs
from domkl.agent.config import LogSection


@pytest.fixture
def log():
    """Set the log up in a form, and read it."""
    logger = logging.getLogger("domkl")
    before = logger.handlers[:], logger.level, logger.propagate
    text = io.StringIO()

    def setup(**settings):
        return logs.setup(LogSection(**settings), "jfk", text), text

    yield setup
    logger.handlers[:], logger.propagate = before[0], before[2]
    logger.setLevel(before[1])


def test_a_log_line_is_a_json_object(log):
    logger, text = log()
    fields = {"round": 7, "age": math.nan, "peers": ("a", 1), "path": io, "none": None, "up": True}
    logs.tell(logger, logging.INFO, "round closed", learner="forged", time="forged", **fields)
    logger.debug("not told")
    told = json.loads(text.getvalue(), parse_constant=pytest.fail)
    assert list(told)[:4] == ["time", "level", "event", "learner"]
    assert (told["level"], told["event"], told["learner"]) == ("info", "round closed", "jfk")
    assert told["time"].endswith("Z")
    assert len(told["time"]) == len("2026-11-16T00:05:47.123Z")
    assert (told["round"], told["age"], told["peers"], told["none"], told["up"]) == (
        7,
        "nan",
        ["a", 1],
        None,
        True,
    )


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_line_break_from_outside_begins_no_line(log, form):
    logger, text = log(format=form)
    logs.tell(logger, logging.WARNING, "refused\nINFO fine", reason='x"\ny', long="z" * 10_000)
    assert text.getvalue().count("\n") == 1
    assert len(text.getvalue()) < 1000


def test_text_is_for_people(log):
    logger, text = log(format="text", level="debug")
    logs.tell(logger.getChild("x"), logging.DEBUG, "café opened", path="a b", count=2)
    time_, _, rest = text.getvalue().partition(" ")
    assert time_.endswith("Z")
    assert rest == 'DEBUG jfk café opened path="a b" count=2\n'


def test_an_exception_stays_on_its_line(log):
    logger, text = log()
    try:
        raise ValueError("no")
    except ValueError:
        logger.exception("failed with %s", "x")
    told = json.loads(text.getvalue())
    assert told["event"] == "failed with x"
    assert "ValueError: no" in told["traceback"]


def test_setting_up_twice_tells_once(log):
    log()
    logger, text = log(level="error")
    logger.warning("quiet")
    logger.error("once")
    assert text.getvalue().count("\n") == 1


def test_a_flood_is_told_in_powers_of_two(log):
    logger, text = log()
    limited = logs.Limited(logger)
    for i in range(100_000):
        limited.warn("bad row", "row refused", line=i)
    limited.warn("other kind", "row refused", line=0)
    told = [json.loads(line) for line in text.getvalue().splitlines()]
    assert [line["count"] for line in told] == [1, 2, 3, 4, 5, *(2**k for k in range(3, 17)), 1]
    assert [line["line"] + 1 for line in told[:-1]] == [line["count"] for line in told[:-1]]


def test_invented_kinds_do_not_fill_memory_or_disk(log):
    logger, text = log()
    limited = logs.Limited(logger)
    for i in range(10_000):
        limited.warn(f"peer {i}", "refused")
    assert len(limited.counts) == logs.KINDS + 1
    assert text.getvalue().count("\n") < logs.KINDS + 20
    assert json.loads(text.getvalue().splitlines()[-1])["count"] == 8192
