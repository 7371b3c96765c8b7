"""Kernel dictionaries as random features: each kernel p becomes D frequencies, V[p] of shape (D, d).

A learner computes with z_p(x) = [sin V_p x, cos V_p x] / sqrt(D), whose inner products approach the kernel
as D grows (Bochner's theorem). All learners of a network must hold the same V: make it from the same
seed, and compare `fingerprint(V)`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ..base import checks
from ..base.errors import InputError
from ..base.types import Array

#: sigma_p^2 = 10^((p - 9)/2), p = 1..17: the paper's dictionary.
PAPER_SIGMA2: tuple[float, ...] = tuple(10.0 ** ((p - 9) / 2) for p in range(1, 18))

Seed: TypeAlias = "int | str | bytes"
Sampler: TypeAlias = Callable[[np.random.Generator, int, int], Array]


def gaussian(
    d: int,
    D: int = 50,
    seed: Seed = 0,
    sigma2: float | Sequence[float] | None = None,
) -> Array:
    """Frequencies of Gaussian kernels exp(-|x - x'|^2 / (2 sigma^2)): normal with variance 1/sigma^2.

    Parameters
    ----------
    d : number of input features.
    D : random features for each kernel.
    seed : a number, or a secret text or bytes key; learners with the same seed get the same V.
    sigma2 : squared bandwidths, one for each kernel; the paper's 17 by default.

    Examples
    --------
    >>> from domkl import kernels
    >>> V = kernels.gaussian(d=21, D=50, seed=0)
    >>> V.shape
    (17, 50, 21)

    References
    ----------
    Rahimi and Recht, "Random features for large-scale kernel machines", 2007.
    """
    return _dictionary(lambda rng, n, k: rng.standard_normal((n, k)), d, D, seed, sigma2)


def laplacian(d: int, D: int = 50, seed: Seed = 0, sigma2: float | Sequence[float] | None = None) -> Array:
    """Frequencies of Laplacian kernels exp(-|x - x'|_1 / sigma): Cauchy with scale 1/sigma."""
    return _dictionary(lambda rng, n, k: rng.standard_cauchy((n, k)), d, D, seed, sigma2)


def cauchy(d: int, D: int = 50, seed: Seed = 0, sigma2: float | Sequence[float] | None = None) -> Array:
    """Frequencies of Cauchy kernels prod_k 1/(1 + (x_k - x'_k)^2 / sigma^2): Laplace with scale 1/sigma."""
    return _dictionary(lambda rng, n, k: rng.laplace(size=(n, k)), d, D, seed, sigma2)


def fingerprint(V: Array) -> str:
    """A hash of V, sixteen hexadecimal digits: differs when V differs in shape or in any bit.

    >>> from domkl import kernels
    >>> same = kernels.gaussian(3, 4, seed="key"), kernels.gaussian(3, 4, seed="key")
    >>> kernels.fingerprint(same[0]) == kernels.fingerprint(same[1])
    True
    """
    exact = np.ascontiguousarray(V, dtype="<f8")
    return hashlib.sha256(repr(exact.shape).encode() + exact.tobytes()).hexdigest()[:16]


def check(V: npt.ArrayLike, d: int | None = None, dtype: npt.DTypeLike = np.float64) -> Array:
    """V as an array of shape (P, D, d), converted and checked; raises InputError."""
    array = checks.finite("kernels", checks.floats("kernels", V, checks.float_type(dtype)))
    if array.ndim != 3 or 0 in array.shape:
        raise InputError(
            f"kernels has shape {array.shape}; expected (P, D, d); make it with domkl.kernels.gaussian(d, D)"
        )
    if d is not None and array.shape[2] != d:
        raise InputError(
            f"kernels are for {array.shape[2]} features but x has {d}; expected the same number; "
            f"make them with domkl.kernels.gaussian(d={d})"
        )
    return _inputs_last(array)


def _inputs_last(V: Array) -> Array:
    """The same V, laid out in memory as the matrix (d, P*D) that `first_order.features` multiplies x with."""
    P, D, d = V.shape
    return np.asarray(np.ascontiguousarray(V.reshape(P * D, d).T).T.reshape(P, D, d))


def _dictionary(sample: Sampler, d: int, D: int, seed: Seed, sigma2: float | Sequence[float] | None) -> Array:
    d, D = checks.count("d", d), checks.count("D", D)
    rng = np.random.default_rng(_entropy(seed))
    variances = np.atleast_1d(checks.floats("sigma2", PAPER_SIGMA2 if sigma2 is None else sigma2))
    if variances.size == 0:
        raise InputError(
            "sigma2 is empty; expected one number for each kernel; leave it out for the paper's 17"
        )
    sigmas = [np.sqrt(checks.positive("sigma2", v)) for v in variances]
    return np.stack([sample(rng, D, d) / sigma for sigma in sigmas])  # (P, D, d)


def _entropy(seed: Seed) -> int:
    """Text and bytes become 256 bits, so that V cannot be guessed without the key."""
    if isinstance(seed, str):
        seed = seed.encode()
    if isinstance(seed, bytes):
        return int.from_bytes(hashlib.sha256(seed).digest(), "big")
    return checks.count("seed", seed, least=0)


__all__ = ["PAPER_SIGMA2", "cauchy", "check", "fingerprint", "gaussian", "laplacian"]


def __dir__() -> list[str]:
    return __all__
