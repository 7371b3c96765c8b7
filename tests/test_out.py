"""What leaves a command: results that are not lost, predictions, models, tables, and manners."""

from __future__ import annotations

import csv
import json
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

import domkl
import problems
from domkl import cli
from domkl.base.errors import InputError
from domkl.cli import completion
from domkl.faces.saved import About
from domkl.lab import report, reproduce, results
from domkl.lab import sheet as sheets
from domkl.lab.reproduce import Figure
from domkl.lab.sheet import Sheet

AUTO = domkl.Auto(size=16)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = ["when,site,color,t,y"]
    for i in range(80):
        day, color = f"2024-01-{1 + i // 24:02d} {i % 24:02d}:00", "red" if i % 3 else "blue"
        lines.append(f"{day},{'ab'[i % 2]},{color},{i % 7},{2 * (i % 7) + (i % 3)}")
    (tmp_path / "mine.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


MINE = ("--data", "mine.csv", "--target", "y", "--size", "16")


def code(argv):
    try:
        return cli.main(argv)
    except SystemExit as stop:
        return stop.code


def table(path):
    with path.open() as file:
        return list(csv.DictReader(file))


# run


def test_run_leaves_predictions_and_a_model_that_predict_uses(here, capsys):
    assert cli.main(["run", *MINE, "--learner-column", "site"]) == 0
    rows = table(here / "domkl-report" / "predictions.csv")
    assert list(rows[0]) == ["learner", "index", "time", "y", "y_hat", "low", "high"]
    assert len(rows) == 80
    assert (rows[1]["learner"], rows[1]["time"], rows[0]["low"]) == ("b", "2024-01-01T01:00:00Z", "")
    assert all(float(row["low"]) <= float(row["y_hat"]) <= float(row["high"]) for row in rows[60:])
    page = (here / "domkl-report" / "index.html").read_text()
    assert "three-stations" not in page
    assert "uPlot" in page
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", page)
    capsys.readouterr()

    (here / "new.csv").write_text("when,site,color,t\n2024-02-01 03:00,b,red,4\n2024-02-01 02:00,a,green,2\n")
    model = "domkl-report/model.domkl"
    assert cli.main(["predict", model, "--data", "new.csv", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["learner"] for row in found["rows"]] == ["b", "a"]  # in the order of the file
    assert found["rmse"] is None
    assert all(row["low"] < row["y_hat"] < row["high"] for row in found["rows"])
    loaded = domkl.DOMKL.load(model)
    encoder = domkl.datasets.encoder.Encoder(loaded.about.columns)
    x = encoder.encode({"when": "2024-02-01 03:00", "site": "b", "color": "red", "t": "4"}).x
    assert found["rows"][0]["y_hat"] == pytest.approx(loaded.predict([x, x])[1])
    assert cli.main(["explain", model, "--data", "new.csv", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["learner"] for row in rows] == ["b", "a"]
    assert [row["y_hat"] for row in rows] == pytest.approx([row["y_hat"] for row in found["rows"]])

    assert cli.main(["predict", model, "--data", "mine.csv", "--learner", "a", "--out", "p.csv"]) == 0
    assert {row["learner"] for row in table(here / "p.csv")} == {"a"}
    assert "RMSE" in capsys.readouterr().err
    assert code(["predict", model, "--data", "new.csv", "--learner", "c"]) == 2
    assert "--learner is 'c'; expected one of a, b" in capsys.readouterr().err
    assert code(["predict", "mine.csv", "--data", "new.csv"]) == 2
    assert "mine.csv cannot be used as a model" in capsys.readouterr().err


def test_predict_and_explain_take_the_best_learner_and_say_so(here, capsys):
    rng, model = np.random.default_rng(0), domkl.DOMKL("path", model=domkl.Auto(size=16))
    model.about = About(("u", "v"), "power", "kW")
    for x in rng.uniform(size=(60, 2, 2)):
        model.learn(x, x[:, 0] + np.array([1.0, 0.01]) * rng.standard_normal(2))  # the second errs less
    model.save("two.domkl")
    (here / "new.csv").write_text("u,v\n0.1,0.2\n")
    assert np.argmin(model.widths(0.9)) == 1
    best = str(model.learners[1])
    assert cli.main(["predict", "two.domkl", "--data", "new.csv"]) == 0
    said = capsys.readouterr()
    assert next(csv.DictReader(said.out.splitlines()))["learner"] == best
    assert f"1 row predicted by learner {best}, the best of 2" in said.err
    assert cli.main(["explain", "two.domkl"]) == 0
    assert f"learner {best}, the best of 2" in capsys.readouterr().out
    assert cli.main(["explain", "two.domkl", "--learner", str(model.learners[0])]) == 0
    assert "the best" not in capsys.readouterr().out


def test_an_unwritable_place_is_found_before_anything_is_learnt(here, monkeypatch, capsys):
    monkeypatch.setattr("domkl.lab.trial.carry_out", lambda *args: pytest.fail("it learns"))
    for argv in (
        ["--out", "mine.csv/x"],
        ["--out", "/proc/xx"],
        ["--save", "."],
        ["--predictions", "mine.csv/p"],
    ):
        assert code(["run", *MINE, *argv]) == 2
        error = capsys.readouterr().err
        assert f"{argv[0]} " in error
        assert error.count("\n") == 1
    assert [path.name for path in here.iterdir()] == ["mine.csv"]
    assert code(["run", *MINE, "--model", "paper", "--save", "m"]) == 2


@pytest.mark.parametrize("flag", [[], ["--json"]])
def test_results_are_printed_although_writing_fails(here, monkeypatch, capsys, flag):
    def fail(*args):
        raise OSError(28, "No space left on device", "there")

    monkeypatch.setattr(results, "write_predictions", fail)
    argv = ["run", "--data", "mine.csv", "--target", "y", "--model", "paper", "--D", "4"]
    assert code([*argv, *flag]) == 2
    out, err = capsys.readouterr()
    assert "No space left" in err
    assert json.loads(out)["files"] == [] if flag else "Mean squared error" in out


def test_a_run_says_that_a_paper_model_is_not_saved(here, monkeypatch, capsys):
    monkeypatch.setattr(report, "write", lambda outcome, folder: [folder / "index.html"])  # takes a second
    argv = ["run", "--data", "mine.csv", "--target", "y", "--rounds", "20"]
    assert code([*argv, "--model", "paper", "--D", "4"]) == 0
    assert "Model: not saved; only model auto can be" in capsys.readouterr().out
    assert code([*argv, "--size", "16"]) == 0
    assert "Model: domkl-report" in capsys.readouterr().out


def test_ctrl_c_keeps_what_was_done(here):
    """Of a stream that would take minutes."""
    lines = (f"{i % 13},{i % 7},{i % 5}\n" for i in range(30_000))
    (here / "long.csv").write_text("a,b,y\n" + "".join(lines))
    argv = [
        sys.executable,
        "-m",
        "domkl",
        "run",
        "--data",
        "long.csv",
        "--target",
        "y",
        "--json",
        "--size",
        "2000",
    ]
    run = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    line = run.stderr.readline()  # progress without a terminal
    assert re.match(r"domkl: 1 learner, long.csv: [\d,]+ of 30,000 \(\d+ %\), about \d+ s left", line)
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=60)
    assert run.returncode == 130, err
    found = json.loads(out)
    assert 0 < found["rounds"] < 30_000
    assert any(note.startswith(f"stopped after {found['rounds']} of 30000") for note in found["notes"])
    assert len(table(here / "domkl-report" / "predictions.csv")) == found["rounds"]
    assert domkl.DOMKL.load("domkl-report/model.domkl").n == found["rounds"]


def test_the_live_page_stays_after_the_results_until_one_ctrl_c(here, monkeypatch, capsys):
    seen = []

    def sleep(seconds):
        seen.append(capsys.readouterr().out)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("domkl.cli.live.time.sleep", sleep)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert cli.main(["run", *MINE, "--rounds", "10", "--no-report", "--live"]) == 0
    assert len(seen) == 1
    assert "Mean squared error" in seen[0]


def test_refused_rows_are_counted_once_and_a_loss_for_numbers_is_none_for_classes(here, capsys):
    with (here / "mine.csv").open("a") as file:
        file.write("2024-02-01 00:00,a,red,oops,1\n")
    assert cli.main(["run", *MINE, "--rounds", "10", "--no-report"]) == 0
    assert capsys.readouterr().out.count("1 row refused, ") == 1
    argv = ["run", "--data", "mine.csv", "--target", "color", "--rounds", "10", "--no-report"]
    assert cli.main([*argv, "--loss", "squared"]) == 2
    assert "--loss is squared and the target has classes; expected logistic" in capsys.readouterr().err


def test_errors_of_the_document_have_one_scale(here, capsys):
    for model in ("auto", "paper"):
        more = ["--size", "16"] if model == "auto" else ["--D", "4"]
        assert cli.main(["run", "--rounds", "40", "--no-report", "--json", "--model", model, *more]) == 0
        found = json.loads(capsys.readouterr().out)
        for one in (*found["learners"], found["network"]):
            assert one["rmse"] == pytest.approx(one["mse"] ** 0.5)
            assert one["rmse_alone"] == pytest.approx(one["mse_alone"] ** 0.5)


# Python


def test_a_run_shows_itself():
    X, y = problems.streams(3, 40, 2)
    run = domkl.simulate(X, y, "path", model=AUTO)
    assert re.fullmatch(r"<Run: 3 learners, 40 rounds, mean squared error [^>]*>", repr(run))
    frame = run.to_frame(y)
    np.testing.assert_array_equal(frame["y_hat"], run.y_hat.ravel())
    np.testing.assert_array_equal(frame["y"], y.ravel())
    assert "y" not in run.to_frame()
    from matplotlib.figure import Figure as Drawing

    axes = run.plot("predictions", y, learner=2, last=10, axes=Drawing().subplots())
    assert [line.get_label() for line in axes.lines] == ["truth", "prediction"]
    np.testing.assert_array_equal(axes.lines[1].get_ydata(), run.y_hat[2, -10:])
    with pytest.raises(InputError, match="learner is 3"):
        run.plot(learner=3)
    assert repr(domkl.Auto()) == "Auto()"
    assert (
        repr(domkl.Paper(kernels=domkl.kernels.gaussian(2, 3))) == "Paper(kernels=<frequencies (17, 3, 2)>)"
    )
    assert repr(domkl.DOMKL()) == "<DOMKL: one device, no sample yet, Auto()>"


def test_progress_may_be_true_and_may_stop_a_run():
    X, y = problems.streams(2, 30, 2)
    for model in (AUTO, domkl.Paper(kernels=domkl.kernels.gaussian(2, 3))):
        domkl.simulate(X, y, "path", model=model, progress=True)
        run = domkl.simulate(
            X, y, "path", model=model, progress=lambda done, T: "stop" if done >= 12 else None
        )
        assert run.y_hat.shape[1] in (12, 30)  # the paper's engine goes through pieces
        whole = domkl.simulate(X, y, "path", model=model)
        np.testing.assert_array_equal(run.y_hat, whole.y_hat[:, : run.y_hat.shape[1]])
    with pytest.raises(InputError, match="progress is 3; expected True or a function"):
        domkl.simulate(X, y, "path", model=AUTO, progress=3)


def test_what_an_error_names_is_there():
    model = domkl.DOMKL(model=AUTO)
    model.learn([1.0, 2.0], 3.0)
    with pytest.raises(InputError, match=r"see grow\(\)"):
        model.predict([1.0])
    assert callable(model.grow)
    network = domkl.DOMKL("path", model=AUTO)
    network.learn([[1.0], [2.0]], [1.0, 2.0])
    with pytest.raises(InputError) as error:
        network.predict([[1.0, 2.0], [2.0, 3.0]])
    assert "grow" not in str(error.value)


# Tables


def test_tables_for_papers():
    sheet = Sheet("A_b 5 %", ("name", "x|y"), [["a&b", "1 ± 2"], ["c", "3"]], bold=frozenset({(0, 1)}))
    tex = sheets.written(sheet, "latex")
    assert r"\caption{A\_b 5 \%}" in tex
    assert r"a\&b & \textbf{1 $\pm$ 2} \\" in tex
    odd = sheets.written(Sheet("t", ("name", "x"), [["[1pt]", "1"], ["*", "<"]]), "latex")
    assert r"{[}1pt] & 1 \\" in odd
    assert r"{*} & \textless{} \\" in odd
    assert tex.count(r"\begin{") == tex.count(r"\end{") == 2
    assert [tex.index(rule) for rule in ("toprule", "midrule", "bottomrule")] == sorted(
        tex.index(rule) for rule in ("toprule", "midrule", "bottomrule")
    )
    assert "| a&b | **1 ± 2** |" in sheets.written(sheet, "markdown")
    assert sheets.written(sheet, "csv").splitlines() == ["name,x|y", "a&b,1 ± 2", "c,3"]
    with pytest.raises(InputError, match=r"ends in .doc; expected .csv, .tex, .md"):
        sheets.format_of("a.doc")


def test_compare_takes_a_learner_of_ones_own(here, capsys):
    (here / "own_learner.py").write_text(
        "class Last:\n    y = 0.0\n    def predict_one(self, x): return self.y\n"
        "    def learn_one(self, x, y): self.y = y\n\n"
        "class Bad(Last):\n    def __init__(self): raise OSError('no')\n"
    )
    for text, fact in (
        ("own_learner:Nothing", "has no attribute 'Nothing'"),
        ("own_learner:Bad", "OSError: no"),
        ("nowhere_at_all:A", "No module named"),
        ("own_learner", "it has no module and class, with a colon between"),
        ("json:JSONDecoder", "JSONDecoder does not learn sample by sample"),
        ("os:system(command='touch ran')", "system does not learn sample by sample"),
        ("subprocess:Popen(args='touch ran', shell=True)", "Popen does not learn"),
        ("own_learner:Last(**{'a': 1})", "arguments need names"),
        ("own_learner:Last(__import__('os'))", "arguments need names"),
        ("own_learner:Last(a=__import__('os'))", "malformed"),
    ):
        assert code(["compare", "--rounds", "5", "--add", text]) == 2
        error = capsys.readouterr().err
        assert fact in error
        assert error.count("\n") == 1
    assert not (here / "ran").exists()
    argv = ["compare", "--rounds", "5", "--add", "own_learner:Last", "--out", "t.tex", "--format", "markdown"]
    assert cli.main(argv) == 0
    assert "| own_learner:Last | all |" in capsys.readouterr().out
    assert r"own\_learner:Last & all" in (here / "t.tex").read_text()


def test_one_trial_judges_no_claim_and_has_no_spread():
    def figures(trials):
        return [
            Figure(
                "II", "mse", "weather", 1, method, 1, value, None if trials == 1 else 0.1, trials, None, None
            )
            for method, value in (("DOKL2", 8.0), ("DOMKL", 1.0))
        ]

    assert {claim.holds for claim in reproduce.judge(figures(1), [])} == {None}
    assert reproduce.judge(figures(1), [])[0].ours == pytest.approx(8)
    assert reproduce.judge(figures(3), [])[0].holds is True


# Manners


def test_bare_domkl_is_help_and_version_names_the_engine(capsys):
    assert code([]) == 0
    assert "usage: domkl" in capsys.readouterr().out
    assert code(["--version"]) == 0
    assert re.match(r"domkl [\d.]+ \((native engine, \w+|NumPy.*)\)\n", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("argv", "meant"),
    [
        (["comapre"], "did you mean 'compare'?"),
        (["run", "--rouds", "3"], "did you mean --rounds?"),
        (["run", "--model", "atuo"], "did you mean 'auto'?"),
        (["run", "thre-stations"], "did you mean 'three-stations'?"),
        (["run", "--data", "mien.csv", "--target", "y"], "did you mean 'mine.csv'?"),
        (["predict", "mine.cvs", "--data", "mine.csv"], "did you mean 'mine.csv'?"),
    ],
)
def test_what_is_misspelt_is_corrected(here, capsys, argv, meant):
    assert code(argv) == 2
    error = capsys.readouterr().err
    assert meant in error
    assert error.count("\n") == 1


def test_shells_complete_commands_options_and_values(tmp_path):
    scripts = {shell: completion.script(shell, cli.parser()) for shell in completion.SHELLS}
    (tmp_path / "c.sh").write_text(scripts["bash"])
    ask = "source c.sh; COMP_WORDS=({}); "
    ask += 'COMP_CWORD=$((${{#COMP_WORDS[@]}}-1)); _domkl; echo "${{COMPREPLY[@]}}"'
    for words, found in (
        ("domkl comp", "compare completion"),
        ("domkl run --rou", "--rounds"),
        ("domkl run --model p", "paper"),
    ):
        done = subprocess.run(
            ["bash", "-c", ask.format(words)], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert done.stdout.split() == found.split(), done.stderr
    assert "complete -c domkl -n '__fish_seen_subcommand_from run' -l rounds" in scripts["fish"]
    assert "bashcompinit" in scripts["zsh"]
    assert code(["completion", "tcsh"]) == 2


def test_a_narrow_terminal_explains_only_what_it_shows():
    from outcomes import OUTCOMES
    from test_report import printed

    outcome = OUTCOMES["stations"]()
    assert re.search(r"^CV ", printed(outcome, 120), re.MULTILINE)
    narrow = printed(outcome, 50)
    assert not re.search(r"^CV ", narrow, re.MULTILINE)
    assert re.search(r"^No room for .*\bCV\b", narrow, re.MULTILINE)
