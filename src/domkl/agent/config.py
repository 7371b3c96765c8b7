"""An agent's settings: a TOML file, environment variables over it, all checked before anything runs."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..base import checks, toml
from ..base.errors import InputError
from ..lab.experiment import AutoSpec, KernelSpec, LearningSpec, RateSpec
from ..learner.member import PAYLOADS
from ..learning import conformal
from ..learning.first_order import Rates
from .transports import security, topics
from .transports.base import KINDS as TRANSPORTS
from .transports.base import TransportSettings

STREAMS = ("stdin", "csv", "jsonl", "topic")
FILES = ("csv", "jsonl")
LEVELS = ("debug", "info", "warning", "error")
#: Settings that name a file; relative ones are relative to the configuration's own folder.
PATHS = {
    "stream": ("path",),
    "transport": ("ca", "cert", "key"),
    "checkpoint": ("directory",),
    "output": ("predictions",),
}


@dataclass(frozen=True)
class RateSection(RateSpec):
    """[rates]: rho, eta and eta_g, or `horizon` = T with kappa and kappa_g for those not given."""

    horizon: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.horizon is not None:
            checks.count("horizon", self.horizon)

    def refuse_open(self) -> None:
        """All three rates must follow from what is given."""
        open_ = [name for name in ("rho", "eta", "eta_g") if getattr(self, name) is None]
        if self.horizon is None and open_:
            raise InputError(
                f"[rates] {', '.join(open_)} and horizon are not given; expected rho, eta and eta_g as "
                "numbers, or horizon = T for kappa sqrt(T); add horizon, or the numbers"
            )

    def rates(self) -> Rates:
        """The numbers to learn with."""
        return self.at(self.horizon or 1)  # without a horizon all three are given


@dataclass(frozen=True)
class AutoSection(AutoSpec):
    """[auto], with preset = "auto": all learners of the network, and the most links between two of them."""

    learners: tuple[str, ...] = ()
    diameter: int | None = None
    seed: int = 0
    start: float = 0.0
    dtype: str = "float32"

    def __post_init__(self) -> None:
        super().__post_init__()
        _distinct("learners", self.learners)
        for name in self.learners:
            topics.check_name(name, "learners")
        checks.count("seed", self.seed, least=0)
        checks.one_of("dtype", self.dtype, ("float64", "float32"))

    def check(self, name: str, neighbours: Sequence[str]) -> None:
        """Refuse what is not a network that this learner is in."""
        for each in (name, *neighbours):
            if each not in self.learners:
                raise InputError(
                    f"[auto] learners has no {each!r}; expected all of the network, in one order; add it"
                )
        if self.diameter is None:
            raise InputError(
                "[auto] diameter is not given; expected the most links between two learners; add it"
            )
        checks.count("diameter", self.diameter, least=min(1, len(self.learners) - 1))


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

    def __post_init__(self) -> None:
        checks.one_of("kind", self.kind, STREAMS)
        _goes_with(self, "path", self.kind in FILES, "kind is csv or jsonl")
        _goes_with(self, "topic", self.kind == "topic", "kind is topic")
        if self.follow and self.kind not in FILES:
            raise InputError(
                f"follow is true and kind is {self.kind}; expected csv or jsonl; leave follow out"
            )
        if self.topic is not None:
            _topic(self.topic)
        self._check_columns()
        self._check_bounds()

    def _check_columns(self) -> None:
        _distinct("columns", self.columns)
        if self.kind == "csv" and self.target in self.columns:
            raise InputError(f"columns has {self.target!r}, the target; expected inputs alone; leave it out")

    def _check_bounds(self) -> None:
        if len(self.low) != len(self.high):
            raise InputError(
                f"low has {len(self.low)} numbers and high {len(self.high)}; expected as many; "
                "give each input both bounds"
            )
        for i, (low, high) in enumerate(zip(self.low, self.high, strict=True)):
            _bounds(f"low[{i}]", low, f"high[{i}]", high)
        given = (self.target_low, self.target_high)
        if (given[0] is None) != (given[1] is None):
            raise InputError("only one of target_low and target_high is given; expected both or neither")
        if given[0] is not None and given[1] is not None:
            _bounds("target_low", given[0], "target_high", given[1])

    def check_inputs(self, inputs: int) -> None:
        """Refuse lists that are not of as many inputs as x has."""
        for name in ("columns", "low", "high"):
            found = len(getattr(self, name))
            if found not in (0, inputs):
                raise InputError(f"[stream] {name} has {found} items; expected inputs = {inputs}; mend one")


@dataclass(frozen=True)
class TransportSection:
    """[transport]: how updates travel; the network's and the learner's name are the file's own."""

    kind: str = "zenoh"
    listen: tuple[str, ...] = ()
    connect: tuple[str, ...] = ()
    broker: str = TransportSettings.broker
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    insecure: bool = False
    max_bytes: int = TransportSettings.max_bytes
    inbox: int = TransportSettings.inbox

    def __post_init__(self) -> None:
        checks.one_of("kind", self.kind, TRANSPORTS)
        checks.count("max_bytes", self.max_bytes)
        checks.count("inbox", self.inbox)
        for key, addresses in (
            ("listen", self.listen),
            ("connect", self.connect),
            ("broker", (self.broker,)),
        ):
            for each in addresses:
                security.parse(each, key)
        missing = [key for key in ("ca", "cert", "key") if getattr(self, key) is None]
        if len(missing) in (1, 2):
            raise InputError(
                f"{' and '.join(missing)} not given; expected ca, cert and key together or none; add the rest"
            )


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
class HttpSection:
    """[http]: where health and metrics are served; "" is nowhere."""

    listen: str = ""
    allow_remote: bool = False

    def __post_init__(self) -> None:
        found = self.address
        if found and not (self.allow_remote or security.is_loopback(self.listen)):
            raise InputError(
                f"listen is {self.listen!r}, which other machines reach; expected a loopback address; "
                "choose 127.0.0.1, or set allow_remote = true"
            )

    @property
    def address(self) -> tuple[str, int] | None:
        """Host and port, None where nothing is served."""
        return security.parse(self.listen, "listen") if self.listen else None


@dataclass(frozen=True)
class LogSection:
    """[log]: how much is told on standard error, and in which form."""

    level: str = "info"
    format: str = "json"

    def __post_init__(self) -> None:
        checks.one_of("level", self.level, LEVELS)
        checks.one_of("format", self.format, ("json", "text"))


@dataclass(frozen=True)
class AgentConfig:
    """A whole agent's file."""

    network: str
    name: str
    inputs: int
    neighbours: tuple[str, ...] = ()
    payload: str = "float64"
    preset: str = "own"
    model: str | None = None  # a file of hand_over(), with which all learners of the network begin
    auto: AutoSection = field(default_factory=AutoSection)
    kernels: KernelSpec = field(default_factory=KernelSpec)
    rates: RateSection = field(default_factory=RateSection)
    learning: LearningSpec = field(default_factory=LearningSpec)
    stream: StreamSection = field(default_factory=StreamSection)
    transport: TransportSection = field(default_factory=TransportSection)
    rounds: RoundSection = field(default_factory=RoundSection)
    checkpoint: CheckpointSection = field(default_factory=CheckpointSection)
    output: OutputSection = field(default_factory=OutputSection)
    http: HttpSection = field(default_factory=HttpSection)
    log: LogSection = field(default_factory=LogSection)

    def __post_init__(self) -> None:
        for key, name in (("network", self.network), ("name", self.name)):
            topics.check_name(name, key)
        for name in self.neighbours:
            topics.check_name(name, "neighbours")
        _distinct("neighbours", self.neighbours)
        if topics.OPERATOR in (self.name, *self.neighbours):
            raise InputError(f"a learner is called {topics.OPERATOR!r}; that is who directs it; rename it")
        if self.name in self.neighbours:
            raise InputError(
                f"neighbours has {self.name!r}, the learner itself; expected others; leave it out"
            )
        checks.count("inputs", self.inputs)
        checks.one_of("payload", self.payload, PAYLOADS)
        self._check_preset()
        self.stream.check_inputs(self.inputs)
        if self.stream.journal and self.checkpoint.directory is None:
            raise InputError(
                "[stream] journal is true without a [checkpoint] directory; expected a place for it; add one"
            )

    def _check_preset(self) -> None:
        """What one preset needs has no meaning in the other, and what a model tells is not told twice."""
        if checks.one_of("preset", self.preset, ("own", "auto")) == "own":
            given: dict[str, object] = {"auto": self.auto}
            if self.model is not None:
                given |= {"kernels": self.kernels, "rates": self.rates, "learning": self.learning}
            else:
                self.rates.refuse_open()
            if self.stream.missing and self.model is None:
                raise InputError("[stream] missing is true with preset own; expected auto; leave it out")
        else:
            self.auto.check(self.name, self.neighbours)
            checks.one_of("[learning] loss", self.learning.loss, ("squared", "logistic"))
            learning = dataclasses.replace(self.learning, loss="squared")
            given = {"kernels": self.kernels, "rates": self.rates, "learning": learning}
            if self.rounds.mode != "sync":
                raise InputError("[rounds] mode is async with preset auto; expected sync; leave it out")
        for key, section in given.items():
            if section != type(section)():
                told = self.model is not None and key != "auto"
                which = "a model" if told else f"preset {self.preset}"
                raise InputError(
                    f"[{key}] is given with {which}; expected none of its settings; leave it out"
                    + (' or set preset = "auto"' if key == "auto" else "")
                )
        if self.model is not None:
            self._check_model()

    def _check_model(self) -> None:
        """The model tells kernels, loss and scale."""
        if not self.model:
            raise InputError("model is empty; expected a file of hand_over(); name it or leave model out")
        auto, stream = AutoSection(), self.stream
        told = [key for key in ("size", "seed", "start") if getattr(self.auto, key) != getattr(auto, key)]
        told = [f"[auto] {key}" for key in told]
        told += ["[learning] loss"] * (self.learning != LearningSpec())
        told += [f"[stream] {key}" for key in ("low", "high") if getattr(stream, key)]
        told += ["[stream] target_low"] * (stream.target_low is not None)
        if told:
            raise InputError(f"{told[0]} is given with a model, which tells it; expected none; leave it out")

    @property
    def peers(self) -> tuple[str, ...]:
        """Whose messages are heard: the neighbours, and who publishes the readings."""
        senders = [topics.sender_of(self.stream.topic)] if self.stream.topic else []
        return tuple(dict.fromkeys([*self.neighbours, *senders]))

    def transport_settings(self) -> TransportSettings:
        """What `domkl.transports` needs to know."""
        given = dataclasses.asdict(self.transport)
        return TransportSettings(network=self.network, name=self.name, peers=self.peers, **given)


def load(path: str | os.PathLike[str], environ: Mapping[str, str] | None = None) -> AgentConfig:
    """An agent's settings from a TOML file, and from DOMKL_<SECTION>_<KEY> variables that go before it."""
    file = Path(path)
    table = toml.read(file, "an agent's TOML configuration", "agent")
    variables = os.environ if environ is None else environ
    return _anchored(toml.whole(AgentConfig, table, file.name, variables), file.absolute().parent)


def _anchored(config: AgentConfig, folder: Path) -> AgentConfig:
    """The same settings, paths relative to `folder` made whole."""
    changed = {}
    for name, keys in PATHS.items():
        section = getattr(config, name)
        given = {key: getattr(section, key) for key in keys}
        paths = {key: str(folder / path) for key, path in given.items() if path and path != "-"}
        changed[name] = dataclasses.replace(section, **paths)
    model = config.model and str(folder / config.model)
    return dataclasses.replace(config, model=model, **changed)


def _goes_with(section: StreamSection, key: str, wanted: bool, when: str) -> None:
    """A key that is needed in one case and has no meaning in the others."""
    if wanted != bool(getattr(section, key)):
        fact = f"{key} is not given" if wanted else f"{key} is given"
        remedy = f"add {key}" if wanted else f"leave {key} out"
        raise InputError(f"{fact} and kind is {section.kind}; expected {key} if {when}, else not; {remedy}")


def _distinct(key: str, names: Sequence[str]) -> None:
    for i, name in enumerate(names):
        if name in names[:i]:
            raise InputError(f"{key} has {name!r} twice; expected each once; leave one out")


def _bounds(low_name: str, low: float, high_name: str, high: float) -> None:
    if not (low < high and math.isfinite(high - low)):
        raise InputError(
            f"{low_name} is {low} and {high_name} is {high}; expected finite numbers, the low one lower; "
            "mend them"
        )


def _topic(topic: str) -> None:
    if not topics.is_topic(topic):
        raise InputError(
            f"topic is {topic!r}; expected {topics.ROOT}/<network>/<sender>/<channel> in full; mend it"
        )
