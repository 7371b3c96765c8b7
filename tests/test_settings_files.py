"""Settings from TOML tables: types, unknown keys, and which extras bring the reader."""

from __future__ import annotations

import dataclasses
import pathlib
import re
import subprocess
import sys
from dataclasses import dataclass, field

import pytest

from domkl.base import toml
from domkl.base.errors import DataError, InputError
from domkl.models import settings
from domkl.models.settings import Auto, KernelSpec, Paper, RateSpec

ROOT = pathlib.Path(__file__).parent.parent


@dataclass(frozen=True)
class Inner:
    depth: int = 1


@dataclass(frozen=True)
class Made:
    name: str
    size: int = 1
    share: float | None = None
    mode: str | float = "auto"
    on: bool = False
    tags: tuple[str, ...] = ()
    weights: tuple[float, ...] = (1.0,)
    inner: Inner = field(default_factory=Inner)

    def __post_init__(self):
        if self.size < 0:
            raise InputError("size is negative; expected more; raise it")


def test_a_table_becomes_a_dataclass():
    table = {"name": "a", "size": 2, "share": 1, "mode": 3, "on": True, "tags": ["x"], "weights": [1, 2.5]}
    assert toml.section(Made, table, "f", inner=Inner(2)) == Made(
        "a", 2, 1, 3, True, ("x",), (1, 2.5), Inner(2)
    )
    assert toml.section(Made, {"name": "a"}, "f") == Made("a")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "f has no name; expected str; add it"),
        ({"nam": "a"}, "f key is 'nam'; .*did you mean 'name'"),
        ({"name": 1}, "f name is 1; expected str; fix the file"),
        ({"name": "a", "size": True}, "f size is True; expected int"),
        ({"name": "a", "size": 1.0}, "f size is 1.0; expected int"),
        ({"name": "a", "share": "x"}, "f share is 'x'; expected float"),
        ({"name": "a", "mode": []}, r"f mode is \[\]; expected str or float"),
        ({"name": "a", "on": 1}, "f on is 1; expected bool"),
        ({"name": "a", "tags": "x"}, "f tags is 'x'; expected a list of str"),
        ({"name": "a", "tags": ["x", 1]}, r"f tags is \['x', 1\]; expected a list of str"),
        ({"name": "a", "weights": []}, r"f weights is \[\]; expected a list with one float or more"),
        ({"name": "a", "inner": 5}, r"f inner is 5; expected a section in \[brackets\]; fix the file"),
        ({"name": "a", "inner": [{"depth": 1}]}, r"f inner is \[.*\]; expected a section in \[brackets\]"),
        ({"name": "a", "size": -1}, "^f: size is negative; expected more; raise it"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(table, message):
    with pytest.raises(InputError, match=message) as error:
        toml.section(Made, table, "f")
    assert "\n" not in str(error.value)


def test_sections_are_known():
    assert toml.tables({"a": 1, "data": {"x": 1}}, ["data"], "f") == {"data": {"x": 1}}
    with pytest.raises(InputError, match=r"f section is 'dat'; .*did you mean 'data'"):
        toml.tables({"dat": {}}, ["data"], "f")


@pytest.mark.parametrize("content", [b"a = [", b"a = 1\na = 2", b"\xff", None])
def test_a_file_that_cannot_be_read_is_named(tmp_path, content):
    path = tmp_path / "f.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=r"f.toml cannot be read.*; expected a list of things; fix"):
        toml.read(path, "a list of things", "cli")


@pytest.mark.parametrize(
    "model",
    [
        Auto(),
        Auto(size=64, loss="logistic", seed=2, start=-1.5, forgetting="none"),
        Paper(),
        Paper(KernelSpec("cauchy", D=3, sigma2=(0.5,)), RateSpec(horizon=7, eta_g=2.0), "huber", 0.1, 2.0),
        Paper(step="newton", hedge="local"),
    ],
)
def test_a_description_is_the_table_of_the_same_model(model):
    assert settings.from_table(model.table, "f [model]") == model


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"kind": 3}, r"f \[model\] kind is 3; expected one of auto, paper"),
        ({"knd": "auto"}, r"f \[model\] key is 'knd'; .*did you mean 'kind'"),
        ({"kernels": {"D": 3}}, r"f \[model\] key is 'kernels'; expected one of kind, size"),
        ({"kind": "paper", "kernels": 3}, r"f \[model\] kernels is 3; expected a section in \[brackets\]"),
        ({"kind": "paper", "kernels": {"D": "3"}}, r"f \[model.kernels\] D is '3'; expected int"),
        ({"kind": "paper", "rates": {"rho": 0}}, r"f \[model.rates\]: rho is 0"),
        ({"kind": "paper", "loss": 3}, r"f \[model\] loss is 3; expected str"),
        ({"size": 3}, r"f \[model\]: size is 3"),
    ],
)
def test_a_bad_model_is_refused_with_its_place(table, message):
    with pytest.raises(InputError, match=message):
        settings.from_table(table, "f [model]")


def test_settings_need_numpy_alone():
    """A learner of a library reads descriptions too, without any extra."""
    code = """
import sys
for name in ("msgspec", "tomli", "rich", "safetensors"):
    sys.modules[name] = None
from domkl.models import settings
print(settings.from_table({"kind": "paper", "rates": {"horizon": 4}}, "f [model]").rates_at(0).rho)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "2.0"


def requirements():
    """The packages that each extra brings, those of other extras inside it too."""
    project = ROOT / "pyproject.toml"
    if not project.is_file():
        pytest.skip("not a checkout")
    extras = toml.read(project, "a project", "cli")["project"]["optional-dependencies"]

    def brings(extra):
        for line in extras[extra]:
            if found := re.fullmatch(r"domkl\[(.*)\]", line):
                for other in found[1].split(","):
                    yield from brings(other.strip())
            else:
                yield line

    return {extra: [*brings(extra)] for extra in extras}


def test_every_extra_whose_code_reads_toml_brings_a_reader_for_python_3_10():
    """The extras that `toml.read` names in its error, and those a device may install instead."""
    found = requirements()
    named = {
        extra
        for file in (ROOT / "src/domkl").rglob("*.py")
        for extra in re.findall(r'toml\.read\([^)]*"(\w+)"\)', file.read_text())
    }
    assert named == {"agent", "cli"}
    for extra in (*named, "zenoh", "mqtt"):
        readers = [line.replace("'", '"') for line in found[extra] if line.startswith("tomli")]
        assert readers == ['tomli>=2.0; python_version < "3.11"'] * len(readers), extra
        assert readers, extra


def test_a_field_of_any_name_and_type_has_a_key():
    keys = toml.keys_of(Paper)
    assert {*keys} == {each.name for each in dataclasses.fields(Paper)}
    assert {*keys["kernels"]} == {each.name for each in dataclasses.fields(KernelSpec)}
    assert str(keys["loss"]) == "str"
