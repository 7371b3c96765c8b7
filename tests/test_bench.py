"""`domkl bench`: it measures, its figures can be true, and it says what it could not measure."""

from __future__ import annotations

import importlib.util
import json
import pathlib
import sys

import numpy as np
import pytest

from domkl import cli, engines
from domkl.base.errors import Error, InputError
from domkl.cli import bench

KEPT = pathlib.Path(__file__).parent.parent / "benchmarks" / "results" / "bench.json"

ROOT = pathlib.Path(__file__).parent.parent
PEAK = bench.Limits(64, 1, fma=40e9, sincos=1e9, vector=40e9, stored=20e9, triad=20e9)
native = pytest.mark.skipif(engines.available() is not None, reason="the native engine was not built")


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


peers, networks, second_order, targets = (
    script(f"bench/{name}") for name in ("peers", "networks", "second_order", "targets")
)


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    """One quick run through the command."""
    folder = tmp_path_factory.mktemp("figures")
    assert cli.main(["bench", "--quick", "--out", str(folder)]) == 0
    return json.loads((folder / "bench.json").read_text())


@pytest.fixture(scope="module")
def whole(document):
    """The same with the workloads of benchmarks/bench, without peers, whose packages take seconds to load."""
    limits = [bench.Limits(*known) for known in map(networks.rates_of, document["limits"])]
    return {**document, "w3": networks.measure(True, limits), "w4": second_order.measure(True)}


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


def test_all_figures_are_positive(whole):
    document, parts = whole, {name: whole[name] for name in (*bench.PARTS, "w3", "w4")}
    found = list(numbers(parts))
    assert len(found) > 50
    assert all(np.isfinite(found))
    assert min(found) >= 0  # memory's part of a limit may be 0, set-up may be all of a tiny run
    rows = [row for name in ("w1", "w2", "w3") for row in document[name]["rows"]]
    rows += [row for key in ("network", "device") for row in document["w4"][key]["rows"]]
    assert all(row["us"] > 0 for row in rows)


@native
def test_fractions_are_the_limit_over_the_time(whole):
    """How large they are in a quick run says nothing: the machine may have been busy during either."""
    rows = with_fractions(whole)
    assert len(rows) >= 4
    for row in rows:
        assert row["fraction"] == pytest.approx(row["limit_us"] / row["us"])
        assert row["limit_us"] > 0


def with_fractions(document):
    rows = [*document["w1"]["rows"], *document["w3"]["rows"]]
    rows += [*document["w4"]["network"]["rows"], *document["w4"]["device"]["rows"]]
    return [row for row in rows if "fraction" in row]


@pytest.mark.skipif(not KEPT.exists(), reason="the kept results are in a checkout alone")
def test_nobody_beats_the_limit_in_the_run_that_is_kept():
    assert all(0 < row["fraction"] < 1 for row in with_fractions(json.loads(KEPT.read_text())))


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


def test_memory_bounds_what_the_cache_does_not_hold():
    large = networks.BenchNetwork("large", J=100_000, T=5)
    found = networks.against(large, PEAK, 1.0, cache=1 << 20)
    assert found["bound_by"] == "memory"
    rows = found["limit_us"] / 17e-3 * 20 / 800  # 20 bytes a nanosecond, 800 bytes a row
    assert 9.5 < rows < 10.5  # theta, six neighbours', mu twice, theta anew, and x
    assert networks.memory_bytes(large._replace(key="lattice"), PEAK, 1 << 20) == 4 * 800 + 21 * 8
    assert networks.memory_bytes(large._replace(J=5), PEAK, 1 << 20) == 0


def test_the_second_orders_limit_is_the_larger_of_reading_and_computing():
    shape, rates = second_order.NETWORK, {"fma": 40e9, "sincos": 1e9}
    parts = second_order.bound(shape, 64, **rates, read=80e9)
    n = 100 * 101 / 2
    assert parts["reading"] == pytest.approx(17 * n * 8 / 80e3)
    assert parts["compute"] == pytest.approx(17 * ((5 * n + 50 * 21) / 40e3 + 50 / 1e3))
    assert second_order.bound(shape, 32, **rates, read=80e9)["reading"] == parts["reading"] / 2
    given = second_order.bound(second_order.DEVICE, 64, **rates, read=80e9)
    assert given["compute"] == pytest.approx(2 * 5 * 850 * 851 / 2 / 40e3)  # no features to make


def test_a_thread_holds_its_own_matrices():
    assert second_order.NETWORK.held(1) == second_order.NETWORK.held(2) == 5 * 5050
    assert second_order.DEVICE.held(1) == 2 * second_order.DEVICE.held(2) == 850 * 851
    assert second_order.StepShape(1, 3, 4, 0).held(2) == 2 * 36


@pytest.mark.parametrize("bits", [64, 32])
def test_the_device_that_is_timed_learns(bits):
    shape = second_order.StepShape(J=1, P=2, D=4, d=0)
    names = ["numpy"] if engines.available() else ["numpy", "native"]
    states = [second_order.device(shape, bench.EngineRun(name, name, bits, 1), 30)() for name in names]
    for state in states:
        assert np.abs(state.theta).min() > 0
        np.testing.assert_allclose(state.theta, states[0].theta, rtol=1e-2, atol=1e-4)


def test_missing_peers_are_named_with_the_line_that_installs_them(monkeypatch):
    for module in ("river", "sklearn", "vowpalwabbit"):
        monkeypatch.setitem(sys.modules, module, None)
    assert peers.present() == []
    assert [peer["name"] for peer in peers.missing()] == [peer.name for peer in peers.ALL]
    assert {peer["install"] for peer in peers.missing()} == {"pip install -r benchmarks/requirements.txt"}
    listed = (ROOT / "benchmarks" / "requirements.txt").read_text()
    assert all(name in listed for name in ("river", "scikit-learn", "vowpalwabbit"))


@pytest.mark.parametrize("peer", peers.ALL, ids=lambda peer: peer.name)
@pytest.mark.filterwarnings("ignore")
def test_peers_that_are_installed_learn(peer):
    if not peers.installed(peer.module):
        pytest.skip(peers.INSTALL)
    assert_learns(peer.make, d=3)


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


def test_the_random_graph_is_nearly_regular():
    edges = networks.random_regular(500)
    degrees = np.bincount(edges.ravel())
    assert degrees.max() == 6
    assert degrees.mean() > 5.9


def test_a_child_that_fails_is_told_in_one_line():
    broken = networks.BenchNetwork("small", J=0, T=1)
    with pytest.raises(Error, match=r"^J = 0, one thread failed: .*memory was short$"):
        networks._child(broken)


def test_peak_of_memory_is_the_childs_own():
    held = np.ones(60_000_000)  # 480 MB here
    answer = networks._child(networks.BenchNetwork("ring", J=10, T=3, P=3, D=4))
    assert held.sum() > 0
    assert answer["peak_bytes"] is None or answer["peak_bytes"] < 300e6


def test_targets_are_judged_by_the_figures(whole):
    judged = targets.judge(whole)
    assert {row["what"].split(",")[0] for row in judged} >= {"W1", "W3"}
    for row in judged:
        better = (
            row["got"] >= row["wanted"] if row["direction"] == "at least" else row["got"] <= row["wanted"]
        )
        assert row["met"] == better
    assert targets.judge({}) == []


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


def test_exponents_are_found_again():
    x = [2, 4, 8, 16, 32, 64]
    for k, fixed in ((1.0, 0.0), (1.0, 50.0), (1.3, 10.0)):
        found = script("scaling").exponent(x, [1e-6 * (fixed + 3 * v**k) for v in x])
        assert found["exponent"] == pytest.approx(k, abs=0.011)
