"""An agent's settings: a TOML file, environment variables over it, all checked before anything runs.

Each section of the file is a class that checks itself; `AgentConfig` checks what they mean together.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import re
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from ..base import checks, toml
from ..base.checks import need
from ..base.secret import Secret, first_line, plain
from ..datasets import readers
from ..datasets.columns import Columns
from ..datasets.encoder import Encoder
from ..datasets.readers import queries
from ..exchange.message import PAYLOADS
from ..learning import alarms, conformal
from ..learning.horizon import Horizon, horizon
from ..models import settings
from ..models.settings import Auto, ModelSettings, Paper
from ..watch import Access
from ..watch.feed import LEVELS as PUBLISHED
from .homeassistant import PREFIX, Device
from .transports import security
from .transports.base import KINDS as TRANSPORTS
from .transports.base import TransportSettings
from .transports.names import (
    CHANNELS,
    MOST_NAMES,
    OPERATOR,
    ROOT,
    STATE,
    check_filter,
    check_name,
    is_topic,
    local_address,
    matches,
    may_be_ours,
    sender_of,
)

#: Sources that are read again after a restart: files of lines, and tables that are read as a whole.
LINES, TABLES = ("csv", "jsonl"), ("parquet", "database")
STORED = (*LINES, *TABLES)
STREAMS = ("stdin", *STORED, "topic")
#: A column that every message of a topic has: when it arrived, in seconds since 1970.
ARRIVAL = "arrival"
#: The other one: which topic it came on.
TOPIC = "topic"
#: The column to predict, where none is named.
TARGET = "y"
#: Seconds that the value of a topic counts, where values are joined.
WITHIN = 60.0
LOG_LEVELS = ("debug", "info", "warning", "error")
#: Bytes of one row, or of a message that is one.
LONGEST_ROW = 2**20


def setting(default: Any, check: Callable[[str, Any], object] | None = None, file: str = "") -> Any:
    """A key of a section: its default, what refuses a value that cannot be, and what its file is, if it
    names one: "read", "written" or "secret"."""
    return field(default=default, metadata={"check": check, "file": file})


def chosen_from(*allowed: str) -> Callable[[str, Any], object]:
    """Refuses what is none of these words."""
    return functools.partial(_one_of, allowed)


def _one_of(allowed: Sequence[str], key: str, value: str) -> None:
    checks.one_of(key, value, allowed)


def _filter(key: str, value: str) -> None:
    check_filter(value, key)


def _topic(key: str, value: str) -> None:
    check_filter(value, key, exact=True)


def _addresses(key: str, value: str | Sequence[str]) -> None:
    for address in [value] if isinstance(value, str) else value:
        security.parse(address, key)


class Section:
    """What all sections share: each key is checked by itself, then the section as a whole."""

    def __post_init__(self) -> None:
        for each in dataclasses.fields(self):  # type: ignore[arg-type]
            key, value, check = each.name, getattr(self, each.name), each.metadata.get("check")
            if key in ("password", "token") and value is not None:
                object.__setattr__(self, key, Secret(value))
            if check is not None and value != each.default:
                check(key, value)
        self.check()

    def check(self) -> None:
        """Refuse keys that do not go together."""

    def only_with(self, key: str, other: str, found: object = None) -> None:
        """Refuse a key that is about another one which is not given."""
        value = getattr(self, key)
        fact = f"{key} is {'true' if value is True else 'given'} without {other}"
        is_there = getattr(self, other) if found is None else found
        need(bool(is_there) or value in (None, "", (), False), f"{fact}; expected both; leave {key} out")

    def not_both(self, one: str, other: str) -> None:
        """Refuse two keys that say the same in two ways."""
        is_given = [getattr(self, key) not in (None, "", ()) for key in (one, other)]
        need(not all(is_given), f"{one} and {other} are both given; expected one of them; leave one out")


def settings_of(section: Any) -> Iterator[tuple[str, Any, Mapping[str, Any]]]:
    """Each key of a section, its value, and what `setting` says of it."""
    for each in dataclasses.fields(section):
        yield each.name, getattr(section, each.name), each.metadata


@dataclass(frozen=True)
class Handed(Section):
    """[model] path: a file of hand_over(), DOMKL.save() or `domkl run`, the same at every learner."""

    takes_raw: ClassVar[bool] = True
    has_rates: ClassVar[bool] = False
    predicts_log_odds: ClassVar[bool] = False

    path: str = field(metadata={"file": "read"})

    def check(self) -> None:
        need(bool(self.path), "path is ''; expected a taught model; name its file or leave path out")


class Login(Section):
    """A section that may name a user of a broker."""

    user: str | None
    password: Secret | None
    password_file: str | None

    def check_login(self) -> None:
        self.not_both("password", "password_file")
        wrong = "a password is given without user; expected both; add user"
        need(bool(self.user) or (self.password is None and self.password_file is None), wrong)

    def secret(self) -> Secret | None:
        """The password, from the section or the first line of its file."""
        if self.password_file is None:
            return self.password
        expected = "the password in its first line; write one"
        return first_line(f"password_file {self.password_file}", self.password_file, expected)


@dataclass(frozen=True)
class StreamSection(Login):
    """[stream]: where readings come from, and the fixed public bounds that scale them."""

    kind: str = setting("", chosen_from(*STREAMS))  # that of the path or the topic, where left out
    path: str | Secret | None = field(
        default=None, metadata={"file": "read"}
    )  # a file, sqlite:FILE or postgresql://...
    query: str = ""  # of a database
    follow: bool = False
    topic: str | None = setting(None, _filter)  # one reading a message
    topics: tuple[str, ...] = ()  # joined by time into one reading
    trigger: str | None = setting(None, _filter)
    within: float | None = setting(None, checks.positive)
    broker: str | None = setting(None, _addresses)
    user: str | None = None
    password: Secret | None = None
    password_file: str | None = setting(None, file="secret")
    ca: str | None = setting(None, file="read")
    insecure: bool = False
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    target_low: float | None = None
    target_high: float | None = None
    horizon: str = setting("", lambda _, value: horizon(value))  # "1h", "1h..24h", "30min,6h", "24 rows"
    labels: str = setting(
        "id", chosen_from("id", "time")
    )  # by what a label that comes later names its reading
    label_topic: str | None = setting(None, _filter)  # of messages that are such labels
    journal: bool = False
    dead_letters: str | None = setting(None, file="written")  # refused rows; None beside the checkpoints

    def check(self) -> None:
        object.__setattr__(self, "kind", self.kind or self._kind())
        if self.path is not None:
            object.__setattr__(self, "path", queries.address(self.path))
        self._goes_with("path", self.kind in STORED, "kind is csv, jsonl, parquet or database")
        wrong = f"path is {self.shown}, which is gzipped; expected a file that lines are added to; gunzip it"
        need(self.kind not in LINES or not self.shown.lower().endswith(".gz"), wrong)
        key = "topics" if self.topics else "topic"
        self._goes_with(key, self.kind == "topic", "kind is topic")
        wrong = f"follow is true and kind is {self.kind}; expected a file or a database; leave follow out"
        need(not self.follow or self.kind in STORED, wrong)
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
        path = self.path or ""
        return queries.name_of(path) if queries.is_database(path) else path

    @property
    def patterns(self) -> tuple[str, ...]:
        """The topics to read, which may have wildcards."""
        return tuple(filter(None, (*self.topics, self.topic, self.label_topic)))

    def _kind(self) -> str:
        """The kind of source that the other keys tell."""
        if self.topic or self.topics:
            return "topic"
        if self.path is None:
            return "stdin"
        path = plain(self.path)
        if readers.is_stored(path):
            return "database" if queries.is_database(path) else "parquet"
        return "jsonl" if readers.is_json(path) else "csv"

    def _goes_with(self, key: str, wanted: bool, when: str) -> None:
        """A key that is needed in one case and has no meaning in the others."""
        fact, remedy = ("not given", f"add {key}") if wanted else ("given", f"leave {key} out")
        wrong = f"{key} is {fact} and kind is {self.kind}; expected {key} if {when}, else not; {remedy}"
        need(wanted == bool(getattr(self, key)), wrong)

    def _check_database(self) -> None:
        is_database = queries.is_database(plain(self.path or ""))
        found = "a database" if is_database else "no database"
        wrong = f"kind is {self.kind} and path is {found}; expected kind to say what path is; leave kind out"
        need(is_database == (self.kind == "database"), wrong)
        wrong = "query is given and path is no database; expected one; leave query out"
        need(is_database or not self.query, wrong)
        if is_database:
            queries.name_of(self.path or "")  # refuses an address that would show its password

    def _check_topics(self) -> None:
        self.not_both("topic", "topics")
        for topic in self.patterns:
            check_filter(topic, "topic")
            wrong = f"topic is {topic!r}; expected {ROOT}/<network>/<sender>/<channel>; write it in full"
            need(not may_be_ours(topic) or is_topic(topic) or bool(self.broker), wrong)
        distinct("topics", self.topics)
        self.only_with("within", "topics")
        self.only_with("trigger", "topics")
        self.only_with("label_topic", "topic", self.kind == "topic")
        for topic in filter(None, (self.topic, *self.topics)):
            wrong = f"label_topic has all of {topic!r}, which are readings; expected one of labels; fix it"
            need(not self.label_topic or not matches(self.label_topic, topic), wrong)
        wrong = f"labels is time and kind is {self.kind}, in order of time; expected id; fix it"
        need(self.labels == "id" or self.kind not in TABLES, wrong)
        wrong = "labels is time with topics, whose last values are joined; expected label_topic; add it"
        need(self.labels == "id" or not self.topics or self.label_topic is not None, wrong)

    def _check_broker(self) -> None:
        given = [key for key in ("user", "password", "password_file", "ca") if getattr(self, key) is not None]
        remedy = "write it into path, or ~/.pgpass" if self.kind == "database" else "add broker"
        wrong = f"{' and '.join(given)} given without broker; expected them together; {remedy}"
        need(self.broker is not None or not given, wrong)
        self.only_with("insecure", "broker")
        self.check_login()

    def _check_bounds(self) -> None:
        counts = len(self.low), len(self.high)
        wrong = "low has {} numbers and high {}; expected as many; give each input both bounds"
        need(counts[0] == counts[1], wrong.format(*counts))
        for i, (low, high) in enumerate(zip(self.low, self.high, strict=True)):
            _refuse_bounds(f"low[{i}]", low, f"high[{i}]", high)
        wrong = "only one of target_low and target_high is given; expected both or neither; add the other"
        need((self.target_low is None) == (self.target_high is None), wrong)
        if self.target_low is not None and self.target_high is not None:
            _refuse_bounds("target_low", self.target_low, "target_high", self.target_high)

    def check_inputs(self, inputs: int) -> None:
        """Refuse bounds that are not of as many inputs as x has."""
        for key in ("low", "high"):
            found = len(getattr(self, key))
            wrong = f"[stream] {key} has {found} items; expected as many as inputs, {inputs}; fix one of them"
            need(found in (0, inputs), wrong)


@dataclass(frozen=True)
class TransportSection(Login):
    """[transport]: how updates travel; the network's and the learner's name are the file's own."""

    kind: str = setting(
        "", chosen_from(*TRANSPORTS)
    )  # what the other keys tell, where left out: see `chosen`
    listen: tuple[str, ...] = setting((), _addresses)
    connect: tuple[str, ...] = setting((), _addresses)
    announce: tuple[str, ...] = setting((), _addresses)
    discover: str = setting("", chosen_from("", "lan"))
    broker: str = setting(TransportSettings.broker, _addresses)
    user: str | None = None
    password: Secret | None = None
    password_file: str | None = setting(None, file="secret")
    ca: str | None = setting(None, file="read")
    cert: str | None = setting(None, file="read")
    key: str | None = setting(None, file="secret")
    revoked: str | None = setting(None, file="read")
    insecure: bool = False
    max_bytes: int = setting(TransportSettings.max_bytes, checks.count)
    inbox: int = setting(TransportSettings.inbox, checks.count)

    def check(self) -> None:
        self.check_login()
        missing = [key for key in ("ca", "cert", "key") if getattr(self, key) is None]
        wrong = " and ".join(missing) + " not given; expected ca, cert and key together or none; add the rest"
        need(len(missing) in (0, 3) or (bool(self.user) and missing == ["cert", "key"]), wrong)
        self.only_with("revoked", "ca", not missing)

    def chosen(self, is_alone: bool) -> str:
        """The kind: a learner alone needs none, others speak Zenoh unless something of a broker is given."""
        if self.kind:
            return self.kind
        if self.user or self.broker != TransportSettings.broker:
            return "mqtt"
        is_zenoh = not is_alone or self.listen or self.connect or self.discover
        return "zenoh" if is_zenoh else "memory"


@dataclass(frozen=True)
class RoundSection(Section):
    """[rounds]: when a round is over. Times are in seconds.

    With mode "async" nobody waits for anybody; with "sync" a round waits for the neighbours' updates, as the
    simulator's do. Without one, only the paper's model goes in step.
    """

    mode: str = setting("", chosen_from("sync", "async"))
    deadline: float = setting(5.0, checks.positive)
    start: float = setting(30.0, checks.not_negative)
    resend: float = setting(0.5, checks.positive)

    def suited(self, model: type[Any]) -> RoundSection:
        """The same with the mode of that kind of model, where none is given."""
        chosen = self.mode or ("sync" if issubclass(model, Paper) else "async")
        return dataclasses.replace(self, mode=chosen)


@dataclass(frozen=True)
class CheckpointSection(Section):
    """[checkpoint]: where and how often the learner is saved; "" is never, see also `_with_directory`."""

    directory: str | None = setting(None, file="read")
    every_rounds: int = setting(100, checks.count)
    every_seconds: float = setting(30.0, checks.positive)
    sync: bool = True


@dataclass(frozen=True)
class OutputSection(Section):
    """[output]: where predictions go ("-" is standard output, "" nowhere), and what is said with them."""

    predictions: str = setting("-", file="written")
    topic: str = setting("", _topic)
    retain: bool = False
    url: str | Secret = ""
    coverage: float | None = setting(None, lambda _, value: conformal.check_coverage(value))
    alarm_rate: float | None = setting(None, lambda _, value: alarms.check_rate(value))  # of false alarms
    home_assistant: bool = False
    discovery_prefix: str = setting(PREFIX, _topic)
    unit: str = ""
    device_class: str = ""

    def check(self) -> None:
        prefix = f"discovery_prefix is {self.discovery_prefix!r}"
        need(
            not may_be_ours(self.discovery_prefix), f"{prefix}, where learners talk; expected another; fix it"
        )
        wrong = f"device_class is {self.device_class!r}; expected one of Home Assistant's; fix it"
        need(re.fullmatch("[a-z0-9_]{0,64}", self.device_class) is not None, wrong)
        self.only_with("device_class", "home_assistant")
        wrong = f"unit has {len(self.unit)} characters; expected at most 32; shorten it"
        need(len(self.unit) <= 32, wrong)
        self.only_with("retain", "topic")
        if self.url:
            security.check_url(self.url)
            object.__setattr__(self, "url", Secret.address(self.url))


@dataclass(frozen=True)
class LogSection(Section):
    """[log]: how much is written to standard error, in which form, and how often which inputs matter."""

    level: str = setting("info", chosen_from(*LOG_LEVELS))
    format: str = setting("json", chosen_from("json", "text"))
    inputs: float = setting(0.0, checks.not_negative)  # seconds between two lines that tell which; 0 is never


def distinct(key: str, names: Sequence[str]) -> None:
    """Refuse a name that is there twice."""
    for i, name in enumerate(names):
        need(name not in names[:i], f"{key} has {name!r} twice; expected each once; leave one out")


def _refuse_bounds(low_name: str, low: float, high_name: str, high: float) -> None:
    wrong = (
        f"{low_name} is {low} and {high_name} is {high}; expected finite numbers, the low one lower; fix them"
    )
    need(low < high and math.isfinite(high - low), wrong)


@dataclass(frozen=True)
class HttpSection(Section):
    """[http]: where the live page, health and metrics are served; "" is nowhere.

    `publish` is what they tell: "full", "errors" (no readings and predictions) or "counts" (no errors and
    weights either). Other machines see the page only with the token, or with `tls` and a certificate of the
    [transport]'s CA.
    """

    listen: str = setting("", _addresses)
    allow_remote: bool = False
    publish: str = setting("full", chosen_from(*PUBLISHED))
    token: Secret | None = None
    token_file: str | None = setting(None, file="secret")
    hosts: tuple[str, ...] = ()  # further names of this machine that browsers may use
    tls: bool = False  # HTTPS with the certificate in [transport]

    def check(self) -> None:
        wrong = (
            f"listen is {self.listen!r}, which other machines reach; expected a loopback address; "
            "choose 127.0.0.1, or set allow_remote = true"
        )
        need(not self.listen or self.allow_remote or security.is_local(self.listen), wrong)
        self.not_both("token", "token_file")
        object.__setattr__(self, "token", Access(self.token).token)  # which refuses a short one

    @property
    def address(self) -> tuple[str, int] | None:
        """Host and port, None where nothing is served."""
        return security.parse(self.listen, "listen") if self.listen else None

    def check_tls(self, transport: TransportSection) -> None:
        wrong = (
            "[http] tls is true and [transport] has no ca, cert and key; expected them; make them with: "
            "domkl certs DIRECTORY NAME"
        )
        need(not self.tls or transport.cert is not None, wrong)

    def access(self) -> Access:
        token: str | None = self.token
        if self.token_file is not None:
            remedy = "make one with: python -c 'import secrets; print(secrets.token_urlsafe())'"
            what, expected = f"[http] token_file {self.token_file}", f"the token; {remedy}"
            token = Secret(plain(first_line(what, self.token_file, expected, "ascii")).strip())
        _, port = self.address or ("", 0)
        return Access(token, security.is_local(self.listen), self.hosts, f"domkl-{port}")

    def context(self, transport: TransportSection) -> ssl.SSLContext | None:
        """For HTTPS: our certificate, and those of the same CA are asked for but not needed."""
        if not self.tls:
            return None
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.minimum_version = ssl.TLSVersion.TLSv1_2
        made.load_cert_chain(str(transport.cert), transport.key)
        made.load_verify_locations(transport.ca)
        made.verify_mode = ssl.CERT_OPTIONAL
        return made


#: What stands where a file may be named, and is none.
NO_FILE = (None, "", "-", security.SYSTEM)
#: The network of learners whose files name none.
NETWORK = "domkl"


@dataclass(frozen=True)
class AgentConfig:
    """A whole agent's file; `inputs` is 0 where only a model's file or the first rows tell it."""

    network: str
    name: str
    neighbours: tuple[str, ...] = ()
    inputs: int = 0
    payload: str = "float64"
    dtype: str | None = None  # by default the model's `precision`
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
        if self.taught is None:  # else the file tells
            object.__setattr__(self, "rounds", self.rounds.suited(type(self.model)))
        self._check_model()
        self._check_topics()
        wrong = "[stream] journal is true without a [checkpoint] directory; expected a place for it; add one"
        need(not self.stream.journal or self.checkpoint.directory is not None, wrong)
        self.http.check_tls(self.transport)

    @property
    def horizon(self) -> Horizon | None:
        """How far ahead it forecasts; None where it predicts what belongs to the inputs."""
        return horizon(self.stream.horizon) if self.stream.horizon else None

    @property
    def taught(self) -> str | None:
        """The file of a model that was taught before, where [model] names one."""
        return getattr(self.model, "path", None)

    def _check_names(self) -> None:
        check_name(self.network, "network")
        check_name(self.name, "name")
        for name in self.neighbours:
            check_name(name, "neighbours")
        wrong = f"neighbours has {len(self.neighbours)} names; expected at most {MOST_NAMES}; leave some out"
        need(len(self.neighbours) <= MOST_NAMES, wrong)
        distinct("neighbours", self.neighbours)
        wrong = f"a learner is called {OPERATOR!r}, as only who directs them is; rename it"
        need(OPERATOR not in (self.name, *self.neighbours), wrong)
        wrong = f"neighbours has {self.name!r}, the learner itself; expected others; leave it out"
        need(self.name not in self.neighbours, wrong)

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
        need(columns.missing != "mean", wrong)
        wrong = "[columns] records is given, of whole documents only; expected lines; leave records out"
        need(not columns.records, wrong)
        if columns.features and not (is_file and not self.inputs):  # kinds in a file are looked at first
            found = Encoder(columns).d
            wrong = f"[columns] makes {found} inputs; expected inputs = {self.inputs}; leave inputs out"
            need(self.inputs in (0, found), wrong)
            object.__setattr__(self, "inputs", found)
        wrong = (
            "inputs is not given; expected how many numbers x has; add inputs, or [columns] with target and "
            "features"
        )
        need(self.inputs > 0 or self.taught is not None or is_file, wrong)
        if self.inputs:
            self.stream.check_inputs(self.inputs)

    def _check_model(self) -> None:
        """Refuse what does not go with the model."""
        model, stream = self.model, self.stream
        for key in ("low", "high", "target_low", "target_high"):
            wrong = f"[stream] {key} is given with [model] path, whose file has the scale; leave {key} out"
            need(self.taught is None or getattr(stream, key) in ((), None), wrong)
        wrong = '[columns] labels is given with [model] loss squared; expected classes; set loss = "logistic"'
        need(not self.columns.labels or getattr(model, "loss", "logistic") == "logistic", wrong)
        wrong = "[columns] known is given; expected labels as rows with an id or a time; leave known out"
        need(not self.columns.known, wrong)
        classifies = self.taught is None and model.loss_function.classifies  # type: ignore[union-attr]
        wrong = "[output] alarm_rate is given and the model learns classes; expected numbers; leave it out"
        need(self.output.alarm_rate is None or not classifies, wrong)
        if model.has_rates:
            model.rates_at(0)  # type: ignore[union-attr]  # refuses rates that only the stream's length would tell
        if stream.horizon:
            wrong = (
                "[stream] horizon is given with [model] {}; expected kind auto of numbers; leave horizon out"
            )
            kind = "path" if self.taught else getattr(model, "kind", "auto")
            need(kind == "auto" and not classifies, wrong.format(kind if kind != "auto" else "loss logistic"))
            wrong = "[stream] horizon is given with labels or label_topic; which are readings; leave them out"
            need(stream.labels == "id" and stream.label_topic is None, wrong)
            wrong = "[stream] horizon is given with [rounds] mode sync; expected async; leave mode out"
            need(self.rounds.mode != "sync", wrong)
            wrong = "[stream] horizon is given with [output] alarm_rate; expected one of them; leave one out"
            need(self.output.alarm_rate is None, wrong)
        wrong = "[rounds] mode is async with [model] hedge messages; expected another hedge; choose local"
        need(self.rounds.mode != "async" or getattr(model, "hedge", "") != "messages", wrong)

    def _check_topics(self) -> None:
        """Refuse topics without a place where they are, or that Zenoh does not know."""
        stream, kind = self.stream, self.transport.chosen(not self.neighbours)
        used = [*stream.patterns, *filter(None, [self.output.topic])]
        is_nowhere = not stream.broker and not self.transport.kind and kind == "memory"
        wrong = (
            'a topic is given and no broker; expected where it is; add [stream] broker = "127.0.0.1:1883", '
            "or [transport] connect for a key of Zenoh"
        )
        need(not used or not is_nowhere, wrong)
        for topic in used if kind == "zenoh" and not stream.broker else []:
            wrong = f"topic {topic!r} begins with a slash; a key of Zenoh does not; leave the slash out"
            need(not topic.startswith("/"), wrong)
        wrong = f"[output] topic is the network's own; expected {self._own}prediction, or no {ROOT}/; fix it"
        out, own = self.output.topic, self.output.topic.removeprefix(self._own)
        is_free = own != self.output.topic and is_topic(out) and own.split("/")[0] not in (*CHANNELS, STATE)
        need(not may_be_ours(out) or is_free, wrong)
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
                need(not matches(pattern, topic), wrong)

    def _fill_topic(self) -> None:
        """Home Assistant reads predictions from a topic of a broker, so there must be one."""
        if not self.output.home_assistant:
            return
        wrong = (
            "[output] home_assistant is true and there is no MQTT broker; expected one that Home Assistant "
            'reads; add [stream] broker = "127.0.0.1:1883"'
        )
        has_broker = self.stream.broker or self.transport.chosen(not self.neighbours) == "mqtt"
        need(bool(has_broker), wrong)
        topic = self.output.topic or f"{self._own}prediction"
        object.__setattr__(self, "output", dataclasses.replace(self.output, topic=topic))

    @property
    def device(self) -> Device:
        """What Home Assistant is told about this learner."""
        out, is_guest = self.output, bool(self.stream.broker)
        state = f"{out.topic}/state" if is_guest else f"{self._own}{STATE}"
        about = out.topic, state, is_guest, out.unit, out.device_class, out.discovery_prefix
        return Device(self.network, self.name, self.target, *about, bool(self.stream.horizon))

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
        return self.columns.target or TARGET

    @property
    def takes_missing(self) -> bool:
        """Whether inputs may be missing."""
        return self.columns.missing == "auto" and self.model.takes_raw

    def dtype_for(self, model: ModelSettings | type[ModelSettings]) -> str:
        """The precision to compute in; `model` is what the file holds where [model] has a path."""
        return self.dtype or model.precision

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
        given |= {"kind": section.chosen(not self.neighbours), "password": section.secret()}
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
        login = {"user": stream.user, "password": stream.secret()}
        about = {"broker": stream.broker, "ca": stream.ca, "insecure": stream.insecure}
        limits = {"topics": self._foreign(all_of_them=True), "is_guest": True, "max_bytes": LONGEST_ROW}
        limits["will"] = self.device.state if self.output.home_assistant else ""
        return TransportSettings("mqtt", self.network, self.name, **login, **about, **limits)  # type: ignore[arg-type]

    def _foreign(self, all_of_them: bool = False) -> tuple[str, ...]:
        """Topics of the stream and for predictions, other than those of learners."""
        used = [*self.stream.patterns, *filter(None, [self.output.topic])]
        used += self.device.topics if self.output.home_assistant else ()
        return tuple(dict.fromkeys(each for each in used if all_of_them or not is_topic(each)))

    # Files that it names

    def _files(self) -> Iterator[tuple[str, str, str, str]]:
        """Every file that is named: in which section and key, which, and what it is."""
        for name, section in vars(self).items():
            for key, value, about in settings_of(section) if dataclasses.is_dataclass(section) else ():
                if about.get("file") and value not in NO_FILE:
                    yield name, key, value, about["file"]

    def _with_absolute_paths(self, folder: Path) -> AgentConfig:
        """The same settings with absolute paths; relative ones start from `folder`."""
        changed: dict[str, Any] = {}
        for name, key, path, _ in self._files():
            section = changed.get(name, getattr(self, name))
            changed[name] = dataclasses.replace(section, **{key: queries.anchored(path, folder)})
        return dataclasses.replace(self, **changed)

    def _check_files(self, where: str) -> None:
        """Refuse to write what is read: that would empty it, or be read again for ever."""
        found, written = dict[str, str](), list[str]()
        for section, key, given, what in self._files():
            path = os.path.realpath(queries.file_of(given))  # without links on the way to it
            if os.path.isfile(path) or not os.path.exists(path):  # /dev/null may be named twice
                found[f"[{section}] {key}"] = path
                written += [f"[{section}] {key}"] if what == "written" else []
        for one in written:
            for other, path in found.items():
                wrong = (
                    f"{where}: {one} and {other} are one file, which would be lost; expected two; choose "
                    f"another for {one}"
                )
                need(other == one or path != found[one], wrong)

    def secret_files(self, file: str) -> Iterator[str]:
        """Every file with a secret that it names, and its own `file` if that holds one."""
        sections = (self.stream, self.transport, self.http, self.output)
        if any(isinstance(value, Secret) for section in sections for value in vars(section).values()):
            yield file
        yield from (path for _, _, path, what in self._files() if what == "secret")


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
    config = toml.section(AgentConfig, plain, where, **parts)._with_absolute_paths(file.absolute().parent)
    config._check_files(where)
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
    columns = {name: key for name, key in sections["columns"].items() if name != "also"}  # of one target
    return top, sections | {"columns": columns, "model": {"kind": toml.Key((str,)), **sections["model"]}}


def _section(name: str, table: toml.Toml, where: str) -> Any:
    if name == "columns":
        columns = Columns.from_table(table, where)
        need(not columns.also, f"{where} also has names; expected one target of an agent; leave them out")
        return columns
    if name != "model":
        kinds = {each.name: each.default_factory for each in dataclasses.fields(AgentConfig)}
        return toml.section(kinds[name], table, where)  # type: ignore[arg-type]
    if "path" not in table:
        return settings.from_table(table, where)
    others = ", ".join(key for key in table if key != "path")
    need(not others, f"{where} has path and {others}; expected path alone; leave {others} out")
    return toml.section(Handed, table, where)
