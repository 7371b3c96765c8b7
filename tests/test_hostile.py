"""A neighbour that lies in every field: nobody ends, hangs or grows, and the honest go on learning."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

import hostile
import inmemory
from domkl.agent import transports
from domkl.agent.config import RoundSection

MODELS = {"first": inmemory.PAPER, "newton": inmemory.paper(step="newton"), "auto": inmemory.AUTO}


def network(model):
    """Three learners that all hear each other; the last is the liar."""
    rounds = RoundSection(deadline=0.1, start=1.0, resend=0.03)
    return [inmemory.config(name, set("abm") - {name}, model=model, rounds=rounds) for name in "abm"]


@pytest.mark.parametrize("model", MODELS)
def test_lies_in_any_field_end_in_refusals_and_the_honest_learn_on(model):
    configs = network(MODELS[model])
    make = lambda config: transports.make(config.transport_settings())  # noqa: E731
    agents, facts = asyncio.run(hostile.attacked(configs, make, 600, after=150, seconds=60.0))
    assert all(sum(kinds.values()) > 100 for kinds in facts["refused"].values())
    assert all("fault" not in kinds for kinds in facts["refused"].values())
    for out, mark in zip(facts["predictions"][:-1], facts["marks"], strict=False):
        errors = np.array([(one["y"] - one["y_hat"]) ** 2 for one in out])
        labels = np.array([one["y"] for one in out])
        assert np.isfinite(errors).all()
        assert len(errors) >= mark + 100
        assert errors[-50:].mean() < max(labels.var(), errors[: mark or 1].mean())
    for agent in agents[:-1]:
        own = agent.learner.check
        update = agent.learner.observe(np.full(inmemory.d, 0.5), 0.5)
        own("m", update)
