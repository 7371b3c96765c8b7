"""One device with nothing to tune."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...base import checks
from ...base.types import Array
from ...exchange.graph import Graph
from .. import conformal, losses, second_order
from .learners import Look
from .network import Network

#: Values after which a column that came late gets its scale.
LATE = 32


class Model:
    """One device that learns online, with nothing to tune.

    Parameters
    ----------
    d : number of inputs.
    loss : "squared" for numbers, "logistic" for labels of -1 and +1 (0 is read as -1).
    seed : of the frequencies.
    size : how many numbers all models have together; time and memory grow with its square.
    forgetting : "auto" (the past is dropped when newer samples alone predict clearly better), "none" (all
        samples count), or about how many past samples count.

    Inputs may have any scale and may be missing (NaN). `predict` gives the target, clipped to the range seen,
    or for "logistic" the score 2 P(y = +1) - 1, in [-1, 1]; before any label it gives 0.

    Examples
    --------
    >>> import numpy as np
    >>> from domkl.learning.auto import Model
    >>> model, rng = Model(2, size=200), np.random.default_rng(0)
    >>> for x in rng.uniform(0, 1000, size=(300, 2)):
    ...     model.learn(x, np.sin(x[0] / 200) + x[1] / 500)
    >>> bool(abs(model.predict([500.0, 500.0]) - np.sin(2.5) - 1) < 0.1)
    True
    """

    def __init__(
        self,
        d: int,
        *,
        loss: str = "squared",
        seed: int = 0,
        size: int = 1700,
        forgetting: str | float = "auto",
    ) -> None:
        d, size = checks.count("d", d), checks.count("size", size, least=16)
        self.forgetting = _memory(forgetting)
        checks.one_of("loss", loss, ("squared", "logistic"))
        self.alone = Network(
            Graph((0,), ((),)), d, losses.get(loss), seed=seed, size=size, forgets=forgetting == "auto"
        )
        self._late: dict[int, list[float]] = {}  # columns that came after the scale was fixed
        self.errors = conformal.Errors()
        self._seen: Look | None = None

    @property
    def d(self) -> int:
        """How many inputs a sample has."""
        return self.alone.d

    @property
    def n(self) -> int:
        """How many samples were learnt."""
        return self.alone.rounds

    def predict(self, x: npt.ArrayLike) -> float:
        """What to expect at x, before its label is known."""
        return float(self._look(x).y_hat[0])

    def learn(self, x: npt.ArrayLike, y: float) -> None:
        """A sample with its label."""
        network, look = self.alone, self._look(x)
        label = losses.one_label(network.loss, y)
        if self.n:  # the first error says nothing about the model
            self.errors.note(look.y_hat - label)
        network.learn(look, label[None])
        self._forget()
        self._take_late(look.x[0])
        self._seen = None

    def interval(self, x: npt.ArrayLike, coverage: float = 0.9) -> tuple[float, float]:
        """Between which bounds y will lie, in `coverage` of all cases: see `domkl.conformal`."""
        middle, wide = self.predict(x), self.errors.width(conformal.check_coverage(coverage))[0]
        return middle - float(wide), middle + float(wide)

    def grow(self, d: int) -> None:
        """From now on samples have d inputs, the new ones last; what was learnt stays.

        While the scale is not fixed, the kept samples are replayed with the new inputs missing. Later, a new
        input is left out until 32 of its values have shown its scale.
        """
        network, more = self.alone, checks.count("d", d, least=self.d) - self.d
        if more == 0:
            return
        self._seen = None
        if network.warm.over:
            self._late.update((c, []) for c in range(network.d, d))
        network.grow(d)

    def fix_scale(self) -> None:
        """The scale of all samples so far stays for good, without late inputs that have not shown theirs."""
        self._late, self._seen = {}, None
        if not self.alone.warm.over:
            self.alone.rescale()
            self.alone.warm.end()

    def _look(self, x: npt.ArrayLike) -> Look:
        sample = checks.floats("x", x)
        checks.shape("x", sample, (self.d,), "every sample needs the same features; see grow()")
        checks.finite_or_missing("x", sample)
        if self._seen is None or not np.array_equal(self._seen.x[0], sample, equal_nan=True):
            self._seen = self.alone.look(sample[None].copy())
        return self._seen

    def _forget(self) -> None:
        network = self.alone
        if network.state is not None and network.warm.over:
            network.state = second_order.fade(network.state, network.rounds, self.forgetting, network.pulls)

    def _take_late(self, x: Array) -> None:
        """Collect values of new columns; fix the scale of those that have shown enough."""
        for c, values in list(self._late.items()):
            if not np.isnan(x[c]):
                values.append(float(x[c]))
            if len(values) == LATE:
                self.alone.set_column(c, np.array(values))
                del self._late[c]


def _memory(forgetting: str | float) -> float | None:
    if isinstance(forgetting, str):
        checks.one_of("forgetting", forgetting, ("auto", "none"))
        return None
    return 1 + checks.positive("forgetting", forgetting)
