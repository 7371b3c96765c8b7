"""Which inputs matter to the learners of a simulation, for its live page.

What is needed of a learner is copied between two rounds; the rest is computed in a thread of its own, so
that rounds go on.
"""

from __future__ import annotations

import sys
import threading
import time

from ..faces.saved import About
from ..lab.trial import Source
from ..learning import explain
from ..learning.auto import AutoRows
from ..learning.auto import explain as learnt
from ..learning.explain import Function, Usual
from ..watch import RunFeed

#: Seconds until the first look, and between two of them at least; if one takes long, so many times as long.
FIRST, EVERY, REST = 2.0, 10.0, 200.0


class RunInputs:
    """Explains the learner that the page shows, now and then; `factor` brings effects to the page's unit."""

    def __init__(self, feed: RunFeed, source: Source, factor: float) -> None:
        d = source.split.X.shape[-1]
        self._feed, self._factor = feed, factor
        self._named = About(source.inputs, columns=source.columns).groups(d)
        self._due = time.monotonic() + FIRST if d <= explain.MOST_INPUTS else float("inf")

    def look(self, model: AutoRows | None, round: int) -> None:
        """Begin to explain if it is time to; called between two rounds, or when there are no more."""
        start, j = time.monotonic(), self._feed.looked_at
        if start < self._due or self._feed.explained_at(j) == round:
            return
        if model is None or not model.is_scaled:  # it has learnt nothing yet
            return
        self._due = float("inf")  # until this one has ended
        try:
            asked = learnt.function(model, j), learnt.usual(model, j)
        except Exception as error:
            _complain(error)
            return
        threading.Thread(target=self._show, args=(j, round, asked, start), daemon=True).start()

    def _show(self, j: int, round: int, asked: tuple[Function, Usual], start: float) -> None:
        try:
            found = explain.effects(*asked, *self._named).listed(self._factor)
        except Exception as error:
            _complain(error)
            return
        if found:
            self._feed.explain(j, round, found)
        now = time.monotonic()
        self._due = now + max(EVERY, REST * (now - start))


def _complain(error: Exception) -> None:
    """Nothing that is only shown may cost more than a line."""
    print(f"domkl: inputs cannot be explained: {error!r}", file=sys.stderr)
