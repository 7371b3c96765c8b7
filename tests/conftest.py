"""Fixtures that several files share; what they need is imported by those who use them."""

from __future__ import annotations

import io
import json
import logging

import pytest
from hypothesis import settings

# How long an example takes depends on what else the machine does.
settings.register_profile("domkl", deadline=None)
settings.load_profile("domkl")


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


@pytest.fixture(scope="session")
def authority(tmp_path_factory):
    """A CA, with certificates for a, b, c, operator and mallory."""
    from domkl.agent import certs

    folder = tmp_path_factory.mktemp("certs")
    certs.make(folder, ["a", "b", "c", "operator", "mallory"])
    return folder


@pytest.fixture(scope="session")
def stranger(tmp_path_factory):
    """Another CA, with a certificate in the name of a."""
    from domkl.agent import certs

    folder = tmp_path_factory.mktemp("stranger")
    certs.make(folder, ["a", "broker"])
    return folder
