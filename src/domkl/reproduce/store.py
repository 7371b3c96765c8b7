"""Finished tasks on disk, one JSON line each."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .. import __version__
from ..errors import InputError
from ..experiment import Experiment
from .tasks import Rows, Task


class Store:
    """Results of one experiment in a file that only grows.

    A line counts only for the very settings it was made with: change the experiment and its tasks are
    run again. A line that a crash left half-written is skipped, and its task is run again too.
    """

    def __init__(self, path: Path, experiment: Experiment) -> None:
        self.path = path
        self.key = _key(experiment)
        self.done: dict[Task, Rows] = dict(self._read())

    def missing(self, tasks: Iterable[Task]) -> list[Task]:
        return [task for task in tasks if task not in self.done]

    def add(self, task: Task, rows: Rows) -> None:
        line = json.dumps({"key": self.key, "task": task, "rows": rows})
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
        except OSError as error:
            raise InputError(
                f"{self.path} cannot be written: {error.strerror}; choose another --out"
            ) from None
        self.done[task] = rows

    def rows(self, tasks: Iterable[Task]) -> Rows:
        """All rows of these tasks, each with its dataset, network and trial."""
        return [{**task._asdict(), **row} for task in tasks for row in self.done[task]]

    def _read(self) -> Iterable[tuple[Task, Rows]]:
        if not self.path.is_file():
            return
        text = self.path.read_text(encoding="utf-8")
        if text and not text.endswith("\n"):
            self._append_newline()
        for line in text.splitlines():
            record = _parse(line)
            if record.get("key") == self.key:
                yield Task(*record["task"]), record["rows"]

    def _append_newline(self) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write("\n")


def _parse(line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}


def _key(experiment: Experiment) -> str:
    """Of everything that the numbers depend on; how many trials there are is not among it."""
    settings = dataclasses.asdict(dataclasses.replace(experiment, name="", title="", trials=1, graphs=()))
    settings["data"].pop("names")
    text = json.dumps([__version__, settings], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
