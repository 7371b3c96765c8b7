"""The demo without options: what anybody sees first must show that learning together pays."""

from __future__ import annotations

import json

import numpy as np
import pytest

from domkl import cli
from domkl.lab.turbofan import MOST, load_engines


def test_sites_together_foresee_failures_better_than_alone(tmp_path, capsys):
    assert cli.main(["run", "--json", "--out", str(tmp_path)]) in (0, None)
    found = json.loads(capsys.readouterr().out)
    assert found["ratio"] < 0.75
    assert (tmp_path / "fleet.png").stat().st_size > 10_000


def test_an_option_that_the_fleet_does_not_have_is_refused(capsys):
    with pytest.raises(SystemExit) as error:
        raise SystemExit(cli.main(["run", "fleet", "--rounds", "4"]))
    assert error.value.code == 2
    assert "--rounds is given with fleet" in capsys.readouterr().err


def test_inputs_of_an_engine_use_the_cycles_so_far_alone():
    from domkl.lab import turbofan

    readings = np.random.default_rng(0).normal(size=(60, 24))
    changed = readings.copy()
    changed[40:] += 1
    before, after = turbofan._engine(readings), turbofan._engine(changed)
    np.testing.assert_array_equal(before.X[:40], after.X[:40])
    assert (before.X[40:] != after.X[40:]).any()


def test_a_hundred_engines_end_with_no_cycle_left():
    engines = load_engines()
    assert len(engines) == 100
    assert sum(len(each.y) for each in engines) == 20631
    assert all(each.y[-1] == 0 and each.y.max() == MOST for each in engines)
