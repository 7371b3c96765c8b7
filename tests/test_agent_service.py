from __future__ import annotations

import http.client
import io
import json
import logging
import math
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import pytest

from domkl.agent import logs, service
from domkl.agent.config import LogSection
from domkl.agent.service import METRICS, Durations, Service, Status
from domkl.base.errors import InputError

pytest.importorskip("prometheus_client")
LOOPBACK = ("127.0.0.1", 0)


def seconds(*values):
    made = Durations()
    for value in values:
        made.observe(value)
    return made


SNAPSHOT = {
    "rounds": 12,
    "samples": 13,
    "readings_refused": {"not a number": 2},
    "squared_error_rolling": 0.25,
    "neighbour_up": {"lga": 1, "ewr": 0},
    "neighbour_age_seconds": {"lga": 0.5, "ewr": math.inf},
    "bytes_sent": 1000,
    "bytes_received": 2000,
    "messages_refused": {"fingerprint": 3, 'odd "\n name': 1},
    "kernel_weight": {"0": 0.75, "1": 0.25},
    "round_seconds": seconds(0.0002, 0.5, 100.0),
    "checkpoint_round": 10,
}


@pytest.fixture(scope="module")
def served():
    status = Status()
    with Service(LOOPBACK, status, lambda: SNAPSHOT) as found:
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
    assert (code, text[:20]) == (503, "no progress for 100 ")
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
        'domkl_readings_refused_total{reason="not a number"} 2.0',
        "domkl_squared_error_rolling 0.25",
        'domkl_neighbour_up{neighbour="lga"} 1.0',
        'domkl_neighbour_up{neighbour="ewr"} 0.0',
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
    assert {*SNAPSHOT} == {*METRICS}


def test_metrics_are_what_prometheus_reads(served):
    from prometheus_client.parser import text_string_to_metric_families as parse

    families = {family.name for family in parse(ask(served[0], "/metrics")[1])}
    assert {f"domkl_{name}" for name in METRICS} <= families
    assert "process_resident_memory_bytes" in families or sys.platform != "linux"


def test_head_has_no_body(served):
    for path in ("/healthz", "/metrics", "/none"):
        code, text, headers = ask(served[0], path, "HEAD")
        assert (code, text) == (ask(served[0], path)[0], "")
        assert int(headers["Content-Length"]) > 0


@pytest.mark.parametrize("path", ["/", "/metrics/", "/../etc/passwd", "/%00"])
def test_other_paths_are_not_found(served, path):
    assert ask(served[0], path)[:2] == (404, "there are /healthz, /readyz and /metrics\n")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
def test_other_methods_are_not_allowed(served, method):
    code, text, headers = ask(served[0], "/healthz", method)
    assert (code, text, headers["Allow"]) == (405, "Method Not Allowed\n", "GET, HEAD")


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
    with socket.create_connection(served[0].address, timeout=20) as client:
        client.sendall(said)
        client.shutdown(socket.SHUT_WR)
        try:
            while client.recv(1 << 16):
                pass
        except ConnectionError:
            pass  # it hung up with our words unread
    assert ask(served[0], "/readyz")[0] in (200, 503)
    assert "Traceback" not in capfd.readouterr().err


def test_a_page_that_fails_is_the_servers_fault_and_logged(caplog):
    def broken():
        raise RuntimeError("secret")

    with Service(LOOPBACK, Status(), broken) as found, caplog.at_level("WARNING", "domkl"):
        assert ask(found, "/metrics")[:2] == (500, "see the agent's log\n")
        assert ask(found, "/healthz")[0] == 200
    (record,) = caplog.records
    assert record.fields["error"] == "RuntimeError('secret')"


def test_a_number_without_a_name_is_not_served(caplog):
    with Service(LOOPBACK, Status(), lambda: {"colour": 3}) as found:
        assert ask(found, "/metrics")[0] == 500


def test_silent_clients_cannot_take_all_threads(monkeypatch, caplog):
    monkeypatch.setattr(service._Handler, "timeout", 0.2)
    with Service(LOOPBACK, Status(), dict) as found, caplog.at_level("WARNING", "domkl"):
        clients = [socket.create_connection(found.address, timeout=20) for _ in range(40)]
        try:
            for client in clients:
                assert client.recv(1) == b""  # turned away, or out of patience
            threads = [t for t in threading.enumerate() if "process_request" in t.name]
            assert len(threads) <= service.THREADS
            assert ask(found, "/healthz")[0] == 200
        finally:
            for client in clients:
                client.close()
    assert any(record.getMessage() == "request turned away" for record in caplog.records)


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
from domkl.agent.service import Service, Status
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
from domkl.agent import config, logs, service, streams
third = {m.split(".")[0] for m in set(sys.modules) - before} - set(sys.stdlib_module_names)
print(*sorted(m for m in third if not m.startswith("_") and m not in ("numpy", "cython_runtime")))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {*done.stdout.split()} - {"typing_extensions"} == {"domkl", "msgspec"}


@pytest.fixture
def log():
    """Set the log up in a form, and read it."""
    logger = logging.getLogger("domkl")
    before = logger.handlers[:], logger.level, logger.propagate
    text = io.StringIO()

    def setup(**settings):
        return logs.setup(LogSection(**settings), "jfk", text), text

    yield setup
    logger.handlers[:], logger.propagate = before[0], before[2]
    logger.setLevel(before[1])


def test_a_log_line_is_a_json_object(log):
    logger, text = log()
    fields = {"round": 7, "age": math.nan, "peers": ("a", 1), "path": io, "none": None, "up": True}
    logs.tell(logger, logging.INFO, "round closed", learner="forged", time="forged", **fields)
    logger.debug("not told")
    told = json.loads(text.getvalue(), parse_constant=pytest.fail)
    assert list(told)[:4] == ["time", "level", "event", "learner"]
    assert (told["level"], told["event"], told["learner"]) == ("info", "round closed", "jfk")
    assert told["time"].endswith("Z")
    assert len(told["time"]) == len("2026-11-16T00:05:47.123Z")
    assert (told["round"], told["age"], told["peers"], told["none"], told["up"]) == (
        7,
        "nan",
        ["a", 1],
        None,
        True,
    )


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_line_break_from_outside_begins_no_line(log, form):
    logger, text = log(format=form)
    logs.tell(logger, logging.WARNING, "refused\nINFO fine", reason='x"\ny', long="z" * 10_000)
    assert text.getvalue().count("\n") == 1
    assert len(text.getvalue()) < 1000


def test_text_is_for_people(log):
    logger, text = log(format="text", level="debug")
    logs.tell(logger.getChild("x"), logging.DEBUG, "café opened", path="a b", count=2)
    time_, _, rest = text.getvalue().partition(" ")
    assert time_.endswith("Z")
    assert rest == 'DEBUG jfk café opened path="a b" count=2\n'


def test_an_exception_stays_on_its_line(log):
    logger, text = log()
    try:
        raise ValueError("no")
    except ValueError:
        logger.exception("failed with %s", "x")
    told = json.loads(text.getvalue())
    assert told["event"] == "failed with x"
    assert "ValueError: no" in told["traceback"]


def test_setting_up_twice_tells_once(log):
    log()
    logger, text = log(level="error")
    logger.warning("quiet")
    logger.error("once")
    assert text.getvalue().count("\n") == 1


def test_a_flood_is_told_in_powers_of_two(log):
    logger, text = log()
    limited = logs.Limited(logger)
    for i in range(100_000):
        limited.warn("bad row", "row refused", line=i)
    limited.warn("other kind", "row refused", line=0)
    told = [json.loads(line) for line in text.getvalue().splitlines()]
    assert [line["count"] for line in told] == [1, 2, 3, 4, 5, *(2**k for k in range(3, 17)), 1]
    assert [line["line"] + 1 for line in told[:-1]] == [line["count"] for line in told[:-1]]


def test_invented_kinds_do_not_fill_memory_or_disk(log):
    logger, text = log()
    limited = logs.Limited(logger)
    for i in range(10_000):
        limited.warn(f"peer {i}", "refused")
    assert len(limited.counts) == logs.KINDS + 1
    assert text.getvalue().count("\n") < logs.KINDS + 20
    assert json.loads(text.getvalue().splitlines()[-1])["count"] == 8192
