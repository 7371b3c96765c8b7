"""A folder with one short file for each device: what `domkl init` writes and `domkl up FOLDER` starts."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..base.errors import InputError
from ..datasets.columns import Columns
from .trial import network

#: The first device's port for health, metrics and the page; each further one has the next.
PORT = 9464
#: The file with the broker's password.
PASSWORD = "broker.password"
#: Up to so many devices, each is everybody's neighbour; more of them form a ring.
FEW = 4
_BARE = re.compile(r"[A-Za-z0-9_-]+")


class DeviceFile(NamedTuple):
    """A device's name, its [stream], and further tables of its own."""

    name: str
    stream: Mapping[str, Any]
    more: Mapping[str, Mapping[str, Any]] = {}
    dialect: Mapping[str, str] = {}  # separator and decimal mark of its CSV file


def files(
    devices: Sequence[DeviceFile],
    columns: Columns,
    graph: str | None,
    common: Mapping[str, Any],
    port: int = PORT,
    network_name: str = "",
) -> dict[str, str]:
    """Names and texts of the devices' files; `common` are tables that all have.

    `network_name`: so that devices of the same names on one machine can be of several networks.
    """
    names = [device.name for device in devices]
    _check_names(names)
    if graph is not None and len(names) == 1:
        raise InputError("--graph is given for one device; expected two or more; leave it out")
    linked = network(graph or ("complete" if len(names) <= FEW else "ring"), names) if names[1:] else None
    found = {}
    for j, device in enumerate(devices):
        near = [] if linked is None else [names[i] for i in linked.neighbours[j]]
        table = {
            "network": network_name if near else "",
            "neighbours": near,
            "stream": device.stream,
            "columns": _table(columns, device.dialect),
            **common,
            "output": {**device.more.get("output", {}), **common.get("output", {})},
            "http": {"listen": f"127.0.0.1:{port + j}"},
        }
        lines = (f"{key} = {as_inline(value)}\n" for key, value in table.items() if value)
        found[f"{device.name}.toml"] = "".join(lines)
    return found


def free_from(port: int, count: int) -> int:
    """The first of so many ports in a row that nobody listens on, from this one on."""
    free = 0
    for each in range(port, 2**16):
        free = 0 if is_used("127.0.0.1", each) else free + 1
        if free == count:
            return each - count + 1
    return port


def is_used(host: str, port: int) -> bool:
    """Whether something listens on a port of this machine."""
    try:
        socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
    except OSError:
        return True
    return False


def _check_names(names: Sequence[str]) -> None:
    for i, name in enumerate(names):
        if name in names[:i]:
            raise InputError(f"two devices are called {name!r}; expected a name each; rename one of them")


def _table(columns: Columns, dialect: Mapping[str, str]) -> dict[str, Any]:
    """What all devices say about columns: no more than they must."""
    table = {**columns.table(), **dialect}
    kinds = {name: kind for name, kind in table.get("kinds", {}).items() if kind != "number"}
    return {key: value for key, value in {**table, "kinds": kinds}.items() if value and value != "."}


def as_inline(value: Any) -> str:
    """A value as TOML in one line.

    >>> as_inline({"target": "y", "kinds": {"a b": "text"}, "features": ["x"], "coverage": 0.9})
    '{target = "y", kinds = {"a b" = "text"}, features = ["x"], coverage = 0.9}'
    """
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(key)} = {as_inline(each)}" for key, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(as_inline, value)) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else as_inline(name)


def write(folder: Path, texts: Mapping[str, str], password: str | None) -> None:
    """Write a new folder, if every file in it is one that an agent can start with; else nothing."""
    from ..agent import transports
    from ..agent.config import load

    refuse_used(folder)
    parent = folder.absolute().parent
    parent.mkdir(parents=True, exist_ok=True)
    made = Path(
        tempfile.mkdtemp(dir=parent, prefix=f".{folder.name}-")
    )  # of this user alone until it is whole
    try:
        if password is not None:
            _write_secret(made / PASSWORD, password)
        for name, text in texts.items():
            (made / name).write_bytes(_encoded(name, text))
        for name in texts:
            config = load(made / name, {})
            for settings in filter(None, (config.transport_settings(), config.source_settings())):
                transports.check(settings)
        made.chmod(0o755)
        os.replace(made, folder)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise


def _encoded(name: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{name} would hold {text[error.start]!a}, which is no character; expected names of files and "
            "columns in UTF-8; rename them"
        ) from None


def refuse_used(folder: Path) -> None:
    """Refuse a folder with something in it."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(
            f"{folder} is there already; expected a new folder; choose another with --folder DIR"
        )


def _write_secret(path: Path, password: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(file, "w", encoding="utf-8") as opened:
        opened.write(f"{password}\n")


def names_in(folder: Path) -> list[str]:
    """The devices of a folder."""
    found = sorted(path.stem for path in folder.glob("*.toml"))
    if not found:
        raise InputError(f"{folder} has no agent's file; expected NAME.toml; make some with domkl init")
    return found
