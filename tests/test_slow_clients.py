"""Clients that send a byte now and then do not keep others from an answer."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import time

import pytest

from domkl.agent.loop import Status
from domkl.agent.serve import Service
from domkl.watch import server as page_server

pytest.importorskip("prometheus_client")
LOOPBACK = ("127.0.0.1", 0)


@contextlib.contextmanager
def dribbling(address, count, pause=0.1):
    """So many clients that send a header byte by byte, and connect again when they are closed."""
    stopped = threading.Event()

    def dribble():
        while not stopped.is_set():
            with contextlib.suppress(OSError), socket.create_connection(address, timeout=5) as client:
                client.sendall(b"GET /metrics HTTP/1.1\r\nx: ")
                while not stopped.wait(pause):
                    client.sendall(b"a")

    threads = [threading.Thread(target=dribble, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopped.set()
        for thread in threads:
            thread.join()


def seconds_to_answer(address, path):
    start = time.monotonic()
    connection = http.client.HTTPConnection(*address, timeout=5)
    connection.request("GET", path)
    assert connection.getresponse().status == 200
    connection.close()
    return time.monotonic() - start


def test_fifty_slow_clients_do_not_block_health():
    status = Status(ready=True)
    with Service(LOOPBACK, status, dict) as found, dribbling(found.address, 50):
        time.sleep(0.3)
        for path in ("/healthz", "/readyz", "/metrics"):
            assert seconds_to_answer(found.address, path) < 3.0
        assert (
            sum("process_request" in thread.name for thread in threading.enumerate()) <= page_server.THREADS
        )


def test_a_connection_has_a_deadline_however_it_dribbles(monkeypatch):
    monkeypatch.setattr(page_server, "DEADLINE", 0.2)
    with Service(LOOPBACK, Status(), dict) as found:
        start = time.monotonic()
        with socket.create_connection(found.address, timeout=5) as client, contextlib.suppress(OSError):
            client.settimeout(0.05)
            while time.monotonic() < start + 5:
                client.sendall(b"a")
                with contextlib.suppress(TimeoutError):
                    if client.recv(1) == b"":
                        break
        assert time.monotonic() - start < 4.0


def test_a_long_request_is_broken_off():
    with Service(LOOPBACK, Status(), dict) as found, socket.create_connection(found.address, 5) as client:
        with contextlib.suppress(OSError):
            client.sendall(b"GET /healthz HTTP/1.1\r\n" + (b"x: " + b"y" * 1000 + b"\r\n") * 30 + b"\r\n")
        with contextlib.suppress(ConnectionError):
            assert client.recv(1 << 16) == b""
