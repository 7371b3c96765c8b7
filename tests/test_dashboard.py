"""deploy/grafana and deploy/prometheus.yml: a real Prometheus scrapes running agents, and every query of the
dashboard finds data. Grafana is not in Debian: its own model of dashboards reads the file in
scripts/check_doors.py, and here its structure is checked."""

from __future__ import annotations

import asyncio
import contextlib
import json
import pathlib
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import numpy as np
import pytest

from brokers import free_ports
from domkl.agent import Agent
from domkl.agent.config import OutputSection
from domkl.agent.serve import METRICS, service_of
from domkl.agent.streams import aiter_of
from inmemory import AUTO, config, paced

DEPLOY = pathlib.Path(__file__).parent.parent / "deploy"
pytestmark = pytest.mark.skipif(not DEPLOY.is_dir(), reason="not a checkout")
LEARNERS = ("ewr", "jfk", "lga")


def dashboard():
    return json.loads((DEPLOY / "grafana" / "domkl.json").read_text())


def queries():
    return [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]


def test_the_dashboard_is_one_that_grafana_can_be_provisioned_with():
    found = dashboard()
    assert found["uid"]
    assert found["title"]
    assert found["schemaVersion"] >= 36
    panels = found["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 10
    places = set()
    for panel in panels:
        assert panel["type"] in ("stat", "timeseries")
        assert panel["title"]
        assert panel["description"].endswith(".")
        assert panel["datasource"] == {"type": "prometheus", "uid": "${source}"}
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert max(x for x, _ in cells) < 24
        assert not cells & places
        places |= cells
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
    assert [each["name"] for each in found["templating"]["list"]] == ["source", "learner"]


def test_the_dashboard_asks_for_metrics_that_agents_have():
    known = {f"domkl_{name}{'_total' * (metric.kind == 'counter')}" for name, metric in METRICS.items()}
    known |= {"domkl_round_seconds_bucket"}
    asked = {name for query in queries() for name in re.findall(r"domkl_\w+", query)}
    assert asked <= known


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is not installed")
def test_prometheus_scrapes_agents_and_every_query_finds_data(tmp_path):
    asyncio.run(asyncio.wait_for(scraped(tmp_path), 60))


async def scraped(folder):
    """Three agents that learn, and a Prometheus that asks them; a bounded time, on loopback."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(3, 2000, 3))
    agents = []
    for j, name in enumerate(LEARNERS):
        near = [other for other in LEARNERS if other != name]
        labels = [x.sum() if t % 10 else "broken" for t, x in enumerate(X[j])]
        stream = aiter_of(paced(X[j], labels, 0.02), 3)
        agents.append(
            Agent(
                config(name, near, model=AUTO, output=OutputSection(alarm_rate=0.4)),
                stream=stream,
                out=lambda record: None,
            )
        )
    with contextlib.ExitStack() as stack:
        services = [stack.enter_context(service_of(agent, ("127.0.0.1", 0))) for agent in agents]
        running = [asyncio.create_task(agent.run()) for agent in agents]
        ask = stack.enter_context(prometheus(folder, [service.address[1] for service in services]))
        try:
            wanted, found = set(queries()), {}
            while set(found) < wanted:
                await asyncio.sleep(0.5)
                for query in wanted - set(found):
                    values = await asyncio.to_thread(ask, query)
                    if is_whole(query, values):
                        found[query] = values
            up = await asyncio.to_thread(ask, 'up{job="domkl"}')
        finally:
            for agent in agents:
                agent.stop()
            await asyncio.gather(*running)
    assert {each["metric"]["learner"]: each["value"][1] for each in up} == dict.fromkeys(LEARNERS, "1")


def is_whole(query, values):
    """Whether an answer has a value of each learner, or their sum, which is not nothing."""
    if "by (" in query or not re.match(r"(sum|avg)\(", query):
        return {each["metric"]["learner"] for each in values} == {*LEARNERS}
    return any(float(each["value"][1]) > 0 for each in values)


@contextlib.contextmanager
def prometheus(folder, ports):
    """A Prometheus with the shipped configuration, but faster and with these agents; asks it a query."""
    text = (DEPLOY / "prometheus.yml").read_text()
    for name, port in zip(LEARNERS, ports, strict=True):
        assert f'["{name}:9464"]' in text
        text = text.replace(f"{name}:9464", f"127.0.0.1:{port}")
    (folder / "prometheus.yml").write_text(text.replace("scrape_interval: 5s", "scrape_interval: 500ms"))
    (port,) = free_ports(1)
    command = ["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, f"--web.listen-address=127.0.0.1:{port}"], cwd=folder, stdout=log, stderr=log
        )

    def ask(query):
        query = query.replace("$__rate_interval", "5s").replace("$learner", ".*")
        given = urllib.parse.urlencode({"query": query, "time": time.time()})
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{port}/api/v1/query?{given}", timeout=10
            ) as answer:
                return json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{query}: {error.read().decode()}") from None
        except urllib.error.URLError:
            return []  # it has not started yet

    try:
        yield ask
    finally:
        process.terminate()
        process.wait(10)
