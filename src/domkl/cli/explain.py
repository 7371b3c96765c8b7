"""`domkl explain MODEL`: which inputs matter to a saved model, overall and for rows of a file."""

from __future__ import annotations

import argparse
from typing import Any, TypeAlias

import numpy as np

from ..base import checks
from ..base.errors import InputError
from ..base.words import NONE, digits, number, percent
from ..faces.ahead import Forecasts
from ..faces.estimator import DOMKL
from ..lab.sheet import Sheet
from ..learning.explain import Contributions, Effects, direction
from . import declare, predict, show

#: The number of a row, the place of its learner, and what moves its prediction.
Explained: TypeAlias = tuple[int, int, Contributions]
TEXT = "show which inputs matter to a saved model, overall and for each row of a file"
#: Rows that are explained, and inputs that are shown of each, unless told otherwise.
ROWS, MOST = 5, 5
#: A part of a prediction that is no more than rounding.
NOTHING = 1e-9


def add_to(commands: Any) -> None:
    """Declare the command."""
    add = declare(commands, "explain", TEXT, run)
    add("model", metavar="MODEL", help="a file of DOMKL.save() or `domkl run`")
    add("--data", metavar="SOURCE", help="explain the predictions for the rows of this file, too")
    add("--rows", type=int, default=ROWS, metavar="N", help="the first N of them (default: %(default)s)")
    add("--learner", metavar="NAME", help="of a network, this learner (default: the best, as in predict)")
    add("--target", metavar="NAME", help="of a model with several targets, this one (default: the first)")
    add("--lead", metavar="H", help="of a model with a horizon, this lead (default: the nearest)")


def run(args: argparse.Namespace) -> None:
    """Load, ask, show."""
    if args.rows < 1:
        raise InputError(f"--rows is {args.rows}; expected at least 1; choose more")
    model = DOMKL.load(args.model)
    place, k = predict.chosen(model, args.learner), _place(model, args)
    overall = _one(model.explain(target=k), place)
    assert isinstance(overall, Effects)
    overall = overall._replace(effect=overall.effect * abs(model.about.factor))
    rows = [] if args.data is None else _rows(model, args, k)
    target, ahead = predict.targets_of(model)[0], {}
    if isinstance(model, Forecasts):
        rows, ahead = [(model.n, place, _one(model.explain("last", k), place))], {"lead": model.leads[k]}
    elif model.targets > 1:
        target = predict.targets_of(model)[k]
    if args.json:
        show.document({**ahead, **_document(model, place, overall, rows), "target": target})
        return
    words = f"{target or 'the target'} {model.leads[k]} ahead" if isinstance(model, Forecasts) else target
    _print(model, place, overall, rows, words or "the target")


def _place(model: DOMKL, args: argparse.Namespace) -> int:
    """The place of the target that is asked for, or of the lead; the first by default."""
    if not isinstance(model, Forecasts):
        if args.lead is not None:
            raise InputError("--lead is given and the model has no horizon; expected one with; leave it out")
        names = predict.targets_of(model)
        return 0 if args.target is None else names.index(checks.one_of("--target", args.target, names))
    if args.target is not None:
        raise InputError("--target is given and the model has a horizon; expected one target; leave it out")
    if args.data is not None:
        raise InputError(
            "--data is given and the model has a horizon; expected none, as its last forecast is explained; "
            "leave it out"
        )
    return 0 if args.lead is None else model.leads.index(checks.one_of("--lead", args.lead, model.leads))


def _one(found: Any, place: int) -> Any:
    """Of a network, what one learner says."""
    return found[place] if isinstance(found, list) else found


def _rows(model: DOMKL, args: argparse.Namespace, k: int) -> list[Explained]:
    """The first rows, each with its number and by the learner that it has in `domkl predict`."""
    table = predict.rows_of(model, args.model, args.data)
    who = predict.learners_of(model, table, args.learner)
    J = None if model.graph is None else len(model.learners)
    rows = []
    for i in np.argsort(table.rows, kind="stable")[: args.rows]:
        x = table.X[i] if J is None else np.tile(table.X[i], (J, 1))
        rows.append((int(table.rows[i]), who[i], _in_units(model, _one(model.explain(x, k), who[i]))))
    return rows


def _in_units(model: DOMKL, row: Contributions) -> Contributions:
    about = model.about
    base, y_hat = (float(about.in_units(value)) for value in (row.base, row.y_hat))
    return Contributions(row.names, base, y_hat, about.factor * row.contribution)


def _document(model: DOMKL, place: int, overall: Effects, rows: list[Explained]) -> dict[str, Any]:
    return {
        "learner": str(model.learners[place]),
        "samples": model.n,
        "unit": model.about.unit,
        "inputs": overall.rows(),
        "rows": [
            {
                "row": n,
                "learner": str(model.learners[who]),
                "y_hat": row.y_hat,
                "base": row.base,
                "inputs": row.rows(),
            }
            for n, who, row in rows
        ],
    }


def _print(model: DOMKL, place: int, overall: Effects, rows: list[Explained], target: str) -> None:
    unit = model.about.unit
    of = f": {predict.described(model, place)}" if len(model.learners) > 1 else ""
    show.sheet(_overall(f"What matters to the prediction of {target}{of}", unit, overall))
    if rows:
        print()
        show.sheet(_each(model, rows))


def _overall(title: str, unit: str, overall: Effects) -> Sheet:
    heads = ("input", "part", f"effect\n{unit}" if unit else "effect", "as it grows")
    cells = [
        [row["input"], percent(row["part"]), digits(row["effect"]), direction(row["trend"]) or NONE]
        for row in overall.rows()
    ]
    legend = {
        "part": "of all that the inputs move",
        "effect": "how far a prediction moves, typically, if the input is that of another sample",
        "as it grows": f"where the prediction goes; {NONE}: in no clear direction",
    }
    return Sheet(title, heads, cells, frozenset({0, 3}), legend=legend)


def _each(model: DOMKL, rows: list[Explained]) -> Sheet:
    of = f"\n{model.about.unit}" if model.about.unit else ""
    cells = [
        [str(n), str(model.learners[who]), digits(row.y_hat), digits(row.base), _moves(row)]
        for n, who, row in rows
    ]
    heads = ("row", "learner", f"predicted{of}", f"average{of}", "moved by")
    sheet = Sheet("What moves each prediction from the learner's average", heads, cells, frozenset({1, 4}))
    return sheet if len(model.learners) > 1 else sheet.only([0, 2, 3, 4])


def _moves(row: Contributions) -> str:
    """The inputs that move a prediction most; not those that do nothing but for rounding."""
    largest = [each for each in row.rows()[:MOST] if abs(each["contribution"]) > NOTHING * abs(row.y_hat)]
    return ", ".join(f"{each['input']} {_signed(each['contribution'])}" for each in largest) or NONE


def _signed(value: float) -> str:
    return f"{'+' if value >= 0 else '-'}{number(abs(value))}"
