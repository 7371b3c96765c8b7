"""A learner of the user's own in a comparison: any estimator of River or scikit-learn, by its name.

river.linear_model:PARegressor              a class, made without arguments
sklearn.linear_model:SGDRegressor(eta0=.1)  a class with arguments
mine:model                                  an object that is ready
"""

from __future__ import annotations

import ast
import copy
import importlib
import os
import sys
from typing import Any

from ...base.errors import InputError
from ...base.types import Array
from ..trial import Source
from .contender import Contender, Result
from .lone import LoneModel, learn_all
from .peers import RiverModel


def contender(text: str) -> Contender:
    """The contender of that name; one that cannot be used is refused in one line."""
    made = _made(text)
    adapter = _adapter(text, made)

    def run(source: Source) -> Result:
        try:
            return learn_all(source, adapter(copy.deepcopy(made)))
        except InputError:
            raise
        except Exception as error:  # of another library, which may raise anything
            fault = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            raise InputError(fault) from None

    return Contender(text, "all", run)


def _adapter(text: str, model: Any) -> type[RiverModel] | type[SklearnModel]:
    """How an estimator, or the class of one, learns."""
    if callable(getattr(model, "learn_one", None)) and callable(getattr(model, "predict_one", None)):
        return RiverModel
    if callable(getattr(model, "partial_fit", None)) and callable(getattr(model, "predict", None)):
        return SklearnModel
    name = getattr(model, "__name__", type(model).__name__)
    raise _refusal(text, f"{name} does not learn sample by sample")


def _made(text: str) -> Any:
    """The object that "module:Class", "module:Class(argument=1)" or "module:object" names."""
    module, colon, expression = text.partition(":")
    if not (module and colon and expression):
        raise _refusal(text, "it has no module and class, with a colon between")
    name, arguments = _called(text, expression)
    here = os.getcwd()
    if here not in sys.path:  # a module of the user's own lies where the command is called
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        _adapter(text, found)  # before it is called: nothing but an estimator's class is
        return found(**arguments) if isinstance(found, type) or arguments else found
    except InputError:
        raise
    except Exception as error:  # a module may raise anything when it is imported
        raise _refusal(text, " ".join(f"{type(error).__name__}: {error}".split())[:200]) from None


def _called(text: str, expression: str) -> tuple[str, dict[str, Any]]:
    """A dotted name and the plain values of its arguments; nothing is evaluated."""
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
        if not isinstance(tree, ast.Call):
            return ast.unparse(tree), {}
        if tree.args or any(keyword.arg is None for keyword in tree.keywords):
            raise ValueError("arguments need names")
        return ast.unparse(tree.func), {str(a.arg): ast.literal_eval(a.value) for a in tree.keywords}
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _refusal(text, f"{error}") from None


def _refusal(text: str, fact: str) -> InputError:
    return InputError(
        f"--add {text} cannot be used ({fact}); expected module:Class of an estimator with learn_one and "
        "predict_one (River) or partial_fit and predict (scikit-learn); name another"
    )


class SklearnModel:
    """An estimator of scikit-learn, a sample at a time; before its first label it predicts 0."""

    def __init__(self, model: Any) -> None:
        self.model, self.fitted = model, False

    def predict(self, x: Array) -> float:
        return float(self.model.predict(x[None])[0]) if self.fitted else 0.0

    def learn(self, x: Array, y: float) -> None:
        self.model.partial_fit(x[None], [y])
        self.fitted = True


_: type[LoneModel] = SklearnModel
