"""What is published holds all that the package needs, by way of the source distribution."""

from __future__ import annotations

import pathlib
import tarfile
import zipfile

import pytest

ROOT = pathlib.Path(__file__).parent.parent
NEEDED = (
    "domkl/lab/experiments/three-stations.toml",
    "domkl/lab/experiments/paper-fitted.toml",
    "domkl/lab/experiments/paper-printed.toml",
    "domkl/datasets/data/nyc_weather_2013.csv.gz",
    "domkl/datasets/data/turbofan.csv.gz",
    "domkl/lab/paper_tables.csv",
    "domkl/lab/report/page.html",
    "domkl/watch/static/uPlot.iife.min.js",
    "domkl/watch/static/uPlot.LICENSE",
    "domkl/py.typed",
    "domkl/engines/native.py",
)

#: Not every 3.11 knows the filter.
SAFELY = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    build = pytest.importorskip("scikit_build_core.build", reason="scikit-build-core is not installed")
    if not (ROOT / "pyproject.toml").is_file():
        pytest.skip("not a checkout")
    place = tmp_path_factory.mktemp("sdist")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        return place / build.build_sdist(str(place))


def test_a_wheel_from_the_source_distribution_is_complete(sdist, tmp_path, monkeypatch):
    import scikit_build_core.build as build

    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, **SAFELY)
    (source,) = tmp_path.iterdir()
    assert (source / "CMakeLists.txt").is_file()
    assert (source / "src/domkl/engines/_native/network.cpp").is_file()
    assert not (source / ".venv").exists()
    monkeypatch.chdir(source)
    wheel = build.build_wheel(str(tmp_path), {"wheel.cmake": "false"})
    names = set(zipfile.ZipFile(tmp_path / wheel).namelist())
    assert not [name for name in NEEDED if name not in names]
    assert not [name for name in names if name.endswith((".cpp", ".hpp"))]
