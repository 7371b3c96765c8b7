"""An agent's file: what it may say, what is refused, and what variables change."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from domkl.agent import config
from domkl.agent.config import AgentConfig, Handed, HttpSection, OutputSection, StreamSection
from domkl.agent.transports.base import TransportSettings
from domkl.base import toml
from domkl.base.errors import DataError, InputError
from domkl.datasets.columns import Columns
from domkl.learning.first_order import Rates
from domkl.models.settings import Auto, KernelSpec, Paper, RateSpec

LEAST = 'network = "net"\nname = "a"\ninputs = 2\n'
RATES = "[model.rates]\nhorizon = 100\n"
PAPER = '[model]\nkind = "paper"\n' + RATES
PATH = '[model]\npath = "pump.model"\n'
UNSIZED = LEAST.replace("inputs = 2\n", "")


def load(tmp_path, text=LEAST, **environ):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return config.load(path, environ)


def refused(tmp_path, text, message, **environ):
    with pytest.raises((InputError, DataError), match=message) as error:
        load(tmp_path, text, **environ)
    assert "\n" not in str(error.value)


def test_the_least_a_file_must_say(tmp_path):
    found = load(tmp_path)
    assert found == AgentConfig(network="net", name="a", inputs=2)
    assert (found.neighbours, found.payload, found.model, found.stream.kind) == (
        (),
        "float64",
        Auto(),
        "stdin",
    )
    assert (found.rounds.mode, found.checkpoint.directory, found.http.address) == ("async", None, None)


def test_a_model_is_the_settings_object_of_python(tmp_path):
    text = (
        LEAST
        + '[model]\nkind = "auto"\nsize = 400\nloss = "logistic"\nseed = 3\nstart = 1\nforgetting = "none"'
    )
    assert load(tmp_path, text).model == Auto(size=400, loss="logistic", seed=3, start=1.0, forgetting="none")
    text = (
        LEAST
        + '[model]\nkind = "paper"\nloss = "huber"\nreg = 0.1\ndelta = 2\nhedge = "local"\nstep = "newton"'
    )
    text += "\n[model.kernels]\nD = 7\nsigma2 = [1, 2.5]\n[model.rates]\nhorizon = 100\neta_g = 3"
    paper = Paper(KernelSpec(D=7, sigma2=(1, 2.5)), RateSpec(horizon=100, eta_g=3), "huber", 0.1, 2, "local")
    assert load(tmp_path, text).model == dataclasses.replace(paper, step="newton")
    assert load(tmp_path, text).model.rates_at(0) == Rates(10, 10, 3)


def test_a_model_that_was_handed_over_is_a_path(tmp_path):
    found = load(tmp_path, UNSIZED + PATH + "[rounds]\nmode = 'async'")
    assert found.model == Handed(str(tmp_path / "pump.model"))
    assert found.inputs == 0
    assert dataclasses.replace(found, inputs=3).inputs == 3
    assert load(tmp_path, LEAST + "[model]\npath = '/models/x'").model == Handed("/models/x")


def test_columns_tell_the_number_of_inputs(tmp_path):
    assert load(tmp_path, UNSIZED + "[columns]\nfeatures = ['u', 'v', 'w']").inputs == 3
    assert load(tmp_path, UNSIZED + "[columns]\nfeatures = ['u']\nkinds = {u = 'clock'}").inputs == 2
    assert AgentConfig("net", "a", columns=Columns(features=("u",))).inputs == 1
    refused(tmp_path, UNSIZED, "mine.toml: inputs is not given; expected how many numbers x has; add inputs")
    refused(tmp_path, UNSIZED + "inputs = -1", "mine.toml: inputs is -1")


def test_the_kind_of_model_decides_the_precision(tmp_path):
    found = load(tmp_path)
    assert (found.dtype, found.dtype_for(Auto()), found.dtype_for(Paper())) == (None, "float32", "float64")
    given = load(tmp_path, LEAST + 'dtype = "float64"')
    assert (given.dtype_for(Auto()), given.dtype_for(Paper())) == ("float64", "float64")
    assert np.dtype(load(tmp_path, LEAST + 'dtype = "float32"').dtype_for(Paper())) == np.float32


@pytest.mark.parametrize(
    "text",
    [
        LEAST + "[rounds]\nmode = 'async'",
        LEAST + PAPER + "[rounds]\nmode = 'async'",
        LEAST + "[columns]\nmissing = 'error'",
        LEAST + "[columns]\ntime = 'when'",
        LEAST + "[stream]\ntopic = 'a/+/b'\nbroker = '127.0.0.1:1883'",
        LEAST + "[stream]\ntopic = 'a/#'\n[transport]\nlisten = ['127.0.0.1:7447']\n[output]\ntopic = 'p'",
        LEAST + PAPER + "[stream]\nlow = [0, 0]\nhigh = [1, 1]\ntarget_low = 0\ntarget_high = 2",
        LEAST + "[model]\nkind = 'paper'\n[model.rates]\nrho = 1\neta = 1\neta_g = 1",
        LEAST + "neighbours = []\n[columns]\nfeatures = []",
    ],
)
def test_what_goes_together(tmp_path, text):
    load(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (PATH + "size = 400", r"\[model\] has path and size; expected path alone; leave size out"),
        (PATH + "kind = 'auto'", r"\[model\] has path and kind; expected path alone"),
        (PATH + RATES, r"\[model\] has path and rates; expected path alone"),
        ("[model]\npath = ''", r"\[model\]: path is ''; expected a taught model"),
        ("[model]\npath = 3", r"\[model\] path is 3; expected str; fix the file"),
        (PATH + "[stream]\nlow = [0, 0]\nhigh = [1, 1]", r": \[stream\] low is given with \[model\] path"),
        (
            PATH + "[stream]\ntarget_low = 0\ntarget_high = 1",
            r": \[stream\] target_low is given with \[model\]",
        ),
        (
            "[model]\nkind = 'paper'",
            ": rates rho, eta, eta_g and horizon are not given and the stream's length",
        ),
        ("[model]\nkind = 'paper'\nrates = 3", r"\[model\] rates is 3; expected a section in \[brackets\]"),
        (
            "[model]\nkind = 'paper'\n[model.rates]\nrho = 1\neta = 1",
            ": rates eta_g and horizon are not given",
        ),
        (
            "[model]\nkind = 'paper'\nsize = 4\n" + RATES,
            r"\[model\] key is 'size'; expected one of kind, kernels",
        ),
        (
            "[model]\nkind = 'paper'\nhedge = 'messages'\n" + RATES + "[rounds]\nmode = 'async'",
            r": \[rounds\] mode is async with \[model\] hedge messages; expected another hedge",
        ),
        (RATES, r"\[model\] key is 'rates'; expected one of kind, size"),
        ("[model]\nkind = 'atuo'", r"\[model\] kind is 'atuo'; .*did you mean 'auto'"),
        ("[model]\nkin = 'auto'", r"\[model\] key is 'kin'; .*did you mean 'kind'"),
        ("[model]\nsize = 3", r"\[model\]: size is 3; expected a whole number from 16 to 20000"),
        ("[model]\nsize = true", r"\[model\] size is True; expected int; fix the file"),
        ("[model]\nforgetting = []", r"\[model\] forgetting is \[\]; expected str"),
        ("[model]\nloss = 'huber'", r"\[model\]: loss is 'huber'; expected one of squared, logistic"),
        (PAPER + "kappa = -1", r"\[model.rates\]: kappa is -1"),
        (
            PAPER + "[model.kernels]\nsigma2 = []",
            r"\[model.kernels\] sigma2 is \[\]; expected a list with one float",
        ),
        (PAPER + "[model.kernels]\nfamily = 'x'", r"\[model.kernels\]: kernels.family is 'x'"),
        (PAPER + "[model.kernel]\nD = 3", r"\[model\] key is 'kernel'; .*did you mean 'kernels'"),
    ],
)
def test_what_does_not_go_with_a_model_is_refused(tmp_path, text, message):
    refused(tmp_path, LEAST + text, rf"^mine.toml ?{message}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "mine.toml: inputs is not given; expected how many numbers x has"),
        ('nmae = "a"\n' + LEAST, "mine.toml key is 'nmae'; .*did you mean 'name'"),
        ('preset = "auto"\n' + LEAST, "mine.toml key is 'preset'; expected one of network, name"),
        ("network = [", "mine.toml cannot be read: .*; expected an agent's TOML configuration; fix the file"),
        ("rounds = 5\n" + LEAST, r"mine.toml rounds is 5; expected a section in \[brackets\]; fix the file"),
        (
            'model = "pump.model"\n' + LEAST,
            r"mine.toml model is 'pump.model'; expected a section in \[brackets\]",
        ),
        (LEAST + "[round]\nmode = 'sync'", "mine.toml section is 'round'; .*did you mean 'rounds'"),
        (LEAST + "[stream]\nfollow = 1", r"mine.toml \[stream\] follow is 1; expected bool; fix the file"),
        (LEAST + "[stream]\nlow = 'a'", r"\[stream\] low is 'a'; expected a list of float; fix the file"),
        (LEAST + "[stream]\nlow = [0, true]", r"\[stream\] low is \[0, True\]; expected a list of float"),
        (LEAST + "[checkpoint]\nevery_rounds = 1.5", r"every_rounds is 1.5; expected int; fix the file"),
    ],
)
def test_bad_files_are_refused_with_file_section_and_key(tmp_path, text, message):
    refused(tmp_path, text, message)


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ('name = "a b"\n', "name is 'a b'; expected 1 to 64 letters"),
        ('name = "../a"\n', "name is '../a'"),
        ('name = "operator"\n', "a learner is called 'operator'"),
        ('network = ""\n', "network is ''"),
        ('neighbours = ["b", "c/d"]\n', "neighbours is 'c/d'"),
        ('neighbours = ["b", "b"]\n', "neighbours has 'b' twice"),
        ('neighbours = ["b", "a"]\n', "neighbours has 'a', the learner itself"),
        ('payload = "int8"\n', "payload is 'int8'; expected one of float64, float32, float16"),
        ('dtype = "float16"\n', "dtype is 'float16'; expected one of float64, float32"),
    ],
)
def test_bad_names_and_numbers_are_refused(tmp_path, head, message):
    key = head.split(" ")[0]
    rest = "".join(line + "\n" for line in LEAST.splitlines() if not line.startswith(f"{key} "))
    refused(tmp_path, head + rest, f"mine.toml: {message}")


@pytest.mark.parametrize(
    ("section", "lines", "message"),
    [
        (
            "stream",
            "kind = 'tcp'",
            "kind is 'tcp'; expected one of stdin, csv, jsonl, parquet, .*, topic",
        ),
        ("stream", "kind = 'csv'", "path is not given and kind is csv; .*; add path"),
        ("stream", "kind = 'stdin'\npath = 'a.csv'", "path is given and kind is stdin; .*; leave path out"),
        ("stream", "path = 'a.csv.gz'", "path is .*a.csv.gz, which is gzipped; .*; gunzip it"),
        ("stream", "kind = 'topic'", "topic is not given and kind is topic"),
        ("stream", "kind = 'stdin'\ntopic = 'a/b'", "topic is given and kind is stdin"),
        ("stream", "topic = 'a'\ntopics = ['b']", "topic and topics are both given"),
        ("stream", "topics = ['a', 'a']", "topics has 'a' twice"),
        ("stream", "topic = 'a//b'", "topic is 'a//b'; expected levels between single slashes"),
        ("stream", "topic = 'a/b+/c'", "topic is 'a/b./c'; .*'.' for one whole level"),
        ("stream", "topic = 'a/#/c'", "topic is "),
        ("stream", "topic = '$SYS/x'", "topic is "),
        ("stream", "topic = '#'", "topic is '#'; expected domkl/<network>/<sender>/<channel>"),
        ("stream", "topic = 'a'\ntrigger = 'a'", "trigger is given without topics"),
        ("stream", "topics = ['a', 'b']\nwithin = 0", "within is 0"),
        ("stream", "topic = 'a'\nuser = 'u'", "user given without broker; expected them together"),
        ("stream", "path = 'a.csv'\ninsecure = true", "insecure is true without broker"),
        ("output", "device_class = 'power'", "device_class is given without home_assistant"),
        ("stream", "topic = 'a'\nbroker = 'b:1'\npassword = 'p'", "a password is given without user"),
        (
            "stream",
            "topic = 'a'\nbroker = 'b:1'\nuser = 'u'\npassword = 'p'\npassword_file = 'f'",
            "password and password_file are both given",
        ),
        ("output", "topic = 'a/+'", "topic is 'a/.'; .*no wildcards"),
        ("output", "retain = true", "retain is true without topic"),
        ("output", "url = 'ftp://a/b'", "url is ftp://a/.*; expected https://"),
        ("output", "url = 'http://example.org/x'", "url is .*http:// on this machine"),
        ("output", "url = 'https://u:p@example.org/x'", "url is .*without a name and password"),
        ("output", "url = 'https://a b/'", "url is "),
        ("transport", "discover = 'wan'", "discover is 'wan'"),
        ("stream", "kind = 'topic'\ntopic = 'domkl/n/+/x'", "topic is 'domkl/n/./x'; expected domkl/"),
        ("stream", "follow = true", "follow is true and kind is stdin"),
        ("columns", "features = ['u', 'u']", r"features \['u', 'u'\] repeat a name"),
        ("columns", "features = ['t', 'u']\ntarget = 't'", r"features \['t', 'u'\] repeat a name"),
        ("stream", "low = [0, 0]", "low has 2 numbers and high 0"),
        ("stream", "low = [0, 1]\nhigh = [1, 1]", r"low\[1\] is 1 and high\[1\] is 1; .*the low one lower"),
        ("stream", "low = [0, nan]\nhigh = [1, 1]", r"low\[1\] is nan"),
        ("stream", "low = [0, -1e308]\nhigh = [1, 1e308]", r"low\[1\] is -1e\+308"),
        ("stream", "target_low = 0", "only one of target_low and target_high"),
        ("stream", "target_low = 0\ntarget_high = -1", "target_low is 0 and target_high is -1"),
        ("transport", "kind = 'udp'", "kind is 'udp'; expected one of memory, zenoh, mqtt"),
        ("transport", "listen = ['7447']", "listen is '7447'; expected host:port"),
        ("transport", "connect = ['::1:7447']", "connect is '::1:7447'"),
        ("transport", "broker = 'host:70000'", "broker is 'host:70000'"),
        ("transport", "ca = 'ca.pem'", "cert and key not given; expected ca, cert and key together or none"),
        ("transport", "max_bytes = 0", "max_bytes is 0"),
        ("transport", "inbox = 0", "inbox is 0"),
        ("rounds", "mode = 'slow'", "mode is 'slow'"),
        ("rounds", "deadline = 0", "deadline is 0"),
        ("rounds", "deadline = inf", "deadline is inf"),
        ("rounds", "start = -1", "start is -1"),
        ("rounds", "resend = 0", "resend is 0"),
        ("checkpoint", "every_rounds = 0", "every_rounds is 0"),
        ("checkpoint", "every_seconds = 0", "every_seconds is 0"),
        ("http", "listen = '9464'", "listen is '9464'; expected host:port"),
        ("http", "listen = '0.0.0.0:9464'", "listen is '0.0.0.0:9464', which other machines reach"),
        ("http", "listen = 'jfk.example:9464'", ".* other machines reach; .*set allow_remote = true"),
        ("output", "coverage = 1.5", "coverage is 1.5"),
        ("log", "level = 'loud'", "level is 'loud'"),
        ("log", "format = 'xml'", "format is 'xml'"),
    ],
)
def test_bad_sections_are_refused(tmp_path, section, lines, message):
    refused(tmp_path, f"{LEAST}[{section}]\n{lines}", rf"^mine.toml \[{section}\]: {message}")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("[columns]\nfeatures = ['u']", r"\[columns\] makes 1 inputs; expected inputs = 2"),
        ("[columns]\nmissing = 'mean'", r"\[columns\] missing is mean, of whole tables only"),
        ("[columns]\nlabels = ['a', 'b']", r"\[columns\] labels is given with \[model\] loss squared"),
        ("low = [0, 0, 0]\nhigh = [1, 1, 1]", r"\[stream\] low has 3 items; expected as many as inputs, 2"),
        ("topic = 'a/b'", r"a topic is given and no broker; expected where it is; add \[stream\] broker"),
        ("[output]\ntopic = 'a/b'", "a topic is given and no broker"),
        ("topic = '/a'\n[transport]\nkind = 'zenoh'", "topic '/a' begins with a slash"),
        (
            "[output]\ntopic = 'domkl/net/b/theta'\n[transport]\nkind = 'zenoh'",
            r"\[output\] topic is the network's own",
        ),
        ("journal = true", r"\[stream\] journal is true without a \[checkpoint\] directory"),
    ],
)
def test_sections_must_agree(tmp_path, lines, message):
    refused(tmp_path, f"{LEAST}{'' if lines[0] == '[' else '[stream]'}\n{lines}", f"^mine.toml: {message}")


@pytest.mark.parametrize(
    ("lines", "other"),
    [
        ("[stream]\npath = 'a.csv'\n[output]\npredictions = 'b/../a.csv'", r"\[stream\] path"),
        ("[stream]\npath = 'sqlite:a.db'\n[output]\npredictions = 'a.db'", r"\[stream\] path"),
        ("[model]\npath = 'a.domkl'\n[output]\npredictions = 'link'", r"\[model\] path"),
        ("[stream]\npath = 'a.csv'\nfollow = true\ndead_letters = 'a.csv'", r"\[stream\] path"),
    ],
)
def test_no_file_is_both_read_and_written(tmp_path, lines, other):
    """The first predictions would empty the readings, or a taught model."""
    (tmp_path / "link").symlink_to(tmp_path / "a.domkl")
    refused(tmp_path, f"{LEAST}{lines}", rf"and {other} are one file, which would be lost; .*; choose")


def test_nowhere_may_be_named_twice_and_paths_have_no_zero_byte(tmp_path):
    load(tmp_path, f"{LEAST}[stream]\ndead_letters = '/dev/null'\n[output]\npredictions = '/dev/null'")
    refused(tmp_path, f'{LEAST}[stream]\npath = "a\\u0000b"', r"\[stream\] path has a zero byte")


@pytest.mark.parametrize(
    ("listen", "address"),
    [
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:9464", ("::1", 9464)),
        ("localhost:80", ("localhost", 80)),
    ],
)
def test_loopback_needs_no_leave(listen, address):
    assert config.HttpSection(listen).address == address


def test_other_addresses_need_leave():
    assert config.HttpSection("0.0.0.0:1", allow_remote=True).address == ("0.0.0.0", 1)


def test_paths_are_relative_to_the_file(tmp_path):
    text = """
[stream]
kind = "csv"
path = "data/x.csv"
[transport]
ca = "ca.pem"
cert = "/etc/a.pem"
key = "a.key"
[checkpoint]
directory = "state"
"""
    found = load(tmp_path, LEAST + text)
    assert found.stream.path == str(tmp_path / "data/x.csv")
    assert found.transport.ca == str(tmp_path / "ca.pem")
    assert found.transport.cert == "/etc/a.pem"
    assert found.checkpoint.directory == str(tmp_path / "state")
    assert found.output.predictions == "-"
    assert load(tmp_path, DOMKL_OUTPUT_PREDICTIONS="").output.predictions == ""
    assert load(tmp_path, DOMKL_OUTPUT_PREDICTIONS="out").output.predictions == str(tmp_path / "out")


def test_the_transport_receives_from_neighbours_and_the_sensor(tmp_path):
    topic = "domkl/net/sensor-1/readings"
    text = f'neighbours = ["b"]\n{LEAST}[stream]\nkind = "topic"\ntopic = "{topic}"\n'
    settings = load(tmp_path, text).transport_settings()
    assert isinstance(settings, TransportSettings)
    assert (settings.network, settings.name, settings.peers) == ("net", "a", ("b", "sensor-1"))


def test_the_section_has_every_setting_of_a_transport():
    ours, theirs = (
        {each.name: each.default for each in dataclasses.fields(kind)}
        for kind in (config.TransportSection, TransportSettings)
    )
    others = {"network", "name", "peers", "topics", "is_guest", "will"}
    assert {*ours} - {"password_file"} == {*theirs} - others
    assert all(ours[name] == theirs[name] for name in {*ours} - {"kind", "password_file"})


def test_settings_are_frozen(tmp_path):
    with pytest.raises(dataclasses.FrozenInstanceError):
        load(tmp_path).name = "b"


def test_every_key_of_a_model_is_known_with_its_variable():
    top, sections = config.keys()
    assert {*top} == {"network", "name", "neighbours", "inputs", "payload", "dtype"}
    assert {*sections["model"]} >= {"kind", "path", "size", "loss", "step", "kernels", "rates"}
    assert sections["model"]["rates"]["horizon"] == toml.Key((int, type(None)))


@pytest.mark.parametrize(
    ("topic", "output"),
    [("home/#", "home/forecast"), ("home/+", "home/forecast"), ("home/forecast", "home/forecast")],
)
def test_an_agent_does_not_read_what_it_writes(topic, output):
    stream = StreamSection(topic=topic, broker="127.0.0.1:1")
    columns = Columns(target="y", features=("x",))
    with pytest.raises(InputError, match=r"home/forecast.* that .output. writes"):
        AgentConfig("net", "a", columns=columns, stream=stream, output=OutputSection(topic=output))
    spared = OutputSection(topic="forecast/home", home_assistant=True)
    if topic != "home/forecast":
        stream = StreamSection(topic=f"forecast/{topic.removeprefix('home/')}", broker="127.0.0.1:1")
        with pytest.raises(InputError, match="writes"):
            AgentConfig("net", "a", columns=columns, stream=stream, output=spared)


def test_no_secret_is_shown():
    http = HttpSection(listen="127.0.0.1:0", token="secret-" * 4)
    output = OutputSection(url="https://example.org/in?key=secret")
    shown = AgentConfig("net", "a", inputs=1, http=http, output=output)
    assert "secret" not in f"{vars(shown.http)}{vars(shown.output)}{http!r}"
    assert str(shown.output.url) == "https://example.org/***"
    for wrong in ("https://u:secret@example.org/x", "ftp://example.org/?key=secret"):
        with pytest.raises(InputError) as caught:
            OutputSection(url=wrong)
        assert "secret" not in str(caught.value)
    with pytest.raises(InputError) as caught:
        StreamSection(topic="a", broker="u:secret@127.0.0.1:1883")
    assert "secret" not in str(caught.value)
