"""`DOMKL(horizon=...)`: readings go in, forecasts of the target's values to come are there."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ..base import checks
from ..base.errors import InputError
from ..base.types import Array
from ..base.words import plural
from ..exchange.graph import LONE, Graph, GraphLike, as_graph
from ..learning.horizon import HorizonLike
from ..learning.horizon import horizon as as_horizon
from ..models.settings import ModelSettings
from ..simulator import Run
from ..simulator.ahead import AheadRows, Limits, seconds
from . import saved
from .estimator import DOMKL
from .saved import About


class Forecasts(DOMKL):
    """What `DOMKL(horizon=...)` is: `learn` takes readings, `predict` and `interval` are of the leads.

    Parameters
    ----------
    graph, model : as of `DOMKL`; the model is an `Auto`.
    horizon : "1h", "24 rows", 24 (rows), a list of such, or a range "1h..24h".
    future : how many numbers are known ahead, given to `learn` as `ahead`.
    least, most : limits of the target; 0 is found where it is the least of many values.

    Examples
    --------
    >>> import domkl, numpy as np
    >>> model = domkl.DOMKL(horizon="1h..3h", model=domkl.Auto(size=60))
    >>> for hour in range(24 * 14):
    ...     model.learn([], 10 + hour % 24, time=3600.0 * hour)
    >>> model.predict().round().tolist()       # from midnight's hour before: 1, 2 and 3 hours later
    [10.0, 11.0, 12.0]
    >>> low, high = model.interval(level=90)
    >>> low.shape, sorted(model.interval(level=[80, 95]))
    ((3,), [80, 95])
    """

    def __init__(
        self,
        graph: GraphLike | None = None,
        *,
        model: ModelSettings | None = None,
        horizon: HorizonLike,
        future: int = 0,
        least: float | None = None,
        most: float | None = None,
    ) -> None:
        super().__init__(graph, model=model, horizon=horizon)
        self.horizon, self.future = as_horizon(horizon), checks.count("future", future, least=0)
        self.limits = Limits(least, most)
        self._rows: AheadRows | None = None

    @classmethod
    def from_run(cls, run: Run, y: npt.ArrayLike | None = None, X: npt.ArrayLike | None = None) -> Forecasts:
        """The network of a finished `simulate(..., horizon=...)`, which goes on; y and X are not needed."""
        if run.ahead is None:
            raise InputError(
                "the run has no horizon; expected simulate(..., horizon=...); use DOMKL.from_run"
            )
        rows, J = run.ahead.rows, len(run.y_hat)
        device = rows.devices[0]
        graph = None if J == 1 else run.graph
        made = cls(graph, model=rows.settings, horizon=rows.horizon, future=device.future)
        made.limits, made._rows = Limits(*device.limits), rows
        return made

    @property
    def n(self) -> int:
        """How many rounds were learnt."""
        return 0 if self._rows is None else self._rows.n

    @property
    def _network(self) -> Graph | None:
        return None if self.graph is None or self._rows is None else self._rows.network.graph

    @property
    def d(self) -> int | None:
        """How many inputs a reading has; None before the first."""
        return None if self._rows is None else self._rows.devices[0].d

    @property
    def targets(self) -> int:
        """How many leads are forecast."""
        return len(self.horizon.leads)

    @property
    def leads(self) -> tuple[str, ...]:
        """The leads, as people write them."""
        return self.horizon.names

    def __repr__(self) -> str:
        leads = (
            self.leads[0]
            if len(self.leads) == 1
            else f"{plural(len(self.leads), 'lead')} up to {self.leads[-1]}"
        )
        return f"{super().__repr__()[:-1]}, forecasts {leads}>"

    def learn(
        self, x: npt.ArrayLike, y: npt.ArrayLike, time: Any = None, ahead: npt.ArrayLike | None = None
    ) -> None:
        """A reading: inputs x (d,), the target y (NaN where it has none), and when: seconds or a datetime.

        Of a network X (J, d), y (J,), and a time for all or for each. What has become known by it is learnt,
        and what is forecast from now on is `predict()`. `ahead` (H, future) holds what is known of the times
        that are forecast; (J, H, future) of a network.
        """
        inputs, labels = checks.floats("x", x), checks.floats("y", y)
        if self.graph is None:
            inputs, labels = inputs[None], labels[None]
        rows = self._made(inputs)
        J = len(rows.devices)
        if time is None and not self.horizon.rows:
            raise InputError(
                "learn() has no time; expected seconds or a datetime with each reading; give time="
            )
        when = np.zeros(J) if time is None else np.broadcast_to(seconds(time), J)
        coming = None
        if ahead is not None:
            coming = checks.floats("ahead", ahead).reshape(J, self.targets, self.future)
        elif self.future:
            coming = np.full((J, self.targets, self.future), np.nan)
        rows.observe(when, inputs, labels, coming)

    def _made(self, X: Array) -> AheadRows:
        if self._rows is None:
            if X.ndim != 2:
                raise InputError(
                    f"x has shape {X.shape[self.graph is None :]}; expected (d,), or (J, d); reshape it"
                )
            graph = LONE if self.graph is None else as_graph(self.graph, len(X))
            self._rows = AheadRows(
                self.model, self.horizon, X.shape[1], graph, future=self.future, limits=self.limits
            )
        return self._rows

    @property
    def rows(self) -> AheadRows:
        """The devices; there must have been a reading."""
        if self._rows is None:
            raise InputError("there is no reading yet; expected one or more; call learn() first")
        return self._rows

    def predict(self, x: None = None) -> Any:  # type: ignore[override]
        """The forecast of each lead from the last reading: (H,), or (J, H); of one lead a number."""
        if x is not None:
            raise InputError(
                "predict() has an x and the model a horizon; expected none: forecasts are of the last reading"
            )
        return self._shaped(self.rows.y_hat.copy())

    def interval(self, x: None = None, coverage: float = 0.9, level: Any = None) -> Any:  # type: ignore[override]
        """Bounds of the last forecasts, low and high, each as `predict` gives it; `level` as of `DOMKL`."""
        return super().interval(x, coverage, level)  # type: ignore[arg-type]

    def _bounds(self, x: Any, coverage: float) -> Any:
        low, high = self.rows.bounds(coverage)
        return self._shaped(low), self._shaped(high)

    def explain(self, x: Any = None, target: int = 0) -> Any:
        """Not known of a model with a horizon."""
        raise InputError(
            "the model has a horizon; expected one without, to explain; learn the data without a horizon"
        )

    def _state(self) -> dict[str, Any]:
        rows = self.rows  # what waits for labels is among it
        return {
            "horizon": {"leads": np.array(self.horizon.leads), "rows": self.horizon.rows},
            "future": self.future,
            "limits": list(self.limits),
            "dtype": np.dtype(rows.rows.dtype).name,
            "ahead": rows.state(),
        }

    @classmethod
    def _of(cls, state: Mapping[str, Any]) -> Forecasts:
        graph = None if state["graph"] is None else saved.graph_of(state["graph"])
        leads, in_rows = state["horizon"]["leads"].tolist(), state["horizon"]["rows"]
        checks.need(type(in_rows) is bool, "its horizon is odd")
        horizon = as_horizon([f"{lead!r} {'rows' if in_rows else 's'}" for lead in map(_plain, leads)])
        least, most = state["limits"]
        made = cls(
            graph,
            model=saved.settings_of(state),
            horizon=horizon,
            future=state["future"],
            least=least,
            most=most,
        )
        d = checks.count("inputs", state["inputs"], least=0)
        dtype = checks.float_type(checks.one_of("dtype", state["dtype"], ("float64", "float32")))
        rows = AheadRows(made.model, horizon, d, graph or LONE, dtype, future=made.future, limits=made.limits)
        rows.restore(state["ahead"])
        made._rows, made.about = rows, About.of(state["about"], d)
        J, times = len(rows.devices), [max(device.now, 0.0) + horizon.leads[-1] for device in rows.devices]
        copy.deepcopy(rows).observe(times, np.zeros((J, d)), np.zeros(J))  # refuses now what would fail later
        return made


def _plain(lead: float) -> float | int:
    return int(lead) if lead == int(lead) else lead
