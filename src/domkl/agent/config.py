"""An agent's settings: a TOML file, environment variables over it, all checked before anything runs."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..base import checks, toml
from ..datasets.columns import Columns
from ..datasets.encoder import Encoder
from ..exchange.message import PAYLOADS
from ..learning import settings
from ..learning.settings import Auto, ModelSettings, Paper
from ..watch.access import SHORTEST
from . import named_files
from .config_http import HttpSection
from .files import LONGEST
from .homeassistant import Device
from .sections import (
    ARRIVAL,
    STORED,
    TARGET,
    CheckpointSection,
    Handed,
    LogSection,
    OutputSection,
    RoundSection,
    StreamSection,
    TransportSection,
    distinct,
    need_that,
    secret_of,
)
from .transports.base import TransportSettings
from .transports.names import (
    MOST_NAMES,
    OPERATOR,
    ROOT,
    STATE,
    check_name,
    is_topic,
    local_address,
    matches,
    may_be_ours,
    sender_of,
)

__all__ = [
    "AgentConfig",
    "CheckpointSection",
    "Handed",
    "HttpSection",
    "LogSection",
    "OutputSection",
    "RoundSection",
    "StreamSection",
    "TransportSection",
    "keys",
    "load",
]

#: The network of learners whose files name none.
NETWORK = "domkl"
#: In place of a token where settings are shown; as long as one must be.
HIDDEN_TOKEN = "*" * SHORTEST


@dataclass(frozen=True)
class AgentConfig:
    """A whole agent's file; `inputs` is 0 where only a model's file or the first rows tell it."""

    network: str
    name: str
    neighbours: tuple[str, ...] = ()
    inputs: int = 0
    payload: str = "float64"
    dtype: str | None = None  # see `dtype_for`
    model: Auto | Paper | Handed = field(default_factory=Auto)
    columns: Columns = field(default_factory=Columns)
    stream: StreamSection = field(default_factory=StreamSection)
    transport: TransportSection = field(default_factory=TransportSection)
    rounds: RoundSection = field(default_factory=RoundSection)
    checkpoint: CheckpointSection = field(default_factory=CheckpointSection)
    output: OutputSection = field(default_factory=OutputSection)
    http: HttpSection = field(default_factory=HttpSection)
    log: LogSection = field(default_factory=LogSection)

    def __post_init__(self) -> None:
        self._check_names()
        self._fill_topic()
        object.__setattr__(self, "columns", self._with_arrival())
        checks.one_of("payload", self.payload, PAYLOADS)
        checks.one_of("dtype", self.dtype or "float64", ("float64", "float32"))
        self._check_inputs()
        self._check_model()
        self._check_topics()
        wrong = "[stream] journal is true without a [checkpoint] directory; expected a place for it; add one"
        need_that(not self.stream.journal or self.checkpoint.directory is not None, wrong)
        self.http.check_tls(self.transport)

    def _check_names(self) -> None:
        check_name(self.network, "network")
        check_name(self.name, "name")
        for name in self.neighbours:
            check_name(name, "neighbours")
        wrong = f"neighbours has {len(self.neighbours)} names; expected at most {MOST_NAMES}; leave some out"
        need_that(len(self.neighbours) <= MOST_NAMES, wrong)
        distinct("neighbours", self.neighbours)
        wrong = f"a learner is called {OPERATOR!r}, as only who directs them is; rename it"
        need_that(OPERATOR not in (self.name, *self.neighbours), wrong)
        wrong = f"neighbours has {self.name!r}, the learner itself; expected others; leave it out"
        need_that(self.name not in self.neighbours, wrong)

    def _with_arrival(self) -> Columns:
        """The columns; that of the time of arrival, which messages have, is a time in seconds."""
        columns = self.columns
        is_used = ARRIVAL in (*columns.features, *columns.time) and self.stream.kind == "topic"
        if not is_used or ARRIVAL in columns.kinds:
            return columns
        return dataclasses.replace(columns, kinds={**columns.kinds, ARRIVAL: "time:s"})

    def _check_inputs(self) -> None:
        checks.count("inputs", self.inputs, least=0)
        columns, is_file = self.columns, self.stream.kind in STORED
        wrong = "[columns] missing is mean, of whole tables only; expected auto, error or drop; fix it"
        need_that(columns.missing != "mean", wrong)
        wrong = "[columns] records is given, of whole documents only; expected lines; leave records out"
        need_that(not columns.records, wrong)
        if columns.features and not (is_file and not self.inputs):  # kinds in a file are looked at first
            found = Encoder(columns).d
            wrong = f"[columns] makes {found} inputs; expected inputs = {self.inputs}; leave inputs out"
            need_that(self.inputs in (0, found), wrong)
            object.__setattr__(self, "inputs", found)
        wrong = (
            "inputs is not given; expected how many numbers x has; add inputs, or [columns] with target and "
            "features"
        )
        need_that(self.inputs > 0 or isinstance(self.model, Handed) or is_file, wrong)
        if self.inputs:
            self.stream.check_inputs(self.inputs)

    def _check_model(self) -> None:
        """Refuse what does not go with the model."""
        model, stream = self.model, self.stream
        for key in ("low", "high", "target_low", "target_high"):
            wrong = f"[stream] {key} is given with [model] path, whose file has the scale; leave {key} out"
            need_that(not isinstance(model, Handed) or getattr(stream, key) in ((), None), wrong)
        wrong = '[columns] labels is given with [model] loss squared; expected classes; set loss = "logistic"'
        need_that(not self.columns.labels or getattr(model, "loss", "logistic") == "logistic", wrong)
        classifies = not isinstance(model, Handed) and model.loss_function.classifies
        wrong = "[output] alarm_rate is given and the model learns classes; expected numbers; leave it out"
        need_that(self.output.alarm_rate is None or not classifies, wrong)
        if isinstance(model, Paper):
            model.rates_at(0)  # refuses rates that only the stream's length would tell
            wrong = "[rounds] mode is async with [model] hedge messages; expected another hedge; choose local"
            need_that(self.rounds.mode == "sync" or model.hedge != "messages", wrong)

    def _check_topics(self) -> None:
        """Refuse topics without a place where they are, or that Zenoh does not know."""
        stream, kind = self.stream, self.transport.chosen(not self.neighbours)
        used = [*stream.patterns, *filter(None, [self.output.topic])]
        is_nowhere = not stream.broker and not self.transport.kind and kind == "memory"
        wrong = (
            'a topic is given and no broker; expected where it is; add [stream] broker = "127.0.0.1:1883", '
            "or [transport] connect for a key of Zenoh"
        )
        need_that(not used or not is_nowhere, wrong)
        for topic in used if kind == "zenoh" and not stream.broker else []:
            wrong = f"topic {topic!r} begins with a slash; a key of Zenoh does not; leave the slash out"
            need_that(not topic.startswith("/"), wrong)
        wrong = f"[output] topic is of other learners; expected {self._own}<channel>, or no domkl/; fix it"
        out = self.output.topic
        need_that(not may_be_ours(out) or out.startswith(self._own) or bool(stream.broker), wrong)
        self._refuse_loop()

    def _refuse_loop(self) -> None:
        """Refuse to read what we write: each prediction would be a reading, for which there is another."""
        written = [self.output.topic, *(self.device.topics if self.output.home_assistant else ())]
        for pattern in self.stream.patterns:
            for topic in filter(None, written):
                wrong = (
                    f"[stream] reads {pattern!r}, which has {topic!r} that [output] writes; expected other "
                    "topics; choose an [output] topic that it does not match"
                )
                need_that(not matches(pattern, topic), wrong)

    def _fill_topic(self) -> None:
        """Home Assistant reads predictions from a topic of a broker, so there must be one."""
        if not self.output.home_assistant:
            return
        wrong = (
            "[output] home_assistant is true and there is no MQTT broker; expected one that Home Assistant "
            'reads; add [stream] broker = "127.0.0.1:1883"'
        )
        has_broker = self.stream.broker or self.transport.chosen(not self.neighbours) == "mqtt"
        need_that(bool(has_broker), wrong)
        topic = self.output.topic or f"{self._own}prediction"
        object.__setattr__(self, "output", dataclasses.replace(self.output, topic=topic))

    @property
    def device(self) -> Device:
        """What Home Assistant is told about this learner."""
        out, is_guest = self.output, bool(self.stream.broker)
        state = f"{out.topic}/state" if is_guest else f"{self._own}{STATE}"
        about = out.topic, state, is_guest, out.unit, out.device_class, out.discovery_prefix
        return Device(self.network, self.name, self.target, *about)

    @property
    def entities(self) -> dict[str, bool]:
        """Which of Home Assistant's entities this learner has."""
        is_bounded = self.output.coverage is not None
        return {
            "predicted": True,
            "low": is_bounded,
            "high": is_bounded,
            "alarm": self.output.alarm_rate is not None,
        }

    @property
    def _own(self) -> str:
        return f"{ROOT}/{self.network}/{self.name}/"

    @property
    def target(self) -> str:
        """The name of the column to predict."""
        return self.columns.target or TARGET

    @property
    def takes_missing(self) -> bool:
        """Whether inputs may be missing; `Paper` knows no such thing."""
        return self.columns.missing == "auto" and not isinstance(self.model, Paper)

    def dtype_for(self, model: ModelSettings) -> str:
        """The precision to compute in; `model` is what the file holds where [model] has a path."""
        return self.dtype or ("float64" if isinstance(model, Paper) else "float32")

    @property
    def peers(self) -> tuple[str, ...]:
        """Whose messages are received: the neighbours', and those of who publishes the readings."""
        used = () if self.stream.broker else self.stream.patterns
        senders = [sender_of(topic) for topic in used if is_topic(topic)]
        return tuple(dict.fromkeys([*self.neighbours, *senders]))

    def transport_settings(self) -> TransportSettings:
        """What `domkl.agent.transports` needs to know; learners on one machine find each other by name."""
        section = self.transport
        given = {key: value for key, value in vars(section).items() if key != "password_file"}
        given |= {"kind": section.chosen(not self.neighbours), "password": secret_of(section)}
        if given["kind"] == "zenoh" and not (section.listen or section.connect or section.discover):
            given["listen"] = (local_address(self.network, self.name),)
            given["connect"] = tuple(local_address(self.network, name) for name in self.neighbours)
        foreign = () if self.stream.broker else self._foreign()
        return TransportSettings(
            network=self.network, name=self.name, peers=self.peers, topics=foreign, **given
        )

    def source_settings(self) -> TransportSettings | None:
        """The same of the broker in [stream], where readings come from and predictions go to."""
        stream = self.stream
        if stream.broker is None:
            return None
        login = {"user": stream.user, "password": secret_of(stream)}
        about = {"broker": stream.broker, "ca": stream.ca, "insecure": stream.insecure}
        limits = {"topics": self._foreign(all_of_them=True), "is_guest": True, "max_bytes": LONGEST}
        limits["will"] = self.device.state if self.output.home_assistant else ""
        return TransportSettings("mqtt", self.network, self.name, **login, **about, **limits)  # type: ignore[arg-type]

    def _foreign(self, all_of_them: bool = False) -> tuple[str, ...]:
        """Topics of the stream and for predictions, other than those of learners."""
        used = [*self.stream.patterns, *filter(None, [self.output.topic])]
        used += self.device.topics if self.output.home_assistant else ()
        return tuple(dict.fromkeys(each for each in used if all_of_them or not is_topic(each)))


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
    plain = {"network": NETWORK, "name": _name_of(file)} | plain
    parts["checkpoint"] = _with_directory(parts["checkpoint"], parts["stream"], plain["name"])
    config = named_files.anchored(toml.section(AgentConfig, plain, where, **parts), file.absolute().parent)
    named_files.check(config, where)
    return config


def _name_of(file: Path) -> str:
    """A learner's name from its file's."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", file.stem)[:64] or "agent"


def _with_directory(section: CheckpointSection, stream: StreamSection, name: Any) -> CheckpointSection:
    """What is learnt from live readings is kept beside the file, unless it says "" or another place."""
    is_live = stream.kind == "topic" or stream.follow
    given = f"{name}.state" if section.directory is None and is_live else section.directory
    return dataclasses.replace(section, directory=given or None)


def keys() -> tuple[toml.Keys, dict[str, toml.Keys]]:
    """Every key that an agent's file may have: those outside of sections, and those of each section."""
    found = toml.keys_of(AgentConfig)
    top: toml.Keys = {name: key for name, key in found.items() if isinstance(key, toml.Key)}
    sections = {name: key for name, key in found.items() if isinstance(key, dict)}
    return top, sections | {"model": {"kind": toml.Key((str,)), **sections["model"]}}


def _section(name: str, table: toml.Toml, where: str) -> Any:
    if name == "columns":
        return Columns.from_table(table, where)
    if name != "model":
        kinds = {each.name: each.default_factory for each in dataclasses.fields(AgentConfig)}
        return toml.section(kinds[name], table, where)  # type: ignore[arg-type]
    if "path" not in table:
        return settings.from_table(table, where)
    others = ", ".join(key for key in table if key != "path")
    need_that(not others, f"{where} has path and {others}; expected path alone; leave {others} out")
    return toml.section(Handed, table, where)
