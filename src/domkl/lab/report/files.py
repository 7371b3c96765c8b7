"""Page and figures on disk."""

from __future__ import annotations

from pathlib import Path

from ...base.errors import InputError
from ..trial import Outcome
from .facts import document
from .figures import pictures
from .page import render
from .style import Picture


def write(outcome: Outcome, directory: str | Path) -> list[Path]:
    """Write index.html, which holds everything, and each figure as SVG and PNG; the paths, page first."""
    directory = Path(directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        drawn = pictures(outcome)
        files = {"index.html": render(document(outcome), drawn).encode(), **_figure_files(drawn)}
        return [_replace(directory / name, content) for name, content in files.items()]
    except OSError as error:
        raise InputError(
            f"the report cannot be written to {directory}: {error.strerror or error}; "
            "expected a directory to write into; choose one with --out DIR"
        ) from None


def _figure_files(drawn: list[Picture]) -> dict[str, bytes]:
    svg = {f"{picture.name}.svg": picture.svg.encode() for picture in drawn}
    return {**svg, **{f"{picture.name}.png": picture.png for picture in drawn}}


def _replace(path: Path, content: bytes) -> Path:
    """Under its name only once it is whole, so that no reader finds half a file."""
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(content)
    return part.replace(path)
