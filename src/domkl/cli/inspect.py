"""`domkl inspect FILE`: what each column becomes, and everything that is wrong, all at once."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from ..base.errors import DataError, InputError
from ..base.sheet import Sheet
from ..datasets import Columns, Encoder, readers, table
from ..datasets.guess import Guess
from ..datasets.readers import Fault, Raw
from ..datasets.view import ColumnView
from ..lab.experiment import Experiment
from ..learning.settings import MOST_INPUTS
from . import own, show

#: Rows that are read unless told otherwise.
ROWS = 1000
HEADS = ("column", "becomes", "examples", "missing", "range", "inputs made of it")
TEXT = "show what each column of a file becomes, and everything that is wrong with it"


def add_to(commands: Any) -> None:
    """Declare the command."""
    command = commands.add_parser("inspect", help=TEXT, description=f"{TEXT[0].upper()}{TEXT[1:]}.")
    add = command.add_argument
    add("data", metavar="SOURCE", help="a file, - for standard input, sqlite:FILE or postgresql://...")
    own.add_columns(add)
    add("--rows", type=int, default=ROWS, metavar="N", help="how many rows to read (default: %(default)s)")
    add("--json", action="store_true", help="one JSON document on standard output")
    command.set_defaults(act=run)


def run(args: argparse.Namespace) -> None:
    """Read, guess, show."""
    look(args.data, own.columns(args, Columns()), args.query or "", args.rows, args.json)


def look(source: str, given: Columns, query: str, rows: int, as_json: bool) -> None:
    """Show what a source is; an error at the end, so that the exit code is 2, if something must be fixed."""
    if rows < 1:
        raise InputError(f"--rows is {rows}; expected at least 1; choose more")
    raw = readers.read(source, given, query, rows)
    found = table.understand(raw, given)
    encoder, faults, problems, notes = _tried(raw, found)
    if as_json:
        show.document(_document(raw, found, encoder, faults, problems, notes))
    else:
        _print(raw, found, encoder, faults, problems, notes)
    if problems:
        count = "1 thing" if len(problems) == 1 else f"{len(problems)} things"
        raise InputError(f"{own.title_of(raw.name)}: {count} to fix; expected none; see above")


def check(chosen: Experiment, as_json: bool) -> None:
    """`--check`: show what the data of an experiment are."""
    spec = chosen.data
    if not spec.path:
        raise InputError("--check looks at data of your own; expected --data FILE with it; add --data")
    if not chosen.columns.target:
        raise InputError(f"{chosen.name} needs a target; expected a column to predict; add --target COLUMN")
    look(spec.path, chosen.columns, spec.query, ROWS, as_json)


def _tried(raw: Raw, found: Guess) -> tuple[Encoder | None, list[Fault], list[tuple[str, str]], list[str]]:
    """The encoder, rows it refuses, all problems and notes."""
    problems, notes = list(found.problems), list(found.notes)
    if not found.columns.features:
        return None, list(raw.faults), problems, notes
    encoder = Encoder(found.columns)
    if encoder.d > MOST_INPUTS:
        fact = f"the columns become {encoder.d} inputs, more than {MOST_INPUTS}"
        problems.append((fact, "leave some out with --drop"))
    if found.problems:
        return encoder, list(raw.faults), problems, notes
    try:
        made = table.encoded(raw, encoder, found, unlabelled=not found.columns.target)
    except DataError as error:
        fact, _, remedy = str(error).rpartition("; ")
        return encoder, list(raw.faults), [*problems, (fact, remedy)], notes
    if made.dropped:
        notes.append(f"{made.dropped} rows without a target or with missing cells are left out")
    return encoder, list(made.faults), problems, [*notes, *made.notes[len(found.notes) :]]


def _made_of(view: ColumnView, encoder: Encoder | None) -> Sequence[str]:
    if encoder is None:
        return ()
    return next((part.inputs for part in encoder.parts if part.name == view.name), ())


def _document(
    raw: Raw,
    found: Guess,
    encoder: Encoder | None,
    faults: Sequence[Fault],
    problems: Sequence[tuple[str, str]],
    notes: Sequence[str],
) -> dict[str, Any]:
    columns = [{**vars(view), "inputs": list(_made_of(view, encoder))} for view in found.views]
    return {
        "data": raw.name,
        "format": raw.format,
        "rows": len(raw),
        "columns": columns,
        "inputs": 0 if encoder is None else encoder.d,
        "refused": [fault._asdict() for fault in faults],
        "problems": [{"fact": fact, "remedy": remedy} for fact, remedy in problems],
        "notes": list(notes),
        "description": found.columns.table(),
    }


def _print(
    raw: Raw,
    found: Guess,
    encoder: Encoder | None,
    faults: Sequence[Fault],
    problems: Sequence[tuple[str, str]],
    notes: Sequence[str],
) -> None:
    console = show.console()
    if found.views:
        show.sheet(_table(raw, found, encoder))
    for note in notes:
        console.print(f"  {note}", soft_wrap=True, markup=False)
    for fault in faults:
        console.print(f"Refused: {fault}", soft_wrap=True, markup=False)
    for fact, remedy in problems:
        console.print(f"Fix: {fact}; {remedy}", soft_wrap=True, markup=False)
    if not problems:
        _say_next(console, raw, found, encoder)


def _say_next(console: Any, raw: Raw, found: Guess, encoder: Encoder | None) -> None:
    count = 0 if encoder is None else encoder.d
    if found.columns.target:
        words = "1 input predicts" if count == 1 else f"{count} inputs predict"
        console.print(f"Nothing to fix: {words} {found.columns.target}.", markup=False)
    else:
        console.print("Choose what to predict with --target COLUMN.", markup=False)


def _table(raw: Raw, found: Guess, encoder: Encoder | None) -> Sheet:
    title = f"{raw.name} ({raw.format}): the first {len(raw)} rows" if raw.format else raw.name
    rows = [_cells(view, _made_of(view, encoder)) for view in found.views]
    return Sheet(title, HEADS, rows, frozenset({0, 1, 2, 4, 5}), spare=(5, 2))


def _cells(view: ColumnView, inputs: Sequence[str]) -> list[str]:
    what = view.role if view.role in ("left out", view.kind) else f"{view.role}: {view.kind}"
    why = f" ({view.note})" if view.note else ""
    unfit = f", {view.unfit} unfit" if view.unfit else ""
    bounds = f"{view.low} .. {view.high}" if view.low else ""
    shown = ", ".join(inputs[:3]) + (f" ... ({len(inputs)})" if len(inputs) > 3 else "")
    return [view.name, what + why, ", ".join(view.examples), f"{view.missing}{unfit}", bounds, shown]
