from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import domkl
from domkl import experiment
from domkl.datasets import Split, Table
from domkl.errors import DataError, InputError
from domkl.experiment import Experiment, KernelSpec, RateSpec, Source


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
    assert printed.kernels.draw(3).shape == (17, 50, 3)
    assert printed.rates.at(2500) == domkl.Rates.paper(2500)
    assert printed.trials == 10
    assert printed.data.split == "random"
    np.testing.assert_array_equal(printed.kernels.draw(3), domkl.kernels.gaussian(3, 50, 0))


def test_a_file_of_your_own(tmp_path):
    path = write(
        tmp_path, 'graphs = ["ring"]\nlearners = 4\n[kernels]\nD = 7\nsigma2 = [1, 2.5]\n[rates]\nrho = 3'
    )
    mine = experiment.load(path)
    assert (mine.name, mine.learners, mine.kernels.sigma2) == ("mine", 4, (1, 2.5))
    assert mine.rates.at(100) == domkl.Rates(rho=3, eta=10, eta_g=10)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[kernels]\nDD = 7", r"mine.toml \[kernels\] key is 'DD'; expected one of family, D"),
        ("[kernel]\nD = 7", "mine.toml section is 'kernel'.*did you mean 'kernels'"),
        ("[kernels]\nD = 'many'", r"mine.toml \[kernels\] D is 'many'; expected int; mend the file"),
        ("trials = true", "trials is True; expected int"),
        ("graphs = 'ring'", "graphs is 'ring'; expected tuple"),
        ("[kernels]\nfamily = 'gauss'", "kernels.family is 'gauss'.*did you mean 'gaussian'"),
        ("[kernels\n", "cannot be read: .*; expected a TOML experiment"),
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
    mine = Experiment("e", graphs=("ring",), kernels=KernelSpec(D=5), rates=RateSpec(rho=1, eta=1, eta_g=1))
    outcome = experiment.carry_out(mine, source())
    split = outcome.split
    run = domkl.simulate(split.X, split.y, "ring", kernels=mine.kernels.draw(2), rates=domkl.Rates(1, 1, 1))
    np.testing.assert_array_equal(outcome.run.mse, run.mse)
    X, y = split.X.swapaxes(0, 1).reshape(-1, 2), split.y.T.ravel()
    central = domkl.omkl(X, y, kernels=mine.kernels.draw(2), mu=1 / 3, eta_g=1.0)
    np.testing.assert_allclose(outcome.central_mse.mean(), central.mse)
    by_hand = [
        np.mean([(split.y[j, :t].mean() if t else 0) - split.y[j, t] for t in range(40)]) for j in range(3)
    ]
    guess = experiment._running_mean(split.y, 0) - split.y
    np.testing.assert_allclose(guess.mean(1), by_hand)
    np.testing.assert_allclose(outcome.baselines["mean so far"], (guess**2).mean(1))


def test_the_running_mean_waits_for_labels():
    y = np.arange(1.0, 6)[None]
    assert experiment._running_mean(y, delay=2).tolist() == [[0, 0, 0, 1, 1.5]]


def test_stations_come_with_degrees_and_persistence():
    prepared = experiment.prepare(experiment.load("three-stations"), rounds=50)
    assert prepared.split.y.shape == (3, 50)
    assert prepared.baselines["as it is now"].shape == (3, 50)
    assert (prepared.unit, prepared.scale, prepared.split.delay) == ("°F", 130**2, 6)


def test_tables_are_scaled_and_errors_told_in_their_own_scale():
    table = Table("t", np.arange(12.0)[:, None], 5 * np.arange(12.0), ("a",), "y", tuple("ab" * 6))
    made = experiment.from_table(Experiment("e"), table, "t.csv", None, 4)
    assert made.split.names == ("a", "b")
    assert made.split.X.shape == (2, 4, 1)
    assert made.scale == 55**2
    without = dataclasses.replace(table, learners=None)
    assert experiment.from_table(Experiment("e"), without, "t.csv", 4, None).split.y.shape == (4, 3)


def test_networks_from_links():
    names = ("EWR", "JFK", "LGA")
    assert experiment.network("EWR-JFK,JFK-LGA", names).edges == [(0, 1), (1, 2)]
    assert experiment.network("ring", names).names == names
    with pytest.raises(InputError, match="graph link end is 'SFO'; expected one of EWR, JFK, LGA"):
        experiment.network("EWR-SFO", names)
    with pytest.raises(InputError, match="learner 2 has no neighbour"):
        experiment.network("EWR-JFK", names)


def test_notes_say_what_was_inferred_and_left_out():
    made = source()
    made = made._replace(split=dataclasses.replace(made.split, left_out=7), dropped=2)
    notes = experiment.carry_out(Experiment("e", graphs=("paper1",), kernels=KernelSpec(D=3)), made).notes
    assert "inferred" in notes[0]
    assert notes[1:] == (
        "2 rows dropped: a cell was missing",
        "7 rows not used, so that all streams are of one length",
    )
