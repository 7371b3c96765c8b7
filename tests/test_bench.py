"""`domkl bench`: it measures, its figures can be true, and it says what it could not measure."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pytest

from domkl import cli, engines
from domkl.base.errors import InputError
from domkl.cli import bench, bench_auto

ROOT = pathlib.Path(__file__).parent.parent
PEAK = bench.Limits(64, 1, fma=40e9, sincos=1e9, vector=40e9, stored=20e9, triad=20e9)
native = pytest.mark.skipif(engines.available() is not None, reason="the native engine was not built")


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    """One quick run through the command."""
    folder = tmp_path_factory.mktemp("figures")
    assert cli.main(["bench", "--quick", "--out", str(folder)]) == 0
    return json.loads((folder / "bench.json").read_text())


def numbers(value):
    if isinstance(value, dict):
        for item in value.values():
            yield from numbers(item)
    elif isinstance(value, list):
        for item in value:
            yield from numbers(item)
    elif isinstance(value, float):
        yield value


def test_json_is_one_document_and_the_rest_goes_elsewhere(capfd):
    assert cli.main(["bench", "--quick", "--only", "limits", "--json"]) == 0
    out, err = capfd.readouterr()
    assert set(json.loads(out)) == {"quick", "machine", "engine", "limits"}
    assert "measuring" in err


def test_all_figures_are_positive(document):
    found = list(numbers({name: document[name] for name in bench.PARTS}))
    assert len(found) > 20
    assert all(np.isfinite(found))
    assert min(found) >= 0  # memory's part of a limit may be 0, set-up may be all of a tiny run
    assert all(row["us"] > 0 for name in ("w1", "w2") for row in document[name]["rows"])


@native
def test_fractions_are_the_limit_over_the_time(document):
    """How large they are in a quick run says nothing: the machine may have been busy during either."""
    rows = [row for row in document["w1"]["rows"] if "fraction" in row]
    assert len(rows) >= 2
    for row in rows:
        assert row["fraction"] == pytest.approx(row["limit_us"] / row["us"])
        assert row["limit_us"] > 0


def test_the_engine_in_use_is_told_with_its_reason(document):
    engine = document["engine"]
    assert engine["in_use"] == ("native" if engines.available() is None else "numpy")
    assert engine["why"]


def test_without_the_native_engine_numpy_is_measured_and_the_reason_given(monkeypatch, capsys):
    monkeypatch.setattr(engines, "available", lambda: "the native engine was not built: no compiler")
    assert cli.main(["bench", "--quick", "--only", "w1,w2"]) == 0
    out = capsys.readouterr().out
    assert "engine: numpy, as the native engine was not built: no compiler" in out
    assert "NumPy, float64" in out
    assert "native, float64" not in out


def test_the_machine_is_described_without_its_names_and_paths(document):
    import platform

    text = json.dumps(document)
    assert str(ROOT) not in text
    assert platform.node() not in text
    assert document["machine"]["cores"] >= 1


@native
@pytest.mark.parametrize("loop", [*bench.LOOPS, "read"])
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


def test_the_limit_grows_with_all_that_costs():
    least = sum(PEAK.parts(bench.NETWORK).values())
    assert least == pytest.approx(17e-3 * (50 * 81 / 40 + 50 / 1 + 16 * 100 / 40))
    for name in ("D", "d", "deg"):
        more = bench.NETWORK._replace(**{name: 2 * getattr(bench.NETWORK, name)})
        assert sum(PEAK.parts(more).values()) > least


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_our_learner_learns_what_it_is_timed_with(dtype):
    assert_learns(lambda X, y: bench.our_device(X, y, dtype), bench.LONE.d)


def assert_learns(make, d, n=300):
    """Its error, as a share of the labels' mean square, falls from the first third to the last."""
    X, y = (part[0] for part in bench.stream(1, n, d))
    act = make(X, y)
    errors = np.array([(float(np.ravel(act(i))[0]) - y[i]) ** 2 for i in range(n)])
    early, late = (
        errors[part].sum() / (y[part] ** 2).sum() for part in (slice(n // 3), slice(-n // 3, None))
    )
    assert late < 0.9 * early


def test_contenders_take_turns_and_keep_their_best():
    order, times = [], iter([5.0, 1.0, 3.0, 2.0])
    trials = {name: lambda name=name: (order.append(name), next(times))[1] for name in "ab"}
    assert bench.best(trials, turns=2) == {"a": 3.0, "b": 1.0}
    assert order == ["a", "b", "a", "b"]


@native
def test_auto_is_beside_its_own_limit(document):
    rows = [row for part in document["w5"].values() for row in part["rows"]]
    assert {row["threads"] for row in rows} >= {1}
    for row in rows:
        assert row["fraction"] == pytest.approx(row["limit_us"] / row["us"])
        assert row["limit_us"] == pytest.approx(sum(row["limit_parts_us"].values()))
    device, network = (bench_auto.SHAPES[key].work() for key in ("device", "network"))
    assert network["matrix"] == pytest.approx(7 / 5 * device["matrix"])
    assert device["trust"] == 0 < network["trust"]


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


@pytest.mark.parametrize("only", ["nonsense", "w1,nonsense", ","])
def test_unknown_parts_are_refused_in_one_line(only, capsys):
    assert cli.main(["bench", "--only", only]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
    with pytest.raises(InputError):
        bench.measure(["nonsense"], quick=True)


def test_an_impossible_folder_is_refused_before_measuring(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert cli.main(["bench", "--out", str(tmp_path / "file" / "x")]) == 2
    assert "choose another --out" in capsys.readouterr().err
