"""The sections of an agent's file; each checks itself."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..base import checks
from ..base.errors import InputError
from ..datasets import readers
from ..datasets.readers import queries
from ..learning import alarms, conformal
from .homeassistant import PREFIX
from .transports import security
from .transports.base import KINDS as TRANSPORTS
from .transports.base import TransportSettings
from .transports.names import ROOT, check_filter, is_topic, may_be_ours

#: Sources that are read again after a restart: files of lines, and tables that are read as a whole.
LINES, TABLES = ("csv", "jsonl"), ("parquet", "database")
STORED = (*LINES, *TABLES)
STREAMS = ("stdin", *STORED, "topic")
#: A column that every message of a topic has: when it arrived, in seconds since 1970.
ARRIVAL = "arrival"
#: The column to predict, where none is named.
TARGET = "y"
#: Seconds that the value of a topic counts, where values are joined.
WITHIN = 60.0
LEVELS = ("debug", "info", "warning", "error")


@dataclass(frozen=True)
class Handed:
    """[model] path: a file of hand_over(), DOMKL.save() or `domkl run`, the same at every learner."""

    path: str

    def __post_init__(self) -> None:
        need_that(bool(self.path), "path is ''; expected a taught model; name its file or leave path out")


@dataclass(frozen=True)
class StreamSection:
    """[stream]: where readings come from, and the fixed public bounds that scale them."""

    kind: str = ""  # that of the path or the topic, where left out
    path: str | None = field(default=None, repr=False)  # a file, sqlite:FILE or postgresql://..., as of run
    query: str = ""  # of a database
    follow: bool = False
    topic: str | None = None  # one reading a message
    topics: tuple[str, ...] = ()  # joined by time into one reading
    trigger: str | None = None
    within: float | None = None
    broker: str | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    password_file: str | None = None
    ca: str | None = None
    insecure: bool = False
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    target_low: float | None = None
    target_high: float | None = None
    journal: bool = False
    dead_letters: str | None = None  # file of refused rows; "" nowhere; None beside the checkpoints

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", self.kind or self._kind())
        checks.one_of("kind", self.kind, STREAMS)
        self._goes_with("path", self.kind in STORED, "kind is csv, jsonl, parquet or database")
        key = "topics" if self.topics else "topic"
        self._goes_with(key, self.kind == "topic", "kind is topic")
        wrong = f"follow is true and kind is {self.kind}; expected a file or a database; leave follow out"
        need_that(not self.follow or self.kind in STORED, wrong)
        self._check_database()
        self._check_topics()
        self._check_broker()
        self._check_bounds()

    @property
    def passes(self) -> bool:
        """Whether a reading is gone once it was handed out, as no file and no journal holds it."""
        return self.kind not in STORED and not self.journal

    @property
    def ends(self) -> bool:
        """Whether an agent without a state reads the same rows again from the first to the last."""
        return self.kind in STORED and not self.follow

    @property
    def shown(self) -> str:
        """What people call the file or database; never an address, which may hold a password."""
        path = str(self.path)
        return queries.name_of(path) if queries.is_database(path) else path

    def _kind(self) -> str:
        """The kind of source that the other keys tell."""
        if self.topic or self.topics:
            return "topic"
        if self.path is None:
            return "stdin"
        if readers.is_stored(self.path):
            return "database" if queries.is_database(self.path) else "parquet"
        return "jsonl" if self.path.lower().endswith((".jsonl", ".ndjson", ".json")) else "csv"

    def _goes_with(self, key: str, wanted: bool, when: str) -> None:
        """A key that is needed in one case and has no meaning in the others."""
        fact, remedy = ("not given", f"add {key}") if wanted else ("given", f"leave {key} out")
        wrong = f"{key} is {fact} and kind is {self.kind}; expected {key} if {when}, else not; {remedy}"
        need_that(wanted == bool(getattr(self, key)), wrong)

    def _check_database(self) -> None:
        is_database = queries.is_database(self.path or "")
        found = "a database" if is_database else "no database"
        wrong = f"kind is {self.kind} and path is {found}; expected kind to say what path is; leave kind out"
        need_that(is_database == (self.kind == "database"), wrong)
        wrong = "query is given and path is no database; expected one; leave query out"
        need_that(is_database or not self.query, wrong)
        if is_database:
            queries.name_of(str(self.path))  # refuses an address that would show its password

    def _check_topics(self) -> None:
        wrong = "topic and topics are both given; expected topic, or topics to join; leave one out"
        need_that(not (self.topic and self.topics), wrong)
        for topic in self.patterns:
            check_filter(topic, "topic")
            wrong = f"topic is {topic!r}; expected {ROOT}/<network>/<sender>/<channel>; write it in full"
            need_that(not may_be_ours(topic) or is_topic(topic) or bool(self.broker), wrong)
        distinct("topics", self.topics)
        if self.within is not None:
            checks.positive("within", self.within)
        if self.trigger is not None:
            check_filter(self.trigger, "trigger")
        for key in ("within", "trigger"):
            wrong = f"{key} is given without topics, which it is about; expected both; leave {key} out"
            need_that(getattr(self, key) is None or bool(self.topics), wrong)

    def _check_broker(self) -> None:
        given = [key for key in ("user", "password", "password_file", "ca") if getattr(self, key) is not None]
        remedy = "write it into path, or ~/.pgpass" if self.kind == "database" else "add broker"
        wrong = f"{' and '.join(given)} given without broker; expected them together; {remedy}"
        need_that(self.broker is not None or not given, wrong)
        wrong = "insecure is true without broker, which it is about; add broker or leave insecure out"
        need_that(self.broker is not None or not self.insecure, wrong)
        _check_login(self.user, self.password, self.password_file)
        if self.broker is not None:
            security.parse(self.broker, "broker")

    @property
    def patterns(self) -> tuple[str, ...]:
        """The topics to read, which may have wildcards."""
        return self.topics or ((self.topic,) if self.topic else ())

    def _check_bounds(self) -> None:
        counts = len(self.low), len(self.high)
        wrong = "low has {} numbers and high {}; expected as many; give each input both bounds"
        need_that(counts[0] == counts[1], wrong.format(*counts))
        for i, (low, high) in enumerate(zip(self.low, self.high, strict=True)):
            _check_bounds(f"low[{i}]", low, f"high[{i}]", high)
        wrong = "only one of target_low and target_high is given; expected both or neither; add the other"
        need_that((self.target_low is None) == (self.target_high is None), wrong)
        if self.target_low is not None and self.target_high is not None:
            _check_bounds("target_low", self.target_low, "target_high", self.target_high)

    def check_inputs(self, inputs: int) -> None:
        """Refuse bounds that are not of as many inputs as x has."""
        for key in ("low", "high"):
            found = len(getattr(self, key))
            wrong = f"[stream] {key} has {found} items; expected as many as inputs, {inputs}; fix one of them"
            need_that(found in (0, inputs), wrong)


@dataclass(frozen=True)
class TransportSection:
    """[transport]: how updates travel; the network's and the learner's name are the file's own."""

    kind: str = ""  # what the other keys tell, where left out: see `chosen`
    listen: tuple[str, ...] = ()
    connect: tuple[str, ...] = ()
    announce: tuple[str, ...] = ()
    discover: str = ""
    broker: str = TransportSettings.broker
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    password_file: str | None = None
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    revoked: str | None = None
    insecure: bool = False
    max_bytes: int = TransportSettings.max_bytes
    inbox: int = TransportSettings.inbox

    def __post_init__(self) -> None:
        checks.one_of("kind", self.kind or TRANSPORTS[0], TRANSPORTS)
        checks.count("max_bytes", self.max_bytes)
        checks.count("inbox", self.inbox)
        for key in ("listen", "connect", "announce"):
            for address in getattr(self, key):
                security.parse(address, key)
        security.parse(self.broker, "broker")
        checks.one_of("discover", self.discover, ("", "lan"))
        _check_login(self.user, self.password, self.password_file)
        missing = [key for key in ("ca", "cert", "key") if getattr(self, key) is None]
        wrong = " and ".join(missing) + " not given; expected ca, cert and key together or none; add the rest"
        need_that(len(missing) in (0, 3) or (bool(self.user) and missing == ["cert", "key"]), wrong)
        wrong = "revoked is given without ca, cert and key; expected them or none; leave revoked out"
        need_that(self.revoked is None or not missing, wrong)

    def chosen(self, is_alone: bool) -> str:
        """The kind: a learner alone needs none, others speak Zenoh unless something of a broker is given."""
        if self.kind:
            return self.kind
        if self.user or self.broker != TransportSettings.broker:
            return "mqtt"
        is_zenoh = not is_alone or self.listen or self.connect or self.discover
        return "zenoh" if is_zenoh else "memory"


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
    """[checkpoint]: where and how often the learner is saved; "" is never, see also `default_directory`."""

    directory: str | None = None
    every_rounds: int = 100
    every_seconds: float = 30.0
    sync: bool = True

    def __post_init__(self) -> None:
        checks.count("every_rounds", self.every_rounds)
        checks.positive("every_seconds", self.every_seconds)


@dataclass(frozen=True)
class OutputSection:
    """[output]: where predictions go ("-" is standard output, "" nowhere), and what is said with them."""

    predictions: str = "-"
    topic: str = ""
    retain: bool = False
    url: str = ""
    coverage: float | None = None
    alarm_rate: float | None = None  # part of the readings without a fault that may raise an alarm
    home_assistant: bool = False
    discovery_prefix: str = PREFIX
    unit: str = ""
    device_class: str = ""

    def __post_init__(self) -> None:
        check_filter(self.discovery_prefix, "discovery_prefix", exact=True)
        wrong = f"device_class is {self.device_class!r}; expected one of Home Assistant's; fix it"
        need_that(re.fullmatch("[a-z0-9_]{0,64}", self.device_class) is not None, wrong)
        wrong = "device_class is given without home_assistant; expected both; leave device_class out"
        need_that(self.home_assistant or not self.device_class, wrong)
        wrong = f"unit has {len(self.unit)} characters; expected at most 32; shorten it"
        need_that(len(self.unit) <= 32, wrong)
        if self.coverage is not None:
            conformal.check_coverage(self.coverage)
        if self.alarm_rate is not None:
            alarms.check_rate(self.alarm_rate)
        if self.topic:
            check_filter(self.topic, "topic", exact=True)
        wrong = "retain is true without topic; expected a topic; add one or leave retain out"
        need_that(bool(self.topic) or not self.retain, wrong)
        if self.url:
            security.check_url(self.url)


@dataclass(frozen=True)
class LogSection:
    """[log]: how much is written to standard error, in which form, and how often which inputs matter."""

    level: str = "info"
    format: str = "json"
    inputs: float = 0.0  # seconds between two lines that tell which matter; 0 is never

    def __post_init__(self) -> None:
        checks.one_of("level", self.level, LEVELS)
        checks.one_of("format", self.format, ("json", "text"))
        checks.not_negative("inputs", self.inputs)


def need_that(good: bool, wrong: str) -> None:
    """Raise InputError unless a setting is good."""
    if not good:
        raise InputError(wrong)


def _check_login(user: str | None, password: str | None, file: str | None) -> None:
    wrong = "password and password_file are both given; expected one; leave one out"
    need_that(password is None or file is None, wrong)
    wrong = "a password is given without user; expected both; add user"
    need_that(bool(user) or (password is None and file is None), wrong)


def distinct(key: str, names: Sequence[str]) -> None:
    """Refuse a name that is there twice."""
    for i, name in enumerate(names):
        need_that(name not in names[:i], f"{key} has {name!r} twice; expected each once; leave one out")


def _check_bounds(low_name: str, low: float, high_name: str, high: float) -> None:
    wrong = (
        f"{low_name} is {low} and {high_name} is {high}; expected finite numbers, the low one lower; fix them"
    )
    need_that(low < high and math.isfinite(high - low), wrong)


def secret_of(section: StreamSection | TransportSection) -> str | None:
    """The password, from the section or the first line of its file."""
    if section.password_file is None:
        return section.password
    try:
        lines = Path(section.password_file).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not text"
        raise InputError(
            f"password_file {section.password_file} cannot be read: {reason}; expected a file with the "
            "password in its first line; write one"
        ) from None
    return lines[0] if lines else ""
