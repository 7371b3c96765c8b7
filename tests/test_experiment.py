from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import domkl
from domkl import Auto, KernelSpec, Paper, RateSpec, datasets
from domkl.base.errors import DataError, InputError
from domkl.datasets import Dataset, Split
from domkl.lab import experiment, reproduce, trial
from domkl.lab.experiment import DataSpec, Experiment
from domkl.lab.trial import Source
from domkl.learning.naive import simple_guesses


def write(tmp_path, text):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", ["three-stations", "paper-fitted", "paper-printed"])
def test_shipped_experiments_load_by_name(name):
    assert experiment.load(name).name == name
    assert experiment.load(f"experiments/{name}.toml").name == name


def test_the_printed_protocol_is_the_papers_text():
    printed = experiment.load("paper-printed")
    assert printed.describe() == {
        "graphs": ["paper1", "paper2", "paper3", "paper4"],
        "learners": None,
        "trials": 10,
        "data": {
            "names": reproduce.DATASETS,
            "horizon": 6,
            "x_scale": "default",
            "y_scale": "max",
            "split": "random",
        },
        "model": {
            "kind": "paper",
            "kernels": {
                "family": "gaussian",
                "D": 50,
                "seed": 0,
                "sigma2": pytest.approx([10 ** ((k - 9) / 2) for k in range(1, 18)]),
                "read_as": "bandwidth",
            },
            "rates": {"kappa": 1.0, "kappa_g": 1.0},
            "loss": "squared",
            "reg": 0.0,  # the text says lambda > 0 and no more
            "hedge": "neighbours",
            "step": "first",
        },
        "omkl": {"kappa_mu": 1.0, "kappa_g": 1.0},
    }
    assert printed.model.rates_at(2500) == domkl.Rates.paper(2500)
    np.testing.assert_array_equal(printed.model.draw(3), domkl.kernels.gaussian(3, 50, 0))


@pytest.mark.parametrize("name", ["paper-fitted", "paper-printed"])
def test_the_papers_penalty_is_said_to_be_open(name):
    text = (experiment.SHIPPED / f"{name}.toml").read_text(encoding="utf-8")
    assert "lambda > 0 that it does not give" in text
    assert experiment.load(name).model.loss_function.reg == 0


def test_a_file_of_your_own(tmp_path):
    text = (
        'graphs = ["ring"]\nlearners = 4\n[model]\nkind = "paper"\n[model.kernels]\nD = 7\nsigma2 = [1, 2.5]'
    )
    mine = experiment.load(write(tmp_path, f"{text}\n[model.rates]\nrho = 3"))
    assert (mine.name, mine.learners, mine.model.kernels.sigma2) == ("mine", 4, (1, 2.5))
    assert mine.model.rates_at(100) == domkl.Rates(rho=3, eta=10, eta_g=10)
    assert mine.paper == mine.model


@pytest.mark.parametrize(
    ("text", "model", "paper"),
    [
        ('graphs = ["ring"]', Auto(), Paper()),
        ("[model]\nsize = 64", Auto(size=64), Paper()),
        ("[paper]\nhedge = 'local'", Auto(), Paper(hedge="local")),
        ("[model]\nkind = 'paper'\nstep = 'newton'", Paper(step="newton"), Paper(step="newton")),
    ],
)
def test_the_model_is_auto_unless_the_file_says_otherwise(tmp_path, text, model, paper):
    mine = experiment.load(write(tmp_path, text))
    assert (mine.model, mine.paper or Paper()) == (model, paper)
    assert mine.with_model("paper").model == paper
    assert mine.with_model("auto").model == (model if isinstance(model, Auto) else Auto())


def test_the_seed_is_the_models():
    assert Experiment("e", model=Auto(seed=3)).seed == 3
    assert Experiment("e", model=Paper(kernels=KernelSpec(seed=4))).seed == 4
    assert Experiment("e", model=Paper()).seed == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[model]\nkind = 'best'", r"mine.toml \[model\] kind is 'best'; expected one of auto, paper"),
        ("[model]\nsize = 3", "size is 3; expected a whole number from 16 to 20000"),
        ("[model]\nhedge = 'local'", r"mine.toml \[model\] key is 'hedge'; expected one of .*size"),
        ("[paper]\nsize = 64", r"mine.toml \[paper\] key is 'size'; expected one of"),
        ("[paper.kernels]\nDD = 7", r"mine.toml \[paper.kernels\] key is 'DD'; expected one of family, D"),
        ("[modle]\nsize = 99", "mine.toml section is 'modle'.*did you mean 'model'"),
        ("[paper.kernels]\nD = 'many'", r"mine.toml \[paper.kernels\] D is 'many'; expected int"),
        ("trials = true", "trials is True; expected int"),
        ("graphs = 'ring'", "graphs is 'ring'; expected a list with one str or more"),
        ("graphs = []", r"graphs is \[\]; expected a list with one str or more"),
        ("graphs = [3]", r"graphs is \[3\]; expected a list"),
        ("learners = 0", "learners is 0; expected a whole number of at least 1"),
        ("trials = 0", "trials is 0"),
        ("data = 5", r"mine.toml data is 5; expected a section in \[brackets\]"),
        ("[[data]]\nhorizon = 6", r"mine.toml data is \[.*\]; expected a section in \[brackets\]"),
        ("[data]\nnames = []", r"\[data\] names is \[\]; expected a list"),
        ("[data]\nx_scale = 'bad'", "x_scale is 'bad'; expected one of default, none"),
        ("[data]\ny_scale = 'bad'", "y_scale is 'bad'"),
        ("[data]\nsplit = 'bad'", "split is 'bad'"),
        ("[paper.kernels]\nsigma2 = []", r"sigma2 is \[\]; expected a list with one float or more"),
        ("[paper.kernels]\nsigma2 = ['a']", r"sigma2 is \['a'\]; expected a list with one float"),
        ("[paper.kernels]\nsigma2 = [true]", r"sigma2 is \[True\]; expected a list with one float"),
        (
            "[paper.kernels]\nsigma2 = [0]\nread_as = 'frequency'",
            "sigma2 is 0; expected a finite number above 0",
        ),
        ("[paper.kernels]\nsigma2 = [inf]", "sigma2 is inf"),
        ("[paper.rates]\nkappa = -1", "kappa is -1; expected a finite number above 0; choose another kappa"),
        ("[omkl]\nkappa_mu = 0", "kappa_mu is 0"),
        ("[paper]\nloss = 'cubic'", "loss is 'cubic'"),
        ("[paper]\nhedge = 'most'", "hedge is 'most'"),
        ("[paper]\nstep = 'second'", "step is 'second'"),
        ("[paper]\nreg = -1", "reg is -1"),
        ("[paper]\ndelta = 2", "delta is 2 but the loss is 'squared'; expected delta with huber alone"),
        ("[paper.kernels]\nfamily = 'gauss'", "kernels.family is 'gauss'.*did you mean 'gaussian'"),
        ("[model\n", "cannot be read: .*; expected a TOML experiment"),
    ],
)
def test_bad_files_are_named(tmp_path, text, message):
    with pytest.raises((InputError, DataError), match=message) as error:
        experiment.load(write(tmp_path, text))
    assert "\n" not in str(error.value)


def test_an_unknown_experiment_lists_those_there_are():
    with pytest.raises(
        InputError, match="no experiment 'x'; expected a TOML file or one of paper-fitted, paper-"
    ):
        experiment.load("x")


def test_sigma2_can_be_read_as_the_frequencies_variance():
    spec = KernelSpec(sigma2=(0.01, 100.0), read_as="frequency", D=4000)
    np.testing.assert_allclose(spec.draw(1).std((1, 2)), [0.1, 10], rtol=0.1)


def source(J=3, T=40):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(J, T, 2))
    return Source("made", Split(X, X.sum(-1)))


def test_an_outcome_holds_the_run_and_its_comparators():
    model = Paper(kernels=KernelSpec(D=5), rates=RateSpec(rho=1, eta=1, eta_g=1))
    outcome = trial.carry_out(Experiment("e", graphs=("ring",), model=model), source())
    split, V = outcome.split, KernelSpec(D=5).draw(2)
    given = Paper(kernels=V, rates=domkl.Rates(1, 1, 1))
    run = domkl.simulate(split.X, split.y, "ring", model=given)
    np.testing.assert_array_equal(outcome.run.mse, run.mse)
    lone = [domkl.simulate(split.X[[j]], split.y[[j]], [[0]], model=given).mse[0] for j in range(3)]
    np.testing.assert_array_equal(outcome.mse_alone, lone)
    guesses = [
        simple_guesses(y, None if split.times is None else split.times[j]) for j, y in enumerate(split.y)
    ]
    best = [
        min(np.mean((each - split.y[j]) ** 2) for each in found.values()) for j, found in enumerate(guesses)
    ]
    np.testing.assert_allclose(outcome.baselines["simple guess"], best)


def test_stations_come_with_degrees():
    prepared = trial.prepare(experiment.load("three-stations"), rounds=50)
    assert prepared.split.y.shape == (3, 50)
    assert (prepared.unit, prepared.scale, prepared.split.delay) == ("°F", 130**2, 5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": DataSpec(x_scale="minmax")}, "x_scale is 'minmax' for the stations; .*leave x_scale out"),
        ({"data": DataSpec(split="random")}, "split is 'random' for the stations"),
        ({"learners": 5}, "learners is 5 for the stations; expected 3"),
    ],
)
def test_the_stations_come_scaled_and_divided(change, message):
    with pytest.raises(InputError, match=message):
        trial.prepare(Experiment("e", **change))


def test_a_dataset_is_divided_over_the_experiments_learners(monkeypatch):
    made = Dataset("weather", np.arange(24.0).reshape(12, 2), np.arange(12.0), ("a", "b"), "y")
    monkeypatch.setattr(datasets, "load", lambda name, **_: made)
    mine = Experiment("e", graphs=("paper1",), data=DataSpec(names=("weather",)))
    assert trial.prepare(mine).split.y.shape == (3, 4)
    assert trial.prepare(dataclasses.replace(mine, learners=4)).split.y.shape == (4, 3)


def test_networks_from_links():
    names = ("EWR", "JFK", "LGA")
    assert trial.network("EWR-JFK,JFK-LGA", names).edges == [(0, 1), (1, 2)]
    assert trial.network("ring", names).names == names
    with pytest.raises(InputError, match="graph link end is 'SFO'; expected one of EWR, JFK, LGA"):
        trial.network("EWR-SFO", names)
    with pytest.raises(InputError, match="learner 'LGA' has no neighbour"):
        trial.network("EWR-JFK", names)
    assert trial.network("EWR-JFK, JFK - LGA", names).edges == [(0, 1), (1, 2)]
    for text in ("EWR-JFK-LGA", "EWR-JFK,LGA", "EWR-JFK,"):
        with pytest.raises(InputError, match=r"is not two learners with a - between; .*write links like"):
            trial.network(text, names)


def test_names_with_a_dash_can_be_linked_where_there_is_one_reading():
    names = ("a", "a-b", "site-3")
    assert trial.network("a-a-b,a-b-site-3", names).edges == [(0, 1), (1, 2)]
    with pytest.raises(InputError, match="graph link 'a-b-c' is not two learners"):
        trial.network("a-b-c", ("a", "a-b", "b-c", "c"))


def test_notes_say_what_was_inferred_and_left_out():
    made = source()
    made = made._replace(split=dataclasses.replace(made.split, left_out=7), dropped=2)
    model = Paper(kernels=KernelSpec(D=3))
    notes = trial.carry_out(Experiment("e", graphs=("paper1",), model=model), made).notes
    assert "inferred" in notes[0]
    assert notes[1:] == (
        "2 rows dropped: no target, or a missing cell",
        "7 rows not used, so that all streams are of one length",
    )
