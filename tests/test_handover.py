"""Models taught in River, scikit-learn or Python, handed to the devices of a network."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys

import networkx as nx
import numpy as np
import pytest
from domkl.learning.auto.learners import RATES
from domkl.learning.auto.ties import Ties
from hypothesis import given, settings
from hypothesis import strategies as st

import domkl
import problems
from domkl import faces
from domkl.agent import Agent, AgentConfig
from domkl.agent.config import AutoSection, RoundSection, StreamSection, TransportSection
from domkl.agent.making import make
from domkl.agent.streams import aiter_of
from domkl.base.errors import DataError, InputError
from domkl.faces import handover
from domkl.learning import auto, second_order

river = pytest.importorskip("domkl.river")
sklearn = pytest.importorskip("domkl.sklearn")
pandas = pytest.importorskip("pandas")
pytest.importorskip("safetensors")

SIZE, D = 120, 3
NAMES = ("wind", "hour", "rain")


def samples(T, seed=0, classify=False):
    """In units of their own: inputs in the thousands, targets far from zero."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1000, size=(T, D)) * [1, 1e-3, 1e3]
    y = np.sin(X[:, 0] / 200) + X[:, 1] + 0.05 * rng.standard_normal(T)
    return (X, (y > 1).astype(int)) if classify else (X, 5000 + 300 * y)


def rows(X):
    return [dict(zip(NAMES, x, strict=True)) for x in X]


def taught_in_river(preset, T=700, classify=False):
    kind = river.MultiKernelClassifier if classify else river.MultiKernelRegressor
    model = kind(preset=preset, size=SIZE)
    X, y = samples(T, classify=classify)
    for x, label in zip(rows(X), y.tolist(), strict=True):
        model.learn_one(x, label)
    return model


def handed(model, folder):
    model.hand_over(folder / "a.model")
    return handover.read(folder / "a.model")


def ordered(taught, X):
    """Columns as the model has them."""
    return X[..., [NAMES.index(name) for name in taught.names]]


def alone(taught, **options):
    network = {"learners": ["a"], "diameter": 0} if taught.preset == "auto" else {}
    return taught.learner([], name="a", **network, **options)


def ring(taught, J, **options):
    """J learners that begin with it."""
    graph = nx.cycle_graph(J)
    if taught.preset == "auto":
        options = {"learners": list(range(J)), "diameter": J // 2, **options}
    near = problems.neighbours_of(graph)
    return graph, [taught.learner(near[j], name=j, **options) for j in range(J)]


# One device


def test_a_device_alone_goes_on_like_the_model(tmp_path):
    model = taught_in_river("auto")
    taught = handed(model, tmp_path)
    learner, (X, y) = alone(taught), samples(300, seed=1)
    for x, z, label in zip(rows(X), ordered(taught, X), y, strict=True):
        assert learner.predict(z) == pytest.approx(model.predict_one(x), rel=1e-9)
        model.learn_one(x, label)
        learner.observe(z, label)


def test_a_first_order_device_keeps_estimate_and_scale(tmp_path):
    model = taught_in_river("first-order")
    taught = handed(model, tmp_path)
    learner, (X, y) = alone(taught), samples(400, seed=1)
    theirs = [model.predict_one(x) for x in rows(X)]
    ours = [learner.predict(z) for z in ordered(taught, X)]
    np.testing.assert_allclose(ours, theirs, atol=1e-4 * y.std())  # float32
    errors = []
    for x, z, label in zip(rows(X), ordered(taught, X), y, strict=True):
        errors.append([learner.predict(z) - label, model.predict_one(x) - label])
        update = learner.observe(z, label)
        assert learner.step.y_hat == pytest.approx(errors[-1][0] + label)
        assert learner.step.y == label
        model.learn_one(x, label)
    mine, its = np.mean(np.square(errors), 0)
    assert update.fingerprint == learner.fingerprint
    assert mine < 1.05 * its < 0.1 * y.var()


@pytest.mark.parametrize("preset", faces.PRESETS)
def test_classes_keep_their_meaning(tmp_path, preset):
    model = taught_in_river(preset, classify=True)
    taught = handed(model, tmp_path)
    learner, (X, y) = alone(taught), samples(200, seed=1, classify=True)
    said = np.array([learner.predict(z) for z in ordered(taught, X)])
    theirs = np.array([model.predict_one(x) for x in rows(X)])
    assert ((said > 0) == (theirs == 1)).mean() > 0.99
    assert ((said > 0) == (y == 1)).mean() > 0.9


@pytest.mark.parametrize("preset", faces.PRESETS)
@pytest.mark.parametrize("labels", [(0, 1), (-1, 1), (False, True)])
def test_scikit_learn_hands_over_numbers_and_classes(tmp_path, preset, labels):
    X, y = samples(300)
    regressor = sklearn.MultiKernelRegressor(preset=preset, size=SIZE).fit(
        pandas.DataFrame(X, columns=NAMES), y
    )
    taught = handed(regressor, tmp_path)
    assert taught.names == NAMES
    np.testing.assert_allclose(
        [alone(taught).predict(x) for x in X[:20]],
        regressor.predict(pandas.DataFrame(X[:20], columns=NAMES)),
        atol=0.01 * y.std(),
    )
    classes = np.where(y > y.mean(), *labels[::-1])
    classifier = sklearn.MultiKernelClassifier(preset=preset, size=SIZE).fit(X, classes)
    taught = handed(classifier, tmp_path)
    assert taught.names == ()
    said = np.array([alone(taught).predict(x) for x in X])
    assert ((said > 0) == (classifier.predict(X) == labels[1])).mean() > 0.99


def test_domkl_hands_over_too(tmp_path):
    model, (X, y) = domkl.DOMKL(size=SIZE), samples(520)
    for x, label in zip(X, y, strict=True):
        model.learn(x, label)
    learner = alone(handed(model, tmp_path))
    np.testing.assert_allclose([learner.predict(x) for x in X], [model.predict(x) for x in X], rtol=1e-9)


@pytest.mark.parametrize("preset", faces.PRESETS)
def test_inputs_that_came_late_and_values_that_are_missing(tmp_path, preset):
    model = river.MultiKernelRegressor(preset=preset, size=SIZE)
    X, y = samples(620)
    for t, (x, label) in enumerate(zip(rows(X), y, strict=True)):
        model.learn_one(x if t >= 600 else {name: x[name] for name in NAMES[:2]}, label)
    taught = handed(model, tmp_path)
    assert set(taught.names) == set(NAMES)
    learner = alone(taught)
    for x, z, label in zip(rows(X[:10]), ordered(taught, X[:10]), y, strict=False):
        at = taught.names.index("hour")
        z[at], x["hour"] = np.nan, None
        assert learner.predict(z) == pytest.approx(model.predict_one(x), rel=0.01)
        learner.observe(z, label)
        model.learn_one(x, label)


def test_the_same_model_comes_back_with_its_intervals(tmp_path):
    model, (X, y) = auto.Model(D, size=SIZE), samples(600)
    for x, label in zip(X, y, strict=True):
        model.learn(x, label)
    again = auto.load(*auto.save(model))
    assert again.interval(X[0]) == model.interval(X[0])
    for x, label in zip(*samples(40, seed=2), strict=True):
        assert again.predict(x) == pytest.approx(model.predict(x), rel=1e-12)
        model.learn(x, label), again.learn(x, label)


# Networks


def learnt_matrix(model, X):
    """Sum of 2 z z^T over all samples, literally. (MODELS, K, K)"""
    z = model.alone.features.of(X, model.alone.stats)
    return 2 * np.einsum("npk,npl->pkl", z, z)


@settings(max_examples=10, deadline=None)
@given(st.integers(2, 6), st.integers(64, 200))
def test_all_together_know_what_the_model_knew_once(J, T):
    model, (X, y) = auto.Model(D, size=SIZE), samples(T)
    for x, label in zip(X, y, strict=True):
        model.learn(x, label)
    model.fix_scale()
    taught = handover.Taught(model, ())
    _, members = ring(taught, J)
    learnt = learnt_matrix(model, X)
    for member in members:
        M = np.linalg.inv(member.state.inverse.settle()[0])
        prior = RATES.eta / J + RATES.rho * member.one.pulls.deg[0]
        np.testing.assert_allclose(M, learnt / J + prior * np.eye(M.shape[-1]), atol=1e-6 * learnt.max())
        np.testing.assert_allclose(member.state.theta, model.alone.state.theta)
    data = sum(member.one.memories[0]._data() for member in members)
    np.testing.assert_allclose(data, model.alone.memories[0]._data(), atol=1e-6 * np.abs(data).max())
    total = sum(member.state.m for member in members)
    np.testing.assert_allclose(total, model.alone.state.m, atol=1e-12 * np.abs(total).max())


def test_shift_takes_a_part_of_a_matrix():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((1, 5, 5))
    M = 0.3 * np.eye(5) + A @ np.swapaxes(A, 1, 2)
    found = second_order.shift(second_order.Inverse(np.linalg.inv(M)), 0.3, 0.5, 0.25).settle()
    np.testing.assert_allclose(np.linalg.inv(found), 0.25 * M + 0.5 * np.eye(5))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_devices_have_the_bits_of_a_network_in_one_process(tmp_path, dtype):
    J, T = 5, 60
    taught = handed(taught_in_river("auto"), tmp_path)
    graph, members = ring(taught, J, dtype=dtype)
    one = taught.model.alone
    network = auto.Network(
        domkl.graph.as_graph(graph), D, one.loss, seed=one.seed, size=SIZE, forgets=True, dtype=dtype
    )
    auto.handover.inherit(network, one)
    X, y = (np.reshape(v, (J, T, *v.shape[1:])) for v in samples(J * T, seed=3))
    for t in range(T):
        look = network.look(X[:, t])
        network.learn(look, y[:, t])
        problems.feed(members, range(J), graph, X[:, t], y[:, t], np.random.default_rng(t))
        np.testing.assert_array_equal([member.step.y_hat for member in members], look.y_hat)
    lam = sum(member.state.lam.astype(np.float64) for member in members)
    assert np.abs(lam).max() < (1e-12 if dtype is np.float64 else 1e-4)


@pytest.mark.parametrize("preset", faces.PRESETS)
def test_a_taught_network_is_better_than_its_members_alone(tmp_path, preset):
    J, T = 5, 200
    taught = handed(taught_in_river(preset, T=300), tmp_path)
    graph, members = ring(taught, J)
    singles = [alone(taught) for _ in range(J)]
    X, y = (np.reshape(v, (J, T, *v.shape[1:])) for v in samples(J * T, seed=3))
    X, errors = ordered(taught, X), []
    for t in range(T):
        problems.feed(members, range(J), graph, X[:, t], y[:, t], np.random.default_rng(t))
        for j, single in enumerate(singles):
            single.observe(X[j, t], y[j, t])
        errors.append([[each.step.y_hat - each.step.y for each in group] for group in (members, singles)])
    together, apart = np.square(errors[T // 2 :]).mean((0, 2))
    assert together < apart < 0.1 * y.var()
    assert np.abs(sum(member.state.lam for member in members)).max() < 1e-4


@pytest.mark.parametrize("preset", faces.PRESETS)
def test_a_taught_learner_is_saved_and_goes_on_with_the_same_bits(tmp_path, preset):
    taught = handed(taught_in_river(preset), tmp_path)
    graph, members = ring(taught, 3)
    X, y = (np.reshape(v, (3, 40, *v.shape[1:])) for v in samples(120, seed=3))
    for t in range(20):
        problems.feed(members, range(3), graph, X[:, t], y[:, t], np.random.default_rng(t))
    saved = [member.save() for member in members]
    _, again = ring(taught, 3)
    for member, (arrays, meta) in zip(again, saved, strict=True):
        member.load({key: value.copy() for key, value in arrays.items()}, json.loads(json.dumps(meta)))
    for t in range(20, 40):
        for group in (members, again):
            problems.feed(group, range(3), graph, X[:, t], y[:, t], np.random.default_rng(t))
        assert [one.step.y_hat for one in members] == [one.step.y_hat for one in again]


def test_learners_of_other_models_do_not_understand_each_other(tmp_path):
    for preset in faces.PRESETS:
        known = {}
        for T in (300, 301):
            taught = handed(taught_in_river(preset, T=T), tmp_path)
            _, members = ring(taught, 3)
            assert len({member.fingerprint for member in members}) == 1
            known[T] = members[0].fingerprint
        assert known[300] != known[301]


def test_weights_of_edges_are_right_after_the_first_round(tmp_path):
    """Nobody knows its neighbours' degrees before they have spoken."""
    taught = handed(taught_in_river("auto"), tmp_path)
    graph = nx.star_graph(3)
    near = problems.neighbours_of(graph)
    common = {"learners": [*graph], "diameter": 2}
    members = [taught.learner(near[j], name=j, **common) for j in graph]
    X, y = samples(4, seed=5)
    problems.feed(members, [*graph], graph, X, y, np.random.default_rng(0))
    weights = [float(member.one.weight[0]) for member in members]
    assert weights == Ties.of(domkl.graph.as_graph(graph)).weight.tolist()


# Agents


def config(taught, file, name, neighbours, learners, **stream):
    auto_ = AutoSection(learners=tuple(learners), diameter=1, dtype="float64")
    return AgentConfig(
        network="net",
        name=name,
        inputs=D,
        neighbours=tuple(neighbours),
        preset=taught.preset,
        model=str(file),
        auto=auto_ if taught.preset == "auto" else AutoSection(),
        rounds=RoundSection(deadline=5.0, start=5.0, resend=0.1),
        stream=StreamSection(**stream),
        transport=TransportSection(kind="memory"),
    )


@pytest.mark.parametrize("preset", faces.PRESETS)
def test_agents_begin_with_the_model(tmp_path, preset):
    J, T = 3, 50
    taught, names = handed(taught_in_river(preset), tmp_path), ["a", "b", "c"]
    X, y = (np.reshape(v, (J, T, *v.shape[1:])) for v in samples(J * T, seed=3))
    X, outs = ordered(taught, X), [[] for _ in names]
    agents = []
    for j, name in enumerate(names):
        given = config(taught, tmp_path / "a.model", name, [names[j - 1], names[(j + 1) % J]], names)
        agents.append(Agent(given, stream=aiter_of(zip(X[j], y[j], strict=True), D), out=outs[j].append))

    async def run():
        await asyncio.wait_for(asyncio.gather(*(agent.run() for agent in agents)), 30)

    asyncio.run(run())
    options = {"learners": names, "diameter": 1} if preset == "auto" else {}
    near = [[names[j - 1], names[(j + 1) % J]] for j in range(J)]
    members = [taught.learner(near[j], name=name, **options) for j, name in enumerate(names)]
    for t in range(T):
        updates = [
            member.observe(x, label) for member, x, label in zip(members, X[:, t], y[:, t], strict=True)
        ]
        for j, member in enumerate(members):
            for other in near[j]:
                member.receive(other, updates[names.index(other)])
        assert [out[t]["y_hat"] for out in outs] == [member.step.y_hat for member in members]
    assert agents[0].config.stream.columns == taught.names


def settings_file(folder, preset, extra="", inputs=D):
    text = f'network = "net"\nname = "a"\ninputs = {inputs}\nmodel = "a.model"\npreset = "{preset}"\n{extra}'
    if preset == "auto" and "[auto]" not in text:
        text += '\n[auto]\nlearners = ["a"]\ndiameter = 0\n'
    text += '\n[transport]\nkind = "memory"\n'
    (folder / "a.toml").write_text(text)
    return "a.toml"


def run_agent(folder, *args, said=""):
    command = [sys.executable, "-m", "domkl", "agent", *args]
    return subprocess.run(command, cwd=folder, input=said, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("preset", faces.PRESETS)
def test_domkl_agent_reads_samples_by_their_names(tmp_path, preset):
    model = taught_in_river(preset)
    taught = handed(model, tmp_path)
    X, y = samples(30, seed=4)
    lines = [json.dumps({"x": x, "y": label}) for x, label in zip(rows(X), y, strict=True)]
    lines[3] = json.dumps({"x": {"hour": X[3, 1]}})
    file = settings_file(tmp_path, taught.preset, "\n[stream]\nmissing = true")
    done = run_agent(tmp_path, file, said="\n".join(lines))
    assert done.returncode == 0, done.stderr
    said = [json.loads(line)["y_hat"] for line in done.stdout.splitlines()]
    assert len(said) == 30
    assert said[0] == pytest.approx(model.predict_one(rows(X)[0]), abs=0.01 * y.std())
    assert said[3] == pytest.approx(model.predict_one({"hour": X[3, 1]}), abs=0.1 * y.std())
    assert np.mean((np.delete(said, 3) - np.delete(y, 3)) ** 2) < 0.1 * y.var()


@pytest.mark.parametrize(
    ("preset", "extra", "inputs", "message"),
    [
        ("own", "", D, 'is for preset auto; expected the same; set preset = "auto"'),
        ("auto", "", 2, "was taught with 3; expected as many; mend one"),
        ("auto", '[auto]\nlearners = ["a"]\ndiameter = 0\nsize = 99', D, "[auto] size is given with a model"),
        ("auto", "[learning]\nloss = 'logistic'", D, "[learning] loss is given with a model"),
        ("auto", "[stream]\nlow = [0, 0, 0]\nhigh = [1, 1, 1]", D, "[stream] low is given with a model"),
        ("auto", "[stream]\ntarget_low = 0\ntarget_high = 1", D, "[stream] target_low is given with a model"),
        ("own", "[rates]\nhorizon = 9", D, "[rates] is given with a model; expected none of its settings"),
    ],
)
def test_what_does_not_go_with_the_model_is_refused_in_one_line(tmp_path, preset, extra, inputs, message):
    taught_in_river("auto", T=100).hand_over(tmp_path / "a.model")
    done = run_agent(tmp_path, settings_file(tmp_path, preset, extra, inputs), "--check")
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_check_names_the_model(tmp_path):
    taught_in_river("first-order", T=100).hand_over(tmp_path / "a.model")
    done = run_agent(tmp_path, settings_file(tmp_path, "own"), "--check", "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["model"].endswith("a.model")
    assert tuple(said["columns"]) == handover.read(tmp_path / "a.model").names
    done = run_agent(tmp_path, settings_file(tmp_path, "own"), "--check")
    assert f"inputs {', '.join(said['columns'])}\n" in done.stdout


# Files


@pytest.mark.parametrize("preset", faces.PRESETS)
def test_the_file_holds_no_sample(tmp_path, preset):
    taught_in_river(preset, T=200).hand_over(tmp_path / "a.model")
    X, _ = samples(200)
    from domkl.learner import files

    _, arrays = files.parsed((tmp_path / "a.model").read_bytes())
    held = {value for array in arrays.values() for value in np.ravel(array).tolist()}
    assert sum(all(value in held for value in x) for x in X.tolist()) == 0
    assert not any(name.startswith((".recent", ".warm.samples", ".warm.before")) for name in arrays)


@pytest.mark.parametrize("preset", faces.PRESETS)
@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "flipped", "other"])
def test_a_damaged_file_is_refused_in_one_line(tmp_path, preset, damage):
    path = tmp_path / "a.model"
    taught_in_river(preset, T=100).hand_over(path)
    content = path.read_bytes()
    path.unlink()
    flipped = bytearray(content)
    flipped[-100] ^= 1
    changed = {"empty": b"", "cut": content[:-1], "flipped": flipped, "other": b"[agent]\n" * 30}
    if damage != "missing":
        path.write_bytes(changed[damage])
    with pytest.raises(
        DataError, match=r"cannot be (used|read) as a model.*; expected a file of hand_over"
    ) as error:
        handover.read(path)
    assert "\n" not in str(error.value)


def test_a_model_that_cannot_be_written_leaves_what_was_there(tmp_path):
    model = taught_in_river("first-order", T=100)
    model.hand_over(tmp_path / "a.model")
    before = (tmp_path / "a.model").read_bytes()
    with pytest.raises(DataError, match="cannot be written"):
        model.hand_over(tmp_path / "no" / "a.model")
    model.hand_over(tmp_path / "a.model")
    assert (tmp_path / "a.model").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["a.model"]


def test_handing_over_changes_nothing_in_the_model(tmp_path):
    for preset in faces.PRESETS:
        one, other = taught_in_river(preset, T=110), taught_in_river(preset, T=110)
        one.hand_over(tmp_path / "a.model")
        for x, label in zip(rows(samples(40, 6)[0]), samples(40, 6)[1], strict=True):
            assert one.predict_one(x) == other.predict_one(x)
            one.learn_one(x, label), other.learn_one(x, label)


def odd_names():
    model = river.MultiKernelRegressor()
    for k in range(70):
        model.learn_one({"0": float(k), 0: 1.0}, k)
    return model


def three_classes():
    model = river.MultiKernelClassifier()
    for k in range(9):
        model.learn_one({"a": float(k)}, k % 3)
    return model


def words():
    model = river.MultiKernelClassifier()
    for k in range(9):
        model.learn_one({"a": float(k)}, "yes" if k % 2 else "no")
    return model


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda: river.MultiKernelRegressor(), "has learnt 0 samples; expected 64 or more"),
        (lambda: river.MultiKernelRegressor(preset="auto"), "has learnt 0 samples; expected 64 or more"),
        (lambda: taught_in_river("auto", T=63), "has learnt 63 samples; expected 64 or more"),
        (lambda: taught_in_river("first-order", T=63), "has learnt 63 samples; expected 64 or more"),
        (odd_names, "inputs are called .*; expected different texts or whole numbers"),
        (three_classes, "classes are .* expected 0 and 1, or -1 and 1"),
        (words, "classes are .* expected 0 and 1, or -1 and 1"),
        (lambda: domkl.DOMKL(), "no model of one device"),
        (lambda: domkl.DOMKL("ring"), "no model of one device"),
    ],
)
def test_what_cannot_be_handed_over_is_refused_in_one_line(tmp_path, model, message):
    with pytest.raises(InputError, match=message) as error:
        model().hand_over(tmp_path / "a.model")
    assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())


def test_a_chosen_memory_is_refused():
    model = auto.Model(1, size=SIZE, forgetting=100)
    with pytest.raises(InputError, match="forgetting was chosen; expected 'auto'"):
        auto.save(model)


def test_columns_have_the_models_order_whatever_the_settings_say(tmp_path):
    taught = handed(taught_in_river("auto", T=100), tmp_path)
    assert taught.names != NAMES
    given = config(taught, tmp_path / "a.model", "a", [], ["a"], columns=NAMES)
    assert make(given)[0].stream.columns == taught.names
    other = config(taught, tmp_path / "a.model", "a", [], ["a"], columns=("wind", "hour", "snow"))
    with pytest.raises(InputError, match=r"columns has 'snow'; expected what .* was taught with"):
        make(other)


def test_numbers_are_names_too(tmp_path):
    model, (X, y) = river.MultiKernelRegressor(), samples(100)
    for x, label in zip(X, y, strict=True):
        model.learn_one(dict(enumerate(x)), label)
    taught = handed(model, tmp_path)
    assert sorted(taught.names) == ["0", "1", "2"]
    x = X[0, [int(name) for name in taught.names]]
    assert alone(taught).predict(x) == pytest.approx(model.predict_one(dict(enumerate(X[0]))), rel=1e-5)


def test_names_that_are_misspelt_are_not_missing(tmp_path):
    taught = handed(taught_in_river("auto", T=100), tmp_path)
    lines = [
        {"x": {"Wind": 3.0, "hour": 1.0}},
        {"x": {}},
        {"x": {"hour": 1.0}},
        {"x": {**rows(samples(1)[0])[0], "at": 9}},
    ]
    file = settings_file(tmp_path, taught.preset, "\n[stream]\nmissing = true")
    done = run_agent(tmp_path, file, said="\n".join(map(json.dumps, lines)))
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["index"] for line in done.stdout.splitlines()] == [2, 3]
    assert "x has no" in done.stderr


def test_an_input_that_came_late_works_in_a_network(tmp_path):
    model, (X, y) = river.MultiKernelRegressor(preset="auto", size=SIZE), samples(700)
    for t, (x, label) in enumerate(zip(rows(X), y, strict=True)):
        model.learn_one(x if t >= 600 else {name: x[name] for name in NAMES[:2]}, label)
    taught = handed(model, tmp_path)
    graph, members = ring(taught, 3)
    X, y = (np.reshape(v, (3, 30, *v.shape[1:])) for v in samples(90, seed=3))
    X = ordered(taught, X)
    for t in range(30):
        problems.feed(members, range(3), graph, X[:, t], y[:, t], np.random.default_rng(t))
    _, again = ring(taught, 3)
    again[0].load(*members[0].save())
    assert again[0].predict(X[0, 0]) == members[0].predict(X[0, 0])
    assert np.abs(sum(member.state.lam for member in members)).max() < 1e-12


def test_a_model_handed_over_early_has_the_scale_of_all_its_samples(tmp_path):
    model, (X, y) = auto.Model(D, size=SIZE), samples(500)
    for x, label in zip(X, y, strict=True):
        model.learn(x, label)
    again = auto.load(*auto.save(model))
    assert again.alone.stats.n.min() == 500
    assert model.alone.stats.n.min() == 256
    found = [
        (each.predict(x) - t) ** 2
        for x, t in zip(*samples(50, seed=2), strict=True)
        for each in (model, again)
    ]
    assert np.mean(found[1::2]) < 1.1 * np.mean(found[::2])


def test_a_model_handed_over_in_the_middle_of_a_change_does_not_begin_from_nothing(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(1000, D))
    y = X[:, 0] + np.where(np.arange(1000) < 800, 1, -1) * np.sin(4 * X[:, 1])
    model = auto.Model(D, size=SIZE)
    for t in range(1000):
        before = model.alone.restarts
        if t >= 800:
            taught = handover.Taught(auto.load(*auto.save(model)), ())
        model.learn(X[t], y[t])
        if model.alone.restarts > before:
            break
    assert 800 < t < 999
    device = alone(taught)
    for s in range(t, min(t + 20, 1000)):
        device.observe(X[s], y[s])
    assert device.one.restarts == 0


def test_what_another_version_saved_is_refused(tmp_path):
    model, (X, y) = auto.Model(D, size=SIZE), samples(100)
    for x, label in zip(X, y, strict=True):
        model.learn(x, label)
    arrays, meta = auto.save(model)
    meta["mind"]["layout"] = "other"
    with pytest.raises(DataError, match="another version of domkl; expected this one's layout"):
        auto.load(arrays, meta)
