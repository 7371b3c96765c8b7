"""The page of running agents: what it shows of all of them, and questions that change nothing."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import math
import ssl
import urllib.error
import urllib.request

import numpy as np
import pytest

import inmemory
from domkl.agent import certs, serve
from domkl.agent.config import (
    AgentConfig,
    HttpSection,
    LogSection,
    OutputSection,
    RoundSection,
    TransportSection,
)
from domkl.agent.loop import Agent
from domkl.agent.serve import service_of
from domkl.base.errors import InputError
from domkl.base.secret import plain
from domkl.datasets.columns import Columns
from domkl.learning.auto import EXPERT_NAMES
from domkl.learning.first_order import Rates
from domkl.models.settings import Auto, Paper

pytest.importorskip("prometheus_client")
LOOPBACK = ("127.0.0.1", 0)
MODELS = {"auto": Auto(size=64), "paper": Paper(rates=Rates(1, 1, 1))}


def config(name, neighbours=(), model=MODELS["auto"], **http):
    return AgentConfig(
        "net",
        name,
        tuple(neighbours),
        inputs=2,
        model=model,
        columns=Columns(target="flow", features=("u", "v")),
        transport=TransportSection(kind="memory"),
        rounds=RoundSection("sync"),  # so that an agent is ready when it has its neighbours
        output=OutputSection(unit="l/s"),
        http=HttpSection(**http),
    )


def fetched(service, path, document=None, context=None, **headers):
    body = None if document is None else json.dumps(document).encode()
    headers = {"Content-Type": "application/json", **headers}
    url = service.url.rstrip("/") + path
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, body, headers), timeout=10, context=context
        ) as found:
            return found.status, json.loads(found.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


async def asked(*args, **more):
    return await asyncio.to_thread(fetched, *args, **more)


def data(J, T=30):
    X = np.random.default_rng(0).uniform(size=(J, T, 2))
    return X, X.sum(2)


async def served(agent, meanwhile):
    """Run an agent; `meanwhile` is awaited with its service while it does."""
    with service_of(agent, LOOPBACK) as service:
        running = asyncio.create_task(agent.run())
        found = await meanwhile(service)
        await asyncio.wait_for(running, 60)
        return found


@pytest.mark.parametrize("kind", MODELS)
def test_questions_get_the_prediction_and_change_no_bit(kind):
    X, y = data(1)
    outs, plain = [], []

    async def main(out, questions):
        agent = Agent(config("a", model=MODELS[kind]), stream=inmemory.stream(X[0], y[0]), out=out.append)
        rng = np.random.default_rng(1)

        async def pestering(service):
            answers = []
            for _ in range(questions):
                await asyncio.sleep(0)
                answers.append(await asked(service, "/predict", {"x": rng.uniform(size=2).tolist()}))
            await inmemory.until(lambda: agent.learner.round == len(y[0]))
            x = [0.3, 0.4]
            answers.append(await asked(service, "/predict", {"x": {"u": 0.3, "v": 0.4}}))
            assert answers[-1][1]["y_hat"] == agent.learner.predict(x) == agent.learner.ask(x)
            return answers

        return await served(agent, pestering)

    answers = asyncio.run(main(outs, 8))
    asyncio.run(main(plain, 0))
    assert [code for code, _ in answers] == [200] * 9
    assert [record["y_hat"] for record in outs] == [record["y_hat"] for record in plain]


def test_wrong_questions_get_what_is_expected():
    X, y = data(1, 3)
    agent_config = config("a")

    async def asking(service):
        questions = [
            {},
            {"x": [1]},
            {"x": [1, math.inf]},
            {"x": "text"},
            {"x": [1, 1e400]},
            {"x": {"u": 1, "w": 2}},
            {"x": {"u": {"a": 1}, "v": 2}},
            {"u": {"a": 1}},
            {"x": [1, 2], "explian": True},
        ]
        return [await asked(service, "/predict", each) for each in questions]

    async def main():
        return await served(Agent(agent_config, stream=inmemory.stream(X[0], y[0]), out=[].append), asking)

    for code, answer in asyncio.run(main()):
        assert code == 400
        assert answer["error"].count(";") >= 1, answer


def test_the_page_of_one_shows_all_and_its_own_readings():
    X, y = data(3)
    near = {"a": ["b"], "b": ["a", "c"], "c": ["b"]}

    async def main():
        agents = [
            Agent(config(name, near[name]), stream=inmemory.stream(X[j], y[j]), out=[].append)
            for j, name in enumerate(near)
        ]
        with service_of(agents[0], LOOPBACK) as service:
            running = asyncio.create_task(inmemory.together(*agents))
            await inmemory.until(lambda: agents[0].neighbourhood.done)
            for _ in range(4):
                for agent in agents:
                    agent.show_status()
                await asyncio.sleep(0.01)
            found = await asked(service, "/state"), await asked(service, "/state?learner=c")
            await running
            return found

    (_, own), (_, far) = asyncio.run(main())
    rows = {row["name"]: row for row in own["learners"]}
    assert set(rows) == {"a", "b", "c"}
    assert (rows["a"].get("via"), rows["b"]["via"], rows["c"]["via"]) == (None, None, "b")
    assert [near["name"] for near in rows["b"]["neighbours"]] == ["a", "c"]
    assert rows["c"]["round"] > 0
    assert rows["c"]["rmse"] is not None
    assert (own["target"], own["unit"], own["inputs"], own["self"]) == ("flow", "l/s", ["u", "v"], "a")
    samples = own["detail"]["samples"]
    assert samples[5] == pytest.approx(y[0].tolist())
    assert [name for name, _ in own["detail"]["weights"]] == list(EXPERT_NAMES)
    assert far["detail"]["name"] == "c"
    assert far["detail"]["samples"][0] == []


def test_a_learner_whose_stream_has_ended_is_not_silent(monkeypatch):
    """Also for one that hears of it from a neighbour only."""
    monkeypatch.setattr(serve, "EVERY", 60.0)  # so that only the end makes it report
    monkeypatch.setattr(serve, "LOOKS", 1200)
    X, y = data(3, 10)
    near = {"a": ["b"], "b": ["a", "c"], "c": ["b"]}

    async def main():
        released = asyncio.Event()

        async def readings(j):
            async for reading in inmemory.readings(X[j], y[j]):
                yield reading
            if j < 2:  # the others go on
                await released.wait()

        async def run(agent):
            async with serve._watched(agent):
                await agent.run()

        agents = [
            Agent(config(name, near[name], listen="127.0.0.1:0"), stream=readings(j), out=[].append)
            for j, name in enumerate(near)
        ]
        running = [asyncio.create_task(run(agent)) for agent in agents]

        def rows():
            feed = agents[0].predictions.feed
            for agent in agents[1::-1]:
                agent.show_status()
            return {} if feed is None else {row["name"]: row for row in feed.document(None)["learners"]}

        await inmemory.until(lambda: rows().get("c", {}).get("state") == "done")
        found = rows()
        released.set()
        await asyncio.gather(*running)
        return found

    found = asyncio.run(main())
    assert found["c"]["via"] == "b"
    assert found["b"]["state"] == "ready"
    assert [each["up"] for each in found["b"]["neighbours"]] == [True, True]


def watched(agent, seconds=30.0):
    """The state that an agent's page shows once its inputs are explained, or when it has ended."""

    async def main():
        with service_of(agent, LOOPBACK) as service:
            async with serve.explained(agent):
                running = asyncio.create_task(agent.run())
                await inmemory.until(lambda: agent.learner.round == 200)
                feed = agent.predictions.feed
                if agent.config.http.publish == "full":
                    await inmemory.until(lambda: feed.document(None)["detail"]["effects"]["round"] == 200)
                agent.show_status()
                found = await asked(service, "/state")
                answer = await asked(service, "/predict", {"x": [0.9, 0.5], "explain": True})
                await asyncio.wait_for(running, seconds)
                return found[1], answer[1]

    return asyncio.run(main())


def faulty(T=200):
    """A stream whose label follows the first input, and leaps at the end."""
    X = np.random.default_rng(0).uniform(size=(T, 2))
    y = 4 * X[:, 0]
    y[-20] = 20.0
    return X, y


@pytest.mark.parametrize("publish", ["full", "errors", "counts"])
def test_the_page_shows_which_inputs_matter_and_the_alarms(publish, monkeypatch):
    for name, seconds in (("FIRST_LOOK", 0.01), ("EXPLAIN_EVERY", 0.05), ("REST", 0.0)):
        monkeypatch.setattr(serve, name, seconds)
    X, y = faulty()
    settings = dataclasses.replace(config("a", publish=publish), output=OutputSection(alarm_rate=0.01))
    agent = Agent(settings, stream=inmemory.stream(X, y), out=[].append)
    state, answer = watched(agent)
    [row] = state["learners"]
    assert row["alarms"] == agent.store.alarms.count >= 1
    if publish != "full":
        assert (state["alarms"], "effects" in state["detail"], "inputs" in answer) == ([], False, False)
        return
    assert 20.0 in [alarm["y"] for alarm in state["alarms"]]
    name, part, effect, direction = state["detail"]["effects"]["inputs"][0]
    assert (name, direction) == ("u", "rises")
    assert part > 0.8
    assert effect == pytest.approx(4 / math.sqrt(6), rel=0.3)
    assert answer["inputs"][0][0] == "u"
    assert answer["inputs"][0][1] > 0


def test_a_log_that_is_asked_to_tells_which_inputs_matter(monkeypatch, caplog):
    monkeypatch.setattr(serve, "FIRST_LOOK", 0.01)
    settings = dataclasses.replace(config("a", publish="counts"), log=LogSection(inputs=0.05))
    agent = Agent(settings, stream=inmemory.stream(*faulty()), out=[].append)

    def told():
        return [each.fields for each in caplog.records if each.getMessage() == "inputs"]

    async def main():
        async with serve.explained(agent):
            await agent.run()
            await inmemory.until(lambda: told() and told()[-1]["round"] == 200)

    with caplog.at_level("INFO", logger="domkl"):
        asyncio.run(main())
    assert told()[-1]["inputs"][0][0] == "u"
    with pytest.raises(InputError, match="inputs is -1"):
        LogSection(inputs=-1.0)


@pytest.mark.parametrize(
    ("publish", "hidden"),
    [("errors", ()), ("counts", ("domkl_rmse_rolling", "domkl_kernel_weight"))],
)
def test_what_is_published_can_be_limited(publish, hidden):
    X, y = data(2)

    async def main():
        agents = [
            Agent(config(name, [other], publish=publish), stream=inmemory.stream(X[j], y[j]), out=[].append)
            for j, (name, other) in enumerate(("ab", "ba"))
        ]
        with service_of(agents[0], LOOPBACK) as service:
            await inmemory.together(*agents)
            agents[0].show_status()
            text = await asyncio.to_thread(
                lambda: urllib.request.urlopen(service.url + "metrics").read().decode()
            )
            sent = agents[0].messages.gossip.known["a"]
            return (
                await asked(service, "/state"),
                await asked(service, "/predictions"),
                await asked(service, "/predict", {"x": [1, 2]}),
                text,
                sent,
            )

    state, predictions, answer, text, sent = asyncio.run(main())
    assert "samples" not in state[1]["detail"]
    assert predictions[1] == {"predictions": []}
    assert answer[0] == 404
    assert ("domkl_rmse_rolling" in text, "domkl_kernel_weight" in text) == (not hidden, not hidden)
    assert (sent.rmse is None, sent.weights == []) == (bool(hidden), bool(hidden))


def test_settings_say_what_is_wrong(tmp_path):
    for given, wrong in [
        ({"publish": "all"}, "publish is 'all'"),
        ({"listen": "0.0.0.0:1"}, "allow_remote"),
        ({"token": "short"}, "5 characters"),
        ({"token": "x" * 20, "token_file": "y"}, "token and token_file"),
    ]:
        with pytest.raises(InputError, match=wrong):
            HttpSection(**given)
    with pytest.raises(InputError, match="no ca, cert and key"):
        config("a", tls=True)
    with pytest.raises(InputError, match="cannot be read: No such file"):
        HttpSection("127.0.0.1:0", token_file=str(tmp_path / "none")).access()
    (tmp_path / "token").write_text("  a-token-from-a-file\n")
    assert (
        HttpSection("127.0.0.1:0", token_file=str(tmp_path / "token")).access().token == "a-token-from-a-file"
    )


def test_a_certificate_of_the_network_opens_the_page(tmp_path):
    certs.make(tmp_path, ["a", "b"])
    files = {
        key: str(tmp_path / name) for key, name in (("ca", "ca.pem"), ("cert", "a.pem"), ("key", "a.key"))
    }
    X, y = data(1, 3)
    section = TransportSection(kind="memory", **files)
    http = HttpSection("127.0.0.1:0", tls=True, token="a-token-for-the-others")

    async def main():
        agent = Agent(
            AgentConfig("net", "a", inputs=2, transport=section, http=http, model=MODELS["auto"]),
            stream=inmemory.stream(X[0], y[0]),
            out=[].append,
        )

        async def asking(service):
            assert service.url.startswith("https://")
            found = []
            for name in ("b", None):
                context = ssl.create_default_context(cafile=files["ca"])
                context.check_hostname = False
                if name:
                    context.load_cert_chain(tmp_path / f"{name}.pem", tmp_path / f"{name}.key")
                found.append(await asked(service, "/state", context=context))
            bearer = {"Authorization": f"Bearer {plain(http.token)}"}
            found.append(await asked(service, "/state", context=context, **bearer))
            return found

        return await served(agent, asking)

    assert [code for code, _ in asyncio.run(main())] == [200, 401, 200]
