"""Environment variables go before an agent's file."""

from __future__ import annotations

import pytest

from domkl.agent import config
from domkl.base.errors import InputError
from domkl.learning.first_order import Rates
from domkl.models.settings import Auto, KernelSpec, Paper, RateSpec

LEAST = 'network = "net"\nname = "a"\ninputs = 2\n'
PAPER = '[model]\nkind = "paper"\n[model.rates]\nhorizon = 100\n'


def load(tmp_path, text=LEAST, **environ):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return config.load(path, environ)


def test_the_environment_goes_before_the_file(tmp_path):
    found = load(
        tmp_path,
        LEAST + "[transport]\nbroker = 'here:1'\n[checkpoint]\ndirectory = 'x'",
        DOMKL_NAME="jfk",
        DOMKL_NEIGHBOURS="lga, ewr",
        DOMKL_INPUTS="3",
        DOMKL_DTYPE="float64",
        DOMKL_TRANSPORT_KIND="mqtt",
        DOMKL_TRANSPORT_BROKER="host:1883",
        DOMKL_STREAM_JOURNAL="False",
        DOMKL_STREAM_LOW="0,1,2",
        DOMKL_STREAM_HIGH="1, 2.5, 3",
        DOMKL_CHECKPOINT_DIRECTORY="",
        DOMKL_DATA="/datasets",
        DOMKL_CACHE="/cache",
        HOME="/root",
    )
    assert (found.name, found.neighbours, found.inputs, found.dtype) == ("jfk", ("lga", "ewr"), 3, "float64")
    assert (found.transport.kind, found.transport.broker) == ("mqtt", "host:1883")
    assert (found.stream.low, found.stream.high) == ((0, 1, 2), (1, 2.5, 3))
    assert (found.stream.journal, found.checkpoint.directory) == (False, None)
    assert load(tmp_path, 'neighbours = ["b"]\n' + LEAST, DOMKL_NEIGHBOURS="").neighbours == ()


def test_a_model_can_come_from_variables(tmp_path):
    found = load(tmp_path, DOMKL_MODEL_SIZE="400", DOMKL_MODEL_FORGETTING="none", DOMKL_MODEL_LOSS="logistic")
    assert found.model == Auto(size=400, forgetting="none", loss="logistic")
    assert load(tmp_path, DOMKL_MODEL_FORGETTING="none").model == Auto(forgetting="none")
    assert load(tmp_path, DOMKL_MODEL_PATH="x").model == config.Handed(str(tmp_path / "x"))
    kernels = {"DOMKL_MODEL_KERNELS_D": "7", "DOMKL_MODEL_KERNELS_SIGMA2": "0.1,1"}
    rates = {"DOMKL_MODEL_RATES_KAPPA": "2", "DOMKL_MODEL_RATES_HORIZON": "9"}
    found = load(tmp_path, LEAST, DOMKL_MODEL_KIND="paper", **kernels, **rates)
    assert found.model == Paper(KernelSpec(D=7, sigma2=(0.1, 1)), RateSpec(kappa=2, horizon=9))


def test_a_variable_changes_one_key_of_a_nested_section(tmp_path):
    found = load(tmp_path, LEAST + PAPER + "eta_g = 3", DOMKL_MODEL_RATES_HORIZON="4")
    assert found.model.rates_at(0) == Rates(2, 2, 3)
    assert load(tmp_path, LEAST + PAPER + "eta_g = 3", DOMKL_MODEL_RATES_ETA_G="").model.rates_at(0) == Rates(
        10, 10, 10
    )


def test_the_environment_can_be_all_there_is(tmp_path):
    found = load(
        tmp_path, "", DOMKL_NETWORK="n", DOMKL_NAME="a", DOMKL_COLUMNS_FEATURES="u,v", DOMKL_MODEL_SEED="9"
    )
    assert (found.network, found.inputs, found.model) == ("n", 2, Auto(seed=9))


def test_the_process_environment_is_the_default(tmp_path, monkeypatch):
    monkeypatch.setenv("DOMKL_NAME", "from-outside")
    (tmp_path / "mine.toml").write_text(LEAST)
    assert config.load(str(tmp_path / "mine.toml")).name == "from-outside"


@pytest.mark.parametrize(
    ("variable", "text"),
    [("DOMKL_DTYPE", ""), ("DOMKL_OUTPUT_COVERAGE", ""), ("DOMKL_UNKNOWN_THING", "x"), ("DOMKL_STREAM", "x")],
)
def test_some_variables_change_nothing(tmp_path, variable, text):
    assert load(tmp_path, **{variable: text}) == load(tmp_path)


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("DOMKL_INPUTS", "x", "the variable DOMKL_INPUTS is 'x'; expected int; fix the variable"),
        ("DOMKL_INPUTS", "", "the variable DOMKL_INPUTS is ''; expected int; fix the variable"),
        ("DOMKL_MODEL_START", "x", "the variable DOMKL_MODEL_START is 'x'; expected float"),
        ("DOMKL_MODEL_RATES_RHO", "x", "the variable DOMKL_MODEL_RATES_RHO is 'x'; expected float"),
        ("DOMKL_MODEL_SIZE", "3", r"^DOMKL_MODEL_SIZE over mine.toml \[model\]: size is 3; expected"),
        (
            "DOMKL_MODEL_STEP",
            "first",
            r"^DOMKL_MODEL_STEP over mine.toml \[model\] key is 'step'; expected one",
        ),
        (
            "DOMKL_MODEL_KIND",
            "own",
            r"^DOMKL_MODEL_KIND over mine.toml \[model\] kind is 'own'; expected one",
        ),
        ("DOMKL_STREAM_FOLLOW", "yes", "the variable DOMKL_STREAM_FOLLOW is 'yes'; expected bool"),
        ("DOMKL_STREAM_LOW", "0,x", r"the variable DOMKL_STREAM_LOW is \[0, 'x'\]; expected a list of float"),
        (
            "DOMKL_MODEL_KERNELS_SIGMA2",
            "",
            r"DOMKL_MODEL_KERNELS_SIGMA2 is \[\]; expected a list with one float",
        ),
        ("DOMKL_NAME", "a b", "^DOMKL_NAME over mine.toml: name is 'a b'"),
        ("DOMKL_TRANSPORT_BROKR", "x", "variable DOMKL_TRANSPORT_BROKR .*mean 'DOMKL_TRANSPORT_BROKER'"),
        ("DOMKL_MODEL_RATES_KAPA", "1", "variable DOMKL_MODEL_RATES_KAPA .*mean 'DOMKL_MODEL_RATES_KAPPA'"),
        ("DOMKL_HTTP_", "x", "the variable DOMKL_HTTP_ sets nothing"),
    ],
)
def test_errors_name_the_variable(tmp_path, variable, text, message):
    with pytest.raises(InputError, match=message) as error:
        load(tmp_path, **{variable: text})
    assert "\n" not in str(error.value)


def test_a_bad_rate_is_named_with_its_nested_section(tmp_path):
    message = r"^DOMKL_MODEL_RATES_KAPPA over mine.toml \[model.rates\]: kappa is -1"
    with pytest.raises(InputError, match=message):
        load(tmp_path, LEAST + PAPER, DOMKL_MODEL_RATES_KAPPA="-1")


def test_a_variable_does_not_hide_a_file_that_is_wrong(tmp_path):
    with pytest.raises(InputError, match=r"\[model\] rates is 5; expected a section in \[brackets\]"):
        load(tmp_path, LEAST + "[model]\nkind = 'paper'\nrates = 5", DOMKL_MODEL_RATES_KAPPA="1")
    with pytest.raises(InputError, match=r"mine.toml rounds is 5; expected a section in \[brackets\]"):
        load(tmp_path, LEAST + "rounds = 5", DOMKL_ROUNDS_START="1")
