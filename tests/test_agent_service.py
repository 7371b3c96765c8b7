from __future__ import annotations

import asyncio
import contextlib
import http.client
import math
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import pytest

from domkl.agent import transports
from domkl.agent.config import AgentConfig, StreamSection, TransportSection
from domkl.agent.loop import Agent, Status
from domkl.agent.serve import METRICS, Service, service_of
from domkl.agent.streams import open_stream
from domkl.base.errors import InputError
from domkl.learning.first_order import Rates
from domkl.models.settings import Auto, Paper
from domkl.watch import server as page_server
from domkl.watch.server import Handler

pytest.importorskip("prometheus_client")
LOOPBACK = ("127.0.0.1", 0)


SNAPSHOT = {
    "rounds": 12,
    "backlog": 3,
    "backlog_age_seconds": 1.5,
    "neighbours_used": 1,
    "rounds_incomplete": 1,
    "samples": 13,
    "readings_used": 14,
    "readings_refused": {"not a number": 2},
    "dead_letters_lost": 1,
    "rmse_rolling": 0.25,
    "rmse_alone_rolling": 0.5,
    "neighbour_up": {"lga": 1, "ewr": 0},
    "neighbour_trust": {"lga": 1, "ewr": 0.25},
    "neighbour_age_seconds": {"lga": 0.5, "ewr": math.inf},
    "bytes_sent": 1000,
    "bytes_received": 2000,
    "messages_refused": {"fingerprint": 3, 'odd "\n name': 1},
    "kernel_weight": {"0": 0.75, "1": 0.25},
    "name_conflict": 0,
    "checkpoint_round": 10,
    "checkpoint_age_seconds": 2.5,
    "saves_failed": 1,
    "readings_unjournalled": 2,
    "alarms": 2,
    "predictions_lost": 3,
}


@pytest.fixture(scope="module")
def served():
    status = Status()
    with Service(LOOPBACK, status, lambda: SNAPSHOT) as found:
        for value in (0.0002, 0.5, 100.0):
            found.round_seconds.observe(value)
        yield found, status


def ask(found, path, method="GET"):
    host, port = found.address
    request = urllib.request.Request(f"http://{host}:{port}{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read().decode(), answer.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode(), error.headers


def test_health_follows_the_loop(served):
    found, status = served
    status.beat()
    assert ask(found, "/healthz")[:2] == (200, "ok\n")
    status.alive_at = time.monotonic() - 100
    code, text, _ = ask(found, "/healthz")
    assert (code, text) == (503, "no progress\n")
    status.beat()
    assert ask(found, "/healthz?verbose")[0] == 200


def test_readiness_follows_the_agent(served):
    found, status = served
    status.ready = False
    assert ask(found, "/readyz")[:2] == (503, "waiting for neighbours\n")
    status.ready = True
    assert ask(found, "/readyz")[:2] == (200, "ready\n")


def test_metrics_hold_the_snapshot(served):
    code, text, headers = ask(served[0], "/metrics")
    assert code == 200
    assert headers["Content-Type"].startswith("text/plain; version=")
    lines = set(text.splitlines())
    assert {
        "domkl_rounds_total 12.0",
        "domkl_samples_total 13.0",
        "domkl_readings_used_total 14.0",
        'domkl_readings_refused_total{reason="not a number"} 2.0',
        "domkl_dead_letters_lost_total 1.0",
        "domkl_rmse_rolling 0.25",
        "domkl_rmse_alone_rolling 0.5",
        'domkl_neighbour_up{neighbour="lga"} 1.0',
        'domkl_neighbour_up{neighbour="ewr"} 0.0',
        'domkl_neighbour_trust{neighbour="ewr"} 0.25',
        'domkl_neighbour_age_seconds{neighbour="ewr"} +Inf',
        "domkl_bytes_sent_total 1000.0",
        "domkl_bytes_received_total 2000.0",
        'domkl_messages_refused_total{reason="fingerprint"} 3.0',
        'domkl_messages_refused_total{reason="odd \\"\\n name"} 1.0',
        'domkl_kernel_weight{kernel="0"} 0.75',
        'domkl_round_seconds_bucket{le="0.0001"} 0.0',
        'domkl_round_seconds_bucket{le="0.0003"} 1.0',
        'domkl_round_seconds_bucket{le="1.0"} 2.0',
        'domkl_round_seconds_bucket{le="+Inf"} 3.0',
        "domkl_round_seconds_count 3.0",
        "domkl_checkpoint_round 10.0",
        "# TYPE domkl_rounds_total counter",
        "# TYPE domkl_round_seconds histogram",
    } <= lines


def test_metrics_are_what_prometheus_reads(served):
    from prometheus_client.parser import text_string_to_metric_families as parse

    families = {family.name for family in parse(ask(served[0], "/metrics")[1])}
    assert {"domkl_round_seconds", *(f"domkl_{name}" for name in SNAPSHOT)} <= families
    assert "process_resident_memory_bytes" in families or sys.platform != "linux"


def test_head_has_no_body(served):
    for path in ("/healthz", "/metrics", "/none"):
        code, text, headers = ask(served[0], path, "HEAD")
        assert (code, text) == (ask(served[0], path)[0], "")
        assert int(headers["Content-Length"]) > 0


@pytest.mark.parametrize("path", ["/", "/metrics/", "/../etc/passwd", "/%00"])
def test_other_paths_are_not_found(served, path):
    code, text, _ = ask(served[0], path)
    assert (code, "expected one of /healthz, /metrics, /readyz" in text) == (404, True)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
def test_other_methods_are_not_allowed(served, method):
    code, text, headers = ask(served[0], "/healthz", method)
    assert (code, "expected GET, HEAD" in text, headers["Allow"]) == (405, True, "GET, HEAD")


@pytest.mark.parametrize(
    "said",
    [
        b"\0\xff\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /" + b"a" * 70_000,
        b"",
        b"GET / HTTP/1.1",
    ],
)
def test_nonsense_does_no_harm(served, said, capfd):
    # It may hang up with our words unread.
    with socket.create_connection(served[0].address, timeout=20) as client, contextlib.suppress(OSError):
        client.sendall(said)
        client.shutdown(socket.SHUT_WR)
        while client.recv(1 << 16):
            pass
    assert ask(served[0], "/readyz")[0] in (200, 503)
    assert "Traceback" not in capfd.readouterr().err


def test_a_page_that_fails_is_the_servers_fault_and_logged(caplog):
    def broken():
        raise RuntimeError("secret")

    with Service(LOOPBACK, Status(), broken) as found, caplog.at_level("WARNING", "domkl"):
        assert ask(found, "/metrics")[:2] == (500, '{"error":"the page failed; see the log"}')
        assert ask(found, "/healthz")[0] == 200
    (record,) = caplog.records
    assert record.fields["error"] == "RuntimeError('secret')"


def test_a_number_without_a_name_is_not_served(caplog):
    with Service(LOOPBACK, Status(), lambda: {"colour": 3}) as found:
        assert ask(found, "/metrics")[0] == 500


def test_silent_clients_cannot_take_all_threads(monkeypatch, caplog):
    monkeypatch.setattr(Handler, "timeout", 0.2)
    with Service(LOOPBACK, Status(), dict) as found, caplog.at_level("WARNING", "domkl"):
        clients = [socket.create_connection(found.address, timeout=20) for _ in range(40)]
        try:
            for client in clients:
                assert client.recv(1) == b""  # closed for another, or out of patience
            threads = [t for t in threading.enumerate() if "process_request" in t.name]
            assert len(threads) <= page_server.THREADS
            assert ask(found, "/healthz")[0] == 200
        finally:
            for client in clients:
                client.close()
    assert any(record.getMessage() == "slow connection closed" for record in caplog.records)


def test_closing_frees_the_port_and_can_be_done_twice():
    found = Service(LOOPBACK, Status(), dict)
    address = found.address
    assert ask(found, "/healthz")[0] == 200
    found.close()
    found.close()
    with pytest.raises(ConnectionRefusedError):
        http.client.HTTPConnection(*address, timeout=5).connect()
    Service(address, Status(), dict).close()


def test_a_port_in_use_is_named(served):
    host, port = served[0].address
    with pytest.raises(InputError, match=rf"\[http\] listen {host}:{port} cannot be opened: Address already"):
        Service((host, port), Status(), dict)


def test_addresses_of_version_6():
    try:
        with (
            Service(("::1", 0), Status(), dict) as found,
            socket.create_connection(found.address, timeout=20),
        ):
            assert found.address[0] == "::1"
    except InputError as error:
        pytest.skip(f"no IPv6 here: {error}")


def test_without_prometheus_client_the_install_line_is_told():
    code = """
import sys
sys.modules["prometheus_client"] = None
from domkl.agent.loop import Status
from domkl.agent.serve import Service
try:
    Service(("127.0.0.1", 0), Status(), dict)
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith('install it with: pip install "domkl[agent]"')


def test_a_device_needs_numpy_and_msgspec_alone():
    code = """
import sys, numpy
before = set(sys.modules)
import msgspec
from domkl.agent import config, logs, serve, streams
third = {m.split(".")[0] for m in set(sys.modules) - before} - set(sys.stdlib_module_names)
print(*sorted(m for m in third if not m.startswith("_") and m not in ("numpy", "cython_runtime")))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {*done.stdout.split()} - {"typing_extensions"} == {"domkl", "msgspec"}


ROWS = b"""{"x": [1, 2], "y": 3}
not JSON at all
{"x": [1], "y": 2}
{"x": [1, null], "y": 2}
{"y": 5, "id": "nobody"}
{"x": [2, 1], "y": 4}
{"x": [3, 1], "y": 5}
"""


def metrics_of(tmp_path, rows, **settings):
    """What /metrics says of an agent that has read all rows, and what it has predicted."""
    (tmp_path / "rows.jsonl").write_bytes(rows)
    stream = StreamSection(kind="jsonl", path=str(tmp_path / "rows.jsonl"))
    given = {
        "model": Auto(size=64),
        "transport": TransportSection(kind="memory"),
        "stream": stream,
        **settings,
    }
    config = AgentConfig("net", "a", inputs=2, **given)
    transport = transports.make(config.transport_settings())
    said = []

    async def run():
        agent = Agent(config, transport, open_stream(stream, 2), said.append)
        with service_of(agent, LOOPBACK) as found:
            await asyncio.wait_for(agent.run(), 60)
            return ask(found, "/metrics")[1].splitlines()

    return asyncio.run(run()), said


def test_rows_that_an_agent_refuses_are_in_its_metrics(tmp_path):
    lines, said = metrics_of(tmp_path, ROWS)
    refused = [line for line in lines if line.startswith("domkl_readings_refused_total{")]
    assert sorted(refused) == [
        'domkl_readings_refused_total{reason="label without input"} 1.0',
        'domkl_readings_refused_total{reason="not a reading"} 1.0',
        'domkl_readings_refused_total{reason="not finite"} 1.0',
        'domkl_readings_refused_total{reason="wrong length"} 1.0',
    ]
    assert not [line for line in lines if line.startswith("domkl_messages_refused") and "label" in line]
    assert {"domkl_samples_total 3.0", "domkl_rounds_total 3.0", "domkl_round_seconds_count 3.0"} <= {*lines}
    assert len(said) == 3


def test_the_error_alone_is_in_the_metrics_where_the_model_knows_it(tmp_path):
    row = ROWS.splitlines(keepends=True)[0]
    names = ("domkl_rmse_rolling ", "domkl_rmse_alone_rolling ")
    lines, _ = metrics_of(tmp_path, row * 3)
    assert [sum(line.startswith(name) for line in lines) for name in names] == [1, 1]
    lines, _ = metrics_of(tmp_path, row * 3, model=Paper(rates=Rates(1, 1, 1)))
    assert [sum(line.startswith(name) for line in lines) for name in names] == [1, 0]


def test_an_agent_has_every_metric_that_is_declared(tmp_path):
    lines, _ = metrics_of(tmp_path, ROWS.splitlines(keepends=True)[0] * 3)
    kinds = {f"{name}{'_total' * (one.kind == 'counter')}": one.kind for name, one in METRICS.items()}
    assert {f"# TYPE domkl_{name} {kind}" for name, kind in kinds.items()} <= {*lines}


def test_an_agent_that_refuses_nothing_says_so(tmp_path):
    lines, _ = metrics_of(tmp_path, ROWS.splitlines(keepends=True)[0] * 2)
    assert not [line for line in lines if line.startswith("domkl_readings_refused_total{")]
    assert "# TYPE domkl_readings_refused_total counter" in lines
