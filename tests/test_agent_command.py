"""`domkl agent`: its help, and what --check prints."""

from __future__ import annotations

import json
from importlib import resources

import pytest

from domkl import cli
from domkl.agent import making

TEXT = """
network = "net"
name = "a"
neighbours = ["b"]
[transport]
kind = "memory"
[columns]
features = ["u", "v"]
[model]
size = 64
"""


class Made:
    """A learner, as far as --check looks at it."""

    fingerprint = "0123456789abcdef"


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setattr(making, "make", lambda given: (given, Made()))
    path = tmp_path / "a.toml"
    path.write_text(TEXT)
    return path


def test_help_shows_the_example_which_has_every_setting(capsys):
    with pytest.raises(SystemExit):
        cli.main(["agent", "--help"])
    said = capsys.readouterr().out
    assert cli.main(["agent", "--example"]) == 0
    example = capsys.readouterr().out
    assert said.endswith(example)
    assert example == resources.files("domkl.agent").joinpath("agent.toml").read_text(encoding="utf-8")


def test_a_missing_file_is_asked_for(capsys):
    assert cli.main(["agent"]) == 2
    assert "no CONFIG is given; expected a TOML file; make some with domkl init" in capsys.readouterr().err


def test_check_prints_what_was_understood(file, capsys):
    assert cli.main(["agent", str(file), "--check"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "a of net: the configuration is right"
    assert lines[1].split() == ["section", "settings"]
    said = " ".join(" ".join(lines[3:]).split())
    assert said.startswith('network = "net", name = "a", neighbours = ["b"], inputs = 2, payload = "float64"')
    assert (
        'dtype = "float32" [model] kind = "auto", size = 64, loss = "squared", seed = 0, start = 0.0' in said
    )
    assert '[rounds] mode = "async", deadline = 5.0, start = 30.0, resend = 0.5' in said
    assert lines[-1] == "fingerprint 0123456789abcdef: the same at every learner"


def test_check_has_one_json_document(file, capsys, monkeypatch):
    monkeypatch.setenv("DOMKL_MODEL_KIND", "paper")
    monkeypatch.setenv("DOMKL_MODEL_RATES_HORIZON", "9")
    file.write_text(TEXT.replace("size = 64", ""))
    assert cli.main(["agent", str(file), "--check", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["name"], said["inputs"], said["dtype"]) == ("a", 2, "float64")
    assert said["model"]["kind"] == "paper"
    assert said["model"]["rates"] == {"kappa": 1.0, "kappa_g": 1.0, "horizon": 9}
    assert said["columns"] == {"features": ["u", "v"]}
    assert said["fingerprint"] == Made.fingerprint


def test_json_without_check_is_refused(file, capsys):
    assert cli.main(["agent", str(file), "--json"]) == 2
    assert "--json is given without --check; expected both" in capsys.readouterr().err


def test_a_bad_file_is_one_line_and_exit_code_2(file, capsys):
    file.write_text(TEXT + "sise = 3")
    assert cli.main(["agent", str(file), "--check"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    message = (
        "domkl: a.toml [model] key is 'sise'; expected one of kind, size, loss, seed, start, forgetting, "
        "outliers, bounds; "
    )
    assert said.err == message + "did you mean 'size'?\n"
