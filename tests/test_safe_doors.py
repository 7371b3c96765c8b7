"""What strangers and odd files tried at each door, and the rule that ends its kind."""

from __future__ import annotations

import copy
import dataclasses
import json
import os
import pickle
import sqlite3
import time
import tracemalloc

import msgspec
import numpy as np
import pytest

import domkl
from domkl.agent import config as configs
from domkl.agent.config import AgentConfig, HttpSection, OutputSection, StreamSection, TransportSection
from domkl.agent.loop import Status
from domkl.agent.output import Poster
from domkl.base import budget, toml
from domkl.base.budget import Budget
from domkl.base.errors import DataError, InputError
from domkl.base.secret import Secret, exposed, plain
from domkl.cli import main
from domkl.datasets import readers
from domkl.datasets.columns import Columns
from domkl.datasets.table import read_table
from domkl.learner import files
from domkl.watch import Access, Feed, Server
from test_watch_server import ask, following

HOOK = "https://hooks.example.org/services/T00/B00/s3cret"
LOOPBACK = ("127.0.0.1", 0)


# A secret cannot be printed


def test_a_secret_is_hidden_however_it_leaves():
    key = Secret("s3cret")
    shown = [
        str(key),
        repr(key),
        f"{key:>8}",
        f"{key}",
        json.dumps({"a": key}),
        str([key]),
        str(vars(Key(key))),
    ]
    with pytest.raises(TypeError):
        msgspec.json.encode(key)
    shown += [str(pickle.loads(pickle.dumps(key))), str(copy.deepcopy(key))]
    shown += [
        key + "",
        key.upper(),
        "".join([key]),
        key.encode().decode(),
        str(ValueError(key)),
        str(key[:3]),
    ]
    assert all("s3c" not in text.lower() for text in shown)
    assert "***" in shown[0]
    assert plain(key) == "s3cret" == key


class Key:
    def __init__(self, key):
        self.key = key


def secrets_of(tmp_path):
    """An agent's file with every kind of secret in it."""
    file = tmp_path / "a.toml"
    file.write_text(
        'inputs = 1\n[stream]\ntopic = "t"\nbroker = "127.0.0.1:1"\nuser = "u"\npassword = "s3cret"\n'
        f'[transport]\nuser = "u"\npassword = "s3cret-2"\n[output]\nurl = "{HOOK}"\n'
        '[http]\nlisten = "127.0.0.1:0"\ntoken = "s3cret-s3cret-s3cret"\n'
    )
    return file


def test_no_secret_of_a_file_is_shown(tmp_path, capsys):
    file = secrets_of(tmp_path)
    for options in ([], ["--json"]):
        assert main(["agent", str(file), "--check", *options]) == 0
        out = "".join(capsys.readouterr())
        assert "s3cret" not in out
        assert "https://hooks.example.org/***" in out
    config = configs.load(file)
    assert "s3cret" not in f"{config} {vars(config)} {config.transport_settings()} {config.http.access()}"
    assert config.output.url == HOOK


@pytest.mark.parametrize(
    "text",
    [
        '[stream]\npath = ["postgresql://u:s3cret@h/db"]',
        '[stream]\npath = "postgresql://u:s3cret@h:x/db"\nkind = "csv"',
        '[output]\nurl = ["https://h/s3cret"]',
        '[output]\nurl = "http://example.org/s3cret"',
        '[output]\nurl = "https://[/s3cret"',
        '[output]\nurl = "https://h:s3cret/x"',
        '[stream]\npath = "POSTGRESQL://u:s3cret@h/db"',
        '[stream]\npath = "postgresql+psycopg://u:s3cret@h/db"',
        '[stream]\npath = "postgresql:/u:s3cret@h/db"',
        "[http]\ntoken = 333",
        '[http]\ntoken = "s3cret"',
        '[transport]\nconnect = ["u:s3cret@h:1"]',
    ],
)
def test_an_error_about_a_secret_does_not_repeat_it(tmp_path, text):
    file = tmp_path / "a.toml"
    file.write_text(f"inputs = 1\n{text}\n")
    with pytest.raises((InputError, DataError)) as error:
        configs.load(file)
    assert "s3cret" not in str(error.value)
    assert "333" not in str(error.value)


def test_a_database_address_shows_its_name_alone():
    stream = StreamSection(path="postgresql://u:s3cret@h/weather")
    assert "s3cret" not in f"{stream} {vars(stream)}"
    assert (stream.shown, str(stream.path)) == ("weather", "postgresql://***/weather")
    with pytest.raises((DataError, ImportError)) as error:
        readers.read(StreamSection(path="postgresql://u:s3cret@127.0.0.1:1/weather").path, Columns())
    assert "s3cret" not in str(error.value)


def test_a_web_address_that_fails_is_not_logged(caplog):
    poster = Poster("http://127.0.0.1:1/services/s3cret")
    with caplog.at_level("DEBUG", "domkl"):
        poster.write({"index": 0})
        time.sleep(0.3)
        poster.close()
    assert poster.sending.fault.startswith("predictions cannot be sent: http://127.0.0.1:1/***: ")
    assert "s3cret" not in "".join(f"{vars(record)}" for record in caplog.records) + poster.sending.fault


@pytest.mark.skipif(os.name != "posix", reason="files have no such modes")
def test_files_with_secrets_that_others_may_open_are_named(tmp_path, capsys):
    file, key = secrets_of(tmp_path), tmp_path / "password"
    file.chmod(0o644)
    assert main(["agent", str(file), "--check"]) == 0
    assert (
        f"warning: {file} holds a password, token or key that other users may read; "
        in capsys.readouterr().out
    )
    file.chmod(0o600)
    assert main(["agent", str(file), "--check", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["warnings"] == []
    key.write_text("x")
    key.chmod(0o622)
    assert exposed([key]) == [
        f"{key} holds a password, token or key that other users may change; expected its owner alone; run: "
        f"chmod 600 {key}"
    ]


# One policy for every request


def test_health_is_told_in_fixed_words():
    from domkl.agent.serve import WORDS, Service

    status = Status(ready=True, faults=(f"predictions cannot be sent: {HOOK}: gone", "nobody knows s3cret"))
    with Service(LOOPBACK, status, dict) as service:
        code, text, _ = ask(service, "/readyz")
        assert (code, text) == (503, b"predictions cannot be sent\n")
        assert ask(service, "/readyz", Host="evil.example:80")[0] == 421
        status.faults = ("nobody knows s3cret",)
        assert ask(service, "/readyz")[1] == b"not ready\n"
        status.ready, status.faults = False, ()
        assert ask(service, "/readyz")[1].decode().strip() in WORDS
        status.alive_at -= 1000
        assert ask(service, "/healthz")[:2] == (503, b"no progress\n")


FOREIGN = [
    {"Host": "evil.example"},
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Sec_Fetch_Site": "cross-site"},
    {"Sec_Fetch_Site": "same-site", "Sec_Fetch_Mode": "no-cors"},
]


@pytest.mark.parametrize("headers", FOREIGN)
@pytest.mark.parametrize("is_local", [True, False])
def test_every_route_refuses_what_another_page_asks(headers, is_local):
    from domkl.agent.serve import Service

    token = None if is_local else "a-token-that-is-long-enough"
    access = Access(token, is_local)
    with Service(LOOPBACK, Status(ready=True), dict, feed=Feed("net"), access=access) as service:
        for path in (
            "/",
            "/page.js",
            "/state",
            "/events",
            "/predictions",
            "/predict",
            "/metrics",
            "/healthz",
        ):
            for method in ("GET", "HEAD", "POST"):
                assert ask(service, path, method, Authorization=f"Bearer {token}", **headers)[0] in (403, 421)


@pytest.mark.parametrize(
    "head", ["GET / HTTP/1.1\r\nHost: {0}\r\nHost: evil", "GET http://[::1 HTTP/1.1\r\nHost: {0}"]
)
def test_a_request_that_can_be_read_in_two_ways_is_refused(head):
    import socket

    with (
        Server(LOOPBACK, Feed("net")) as server,
        socket.create_connection(server.address, timeout=10) as client,
    ):
        client.sendall(head.format("127.0.0.1").encode() + b"\r\n\r\n")
        assert b" 400 " in client.makefile("rb").readline()


def test_a_link_from_elsewhere_opens_the_page_and_nothing_else():
    link = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}
    with Server(LOOPBACK, Feed("net")) as server:
        assert ask(server, "/", **link)[0] == 200
        assert ask(server, "/events", **link)[0] == ask(server, "/state", **link)[0] == 403
        assert ask(server, "/state", Sec_Fetch_Site="same-origin")[0] == 200


def test_sixteen_streams_lock_nobody_out():
    import contextlib

    with Server(LOOPBACK, Feed("net")) as server, contextlib.ExitStack() as stack:
        for _ in range(16):
            next(stack.enter_context(following(server)))
        with following(server) as owner:
            assert b"200" in next(owner)


def test_a_client_that_asks_too_much_costs_others_nothing():
    from domkl.watch.access import Rate

    rate = Rate(rate=1.0, burst=2)
    assert [rate.take("a", now=0.0) for _ in range(4)] == [True, True, False, False]
    assert rate.take("b", now=0.0)
    for n in range(10_000):  # a network of addresses costs no memory
        rate.take(f"c{n}", now=1.0)
    assert len(rate._left) <= 256


@pytest.mark.parametrize("is_encrypted", [True, False])
def test_the_cookie_of_an_encrypted_page_stays_encrypted(is_encrypted):
    from domkl.watch import Request

    access = Access("a-token-that-is-long-enough")
    request = Request("GET", "/", {"token": "a-token-that-is-long-enough"}, is_encrypted=is_encrypted)
    cookie = access.exchange(request).headers["Set-Cookie"]
    assert ("; Secure" in cookie) == is_encrypted


# One budget for everything that is read


def quickly(call, match, seconds=5.0, mebibytes=100):
    """It is refused in one line, soon, and with little memory."""
    tracemalloc.start()
    start = time.process_time()
    try:
        with pytest.raises((DataError, InputError), match=match) as error:
            call()
        assert time.process_time() - start < seconds
        assert tracemalloc.get_traced_memory()[1] < mebibytes * 2**20
    finally:
        tracemalloc.stop()
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 5000


def test_a_toml_key_of_fifty_thousand_dots(tmp_path):
    file = tmp_path / "a.toml"
    for text in ("a." * 50_000 + "b = 1", "[" + "a." * 50_000 + "b]", "x = {" + "a . " * 50_000 + "b = 1}"):
        file.write_text(text)
        quickly(lambda: toml.read(file, "settings", "agent"), "more than 256 dots")
    deep = "a." * 50_000  # between two quotes of which the first ends a text of several lines
    for quotes in ('"', "'"):
        file.write_text(f"x = {{a = {3 * quotes}\n{3 * quotes}, {deep}b = 1, c = {2 * quotes}}}")
        quickly(lambda: toml.read(file, "settings", "agent"), "line 2: more than 256 dots")
    file.write_text(f'x = ["{"." * 9000}", "1.2.3.4"]  # {"." * 9000}\n')
    assert toml.read(file, "settings", "agent")["x"][1] == "1.2.3.4"
    file.write_text("#" * 2**19)
    quickly(lambda: toml.read(file, "settings", "agent"), "more than 262,144 bytes")
    file.write_text("x = " + "[" * 50_000)
    quickly(lambda: toml.read(file, "settings", "agent"), "cannot be read")


@pytest.fixture
def small(monkeypatch):
    """A budget that is used up at once, so that what has no end is refused at once."""
    found = Budget(rows=10_000, columns=100, cells=50_000, bytes=2**20, seconds=1.0)
    monkeypatch.setattr(budget, "TABLE", found)
    return found


ENDLESS = "with recursive n(i) as (select 1 union all select i + 1 from n) select {} from n"


@pytest.mark.parametrize(
    ("what", "match"),
    [
        ("i", "more than 10,000 rows"),
        ("hex(randomblob(5000))", "more than 1,048,576 bytes"),
        (", ".join(f"i as c{i}" for i in range(101)), "more than 100 columns"),
        ("count(*)", "more than 1 seconds"),
        ("hex(zeroblob(600000000))", "too big"),
    ],
)
def test_a_view_without_end(tmp_path, monkeypatch, small, what, match):
    if "seconds" not in match:  # on a busy machine
        monkeypatch.setattr(budget, "TABLE", dataclasses.replace(small, seconds=60.0))
    path = tmp_path / "a.db"
    with sqlite3.connect(path) as connection:
        connection.execute(f"create view endless as {ENDLESS.format(what)}")
    connection.close()
    quickly(lambda: readers.read(f"sqlite:{path}", Columns()), match)


def test_a_small_parquet_file_of_many_rows(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path, batch = tmp_path / "a.parquet", arrow.table({"x": np.zeros(2**20, np.int8)})
    with parquet.ParquetWriter(path, batch.schema, compression="zstd") as writer:
        for _ in range(12):
            writer.write_table(batch)
    assert path.stat().st_size < 2**16
    quickly(lambda: readers.read(str(path), Columns()), "more than 10,000,000 rows")


@pytest.mark.parametrize("is_nested", [False, True])
def test_a_small_parquet_file_whose_cells_share_one_text(tmp_path, is_nested):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path, count = tmp_path / "a.parquet", 20_000
    cells = arrow.DictionaryArray.from_arrays(arrow.array(np.zeros(count, np.int32)), ["a" * 2**20])
    if is_nested:
        cells = arrow.ListArray.from_arrays(arrow.array(np.arange(0, count + 1, 10), arrow.int32()), cells)
    for how in ({"store_schema": False, "dictionary_pagesize_limit": 2**30}, {}):
        parquet.write_table(arrow.table({"x": cells}), path, compression="zstd", **how)
        assert path.stat().st_size < 2**14
        quickly(lambda: readers.read(str(path), Columns()), "more than 1,073,741,824 bytes")


def test_lists_in_a_parquet_file_count_as_their_cells(tmp_path, small):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    parquet.write_table(arrow.table({"x": [[1.0] * 90] * 1000}), path)
    quickly(lambda: readers.read(str(path), Columns()), "more than 50,000 cells")


def wide(tmp_path):
    path = tmp_path / "a.csv"
    names = ",".join(f"c{i}" for i in range(100_000))
    path.write_text(f"{names},y\n" + f"{','.join('1' for _ in range(100_001))}\n" * 3)
    return path


def test_a_csv_of_a_hundred_thousand_columns(tmp_path):
    path = wide(tmp_path)
    quickly(lambda: readers.read(str(path), Columns()), "more than 10,000 columns")
    config = AgentConfig("net", "a", stream=StreamSection(path=str(path)))
    from domkl.agent.making import make

    quickly(lambda: make(config), "columns|inputs")


def test_a_column_that_makes_each_row_a_learner(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("id,x,y\n" + "".join(f"n{i // 3},{i % 7},{i % 5}\n" for i in range(9000)))
    table = read_table(str(path), target="y", learner="id")
    quickly(table.by_learner, "rows of 3000 learners; expected at most 2000")


def test_rows_that_each_have_other_names(tmp_path, small):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({f"c{i}": 1}) + "\n" for i in range(200)))
    quickly(lambda: readers.read(str(path), Columns()), "more than 100 columns")
    path.write_text(json.dumps({f"c{i}": [1] * 3 for i in range(200)}))
    quickly(lambda: readers.read(str(path), Columns()), "more than 100 columns")


@pytest.mark.parametrize("text", ["[" * 10**6, '{"a":' * 10**6, "1" * 10**6, '[{"a":' + "9" * 10**6 + "}]"])
def test_json_that_is_deep_or_long(tmp_path, text):
    path = tmp_path / "a.json"
    path.write_text(text)
    raw = readers.read(str(path), Columns())
    assert raw.problems
    assert not len(raw)


def test_a_name_that_every_cell_would_repeat():
    row = {"n" * 700_000: {str(i): 1 for i in range(4000)}}
    quickly(lambda: Columns().flatten(row), "more than 512 characters")


@pytest.mark.parametrize("line", [b"1" * 4096, b"1,2\n" * 1024])
def test_standard_input_without_end(monkeypatch, small, line):
    class Pipe:
        buffer = property(lambda self: self)

        def isatty(self):
            return False

        def read(self, count):
            return line * (count // len(line))

    monkeypatch.setattr("sys.stdin", Pipe())
    quickly(lambda: readers.read("-", Columns()), "standard input: more than 1,048,576 bytes")


def test_files_of_settings_that_have_no_end(tmp_path):
    transport = TransportSection(user="u", password_file="/dev/zero")
    quickly(transport.secret, "more than 262,144 bytes")
    http = HttpSection(listen="127.0.0.1:0", token_file="/dev/zero")
    quickly(http.access, "more than 262,144 bytes")


# Numbers are proven before they are used


@pytest.mark.parametrize(
    ("ending", "value"),
    [("consensus.tau", 1e-8), ("memory.W", 1e80), ("memory.Y", np.nan), ("recent.variance", 0.0)],
)
def test_a_saved_model_with_a_number_that_would_fail_later_is_refused(tmp_path, ending, value):
    path, model, rng = tmp_path / "a.domkl", domkl.DOMKL(model=domkl.Auto(size=60)), np.random.default_rng(0)
    for x in rng.uniform(size=(100, 2)):
        model.predict(x)
        model.learn(x, x[0])
    model.save(path)
    domkl.DOMKL.load(path)
    arrays, meta = files.unseal(path.read_bytes())
    name = next(name for name in arrays if name.endswith(ending))
    arrays[name] = np.full_like(arrays[name], value)
    path.write_bytes(files.seal(arrays, meta))
    with pytest.raises(DataError, match=ending.split(".")[1]):
        domkl.DOMKL.load(path)


@pytest.mark.parametrize(
    ("path", "value"),
    [(("errors", "n"), None), (("errors", "n"), 2**63), (("history", 0, 0), "x"), ("array", None)],
)
def test_a_checkpoint_with_a_number_that_would_fail_later_is_refused(tmp_path, path, value):
    import asyncio

    from domkl.agent import Agent, checkpoint

    (tmp_path / "a.csv").write_text("x,y\n" + "".join(f"{i / 9},{i % 5}\n" for i in range(30)))
    file, folder = tmp_path / "a.toml", tmp_path / "a.state"
    file.write_text(
        'inputs = 1\nmodel.size = 40\n[stream]\npath = "a.csv"\n'
        '[checkpoint]\ndirectory = "a.state"\n[output]\npredictions = ""\n'
    )
    asyncio.run(Agent(configs.load(file)).run())
    found = checkpoint.load(folder)
    arrays, meta = dict(found.arrays), copy.deepcopy(found.meta)
    if path == "array":
        arrays["agent.errors.misses"] = np.zeros(3)
    else:
        inside = meta["agent"]["state"]["fields"]
        *outer, last = path
        for name in outer:
            inside = inside[name]
            inside = inside["fields"] if isinstance(inside, dict) and "fields" in inside else inside
        inside[last] = value
    checkpoint.save(folder, found.round, arrays, meta, sync=False)
    with pytest.raises(DataError):
        Agent(configs.load(file))


# What leaves is harmless, and leaves once


@pytest.mark.skipif(os.name != "posix", reason="there are no such links")
def test_a_link_in_a_shared_folder_leads_no_output_astray(tmp_path):
    from domkl.lab.results import write_whole

    victim, path = tmp_path / "victim", tmp_path / "shared" / "a.csv"
    victim.write_text("mine")
    path.parent.mkdir()
    for name in (".a.csv.part", "a.csv"):
        (path.parent / name).symlink_to(victim)
    write_whole(path, b"rows")
    assert (victim.read_text(), path.read_text(), path.is_symlink()) == ("mine", "rows", False)
    (tmp_path / "usual").touch()
    assert path.stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_name_is_no_formula_in_a_csv_file():
    from domkl.lab.sheet import as_csv

    for name in ("=HYPERLINK(1)", "+1+cmd|' /C calc'!A0", "-2+3+cmd", "@SUM(1)", "\t=1", "\r=1", " =1"):
        assert as_csv([[name]]).strip('"').startswith("'"), name
    numbers = ["-0.5", "+3", "-1e-05", "-12 %", "", "north"]
    assert as_csv([[*numbers, -1.5, None]]) == f"{','.join(numbers)},-1.5,\n"


def test_the_predictions_of_a_learner_called_like_a_formula(tmp_path):
    path = tmp_path / "a.csv"
    rows = [f"{name},{t},{t % 7}" for t in range(20) for name in ("=HYPERLINK(1)", "b")]
    path.write_text("\n".join(["site,x,y", *rows]) + "\n")
    out = tmp_path / "out.csv"
    options = ["--target", "y", "--learner-column", "site", "--no-report", "--size", "40"]
    assert main(["run", "--data", str(path), *options, "--predictions", str(out)]) == 0
    text = out.read_text()
    assert "\n'=HYPERLINK(1),0," in text
    assert "\n=HYPERLINK" not in text


@pytest.mark.parametrize(
    "topic", ["domkl/net/operator/graph", "domkl/net/a/theta", "domkl/net/b/x", "domkl/x"]
)
@pytest.mark.parametrize("broker", ["127.0.0.1:1883", None])
def test_predictions_are_not_written_where_learners_talk(topic, broker):
    stream = StreamSection(topic="t", broker=broker)
    transport = TransportSection(kind="mqtt")
    with pytest.raises(InputError, match="topic is the network's own"):
        AgentConfig(
            "net", "a", inputs=1, stream=stream, transport=transport, output=OutputSection(topic=topic)
        )
    own = OutputSection(topic="domkl/net/a/prediction")
    assert AgentConfig("net", "a", inputs=1, stream=stream, transport=transport, output=own).output == own
    with pytest.raises(InputError, match="where learners talk"):
        OutputSection(discovery_prefix="domkl/net")


@pytest.mark.parametrize("torn", ["", '{"index": 47, "rou'])
def test_a_file_of_predictions_has_each_once(tmp_path, torn):
    from domkl.agent.output import Lines

    def written(again, numbers):
        lines = Lines(str(tmp_path / "a.jsonl"), again)
        for i in numbers:
            lines.write({"index": i, "note": "x" * 100})
        lines.close()
        return [json.loads(line)["index"] for line in (tmp_path / "a.jsonl").read_text().splitlines()]

    assert written(None, range(3)) == [0, 1, 2]
    assert written(0, range(1000)) == [*range(1000)]  # all are made again
    with open(tmp_path / "a.jsonl", "a") as file:
        file.write(torn)
    assert written(900, range(900, 1010)) == [*range(1010)]
    assert written(5000, [5000]) == [*range(1010), 5000]  # others are kept
    (tmp_path / "a.jsonl").write_text("")
    assert written(7, [7]) == [7]


def test_an_agent_that_is_killed_writes_each_prediction_once(tmp_path):
    import signal
    import subprocess
    import sys

    rows = "".join(json.dumps({"x": [i / 700], "y": i % 5}) + "\n" for i in range(700))
    (tmp_path / "a.jsonl").write_text(rows)
    file, out = tmp_path / "a.toml", tmp_path / "out.jsonl"
    file.write_text(
        'inputs = 1\nmodel.size = 40\n[stream]\npath = "a.jsonl"\nfollow = true\n'
        '[output]\npredictions = "out.jsonl"\n[checkpoint]\nevery_rounds = 50\nsync = false\n'
    )

    def lines():
        return out.read_bytes().count(b"\n") if out.exists() else 0

    for enough in (30, 180, 400, 700):
        agent = subprocess.Popen(
            [sys.executable, "-m", "domkl", "agent", str(file)], stderr=subprocess.DEVNULL
        )
        end = time.monotonic() + 60
        while lines() < enough and time.monotonic() < end:
            time.sleep(0.002)
        agent.send_signal(signal.SIGKILL)
        agent.wait()
    found = [json.loads(line)["index"] for line in out.read_text().splitlines()]
    assert found == [*range(700)]


def test_a_followed_file_without_a_state_is_predicted_once_too(tmp_path):
    import asyncio

    (tmp_path / "a.csv").write_text("x,y\n" + "".join(f"{i / 9},{i % 5}\n" for i in range(30)))
    file, out = tmp_path / "a.toml", tmp_path / "out.jsonl"
    file.write_text(
        'inputs = 1\nmodel.size = 40\n[stream]\npath = "a.csv"\nfollow = true\n'
        '[checkpoint]\ndirectory = ""\n[output]\npredictions = "out.jsonl"\n'
    )

    async def run():
        agent = domkl.agent.Agent(configs.load(file))
        running, end = asyncio.create_task(agent.run()), time.monotonic() + 20
        while agent.progress.samples < 30 and time.monotonic() < end:
            await asyncio.sleep(0.01)
        agent.stop()
        await running

    for _ in range(2):
        asyncio.run(run())
        assert [json.loads(line)["index"] for line in out.read_text().splitlines()] == [*range(30)]


@pytest.mark.parametrize("round", [2**51, 2**51 + 1, 2**52 - 1])
def test_a_round_near_the_end_of_their_range_leads_nobody_there(round):

    one, other = (domkl.Learner(domkl.Auto(size=40), [n], name=m, inputs=1) for n, m in ("ba", "ab"))
    update = other.observe([0.5], 1.0)
    one.observe([0.5], 1.0)
    one.close()
    one.skip_to(2**51 - 10)
    assert one.receive("b", update._replace(round=round))
    for _ in range(100):
        one.follow()
    assert one.round <= 2**51 + 64
    one.observe([0.5], 1.0)
    from domkl.base.errors import PeerError

    with pytest.raises(PeerError, match="round is"):
        one.receive("b", update._replace(round=2**52))


@pytest.mark.parametrize("model", ["first", "auto"])
def test_rounds_that_one_neighbour_invents_cost_no_reading(model):
    """It makes numbers grow, as SECURITY.md says; whatever it claims, all readings are learnt."""
    import asyncio

    import networkx as nx

    import liars
    import problems

    T = 400
    X, y = problems.streams(3, T, liars.d)

    async def disturb(agents):
        for _ in range(50):
            here = agents[0].learner.round
            liars.send(agents[2], liars.lie(agents[2], here + 60))
            while agents[0].learner.round < here + 5 and not agents[0].neighbourhood.done:
                await asyncio.sleep(0.001)

    agents, y_hat = liars.run_with(nx.complete_graph(3), X, y, liars.MODELS[model], disturb)
    assert y_hat.shape == (3, T)
    assert all(agent.progress.samples == T for agent in agents)
    assert all(2 * T < agent.learner.round < T + 51 * 64 for agent in agents)
    errors = (y_hat - y)[:2, -100:] ** 2
    assert errors.mean() < y[:2].var()
