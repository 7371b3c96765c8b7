"""deploy/compose.yaml, as far as it can be checked without a Docker engine: no container was started."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess

import pytest

from domkl.agent import config, transports

yaml = pytest.importorskip("yaml")
DEPLOY = pathlib.Path(__file__).parent.parent / "deploy"
pytestmark = pytest.mark.skipif(not DEPLOY.is_dir(), reason="not a checkout")
LEARNERS = ("ewr", "jfk", "lga")


def services():
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]


def test_every_mounted_file_is_there_and_every_volume_declared():
    declared = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["volumes"]
    for name, service in services().items():
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            assert (DEPLOY / source).exists() if source.startswith(".") else source in declared, (
                name,
                volume,
            )
        if "build" in service:
            assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).exists()


@pytest.mark.parametrize("name", LEARNERS)
def test_each_learner_can_start_with_its_file_and_variables(name):
    service = services()[name]
    environ = {key: "secret" if "PASSWORD" in key else value for key, value in service["environment"].items()}
    image = {"DOMKL_CHECKPOINT_DIRECTORY": "/var/lib/domkl"}
    found = config.load(DEPLOY / "compose" / f"{name}.toml", image | environ)
    assert (found.name, *found.neighbours) == (name, *(other for other in LEARNERS if other != name))
    assert (found.stream.topic, found.output.topic) == (f"sensors/{name}/env", f"predictions/{name}")
    assert (found.target, found.inputs, found.output.alarm_rate) == ("temp", 4, 0.001)
    assert found.transport_settings().kind == "mqtt"
    assert found.transport_settings().password == "secret"
    transports.check(found.transport_settings())
    assert len((DEPLOY / "compose" / f"{name}.toml").read_text().splitlines()) <= 6
    assert f"./compose/{name}.toml:/etc/domkl/agent.toml:ro" in service["volumes"]


def test_prometheus_and_grafana_ask_the_services_that_are_there():
    scraped = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())["scrape_configs"][0]["static_configs"]
    assert {each["labels"]["learner"]: each["targets"] for each in scraped} == {
        name: [f"{name}:9464"] for name in LEARNERS
    }
    called = services()["ewr"]["environment"]["DOMKL_HTTP_HOSTS"].split(",")
    assert {target.split(":")[0] for each in scraped for target in each["targets"]} <= {*called}
    source = yaml.safe_load((DEPLOY / "grafana/provisioning/datasources/prometheus.yaml").read_text())
    assert source["datasources"][0]["url"] == "http://prometheus:9090"
    provider = yaml.safe_load((DEPLOY / "grafana/provisioning/dashboards/domkl.yaml").read_text())
    folder = provider["providers"][0]["options"]["path"]
    assert f"./grafana/domkl.json:{folder}/domkl.json:ro" in services()["grafana"]["volumes"]
    assert {"broker", "prometheus", "grafana", *LEARNERS} <= services().keys()
    assert "ports" not in services()["broker"]  # its password would cross the network in the clear


@pytest.mark.skipif(shutil.which("docker-compose") is None, reason="docker-compose is not installed")
def test_docker_compose_takes_the_file():
    command = ["docker-compose", "-f", DEPLOY / "compose.yaml", "config", "--quiet"]
    environ = {**os.environ, "BROKER_PASSWORD": "secret"}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
