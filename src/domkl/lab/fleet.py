"""The networks of this machine's agents: files for each device, and their processes.

`device_files` makes the short files that `domkl init` writes, `lay_out` those of an experiment with a stream
for each learner; a `Fleet` starts, stops and watches the processes of a folder.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..base.errors import InputError
from ..base.secret import plain
from ..datasets.columns import Columns
from ..models.settings import KernelSpec, RateSpec
from .experiment import Experiment
from .trial import Source, network

#: The first device's port for health, metrics and the page; each further one has the next.
PORT = 9464
#: The file with the broker's password.
PASSWORD = "broker.password"
#: Up to so many devices, each is everybody's neighbour; more of them form a ring.
FEW = 4


class DeviceFile(NamedTuple):
    """A device's name, its [stream], and further tables of its own."""

    name: str
    stream: Mapping[str, Any]
    more: Mapping[str, Mapping[str, Any]] = {}
    dialect: Mapping[str, str] = {}  # separator and decimal mark of its CSV file


def device_files(
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
    for i, name in enumerate(names):
        if name in names[:i]:
            raise InputError(f"two devices are called {name!r}; expected a name each; rename one of them")
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
    return _quoted(value)


def _key(name: str) -> str:
    return name if BARE.fullmatch(name) else _quoted(name)


def write_folder(folder: Path, texts: Mapping[str, str], password: str | None) -> None:
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
            file = os.open(made / PASSWORD, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(file, "w", encoding="utf-8") as opened:
                opened.write(f"{plain(password)}\n")
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


def names_in(folder: Path) -> list[str]:
    """The devices of a folder."""
    found = sorted(path.stem for path in folder.glob("*.toml"))
    if not found:
        raise InputError(f"{folder} has no agent's file; expected NAME.toml; make some with domkl init")
    return found


Settings = Mapping[str, Any]
#: Of the bounds that learners write with their predictions.
COVERAGE = 0.9
#: What of a user's columns names the inputs that are made of them.
COLUMNS = ("target", "features", "kinds", "categories", "hashed", "calendar")
#: A key of TOML that needs no quotes.
BARE = re.compile("[A-Za-z0-9_-]+")


def lay_out(
    folder: Path,
    experiment: Experiment,
    source: Source,
    transport: Settings,
    sections: Mapping[str, Settings] | None = None,
    hosts: Mapping[str, str] | None = None,
) -> list[str]:
    """Write every learner's configuration and stream; returns their names.

    `transport` is the [transport] of all; Zenoh's addresses are added here. `sections` are further ones; in
    their texts "{name}" is the learner's name. `hosts` are the learners' addresses where not this machine's.
    """
    folder.mkdir(parents=True, exist_ok=True)
    split = source.split
    graph = network(experiment.graphs[0], split.names)
    from ..agent.transports.names import check_name

    # Each becomes a file's name, and may come from a table: it must not lead elsewhere.
    names = [check_name(str(name), "a learner") for name in split.names]
    ports = [7447] * len(names) if hosts is not None else _free_ports(len(names))
    address = hosts or dict.fromkeys(names, "127.0.0.1")
    places = {name: f"{address[name]}:{port}" for name, port in zip(names, ports, strict=True)}
    for j, name in enumerate(names):
        neighbours = [names[i] for i in graph.neighbours[j]]
        table = {
            "network": experiment.name,
            "name": name,
            "neighbours": neighbours,
            "inputs": split.X.shape[2],
            "dtype": experiment.model.precision,
            "model": _model(experiment, split.y.shape[1]),
            "stream": {"kind": "jsonl", "path": f"{name}.jsonl"},
            "transport": {**_for(name, transport), **_addresses(transport, places, name, neighbours)},
            "rounds": {"mode": "sync"},  # as the simulator learns, so that both can be compared
            "columns": _columns(source),
            "output": {"predictions": f"{name}.predictions.jsonl", "coverage": COVERAGE},
            **_for(name, sections or {}),
        }
        (folder / f"{name}.toml").write_text(as_toml(table), encoding="utf-8")
        lines = _events(split.X[j].tolist(), split.y[j].tolist(), split.one_delay)
        (folder / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return names


def _for(name: str, given: Settings) -> dict[str, Any]:
    """Settings with a learner's name in place of "{name}" in their texts."""
    return dict(json.loads(json.dumps(dict(given)).replace("{name}", name)))


def _columns(source: Source) -> dict[str, Any]:
    """The [columns] table: what inputs are called and made of; the rows themselves come as numbers."""
    if source.columns is None:
        return Columns(target=source.target, features=source.inputs).table()
    table = source.columns.table()
    return {key: table[key] for key in COLUMNS if key in table}


def _model(experiment: Experiment, T: int) -> dict[str, Any]:
    """The [model] table; an agent does not know how long its stream is, so the rates get T as horizon."""
    paper = experiment.paper_model
    if paper is None:
        return experiment.model.table
    rates = RateSpec() if paper.rates is None else paper.rates
    if isinstance(rates, RateSpec) and rates.horizon is None:
        rates = dataclasses.replace(rates, horizon=T)
    spec = KernelSpec() if paper.kernels is None else paper.kernels
    return dataclasses.replace(paper, kernels=spec, rates=rates).table


def _addresses(
    transport: Settings, places: Mapping[str, str], name: str, neighbours: Iterable[str]
) -> dict[str, Any]:
    if transport.get("kind") != "zenoh":
        return {}
    return {"listen": [places[name]], "connect": [places[neighbour] for neighbour in neighbours]}


def _events(X: Sequence[Any], y: Sequence[float], delay: int) -> Iterator[str]:
    """A stream as it happens: each x, and each label once it is known."""
    for t, x in enumerate(X):
        if delay == 0:
            yield json.dumps({"x": x, "y": y[t]})
            continue
        yield json.dumps({"x": x, "id": str(t)})
        if t >= delay:
            yield json.dumps({"id": str(t - delay), "y": y[t - delay]})


def as_toml(table: Settings, under: str = "") -> str:
    """A table of plain values and of tables; `under` is where it stands, such as "model.".

    >>> print(as_toml({"name": "a", "model": {"kind": "paper", "rates": {"rho": 1.0}}}))
    name = "a"
    <BLANKLINE>
    [model]
    kind = "paper"
    <BLANKLINE>
    [model.rates]
    rho = 1.0
    <BLANKLINE>
    """
    keyed = [(_key(key), value) for key, value in table.items()]
    plain = [f"{key} = {_quoted(value)}" for key, value in keyed if not isinstance(value, dict)]
    parts = [
        f"\n[{under}{key}]\n{as_toml(value, f'{under}{key}.').rstrip()}"
        for key, value in keyed
        if isinstance(value, dict)
    ]
    return "\n".join([*plain, *parts]) + "\n"


def _quoted(value: Any) -> str:
    """As JSON, which TOML reads, too, except for pairs of escapes and a bare control character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


#: Seconds from a learner's death to its next start, at first and at most, and after which one runs well.
PAUSE, LONGEST_PAUSE, WELL = 1.0, 60.0, 10.0
#: Starts in a row that none survived so long; then it is given up.
MOST_STARTS = 8
#: The exit code of who refuses its settings or its data, as it would again.
REFUSED = 2


class Revival:
    """When a learner whose process died is started again: after 1, 2, 4, ... seconds, and from 1 on if it ran
    well in between. One that ended or refused to run is not."""

    def __init__(self) -> None:
        self.count = 0  # of starts after the first
        self._died, self._started_at, self._due = 0, 0.0, math.inf

    def note_start(self, now: float) -> None:
        self.count += self._due < math.inf
        self._started_at, self._due = now, math.inf

    def is_due(self, code: int | None, now: float) -> bool:
        """Whether to start it now; `code` is its process's exit code, None while it runs."""
        if code in (None, 0, REFUSED):
            return False
        if self._due == math.inf:
            self._died = 0 if now - self._started_at > WELL else self._died
            self._died += 1
            self._due = now + min(PAUSE * 2 ** (self._died - 1), LONGEST_PAUSE)
        return now >= self._due and not self.is_given_up(code)

    def is_given_up(self, code: int | None) -> bool:
        """Whether it has failed and will not be started again."""
        return code == REFUSED or (code not in (None, 0) and self._died > MOST_STARTS)


class Fleet:
    """The processes of the learners laid out in a folder; a context manager that stops them on exit."""

    def __init__(
        self,
        folder: Path,
        names: Sequence[str],
        prefix: Mapping[str, Sequence[str]] | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        rate: float | None = None,
    ) -> None:
        """`prefix`: what stands before a learner's command, such as `ip netns exec NAMESPACE`.
        `environ`: their whole environment, if not this one.
        `rate`: samples a second on their standard input; without it, they read their files."""
        self.folder, self.names, self.prefix = folder, tuple(names), prefix or {}
        self.environ, self.rate = dict(os.environ if environ is None else environ), rate
        if rate is not None:
            self.environ |= {"DOMKL_STREAM_KIND": "stdin", "DOMKL_STREAM_PATH": ""}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._stopped = threading.Event()
        self._feeders: list[threading.Thread] = []
        self._read: dict[str, int] = dict.fromkeys(names, 0)
        self._last: dict[str, dict[str, Any]] = {}
        self.revivals = {name: Revival() for name in names}
        self.inputs: dict[str, dict[str, Any]] = {}  # which matter, as learners have logged last

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, *names: str) -> None:
        """Start these learners; without names, all."""
        for name in names or self.names:
            with open(self.log(name), "ab") as log:
                if name not in self.processes:  # what an earlier fleet logged is not of this one
                    self._read[name] = log.tell()
                agent = [sys.executable, "-m", "domkl", "agent", f"{name}.toml"]
                command = [*self.prefix.get(name, ()), *agent]
                stdin = subprocess.DEVNULL if self.rate is None else subprocess.PIPE
                self.revivals[name].note_start(time.monotonic())
                self.processes[name] = subprocess.Popen(
                    command, stdin=stdin, stderr=log, cwd=self.folder, env=self.environ
                )
            if self.rate is not None:
                self._feeders.append(threading.Thread(target=self._feed, args=(name, self.rate), daemon=True))
                self._feeders[-1].start()

    def _feed(self, name: str, rate: float) -> None:
        """Write a learner's samples to its standard input at the given rate, until it has ended."""
        pipe, start = self.processes[name].stdin, time.monotonic()
        assert pipe is not None
        with contextlib.suppress(OSError), pipe, open(self.folder / f"{name}.jsonl", "rb") as lines:
            for n, sample in enumerate(_samples(lines)):
                if self._stopped.wait(max(0.0, start + n / rate - time.monotonic())):
                    return
                pipe.write(sample)
                pipe.flush()

    def revive(self) -> None:
        """Start again whoever died, if it is time to."""
        now = time.monotonic()
        for name, process in self.processes.items():
            if not self._stopped.is_set() and self.revivals[name].is_due(process.poll(), now):
                self.start(name)

    @property
    def dead(self) -> list[str]:
        """The learners whose processes have failed, and may be started again."""
        return [name for name, process in self.processes.items() if process.poll()]

    @property
    def given_up(self) -> list[str]:
        """Those of them that will not."""
        return [name for name in self.dead if self.revivals[name].is_given_up(self.processes[name].poll())]

    @property
    def is_over(self) -> bool:
        """Whether nobody runs, and nobody will."""
        will_run = not self._stopped.is_set() and set(self.dead) - set(self.given_up)
        return not self.running and not will_run

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal to one learner."""
        self.processes[name].send_signal(number)

    def kill(self, name: str) -> None:
        """Kill a learner without warning."""
        self.signal(name, signal.SIGKILL)
        self.processes[name].wait()

    def wait(self, seconds: float) -> None:
        """Wait until all have ended; an error if one has failed, or after so many seconds."""
        end = time.monotonic() + seconds
        for name in self.names:
            try:
                code = self.processes[name].wait(max(0.01, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise InputError(
                    f"{name} still runs after {seconds} s; expected it to end; see {self.log(name)}"
                ) from None
            if code:
                raise InputError(
                    f"{name} ended with {code}: {self.tail(name)}; expected 0; see {self.log(name)}"
                )

    @property
    def running(self) -> list[str]:
        """The learners whose processes have not ended."""
        return [name for name, process in self.processes.items() if process.poll() is None]

    def stop(self, seconds: float = 5.0) -> None:
        """Ask all to stop, and kill those that do not within `seconds`."""
        self._stopped.set()
        for name in self.running:
            self.signal(name, signal.SIGCONT)
            self.signal(name, signal.SIGTERM)
        end = time.monotonic() + seconds
        for name in self.running:
            try:
                self.processes[name].wait(max(0.01, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.kill(name)
        for feeder in self._feeders:
            feeder.join()

    def log(self, name: str) -> Path:
        """Where a learner's log is."""
        return self.folder / f"{name}.log"

    def status(self, name: str) -> dict[str, Any]:
        """The last status line of a learner."""
        with open(self.log(name), "rb") as file:
            file.seek(self._read[name])
            lines = file.read()
        whole = lines[: lines.rfind(b"\n") + 1]
        self._read[name] += len(whole)
        for line in whole.splitlines():
            if b'"event": "status"' in line and line.startswith(b"{"):
                self._last[name] = json.loads(line)
            elif b'"event": "inputs"' in line and line.startswith(b"{"):
                self.inputs[name] = json.loads(line)
        return self._last.get(name, {})

    def predictions(self, name: str) -> list[dict[str, Any]]:
        """A learner's predictions so far, in the order of its readings; of repeated ones the last."""
        lines = (self.folder / f"{name}.predictions.jsonl").read_text(encoding="utf-8").splitlines()
        found = {record["index"]: record for record in map(json.loads, lines)}
        return [found[index] for index in sorted(found)]

    def tail(self, name: str) -> str:
        """The last line of a learner's log."""
        lines = self.log(name).read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else "its log is empty"


def _samples(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of each sample: its x, and the labels that are known by then."""
    sample = b""
    for line in lines:
        if line.startswith(b'{"x"') and sample:
            yield sample
            sample = b""
        sample += line
    yield sample
