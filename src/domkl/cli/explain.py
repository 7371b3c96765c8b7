"""`domkl explain MODEL`: which inputs matter to a saved model, overall and for rows of a file."""

from __future__ import annotations

import argparse
from typing import Any, TypeAlias

import numpy as np

from ..base.errors import InputError
from ..base.words import NONE, digits, number, percent
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


def run(args: argparse.Namespace) -> None:
    """Load, ask, show."""
    if args.rows < 1:
        raise InputError(f"--rows is {args.rows}; expected at least 1; choose more")
    model = DOMKL.load(args.model)
    place = predict.chosen(model, args.learner)
    overall = _one(model.explain(), place)
    assert isinstance(overall, Effects)
    overall = overall._replace(effect=overall.effect * abs(model.about.factor))
    rows = [] if args.data is None else _rows(model, args)
    if args.json:
        show.document(_document(model, place, overall, rows))
        return
    _print(model, place, overall, rows)


def _one(found: Any, place: int) -> Any:
    """Of a network, what one learner says."""
    return found[place] if isinstance(found, list) else found


def _rows(model: DOMKL, args: argparse.Namespace) -> list[Explained]:
    """The first rows, each with its number and by the learner that it has in `domkl predict`."""
    table = predict.rows_of(model, args.model, args.data)
    who = predict.learners_of(model, table, args.learner)
    J = None if model.graph is None else len(model.learners)
    rows = []
    for i in np.argsort(table.rows, kind="stable")[: args.rows]:
        x = table.X[i] if J is None else np.tile(table.X[i], (J, 1))
        rows.append((int(table.rows[i]), who[i], _in_units(model, _one(model.explain(x), who[i]))))
    return rows


def _in_units(model: DOMKL, row: Contributions) -> Contributions:
    about = model.about
    base, y_hat = (float(about.in_units(value)) for value in (row.base, row.y_hat))
    return Contributions(row.names, base, y_hat, about.factor * row.contribution)


def _document(model: DOMKL, place: int, overall: Effects, rows: list[Explained]) -> dict[str, Any]:
    return {
        "learner": str(model.learners[place]),
        "samples": model.n,
        "target": model.about.target,
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


def _print(model: DOMKL, place: int, overall: Effects, rows: list[Explained]) -> None:
    unit, target = model.about.unit, model.about.target or "the target"
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
