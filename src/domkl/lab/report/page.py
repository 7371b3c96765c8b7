"""The report on disk: one HTML file that needs no network or other file, and the figures."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from ...base.errors import InputError
from ...base.extras import need
from ..trial import Outcome
from . import chart, sentences, tables
from .facts import Document, document
from .figures import pictures
from .inputs import inputs
from .style import Picture


def write(outcome: Outcome, directory: str | Path) -> list[Path]:
    """Write index.html, which contains all, and each figure as SVG and PNG; returns the paths, page first."""
    directory = Path(directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        drawn = pictures(outcome)
        files = {"index.html": render(outcome, document(outcome), drawn).encode(), **_figure_files(drawn)}
        return [_replace(directory / name, content) for name, content in files.items()]
    except OSError as error:
        raise InputError(
            f"the report cannot be written to {directory}: {error.strerror or error}; "
            "expected a directory to write into; choose one with --out DIR"
        ) from None


def render(outcome: Outcome, facts: Document, drawn: list[Picture]) -> str:
    """The whole page as text."""
    script, style = chart.uplot()
    jinja2 = need("jinja2", "cli")
    source = resources.files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    page = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined).from_string(source)
    text: str = page.render(
        title=facts["title"] or facts["experiment"],
        headline=sentences.headline(facts),
        chart=chart.as_script(chart.data(outcome)),
        chart_caption=chart.caption(outcome),
        uplot=script,
        uplot_style=style,
        setting_line=sentences.setting_line(facts),
        sentence=sentences.sentence(facts),
        verdict=sentences.verdict(facts),
        columns=tables.learner_columns(facts),
        learners=[{"name": one["name"], "top": _top(one)} for one in facts["learners"]],
        kernels=tables.kernel_rows(facts),
        squared_unit=tables.squared_unit(facts),
        inputs=inputs(outcome),
        pictures=drawn,
        settings=sentences.settings(facts),
        notes=facts["notes"],
        glossary=sentences.glossary(facts),
    )
    return text


def _top(learner: Document) -> str:
    return ", ".join(f"{sigma2}: {weight}" for sigma2, weight in tables.top_kernels(learner, 3))


def _figure_files(drawn: list[Picture]) -> dict[str, bytes]:
    svg = {f"{picture.name}.svg": picture.svg.encode() for picture in drawn}
    return {**svg, **{f"{picture.name}.png": picture.png for picture in drawn}}


def _replace(path: Path, content: bytes) -> Path:
    """Under its name only once it is whole, so that no reader finds half a file."""
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(content)
    return part.replace(path)
