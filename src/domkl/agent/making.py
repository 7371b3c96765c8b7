"""The learner that a configuration describes: its columns, guessed where they are left open, and its model.

A guess is kept beside the checkpoints, so that a restart encodes rows as before, whatever the file holds.
"""

from __future__ import annotations

import dataclasses
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np

from ..base import budget
from ..base.errors import DataError, InputError
from ..datasets import guess, readers, table
from ..datasets.columns import Columns
from ..datasets.encoder import Encoder
from ..exchange.message import Exchange, digest
from ..faces.estimator import DOMKL
from ..learner import Learner, files, handed
from ..learning.forecast import Forecaster
from ..models.settings import KINDS
from ..models.taught import HandedModel
from .config import LINES, STORED, TABLES, AgentConfig, StreamSection
from .logs import tell

LOG = logging.getLogger(__name__)
#: Rows that are looked at, and bytes.
FIRST_ROWS, MOST_BYTES = 200, 2**22
#: The file of a guess, in the directory of the checkpoints.
KEPT = "columns.json"


def with_columns(config: AgentConfig) -> AgentConfig:
    """The settings with nothing left open about columns; `inputs` is then how many x has."""
    is_table = config.stream.kind in TABLES and not config.columns.features  # its rows have names only
    if config.stream.kind not in STORED or (config.inputs and not is_table):
        return config
    columns = _with_target(config)
    found = _kept(config, columns) or _guessed(config, columns)
    return dataclasses.replace(config, columns=found, inputs=config.inputs or Encoder(found).d)


def keep_columns(given: AgentConfig, config: AgentConfig) -> None:
    """Write down what was guessed; a disk that refuses costs a new guess at the next start."""
    directory, before = config.checkpoint.directory, _with_target(given)
    if directory is None or given.columns == config.columns or _kept(given, before) == config.columns:
        return
    document = {"given": before.table(), "found": config.columns.table()}
    try:
        files.make_directory(Path(directory), sync=False)
        files.replace(Path(directory) / KEPT, json.dumps(document).encode(), sync=False)
    except OSError as error:
        tell(LOG, logging.WARNING, "columns cannot be saved", reason=error.strerror)


def _with_target(config: AgentConfig) -> Columns:
    return dataclasses.replace(config.columns, target=config.target)


def _kept(config: AgentConfig, columns: Columns) -> Columns | None:
    """The guess of an earlier start with the same settings."""
    if config.checkpoint.directory is None:
        return None
    try:
        found = json.loads(budget.read(Path(config.checkpoint.directory) / KEPT, budget.SETTINGS))
        if found["given"] == json.loads(json.dumps(columns.table())):
            return Columns.from_table(found["found"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):  # InputError is a ValueError
        pass
    return None


def _guessed(config: AgentConfig, columns: Columns) -> Columns:
    """What the columns are, from the first rows; those of a table are put in order of time."""
    stream = config.stream
    raw = _first_rows(stream, columns)
    if raw is None or not len(raw):
        return _without_rows(columns, stream.shown)
    if columns.features and stream.kind == "jsonl" and columns.target not in raw.columns:
        return columns  # labels come later, with an id
    found = guess.guess(raw.columns, columns, views=False)
    found.check(stream.shown)
    if stream.kind in LINES:
        return _alike(config, columns, found.columns)
    times, rows = table.times_of(raw, Encoder(found.columns)), np.arange(len(raw))
    return _alike(config, columns, table.by_time(times, rows, given_by=found, columns=found.columns)[1])


def _first_rows(stream: StreamSection, columns: Columns) -> readers.Raw | None:
    """None where there is no file yet."""
    source, path = stream.path or "", Path(stream.path or "")
    if stream.kind == "database":
        return readers.read(source, columns, stream.query, FIRST_ROWS)
    if path.exists() and not path.is_file():  # a pipe would never end
        raise DataError(f"{path}: not a regular file; expected one of rows; fix [stream] path")
    if not path.exists() and (stream.follow or stream.kind in LINES):
        return None
    if stream.kind == "parquet":
        return readers.read(source, columns, max_rows=FIRST_ROWS)
    try:
        with open(path, "rb") as file:
            text = file.read(MOST_BYTES).decode("utf-8-sig", "replace")
    except OSError as error:
        raise DataError(
            f"{path} cannot be read: {error.strerror}; expected a readable file; fix the file"
        ) from None
    text = "\n".join(text.split("\n")[: 2 * FIRST_ROWS])  # the last one may be cut, and is one of many
    read = readers.read_lines if stream.kind == "jsonl" else readers.read_csv
    return read(source, text, columns, FIRST_ROWS)


def _without_rows(columns: Columns, shown: str) -> Columns:
    if columns.features:
        return columns
    raise InputError(
        f"{shown} has no rows yet and [columns] features is not given; expected one of them; name the inputs"
    )


def _alike(config: AgentConfig, given: Columns, found: Columns) -> Columns:
    """A guess that neighbours make, too: of names in order, and of no values that only we have seen."""
    if not config.neighbours:
        return found
    for name in found.categories:
        if name not in given.categories:
            values = json.dumps(list(found.categories[name]))
            raise InputError(
                f"column {name!r} has words, and neighbours may have others; expected the same values "
                f"everywhere; add [columns.categories] {json.dumps(name)} = {values} and theirs"
            )
    features = given.features or tuple(sorted(found.features))
    return dataclasses.replace(found, features=features)


#: What an agent's file says of columns, whatever the model was taught with: how its own rows are written.
OWN = ("learner", "paths", "na", "decimal", "separator", "missing")


def read_taught(config: AgentConfig, path: str) -> tuple[AgentConfig, HandedModel]:
    """The model in a file of hand_over(), DOMKL.save() or `domkl run`; the settings, with its inputs."""
    if (place := Path(path)).exists() and not place.is_file():  # a pipe would never end
        raise DataError(f"{path}: not a regular file; expected a taught model; fix [model] path")
    try:
        model = handed.read(path)
        config = _with_inputs(config, path, model)
    except handed.SavedModel:
        config, model = _saved(config, path)
    loss = getattr(model, "settings", model).loss
    if config.output.alarm_rate is not None and loss == "logistic":
        raise InputError(
            f"[output] alarm_rate is given and {path} learns classes; expected numbers; leave it out"
        )
    return config, model


def _saved(config: AgentConfig, path: str) -> tuple[AgentConfig, HandedModel]:
    """A saved model, whose columns are the agent's, too."""
    saved = DOMKL.load(path)
    about = saved.about
    if len(saved.learners) > 1:
        raise InputError(
            f"{path} holds {len(saved.learners)} learners; expected a model of one; teach one with "
            "domkl run --learners 1"
        )
    if (about.origin, about.factor) != (0.0, 1.0):
        raise InputError(
            f"{path} was taught with scaled labels, as of a dataset of domkl; expected one of data of your "
            "own; teach it with domkl run --data"
        )
    model = saved.handed()
    if about.columns is None:
        return _with_inputs(config, path, model), model
    config = dataclasses.replace(config, columns=_taught_columns(config.columns, about.columns, path))
    return with_columns(config), model


def _taught_columns(given: Columns, taught: Columns, path: str) -> Columns:
    """The columns that the model was taught with, written as this agent's are."""
    table: dict[str, Any] = {}
    for each in dataclasses.fields(Columns):
        mine, its = getattr(given, each.name), getattr(taught, each.name)
        is_own = each.name in OWN
        table[each.name] = mine if is_own else its
        if not is_own and mine not in (its, getattr(Columns(), each.name)):
            raise InputError(
                f"[columns] {each.name} differs from what {path} was taught with; expected the same; leave "
                f"{each.name} out"
            )
    return Columns(**table)


def _with_inputs(config: AgentConfig, path: str, model: HandedModel) -> AgentConfig:
    """Settings for a model that knows no columns; refuses other inputs."""
    if config.inputs not in (0, model.inputs):
        raise InputError(
            f"inputs is {config.inputs} and {path} was taught with {model.inputs}; expected as many; fix one"
        )
    columns = config.columns
    for name in columns.features if model.names else ():
        if name not in model.names:
            raise InputError(
                f"[columns] features has {name!r}; expected what {path} was taught with, "
                f"{', '.join(model.names)}; fix features or leave it out"
            )
    columns = dataclasses.replace(columns, features=tuple(model.names) or columns.features)
    return dataclasses.replace(config, inputs=model.inputs, columns=columns)


def make(config: AgentConfig, number: int = 0) -> tuple[AgentConfig, Learner]:
    """A learner without samples, or one that starts from a handed model; and the settings, completed with the
    inputs that the model was taught with, or that follow from columns."""
    model: Any
    if config.taught is not None:
        config, model = read_taught(config, config.taught)
    else:
        model, config = config.model, with_columns(config)
    kind = KINDS[model.kind]
    config = dataclasses.replace(config, rounds=config.rounds.suited(kind))
    ahead = config.horizon
    learner = Learner(
        model,
        config.neighbours,
        name=config.name,
        inputs=config.inputs if ahead is None else Forecaster(ahead, config.inputs).inputs,
        targets=None if ahead is None else len(ahead.leads),
        exchange=Exchange(config.payload),
        number=number,
        dtype=np.dtype(config.dtype_for(kind)),
    )
    if ahead is not None:  # those of other leads learn something else
        learner.fingerprint = digest(learner.fingerprint, ahead)
    return config, learner
