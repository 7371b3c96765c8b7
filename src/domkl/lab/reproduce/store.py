"""Finished tasks on disk, one JSON line each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ... import __version__
from ...base.errors import DataError, InputError
from ..experiment import Experiment
from .tasks import Rows, Task

FIELDS = {"metric", "method", "learner", "value"}


class Store:
    """Results of one experiment in a file that only grows.

    A line counts only for the settings and data it was made with: change the experiment or the
    dataset's file and its tasks are run again. A line that a crash left half-written is skipped, and its
    task is run again too.

    `digests` are of the datasets that are here; of the others the version used last counts.
    """

    def __init__(self, path: Path, experiment: Experiment, digests: Mapping[str, str] | None = None) -> None:
        self.path, self.key = path, _key(experiment)
        text = self._text()
        self._torn = text != "" and not text.endswith("\n")
        found = [record for line in text.splitlines() if (record := _record(line)) and record.key == self.key]
        self.digests = {record.task.dataset: record.digest for record in found} | dict(digests or {})
        self.done: dict[Task, Rows] = {
            record.task: record.rows for record in found if record.digest == self.digests[record.task.dataset]
        }

    def missing(self, tasks: Iterable[Task]) -> list[Task]:
        """Those of the tasks that have no result yet."""
        return [task for task in tasks if task not in self.done]

    def add(self, task: Task, rows: Rows) -> None:
        """Keep a finished task."""
        digest = self.digests.setdefault(task.dataset, "")
        line = json.dumps({"key": self.key, "data": digest, "task": task, "rows": rows})
        self._append(("\n" if self._torn else "") + line + "\n")
        self._torn = False
        self.done[task] = rows

    def rows(self, tasks: Iterable[Task]) -> Rows:
        """All rows of these tasks, each with its dataset, network and trial."""
        return [{**task._asdict(), **row} for task in tasks for row in self.done[task]]

    def check_writable(self) -> None:
        """Refuse a file that cannot be written, before the first task is run."""
        self._append("")

    def _append(self, text: str) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise InputError(
                f"{self.path} cannot be written: {error.strerror}; expected a place to keep results; "
                "choose another --out"
            ) from None

    def _text(self) -> str:
        try:
            return self.path.read_text(encoding="utf-8") if self.path.is_file() else ""
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise DataError(
                f"{self.path} cannot be read: {reason}; expected results that domkl wrote; "
                "move it away or choose another --out"
            ) from None


class _Record(NamedTuple):
    key: str
    digest: str
    task: Task
    rows: Rows


def _record(line: str) -> _Record | None:
    """A line of the file, or None if it is not whole."""
    try:
        found = json.loads(line)
        record = _Record(found["key"], found["data"], Task(*found["task"]), found["rows"])
        hash(record.task)
        return record if all(_is_row(row) for row in record.rows) else None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _is_row(row: dict[str, Any]) -> bool:
    return row.keys() >= FIELDS and isinstance(row["value"], (int, float))


def _key(experiment: Experiment) -> str:
    """Of everything that one task's results depend on; which tasks there are is not part of it."""
    settings = experiment.describe()
    data = {name: value for name, value in settings["data"].items() if name != "names"}
    text = json.dumps([__version__, data, settings["model"], settings["omkl"]], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
