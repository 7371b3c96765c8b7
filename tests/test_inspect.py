"""`domkl inspect` and `--check`: what columns become, and everything that is wrong; then `domkl run`."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from domkl import cli
from domkl.base.errors import InputError
from domkl.datasets import Columns
from domkl.lab import experiment, trial

SMALL = ["--no-report", "--size", "32"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = ["when;city;hum;load;state"]
    for i in range(60):
        load, state = f"{i % 24},5", "hot" if i % 24 > 11 else "cold"
        lines.append(
            f"{1 + i // 24:02}/12/2004 {i % 24:02}.00;{'Rome' if i % 2 else 'Oslo'};0,{i:02};{load};{state}"
        )
    lines[10] += ";too;many"
    lines[20] = lines[20].replace("0,19", "ERR")
    lines[40] = lines[40].replace("0,39", "")
    (tmp_path / "my.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "right.csv").write_text("\n".join(lines).replace("/12/2004", ".12.2004") + "\n")
    return tmp_path


def asked(capsys, *argv):
    code = cli.main([*argv, "--json"])
    captured = capsys.readouterr()
    return code, json.loads(captured.out), captured.err


def test_inspect_shows_what_each_column_becomes(here, capsys):
    code, found, _ = asked(capsys, "inspect", "right.csv", "--target", "load")
    assert code == 0
    columns = {column["name"]: column for column in found["columns"]}
    assert [columns[name]["kind"] for name in ("when", "city", "hum", "load", "state")] == [
        "time",
        "category",
        "number",
        "number",
        "category",
    ]
    assert columns["when"]["role"] == "time"
    assert columns["city"]["inputs"] == ["city=Oslo", "city=Rome"]
    assert (columns["hum"]["missing"], columns["hum"]["unfit"], columns["hum"]["low"]) == (1, 1, "0")
    assert found["rows"] == 59
    assert [fault["rows"] for fault in found["refused"]] == [1, 1]
    assert found["inputs"] == 6 + 2 + 1 + 2
    assert Columns.from_table(found["description"]).decimal == ","
    assert cli.main(["inspect", "right.csv"]) == 0
    out = capsys.readouterr().out
    for part in (
        "the first 59 rows",
        "semicolon",
        "city=Oslo",
        "Choose what to predict with --target COLUMN",
    ):
        assert part in out


def test_inspect_shows_everything_wrong_at_once_each_with_its_fix(here, capsys):
    argv = ["--target", "stat", "--drop", "humm", "--kind", "city=category"]
    for command in (["inspect", "my.csv", *argv], ["run", "--data", "my.csv", *argv, "--check"]):
        code, found, err = asked(capsys, *command)
        assert code == 2
        assert err == "domkl: my.csv: 3 things to fix; expected none; see above\n"
        facts = [problem["fact"] for problem in found["problems"]]
        assert facts == [
            "no column 'stat'",
            "no column 'humm'",
            "column 'when' is '01/12/2004 00.00': day or month first",
        ]
        assert all(problem["remedy"] for problem in found["problems"])
    assert "--kind when=time:dmy" in found["problems"][2]["remedy"]
    for command in ("run", "compare"):
        argv = [command, "--data", "my.csv", "--target", "load", "--kind", "when=time:dmy", "--check"]
        code, found, _ = asked(capsys, *argv)
        assert (code, found["problems"]) == (0, [])


@pytest.mark.parametrize(
    ("argv", "part"),
    [
        (["inspect", "none.csv"], "no such file"),
        (["inspect", "my.csv", "--rows", "0"], "--rows is 0"),
        (["inspect", "my.csv", "--kind", "when"], "expected COLUMN=VALUE"),
        (["inspect", "my.csv", "--kind", "when=tim"], "did you mean 'time'?"),
        (["run", "--check"], "--check looks at data of your own"),
        (["run", "--data", "my.csv", "--check"], "needs a target"),
        (["run", "--time", "when"], "--time is for a file of your own"),
        (["run", "--class", "hot"], "--class is for a file of your own"),
    ],
)
def test_bad_requests_are_one_line(here, capsys, argv, part):
    assert cli.main(argv) == 2
    err = capsys.readouterr().err
    assert part in err
    assert err.count("\n") == 1


def test_run_counts_refused_rows_orders_by_time_and_names_the_data(here, capsys):
    code, found, _ = asked(capsys, "run", "--data", "right.csv", "--target", "load", *SMALL)
    assert code == 0
    assert (found["title"], found["experiment"]) == ("right.csv: predicting load", "right.csv")
    assert found["rounds"] == 58
    assert found["notes"][0].startswith("all rows are of one learner (--learner-column says")
    assert sum("refused 1 row: " in note for note in found["notes"]) == 2
    assert any("(line 11)" in note for note in found["notes"])
    assert cli.main(["run", "--data", "right.csv", "--target", "load", *SMALL]) == 0
    assert "2 rows refused" in capsys.readouterr().out.splitlines()[-1]


def test_two_classes_choose_their_loss_and_more_need_a_choice(here, capsys):
    _, found, _ = asked(capsys, "run", "--data", "right.csv", "--target", "state", *SMALL)
    assert found["loss"] == "logistic"
    note = "target 'state' has classes, so the loss is logistic: +1 is 'hot', -1 is 'cold'"
    assert note in found["notes"]
    assert cli.main(["run", "--data", "right.csv", "--target", "state", "--loss", "squared", *SMALL]) == 2
    assert "--loss is squared and the target has classes" in capsys.readouterr().err
    (here / "three.csv").write_text("a,y\n" + "".join(f"{i},{'xyz'[i % 3]}\n" for i in range(60)))
    assert cli.main(["run", "--data", "three.csv", "--target", "y", *SMALL]) == 2
    assert (
        "3 classes: x, y, z; expected two; predict one against the rest with --class NAME"
        in capsys.readouterr().err
    )
    _, found, _ = asked(capsys, "run", "--data", "three.csv", "--target", "y", "--class", "z", *SMALL)
    assert any("+1 is 'z', -1 is any other" in note for note in found["notes"])


def test_a_password_is_never_shown(capsys):
    address = "postgresql://me:secret@127.0.0.1:1"
    assert cli.main(["run", "--data", address, "--target", "y", "--query", "select 1"]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("domkl: PostgreSQL: ")
    chosen = experiment.Experiment("e", data=experiment.DataSpec(path=address))
    assert "secret" not in captured.err + captured.out + str(chosen.describe())


def test_standard_input_through_the_command(here):
    lines = "".join(json.dumps({"a": i, "s": {"b": -i}, "y": 2 * i}) + "\n" for i in range(40))
    argv = [sys.executable, "-m", "domkl", "run", "--data", "-", "--target", "y", "--json", *SMALL]
    done = subprocess.run(argv, input=lines, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert (found["title"], found["rounds"]) == ("standard input: predicting y", 40)


def test_the_report_names_ones_own_data(here):
    assert cli.main(["run", "--data", "right.csv", "--target", "load", "--size", "32"]) == 0
    page = (here / "domkl-report" / "index.html").read_text(encoding="utf-8")
    assert "right.csv: predicting load" in page
    assert "three-stations" not in page


def test_an_experiment_file_names_ones_own_data(here, capsys):
    (here / "lab").mkdir()
    (here / "lab" / "mine.toml").write_text(
        'learners = 2\n[data]\npath = "../right.csv"\n[columns]\ntarget = "load"\ntime = "when"\n'
        'drop = ["state"]\n[columns.kinds]\nwhen = "time:dmy"\n[model]\nkind = "auto"\nsize = 32\n'
    )
    chosen = experiment.load("lab/mine.toml")
    assert chosen.data.split == "interleaved"
    source = trial.prepare(chosen)
    assert source.split.times.shape == source.split.y.shape == (2, 29)
    assert source.inputs[0] == "when:hour.sin"
    assert (source.target, source.columns.kinds["when"]) == ("load", "time:dmy")
    assert chosen.describe()["data"]["columns"]["drop"] == ["state"]
    _, found, _ = asked(capsys, "run", "lab/mine.toml", "--no-report")
    assert (found["title"], len(found["learners"])) == ("mine: predicting load", 2)
    (here / "bad.toml").write_text('[columns]\ntargt = "y"\n')
    with pytest.raises(InputError, match=r"bad.toml \[columns\] key is 'targt'; .*did you mean 'target'"):
        experiment.load("bad.toml")


def test_a_number_that_may_mean_missing_is_told(here, capsys):
    (here / "marks.csv").write_text(
        "a,b,y\n" + "".join(f"{-200 if i % 9 == 0 else i % 5},{i * 7 % 11},{i}\n" for i in range(40))
    )
    _, found, _ = asked(capsys, "inspect", "marks.csv", "--target", "y")
    (note,) = found["notes"]
    assert note == "-200 in a is far below all other values; if it means missing, add --na=-200"
    _, found, _ = asked(capsys, "inspect", "marks.csv", "--target", "y", "--na=-200")
    assert not found["notes"]


def test_a_column_that_tells_the_target_is_named(here, capsys):
    (here / "told.csv").write_text(
        "kind,total,noise,word,y\n"
        + "".join(
            f"{'hi' if i > 9 else 'lo'},{3 * i + 1},{i * 7 % 11},{'none' if i % 3 else 'rain'},{i}\n"
            for i in range(30)
        )
    )
    _, found, _ = asked(capsys, "inspect", "told.csv", "--target", "y")
    (note,) = found["notes"]
    assert note.startswith("total rises or falls with y in every row")
    assert "add --drop total" in note
    _, found, _ = asked(capsys, "inspect", "told.csv", "--target", "y", "--drop", "total")
    assert not found["notes"]
    (word,) = [each for each in found["columns"] if each["name"] == "word"]
    assert word["missing"] == 0  # beside words, "none" is a word
    assert "word=none" in str(found)


def test_names_and_cells_do_not_command_a_terminal(tmp_path, capsys):
    odd, path = "\x1b[31m\x9b2J\u202e", tmp_path / "a.csv"
    path.write_text(
        f"{odd}a,{odd}b,y\n" + "".join(f"{i},{odd}{i % 2},{i}\n" for i in range(20)) + f"{odd},1,2\n"
    )
    for argv in (["inspect", str(path)], ["inspect", str(path), "--target", f"{odd}z"]):
        cli.main(argv)
        said = "".join(capsys.readouterr())
        assert "[31m" in said
        assert not {*odd} - {*"[31m2J"} & {*said}
