"""Pages and modules that need an optional package are left out where it is not installed."""

import os
import sys
from importlib.util import find_spec

import pytest

# Hundreds of tests start processes: where nothing is cached, each of them would compile the whole package.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

_NEEDS = {"river": "river", "sklearn": "sklearn"}
collect_ignore = [
    path
    for package, name in _NEEDS.items()
    if find_spec(package) is None
    for path in (f"src/domkl/{name}.py", f"docs/howto-{name}.md")
]


os.environ.setdefault("MPLBACKEND", "Agg")


@pytest.fixture(autouse=True)
def _figures_are_closed():
    """Pages and plots leave figures open, for whoever reads them; of many, matplotlib warns."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """What `-n auto` means: one more than there are cores, as many tests wait for processes or deadlines."""
    return (os.cpu_count() or 1) + 1
