"""What deploy/ shows: an agent's file with every setting, systemd units, an image."""

from __future__ import annotations

import dataclasses
import functools
import importlib.resources
import pathlib
import re
import shutil
import subprocess

import pytest

from domkl.agent import config
from domkl.agent.config import AgentConfig
from domkl.base import toml
from domkl.models.settings import Auto, KernelSpec, Paper, RateSpec

DEPLOY = pathlib.Path(__file__).parent.parent / "deploy"
needs_checkout = pytest.mark.skipif(not DEPLOY.is_dir(), reason="not a checkout")
#: Examples of settings that are nothing without the file, or depend on others.
EXAMPLES = [
    *("model path", "model bounds", "model reg", "model delta", "model.kernels sigma2"),
    *("model.rates horizon", "model.rates rho", "model.rates eta", "model.rates eta_g"),
    *("stream query", "stream within", "stream horizon", "stream label_topic"),
    *("stream path", "stream topic", "stream low", "stream high", "stream target_low", "stream target_high"),
    *("transport connect", "transport announce", "transport ca", "transport cert", "transport key"),
    *("transport revoked", "checkpoint directory"),
    *(
        "log inputs",
        "stream dead_letters",
        "output coverage",
        "output unit",
        "output alarm_rate",
        "http token",
        "http token_file",
        "output device_class",
        "http listen",
        " inputs",
    ),
    *(
        f"columns {key}"
        for key in [
            "drop",
            "time",
            "learner",
            "labels",
            "positive",
            "na",
            "separator",
            "kinds",
            "categories",
            "paths",
        ]
    ),
    *("columns target", "columns decimal", "stream topics", "stream trigger"),
    *("stream broker", "stream user", "stream password", "stream password_file", "stream ca"),
    *("transport kind", "transport listen", "transport discover", "transport user", "transport password"),
    *("transport password_file", "output topic", "output url"),
]
EXAMPLE_OF_AUTO = {" dtype": "float32", "model kind": "auto"}


def example():
    """The example that ships with the package."""
    return (importlib.resources.files("domkl.agent") / "agent.toml").read_text()


def written(text):
    """ "section key" of every setting in a file, "#key = ..." too."""
    section = ""
    for line in text.splitlines():
        if found := re.match(r"#?\[([\w.]+)\]", line):
            section = found[1]
        elif found := re.match(r"#?(\w+) = ", line):
            yield f"{section} {found[1]}"


def flat(keys, section=""):
    for name, key in keys.items():
        if isinstance(key, dict):
            yield from flat(key, f"{section}.{name}" if section else name)
        else:
            yield f"{section} {name}", key


def known():
    top, sections = config.keys()
    return dict(flat({**top, **sections}))


def defaults():
    """What each setting is without a file."""
    whole = AgentConfig("n", "a", inputs=1)
    parts = {"": whole, "model.kernels": KernelSpec(), "model.rates": RateSpec()}
    parts |= {name: getattr(whole, name) for name in config.keys()[1] if name != "model"}
    found = {
        f"{section} {name}": value for section, part in parts.items() for name, value in vars(part).items()
    }
    for part in (Paper(), Auto()):
        found |= {f"model {each.name}": getattr(part, each.name) for each in dataclasses.fields(part)}
    return {**found, **EXAMPLE_OF_AUTO}


@needs_checkout
def test_the_example_is_right():
    found = config.load(DEPLOY / "agent.toml", {})
    assert (found.name, found.model, found.inputs) == ("jfk", Auto(), 3)
    assert (DEPLOY / "agent.toml").read_text() == example()


@needs_checkout
def test_the_example_of_the_papers_learner_is_right(tmp_path):
    """Its comments, from "With kind" on, are settings that go together."""
    text = example().replace('#kind = "auto"', 'kind = "paper"')
    head, _, rest = text.partition('# With kind = "paper"')
    paper, _, rest = rest.partition("[columns]")
    on = re.sub(r"(?m)^#(?=[a-zA-Z\[])(?!memory|delta)", "", paper)
    (tmp_path / "agent.toml").write_text(f"{head}#{on}[columns]{rest}")
    model = config.load(tmp_path / "agent.toml", {}).model
    assert model.draw(3).shape == (4, 50, 3)
    assert model.rates_at(0).rho == 50


@needs_checkout
def test_the_files_in_the_page_on_agents_are_right(tmp_path):
    page = (DEPLOY.parent / "docs" / "agents.md").read_text()
    first, *others = re.findall(r"(?s)```toml\n(.*?)```", page)
    (tmp_path / "a.toml").write_text(first)
    found = config.load(tmp_path / "a.toml", {})
    assert (found.name, found.model, found.stream.kind) == ("a", Auto(size=400), "csv")
    assert found.columns.features == ("flow", "temp", "load")
    assert others
    for text in others:
        (tmp_path / "a.toml").write_text(text)
        config.load(tmp_path / "a.toml", {})


@needs_checkout
def test_the_example_has_every_setting_once():
    assert sorted(written(example())) == sorted(known())


@needs_checkout
def test_what_the_example_leaves_out_is_written_as_it_is_without(tmp_path):
    (tmp_path / "on.toml").write_text(re.sub(r"(?m)^#(?=[a-zA-Z\[])", "", example()))
    table = toml.read(tmp_path / "on.toml", "the example", "agent")
    off = {*written("\n".join(line for line in example().splitlines() if line.startswith(("#", "["))))}
    assert off >= {*EXAMPLES}
    for place, key in known().items():
        section, name = place.split(" ")
        inner = functools.reduce(dict.get, filter(None, section.split(".")), table)
        assert key.takes(inner[name]), place
        if place in off and place not in EXAMPLES:
            given = tuple(inner[name]) if isinstance(inner[name], list) else inner[name]
            assert given == defaults()[place], place


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
        assert name in config.keys()[1][section]


@needs_checkout
def test_the_image_runs_without_privileges_and_checks_its_health():
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
