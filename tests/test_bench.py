"""`domkl bench`: it measures, its figures can be true, and it says what it could not measure."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pytest

from domkl import cli, engines
from domkl.cli import bench

ROOT = pathlib.Path(__file__).parent.parent
native = pytest.mark.skipif(engines.available() is not None, reason="the native engine was not built")


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    """One quick run through the command."""
    folder = tmp_path_factory.mktemp("figures")
    assert cli.main(["bench", "--quick", "--out", str(folder)]) == 0
    return json.loads((folder / "bench.json").read_text())


def test_json_is_one_document_and_the_rest_goes_elsewhere(capfd):
    assert cli.main(["bench", "--quick", "--json"]) == 0
    out, err = capfd.readouterr()
    assert set(json.loads(out)) == {"quick", "machine", "engine", "sizes"}
    assert "measuring" in err


def test_all_figures_are_positive(document):
    found = [value for row in document["sizes"] for value in row.values()]
    assert len(found) > 15
    assert np.isfinite(found).all()
    assert min(found) > 0


def test_the_engine_in_use_is_told_with_its_reason(document):
    engine = document["engine"]
    assert engine["in_use"] == ("native" if engines.available() is None else "numpy")
    assert engine["why"]


def test_without_the_native_engine_the_reason_is_given(monkeypatch, capsys):
    monkeypatch.setattr(engines, "available", lambda: "the native engine was not built: no compiler")
    assert cli.main(["bench", "--quick"]) == 0
    assert "engine: numpy, as the native engine was not built: no compiler" in capsys.readouterr().out


def test_the_machine_is_described_without_its_names_and_paths(document):
    import platform

    text = json.dumps(document)
    assert str(ROOT) not in text
    assert platform.node() not in text
    assert document["machine"]["cores"] >= 1


@native
@pytest.mark.parametrize("loop", ["fma", "sincos", "vector", "stored", "triad", "read"])
@pytest.mark.parametrize("single", [False, True])
def test_every_loop_runs_on_every_instruction_set(loop, single):
    from domkl.engines._native import _engine

    for isa in bench.engine_in_use()["runs"]:
        rate = _engine.limit(loop, isa, single=single, seconds=0.001, threads=2, bytes=1 << 20)
        assert 1e6 < rate < 1e14


@native
def test_limits_refuse_what_they_cannot_measure():
    from domkl.engines._native import _engine

    for bad in ({"loop": "nonsense"}, {"isa": "nonsense"}, {"threads": 0}, {"seconds": -1.0}, {"bytes": -1}):
        with pytest.raises(ValueError, match=r"no loop|does not run|cannot be used"):
            _engine.limit(**{"loop": "fma", "isa": "baseline", "seconds": 0.0, **bad})


def test_a_size_is_recommended_for_a_time(capsys):
    command = ["bench", "--quick", "--inputs", "3", "--targets", "2", "--within"]
    assert cli.main([*command, "1000", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["recommended"] == found["sizes"][-1]["size"]  # of those that were measured
    assert cli.main([*command, "1000"]) == 0
    assert f"domkl.Auto(size={found['recommended']})" in capsys.readouterr().out
    assert cli.main([*command, "0.0001"]) == 2
    assert "give more time" in capsys.readouterr().err
    assert cli.main([*command, "nan"]) == 2


def test_an_impossible_folder_is_refused_before_measuring(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert cli.main(["bench", "--out", str(tmp_path / "file" / "x")]) == 2
    assert "choose another --out" in capsys.readouterr().err
