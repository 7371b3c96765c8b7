"""Which rounds of neighbours are believed: one that lies cannot make us skip further than a stated bound.

A round ahead of ours is believed where more than half of the neighbours that are up, and at least two, have
reached it. One neighbour alone is believed at a plausible rate: `SLACK` rounds, and `MOST_A_SECOND` for each
second since it was last not ahead of us, so that the halves of a healed ring come together; our other
neighbours follow at that rate, so a lie divides us from them for no longer than its sender was away. A
learner that starts without a state goes to the round that more than half of all its neighbours have reached,
absent ones included; an only neighbour is believed up to `MOST_OF_ONE`. Nobody skips more than `MOST_AHEAD`
rounds at once, nor to later ones than `LAST_SKIP`.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..learner.learner import EARLIEST, LAST_SKIP

#: How many rounds ahead are believed at any time.
SLACK = EARLIEST
#: How many rounds a second a network makes at most.
MOST_A_SECOND = 10_000.0
#: How many rounds are skipped at once, at most.
MOST_AHEAD = 2**40
#: Up to which round a new learner follows its only neighbour at once; further at a plausible rate.
MOST_OF_ONE = 2**28


def reached_by_most(rounds: Iterable[int]) -> int:
    """The last round that more than half have reached; -1 where there are none."""
    found = sorted(rounds, reverse=True)
    return found[len(found) // 2] if found else -1


def first_round(rounds: list[int], absent: int) -> int:
    """Where a learner without a state starts: at the round that more than half of its neighbours have
    reached. Absent ones count as at round 0, so that one that is up alone decides nothing for the others."""
    most = reached_by_most([*rounds, *[0] * absent])
    return most if len(rounds) > 1 or 0 < most <= MOST_OF_ONE else 0


def in_reach(here: int, round: int) -> bool:
    """Whether a learner at round `here` may skip to `round`, whoever has reached it."""
    return round <= min(here + MOST_AHEAD, LAST_SKIP)


def at_plausible_rate(here: int, round: int, seconds: float) -> bool:
    """Whether a neighbour that was not ahead of us so many seconds ago can be at `round` now."""
    return round - here <= SLACK + MOST_A_SECOND * seconds


def reached_by_others(round: int, rounds: list[int]) -> bool:
    """Whether more than half, and at least two, have about reached that round."""
    return len(rounds) > 1 and round <= reached_by_most(rounds) + SLACK
