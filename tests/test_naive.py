"""Guesses that need no learner."""

from __future__ import annotations

import numpy as np

from domkl.learning.naive import simple_guesses

HOURS = 3600.0 * np.arange(24 * 21)


def error(guesses, name, y):
    return float(np.mean((guesses[name][168:] - y[168:]) ** 2))


def test_a_guess_waits_for_labels():
    y = np.arange(1.0, 6)
    found = simple_guesses(y, delay=2)
    assert found["mean so far"].tolist() == [0, 0, 0, 1, 1.5]
    assert found["last value"].tolist() == [0, 0, 0, 1, 2]


def test_each_guess_is_right_where_it_should_be():
    hours = np.arange(len(HOURS))
    daily, weekly = (hours % 24.0) ** 2, (hours % 168.0) ** 2
    found = simple_guesses(daily, HOURS, delay=3)
    assert error(found, "same time yesterday", daily) == error(found, "mean of the hour", daily) == 0
    assert error(simple_guesses(weekly, HOURS), "same time last week", weekly) == 0
    assert error(found, "last value", daily) > 100


def test_a_category_has_guesses_of_its_own():
    shops = np.arange(200) % 2
    y = 10.0 * shops
    found = simple_guesses(y, groups=shops)
    assert np.mean((found["mean so far"] - y) ** 2) > 20
    np.testing.assert_array_equal(found["mean so far, same category"][2:], y[2:])
    np.testing.assert_array_equal(found["last value, same category"][2:], y[2:])
