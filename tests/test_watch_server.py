"""The page's server on its own: what it serves, to whom, and what it refuses."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import time

import pytest

from domkl.base.errors import InputError
from domkl.watch import Access, Answer, Feed, RunFeed, Server
from domkl.watch import server as page_server

LOOPBACK = ("127.0.0.1", 0)
TOKEN = "a-token-that-is-long-enough"


def fed():
    feed = Feed("net", own="a", inputs=("u", "v"))
    for t in range(5):
        feed.sample({"learner": "a", "index": t, "round": t, "y_hat": float(t)})
        feed.truth("a", t, t + 0.5)
    return feed


def answer_to(question):
    if question.get("x") == "slow":
        raise TimeoutError
    if not isinstance(question.get("x"), list):
        raise InputError("there is no x; expected inputs; send some")
    return {"y_hat": sum(question["x"])}


@pytest.fixture(scope="module")
def served():
    with Server(LOOPBACK, fed(), predict=answer_to) as server:
        yield server


def ask(server, path, method="GET", body=None, **headers):
    connection = http.client.HTTPConnection(*server.address, timeout=10)
    try:
        connection.request(
            method, path, body, {name.replace("_", "-"): value for name, value in headers.items()}
        )
        found = connection.getresponse()
        return found.status, found.read(), found.headers
    finally:
        connection.close()


def ask_json(server, path, *args, **headers):
    code, body, _ = ask(server, path, *args, **headers)
    return code, json.loads(body)


def post(server, document, **headers):
    body = document if isinstance(document, bytes) else json.dumps(document)
    return ask_json(server, "/predict", "POST", body, **{"Content_Type": "application/json", **headers})


def test_files_are_those_of_the_folder_and_nothing_else(served):
    for path, stored in page_server.page_files().items():
        code, body, headers = ask(served, path)
        assert (code, body, headers["Content-Type"]) == (200, stored.plain, stored.kind)
        code, body, headers = ask(served, path, Accept_Encoding="gzip, br")
        assert (body, headers["Content-Encoding"]) == (stored.zipped, "gzip")
    for path in (
        "/page.py",
        "/../server.py",
        "/%2e%2e/server.py",
        "/static/page.js",
        "//etc/passwd",
        "/uPlot.LICENSE",
        "/\0",
    ):
        with contextlib.suppress(http.client.InvalidURL):
            assert ask(served, path)[0] == 404, path


def test_all_that_a_browser_loads_has_at_most_60_kb():
    assert sum(len(stored.zipped) for stored in page_server.page_files().values()) <= 60_000


def test_every_answer_forbids_what_the_page_does_not_need(served):
    for path in ("/", "/state", "/nothing", "/page.js"):
        headers = ask(served, path)[2]
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Server"].strip() == "domkl"


def test_state_and_predictions(served):
    code, state = ask_json(served, "/state")
    assert (code, state["title"], state["asks"]) == (200, "net", True)
    assert state["detail"]["samples"][5] == [0.5, 1.5, 2.5, 3.5, 4.5]
    assert ask_json(served, "/predictions?n=all")[0] == 400
    _, found = ask_json(served, "/predictions?n=2")
    assert [record["index"] for record in found["predictions"]] == [3, 4]
    assert found["predictions"][1]["y"] == 4.5
    for query in (
        "n=-1",
        "n=x",
        "n=99999999999999999999",
        "learner=<b>&n=3",
        "n=%00",
        "n=1&n=2&" + "a=1&" * 30,
    ):
        assert ask(served, f"/predictions?{query}")[0] in (200, 400)
    assert ask_json(served, "/state?learner=%3Cscript%3E")[1]["detail"]["name"] == "a"


def test_a_range_of_time_is_asked_for_and_another_is_refused(served):
    code, found = ask_json(served, "/state?range=day")
    assert (code, found["range"], found["detail"]["samples"][0]) == (200, "day", [0, 1, 2, 3, 4])
    wanted = "range is 'year'; expected one of hour, day, week, all; choose one"
    for path in ("/state?range=year", "/events?range=year"):
        assert ask_json(served, path) == (400, {"error": wanted})
    with following(served, "/events?range=hour") as lines:
        assert next_event(lines)["range"] == "hour"
    with Server(LOOPBACK, RunFeed("net", ["a"], [[]])) as rounds:
        code, found = ask_json(rounds, "/state?range=day")
        assert (code, found["error"]) == (400, "range is 'day'; expected none, of rounds; leave it out")


@contextlib.contextmanager
def following(server, path="/events", host="127.0.0.1"):
    with socket.create_connection(server.address, timeout=10) as client:
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        yield client.makefile("rb")


def next_event(lines):
    for line in lines:
        if line.startswith(b"data: "):
            return json.loads(line[6:])
    return None


def test_events_follow_the_feed(monkeypatch):
    monkeypatch.setattr("domkl.watch.server.EVERY", 0.02)
    feed = fed()
    with Server(LOOPBACK, feed) as server, following(server) as lines:
        assert b"200" in next(lines)
        assert next_event(lines)["learners"][0]["name"] == "a"
        assert server.counts["streams"] == 1
        feed.status({"learner": "b", "state": "ready"})
        assert [row["name"] for row in next_event(lines)["learners"]] == ["a", "b"]
        feed.end()
        assert next_event(lines)["state"] == "ended"
    assert next_event(lines) is None if not lines.closed else True


def test_many_pages_cost_little_more_than_one(monkeypatch):
    """What is made for one of them is sent to all that show the same learner."""
    feed = fed()
    made = []
    monkeypatch.setattr(feed, "document", lambda *asked: made.append(asked) or Feed.document(feed, *asked))
    with Server(LOOPBACK, feed) as server, contextlib.ExitStack() as stack:
        pages = [stack.enter_context(following(server)) for _ in range(8)]
        assert {next_event(lines)["learners"][0]["name"] for lines in pages} == {"a"}
        feed.end()
        assert {next_event(lines)["state"] for lines in pages} == {"ended"}
        assert len(made) <= 6


def test_streams_are_few_and_do_not_take_the_place_of_others(monkeypatch):
    monkeypatch.setattr(page_server, "STREAMS", 3)
    with Server(LOOPBACK, fed()) as server, contextlib.ExitStack() as stack:
        for _ in range(3):
            assert b"200" in next(stack.enter_context(following(server)))
        with following(server) as newest:  # in place of the oldest
            assert b"200" in next(newest)
            assert server.counts["many"] == 1
            assert ask(server, "/state")[0] == 200
            assert json.loads(ask(server, "/state")[1])["pages"] == 3


def test_a_client_that_does_not_read_is_dropped_and_counted(monkeypatch):
    monkeypatch.setattr("domkl.watch.server.EVERY", 0.001)
    monkeypatch.setattr("domkl.watch.server.Handler.timeout", 0.2)
    feed = Feed("net")
    for n in range(800):
        feed.status({"learner": f"learner-{n}", "state": "ready", "faults": ["x" * 200]})
    with Server(LOOPBACK, feed) as server, following(server) as lines:
        next(lines)
        end = time.monotonic() + 15
        while not server.counts.get("slow"):
            feed.version += 1
            assert time.monotonic() < end
            time.sleep(0.002)
        assert ask(server, "/state")[0] == 200


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:1234", "localhost", "LOCALHOST:80", "[::1]:9", "garden.lan"]
)
def test_names_of_this_machine_are_known(host):
    with Server(LOOPBACK, fed(), access=Access(hosts=("garden.lan",))) as server:
        assert ask(server, "/state", Host=host)[0] == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "localhost.evil.example", "", "127.0.0.1.nip.io", "x" * 300]
)
def test_other_names_are_refused(served, host):
    """A foreign page may point its own name here, and would then read everything."""
    for path in ("/", "/state", "/events", "/predictions"):
        assert ask(served, path, Host=host)[0] == 421, path


def test_questions_are_answered(served):
    assert post(served, {"x": [1, 2.5]}) == (200, {"y_hat": 3.5})
    assert post(served, {"x": 3}) == (400, {"error": "there is no x; expected inputs; send some"})
    assert post(served, {"x": "slow"})[0] == 503
    for body in (b"", b"[1]", b"{", b"\xff", b"[" * 30_000, b'{"x": [NaN'):
        code, found = post(served, body)
        assert (code, "expected inputs" in found["error"]) == (400, True)
    assert post(served, b'{"x": [' + b"1," * 40_000 + b"1]}")[0] == 413
    assert ask(served, "/predict", "POST", b"{}", Content_Type="text/plain")[0] == 415
    assert ask(served, "/predict")[0] == 405
    assert ask(served, "/state", "POST", b"")[0] == 405


def test_foreign_pages_cannot_ask(served):
    assert post(served, {"x": [1]}, Origin="http://evil.example")[0] == 403
    host, port = served.address
    assert post(served, {"x": [1]}, Origin=f"http://{host}:{port}")[0] == 200


def test_questions_are_limited_in_rate():
    with Server(LOOPBACK, fed(), predict=answer_to) as server:
        server.rate.rate = 0.001
        codes = [post(server, {"x": [1]})[0] for _ in range(22)]
    assert codes == [200] * 20 + [429] * 2


def test_without_a_learner_there_are_no_questions():
    with Server(LOOPBACK, fed()) as server:
        assert post(server, {"x": [1]})[0] == 404
        assert ask_json(server, "/state")[1]["asks"] is False


def test_a_token_is_needed_where_one_is_given():
    with Server(LOOPBACK, fed(), TOKEN, routes={"/healthz": page_server.page_file}) as server:
        for path in ("/", "/state", "/page.js", "/events", "/predictions", "/nothing"):
            assert ask(server, path)[0] == 401, path
        for wrong in ("Bearer", "Bearer x", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer é"):
            assert ask(server, "/state", Authorization=wrong.encode("utf-8").decode("latin-1"))[0] == 401
        assert ask(server, "/?token=wrong")[0] == 401
        assert ask(server, "/state", Authorization=f"Bearer {TOKEN}")[0] == 200
        code, _, headers = ask(server, f"/?token={TOKEN}")
        assert (code, headers["Location"]) == (303, "/")
        cookie = headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite" in cookie
        assert TOKEN not in cookie
        assert ask(server, "/state", Cookie=cookie.partition(";")[0])[0] == 200
        assert ask(server, "/state", Cookie=f"{server.access.cookie}=wrong")[0] == 401


def test_tokens_are_compared_in_constant_time(monkeypatch):
    """Each comparison goes through the function that is made for it, whatever is sent."""
    import hmac

    seen = []
    monkeypatch.setattr("domkl.watch.access.hmac.compare_digest", lambda a, b: seen.append((a, b)) or False)
    with Server(LOOPBACK, fed(), TOKEN) as server:
        ask(server, "/state", Authorization="Bearer a", Cookie="domkl-0=b")
    assert [found for found, _ in seen] == [b"a", b"", b"b"]
    assert hmac.compare_digest is not None


def test_short_tokens_are_refused():
    with pytest.raises(InputError, match="has 5 characters; expected 16"):
        Access("12345")


def test_other_machines_see_no_page_without_a_token():
    routes = {"/metrics": lambda _: Answer(200, b"1"), "/healthz": lambda _: Answer(200, b"ok")}
    access = Access(is_local=False)
    with Server(LOOPBACK, fed(), routes=routes, access=access) as server:
        for path in ("/", "/state", "/events", "/predictions", "/page.js"):
            code, found = ask_json(server, path)
            assert (code, "token_file" in found["error"]) == (403, True)
        assert ask(server, "/metrics", Host="agent-1:9464")[0] == 421
        assert ask(server, "/metrics")[0] == 200
        assert ask(server, "/healthz", Host="agent-1:9464")[0] == 421


def test_ten_thousand_connections_leave_few_threads():
    """As fast as they come: each beyond the first few closes the oldest."""
    with Server(LOOPBACK, fed()) as server:
        begin, clients = time.monotonic(), []
        for n in range(10_000):
            client = socket.socket()
            client.setblocking(False)
            with contextlib.suppress(OSError):
                client.connect(server.address)
            clients.append(client)
            if len(clients) >= 300:
                clients.pop(0).close()
            if n % 1000 == 0:
                assert (
                    sum("process_request" in each.name for each in threading.enumerate())
                    <= page_server.THREADS
                )
            if time.monotonic() - begin > 5:  # on a slow machine fewer will do
                break
        for client in clients:
            client.close()
        end = time.monotonic() + 20
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if ask(server, "/state")[0] == 200:
                    break
            assert time.monotonic() < end
            time.sleep(0.05)


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /state HTTP/1.1\r\n" + b"x: " + b"y" * 20_000 + b"\r\n\r\n",
        b"GET /state HTTP/1.1\r\n" + b"x: y\r\n" * 2_000 + b"\r\n",
        b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
        b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999\r\n\r\n",
        b"POST /predict HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n",
        b"GET http://evil.example/state HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"GET /state?\xff\xfe=%ff HTTP/1.1\r\nHost: \xff\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /state HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
    ],
)
def test_hostile_requests_do_no_harm(served, sent, capfd):
    with socket.create_connection(served.address, timeout=10) as client, contextlib.suppress(OSError):
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        got = b"".join(iter(lambda: client.recv(1 << 16), b""))
        assert b" 200 " not in got.partition(b"\r\n")[0]
    assert ask(served, "/state")[0] == 200
    assert "Traceback" not in capfd.readouterr().err
