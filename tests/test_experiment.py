from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import domkl
from domkl import datasets
from domkl.base.errors import DataError, InputError
from domkl.datasets import Dataset, Split, Table
from domkl.lab import experiment, reproduce, trial
from domkl.lab.experiment import AutoSpec, DataSpec, Experiment, KernelSpec, LearningSpec, RateSpec
from domkl.lab.trial import Source


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
    assert dataclasses.asdict(printed) == {
        "name": "paper-printed",
        "title": "The paper's tables, settings as printed",
        "preset": "own",
        "auto": {"size": 1700},
        "graphs": ("paper1", "paper2", "paper3", "paper4"),
        "learners": None,
        "trials": 10,
        "data": {
            "names": reproduce.DATASETS,
            "horizon": 6,
            "x_scale": "default",
            "y_scale": "max",
            "split": "random",
        },
        "kernels": {
            "family": "gaussian",
            "D": 50,
            "seed": 0,
            "sigma2": pytest.approx(tuple(10 ** ((k - 9) / 2) for k in range(1, 18))),
            "read_as": "bandwidth",
        },
        "rates": {"kappa": 1.0, "kappa_g": 1.0, "rho": None, "eta": None, "eta_g": None},
        # The text says lambda > 0 and no more.
        "learning": {
            "loss": "squared",
            "reg": 0.0,
            "delta": None,
            "hedge": "neighbours",
            "step": "first",
            "memory": None,
        },
        "omkl": {"kappa_mu": 1.0, "kappa_g": 1.0},
    }
    assert printed.rates.at(2500) == domkl.Rates.paper(2500)
    np.testing.assert_array_equal(printed.kernels.draw(3), domkl.kernels.gaussian(3, 50, 0))


@pytest.mark.parametrize("name", ["paper-fitted", "paper-printed"])
def test_the_papers_penalty_is_said_to_be_open(name):
    text = (experiment.SHIPPED / f"{name}.toml").read_text(encoding="utf-8")
    assert "lambda > 0 that it does not give" in text
    assert experiment.load(name).learning.make_loss().reg == 0


def test_a_file_of_your_own(tmp_path):
    path = write(
        tmp_path, 'graphs = ["ring"]\nlearners = 4\n[kernels]\nD = 7\nsigma2 = [1, 2.5]\n[rates]\nrho = 3'
    )
    mine = experiment.load(path)
    assert (mine.name, mine.learners, mine.kernels.sigma2) == ("mine", 4, (1, 2.5))
    assert mine.rates.at(100) == domkl.Rates(rho=3, eta=10, eta_g=10)


@pytest.mark.parametrize(
    ("text", "preset"),
    [
        ('graphs = ["ring"]', "auto"),
        ("[auto]\nsize = 64", "auto"),
        ("[kernels]\nD = 7", "own"),
        ("[rates]\nkappa = 0.1", "own"),
        ("[learning]\nhedge = 'local'", "own"),
        ("[omkl]\nkappa_mu = 2.0", "own"),
        ("preset = 'auto'\n[learning]\nloss = 'logistic'", "auto"),
        ("preset = 'own'", "own"),
    ],
)
def test_a_file_with_settings_of_its_own_uses_them(tmp_path, text, preset):
    assert experiment.load(write(tmp_path, text)).preset == preset


def test_preset_paper_is_the_printed_protocol_on_other_data(tmp_path):
    mine = experiment.load(
        write(tmp_path, "preset = 'paper'\n[rates]\nkappa = 0.1\n[kernels]\nD = 3\nseed = 4")
    )
    printed = experiment.load("paper-printed")
    assert (mine.rates, mine.omkl) == (printed.rates, printed.omkl)
    assert mine.kernels == dataclasses.replace(printed.kernels, seed=4)
    assert mine.learning.make_loss() == printed.learning.make_loss()


def test_preset_auto_is_the_simulators_beside_the_first_order_network():
    mine = Experiment(
        "e", preset="auto", graphs=("ring",), kernels=KernelSpec(D=5, seed=3), auto=AutoSpec(64)
    )
    outcome = trial.carry_out(mine, source())
    X, y = outcome.split.X, outcome.split.y
    run = domkl.simulate(X, y, "ring", preset="auto", seed=3, size=64, dtype=np.float32)
    np.testing.assert_array_equal(outcome.run.y_hat, run.y_hat)
    own = trial.carry_out(mine.with_preset("own"), source())
    np.testing.assert_array_equal(outcome.baselines["first-order"], own.run.mse)
    np.testing.assert_array_equal(outcome.central_mse, own.central_mse)
    assert (outcome.rates, outcome.fingerprint, outcome.sigma2) == (None, None, ())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("preset = 'best'", "preset is 'best'; expected one of auto, own, paper"),
        ("[auto]\nsize = 3", "auto.size is 3; expected a whole number of at least 16"),
        ("[kernels]\nDD = 7", r"mine.toml \[kernels\] key is 'DD'; expected one of family, D"),
        ("[kernel]\nD = 7", "mine.toml section is 'kernel'.*did you mean 'kernels'"),
        ("[kernels]\nD = 'many'", r"mine.toml \[kernels\] D is 'many'; expected int; mend the file"),
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
        ("[kernels]\nsigma2 = []", r"sigma2 is \[\]; expected a list with one float or more"),
        ("[kernels]\nsigma2 = ['a']", r"sigma2 is \['a'\]; expected a list with one float"),
        ("[kernels]\nsigma2 = [true]", r"sigma2 is \[True\]; expected a list with one float"),
        ("[kernels]\nsigma2 = [0]\nread_as = 'frequency'", "sigma2 is 0; expected a finite number above 0"),
        ("[kernels]\nsigma2 = [inf]", "sigma2 is inf"),
        ("[rates]\nkappa = -1", "kappa is -1; expected a finite number above 0; choose another kappa"),
        ("[omkl]\nkappa_mu = 0", "kappa_mu is 0"),
        ("[learning]\nloss = 'cubic'", "loss is 'cubic'"),
        ("[learning]\nhedge = 'most'", "hedge is 'most'"),
        ("[learning]\nstep = 'second'", "step is 'second'"),
        ("[learning]\nmemory = 10", "memory is for step='newton'"),
        ("[learning]\nreg = -1", "reg is -1"),
        ("[learning]\ndelta = 2", "delta is 2 but the loss is 'squared'; expected delta with huber alone"),
        ("[kernels]\nfamily = 'gauss'", "kernels.family is 'gauss'.*did you mean 'gaussian'"),
        ("[kernels\n", "cannot be read: .*; expected a TOML experiment"),
    ],
)
def test_bad_files_are_named(tmp_path, text, message):
    with pytest.raises((InputError, DataError), match=message) as error:
        experiment.load(write(tmp_path, text))
    assert "\n" not in str(error.value)


def test_a_penalty_of_zero_is_zero():
    assert LearningSpec("ridge").make_loss().reg == 0.01
    assert LearningSpec("ridge", reg=0.0).make_loss().reg == 0
    assert LearningSpec("huber", reg=0.5, delta=2.0).make_loss()[4:] == (0.5, False, 2.0)
    assert LearningSpec("huber").make_loss().delta == 1


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
    mine = Experiment("e", graphs=("ring",), kernels=KernelSpec(D=5), rates=RateSpec(rho=1, eta=1, eta_g=1))
    outcome = trial.carry_out(mine, source())
    split = outcome.split
    run = domkl.simulate(split.X, split.y, "ring", kernels=mine.kernels.draw(2), rates=domkl.Rates(1, 1, 1))
    np.testing.assert_array_equal(outcome.run.mse, run.mse)
    X, y = split.X.swapaxes(0, 1).reshape(-1, 2), split.y.T.ravel()
    central = domkl.omkl(X, y, kernels=mine.kernels.draw(2), mu=1 / 3, eta_g=1.0)
    np.testing.assert_allclose(outcome.central_mse.mean(), central.mse)
    by_hand = [
        np.mean([(split.y[j, :t].mean() if t else 0) - split.y[j, t] for t in range(40)]) for j in range(3)
    ]
    guess = trial._running_mean(split.y, 0) - split.y
    np.testing.assert_allclose(guess.mean(1), by_hand)
    np.testing.assert_allclose(outcome.baselines["mean so far"], (guess**2).mean(1))


def test_the_running_mean_waits_for_labels():
    y = np.arange(1.0, 6)[None]
    assert trial._running_mean(y, delay=2).tolist() == [[0, 0, 0, 1, 1.5]]


def test_stations_come_with_degrees_and_persistence():
    prepared = trial.prepare(experiment.load("three-stations"), rounds=50)
    assert prepared.split.y.shape == (3, 50)
    assert prepared.baselines["as it is now"].shape == (3, 50)
    assert (prepared.unit, prepared.scale, prepared.split.delay) == ("°F", 130**2, 6)


def test_tables_are_scaled_and_errors_told_in_their_own_scale():
    table = Table("t", np.arange(12.0)[:, None], 5 * np.arange(12.0), ("a",), "y", tuple("ab" * 6))
    made = trial.from_table(Experiment("e"), table, "t.csv", None, 4)
    assert made.split.names == ("a", "b")
    assert made.split.X.shape == (2, 4, 1)
    assert made.scale == 55**2
    without = dataclasses.replace(table, learners=None)
    assert trial.from_table(Experiment("e"), without, "t.csv", 4, None).split.y.shape == (4, 3)


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


def test_a_table_says_who_its_learners_are_or_the_caller_does():
    table = Table("t", np.arange(12.0)[:, None], np.arange(12.0), ("a",), "y")
    assert len(trial.from_table(Experiment("e"), table, "t", None, None).split.names) == 3
    assert len(trial.from_table(Experiment("e", learners=2), table, "t", None, None).split.names) == 2
    with pytest.raises(InputError, match="learners is 0; expected a whole number of at least 1"):
        trial.from_table(Experiment("e"), table, "t", 0, None)
    with pytest.raises(InputError, match="learners is 7 but the table has a learner column"):
        trial.from_table(Experiment("e"), dataclasses.replace(table, learners=tuple("ab" * 6)), "t", 7, None)


def test_a_short_learner_does_not_silently_cost_the_others_most_rows():
    who = ("a",) * 10 + ("b",) * 9 + ("c",)
    table = Table("t", np.arange(20.0)[:, None], np.arange(20.0), ("u",), "y", who)
    with pytest.raises(InputError, match=r"learner 'c' has 1 rows, so 17 of 20 .*--rounds 1") as error:
        trial.from_table(Experiment("e"), table, "t", None, None)
    assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="would go unused"):
        trial.from_table(Experiment("e"), table, "t", None, 2)
    assert trial.from_table(Experiment("e"), table, "t", None, 1).split.y.shape == (3, 1)
    half = dataclasses.replace(table, learners=("a",) * 15 + ("b",) * 5)
    assert trial.from_table(Experiment("e"), half, "t", None, None).split.left_out == 10


def test_labels_whose_errors_cannot_be_squared_are_refused():
    y = np.append(np.arange(11.0), 1e200)
    table = Table("t", np.arange(12.0)[:, None], y, ("u",), "y")
    with pytest.raises(DataError, match=r"t, column 'y': its values span 1e\+200, too much to square"):
        trial.from_table(Experiment("e"), table, "t", None, None)


def test_the_centralised_learner_hears_labels_no_sooner_than_the_others():
    late = dataclasses.replace(source().split, delay=2)
    mine = Experiment("e", graphs=("ring",), kernels=KernelSpec(D=5))
    V, rates, loss = mine.kernels.draw(2), domkl.Rates(1, 1, 1), domkl.losses.squared()
    found = trial.centralised(mine, late, V, rates, loss)
    X, y = late.X.swapaxes(0, 1).reshape(-1, 2), late.y.T.ravel()
    run = domkl.omkl(X, y, kernels=V, mu=1 / 3, eta_g=1.0, delay=6)
    np.testing.assert_array_equal(found, ((run.y_hat - y) ** 2).reshape(-1, 3).mean(0))
    assert not run.y_hat[:6].any()


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
    notes = trial.carry_out(Experiment("e", graphs=("paper1",), kernels=KernelSpec(D=3)), made).notes
    assert "inferred" in notes[0]
    assert notes[1:] == (
        "2 rows dropped: a cell was missing",
        "7 rows not used, so that all streams are of one length",
    )
