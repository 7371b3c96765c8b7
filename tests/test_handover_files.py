"""Files of handed models: what they hold, which are refused, and how agents use them."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import networkx as nx
import numpy as np
import pytest

import domkl
from domkl.agent import AgentConfig
from domkl.agent.config import Handed, OutputSection
from domkl.agent.making import make
from domkl.base.errors import DataError, InputError
from domkl.cli import main
from domkl.datasets import Columns, read_table
from domkl.faces.saved import About
from domkl.learner import files, handed, schema
from taught import MODELS, NAMES, D, read_back, rows, samples, taught, taught_in_river

pytest.importorskip("domkl.river")

VERSION = schema.VERSIONS["model"]


# What is in them


@pytest.mark.parametrize("kind", MODELS)
def test_the_file_holds_no_sample(tmp_path, kind):
    taught_in_river(kind, T=200).hand_over(tmp_path / "a.model")
    X, _ = samples(200)
    _, arrays = files.parsed((tmp_path / "a.model").read_bytes())
    held = {value for array in arrays.values() for value in np.ravel(array).tolist()}
    assert sum(all(value in held for value in x) for x in X.tolist()) == 0
    assert not any(
        np.any(array) for name, array in arrays.items() if ".memory." in name and name[-2:] in (".X", ".Y")
    )


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_comes_back_to_the_last_bit(tmp_path, kind):
    before = taught(kind, 100)
    handed.write(tmp_path / "a.model", before)
    after = handed.read(tmp_path / "a.model")
    one, other = ({}, {})
    about = [schema.flatten(each.state(), "", into) for each, into in ((before, one), (after, other))]
    assert about[0] == about[1]
    assert one.keys() == other.keys()
    for name, array in one.items():
        assert array.tobytes() == other[name].tobytes()


def test_an_input_that_never_had_a_value_can_be_handed_over(tmp_path):
    model = taught_in_river("auto", T=64)
    for x, label in zip(rows(samples(40)[0]), samples(40)[1], strict=True):
        model.learn_one({**x, "new": None}, label)
    assert "new" in read_back(model, tmp_path).names


# Saved models


def saved(folder, columns, J=1):
    """A model of rows with a word, as `domkl run` saves one."""
    rows = [{"wind": "NS"[i % 2], "h": i % 7, "power": i % 7 + 5 * (i % 2)} for i in range(100)]
    table = read_table(rows, columns)
    model = domkl.DOMKL(nx.complete_graph(J), model=domkl.Auto(size=50))
    for x, y in zip(table.X, table.y, strict=True):
        model.learn([x] * J, [y] * J)
    model.about = About(table.feature_names, table.target, columns=table.columns)
    model.save(folder / f"{J}.domkl")
    return folder / f"{J}.domkl"


def test_an_agent_begins_with_a_saved_model_and_its_columns(tmp_path, capsys):
    path = saved(tmp_path, Columns(target="power"))
    (tmp_path / "new.csv").write_text("h;power;wind\n" + "".join(f"{i},5;{i + 5},5;S\n" for i in range(6)))
    (tmp_path / "a.toml").write_text('model.path = "1.domkl"\nstream.path = "new.csv"\n')
    assert main(["agent", str(tmp_path / "a.toml")]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["y"] for record in records] == [5.5, 6.5, 7.5, 8.5, 9.5, 10.5]
    assert abs(records[0]["y_hat"] - 5.5) < 1  # before it has seen any label
    other = AgentConfig("net", "a", model=Handed(str(path)), columns=Columns(target="h"))
    with pytest.raises(InputError, match=r"\[columns\] target differs from what .* leave target out"):
        make(other)
    with pytest.raises(InputError, match="holds 2 learners; expected a model of one"):
        make(AgentConfig("net", "a", model=Handed(str(saved(tmp_path, Columns(target="power"), 2)))))


@pytest.mark.parametrize("place", ["/dev/zero", "pipe", "."])
def test_an_agent_does_not_wait_for_a_model_that_never_ends(tmp_path, place):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match=r"not a regular file; expected a taught model; fix \[model\] path"):
        make(AgentConfig("net", "a", model=Handed(str(tmp_path / place))))


@pytest.mark.parametrize("kind", MODELS)
def test_alarms_are_for_numbers(tmp_path, kind):
    taught_in_river(kind, T=70, classify=True).hand_over(tmp_path / "a.model")
    model, output = Handed(str(tmp_path / "a.model")), OutputSection(alarm_rate=0.01)
    with pytest.raises(InputError, match=r"alarm_rate is given and .* learns classes; expected numbers"):
        make(AgentConfig("net", "a", model=model, output=output))


# Wrong ones


def rewritten(path, change):
    """A model's file after a change to what it holds, under a right digest."""
    about, arrays = files.parsed(path.read_bytes())
    meta = files.meta(about)
    del meta["digest"]
    change(arrays, meta)
    meta["digest"] = files.seal_of(arrays, meta)
    path.write_bytes(files.content({}, arrays, meta))


def set_array(ending, value):
    """Puts a value into the array whose name ends so; of several, that of the joint models."""

    def change(arrays, meta):
        name = min((name for name in arrays if name.endswith(ending)), key=len)
        arrays[name] = value if isinstance(value, np.ndarray) else np.full_like(arrays[name], value)

    return change


def drop_array(arrays, meta):
    del arrays[next(name for name in arrays if name.endswith("theta"))]


def set_meta(**values):
    return lambda arrays, meta: meta.update(values)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            set_array("theta", np.nan),
            "theta (is not finite|holds (nan|inf) to (nan|inf)); expected a file of hand_over",
        ),
        (
            set_array("theta", np.inf),
            "theta (is not finite|holds (nan|inf) to (nan|inf)); expected a file of hand_over",
        ),
        (set_array("theta", np.zeros((3, 3))), r"3.*; expected a file of hand_over"),
        (drop_array, "a state holds .*; expected an array of the file"),
        (set_meta(schema="learner"), "has schema 'learner'; expected 'model'; use a file"),
        (set_meta(schema=None), "has schema None; expected 'model'; use a file"),
        (
            set_meta(version=VERSION + 1),
            f"version {VERSION + 1} of its schema; expected {VERSION}; use the domkl that wrote it",
        ),
        (set_meta(version="1"), "has version '1' of its schema"),
        (set_meta(state={"fields": {"kind": "other"}}), "it is not whole"),
        (set_meta(state=7), "is not whole"),
    ],
)
def test_a_file_of_something_else_is_refused_in_one_line(tmp_path, kind, change, message):
    path = tmp_path / "a.model"
    handed.write(path, taught(kind, 64))
    rewritten(path, change)
    with pytest.raises(DataError, match=message) as error:
        handed.read(path)
    assert str(error.value).startswith(f"{path} cannot be used as a model: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("damage", ["missing", "folder", "empty", "cut", "flipped", "other"])
def test_a_damaged_file_is_refused_in_one_line(tmp_path, kind, damage):
    path = tmp_path / "a.model"
    handed.write(path, taught(kind, 64))
    content = path.read_bytes()
    path.unlink()
    flipped = bytearray(content)
    flipped[-100] ^= 1
    changed = {"empty": b"", "cut": content[:-1], "flipped": flipped, "other": b"[agent]\n" * 30}
    if damage == "folder":
        path.mkdir()
    elif damage != "missing":
        path.write_bytes(changed[damage])
    expected = r"cannot be (used|read) as a model.*; expected a file of hand_over"
    with pytest.raises(DataError, match=expected) as error:
        handed.read(path)
    assert "\n" not in str(error.value)


# Agents


def run_agent(folder, *args, extra="", said=""):
    text = f'network = "net"\nname = "a"\n[model]\npath = "a.model"\n{extra}\n[transport]\nkind = "memory"\n'
    (folder / "a.toml").write_text(text)
    command = [sys.executable, "-m", "domkl", "agent", "a.toml", *args]
    return subprocess.run(command, cwd=folder, input=said, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("kind", MODELS)
def test_domkl_agent_reads_samples_by_their_names(tmp_path, kind):
    model = taught_in_river(kind, T=520)
    model.hand_over(tmp_path / "a.model")
    X, y = samples(30, seed=4)
    lines = [json.dumps({"x": x, "y": label}) for x, label in zip(rows(X), y, strict=True)]
    lines[3] = json.dumps({"x": {"hour": X[3, 1]}})
    lines += [json.dumps({"x": x}) for x in ({"Wind": 3.0, "hour": 1.0}, {}, {**rows(X)[0], "at": 9})]
    done = run_agent(tmp_path, said="\n".join(lines))
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [record["index"] for record in records] == [*range(30), 32]  # a misspelt name is not missing
    y_hat = [record["y_hat"] for record in records[:30]]
    assert y_hat[0] == pytest.approx(model.predict_one(rows(X)[0]), abs=0.01 * y.std())
    assert y_hat[3] == pytest.approx(model.predict_one({"hour": X[3, 1]}), abs=0.1 * y.std())
    assert np.mean((np.delete(y_hat, 3) - np.delete(y, 3)) ** 2) < 0.1 * y.var()
    assert "x has no" in done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model's file."""
    place = tmp_path_factory.mktemp("model")
    taught_in_river("auto", T=100).hand_over(place / "a.model")
    return place


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("size = 99", "has path and size; expected path alone; leave size out"),
        ("[stream]\nlow = [0, 0, 0]\nhigh = [1, 1, 1]", "[stream] low is given with [model] path"),
        ("[stream]\ntarget_low = 0\ntarget_high = 1", "[stream] target_low is given with [model] path"),
        ('[columns]\nfeatures = ["wind", "hour"]', "was taught with 3; expected as many; fix one"),
    ],
)
def test_what_does_not_go_with_the_model_is_refused_in_one_line(folder, extra, message):
    done = run_agent(folder, "--check", extra=extra)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_check_names_the_model(folder):
    done = run_agent(folder, "--check", "--json")
    assert done.returncode == 0, done.stderr
    assert "a.model" in json.dumps(json.loads(done.stdout))
    done = run_agent(folder, "--check")
    assert f"features = {json.dumps(handed.read(folder / 'a.model').names)}" in done.stdout


def test_columns_have_the_models_order_whatever_the_settings_say(folder):
    model = handed.read(folder / "a.model")
    assert model.names != NAMES

    def config(columns):
        path = Handed(str(folder / "a.model"))
        return AgentConfig("net", "a", model=path, columns=Columns(features=columns))

    completed, learner = make(config(NAMES))
    assert completed.columns.features == model.names
    assert completed.inputs == D == learner._row.d
    with pytest.raises(InputError, match=r"features has 'snow'; expected what .* was taught with"):
        make(config(("wind", "hour", "snow")))
