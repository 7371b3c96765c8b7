"""Questions of HTTP clients: what would be predicted for these inputs? Nothing is learnt or remembered."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import math
from typing import Any

import numpy as np

from ..base import checks
from ..base.errors import InputError
from ..datasets.columns import CellError
from ..learner import Learner
from .config import AgentConfig
from .explaining import Explaining
from .output import Predictions
from .rows import JsonRows, RowRefused, fault_of
from .streams import Scaling, encoding_of

#: Seconds to wait for the agent's loop.
PATIENCE = 2.0


class Asking:
    """Answers in the agent's own loop, between two of its steps; called from any other thread."""

    def __init__(self, config: AgentConfig, learner: Learner, predictions: Predictions) -> None:
        self._loop = asyncio.get_running_loop()
        self._learner, self._predictions, self._name = learner, predictions, config.name
        self._scaling = Scaling.of(config.stream, config.inputs, config.takes_missing)
        _, encoder = encoding_of(config.columns, config.takes_missing)
        self._parse, self._explaining = JsonRows(encoder, config.name), Explaining(config)

    def __call__(self, question: dict[str, Any]) -> dict[str, Any]:
        """A prediction for {"x": [..] or {"name": ..}}; TimeoutError if the loop is busy.

        With "explain": true also what each input adds to it, where the model can tell.
        """
        explains = question.get("explain", False)
        if not {*question} <= {"x", "explain"} or question.get("x") is None or not isinstance(explains, bool):
            raise InputError(
                f"the question has {checks.short(list(question))}; expected x, and perhaps explain, a truth "
                'value; send {"x": [1.5, 2]}'
            )
        x = self._inputs(question)
        answer, model = self._in_loop(x, explains and self._explaining.may_answer())
        return answer if model is None else {**answer, "inputs": self._explaining.of(model, x)}

    def _in_loop(self, x: Any, explains: bool) -> tuple[dict[str, Any], Any]:
        asked = asyncio.run_coroutine_threadsafe(self._answer(x, explains), self._loop)
        try:
            return asked.result(PATIENCE)
        except concurrent.futures.TimeoutError:
            asked.cancel()
            raise TimeoutError from None

    async def _answer(self, x: Any, explains: bool) -> tuple[dict[str, Any], Any]:
        y_hat = self._learner.ask(x)
        model = self._learner.as_function() if explains else None
        about = {"learner": self._name, "round": self._learner.round}
        return {**about, **self._predictions.described(y_hat)}, model

    def _inputs(self, question: dict[str, Any]) -> Any:
        try:
            row = self._parse(json.dumps({"x": question["x"]}, allow_nan=False).encode())
        except (RowRefused, CellError) as error:
            fault = fault_of(error)
            raise InputError(f"{fault.reason}; {fault.remedy}") from None
        except ValueError:
            raise InputError("x has a number that is not finite; expected finite ones; fix it") from None
        assert row.x is not None
        x, wanted = np.array(row.x, dtype=np.float64), len(self._scaling.low)
        if len(x) != wanted:
            raise InputError(f"x has {len(x)} values; expected {wanted}; send as many")
        for i, value in enumerate(x.tolist()):
            if not (math.isfinite(value) or (self._scaling.missing and math.isnan(value))):
                raise InputError(f"x[{i}] is {value}; expected a finite number; leave no input out")
        return self._scaling.x(x[None])[0]
