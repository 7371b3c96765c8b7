"""Dataset, Split, embed, scaling, and what the package exposes."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from domkl import datasets
from domkl.base.errors import DataError, InputError
from domkl.datasets import Dataset, Split, embed
from domkl.datasets.dataset import X_SCALES, Y_SCALES, scale_x, scale_y


def toy(N: int, d: int = 2) -> Dataset:
    X = np.arange(float(N * d)).reshape(N, d)
    return Dataset("toy", X, np.arange(float(N)), tuple(f"f{i}" for i in range(d)), "y")


def test_all_is_what_is_promised():
    promised = "Dataset Entry Split Table catalogue embed fetch load load_stations read_table"
    assert sorted(datasets.__all__) == [
        "CellError",
        "Columns",
        "Dataset",
        "Encoded",
        "Encoder",
        *promised.split()[1:],
    ]
    assert all(hasattr(datasets, name) for name in datasets.__all__)


def test_import_needs_numpy_and_the_standard_library_only():
    code = (
        "import sys, domkl.datasets; "
        "late = {'urllib.request', 'http.client', 'pyarrow', 'matplotlib', 'xml.etree', 'domkl.simulator'}; "
        "sys.exit(', '.join(late & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@given(st.integers(1, 60), st.integers(1, 12), st.sampled_from(["blocks", "random", "interleaved"]))
def test_split_hands_out_each_row_once(N, J, how):
    data = toy(N)
    if N < J:
        with pytest.raises(InputError, match=f"at most {N}"):
            data.split(J, how)
        return
    part = data.split(J, how, seed=3)
    assert part.X.shape == (J, N // J, 2)
    assert part.left_out == N % J
    assert len(set(part.y.ravel())) == J * (N // J)
    np.testing.assert_array_equal(part.X[..., 0], 2 * part.y)
    assert part.names == tuple(str(j + 1) for j in range(J))


def test_split_orders():
    data = toy(7)
    assert data.split(3, "blocks").y.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert data.split(3, "interleaved").y.tolist() == [[0, 3], [1, 4], [2, 5]]
    a, b, c = (data.split(2, "random", seed=s).y.tolist() for s in (1, 1, 2))
    assert a == b != c


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: toy(4).split(0), "J is 0; expected a whole number of at least 1"),
        (lambda: toy(4).split(2.0), "J is 2.0; expected a whole number"),
        (lambda: toy(4).split(2, "block"), "did you mean 'blocks'"),
        (lambda: toy(4).scaled(x="min-max"), "did you mean 'minmax'"),
        (lambda: toy(4).scaled(y="standard"), "expected one of none, max, minmax"),
        (lambda: Split(np.ones((2, 3)), np.ones((2, 3))), "give X \\(J, T, d\\)"),
        (lambda: Split(np.ones((2, 3, 1)), np.ones((2, 3)), ("a",)), "one name per learner"),
        (lambda: Dataset("n", np.ones((2, 1)), np.ones(3), ("a",), "y"), "give X \\(N, d\\)"),
        (lambda: Dataset("n", np.ones((2, 1)), np.ones(2), (), "y"), "0 names for 1 features"),
        (lambda: embed([1.0, 2.0], 2), "more than 2 values"),
        (lambda: embed(np.ones((3, 3)), 1), "shape \\(3, 3\\)"),
        (lambda: embed([1.0, 2.0], 0), "p is 0"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(InputError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


@given(arrays(float, st.integers(2, 30), elements=st.floats(-1e6, 1e6)), st.data())
def test_embed_is_its_naive_twin(series, data):
    p = data.draw(st.integers(1, len(series) - 1))
    X, y = embed(series, p)
    naive = [[series[t - lag] for lag in range(1, p + 1)] for t in range(p, len(series))]
    np.testing.assert_array_equal(X, naive)
    np.testing.assert_array_equal(y, series[p:])


TABLES = arrays(
    float, st.tuples(st.integers(1, 8), st.integers(1, 4)), elements=st.floats(-1e3, 1e3, width=32)
)


@given(TABLES)
def test_scaled_ranges(X):
    for how in X_SCALES:
        S = scale_x(X, how)
        assert S.shape == X.shape
        assert np.isfinite(S).all()
    S = scale_x(X, "minmax")
    constant = np.ptp(X, axis=0) == 0
    assert (S[:, constant] == 0).all()
    assert S.min() >= 0
    assert S.max() <= 1
    np.testing.assert_array_equal(S.max(axis=0), np.where(constant, 0, 1))
    assert scale_x(X, "none") is X


@given(arrays(float, st.integers(1, 8), elements=st.floats(-1e3, 1e3, width=32)))
def test_scaled_targets(y):
    for how in Y_SCALES:
        assert np.isfinite(scale_y(y, how)).all()
    assert np.abs(scale_y(y, "max")).max() == (1 if y.any() else 0)
    assert scale_y(y, "minmax").min() == 0


@pytest.mark.parametrize(("column", "name"), [(0, "a"), (1, "b"), (2, "y")])
def test_a_range_beyond_all_numbers_is_refused_with_its_column(column, name):
    V = np.arange(12.0).reshape(4, 3)
    V[:2, column] = 1e308, -1e308
    data = Dataset("t.csv", V[:, :2], V[:, 2], ("a", "b"), "y")
    with pytest.raises(DataError, match=rf"t.csv, column '{name}': values from -1e\+308 to 1e\+308 cannot"):
        data.scaled("minmax", "minmax")


def test_scaled_leaves_the_original_alone():
    data = toy(5)
    before = data.X.copy(), data.y.copy()
    scaled = data.scaled("minmax", "max")
    assert scaled.X.max() == scaled.y.max() == 1
    np.testing.assert_array_equal(data.X, before[0])
    np.testing.assert_array_equal(data.y, before[1])


def test_scaling_by_the_start_looks_at_no_later_round():
    rng = np.random.default_rng(0)
    split = Split(rng.normal(size=(2, 30, 3)), 100 + rng.normal(size=(2, 30)))
    scaled, width = split.scaled_by_start(10)
    later = Split(split.X.copy(), split.y.copy())
    later.X[:, 10:] *= 50
    later.y[:, 10:] *= 50
    other, same_width = later.scaled_by_start(10)
    np.testing.assert_array_equal(other.X[:, :10], scaled.X[:, :10])
    np.testing.assert_array_equal(other.y[:, :10], scaled.y[:, :10])
    assert same_width == width == np.ptp(split.y[:, :10])
    assert (other.X.min(), other.X.max()) == (0, 1)
    assert other.y.max() > 1000  # a target is not clipped: its errors count in full


def test_what_is_constant_at_the_start_keeps_its_unit():
    split = Split(np.array([[[5.0], [5.0], [5.25], [9.0]]]), np.array([[2.0, 2.0, 2.0, 7.0]]))
    scaled, width = split.scaled_by_start(2)
    assert scaled.X[0, :, 0].tolist() == [0, 0, 0.25, 1]
    assert (scaled.y[0].tolist(), width) == ([0, 0, 0, 5], 1)
    assert split.scaled_by_start(target=False)[0].y is split.y
