"""A new model and a new rule of combination, added from outside: both run in one process and on devices."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import domkl
import inmemory
import problems
from domkl.base.errors import DataError, InputError, PeerError
from domkl.exchange.combine import RULES
from domkl.learning.model import Around, Model, Part
from domkl.simulator.driver import Rounds


@dataclass(frozen=True)
class RunningMean:
    """Predicts the mean of the labels so far, which is combined with the neighbours'."""

    rule: str = "mix"

    def make(self, J, d, dtype, m):
        return MeanRows(self.rule, J, d)


class MeanRows(Model):
    def __init__(self, rule, J, d):
        self.rule, self.J, self.d = rule, J, d
        self.mean, self.n = np.zeros((J, 1)), 0

    @property
    def parts(self):
        return (Part("mean", (1,), self.rule),)

    def predict(self, x):
        return SimpleNamespace(y_hat=self.mean)

    def learn(self, prediction, y, earlier=None):
        self.n += 1
        self.mean = self.mean + (y - self.mean) / self.n
        return {"mean": self.mean}

    def merge(self, incoming):
        self.mean = incoming["mean"]

    def state(self):
        return {"mean": self.mean, "n": self.n}

    def restore(self, state):
        self.mean, self.n = state["mean"], state["n"]


@dataclass(frozen=True)
class Descent:
    """A linear function, by gradient descent; half-way to the neighbours' in every round."""

    rate: float = 0.1

    def make(self, J, d, dtype, m):
        return DescentRows(self.rate, J, d, dtype)


class DescentRows(Model):
    largest = 100.0

    def __init__(self, rate, J, d, dtype):
        self.rate, self.J, self.d, self.dtype = rate, J, d, dtype
        self.theta = np.zeros((J, 1, d + 1), dtype)

    @property
    def parts(self):
        return (Part("theta", (1, self.d + 1), "pull"), Part("size", (), "mix"))

    @property
    def parameters(self):
        return SimpleNamespace(theta=self.theta, lam=0 * self.theta, L=np.zeros((self.J, 1)))

    def predict(self, x):
        z = np.append(x, np.ones((len(x), 1)), 1).astype(self.dtype)
        return SimpleNamespace(z=z, y_hat=np.array([t @ v for t, v in zip(self.theta, z, strict=True)]))

    def learn(self, prediction, y, earlier=None):
        step = self.rate * (y - prediction.y_hat)
        self.theta = self.theta + (step * prediction.z)[:, None].astype(self.dtype)
        return {"theta": self.theta, "size": np.abs(self.theta).max((1, 2))}

    def merge(self, incoming):
        self.theta = (self.theta + incoming["theta"].mean) / 2
        self.size = incoming["size"]

    def state(self):
        return {"theta": self.theta}

    def restore(self, state):
        self.theta = state["theta"]


MODELS = [RunningMean(), RunningMean("own"), Descent(), Descent(0.05)]


@settings(max_examples=25, deadline=None)
@given(
    problems.graphs(),
    st.sampled_from(MODELS),
    st.sampled_from([np.float64, np.float32]),
    st.sampled_from(
        [domkl.Exchange(), domkl.Exchange("float16"), domkl.Exchange(screen=lambda own, others: others / 2)]
    ),
    st.randoms(),
)
def test_a_new_model_has_the_same_bits_in_one_process_and_on_devices(graph, model, dtype, exchange, rng):
    X, y = problems.streams(len(graph), 20, 2)
    options = {"dtype": dtype, "exchange": exchange}
    run = domkl.simulate(X, y, graph, model=model, **options)
    learners = problems.learners(graph, model, inputs=2, **options)
    np.testing.assert_array_equal(problems.fed(learners, graph, X, y, rng), run.y_hat)
    if isinstance(model, Descent):
        np.testing.assert_array_equal([one.state.theta[0] for one in learners], run.theta)


def test_a_new_model_learns_and_exchange_pays():
    X, y = problems.streams(5, 300, 2)
    run = domkl.simulate(X, y, "complete", model=Descent())
    alone = [domkl.simulate(X[[j]], y[[j]], nx.empty_graph(1), model=Descent()) for j in range(5)]
    late = ((run.y_hat - y) ** 2)[:, 100:].mean()
    assert late < 0.1 * y.var()
    assert late < np.mean([((one.y_hat - y[j]) ** 2)[:, 100:].mean() for j, one in enumerate(alone)])


def test_what_a_new_model_does_not_tell_is_empty_or_unknown():
    X, y = problems.streams(3, 10, 2)
    run = domkl.simulate(X, y, "ring", model=RunningMean(), delay=2, weights_every=5)
    assert run.theta.size == run.lam.size == run.L.size == 0
    assert np.isnan(run.cv).all()
    np.testing.assert_allclose(run.kernel_mse[:, 0], run.mse)
    np.testing.assert_array_equal(run.q_path, np.ones((2, 3, 1)))
    assert (run.sent, run.bytes) == (0.8 * 2, 0.8 * 16)  # a number and the degree, when a label is known
    assert (run.y_hat[:, :3] == 0).all()


def test_a_new_model_on_one_device_without_neighbours():
    X, y = problems.streams(1, 10, 2)
    run = domkl.simulate(X, y, nx.empty_graph(1), model=RunningMean())
    one = domkl.Learner(RunningMean(), inputs=2)
    for t in range(10):
        one.observe(X[0, t], y[0, t])
        assert one.step.y_hat == run.y_hat[0, t]
    assert one.predict(X[0, 0]) == pytest.approx(y[0].mean())
    assert one.round == 10


@pytest.mark.parametrize("model", [RunningMean(), Descent()])
def test_a_new_model_survives_losses_and_restarts(model):
    graph, rng = nx.cycle_graph(4), random.Random(1)
    X, y = problems.streams(4, 60, 2)
    learners = problems.learners(graph, model, inputs=2)
    for t in range(60):
        if t == 30:
            saved = [one.save() for one in learners]
            learners = problems.learners(graph, model, inputs=2)
            for one, (arrays, meta) in zip(learners, saved, strict=True):
                one.load(arrays, json.loads(json.dumps(meta)))
        updates = [one.observe(X[j, t], y[j, t]) for j, one in enumerate(learners)]
        for j, one in enumerate(learners):
            for i in graph.neighbors(j):
                if rng.random() < 0.8:
                    one.receive(i, updates[i])
            if one.waiting:
                one.close()
    assert np.ptp([one.predict([0.0, 0.0]) for one in learners]) < 0.3
    with pytest.raises(DataError, match="fingerprint"):
        problems.learners(graph, Descent(0.2), inputs=2)[0].load(*learners[0].save())


def test_messages_of_other_settings_or_out_of_bounds_are_refused():
    graph = nx.path_graph(2)
    one, other = (
        problems.learners(graph, Descent(), inputs=2)[0],
        problems.learners(graph, Descent(0.2), inputs=2)[1],
    )
    with pytest.raises(PeerError, match="give all learners the same model, inputs, dtype and exchange"):
        one.receive(1, other.observe([0.1, 0.2], 1.0))
    update = problems.learners(graph, Descent(), inputs=2)[1].observe([0.1, 0.2], 1.0)
    with pytest.raises(PeerError, match=r"a message holds 1e\+03; expected at most 100"):
        one.receive(1, update._replace(theta=update.theta + 1000))
    rounded, plain = (
        domkl.Learner(Descent(), ["b"], inputs=2, exchange=domkl.Exchange(p)) for p in ("float32", "float64")
    )
    assert rounded.fingerprint != plain.fingerprint


def test_what_clipping_takes_from_a_message_is_taken_back_in_one_process_and_on_devices(monkeypatch):
    backs = []
    monkeypatch.setattr(DescentRows, "largest", 0.05)
    monkeypatch.setattr(DescentRows, "take_back", lambda self, moves: backs.append(moves))
    X, y = problems.streams(2, 5, 2)
    domkl.simulate(X, y, "path", model=Descent())
    one_process, backs[:] = np.concatenate(backs), []
    graph = nx.path_graph(2)
    problems.fed(problems.learners(graph, Descent(), inputs=2), graph, X, y, random.Random(0))
    assert len(one_process)
    found = [move for move in one_process if move.any()]
    assert sorted(map(np.ndarray.tolist, found)) == sorted(move[0].tolist() for move in backs)


@pytest.mark.parametrize("options", [{"engine": "native"}, {"engine": "no such"}, {"threads": 2}])
def test_a_new_model_has_no_engine_to_choose(options):
    X, y = problems.streams(2, 5, 2)
    with pytest.raises(InputError, match=f"{next(iter(options))} is .*expected none for a model of your own"):
        domkl.simulate(X, y, "path", model=RunningMean(), **options)
    if "engine" in options:
        with pytest.raises(InputError, match=r"engine is .*expected none for a model of your own"):
            domkl.Learner(RunningMean(), inputs=2, **options)


# A new rule


def median(near, own, received):
    """The median of a neighbourhood."""
    return np.array([np.median([mine, *received[near.rows == j]], axis=0) for j, mine in enumerate(own)])


@settings(max_examples=10, deadline=None)
@given(problems.graphs(), st.randoms())
def test_a_new_rule_is_one_function(graph, rng):
    X, y = problems.streams(len(graph), 15, 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(RULES, "median", median)
        run = domkl.simulate(X, y, graph, model=RunningMean("median"))
        learners = problems.learners(graph, RunningMean("median"), inputs=2)
        np.testing.assert_array_equal(problems.fed(learners, graph, X, y, rng), run.y_hat)
    first = [np.median(y[[j, *near], 0]) for j, near in enumerate(problems.neighbours_of(graph))]
    np.testing.assert_allclose(run.y_hat[:, 1], first)


def test_a_liar_does_not_move_a_median(monkeypatch):
    monkeypatch.setitem(RULES, "median", median)
    X, y = problems.streams(5, 100, 2)
    y[0] = 1000.0
    errors = {
        rule: np.abs(domkl.simulate(X, y, "complete", model=RunningMean(rule)).y_hat[1:, 50:]).max()
        for rule in ("mix", "median")
    }
    assert errors["median"] < 1 < 100 < errors["mix"]


def test_rules_and_shapes_that_there_are_not_are_refused(monkeypatch):
    X, y = problems.streams(3, 5, 2)
    with pytest.raises(InputError, match=r"rule of part 'mean' is 'mixx'.*did you mean 'mix'"):
        domkl.simulate(X, y, "ring", model=RunningMean("mixx"))
    with pytest.raises(InputError, match=r"part 'mean' is \(1,\); expected \(P, K\) with 'pull'"):
        domkl.Learner(RunningMean("pull"), ["b"], inputs=2)


@dataclass(frozen=True)
class InBlocks(RunningMean):
    """The same, over a network by what it brings itself: five rounds at once."""

    def make_network(self, graph, d, T, how, m):
        made = Rounds(self, graph, d, T, how, m)
        made.most_rounds = 5
        return made


def test_settings_bring_what_learns_a_network_by_blocks():
    X, y = problems.streams(3, 12, 2)
    plain, pieces = domkl.simulate(X, y, "ring", model=RunningMean()), []
    run = domkl.simulate(X, y, "ring", model=InBlocks(), watch=lambda seen: pieces.append(seen.y.shape[1]))
    assert pieces == [5, 5, 2]
    assert np.array_equal(run.y_hat, plain.y_hat)


@pytest.mark.parametrize("model", [domkl.Auto(size=16), inmemory.PAPER, RunningMean(), Descent()])
def test_all_settings_make_rows_alike(model):
    rows = model.make(1, 3, np.float64, 1)
    rows.connect(Around(["a"], [["b"]], np.ones(1), np.ones(1)))
    prediction = rows.predict(np.full((1, 3), 0.5))
    assert prediction.y_hat.shape == (1, 1)
    sent = rows.learn(prediction, np.ones((1, 1)))
    assert {part.name: (1, *part.shape) for part in rows.parts} == {
        name: np.shape(v) for name, v in sent.items()
    }


def test_settings_are_equal_if_they_are_written_alike():
    frequencies = domkl.kernels.gaussian(2, 3)
    alike = [
        domkl.Paper(kernels=frequencies),
        domkl.Paper(kernels=frequencies.copy()),
        domkl.Auto(),
        domkl.Auto(),
    ]
    assert len(set(alike)) == 2
    assert domkl.Paper() not in alike
    assert domkl.Auto(bounds=(0, 1)) != domkl.Auto()
