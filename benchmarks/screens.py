"""Byzantine-robust combinations of the literature, as screens: `domkl.Exchange(screen=...)`.

Each gets a receiver's own parameters (P, K) and its neighbours' (n, P, K), and returns what takes the
neighbours' places. `b` is how many of the neighbours may lie, which each of these rules has to know.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

import domkl


def trimmed_mean(own: np.ndarray, others: np.ndarray, b: int = 1) -> np.ndarray:
    """Coordinate-wise trimmed mean of all, the b largest and b least left out.

    D. Yin, Y. Chen, K. Ramchandran, P. Bartlett: Byzantine-robust distributed learning (ICML 2018).
    """
    values = np.sort(np.concatenate([own[None], others]), 0)
    b = min(b, (len(values) - 1) // 2)
    return np.broadcast_to(values[b : len(values) - b].mean(0), others.shape)


def clipped_gossip(own: np.ndarray, others: np.ndarray, b: int = 1) -> np.ndarray:
    """Neighbours no further away than the (n - b)-th nearest of them: others are moved to that distance.

    L. He, S. P. Karimireddy, M. Jaggi: Byzantine-robust decentralized learning via ClippedGossip (2022).
    Their radius needs the spread of the honest ones; here it is estimated with the b farthest left out.
    """
    gap = others - own
    far = np.sqrt((gap.astype(np.float64) ** 2).sum((-1, -2)))
    radius = np.sort(far)[max(len(far) - b, 1) - 1]
    shrink = np.minimum(1, radius / np.maximum(far, 1e-300))
    return own + gap * shrink[:, None, None].astype(gap.dtype)


def krum(own: np.ndarray, others: np.ndarray, b: int = 1) -> np.ndarray:
    """The one of all that is nearest to its n - b - 2 nearest; at least one, where n is as small as here.

    P. Blanchard, E. M. El Mhamdi, R. Guerraoui, J. Stainer: Machine learning with adversaries (NIPS 2017).
    """
    values = np.concatenate([own[None], others]).astype(np.float64)
    apart = ((values[:, None] - values[None]) ** 2).sum((-1, -2))
    near = np.sort(apart, 1)[:, 1 : 1 + max(len(values) - b - 2, 1)]
    best = values[near.sum(1).argmin()].astype(own.dtype)
    return np.broadcast_to(best, others.shape)


def nearest(own: np.ndarray, others: np.ndarray, b: int = 1) -> np.ndarray:
    """The first stage of UBAR: the b farthest neighbours are replaced by the mean of the others.

    S. Guo et al.: Byzantine-resilient decentralized stochastic gradient descent (2021). Its second stage, the
    errors on the receiver's own samples, is what a screen of parameters cannot see.
    """
    far = ((others - own).astype(np.float64) ** 2).sum((-1, -2))
    keep = np.argsort(far, kind="stable")[: max(len(far) - b, 1)]
    return np.broadcast_to(others[keep].mean(0), others.shape)


SCREENS: dict[str, Callable[..., np.ndarray]] = {
    "trimmed mean": trimmed_mean,
    "clipped gossip": clipped_gossip,
    "Krum": krum,
    "nearest (UBAR 1)": nearest,
}


def exchange_of(defence: str, b: int) -> domkl.Exchange:
    """The exchange of a defence; of any other name, messages as they are."""
    screen = SCREENS.get(defence)
    return domkl.Exchange(screen=None if screen is None else functools.partial(screen, b=b))
