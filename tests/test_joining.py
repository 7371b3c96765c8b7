"""Messages joined by time; columns that appear in a followed file; what is kept of a guess."""

from __future__ import annotations

import asyncio
import json
import math

import pytest

from domkl.agent import Agent, load, serve
from domkl.agent.config import StreamSection
from domkl.agent.rows import PASSED, RowRefused
from domkl.agent.serve import serve as run_agent
from domkl.agent.streams import open_stream
from domkl.agent.topics import JoinedRows, Message, TopicRows
from domkl.agent.transports.base import Retained
from domkl.base.errors import DataError, InputError
from domkl.datasets.columns import Columns
from domkl.datasets.encoder import Encoder
from readings import append, collect, from_bytes

NOW = 1.7e9
LONE = '[columns]\ntarget = "y"\n[stream]\npath = "in.csv"\n[model]\nsize = 16\n'


def joiner(trigger=None, within=10.0, **columns):
    given = {"target": "y", "features": ("u", "v"), **columns}
    return JoinedRows(Encoder(Columns(**given)), trigger, within, clock=lambda: NOW)


def said(topic, value, at=0.0):
    payload = value if isinstance(value, bytes) else json.dumps(value).encode()
    return Message(topic, payload, NOW + at)


def test_the_label_completes_a_reading_of_the_last_values():
    rows = joiner()
    assert rows(said("s/u", 1)) is PASSED
    assert rows(said("s/u", 2, 1)) is PASSED
    assert rows(said("s/v", 3, 2)) is PASSED
    assert rows(said("s/y", 4, 3)) == ([2.0, 3.0], 4.0, None, NOW + 3)
    rows(said("s/u", 5, 4))
    found = rows(said("s/y", 6, 13))  # v is too old by then
    assert (found.x[0], found.y) == (5.0, 6.0)
    assert math.isnan(found.x[1])


def test_a_named_topic_completes_it_and_a_label_counts_once():
    rows = joiner("s/+/v")
    rows(said("s/a/u", 1))
    rows(said("s/y", 7))
    assert rows(said("s/a/v", 2, 1))[:2] == ([1.0, 2.0], 7.0)
    assert rows(said("s/a/v", 3, 2))[:2] == ([1.0, 3.0], None)


@pytest.mark.parametrize(
    ("times", "kinds"),
    [
        ([0, 1, 2], []),
        ([0, 2, 1], ["late"]),
        ([0, 0, 1], ["duplicate"]),
        ([0, 9000, 1], ["future"]),  # and the honest one after it is taken
        ([1, 0, 0], ["late", "late"]),
    ],
)
def test_late_doubled_and_future_messages_are_refused(times, kinds):
    rows, refused = joiner(time=("t",), kinds={"t": "time:s"}), []
    for at in times:
        try:
            rows(said("s/u", {"t": NOW + at, "u": 1}, at=0.5))
        except RowRefused as fault:
            refused.append(fault.kind)
    assert refused == kinds
    assert rows.held["s/u"].at == NOW + max(at for at in times if at < 9000)


def test_a_clock_that_is_set_back_costs_no_reading():
    rows = joiner()
    rows(said("s/u", 1))
    rows(said("s/v", 2))
    rows(said("s/u", 3, -3600))
    rows(said("s/v", 4, -3600))
    assert rows(said("s/y", 5, -3599))[:2] == ([3.0, 4.0], 5.0)


def test_names_of_topics_tell_equal_fields_apart():
    rows = joiner(features=("kitchen.temp", "hall.temp"), target="meter.y")
    rows(said("z/kitchen", {"temp": 1, "deep": {"a": [1, 2]}}))
    rows(said("z/hall", {"temp": 2}))
    assert rows(said("z/meter", {"y": 3}))[:2] == ([1.0, 2.0], 3.0)


def test_what_a_broker_kept_is_a_value_but_completes_nothing():
    rows = joiner()
    rows(Message("s/u", Retained(b"1"), NOW))
    assert rows(Message("s/y", Retained(b"9"), NOW)) is PASSED
    assert rows(said("s/y", 4, 1))[1] == 4.0
    assert TopicRows(None)(Message("s", Retained(b'{"x": [1]}'), NOW)) is PASSED


@pytest.mark.parametrize(
    ("payload", "x"), [(b"21.5", 21.5), (b'"21.5"', 21.5), (b"21,5", 21.5), (b" 7\n", 7.0)]
)
def test_plain_values_are_called_as_their_topic(payload, x):
    columns = Columns("y", ("temp",), decimal="," if b"," in payload else ".")
    found = TopicRows(Encoder(columns))(Message("a/temp", payload, NOW))
    assert found[:2] == ([x], None)
    assert found.time == NOW


def test_messages_of_one_topic_are_refused_late_ahead_or_repeated():
    columns = Columns("y", ("u",), time=("at",), kinds={"at": "time:s"})
    rows = TopicRows(Encoder(columns), clock=lambda: NOW)

    def read(at, u=1, topic="s"):
        return rows(Message(topic, json.dumps({"at": at, "u": u, "y": 2}).encode(), NOW))

    assert read(NOW - 10).time == NOW - 10
    for at, kind in ((NOW - 20, "late"), (NOW - 10, "duplicate"), (NOW + 61, "future")):
        with pytest.raises(RowRefused) as refused:
            read(at)
        assert refused.value.kind == kind
    assert read(NOW - 10, u=5).x == [5.0]  # at the same time, but another reading
    assert read(NOW - 20, topic="t").time == NOW - 20  # each topic has an order of its own
    assert read(NOW - 5).time == NOW - 5  # what was refused has changed nothing


def test_a_single_number_is_predicted_from_the_time(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text(
        'columns = {target = "temp", features = ["arrival"]}\n'
        'stream = {topic = "a/temp", broker = "127.0.0.1:1"}'
    )
    config = load(path, {})
    assert config.inputs == 6  # hour, weekday and season
    found = TopicRows(Encoder(config.columns))(Message("a/temp", b"3", NOW))
    assert (len(found.x), found.y) == (6, 3.0)


# Tables whose columns change


def table(tmp_path, text, **columns):
    given = {"target": "y", "features": ("a", "b"), **columns}
    return from_bytes(tmp_path, text.encode(), "csv", **given)


def test_a_new_header_is_followed(tmp_path, log):
    text = "a,b,y\n1,2,3\na,new,b,y\n4,9,5,6\ny,b,a\n7,8,9\n"
    found, refused = table(tmp_path, text)
    assert [row[:3] for row in found] == [(0, [1, 2], 3), (2, [4, 5], 6), (4, [9, 8], 7)]
    assert refused == {}
    (told,) = [each for each in log() if "new columns" in each["event"]]
    assert told["columns"] == "new"
    path = tmp_path / "in.csv"  # after a restart too, though the header is in the part that was learnt
    stream = open_stream(StreamSection(path=str(path)), 2, 3, columns=Columns("y", ("a", "b")))
    assert [row[:3] for row in asyncio.run(collect(stream))] == [(4, [9, 8], 7)]


@pytest.mark.parametrize(("comma", "before", "used"), [(",", 10, 5), (";", 1, 5), (",", 3, 0)])
def test_wider_rows_are_used_unless_they_may_be_decimals(tmp_path, log, comma, before, used):
    text = "a,b,y\n" + "1,2,3\n" * before + "4,5,6,7\n" * 5 + "1,2\n"
    found, refused = table(tmp_path, text.replace(",", comma))
    assert len(found) == before + used
    assert refused == {"wrong length": 6 - used}
    assert sum("new columns" in each["event"] for each in log()) == bool(used)


def test_a_column_added_to_a_followed_file_costs_no_row(tmp_path):
    path = tmp_path / "in.csv"
    append(path, b"a,b,y\n" + b"1,2,3\n" * 12)

    async def main():
        section = StreamSection(path=str(path), follow=True)
        stream = open_stream(section, 2, columns=Columns("y", ("a", "b")))
        found = [await asyncio.wait_for(anext(stream), 10) for _ in range(12)]
        append(path, b"4,5,6,9\n" * 199)
        found += [await asyncio.wait_for(anext(stream), 10) for _ in range(199)]
        await stream.aclose()
        return found, stream.refused

    found, refused = asyncio.run(main())
    assert (len(found), refused) == (211, {})


@pytest.mark.parametrize(
    "text",
    [
        'a;b;y\n"1,5";2;3\n1,5;2;3\n',
        "b|y|a\n2|3|1,5\n2|3|1,5\n",
        '"a";"b, or so";"y"\n1,5;2;3\n1,5;2;3\n'.replace("b, or so", "b"),
        "a\tb\ty\n1,5\t2\t3\n1,5\t2\t3\n",
    ],
)
def test_dialects(tmp_path, text):
    found, refused = table(tmp_path, text, decimal=",")
    assert ([row[1:3] for row in found], refused) == ([([1.5, 2.0], 3.0)] * 2, {})


def test_times_words_and_truths_are_inputs_as_in_run(tmp_path, capfd):
    rows = "".join(
        f"2026-01-0{1 + i // 24} {i % 24:02}:00;{'ns'[i % 2]};{i % 3 == 0};{i},5\n" for i in range(48)
    )
    (tmp_path / "in.csv").write_text("when;wind;open;y\n" + rows)
    path = tmp_path / "lone.toml"
    path.write_text(LONE)
    out = []
    agent = Agent(load(path, {}), out=out.append)
    asyncio.run(agent.run())
    assert (agent.config.name, agent.config.inputs, agent.rows.used) == ("lone", 6 + 2 + 1, 48)
    assert (out[1]["time"], out[1]["target"], out[1]["y"]) == ("2026-01-01T01:00:00.000Z", "y", 1.5)
    assert agent.transport.settings.kind == "memory"  # no network at all


def test_a_guess_is_kept_for_the_next_start(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text(LONE.replace('"in.csv"', '"in.csv"\nfollow = true'))
    (tmp_path / "in.csv").write_text("c,y\n" + "red,1\nblue,2\n" * 5)
    first = Agent(load(path, {}), out=len)
    first.store.close()
    (tmp_path / "in.csv").write_text("c,y\n" + "7,1\n" * 5)  # rotated: only numbers
    again = Agent(load(path, {}), out=len)
    again.store.close()
    assert again.config.columns == first.config.columns
    assert again.config.columns.categories == {"c": ("blue", "red")}
    (tmp_path / "a.state" / "columns.json").write_text("[" * 9999)
    damaged = Agent(load(path, {}), out=len)
    damaged.store.close()
    assert damaged.config.inputs == 1


def test_neighbours_guess_alike_or_not_at_all(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text('neighbours = ["b"]\n' + LONE)
    (tmp_path / "in.csv").write_text("v,u,y\n" + "1,2,3\n" * 5)
    assert Agent(load(path, {}), out=len).config.columns.features == ("u", "v")
    (tmp_path / "in.csv").write_text("c,y\n" + "red,1\nblue,2\n" * 5)
    with pytest.raises(InputError, match=r"column 'c' has words, and neighbours may have others.*categories"):
        Agent(load(path, {}), out=len)


# Exit codes


def test_an_agent_that_used_no_row_fails_though_it_has_a_checkpoint(tmp_path, capfd):
    path = tmp_path / "a.toml"
    path.write_text(LONE + '[checkpoint]\ndirectory = "state"\n[output]\npredictions = ""\n')
    (tmp_path / "in.csv").write_text("a,y\n" + "1,2\n" * 30)
    asyncio.run(run_agent(load(path, {})))
    asyncio.run(run_agent(load(path, {})))  # nothing new: no error
    append(tmp_path / "in.csv", b"x,2\n" * 199)
    with pytest.raises(DataError, match="none of 199 rows could be used; the first is not a number"):
        asyncio.run(run_agent(load(path, {})))
    last = json.loads(capfd.readouterr().err.splitlines()[-1])
    assert (last["rows"], last["used"], last["refused"]) == (199, 0, 199)


def test_an_agent_that_was_stopped_after_useless_messages_fails(tmp_path, monkeypatch):
    path = tmp_path / "a.toml"
    path.write_text('inputs = 1\nstream = {topic = "domkl/net/s/r"}\ntransport = {kind = "memory"}\n')
    made = []

    class Stopped(Agent):
        def __init__(self, config):
            super().__init__(config, out=len)
            made.append(self)

        async def run(self):
            for _ in range(3):
                self.topics.receive("domkl/net/s/r", b"{}")
            asyncio.get_running_loop().call_later(0.3, self.stop)
            await super().run()

    monkeypatch.setattr(serve, "Agent", Stopped)
    with pytest.raises(DataError, match="none of 3 rows could be used"):
        asyncio.run(run_agent(load(path, {})))
    assert made[0].progress.rmse is None  # there is no sample to judge
