"""A little of benchmarks/fuzz_rows.py: odd rows and configurations, none of which may end an agent."""

from __future__ import annotations

import pytest

from odd_settings import odd_configurations
from oddities import MODELS, odd_messages, odd_rows


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
@pytest.mark.parametrize("model", MODELS)
def test_every_row_is_used_or_kept_with_its_reason(model, kind):
    found = odd_rows(model, kind, 250, seed=1)
    assert found["used"] >= found["honest"] > 50
    assert found["rows"] - found["used"] > 50


@pytest.mark.parametrize("model", ["auto", "paper"])
def test_every_flat_row_is_used_or_kept_with_its_reason(model):
    found = odd_rows(model, "flat", 250, seed=3)
    assert found["used"] >= found["honest"] > 50


def test_odd_messages_of_joined_topics_cost_no_honest_reading():
    found = odd_messages(400)
    assert found["used"] >= found["honest"] > 100


@pytest.mark.parametrize("model", ["auto", "paper"])
def test_honest_rows_are_learnt_among_odd_ones(model):
    assert odd_rows(model, "jsonl", 700, seed=2, absurd=False)["error"] < 0.5


def test_every_configuration_loads_or_is_refused_in_one_line():
    found = odd_configurations(400)
    assert found["loaded"] > 20
    assert found["refused"] > 200
