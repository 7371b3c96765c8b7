"""The demo: ten sites run engines to failure, and predict how many cycles each has left.

How many cycles an engine has left is known when it has failed; a new engine's are capped, since nothing shows
yet that it wears. Every site runs its k-th engine to failure; then all learn what it showed, in rounds in
step, and begin with the next one.
"""

from __future__ import annotations

import gzip
import io
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import datasets
from ..base.extras import need
from ..base.types import Array
from ..exchange.graph import LONE, GraphLike, as_graph
from ..exchange.message import Exchange
from ..exchange.network import Network
from ..learning.model import Model
from ..models.settings import Auto
from ..simulator import Progress
from ..simulator.driver import connected

SITES, ENGINES = 10, 4
#: Cycles of a life that are learnt, evenly spaced; neighbouring ones say nearly the same.
LEARNT = 150
MODEL = Auto(size=200)


#: NASA's simulation of engines that run to failure: see `datasets/data/README.md`.
FILE = Path(datasets.__file__).parent / "data" / "turbofan.csv.gz"
#: Cycles: the longest life that is told apart, the window of the means, and an engine's start.
MOST, WINDOW, START = 125, 10, 20


class Engine(NamedTuple):
    """One life, a row for each of T cycles."""

    X: Array  # (T, 48) means of 24 readings, and how they differ from the engine's start
    y: Array  # (T,) cycles until it fails, at most `MOST`


@lru_cache(maxsize=1)
def load_engines() -> tuple[Engine, ...]:
    """A hundred engines. Every input uses the cycles so far alone.

    >>> engines = load_engines()
    >>> len(engines), engines[0].X.shape, engines[0].y[[0, -1]].tolist()
    (100, (192, 48), [125.0, 0.0])
    """
    text = gzip.decompress(FILE.read_bytes()).decode()
    table = np.loadtxt(io.StringIO(text), delimiter=",", skiprows=1)
    return tuple(_engine(table[table[:, 0] == number, 2:]) for number in np.unique(table[:, 0]))


def _engine(readings: Array) -> Engine:
    """Readings (T, 24) as inputs, with the cycles that remain."""
    T = len(readings)
    so_far = np.concatenate([np.zeros((1, readings.shape[1])), np.cumsum(readings, axis=0)])
    t = np.arange(1, T + 1)
    first = np.maximum(0, t - WINDOW)
    recent = (so_far[t] - so_far[first]) / (t - first)[:, None]
    known = np.minimum(t, START)
    at_start = so_far[known] / known[:, None]
    return Engine(np.hstack([recent, recent - at_start]), np.minimum(T - t, MOST).astype(np.float64))


class Life(NamedTuple):
    """What was predicted at each cycle of an engine. (T,) each"""

    truth: Array
    together: Array
    alone: Array  # by a learner of the same kind that never listened


class FleetRun(NamedTuple):
    """What happened: the lives of each site, in order."""

    lives: list[list[Life]]

    def error(self, which: str, k: int) -> float:
        """Typical error in cycles (RMSE) of all sites on their k-th engine; 1 is the second."""
        found = [getattr(site[k], which) - site[k].truth for site in self.lives]
        return float(np.sqrt(np.mean(np.concatenate(found) ** 2)))

    @property
    def ratio(self) -> float:
        """Error together over error alone, from the second engine on."""
        later = range(1, len(self.lives[0]))
        together, alone = (np.mean([self.error(name, k) for k in later]) for name in ("together", "alone"))
        return float(together / alone)


def run_fleet(
    engines: int = ENGINES,
    seed: int = 0,
    graph: GraphLike = "complete",
    progress: Progress | None = None,
) -> FleetRun:
    """Let ten sites run so many engines each, in an order drawn with `seed`, together and each alone.

    >>> found = run_fleet(engines=2)
    >>> found.error("together", 1) < found.error("alone", 1)
    True
    """
    order = np.random.default_rng(seed).permutation(len(load_engines()))
    sites = [[load_engines()[i] for i in row[:engines]] for row in order.reshape(SITES, -1)]
    done, total = 0, SITES + 1

    def played(parts: list[list[Engine]], links: GraphLike) -> list[list[Array]]:
        nonlocal done
        found = _play(parts, links, seed)
        done += 1
        if progress is not None:
            progress(done, total)
        return found

    together = played(sites, graph)
    alone = [played([site], LONE)[0] for site in sites]
    return FleetRun(
        [
            [Life(each.y, a, b) for each, a, b in zip(*rows, strict=True)]
            for rows in zip(sites, together, alone, strict=True)
        ]
    )


def _play(sites: list[list[Engine]], graph: GraphLike, seed: int) -> list[list[Array]]:
    """Every site's predictions, engine by engine."""
    network = Network(as_graph(graph, len(sites)), Exchange())
    model = connected(MODEL, sites[0][0].X.shape[1], network, np.float64)
    rng, found = np.random.default_rng(seed), []
    for k in range(len(sites[0])):
        engines = [site[k] for site in sites]
        found.append(_predict(model, engines))
        _learn(model, network, engines, rng)
    return [list(site) for site in zip(*found, strict=True)]


def _predict(model: Model, engines: list[Engine]) -> list[Array]:
    """What each site predicts at each cycle of its engine; a shorter life repeats its last cycle."""
    longest = max(len(each.y) for each in engines)
    rows = [np.minimum(np.arange(longest), len(each.y) - 1) for each in engines]
    X = np.stack([each.X[at] for each, at in zip(engines, rows, strict=True)])  # (J, T, d)
    y_hat = np.stack([model.predict(X[:, t]).y_hat[:, 0] for t in range(longest)], axis=1)
    return [row[: len(each.y)] for row, each in zip(y_hat, engines, strict=True)]


def _learn(model: Model, network: Network, engines: list[Engine], rng: np.random.Generator) -> None:
    """A round for each label that is learnt: in any order, as all of them became known at once."""
    picked = [_spread(len(each.y), rng) for each in engines]
    X = np.stack([each.X[at] for each, at in zip(engines, picked, strict=True)])
    y = np.stack([each.y[at] for each, at in zip(engines, picked, strict=True)])
    # Experts and neighbours are judged by what they said of this engine before any of its life was known.
    earlier = [model.predict(X[:, t]) for t in range(LEARNT)]
    for t in range(LEARNT):
        outgoing = model.learn(model.predict(X[:, t]), y[:, [t]], earlier[t])
        model.merge(network.exchange_round(model, outgoing))


def _spread(T: int, rng: np.random.Generator) -> npt.NDArray[np.intp]:
    return rng.permutation(np.linspace(0, T - 1, LEARNT).round().astype(np.intp))


def draw(found: FleetRun, path: Path) -> Path:
    """The errors over the engines, and one engine's remaining life as it was predicted."""
    figure, (left, right) = need("matplotlib.pyplot", "cli").subplots(
        1, 2, figsize=(8, 3.1), layout="constrained"
    )
    later = np.arange(1, len(found.lives[0]))
    _errors(left, found, later)
    _life(right, found.lives[0][min(2, later[-1])], min(2, int(later[-1])))
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    need("matplotlib.pyplot", "cli").close(figure)
    return path


STYLES = {
    "alone": {"color": "#d55e00", "marker": "s", "linestyle": "--"},
    "together": {"color": "#0072b2", "marker": "o", "linestyle": "-"},
}


def _errors(axes: Any, found: FleetRun, later: npt.NDArray[np.intp]) -> None:
    for which, style in STYLES.items():
        axes.plot(later + 1, [found.error(which, int(k)) for k in later], label=which, **style)
    axes.set(xlabel="a site's n-th engine", ylabel="typical error, cycles", xticks=later + 1)
    axes.set_ylim(bottom=0)
    axes.set_title("Error, all ten sites", loc="left", fontsize=10)
    axes.legend(frameon=False)


def _life(axes: Any, life: Life, k: int) -> None:
    t = np.arange(1, len(life.truth) + 1)
    axes.plot(t, life.truth, color="0.3", label="truth")
    for which, style in STYLES.items():
        axes.plot(t, getattr(life, which), color=style["color"], linestyle=style["linestyle"], label=which)
    axes.set(xlabel="cycle", ylabel="cycles left")
    axes.set_title(f"One site's engine {k + 1}", loc="left", fontsize=10)
    axes.legend(frameon=False)
