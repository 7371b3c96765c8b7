"""`domkl inspect FILE`: what each column becomes, and everything that is wrong, all at once."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..base.errors import DataError, InputError
from ..base.words import NONE, plural
from ..datasets import Columns, Encoder, readers, table
from ..datasets.guess import ColumnView, Guess
from ..datasets.readers import Fault, Raw
from ..lab.experiment import Experiment
from ..lab.sheet import Sheet
from ..models.settings import MOST_INPUTS
from . import declare, options, show

#: Rows that are read unless told otherwise.
ROWS = 1000
HEADS = ("column", "becomes", "examples", "missing", "range", "inputs made of it")
MIDNIGHT = " 00:00:00"
TEXT = "show what each column of a file becomes, and everything that is wrong with it"


def add_to(commands: Any) -> None:
    """Declare the command."""
    add = declare(commands, "inspect", TEXT, run)
    add("data", metavar="SOURCE", help="a file, - for standard input, sqlite:FILE or postgresql://...")
    options.add_columns(add)
    add("--rows", type=int, default=ROWS, metavar="N", help="how many rows to read (default: %(default)s)")


def run(args: argparse.Namespace) -> None:
    """Read, guess, show."""
    look(args.data, options.columns(args, Columns()), args.query or "", args.rows, args.json)


class Inspected(NamedTuple):
    """What a source is, and what is wrong with it."""

    raw: Raw
    found: Guess
    encoder: Encoder | None
    faults: list[Fault]
    problems: list[tuple[str, str]]
    notes: list[str]

    @property
    def inputs(self) -> int:
        """How many inputs its columns become."""
        return 0 if self.encoder is None else self.encoder.d

    def made_of(self, column: str) -> Sequence[str]:
        """The inputs that a column becomes."""
        parts = () if self.encoder is None else self.encoder.parts
        return next((part.inputs for part in parts if part.name == column), ())


def look(source: str, given: Columns, query: str, rows: int, as_json: bool) -> None:
    """Show what a source is; an error at the end, so that the exit code is 2, if something must be fixed."""
    if rows < 1:
        raise InputError(f"--rows is {rows}; expected at least 1; choose more")
    raw = readers.read(source, given, query, rows)
    found = table.understand(raw, given)
    seen = Inspected(raw, found, *_tried(raw, found))
    if as_json:
        show.document(_document(seen))
    else:
        _print(seen)
    if seen.problems:
        count = plural(len(seen.problems), "thing")
        raise InputError(f"{options.title_of(raw.name)}: {count} to fix; expected none; see above")


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


def _document(seen: Inspected) -> dict[str, Any]:
    return {
        "data": seen.raw.name,
        "format": seen.raw.format,
        "rows": len(seen.raw),
        "columns": [{**vars(view), "inputs": list(seen.made_of(view.name))} for view in seen.found.views],
        "inputs": seen.inputs,
        "refused": [fault._asdict() for fault in seen.faults],
        "problems": [{"fact": fact, "remedy": remedy} for fact, remedy in seen.problems],
        "notes": seen.notes,
        "description": seen.found.columns.table(),
    }


def _print(seen: Inspected) -> None:
    console = show.console()
    if seen.found.views:
        show.sheet(_table(seen))
    show.notes(seen.notes)
    for fault in seen.faults:
        console.print(f"Refused: {fault}", soft_wrap=True, markup=False)
    for fact, remedy in seen.problems:
        console.print(f"Fix: {fact}; {remedy}", soft_wrap=True, markup=False)
    if not seen.problems:
        console.print(_next(seen), markup=False)


def _next(seen: Inspected) -> str:
    target = " and ".join(seen.found.columns.targets)
    if not target:
        return "Choose what to predict with --target COLUMN."
    return f"Nothing to fix: {plural(seen.inputs, 'input')} predict{'s' * (seen.inputs == 1)} {target}."


def _table(seen: Inspected) -> Sheet:
    raw = seen.raw
    title = f"{raw.name} ({raw.format}): the first {plural(len(raw), 'row')}" if raw.format else raw.name
    rows = [_cells(view, seen.made_of(view.name)) for view in seen.found.views]
    return Sheet(title, HEADS, rows, frozenset({0, 1, 2, 4, 5}), spare=(5, 2))


def _cells(view: ColumnView, inputs: Sequence[str]) -> list[str]:
    what = view.role if view.role in ("left out", view.kind) else f"{view.role}: {view.kind}"
    why = f" ({view.note})" if view.note else ""
    unfit = f", {view.unfit} unfit" if view.unfit else ""
    ends = (view.low, view.high)
    days = [end.removesuffix(MIDNIGHT) for end in ends if end.endswith(MIDNIGHT)]
    bounds = " .. ".join(days if len(days) == 2 else ends) if view.low else NONE
    shown = ", ".join(inputs[:3]) + (f" ... ({len(inputs)})" if len(inputs) > 3 else "")
    return [view.name, what + why, ", ".join(view.examples), f"{view.missing}{unfit}", bounds, shown or NONE]
