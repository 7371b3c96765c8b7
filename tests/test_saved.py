"""Saved models: they go on with the same bits, and files that are damaged or lie are refused in one line."""

from __future__ import annotations

import os
import stat
import subprocess
import sys

import numpy as np
import pytest

import domkl
import problems
from domkl.base.errors import DataError, Error, InputError
from domkl.base.places import refuse_device
from domkl.datasets.columns import Columns
from domkl.faces.saved import About
from domkl.learner import files, schema
from problems import taught

AUTO = domkl.Auto(size=60)
#: Every kind of model: of numbers and classes, of one device and a network, early and late.
KINDS = {
    "auto": (None, AUTO, 150),
    "auto, early": (None, domkl.Auto(size=60, outliers="keep"), 3),
    "auto, classes": (None, domkl.Auto(size=60, loss="logistic"), 150),
    "auto, network": ("path", AUTO, 150),
    "auto, network, early": ("path", domkl.Auto(size=60, bounds=(-9, 9)), 3),
    "auto, network, classes": ("ring", domkl.Auto(size=60, loss="logistic", forgetting="none"), 150),
    "paper": (None, domkl.Paper(), 150),
    "paper, classes": (None, domkl.Paper(kernels=domkl.KernelSpec(D=9), loss="logistic"), 70),
}


def streams(kind, T=230, J=4):
    graph, settings, _ = KINDS[kind]
    X, y = problems.streams(J, T, 3, classify=settings.loss_function.classifies)
    X[0, ::7, 1] = np.nan
    return (X[0], y[0]) if graph is None else (X.swapaxes(0, 1), y.T)


def model(kind):
    graph, settings, n = KINDS[kind]
    X, y = streams(kind)
    made = domkl.DOMKL(graph, model=settings)
    taught(made, X[:n], y[:n])
    return made, X[n:], y[n:]


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_model_goes_on_with_the_same_bits(tmp_path, kind):
    one, X, y = model(kind)
    one.about = About(("a", "b", "c"), "y", "°C", Columns("y", ("a", "b", "c")), 1.5, 2.0)
    one.save(tmp_path / "m.domkl")
    other = domkl.DOMKL.load(tmp_path / "m.domkl")
    assert (other.n, other.d, other.learners, other.about) == (one.n, one.d, one.learners, one.about)
    assert repr(other) == repr(one)
    np.testing.assert_array_equal(taught(one, X, y), taught(other, X, y))
    np.testing.assert_array_equal(one.interval(X[0]), other.interval(X[0]))


def test_inputs_that_came_later_are_saved_too(tmp_path):
    X, y = problems.streams(1, 220, 3)
    one = domkl.DOMKL(model=AUTO)
    taught(one, X[0, :100, :2], y[0, :100])
    one.grow(3)
    taught(one, X[0, 100:110], y[0, 100:110])
    one.save(tmp_path / "m.domkl")
    other = domkl.DOMKL.load(tmp_path / "m.domkl")
    np.testing.assert_array_equal(taught(one, X[0, 110:], y[0, 110:]), taught(other, X[0, 110:], y[0, 110:]))


def test_a_simulation_leaves_a_model_behind(tmp_path):
    X, y = problems.streams(4, 90, 3)
    for dtype in (np.float64, np.float32):
        run = domkl.simulate(X[:, :60], y[:, :60], "path", model=AUTO, keep_model=True, dtype=dtype)
        left = domkl.DOMKL.from_run(run, y[:, :60])
        whole = domkl.simulate(X, y, "path", model=AUTO, dtype=dtype)
        left.save(tmp_path / "m.domkl")
        for each in (left, domkl.DOMKL.load(tmp_path / "m.domkl")):
            mine = taught(each, X[:, 60:].swapaxes(0, 1), y[:, 60:].T)
            np.testing.assert_array_equal(mine.T, whole.y_hat[:, 60:])
            low, high = each.interval(X[:, 0])
            assert np.isfinite(high - low).all()
    with pytest.raises(InputError, match="kept no model; expected simulate"):
        domkl.DOMKL.from_run(whole)
    with pytest.raises(InputError, match="keep_model is given; expected model"):
        domkl.simulate(X, y, "path", model=domkl.Paper(), keep_model=True)


def test_what_has_learnt_nothing_is_not_saved(tmp_path):
    with pytest.raises(InputError, match="has learnt nothing; expected a sample"):
        domkl.DOMKL().save(tmp_path / "m.domkl")
    with pytest.raises(DataError, match="cannot be written"):
        model("auto, early")[0].save(tmp_path / "nowhere" / "m.domkl")
    assert list(tmp_path.iterdir()) == []


def test_saving_needs_numpy_alone(tmp_path):
    code = """
import sys
for name in ("safetensors", "rich", "msgspec", "pickle5", "pandas"):
    sys.modules[name] = None
import domkl
model = domkl.DOMKL(model=domkl.Auto(size=16))
model.learn([1.0], 2.0)
model.save("m.domkl")
print(domkl.DOMKL.load("m.domkl").n)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "1"


def refused(path):
    with pytest.raises(DataError) as error:
        domkl.DOMKL.load(path)
    assert "\n" not in str(error.value)
    assert str(error.value).count("; ") == 2, error.value
    return str(error.value)


@pytest.mark.parametrize("damage", ["missing", "folder", "empty", "cut", "flipped", "other", "model"])
def test_damaged_files_are_refused_in_one_line(tmp_path, damage):
    path, (one, *_) = tmp_path / "m.domkl", model("auto")
    one.save(path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    changed = {"empty": b"", "cut": path.read_bytes()[:-1], "flipped": bytes(content), "other": b"a,b\n" * 30}
    if damage in ("missing", "folder", "model"):
        path.unlink()
    if damage == "folder":
        path.mkdir()
    elif damage == "model":
        one.hand_over(path)
    elif damage != "missing":
        path.write_bytes(changed[damage])
    assert str(path) in refused(path)


def rewritten(path, change):
    """The file after a change to its state, under a right digest."""
    arrays, meta = files.unseal(path.read_bytes())
    state = schema.read("estimator", arrays, meta)
    change(state)
    path.write_bytes(files.seal(*schema.document("estimator", state)))


@pytest.mark.parametrize("size", [1e-90, 1e55, 1e99])
def test_a_model_of_tiny_or_huge_labels_is_saved_and_loaded(tmp_path, size):
    X, y = problems.streams(1, 80, 2)
    one = domkl.DOMKL(model=domkl.Auto(size=60))
    for x, label in zip(X[0], size * y[0], strict=True):
        one.learn(x, label)
    one.save(tmp_path / "m.domkl")
    assert domkl.DOMKL.load(tmp_path / "m.domkl").predict(X[0, 0]) == one.predict(X[0, 0])


@pytest.mark.parametrize(
    ("where", "value"),
    [("recent age", -5), ("memory count", -1), ("inverse n", 10**6), ("scale number", -1)],
)
def test_counts_that_cannot_be_are_refused(tmp_path, where, value):
    one, _, _ = model("auto, network, early")
    one.save(tmp_path / "m.domkl")

    def change(state):
        put(state, ("rows", "rows", *where.split()), lambda counts: np.full_like(counts, value))

    rewritten(tmp_path / "m.domkl", change)
    with pytest.raises(DataError):
        domkl.DOMKL.load(tmp_path / "m.domkl")


def places_of(value, path=()):
    """Where a state holds a number, a text, an array or nothing."""
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places_of(value[key], (*path, key))
    else:
        yield path


def put(state, path, lie):
    for key in path[:-1]:
        state = state[key]
    state[path[-1]] = lie(state[path[-1]])


#: Lies about an array, and about anything else.
ARRAYS = [
    lambda a: np.full_like(a, np.nan) if a.dtype.kind == "f" else a.astype(float) + np.nan,
    lambda a: a[..., None],
    lambda a: np.repeat(a, 2, 0) if a.ndim else np.zeros(5),
    lambda a: a[:0] if a.ndim and a.size else np.zeros((3, 3)),
    lambda a: None,
    lambda a: np.full(a.shape, 2**62, np.int64),
    lambda a: np.full_like(a, 1e300) if a.dtype.kind == "f" else 7,
]
OTHERS = [
    lambda v: 2**63 - 1,
    lambda v: -1,
    lambda v: float("nan"),
    lambda v: None,
    lambda v: "x" * 20_000,
    lambda v: [],
    lambda v: {"a": 1},
    lambda v: np.zeros((2, 2)),
]


@pytest.mark.parametrize("kind", ["auto, network", "auto, network, early", "paper"])
def test_files_that_lie_are_refused_or_do_no_harm(tmp_path, kind):
    """One place at a time; what is loaded all the same predicts and learns without an error of Python."""
    one, X, y = model(kind)
    path = tmp_path / "m.domkl"
    one.save(path)
    content = path.read_bytes()
    state = schema.read("estimator", *files.unseal(content))
    rng, tally = np.random.default_rng(0), {"refused": 0, "loaded": 0}
    every = list(places_of(state))
    for where in (every[i] for i in rng.permutation(len(every))[:60]):
        value = state
        for key in where:
            value = value[key]
        lies = ARRAYS if isinstance(value, np.ndarray) else OTHERS
        for lie in rng.permutation(len(lies))[:1]:
            path.write_bytes(content)
            rewritten(path, lambda s, where=where, lie=lies[lie]: put(s, where, lie))
            try:
                loaded = domkl.DOMKL.load(path)
            except DataError:
                tally["refused"] += 1
                continue
            tally["loaded"] += 1
            with np.errstate(all="ignore"):
                loaded.predict(X[0])
                loaded.learn(X[0], y[0])
    assert tally["refused"] > 3 * tally["loaded"], tally


def test_a_device_without_end_is_no_model():
    with pytest.raises(DataError, match="a device, which has no end"):
        domkl.DOMKL.load("/dev/zero")


def test_columns_that_would_make_endless_inputs_are_not_made(tmp_path):
    one, *_ = model("auto")
    path = tmp_path / "m.domkl"
    one.save(path)
    names = [f"c{i}" for i in range(50_000)]
    texts = {"features": names, "kinds": dict.fromkeys(names, "text"), "hashed": 1024}  # 51 million inputs
    rewritten(path, lambda state: state["about"].update(columns=texts))
    assert "its columns make other inputs" in refused(path)


def test_nothing_takes_the_place_of_a_pipe_or_a_device(tmp_path):
    one, *_ = model("auto")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Error, match="it is a device or a pipe"):
        one.save(tmp_path / "pipe")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    with pytest.raises(OSError, match="it is a device or a pipe"):
        refuse_device("/dev/stdout")
