"""Fixtures that several files share."""

from __future__ import annotations

import io
import json
import logging

import pytest


@pytest.fixture
def log():
    """Lines of an agent's log, as dicts."""
    from domkl.agent import logs
    from domkl.agent.config import LogSection

    text = io.StringIO()
    logger = logging.getLogger("domkl")
    before = logger.handlers[:], logger.level, logger.propagate
    logs.setup(LogSection(level="debug"), "a", text)
    yield lambda: [json.loads(line) for line in text.getvalue().splitlines()]
    logger.handlers[:], logger.propagate = before[0], before[2]
    logger.setLevel(before[1])
