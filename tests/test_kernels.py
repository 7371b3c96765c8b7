from __future__ import annotations

import numpy as np
import pytest

import naive
from domkl.base.errors import InputError
from domkl.learning import first_order, kernels

FAMILIES = {
    "gaussian": (kernels.gaussian, naive.gaussian_kernel),
    "laplacian": (kernels.laplacian, naive.laplacian_kernel),
    "cauchy": (kernels.cauchy, naive.cauchy_kernel),
}


def worst_error(make, exact, D, sigma2, **options):
    """Root mean square, over pairs of points and 20 seeds, of features' products minus the kernel."""
    rng = np.random.default_rng(1)
    pairs = rng.uniform(-1, 1, size=(30, 2, 3))
    expected = np.array([exact(a, b, sigma2) for a, b in pairs])
    squares = []
    for seed in range(20):
        V = make(3, D=D, seed=seed, sigma2=sigma2, **options)
        z = first_order.features(V, pairs)[:, :, 0]
        squares.append((first_order.dot(z[:, 0], z[:, 1]) - expected) ** 2)
    return np.sqrt(np.mean(squares))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("sigma2", [0.3, 1.0, 4.0])
def test_features_converge_to_the_exact_kernel_as_D_grows(family, sigma2):
    make, exact = FAMILIES[family]
    few, many = worst_error(make, exact, 50, sigma2), worst_error(make, exact, 3200, sigma2)
    assert many < 0.02
    assert 5 < few / many < 13  # 1/sqrt(D) says 8


def test_the_default_is_the_papers_dictionary():
    assert kernels.gaussian(2).shape == (17, 50, 2)
    np.testing.assert_allclose(kernels.PAPER_SIGMA2, [10 ** ((p - 9) / 2) for p in range(1, 18)])
    spread = kernels.gaussian(5, D=2000).std(axis=(1, 2)) * np.sqrt(kernels.PAPER_SIGMA2)
    np.testing.assert_allclose(spread, 1, rtol=0.05)


def test_features_have_length_one_and_match_sin_and_cos():
    rng = np.random.default_rng(0)
    V = kernels.gaussian(4, D=7) * 30  # angles far beyond a turn
    x = rng.standard_normal((50, 4))
    z = first_order.features(V, x)
    np.testing.assert_allclose(first_order.dot(z, z), 1, rtol=1e-13)
    literal = [[naive.z_of(V_p, x_t) for V_p in V] for x_t in x]
    np.testing.assert_allclose(z, literal, atol=1e-11)


def test_seeds_and_keys():
    same = kernels.gaussian(3, seed=7), kernels.gaussian(3, seed=7)
    np.testing.assert_array_equal(*same)
    prints = {kernels.fingerprint(kernels.gaussian(3, seed=s)) for s in (7, 8, "secret", b"secret2")}
    assert len(prints) == 4
    np.testing.assert_array_equal(kernels.gaussian(3, seed="secret"), kernels.gaussian(3, seed=b"secret"))


def test_the_fingerprint_sees_every_bit_and_the_shape_but_not_the_layout():
    V = kernels.gaussian(3, D=4, sigma2=1.0)
    other = V.copy()
    other[0, 2, 1] = np.nextafter(other[0, 2, 1], 9)
    assert kernels.fingerprint(V) != kernels.fingerprint(other)
    assert kernels.fingerprint(V) != kernels.fingerprint(V.reshape(2, 2, 3))
    assert kernels.fingerprint(V) == kernels.fingerprint(np.asfortranarray(V))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: kernels.gaussian(0), "d is 0; expected a whole number of at least 1"),
        (lambda: kernels.gaussian(2, D=1.5), "D is 1.5; expected a whole number"),
        (lambda: kernels.gaussian(2, seed=-1), "seed is -1"),
        (lambda: kernels.gaussian(2, sigma2=[1, -1]), "sigma2 is -1.0; expected a finite number above 0"),
        (lambda: kernels.check(np.zeros((2, 3))), r"kernels has shape \(2, 3\); expected \(P, D, d\)"),
        (lambda: kernels.check(np.zeros((1, 2, 3)), d=4), "kernels are for 3 features but x has 4"),
        (lambda: kernels.check([[[np.nan]]]), r"kernels\[0, 0, 0\] is nan"),
        (lambda: kernels.check([[["a"]]]), "kernels cannot be read as numbers"),
    ],
)
def test_bad_requests_are_named(call, message):
    with pytest.raises(InputError, match=message):
        call()
