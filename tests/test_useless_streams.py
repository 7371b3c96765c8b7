"""Streams of which no row can be used: said in one line, with the remedy, by --check and at the end."""

from __future__ import annotations

import asyncio
import json

import pytest

from domkl import cli
from domkl.agent import load
from domkl.agent.serve import serve
from domkl.base.errors import DataError
from inmemory import Agent

HEADER = """
network = "net"
name = "a"
inputs = 2
[model]
size = 16
[transport]
kind = "memory"
[output]
predictions = "predictions.jsonl"
[stream]
"""
#: Rows that all look alike, what is refused about them, and what to do.
USELESS = [
    (
        "csv",
        "a;b;y\n1,5;2,5;3\n",
        "",
        "column 'a' is '1,5', expected a number; say [columns] decimal",
    ),
    ("csv", "a,b,y\n1,5,2,5,3\n", "", "the row has 5 cells, expected 3; write decimals with a point"),
    (
        "csv",
        "a,b,y\nred,2,3\n",
        "",
        "'red', expected a number; fix the row, leave the column out with [columns] drop a",
    ),
    (
        "csv",
        "a,b,y\n,2,3\n",
        '[columns]\nmissing = "error"',
        "column 'a' is empty; fill it, or allow missing cells",
    ),
    ("jsonl", '{"a": 1, "b": 2, "y": 3}\n', "", 'put the inputs under x, such as {"x": [1.5, 2], "y": 3}'),
    ("jsonl", '{"x": ["1.5", "2"], "y": 3}\n', "", "write numbers without quotes, and decimals with a point"),
    ("jsonl", '{"x": {"a": 1, "b": 2}}\n', "", 'features lists none; write [columns] features = ["a", "b"]'),
    (
        "jsonl",
        '{"x": {"a": 1, "c": 2}}\n',
        '[columns]\nfeatures = ["a", "b"]',
        "x has no 'b'; fix the names in the row, or those in [columns] features",
    ),
    ("jsonl", '{"x": [1], "y": 3}\n', "", "x has 1 values, expected 2; fix the row, or inputs"),
    ("jsonl", "1,2,3\n", "", 'write one JSON object a line, such as {"x": [1.5, 2], "y": 3}'),
]
KINDS = pytest.mark.parametrize(("kind", "text", "extra", "message"), USELESS)


def written(folder, kind, text, extra="", rows=30):
    """An agent's file, with a stream of as many such rows."""
    header, row = text.split("\n")[:2] if kind == "csv" else ("", text.strip())
    (folder / f"in.{kind}").write_text((f"{header}\n" if header else "") + f"{row}\n" * rows)
    path = folder / "a.toml"
    path.write_text(f'{HEADER}kind = "{kind}"\npath = "in.{kind}"\n{extra}\n')
    return path


@KINDS
def test_an_agent_that_could_use_nothing_says_why_and_fails(tmp_path, kind, text, extra, message, capfd):
    path = written(tmp_path, kind, text, extra)
    with pytest.raises(DataError, match="none of 30 rows could be used; the first is ") as error:
        asyncio.run(serve(load(path, {})))
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    last = json.loads(capfd.readouterr().err.splitlines()[-1])
    assert (last["event"], last["state"]) == ("status", "done")
    assert (last["rows"], last["used"], last["refused"]) == (30, 0, 30)
    (reason,) = last["reasons"]
    assert reason.startswith("30 ")
    assert "first line " in reason


@KINDS
def test_check_looks_at_the_first_rows(tmp_path, kind, text, extra, message, capsys):
    path = written(tmp_path, kind, text, extra)
    assert cli.main(["agent", str(path), "--check"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert f"in.{kind}: none of the first 20 rows can be used; the first is " in said.err
    assert message in said.err
    assert len(said.err.splitlines()) == 1


def test_a_useless_stream_is_exit_code_2(tmp_path, capsys, monkeypatch):
    from domkl.cli import agent

    monkeypatch.setattr(agent, "run_in_batches", lambda: None)  # it would last for all later tests
    assert cli.main(["agent", str(written(tmp_path, *USELESS[0][:2]))]) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("domkl: none of 30 rows could be used; ")


def test_check_counts_rows_that_are_refused_among_others(tmp_path, capsys):
    path = written(tmp_path, "csv", "a,b,y\n1,2,3\n", rows=5)
    with (tmp_path / "in.csv").open("a") as file:
        file.write("1,x,3\n" * 100)
    assert cli.main(["agent", str(path), "--check"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert f"the first rows of {tmp_path / 'in.csv'}: 20 read, 5 can be used" in said
    assert "refused: 15 not a number, first line 7: column 'b' is 'x', expected a number" in said
    assert cli.main(["agent", str(path), "--check", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["first_rows"]
    assert (found["read"], found["used"], len(found["refused"])) == (20, 5, 1)


def test_check_says_where_there_is_no_file_yet_and_what_is_wrong_with_a_header(tmp_path, capsys):
    path = written(tmp_path, "csv", "a,b,y\n1,2,3\n")
    (tmp_path / "in.csv").write_text("a,b,z\n1,2,3\n")
    assert cli.main(["agent", str(path), "--check"]) == 2
    assert "header: there are 0 columns 'y', expected one" in capsys.readouterr().err
    (tmp_path / "in.csv").unlink()
    assert cli.main(["agent", str(path), "--check"]) == 0
    assert f"{tmp_path / 'in.csv'} is not there; its rows were not looked at" in capsys.readouterr().out


def test_one_row_that_is_used_is_enough(tmp_path, capfd):
    path = written(tmp_path, "csv", "a,b,y\n1,x,3\n")
    with (tmp_path / "in.csv").open("a") as file:
        file.write("1,2,3\n")
    asyncio.run(serve(load(path, {})))
    last = json.loads(capfd.readouterr().err.splitlines()[-1])
    assert (last["rows"], last["used"], last["refused"]) == (31, 1, 30)
    assert last["reasons"] == ["30 not a number, first line 2: column 'b' is 'x', expected a number"]


def test_nothing_at_all_is_no_error(tmp_path):
    path = written(tmp_path, "csv", "a,b,y\n", rows=0)
    asyncio.run(serve(load(path, {})))


def test_refused_rows_are_in_the_metrics(tmp_path):
    agent = Agent(load(written(tmp_path, *USELESS[0][:2]), {}), out=len)
    asyncio.run(agent.run())
    found = agent.metrics()
    assert (found["readings_used"], found["readings_refused"]) == (0, {"not a number": 30})
    assert found["dead_letters_lost"] == 0
