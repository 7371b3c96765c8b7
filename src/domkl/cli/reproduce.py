"""`domkl reproduce`: the paper's tables, ours beside the printed figures."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from .. import datasets
from ..base import checks
from ..base.errors import DataError, InputError
from ..base.extras import need
from ..base.words import NONE, digits
from ..datasets.uci import places
from ..lab import experiment, reproduce
from ..lab.reproduce import TITLES, Claim, Figure, Rows, Store
from ..lab.results import write_whole
from ..lab.sheet import FORMATS, Sheet, format_of, whole
from . import declare, show
from .show import check_form

#: Draws of the kernels with --quick.
QUICK_TRIALS = 2


def add_to(commands: Any) -> None:
    """Declare the command."""
    text = "run the paper's tables II to IX and print ours beside the printed figures"
    add = declare(commands, "reproduce", text, run)
    add("--quick", action="store_true", help="on data that ship, in less than a minute")
    add("--protocol", default="fitted", choices=["fitted", "printed"], help="settings (default: %(default)s)")
    add("--tables", metavar="II,III", help=f"some of {', '.join(reproduce.TABLES)}")
    add("--datasets", metavar="A,B", help=f"some of {', '.join(reproduce.DATASETS)}")
    add("--networks", metavar="1,2", help="some of 1, 2, 3, 4")
    add("--trials", type=int, metavar="N", help="draws of the kernels (default: the protocol's 10)")
    add("--jobs", type=int, default=-1, metavar="N", help="processes at a time (default: all cores)")
    add("--backend", metavar="NAME", help="another joblib backend, such as dask")
    add("--out", default="domkl-results", metavar="DIR", help="where results are kept (default: %(default)s)")
    text = "print the tables in this form instead"
    add("--format", choices=list(FORMATS), help=f"{text}: {', '.join(FORMATS)}")
    add("--table", metavar="FILE", help="also write the tables to a file that ends in .csv, .md or .tex")


def run(args: argparse.Namespace) -> None:
    """Run what is not on disk yet, then print everything asked for."""
    check_form(args)
    if args.quick:
        _refuse_with_quick(args)
    tables = _choose("--tables", args.tables, tuple(reproduce.TABLES))
    networks, names = _networks(args.networks, tables), _datasets(args.datasets, tables)
    _refuse_empty_tables(tables if args.tables else [], networks, names)
    if args.table is not None:
        format_of(args.table, "--table")
        show.check_file(args.table, "--table")
    if args.quick:
        names, networks = [reproduce.SHIPPED], list(reproduce.SMALL_NETWORKS)
    with _backend(args.backend):
        rows, absent = _results(names, networks, args)
    all_figures = reproduce.summarise(rows, networks)
    figures, claims = [f for f in all_figures if f.table in tables], reproduce.judge(all_figures, rows)
    notes = ["the paper's networks are inferred: its figure is not in the text"]
    if args.quick:
        notes.append("three airports, six hours ahead: the paper has no figures of them")
    notes += [f"{name} is not here: domkl data fetch {name}" for name in names if name in absent]
    sheets = [reproduce.sheet(table, [f for f in figures if f.table == table]) for table in _shown(figures)]
    if args.format is not None:
        sys.stdout.write(whole(sheets, args.format))
    else:
        (_print_json if args.json else _print)(args.protocol, figures, claims, notes)
    if args.table is not None:
        write_whole(Path(args.table), whole(sheets, format_of(args.table, "--table")).encode())


def _refuse_with_quick(args: argparse.Namespace) -> None:
    for option in ("tables", "datasets", "networks"):
        if getattr(args, option) is not None:
            raise InputError(
                f"--quick and --{option} are both given; expected one of the two, as --quick has data and "
                "networks of its own; leave one out"
            )


def _shown(figures: list[Figure]) -> list[str]:
    """The tables that have figures, in the paper's order."""
    return list(dict.fromkeys(figure.table for figure in sorted(figures, key=_table_order)))


def _results(
    names: Sequence[str], networks: Sequence[int], args: argparse.Namespace
) -> tuple[Rows, set[str]]:
    """All rows asked for, and the datasets that have none as they are neither here nor on disk."""
    protocol, jobs = experiment.load(f"paper-{args.protocol}"), _jobs(args.jobs)
    usual = QUICK_TRIALS if args.quick else protocol.trials
    trials = usual if args.trials is None else checks.count("--trials", args.trials)
    here = (
        {reproduce.SHIPPED}
        if args.quick
        else {entry.name for entry in datasets.catalogue() if entry.path is not None}
    )
    digests = {name: reproduce.digest_of(protocol, name) for name in names if name in here}
    store = Store(Path(args.out) / f"reproduce-{args.protocol}.jsonl", protocol, digests)
    unfinished = {task.dataset for task in store.missing(reproduce.plan(names, networks, trials))}
    absent = unfinished - here - {"regret"}
    _refuse_absent(absent, names, named=args.datasets is not None)
    tasks = reproduce.plan([name for name in names if name not in absent], networks, trials)
    if left := store.missing(tasks):
        store.check_writable()
        with show.progress(f"{len(left)} of {len(tasks)} runs to do") as bar:
            work = reproduce.run_all(protocol, left, jobs, digests)
            for done, (task, rows) in enumerate(work, start=1):
                store.add(task, rows)
                bar(done, len(left))
    return store.rows(tasks), absent


def _refuse_absent(absent: set[str], names: Sequence[str], named: bool) -> None:
    """Refuse, before anything is run, if no dataset is here or one asked for by name is not."""
    if named and absent:
        first = next(name for name in names if name in absent)
        fact = f"{first} is not here; expected its file in {_places()}"
        raise DataError(f"{fact}; run `domkl data fetch {first}` or set DOMKL_DATA to its directory")
    if len(absent) == len(names):
        fact = f"none of the paper's datasets is here; expected their files in {_places()}"
        raise DataError(f"{fact}; run `domkl data fetch {names[0]}` or set DOMKL_DATA to their directory")


def _places() -> str:
    return " or ".join(str(place) for place in places())


def _jobs(number: int) -> int:
    if number == 0:
        raise InputError("--jobs is 0; expected a number of processes, or -1 for all cores; choose another")
    return number


def _backend(name: str | None) -> AbstractContextManager[Any]:
    """joblib's default, or the backend asked for."""
    if name is None:
        return nullcontext()
    try:
        return need("joblib", "cli").parallel_config(name)  # type: ignore[no-any-return]
    except (ValueError, ImportError) as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"--backend {name!r} cannot be used: {reason}; expected a backend joblib knows"
        ) from None


def _choose(option: str, text: str | None, known: Sequence[str]) -> list[str]:
    if text is None:
        return list(known)
    return [checks.one_of(option, name.strip(), known) for name in text.split(",")]


def _networks(text: str | None, tables: Sequence[str]) -> list[int]:
    """The networks asked for, of those that the tables hold."""
    asked = {int(n) for n in _choose("--networks", text, [str(n) for n in reproduce.NETWORKS])}
    held = {n for table in tables for n in reproduce.TABLES[table][2]}
    if text is not None and asked - held:
        raise InputError(
            f"tables {', '.join(tables)} hold networks {sorted(held)}, not {min(asked - held)}; "
            "expected only those in --networks; leave it out"
        )
    return sorted(asked & held)


def _datasets(text: str | None, tables: Sequence[str]) -> list[str]:
    """The datasets asked for, of those that the tables hold."""
    kinds = {reproduce.TABLES[table][1] for table in tables}
    names = _choose("--datasets", text, reproduce.DATASETS)
    held = [name for name in reproduce.DATASETS if _kind(name) in kinds]
    if text is not None and not set(names) <= set(held):
        wrong = next(name for name in names if name not in held)
        raise InputError(
            f"tables {', '.join(tables)} hold no {wrong}; expected some of {', '.join(held)} in --datasets; "
            "leave it out"
        )
    return [name for name in names if name in held]


def _kind(dataset: str) -> str:
    return "series" if "/" in dataset else "regression"


def _refuse_empty_tables(asked: Sequence[str], networks: Sequence[int], names: Sequence[str]) -> None:
    kinds = {_kind(name) for name in names}
    for table in asked:
        _, kind, nets = reproduce.TABLES[table]
        if kind not in kinds or not set(nets) & set(networks):
            raise InputError(
                f"table {table} holds {kind} sets on networks {nets[0]} and {nets[1]}; expected some of "
                "both; leave it out, or name others with --datasets and --networks"
            )


def _print_json(protocol: str, figures: list[Figure], claims: list[Claim], notes: list[str]) -> None:
    shown = [figure for figure in figures if figure.method != "best kernel"]
    show.document(
        {
            "protocol": protocol,
            "settings": experiment.load(f"paper-{protocol}").describe(),
            "rows": [figure._asdict() for figure in shown],
            "claims": [claim._asdict() for claim in claims],
            "notes": notes,
        }
    )


def _print(protocol: str, figures: list[Figure], claims: list[Claim], notes: list[str]) -> None:
    tables = [reproduce.sheet(name, [f for f in figures if f.table == name]) for name in _shown(figures)]
    wide = [part for table in (*tables, _ratios(figures)) for part in table.split(show.width())]
    for table in (*(t for t in wide if t.rows), _claims(claims)):
        show.sheet(table)
        print()
    console = show.console()
    for note in [f"protocol {protocol}: experiments/paper-{protocol}.toml", *notes]:
        console.print(f"  {note}")


def _table_order(figure: Figure) -> int:
    return list(reproduce.TABLES).index(figure.table)


def _ratios(figures: list[Figure]) -> Sheet:
    """Geometric means of ours / printed, for each method and dataset."""
    names = list(dict.fromkeys(f.dataset for f in figures))
    rows = []
    for metric in TITLES:
        for method in ("OMKL", "DOKL1", "DOKL2", "DOMKL"):
            mine = [f for f in figures if (f.metric, f.method) == (metric, method) and f.ratio]
            means = [_mean(f.ratio for f in mine if f.dataset == name) for name in names]
            if mine:
                rows.append([metric.upper(), method, *means, _mean(f.ratio for f in mine)])
    title = "Ours / printed, geometric mean over networks and learners"
    return Sheet(title, ("metric", "method", *names, "all"), rows, frozenset({0, 1}))


def _mean(ratios: Iterable[float | None]) -> str:
    logs = np.log([ratio for ratio in ratios if ratio])
    return f"{np.exp(logs.mean()):.2f}" if len(logs) else NONE


def _claims(claims: list[Claim]) -> Sheet:
    heads = ("claim", "measured by", "holds if", "ours", "holds", "in its own figures")
    rows, words = [_claim(each) for each in claims], frozenset({0, 1, 2, 4})
    return Sheet("What the paper claims", heads, rows, words, spare=(1, 5, 2))


def _claim(claim: Claim) -> list[str]:
    unknown = "not measured" if claim.ours is None else "not judged: one trial"
    holds = {True: "yes", False: "NO", None: unknown}[claim.holds]
    return [claim.statement, claim.measure, claim.bound, digits(claim.ours), holds, digits(claim.printed)]
