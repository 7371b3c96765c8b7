"""The page of a run with a horizon: the curve beyond now with its bounds, and the errors of each lead."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.types import Array
from ...base.words import number, percent, plural
from ...faces.ahead import Forecasts
from ...simulator import Run
from ..ahead import LEGEND, Series, lead_rows
from .facts import Column, difference, together_or_alone, unused, unused_words
from .page import LEARNERS, LOWER, Inputs, as_script, filled, plain, table_of

#: The coverage of the band that is drawn.
BAND = 0.9
#: Readings that are shown before the curve beyond now.
PAST = 240


def page(run: Run, series: Series, model: Forecasts) -> str:
    """The whole page of a run and its network as text."""
    rows, J, target = lead_rows(run), len(run.y_hat), series.table.target
    return filled(
        as_script({"timed": _is_timed(series), "label": target, "learners": _curves(run, series)}),
        title=f"{target} ahead",
        headline=f"{target} ahead: {_beside(rows)}",
        setting_line=f"{plural(J, 'learner')}, {plural(series.rounds, 'reading')} each",
        sentence=_sentence(rows),
        verdict=_verdict(run, rows),
        chart_caption=_caption(run, rows),
        table={"title": "Every lead", "about": f"Typical errors; {LOWER}", "rows": "lead", "mean": False},
        columns=_columns(rows, J),
        learners=[{"name": row["lead"]} for row in rows],
        kernels=[],
        inputs=_inputs(model),
        pictures=[],
        settings={"data": series.table.name, "target": target, "learners": ", ".join(map(str, series.names))},
        notes=[*series.notes, *map(str, series.table.faults)],
        glossary=LEGEND,
    )


def _inputs(model: Forecasts) -> Inputs | None:
    """What matters to the forecast of the nearest lead, where a label has come."""
    if not model.n:
        return None
    overall, last = model.explain(), model.explain("last")
    several = model.graph is not None
    found = table_of(overall if several else [overall], last[0] if several else last, 1.0, "", model.network)
    return found._replace(caption=f"Of the forecast {model.leads[0]} ahead. {found.caption}")


def _is_timed(series: Series) -> bool:
    return series.table.times is not None


def _beside(rows: list[dict[str, Any]]) -> str:
    row = rows[0]
    if row["rmse"] is None or row["rmse_simple"] is None:
        return f"{plural(len(rows), 'lead')}"
    words = difference(row["rmse"], row["rmse_simple"])
    return f"{words} {'as' if words.startswith('the') else 'than'} the best simple guess at {row['lead']}"


def _sentence(rows: list[dict[str, Any]]) -> str:
    shown = {0: rows[0], len(rows) - 1: rows[-1]}.values()
    parts = [f"{number(row['rmse'])} at {row['lead']}" for row in shown if row["rmse"] is not None]
    return f"Typical error (RMSE): {', '.join(parts)}." if parts else "No forecast has its label yet."


def _verdict(run: Run, rows: list[dict[str, Any]]) -> str:
    row, J = rows[0], len(run.y_hat)
    if J == 1 or row["rmse"] is None or row["rmse_alone"] is None:
        return ""
    words = f"At {row['lead']}: {together_or_alone(row['rmse'], row['rmse_alone'])}"
    return f"{words}{unused_words(unused(run.trust), J)}"


def _caption(run: Run, rows: list[dict[str, Any]]) -> str:
    held = rows[0]["coverage"].get(f"{100 * BAND:g}")
    words = "" if held is None else f", and held {percent(held)} of the labels {rows[0]['lead']} ahead"
    many = "" if len(run.y_hat) <= LEARNERS else f" The first {LEARNERS} learners are shown."
    return (
        f"Forecasts {rows[0]['lead']} ahead beside what came, from the last {PAST} readings; the line ends "
        f"with those from the last. The band is to hold {100 * BAND:g} %{words}.{many} Drag to zoom, "
        "double-click for all."
    )


def _columns(rows: list[dict[str, Any]], J: int) -> list[Column]:
    kinds = [("RMSE", "rmse"), *([("alone", "rmse_alone")] if J > 1 else []), ("simple guess", "rmse_simple")]
    least = [min((row[key] for _, key in kinds if row[key] is not None), default=None) for row in rows]
    found = []
    for head, key in kinds:
        best = frozenset(i for i, row in enumerate(rows) if row[key] is not None and row[key] == least[i])
        found.append(Column(head, "", "", [number(row[key]) for row in rows], "", best))
    for level in rows[0]["coverage"]:
        shares = [row["coverage"][level] for row in rows]
        cells = ["–" if share is None else percent(share) for share in shares]
        found.append(Column(f"in {level} %", "", "", cells, ""))
    return found


def _curves(run: Run, series: Series) -> list[dict[str, Any]]:
    """Of each learner time, label, forecast and band: of the nearest lead, then from the last reading."""
    ahead = run.ahead
    assert ahead is not None
    (low, high), T = ahead.bounds[BAND], run.y_hat.shape[1]
    first, leads, found = max(0, T - PAST), np.array(ahead.horizon.leads), []
    for j, name in enumerate(series.names[:LEARNERS]):
        now = series.readings.times[j, :T] if _is_timed(series) else np.arange(T, dtype=float)
        columns: list[Array] = [
            np.concatenate([now[first:] + leads[0], now[-1] + leads[1:]]),
            *(
                np.concatenate([each[j, first:, 0], each[j, -1, 1:]])
                for each in (ahead.y, run.y_hat, low, high)
            ),
        ]
        found.append({"name": str(name), "columns": [plain(column) for column in columns]})
    return found
