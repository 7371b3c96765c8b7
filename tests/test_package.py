"""What a user meets first: imports, names, weight."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import pytest

import domkl


def python(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_import_pulls_in_numpy_alone():
    code = """
import sys, numpy
before = set(sys.modules)
import domkl
domkl.simulate, domkl.Learner, domkl.omkl, domkl.kernels, domkl.metrics, domkl.datasets
third = {m.split(".")[0] for m in set(sys.modules) - before} - set(sys.stdlib_module_names)
print(*sorted(m for m in third if not m.startswith("_") and m not in ("numpy", "cython_runtime")))
"""
    assert python(code) == "domkl"


def test_import_alone_loads_nothing_of_the_package():
    assert python("import sys, domkl; print(*(m for m in sys.modules if m.startswith('domkl')))") == "domkl"


def test_the_core_installs_one_package():
    needs = [r for r in importlib.metadata.requires("domkl") if "extra ==" not in r]
    assert [r.split(">")[0] for r in needs] == ["numpy"]


def test_all_public_names_exist_and_nothing_else_is_listed():
    assert sorted(domkl.__all__) == dir(domkl)
    for name in domkl.__all__:
        assert getattr(domkl, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = domkl.nonsense


def test_a_missing_extra_is_named_with_its_install_line():
    code = """
import sys
sys.modules["pyarrow"] = None
from domkl.base.extras import need
try:
    need("pyarrow.parquet", "parquet")
except ImportError as error:
    print(error)
"""
    assert python(code).endswith('install it with: pip install "domkl[parquet]"')
