"""The report on disk: one HTML file that needs no network or other file, and the figures."""

from __future__ import annotations

import json
import math
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...base.errors import InputError
from ...base.extras import need
from ...base.types import Array
from ...base.words import number, percent, plural, with_unit
from ...exchange.graph import Graph
from ...faces.saved import About
from ...learner import files as disk
from ...learning import explain
from ...learning.explain import Contributions, Effects, Function
from ..trial import COVERAGE, Outcome
from . import facts as told
from .facts import Document, document, names_of
from .figures import Picture, pictures

#: Learners that are asked, the first ones, and inputs that are shown, those that matter most.
ASKED, MOST = 8, 30


class InputRow(NamedTuple):
    """How much one input matters."""

    name: str
    part: str
    effect: str
    trend: str
    added: str  # to the prediction of the last reading
    length: float  # of its bar, a share of the longest


class Inputs(NamedTuple):
    """The table of inputs, and what it says."""

    caption: str
    last: str  # what is predicted for the last reading, and from where the contributions start
    unit: str
    rows: list[InputRow]


def inputs(outcome: Outcome) -> Inputs | None:
    """None where the model cannot tell, or has learnt nothing: only `Auto` can."""
    final, source, J = outcome.run.final, outcome.source, outcome.graph.J
    asked = [] if final is None else [final.rows.as_function(j, outcome.place) for j in range(min(J, ASKED))]
    models: list[tuple[Function, Array]] = [model for model in asked if model is not None]
    if not models:
        return None
    names, groups = About(source.inputs, columns=source.columns).groups(outcome.split.X.shape[-1])
    found = [explain.effects(*model, names, groups) for model in models]
    last = explain.contributions(*models[0], outcome.split.X[0, -1], names, groups)
    return table_of(found, last, math.sqrt(outcome.scale), outcome.unit, outcome.graph, outcome.origin)


def table_of(
    found: list[Effects], last: Contributions, factor: float, unit: str, graph: Graph, origin: float = 0.0
) -> Inputs:
    """The means of what some learners say overall, and what the first says of the last reading."""
    effect, part, trend = (
        np.mean([getattr(e, key) for e in found], 0) for key in ("effect", "part", "trend")
    )
    sizes = np.abs(last.contribution)
    added = np.where(sizes < 1e-9 * sizes.max(), 0.0, last.contribution)  # what is only rounding is nothing
    longest = float(part.max()) or 1.0
    table = [
        InputRow(
            last.names[i],
            percent(float(part[i])),
            number(factor * float(effect[i])),
            explain.direction(float(trend[i])),
            f"{'+' if added[i] >= 0 else '-'}{number(factor * float(abs(added[i])))}",
            float(part[i]) / longest,
        )
        for i in np.argsort(-part, kind="stable")[:MOST]
    ]
    base, y_hat = (with_unit(float(origin + factor * value), unit) for value in (last.base, last.y_hat))
    return Inputs(_caption(len(found), graph.J, len(part)), _last(graph, base, y_hat), unit, table)


def _caption(asked: int, J: int, n: int) -> str:
    of = "" if J == 1 else f", mean over {'the' if asked == J else 'the first'} {plural(asked, 'learner')}"
    most = f" The {MOST} of {n} inputs that matter most are shown." if n > MOST else ""
    return (
        f"Effect: how far a prediction moves, typically, if the input is that of another reading{of}. It "
        f"tells what the model uses, not what causes the target.{most}"
    )


def _last(graph: Graph, base: str, y_hat: str) -> str:
    who = "the learner" if graph.J == 1 else f"learner {graph.names[0]}"
    return (
        f"Last reading: what each input adds when {who}, as taught by the end, predicts {y_hat} for it; "
        f"{base} is the average."
    )


#: Of every table of errors.
LOWER = "lower errors are better, the least of a row is bold."
#: The last rounds that are shown, and of how many learners.
ROUNDS, LEARNERS = 1500, 12


def data(outcome: Outcome) -> dict[str, Any]:
    """What the chart shows, ready for JSON: columns of each learner's last rounds."""
    T = outcome.y.shape[1]
    first, times = max(0, T - ROUNDS), outcome.source.split.times
    low, high = outcome.bounds()
    timed = times is not None and bool(np.isfinite(times[:LEARNERS, first:]).all())
    learners = []
    for j, name in enumerate(names_of(outcome)[:LEARNERS]):
        x = times[j, first:] if timed and times is not None else np.arange(first, T)
        columns = (x, *(values[j, first:] for values in (outcome.y, outcome.y_hat, low, high)))
        learners.append({"name": name, "columns": [plain(column) for column in columns]})
    label = outcome.source.target or "target"
    unit = f", {outcome.unit}" if outcome.unit else ""
    return {"timed": timed, "label": f"{label}{unit}", "learners": learners}


def caption(outcome: Outcome) -> str:
    """What is shown, in words."""
    T, J = outcome.y.shape[1], outcome.graph.J
    which = "All rounds" if T <= ROUNDS else f"The last {ROUNDS:,} of {T:,} rounds"
    whose = "" if J <= LEARNERS else f", the first {LEARNERS} of {J} learners"
    return (
        f"{which}{whose}. Each prediction was made before its label was known; the band is to hold "
        f"{100 * COVERAGE:.0f} % of the labels, and held {held(outcome)}. Drag to zoom, double-click for all."
    )


def held(outcome: Outcome) -> str:
    """The share of labels that the bounds held, where there were any."""
    low, high = outcome.bounds()
    known = np.isfinite(high - low)
    if not known.any():
        return "none, as too few errors are known"
    inside = (low <= outcome.y) & (outcome.y <= high)
    return f"{100 * float(inside[known].mean()):.1f} %"


def as_script(value: dict[str, Any]) -> str:
    """JSON that can stand in a page: no text in it ends the script."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def uplot() -> tuple[str, str]:
    """uPlot's script and style."""
    folder = resources.files("domkl.watch").joinpath("static")
    script, style = (
        folder.joinpath(n).read_text(encoding="utf-8") for n in ("uPlot.iife.min.js", "uPlot.min.css")
    )
    return script.replace("</script", "<\\/script"), style


def plain(values: Array) -> list[float | None]:
    """Numbers for JSON."""
    return [
        float(f"{value:.7g}") if abs(value) < 1e7 else float(value) if math.isfinite(value) else None
        for value in values.tolist()
    ]


def write(outcome: Outcome, directory: str | Path) -> list[Path]:
    """Write index.html, which contains all, and each figure as SVG and PNG; returns the paths, page first.

    Of several targets, each further one has files of its own: index-2.html and so on.
    """
    directory, files = Path(directory), dict[str, bytes]()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for k, part in enumerate(outcome.parts()):
            end, drawn = f"-{k + 1}" if k else "", pictures(part)
            files[f"index{end}.html"] = render(part, document(part), drawn).encode()
            for each in drawn:
                files |= {f"{each.name}{end}.svg": each.svg.encode(), f"{each.name}{end}.png": each.png}
        for name, content in files.items():  # under its name only once it is whole
            disk.replace(directory / name, content, sync=False, is_private=False)
        return [directory / name for name in files]
    except OSError as error:
        raise InputError(
            f"the report cannot be written to {directory}: {error.strerror or error}; "
            "expected a directory to write into; choose one with --out DIR"
        ) from None


def render(outcome: Outcome, facts: Document, drawn: list[Picture]) -> str:
    """The whole page as text."""
    columns = told.learner_columns(facts)
    about = f"“{columns[0].head}” beside other methods on the same samples; {LOWER}"
    return filled(
        title=facts["title"] or facts["experiment"],
        headline=told.headline(facts),
        chart=as_script(data(outcome)),
        chart_caption=caption(outcome),
        setting_line=told.setting_line(facts),
        sentence=told.sentence(facts),
        verdict=told.verdict(facts),
        table={"title": "Learners", "about": about, "rows": "learner", "mean": True},
        columns=columns,
        learners=[{"name": one["name"], "top": told.top_words(one, 3)} for one in facts["learners"]],
        kernels=told.kernel_rows(facts),
        squared_unit=told.squared_unit(facts),
        inputs=inputs(outcome),
        pictures=drawn,
        settings=told.settings_words(facts),
        notes=facts["notes"],
        glossary=told.glossary(facts),
    )


def filled(chart: str, **parts: Any) -> str:
    """The page with everything that stands in it."""
    script, style = uplot()
    jinja2 = need("jinja2", "cli")
    source = resources.files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    page = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined).from_string(source)
    text: str = page.render(chart=chart, uplot=script, uplot_style=style, **parts)
    return text
