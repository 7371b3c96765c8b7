"""`domkl reproduce`: the paper's tables, ours beside the printed figures."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from .. import _checks, datasets, experiment, reproduce
from .._extras import need
from ..errors import InputError
from ..reproduce import Claim, Figure, Store, Task
from . import show

TITLES = {"mse": "MSE (x 1e-2)", "cv": "consensus violation"}


def add_to(commands: Any) -> None:
    """Declare the command."""
    text = "run the paper's tables II to IX and print ours beside the printed figures"
    command = commands.add_parser("reproduce", help=text, description=f"{text[0].upper()}{text[1:]}.")
    add = command.add_argument
    add("--protocol", default="fitted", choices=["fitted", "printed"], help="settings (default: %(default)s)")
    add("--tables", metavar="II,III", help=f"some of {', '.join(reproduce.TABLES)}")
    add("--datasets", metavar="A,B", help=f"some of {', '.join(reproduce.DATASETS)}")
    add("--networks", metavar="1,2", help="some of 1, 2, 3, 4")
    add("--trials", type=int, metavar="N", help="draws of the kernels (default: the protocol's 10)")
    add("--jobs", type=int, default=-1, metavar="N", help="processes at a time (default: all cores)")
    add("--backend", metavar="NAME", help="another joblib backend, such as dask")
    add("--out", default="domkl-results", metavar="DIR", help="where results are kept (default: %(default)s)")
    add("--json", action="store_true", help="one JSON document on standard output")
    command.set_defaults(act=run)


def run(args: argparse.Namespace) -> None:
    """Run what is not on disk yet, then print everything asked for."""
    protocol = experiment.load(f"paper-{args.protocol}")
    tables = _choose("--tables", args.tables, tuple(reproduce.TABLES))
    networks = _networks(args.networks, tables)
    names, notes = _datasets(args.datasets, tables)
    trials = protocol.trials if args.trials is None else _checks.count("--trials", args.trials)
    tasks = reproduce.plan(names, networks, trials)
    store = Store(Path(args.out) / f"reproduce-{args.protocol}.jsonl", protocol)
    _finish(protocol, store, tasks, args)
    rows = store.rows(tasks)
    figures = [f for f in reproduce.summarise(rows, networks) if f.table in tables]
    claims = reproduce.judge(reproduce.summarise(rows, networks), rows)
    notes = ["the paper's networks are inferred: its figure is not in the text", *notes]
    (_print_json if args.json else _print)(args.protocol, figures, claims, notes)


def _finish(
    protocol: experiment.Experiment, store: Store, tasks: list[Task], args: argparse.Namespace
) -> None:
    left = store.missing(tasks)
    if not left:
        return
    backend = _backend(args.backend)
    with show.progress(f"{len(left)} of {len(tasks)} runs to do") as bar, backend:
        for done, (task, rows) in enumerate(reproduce.run_all(protocol, left, args.jobs), start=1):
            store.add(task, rows)
            bar(done, len(left))


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
    return [_checks.one_of(option, name.strip(), known) for name in text.split(",")]


def _networks(text: str | None, tables: Sequence[str]) -> list[int]:
    """The networks asked for, of those that the tables hold."""
    asked = {int(n) for n in _choose("--networks", text, [str(n) for n in reproduce.NETWORKS])}
    held = {n for table in tables for n in reproduce.TABLES[table][2]}
    if not asked & held:
        raise InputError(
            f"tables {', '.join(tables)} hold networks {sorted(held)}; expected one of them in --networks"
        )
    return sorted(asked & held)


def _datasets(text: str | None, tables: Sequence[str]) -> tuple[list[str], list[str]]:
    """The datasets to run, and a note on each that is not here."""
    kinds = {reproduce.TABLES[table][1] for table in tables}
    names = _choose("--datasets", text, reproduce.DATASETS)
    names = [name for name in names if ("series" if "/" in name else "regression") in kinds]
    here = {entry.name: entry.path is not None for entry in datasets.catalogue()}
    if text is not None or not any(here[name] for name in names):
        return names, []  # asked for by name: loading says what is missing and how to get it
    missing = [f"{name} is not here: domkl data fetch {name}" for name in names if not here[name]]
    return [name for name in names if here[name]], missing


def _print_json(protocol: str, figures: list[Figure], claims: list[Claim], notes: list[str]) -> None:
    shown = [figure for figure in figures if figure.method != "best kernel"]
    show.document(
        {
            "protocol": protocol,
            "settings": dataclasses.asdict(experiment.load(f"paper-{protocol}")),
            "rows": [figure._asdict() for figure in shown],
            "claims": [claim._asdict() for claim in claims],
            "notes": notes,
        }
    )


def _print(protocol: str, figures: list[Figure], claims: list[Claim], notes: list[str]) -> None:
    console = show.console()
    for table in dict.fromkeys(figure.table for figure in sorted(figures, key=_table_order)):
        console.print(_table(table, [f for f in figures if f.table == table]))
    console.print(_ratios(figures))
    console.print(_claims(claims))
    for note in [f"protocol {protocol}: experiments/paper-{protocol}.toml", *notes]:
        console.print(f"  {note}")


def _table_order(figure: Figure) -> int:
    return list(reproduce.TABLES).index(figure.table)


def _table(number: str, figures: list[Figure]) -> Any:
    """One of the paper's tables: a line for each network, method and learner, three columns a dataset."""
    metric = figures[0].metric
    table = need("rich.table", "cli").Table(
        title=f"Table {number}: {TITLES[metric]}, ours ± spread, printed, ratio"
    )
    for heading in ("net", "method", "learner"):
        table.add_column(heading)
    names = list(dict.fromkeys(f.dataset for f in figures))
    for name in names:
        table.add_column(name, justify="right")
    lines = dict.fromkeys((f.network, f.method, f.learner) for f in sorted(figures, key=_line_order))
    cells = {(f.network, f.method, f.learner, f.dataset): _cell(f) for f in figures}
    for network, method, learner in lines:
        texts = [cells.get((network, method, learner, name), "") for name in names]
        table.add_row(str(network), method, str(learner or ""), *texts)
    return table


def _line_order(figure: Figure) -> tuple[int, int, int]:
    methods = ("OMKL", "DOKL1", "DOKL2", "best kernel", "DOMKL")
    return figure.network, methods.index(figure.method), figure.learner or 0


def _cell(figure: Figure) -> str:
    factor = 100 if figure.metric == "mse" else 1
    ours = f"{figure.value * factor:.3g}±{figure.spread * factor:.1g}"
    if figure.printed is None or figure.ratio is None:
        return ours
    return f"{ours}  {figure.printed * factor:.3g}  [bold]{figure.ratio:.2f}[/]"


def _ratios(figures: list[Figure]) -> Any:
    """Geometric means of ours / printed, for each method and dataset."""
    table = need("rich.table", "cli").Table(title="Ours / printed, geometric mean over networks and learners")
    names = list(dict.fromkeys(f.dataset for f in figures))
    for heading in ("metric", "method", *names, "all"):
        table.add_column(heading, justify="left" if heading in ("metric", "method") else "right")
    for metric in TITLES:
        for method in ("OMKL", "DOKL1", "DOKL2", "DOMKL"):
            mine = [f for f in figures if (f.metric, f.method) == (metric, method) and f.ratio]
            means = [_mean(f.ratio for f in mine if f.dataset == name) for name in names]
            if mine:
                table.add_row(metric.upper(), method, *means, _mean(f.ratio for f in mine))
    return table


def _mean(ratios: Iterable[float | None]) -> str:
    logs = np.log([ratio for ratio in ratios if ratio])
    return f"{np.exp(logs.mean()):.2f}" if len(logs) else ""


def _claims(claims: list[Claim]) -> Any:
    table = need("rich.table", "cli").Table(title="What the paper claims")
    for heading in ("claim", "measured by", "holds if", "ours", "holds", "in its own figures"):
        table.add_column(heading, overflow="fold")
    for claim in claims:
        holds = {True: "yes", False: "NO", None: "not measured"}[claim.holds]
        table.add_row(
            claim.statement, claim.measure, claim.bound, _number(claim.ours), holds, _number(claim.printed)
        )
    return table


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"
