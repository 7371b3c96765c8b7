"""Ranks of mpiexec give the bits of one process, and end together.

Run as a script, this file is what the ranks do.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
from functools import partial

import networkx as nx
import numpy as np
import pytest

import domkl
import problems
from domkl import engines
from domkl.base.errors import InputError, MissingExtra
from domkl.engines import mpi

MPIEXEC = pathlib.Path(sys.executable).with_name("mpiexec")
MISSING = [name for name in ("mpi4py", "pymetis") if importlib.util.find_spec(name) is None]
MISSING += [] if MPIEXEC.exists() else [f"{MPIEXEC.name} beside {sys.executable}"]
needs_mpi = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
FIELDS = ("y_hat", "theta", "lam", "L", "q", "mse", "cv", "kernel_mse", "kernel_cv", "q_path")
LOSSES = ("squared", "ridge", domkl.losses.huber(0.5, reg=0.1), domkl.losses.logistic(0.01))
CASES = range(24)


def random_graph(rng, J, tree):
    """A connected graph whose learners' numbers say nothing about where they are."""
    names = rng.permutation(J).tolist()
    graph = nx.Graph([(names[j], names[int(rng.integers(j))]) for j in range(1, J)])
    if not tree:
        graph.add_edges_from((int(i), int(j)) for i, j in rng.integers(J, size=(J, 2)) if i != j)
    return graph


def case(seed):
    """Arguments of `simulate`: over the seeds every loss, rule and dtype, and many graphs and delays."""
    rng = np.random.default_rng(seed)
    hedge, loss = ("neighbours", "messages", "local")[seed % 3], domkl.losses.get(LOSSES[seed % 4])
    J, T, d = int(rng.integers(3, 25)), int(rng.integers(1, 16)), int(rng.integers(1, 4))
    X, y = problems.streams(J, T, d, seed, loss.classifies)
    D, sigma2 = int(rng.integers(1, 9)), [0.3, 1.0, 3.0][: 1 + seed % 3]
    return (X, y, random_graph(rng, J, tree=hedge == "messages")), {
        "kernels": domkl.kernels.gaussian(d, D=D, sigma2=sigma2),
        "rates": domkl.Rates(*rng.uniform(0.1, 2, size=3)),
        "loss": loss,
        "hedge": hedge,
        "delay": min(int(rng.integers(4)), T - 1),
        "dtype": (np.float64, np.float32)[seed // 12],
        "weights_every": int(rng.integers(4)),
        "step": ("first", "newton")[seed % 5 == 0],
    }


def checksum(run, names=FIELDS):
    return hashlib.sha256(b"".join(getattr(run, name).tobytes() for name in names)).hexdigest()


def checksums(engine):
    """Of all cases, and of one more that comes in blocks and leaves the state away."""
    found = [
        checksum(problems.simulate_paper(*data, engine=engine, **options))
        for data, options in map(case, CASES)
    ]
    (X, y, graph), options = case(1)
    blocks = ((X[:, t : t + 2], y[:, t : t + 2]) for t in range(0, y.shape[1], 2))
    run = problems.simulate_paper(blocks, None, graph, engine=engine, keep_state=False, **options)
    assert len(run.theta) == len(run.lam) == 0
    return [*found, checksum(run), *map(partial(auto, engine), range(3))]


#: Of `Auto`; its sums of errors are added up in another order.
AUTO_FIELDS = ("y_hat", "theta", "lam", "q", "believed", "trust")


def auto(engine, seed):
    """Of learners of whom one is not believed for a while, with missing labels, a delay, and float32."""
    rng, J = np.random.default_rng(seed), 9
    X, y = problems.streams(J, 150, 3, seed)
    y[0, 90:120] += 5
    y[1, 20:40] = np.nan
    graph = random_graph(rng, J, tree=seed == 1)
    options = {"delay": seed, "dtype": (np.float64, np.float32)[seed % 2], "weights_every": 40}
    model = domkl.Auto(size=40, loss="squared")
    run = domkl.simulate(X, y[..., None], graph, model=model, engine=engine, **options)
    assert run.mse.shape == (J, 1)
    assert np.nanmin(run.trust) < 1
    return checksum(run, AUTO_FIELDS)


def start(ranks, *command, **options):
    """Run Python under mpiexec; as root too, MPICH needs no further word."""
    launch = [str(MPIEXEC), "-n", str(ranks)] if ranks > 1 else []
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(pathlib.Path(__file__).parent)}
    return subprocess.run(
        [*launch, sys.executable, *command],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        **options,
    )


@needs_mpi
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_ranks_give_the_bits_of_one_process(ranks, tmp_path):
    done = start(ranks, __file__, str(tmp_path))
    assert done.returncode == 0, done.stderr
    expected = [*checksums("numpy")[:-3], *map(partial(auto, "auto"), range(3))]
    for rank in range(ranks):
        assert json.loads((tmp_path / f"{rank}.json").read_text()) == expected, f"rank {rank}"


COMMON = """
import sys, numpy as np, domkl, problems
from domkl.engines import mpi
rank = mpi.communicator().rank
X, y = problems.streams(12, 9, 2)
graph, rates = domkl.graph.named("ring", 12), domkl.Rates(1, 1, 1)
"""


@needs_mpi
def test_a_rank_reads_the_streams_of_its_own_learners_alone():
    code = """
others = mpi.owners(mpi.communicator(), graph) != rank
whole = problems.simulate_paper(X, y, graph, engine="numpy")
X[others], y[others] = np.nan, np.nan
run = problems.simulate_paper(X, y, graph, engine="mpi")
assert np.array_equal(run.y_hat, whole.y_hat) and np.array_equal(run.theta, whole.theta)
"""
    done = start(2, "-c", COMMON + code)
    assert done.returncode == 0, done.stderr


@needs_mpi
@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "y[7, 4] = np.nan\nproblems.simulate_paper(X, y, graph, engine='mpi')",
            r"InputError: y\[7, 4\] is nan; expected finite numbers.*",
        ),
        (
            "problems.simulate_paper(X, y, graph, engine='mpi', progress=lambda *_: 1 / (1 - rank))",
            r"ZeroDivisionError: division by zero",
        ),
        (
            "V = domkl.kernels.gaussian(2, seed=rank)\n"
            "problems.simulate_paper(X, y, graph, kernels=V, engine='mpi')",
            r"InputError: this rank's .*kernels.* are not those of rank 0; .*seed what is drawn at random",
        ),
        (
            "problems.simulate_paper(X[:1], y[:1], domkl.graph.Graph((0,), ((),)), engine='mpi')",
            r"InputError: there are 2 ranks for 1 learners; .*use mpiexec -n 1 or less",
        ),
    ],
    ids=["bad-data", "callback", "other-arguments", "too-many-ranks"],
)
def test_a_rank_that_fails_ends_all_with_one_line(code, message):
    done = start(2, "-c", COMMON + code)
    assert done.returncode != 0
    assert re.search(rf"^domkl: rank [01] of 2 ends the run: {message}$", done.stderr, flags=re.MULTILINE)


@needs_mpi
def test_alone_an_error_is_an_error():
    code = (
        "y[7, 4] = np.nan\n"
        "try: problems.simulate_paper(X, y, graph, engine='mpi')\nexcept ValueError as e: print(e)"
    )
    done = start(1, "-c", COMMON + code)
    assert done.stdout.startswith("y[7, 4] is nan")
    assert done.stderr == ""


@needs_mpi
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: domkl.Learner(name="a", inputs=1, engine="mpi"), r"is for simulate\(\)"),
        (
            lambda: domkl.simulate(*problems.streams(2, 9, 1), "path", engine="mpi", horizon="1 row"),
            "horizon",
        ),
        (
            lambda: domkl.simulate(*problems.streams(2, 9, 1), "path", engine="mpi", keep_model=True),
            "keep_mod",
        ),
    ],
    ids=["learner", "horizon", "keep_model"],
)
def test_what_ranks_cannot_do_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_without_mpi4py_the_install_line_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    X, y = problems.streams(3, 4, 2)
    with pytest.raises(MissingExtra, match=r'pip install "domkl\[mpi\]"'):
        problems.simulate_paper(X, y, "ring", engine="mpi")
    assert "mpi" in engines.NAMES


@needs_mpi
def test_without_an_mpi_library_the_install_line_is_told():
    code = "import problems\nproblems.simulate_paper(*problems.streams(3, 4, 2), 'ring', engine='mpi')"
    program = f"import os\nos.environ['MPI4PY_LIBMPI'] = 'nowhere'\n{code}"
    done = start(1, "-c", program)
    assert re.search(r'MissingExtra: mpi4py finds no MPI library.*pip install "domkl\[mpi\]"$', done.stderr)


@needs_mpi
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_parts_hold_every_learner_once_and_agree_on_their_borders(seed, ranks):
    rng = np.random.default_rng(seed)
    graph = domkl.graph.as_graph(random_graph(rng, int(rng.integers(5, 30)), tree=seed % 2 == 0))
    owner = mpi.partition(graph, ranks)
    np.testing.assert_array_equal(owner, mpi.partition(graph, ranks))
    parts = [mpi.part_of(graph, owner, rank) for rank in range(ranks)]
    assert sorted(j for part in parts for j in part.learners) == list(range(graph.J))
    assert min(len(part.learners) for part in parts) > 0
    for rank, part in enumerate(parts):
        names = np.array(part.graph.names)
        for j, near in zip(part.learners, part.graph.neighbours, strict=False):
            assert tuple(names[list(near)]) == graph.neighbours[j]
        for border in part.borders:
            (back,) = [b for b in parts[border.rank].borders if b.rank == rank]
            there = np.array(parts[border.rank].graph.names)
            np.testing.assert_array_equal(names[border.mine], there[back.theirs])


@needs_mpi
def test_parts_are_even_and_few_links_are_cut():
    graph = domkl.graph.as_graph(nx.convert_node_labels_to_integers(nx.grid_2d_graph(30, 30)))
    owner = mpi.partition(graph, 4)
    assert np.bincount(owner).max() <= 1.05 * 900 / 4
    assert sum(owner[i] != owner[j] for i, j in graph.edges) < 90


if __name__ == "__main__":
    found = checksums("mpi")
    (pathlib.Path(sys.argv[1]) / f"{mpi.communicator().rank}.json").write_text(json.dumps(found))
