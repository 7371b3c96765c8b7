from __future__ import annotations

import dataclasses
import pathlib
import re
import shutil
import subprocess

import pytest

from domkl.agent import config
from domkl.agent.config import AgentConfig
from domkl.agent.making import make
from domkl.agent.transports.base import TransportSettings
from domkl.base import toml
from domkl.base.errors import DataError, InputError
from domkl.learning.first_order import Rates

DEPLOY = pathlib.Path(__file__).parent.parent / "deploy"
LEAST = 'network = "net"\nname = "a"\ninputs = 2\n'
RATES = "[rates]\nhorizon = 100\n"
needs_checkout = pytest.mark.skipif(not DEPLOY.is_dir(), reason="not a checkout")


def load(tmp_path, text=LEAST + RATES, **environ):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return config.load(path, environ)


def test_the_least_a_file_must_say(tmp_path):
    found = load(tmp_path)
    assert (found.network, found.name, found.inputs, found.neighbours) == ("net", "a", 2, ())
    assert (found.payload, found.rounds.mode, found.checkpoint.directory) == ("float64", "sync", None)
    assert found.http.address is None
    assert found.rates.rates() == Rates.paper(100)
    assert found.stream.kind == "stdin"


def test_rates_are_numbers_or_come_from_a_horizon(tmp_path):
    assert load(tmp_path, LEAST + "[rates]\nrho = 1\neta = 2\neta_g = 3").rates.rates() == Rates(1, 2, 3)
    found = load(tmp_path, LEAST + "[rates]\nhorizon = 100\nkappa = 0.5\neta_g = 3")
    assert found.rates.rates() == Rates(5, 5, 3)


AUTO = '[auto]\nlearners = ["a", "b"]\ndiameter = 1\n'


def test_preset_auto_needs_the_network_and_no_rates(tmp_path):
    found = load(
        tmp_path, 'preset = "auto"\nneighbours = ["b"]\n' + LEAST + AUTO + "[stream]\nmissing = true"
    )
    assert (found.auto.learners, found.auto.diameter, found.auto.size) == (("a", "b"), 1, 1700)
    _, learner = make(found)
    assert learner.shapes.losses == 17
    assert sum(learner.shapes.theta) <= 1700 - 17 + 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LEAST + AUTO + RATES, r"\[auto\] is given with preset own; expected none of its settings; leave"),
        ('preset = "auto"\n' + LEAST + AUTO + RATES, r"\[rates\] is given with preset auto"),
        ('preset = "auto"\n' + LEAST + AUTO + "[kernels]\nD = 3", r"\[kernels\] is given with preset auto"),
        ('preset = "auto"\n' + LEAST + AUTO + "[learning]\nstep = 'newton'", r"\[learning\] is given with"),
        ('preset = "auto"\n' + LEAST + AUTO + "[learning]\nloss = 'huber'", "loss is 'huber'"),
        ('preset = "auto"\n' + LEAST + AUTO + "[rounds]\nmode = 'async'", "mode is async with preset auto"),
        ('preset = "auto"\n' + LEAST, r"\[auto\] learners has no 'a'; expected all of the network"),
        ('preset = "auto"\n' + LEAST + AUTO.replace("diameter = 1", ""), r"\[auto\] diameter is not given"),
        ('preset = "auto"\n' + LEAST + AUTO.replace("= 1", "= 0"), "diameter is 0"),
        ('preset = "aut"\n' + LEAST + RATES, "preset is 'aut'; .*did you mean 'auto'"),
        (LEAST + RATES + "[stream]\nmissing = true", r"\[stream\] missing is true with preset own"),
    ],
)
def test_what_does_not_go_with_a_preset_is_refused(tmp_path, text, message):
    with pytest.raises(InputError, match=message) as error:
        load(tmp_path, text)
    assert "\n" not in str(error.value)


def test_an_empty_list_is_fine_where_the_default_is_empty(tmp_path):
    found = load(tmp_path, f"neighbours = []\n{LEAST}{RATES}[stream]\ncolumns = []")
    assert (found.neighbours, found.stream.columns) == ((), ())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (RATES, "mine.toml has no network; expected str; add it"),
        ('network = "net"\nname = "a"\n' + RATES, "mine.toml has no inputs; expected int"),
        (LEAST, r"mine.toml: \[rates\] rho, eta, eta_g and horizon are not given; expected .*; add horizon"),
        (LEAST + "[rates]\nrho = 1\neta = 1", r"\[rates\] eta_g and horizon are not given"),
        (LEAST + "[rates]\nhorizon = 0", r"mine.toml \[rates\]: horizon is 0"),
        (LEAST + RATES + "kappa = -1", r"mine.toml \[rates\]: kappa is -1"),
        ('nmae = "a"\n' + LEAST + RATES, "mine.toml key is 'nmae'; .*did you mean 'name'"),
        ("network = [", "mine.toml cannot be read: .*; expected an agent's TOML configuration"),
        ("rounds = 5\n" + LEAST + RATES, r"mine.toml rounds is 5; expected a section in \[brackets\]"),
        (LEAST + RATES + "[round]\nmode = 'sync'", "mine.toml section is 'round'; .*did you mean 'rounds'"),
        (LEAST + RATES + "[stream]\nfollow = 1", r"mine.toml \[stream\] follow is 1; expected bool"),
        (LEAST + RATES + "[stream]\nlow = 'a'", r"\[stream\] low is 'a'; expected a list of float; mend"),
        (LEAST + RATES + "[kernels]\nsigma2 = []", r"mine.toml \[kernels\] sigma2 is \[\]; expected a list"),
        (LEAST + RATES + "[kernels]\nfamily = 'x'", r"mine.toml \[kernels\]: kernels.family is 'x'"),
        (LEAST + RATES + "[learning]\nloss = 'x'", r"mine.toml \[learning\]: loss is 'x'"),
    ],
)
def test_bad_files_are_refused_with_file_section_and_key(tmp_path, text, message):
    with pytest.raises((InputError, DataError), match=message) as error:
        load(tmp_path, text)
    assert "\n" not in str(error.value)


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
        ("inputs = 0\n", "inputs is 0"),
        ('payload = "int8"\n', "payload is 'int8'; expected one of float64, float32, float16"),
    ],
)
def test_bad_names_and_numbers_are_refused(tmp_path, head, message):
    key = head.split(" ")[0]
    rest = "".join(line + "\n" for line in LEAST.splitlines() if not line.startswith(f"{key} "))
    with pytest.raises(InputError, match=f"mine.toml: {message}"):
        load(tmp_path, head + rest + RATES)


@pytest.mark.parametrize(
    ("section", "lines", "message"),
    [
        ("stream", "kind = 'tcp'", "kind is 'tcp'; expected one of stdin, csv, jsonl, topic"),
        ("stream", "kind = 'csv'", "path is not given and kind is csv; .*; add path"),
        ("stream", "path = 'a.csv'", "path is given and kind is stdin; .*; leave path out"),
        ("stream", "kind = 'topic'", "topic is not given and kind is topic"),
        ("stream", "topic = 'domkl/n/s/x'", "topic is given and kind is stdin"),
        ("stream", "kind = 'topic'\ntopic = 'domkl/n/+/x'", "topic is 'domkl/n/./x'; expected domkl/"),
        ("stream", "follow = true", "follow is true and kind is stdin"),
        ("stream", "columns = ['u', 'u']", "columns has 'u' twice"),
        ("stream", "kind = 'csv'\npath = 'a'\ncolumns = ['y', 'u']", "columns has 'y', the target"),
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
        ("learning", "step = 'newten'", "step is 'newten'.*did you mean 'newton'"),
        ("learning", "memory = 9", "memory is for step='newton'"),
        ("learning", "step = 'newton'\nmemory = 0", "memory is 0; expected a finite number above 0"),
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
    with pytest.raises(InputError, match=rf"^mine.toml \[{section}\]: {message}") as error:
        load(tmp_path, f"{LEAST}{RATES}[{section}]\n{lines}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("columns = ['u']", r"\[stream\] columns has 1 items; expected inputs = 2"),
        ("low = [0, 0, 0]\nhigh = [1, 1, 1]", r"\[stream\] low has 3 items; expected inputs = 2"),
        ("journal = true", r"\[stream\] journal is true without a \[checkpoint\] directory"),
    ],
)
def test_sections_must_agree(tmp_path, lines, message):
    with pytest.raises(InputError, match=f"^mine.toml: {message}"):
        load(tmp_path, f"{LEAST}{RATES}[stream]\n{lines}")


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
    found = load(tmp_path, LEAST + RATES + text)
    assert found.stream.path == str(tmp_path / "data/x.csv")
    assert found.transport.ca == str(tmp_path / "ca.pem")
    assert found.transport.cert == "/etc/a.pem"
    assert found.checkpoint.directory == str(tmp_path / "state")
    assert found.output.predictions == "-"
    nowhere = load(tmp_path, LEAST + RATES, DOMKL_OUTPUT_PREDICTIONS="")
    assert nowhere.output.predictions == ""
    assert load(tmp_path, DOMKL_OUTPUT_PREDICTIONS="out").output.predictions == str(tmp_path / "out")


def test_the_environment_goes_before_the_file(tmp_path):
    found = load(
        tmp_path,
        LEAST + RATES + "[transport]\nbroker = 'here:1'\n[checkpoint]\ndirectory = 'x'",
        DOMKL_NAME="jfk",
        DOMKL_NEIGHBOURS="lga, ewr",
        DOMKL_INPUTS="3",
        DOMKL_TRANSPORT_KIND="mqtt",
        DOMKL_TRANSPORT_BROKER="host:1883",
        DOMKL_KERNELS_D="7",
        DOMKL_KERNELS_SIGMA2="0.1,1",
        DOMKL_STREAM_JOURNAL="False",
        DOMKL_CHECKPOINT_DIRECTORY="",
        DOMKL_DATA="/datasets",
        DOMKL_CACHE="/cache",
        HOME="/root",
    )
    assert (found.name, found.neighbours, found.inputs) == ("jfk", ("lga", "ewr"), 3)
    assert (found.transport.kind, found.transport.broker) == ("mqtt", "host:1883")
    assert (found.kernels.D, found.kernels.sigma2) == (7, (0.1, 1.0))
    assert (found.stream.journal, found.checkpoint.directory) == (False, None)
    assert load(tmp_path, 'neighbours = ["b"]\n' + LEAST + RATES, DOMKL_NEIGHBOURS="").neighbours == ()


def test_the_environment_can_be_all_there_is(tmp_path):
    found = load(tmp_path, "", DOMKL_NETWORK="n", DOMKL_NAME="a", DOMKL_INPUTS="1", DOMKL_RATES_HORIZON="9")
    assert found.rates.rates() == Rates(3, 3, 3)


def test_the_process_environment_is_the_default(tmp_path, monkeypatch):
    monkeypatch.setenv("DOMKL_NAME", "from-outside")
    (tmp_path / "mine.toml").write_text(LEAST + RATES)
    assert config.load(str(tmp_path / "mine.toml")).name == "from-outside"


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("DOMKL_INPUTS", "x", "the variable DOMKL_INPUTS is 'x'; expected int; mend the variable"),
        ("DOMKL_RATES_RHO", "", None),
        ("DOMKL_RATES_RHO", "x", "the variable DOMKL_RATES_RHO is 'x'; expected float"),
        ("DOMKL_RATES_RHO", "-1", r"mine.toml \[rates\] with DOMKL_RATES_RHO: rho is -1.0; expected"),
        ("DOMKL_STREAM_FOLLOW", "yes", "the variable DOMKL_STREAM_FOLLOW is 'yes'; expected bool"),
        ("DOMKL_STREAM_LOW", "0,x", "the variable DOMKL_STREAM_LOW is '0,x'; expected a list of float"),
        ("DOMKL_KERNELS_SIGMA2", "", r"the variable DOMKL_KERNELS_SIGMA2 is \[\]; expected a list with one"),
        ("DOMKL_NAME", "a b", "mine.toml with DOMKL_NAME: name is 'a b'"),
        ("DOMKL_TRANSPORT_BROKR", "x", "variable DOMKL_TRANSPORT_BROKR .*mean 'DOMKL_TRANSPORT_BROKER'"),
        ("DOMKL_HTTP_", "x", "the variable DOMKL_HTTP_ sets nothing"),
        ("DOMKL_UNKNOWN_THING", "x", None),
        ("DOMKL_STREAM", "x", None),
    ],
)
def test_errors_name_the_variable(tmp_path, variable, text, message):
    if message is None:
        assert load(tmp_path, **{variable: text}) == load(tmp_path)
        return
    with pytest.raises(InputError, match=message) as error:
        load(tmp_path, **{variable: text})
    assert "\n" not in str(error.value)


def test_the_transport_hears_neighbours_and_the_sensor(tmp_path):
    topic = "domkl/net/sensor-1/readings"
    text = f'neighbours = ["b"]\n{LEAST}{RATES}[stream]\nkind = "topic"\ntopic = "{topic}"\n'
    settings = load(tmp_path, text).transport_settings()
    assert isinstance(settings, TransportSettings)
    assert (settings.network, settings.name, settings.peers) == ("net", "a", ("b", "sensor-1"))


def test_the_section_has_every_setting_of_a_transport():
    ours, theirs = toml.fields_of(config.TransportSection), toml.fields_of(TransportSettings)
    assert {*ours} == {*theirs} - {"network", "name", "peers"}
    for name in {*ours} - {"kind"}:
        assert ours[name].default == theirs[name].default


def example(switched_on=False):
    text = (DEPLOY / "agent.toml").read_text()
    return re.sub(r"(?m)^#(?=[a-zA-Z])", "", text) if switched_on else text


def written(text):
    """(section, key) of every setting in a file, "#key = ..." too."""
    section = ""
    for line in text.splitlines():
        if found := re.match(r"\[(\w+)\]", line):
            section = found[1]
        elif found := re.match(r"#?(\w+) = ", line):
            yield section, found[1]


@needs_checkout
def test_the_example_is_right():
    found = config.load(DEPLOY / "agent.toml", {})
    assert found.name == "jfk"
    assert found.kernels.draw(found.inputs).shape == (4, 50, 3)


@needs_checkout
def test_the_example_has_every_setting_once():
    parts = toml.sections_of(AgentConfig)
    known = [(section, key) for section, part in parts.items() for key in toml.fields_of(part)]
    known += [("", key) for key in toml.fields_of(AgentConfig) if key not in parts]
    assert sorted(written(example())) == sorted(known)


@needs_checkout
def test_what_the_example_leaves_out_is_written_as_it_is_without():
    table = toml._toml("agent").loads(example(switched_on=True))
    shown = {
        **dict.fromkeys(("rho", "eta", "eta_g", "path", "topic", "ca", "cert", "key", "directory")),
        **dict.fromkeys(("delta", "reg", "memory", "diameter", "coverage")),  # which depend on others
        "learners": (),
        "connect": (),
        "listen": "",
    }
    off = set(written("\n".join(line for line in example().splitlines() if line.startswith(("#", "[")))))
    for section, part in toml.sections_of(AgentConfig).items():
        for key, field in toml.fields_of(part).items():
            value = table[section][key]
            toml.check_type(key, value, field)
            if (section, key) in off:
                assert field.default == shown.get(key, value)


@needs_checkout
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_takes_the_units(tmp_path):
    for unit in (*DEPLOY.glob("*.service"), *DEPLOY.glob("*.timer")):
        text = unit.read_text().replace("/opt/domkl/bin/domkl", "/bin/true")
        (tmp_path / unit.name.replace("@", "@jfk")).write_text(text)
        (tmp_path / unit.name).write_text(text)
    units = sorted(str(path) for path in tmp_path.glob("*@jfk.*"))
    assert len(units) == 3
    done = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False)
    assert [line for line in done.stderr.splitlines() if "domkl" in line or str(tmp_path) in line] == []
    if done.returncode:
        pytest.skip(f"systemd-analyze does not work here: {done.stderr.strip()}")


@needs_checkout
def test_the_unit_is_what_its_remarks_say():
    text = (DEPLOY / "domkl-agent@.service").read_text()
    for line in (
        "Type=exec",
        "Restart=on-failure",
        "KillSignal=SIGTERM",
        "User=domkl",
        "ProtectSystem=strict",
    ):
        assert f"\n{line}\n" in text
    assert "\nWatchdogSec" not in text
    for key in re.findall(r"DOMKL_([A-Z_]+)=", text):
        section, _, name = key.lower().partition("_")
        assert name in toml.fields_of(toml.sections_of(AgentConfig)[section])


@needs_checkout
def test_the_image_runs_as_nobody_special_and_looks_after_itself():
    text = (DEPLOY / "Dockerfile").read_text()
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    said = [line.split(" ", 1) for line in lines if line and not line.startswith("#")]
    last = dict(said)
    assert {word for word, _ in said} <= {
        *("FROM", "RUN", "COPY", "USER", "WORKDIR", "VOLUME", "ENV", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK"),
        *("ENTRYPOINT", "CMD"),
    }
    assert (last["USER"], last["FROM"], last["STOPSIGNAL"]) == ("domkl", "python:3.12-slim", "SIGTERM")
    code = re.search(r'"-c", "(.*)"\]', last["HEALTHCHECK"])[1]
    assert "/healthz" in code
    compile(code, "HEALTHCHECK", "exec")
    variables = dict(re.findall(r"(DOMKL_\w+)=(\S+)", last["ENV"]))
    config.load(DEPLOY / "agent.toml", variables)


@needs_checkout
def test_the_image_gets_what_a_build_needs_and_no_more():
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    let_in = {line[1:] for line in lines if line.startswith("!")}
    assert "*" in lines
    assert let_in == {"CMakeLists.txt", "LICENSE", "README.md", "pyproject.toml", "src"}


def test_settings_are_frozen(tmp_path):
    found = load(tmp_path)
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.name = "b"
