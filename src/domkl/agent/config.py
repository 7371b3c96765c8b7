"""An agent's settings: a TOML file, environment variables over it, all checked before anything runs."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..base import checks, toml
from ..base.errors import InputError
from ..exchange.message import PAYLOADS
from ..learning import conformal, settings
from ..learning.settings import Auto, ModelSettings, Paper
from .config_http import HttpSection
from .transports import security, topics
from .transports.base import KINDS as TRANSPORTS
from .transports.base import TransportSettings
from .wire_names import MOST_NAMES

STREAMS = ("stdin", "csv", "jsonl", "topic")
FILES = ("csv", "jsonl")
LEVELS = ("debug", "info", "warning", "error")
#: Settings that name a file; relative ones are relative to the configuration's own folder.
PATHS = {
    "model": ("path",),
    "stream": ("path", "dead_letters"),
    "transport": ("ca", "cert", "key", "revoked"),
    "checkpoint": ("directory",),
    "output": ("predictions",),
    "http": ("token_file",),
}


@dataclass(frozen=True)
class Handed:
    """[model] path: a file of hand_over(), the same at every learner; it holds the model and its scale."""

    path: str

    def __post_init__(self) -> None:
        _need(bool(self.path), "path is ''; expected a file of hand_over(); name it or leave path out")


@dataclass(frozen=True)
class StreamSection:
    """[stream]: where readings come from, and the fixed public bounds that scale them."""

    kind: str = "stdin"
    path: str | None = None
    follow: bool = False
    topic: str | None = None
    target: str = "y"
    columns: tuple[str, ...] = ()
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    target_low: float | None = None
    target_high: float | None = None
    journal: bool = False
    missing: bool = False  # inputs may be: null in JSON, empty in CSV
    dead_letters: str | None = None  # file of refused rows; "" nowhere; None beside the checkpoints

    def __post_init__(self) -> None:
        checks.one_of("kind", self.kind, STREAMS)
        self._goes_with("path", self.kind in FILES, "kind is csv or jsonl")
        self._goes_with("topic", self.kind == "topic", "kind is topic")
        wrong = f"follow is true and kind is {self.kind}; expected csv or jsonl; leave follow out"
        _need(not self.follow or self.kind in FILES, wrong)
        wrong = (
            f"topic is {self.topic!r}; expected {topics.ROOT}/<network>/<sender>/<channel>; write it in full"
        )
        _need(self.topic is None or topics.is_topic(self.topic), wrong)
        _distinct("columns", self.columns)
        wrong = f"columns has {self.target!r}, the target; expected inputs alone; leave it out"
        _need(self.kind != "csv" or self.target not in self.columns, wrong)
        self._check_bounds()

    def _goes_with(self, key: str, wanted: bool, when: str) -> None:
        """A key that is needed in one case and has no meaning in the others."""
        fact, remedy = ("not given", f"add {key}") if wanted else ("given", f"leave {key} out")
        wrong = f"{key} is {fact} and kind is {self.kind}; expected {key} if {when}, else not; {remedy}"
        _need(wanted == bool(getattr(self, key)), wrong)

    def _check_bounds(self) -> None:
        counts = len(self.low), len(self.high)
        wrong = "low has {} numbers and high {}; expected as many; give each input both bounds"
        _need(counts[0] == counts[1], wrong.format(*counts))
        for i, (low, high) in enumerate(zip(self.low, self.high, strict=True)):
            _check_bounds(f"low[{i}]", low, f"high[{i}]", high)
        wrong = "only one of target_low and target_high is given; expected both or neither; add the other"
        _need((self.target_low is None) == (self.target_high is None), wrong)
        if self.target_low is not None and self.target_high is not None:
            _check_bounds("target_low", self.target_low, "target_high", self.target_high)

    def check_inputs(self, inputs: int) -> None:
        """Refuse lists that are not of as many inputs as x has."""
        for key in ("columns", "low", "high"):
            found = len(getattr(self, key))
            wrong = f"[stream] {key} has {found} items; expected inputs = {inputs}; fix one of them"
            _need(found in (0, inputs), wrong)


@dataclass(frozen=True)
class TransportSection:
    """[transport]: how updates travel; the network's and the learner's name are the file's own."""

    kind: str = "zenoh"
    listen: tuple[str, ...] = ()
    connect: tuple[str, ...] = ()
    announce: tuple[str, ...] = ()
    broker: str = TransportSettings.broker
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    revoked: str | None = None
    insecure: bool = False
    max_bytes: int = TransportSettings.max_bytes
    inbox: int = TransportSettings.inbox

    def __post_init__(self) -> None:
        checks.one_of("kind", self.kind, TRANSPORTS)
        checks.count("max_bytes", self.max_bytes)
        checks.count("inbox", self.inbox)
        for key in ("listen", "connect", "announce"):
            for address in getattr(self, key):
                security.parse(address, key)
        security.parse(self.broker, "broker")
        missing = [key for key in ("ca", "cert", "key") if getattr(self, key) is None]
        wrong = " and ".join(missing) + " not given; expected ca, cert and key together or none; add the rest"
        _need(len(missing) in (0, 3), wrong)
        wrong = "revoked is given without ca, cert and key; expected them or none; leave revoked out"
        _need(self.revoked is None or not missing, wrong)


@dataclass(frozen=True)
class RoundSection:
    """[rounds]: when a round is over. Times are in seconds."""

    mode: str = "sync"
    deadline: float = 5.0
    start: float = 30.0
    resend: float = 0.5

    def __post_init__(self) -> None:
        checks.one_of("mode", self.mode, ("sync", "async"))
        checks.positive("deadline", self.deadline)
        checks.not_negative("start", self.start)
        checks.positive("resend", self.resend)


@dataclass(frozen=True)
class CheckpointSection:
    """[checkpoint]: where and how often the learner is saved; without a directory, never."""

    directory: str | None = None
    every_rounds: int = 100
    every_seconds: float = 30.0
    sync: bool = True

    def __post_init__(self) -> None:
        checks.count("every_rounds", self.every_rounds)
        checks.positive("every_seconds", self.every_seconds)


@dataclass(frozen=True)
class OutputSection:
    """[output]: where predictions go: "-" is standard output, "" is nowhere; and how sure bounds are."""

    predictions: str = "-"
    publish: bool = False
    coverage: float | None = None

    def __post_init__(self) -> None:
        if self.coverage is not None:
            conformal.check_coverage(self.coverage)


@dataclass(frozen=True)
class LogSection:
    """[log]: how much is written to standard error, and in which form."""

    level: str = "info"
    format: str = "json"

    def __post_init__(self) -> None:
        checks.one_of("level", self.level, LEVELS)
        checks.one_of("format", self.format, ("json", "text"))


@dataclass(frozen=True)
class AgentConfig:
    """A whole agent's file; `inputs` is 0 where only the file of a handed model tells it."""

    network: str
    name: str
    neighbours: tuple[str, ...] = ()
    inputs: int = 0
    payload: str = "float64"
    dtype: str | None = None  # see `dtype_for`
    model: Auto | Paper | Handed = field(default_factory=Auto)
    stream: StreamSection = field(default_factory=StreamSection)
    transport: TransportSection = field(default_factory=TransportSection)
    rounds: RoundSection = field(default_factory=RoundSection)
    checkpoint: CheckpointSection = field(default_factory=CheckpointSection)
    output: OutputSection = field(default_factory=OutputSection)
    http: HttpSection = field(default_factory=HttpSection)
    log: LogSection = field(default_factory=LogSection)

    def __post_init__(self) -> None:
        self._check_names()
        checks.one_of("payload", self.payload, PAYLOADS)
        checks.one_of("dtype", self.dtype or "float64", ("float64", "float32"))
        self._check_inputs()
        self._check_model()
        wrong = "[stream] journal is true without a [checkpoint] directory; expected a place for it; add one"
        _need(not self.stream.journal or self.checkpoint.directory is not None, wrong)
        self.http.check_tls(self.transport)

    def _check_names(self) -> None:
        topics.check_name(self.network, "network")
        topics.check_name(self.name, "name")
        for name in self.neighbours:
            topics.check_name(name, "neighbours")
        wrong = f"neighbours has {len(self.neighbours)} names; expected at most {MOST_NAMES}; leave some out"
        _need(len(self.neighbours) <= MOST_NAMES, wrong)
        _distinct("neighbours", self.neighbours)
        wrong = f"a learner is called {topics.OPERATOR!r}, as only who directs them is; rename it"
        _need(topics.OPERATOR not in (self.name, *self.neighbours), wrong)
        wrong = f"neighbours has {self.name!r}, the learner itself; expected others; leave it out"
        _need(self.name not in self.neighbours, wrong)

    def _check_inputs(self) -> None:
        checks.count("inputs", self.inputs, least=0)
        object.__setattr__(self, "inputs", self.inputs or len(self.stream.columns))
        wrong = "inputs is not given; expected how many numbers x has; add inputs, or [stream] columns"
        _need(self.inputs > 0 or isinstance(self.model, Handed), wrong)
        if self.inputs:
            self.stream.check_inputs(self.inputs)

    def _check_model(self) -> None:
        """Refuse what does not go with the model."""
        model, stream = self.model, self.stream
        for key in ("low", "high", "target_low", "target_high"):
            wrong = f"[stream] {key} is given with [model] path, whose file has the scale; leave {key} out"
            _need(not isinstance(model, Handed) or getattr(stream, key) in ((), None), wrong)
        if isinstance(model, Paper):
            model.rates_at(0)  # refuses rates that only the stream's length would tell
            wrong = "[stream] missing is true with [model] kind paper; expected kind auto; leave missing out"
            _need(not stream.missing, wrong)
            wrong = "[rounds] mode is async with [model] hedge messages; expected another hedge; choose local"
            _need(self.rounds.mode == "sync" or model.hedge != "messages", wrong)

    def dtype_for(self, model: ModelSettings) -> str:
        """The precision to compute in; `model` is what the file holds where [model] has a path."""
        return self.dtype or ("float64" if isinstance(model, Paper) else "float32")

    @property
    def peers(self) -> tuple[str, ...]:
        """Whose messages are received: the neighbours', and those of who publishes the readings."""
        senders = [topics.sender_of(self.stream.topic)] if self.stream.topic else []
        return tuple(dict.fromkeys([*self.neighbours, *senders]))

    def transport_settings(self) -> TransportSettings:
        """What `domkl.agent.transports` needs to know."""
        given = dataclasses.asdict(self.transport)
        return TransportSettings(network=self.network, name=self.name, peers=self.peers, **given)


def load(path: str | os.PathLike[str], environ: Mapping[str, str] | None = None) -> AgentConfig:
    """An agent's settings from a TOML file, and from DOMKL_<SECTION>_<KEY> variables that go before it."""
    file, variables = Path(path), os.environ if environ is None else environ
    table = toml.read(file, "an agent's TOML configuration", "agent")
    top, sections = keys()
    found = toml.tables(table, sections, file.name)
    plain = {key: value for key, value in table.items() if key not in found}
    parts = {}
    for name, known in sections.items():
        section = found.get(name, {})
        where = toml.override(section, known, variables, f"{file.name} [{name}]", name)
        parts[name] = _section(name, section, where)
    where = toml.override(plain, top, variables, file.name)
    return _anchored(toml.section(AgentConfig, plain, where, **parts), file.absolute().parent)


def keys() -> tuple[toml.Keys, dict[str, toml.Keys]]:
    """Every key that an agent's file may have: those outside of sections, and those of each section."""
    found = toml.keys_of(AgentConfig)
    top: toml.Keys = {name: key for name, key in found.items() if isinstance(key, toml.Key)}
    sections = {name: key for name, key in found.items() if isinstance(key, dict)}
    return top, sections | {"model": {"kind": toml.Key((str,)), **sections["model"]}}


def _section(name: str, table: toml.Toml, where: str) -> Any:
    if name != "model":
        kinds = {each.name: each.default_factory for each in dataclasses.fields(AgentConfig)}
        return toml.section(kinds[name], table, where)  # type: ignore[arg-type]
    if "path" not in table:
        return settings.from_table(table, where)
    others = ", ".join(key for key in table if key != "path")
    _need(not others, f"{where} has path and {others}; expected path alone; leave {others} out")
    return toml.section(Handed, table, where)


def _anchored(config: AgentConfig, folder: Path) -> AgentConfig:
    """The same settings with absolute paths; relative ones start from `folder`."""
    changed = {}
    for name, keys in PATHS.items():
        section = getattr(config, name)
        given = {key: getattr(section, key, None) for key in keys}
        paths = {key: str(folder / path) for key, path in given.items() if path and path != "-"}
        changed[name] = dataclasses.replace(section, **paths)
    return dataclasses.replace(config, **changed)


def _need(good: bool, wrong: str) -> None:
    if not good:
        raise InputError(wrong)


def _distinct(key: str, names: Sequence[str]) -> None:
    for i, name in enumerate(names):
        _need(name not in names[:i], f"{key} has {name!r} twice; expected each once; leave one out")


def _check_bounds(low_name: str, low: float, high_name: str, high: float) -> None:
    wrong = (
        f"{low_name} is {low} and {high_name} is {high}; expected finite numbers, the low one lower; fix them"
    )
    _need(low < high and math.isfinite(high - low), wrong)
