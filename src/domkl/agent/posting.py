"""Predictions to a web address, by a thread of its own: the agent never waits for it."""

from __future__ import annotations

import contextlib
import http.client
import queue
import ssl
import threading
import time
import urllib.parse
from typing import Any

import msgspec

from .logs import Attempts

#: The most predictions that wait to be sent; further ones are lost and counted.
MOST = 1000
#: Seconds for the server to answer, and from one attempt to the next, at least and at most.
PATIENCE, PAUSE, LONGEST_PAUSE = 5.0, 0.2, 10.0
#: Attempts for one prediction, after which it is lost; and seconds for those that wait when the agent ends.
ATTEMPTS, LAST_MOMENT = 5, 2.0
#: Answers after which the same prediction is sent again: too many requests, or the server's own trouble.
AGAIN = {408, 425, 429, *range(500, 600)}
#: Bytes of an answer that are read; it says nothing that we need.
MOST_ANSWER = 65_536


class Poster:
    """Sends each record as a POST of a JSON object; `lost` counts those that were not taken."""

    def __init__(self, url: str) -> None:
        self.url, self.lost = url, 0
        self.sending = Attempts(f"predictions cannot be sent to {_shown(url)}")
        self._parts = urllib.parse.urlsplit(url)
        self._waiting: queue.Queue[bytes | None] = queue.Queue(MOST)
        self._ended_at: float | None = None
        self._connection: http.client.HTTPConnection | None = None
        self._thread: threading.Thread | None = None

    def write(self, record: dict[str, Any]) -> None:
        """Send a record soon; does not wait."""
        if not self.url:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="domkl-post", daemon=True)
            self._thread.start()
        try:
            self._waiting.put_nowait(msgspec.json.encode(record))
        except queue.Full:
            self.lost += 1

    def close(self) -> None:
        """Send those that wait, for a moment; the rest is lost."""
        if self._thread is None:
            return
        self._ended_at = time.monotonic()
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(None)
        self._thread.join(LAST_MOMENT + 0.5)
        self.lost += sum(each is not None for each in self._waiting.queue)

    def _work(self) -> None:
        while not self._is_over and (body := self._waiting.get()) is not None:
            if not self._send(body):
                self.lost += 1
        self._hang_up()

    @property
    def _is_over(self) -> bool:
        return self._ended_at is not None and time.monotonic() > self._ended_at + LAST_MOMENT

    def _send(self, body: bytes) -> bool:
        """Whether the server has taken a prediction, at last."""
        pause = PAUSE
        for _ in range(ATTEMPTS):
            reason, is_final = self._try(body)
            if not reason:
                self.sending.succeed()
                return True
            self.sending.fail(reason)
            if is_final or self._is_over:
                return False
            time.sleep(pause if self._ended_at is None else min(pause, PAUSE))
            pause = min(2 * pause, LONGEST_PAUSE)
        return False

    def _try(self, body: bytes) -> tuple[str, bool]:
        """Why one attempt has failed, or ""; and whether another would as well."""
        try:
            connection = self._connection = self._connection or self._connect()
            target = urllib.parse.urlunsplit(("", "", self._parts.path or "/", self._parts.query, ""))
            connection.request("POST", target, body, {"Content-Type": "application/json"})
            with connection.getresponse() as answer:
                answer.read(MOST_ANSWER)
                is_kept = answer.isclosed() and not answer.will_close
                status = answer.status
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._hang_up()
            return str(getattr(error, "strerror", None) or error) or type(error).__name__, False
        if not is_kept:  # the rest of a long answer would be taken for the next
            self._hang_up()
        is_taken = 200 <= status < 300
        return ("" if is_taken else f"the server answered {status}"), status not in AGAIN

    def _connect(self) -> http.client.HTTPConnection:
        host, port = str(self._parts.hostname), self._parts.port
        if self._parts.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=PATIENCE)
        trusted = ssl.create_default_context()
        return http.client.HTTPSConnection(host, port, timeout=PATIENCE, context=trusted)

    def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _shown(url: str) -> str:
    """An address without its query, which may hold a token."""
    return url.partition("?")[0]
