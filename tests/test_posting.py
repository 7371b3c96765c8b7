"""Predictions to a web address: all of them, in order, and never at the agent's cost."""

from __future__ import annotations

import contextlib
import http.server
import json
import socket
import threading
import time

import pytest

from domkl.agent import output
from domkl.agent.output import Poster
from domkl.agent.transports.security import check_url
from domkl.base.errors import InputError


@contextlib.contextmanager
def server(answers=(), body=b""):
    """Answers with these codes in turn, then with 204; what it was sent."""
    found, codes = [], list(answers)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            found.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(codes.pop(0) if codes else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{made.server_port}/in?token=s3cret", found
        finally:
            made.shutdown()
            thread.join()


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(output, "POST_PAUSE", 0.01)
    monkeypatch.setattr(output, "LAST_POSTS", 0.5)


def test_each_prediction_is_a_post_in_order(monkeypatch):
    monkeypatch.setattr(output, "LAST_POSTS", 60)  # a busy machine may take seconds for 300 posts
    with server() as (url, found):
        poster = Poster(url)
        for i in range(300):
            poster.write({"index": i})
        poster.close()
    assert [record["index"] for record in found] == [*range(300)]
    assert poster.lost == 0


def test_trouble_of_the_server_is_tried_again_and_a_refusal_is_lost():
    with server([503, 429, 200, 400, 200], body=b"x" * 200_000) as (url, found):
        poster = Poster(url)
        for i in range(3):
            poster.write({"index": i})
        poster.close()
    assert [record["index"] for record in found] == [0, 0, 0, 1, 2]
    assert (poster.lost, poster.sending.failed) == (1, 3)
    assert "s3cret" not in poster.sending.what


def test_a_server_that_is_away_or_silent_costs_no_time_and_is_counted(monkeypatch):
    monkeypatch.setattr(output, "MOST_UNSENT", 50)
    monkeypatch.setattr(output, "POST_PATIENCE", 0.6)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for url in ("http://127.0.0.1:1/", f"http://127.0.0.1:{silent.getsockname()[1]}/"):
            poster, start = Poster(url), time.monotonic()
            for i in range(1000):
                poster.write({"index": i})
            assert time.monotonic() - start < 0.5
            assert poster.lost >= 900
            while not poster.sending.fault and time.monotonic() < start + 10:
                time.sleep(0.01)
            assert poster.sending.fault.startswith("predictions cannot be sent: http://127.0.0.1:")
            poster.close()
            assert poster.lost >= 999


def test_nowhere_is_no_thread():
    poster = Poster("")
    poster.write({"index": 0})
    poster.close()
    assert not [each for each in threading.enumerate() if each.name == "domkl-post"]


@pytest.mark.parametrize(
    "url", ["https://example.org/a?b=c", "http://127.0.0.1:80/x", "http://[::1]:8080", "http://localhost/"]
)
def test_addresses_that_may_be_used(url):
    check_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/",
        "http://10.0.0.1/",
        "file:///etc/passwd",
        "https://",
        "http://[::1",
        "https://a:b@c/",
        "https://a:99999999/",
        "https://a/\r\nHost: b",
        "x",
    ],
)
def test_addresses_that_may_not(url):
    with pytest.raises(InputError, match=r"url is .*expected https://"):
        check_url(url)
