"""The other end of a device's serial line: frames as in device/README.md.

line = Line(port)                              # has read(n), write(bytes) and flush(), as pyserial's
y_hat, update = line.sample(0, x, y, learner)  # the device predicts and learns; an Update for its neighbours
line.update(0, from_neighbour)                 # one of theirs

That is a device with `Paper`. Learners beside it have no name: with one they would wait for what it says of its
edges. With `Auto` all have names:

line = AutoLine(port, names, "a", ["b", "c"])  # the device is a; names of the whole network, in its order
line.update(0, "b", from_b)
line.close(0)                                  # the round, where a message is missing
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

import domkl
from domkl.exchange.edges import Held
from domkl.learning.auto.scale import QUANTILES, Summary

HEAD = struct.Struct("<BII")
SAMPLE, PREDICTION, UPDATE, REFUSED, CLOSE, DUALS = 1, 2, 3, 4, 5, 6


class Frame(NamedTuple):
    type: int
    round: int
    values: np.ndarray  # float32

    def packed(self) -> bytes:
        """As it goes over the line."""
        values = np.asarray(self.values, "<f4")
        content = HEAD.pack(self.type, self.round, len(values)) + values.tobytes()
        return b"dp" + content + struct.pack("<I", zlib.crc32(content))


class Line:
    def __init__(self, port: Any) -> None:
        self.port, self.damaged = port, 0

    def send(self, frame: Frame) -> None:
        self.port.write(frame.packed())
        self.port.flush()

    def receive(self, most: int = 1 << 20) -> Frame:
        """The next whole frame; what is damaged is passed over and counted."""
        while True:
            last = b""
            while (byte := self._read(1)) != b"p" or last != b"d":
                last = byte
            head = self._read(HEAD.size)
            kind, round, count = HEAD.unpack(head)
            content = self._read(4 * count) if count <= most else b""
            if count <= most and struct.unpack("<I", self._read(4))[0] == zlib.crc32(head + content):
                return Frame(kind, round, np.frombuffer(content, "<f4"))
            self.damaged += 1

    def sample(self, round: int, x: Any, y: float, like: domkl.Learner) -> tuple[float, domkl.Update]:
        """Let the device predict and learn; its message, as from a learner with the settings of `like`."""
        self.send(Frame(SAMPLE, round, np.append(x, y)))
        y_hat = self._expect(PREDICTION, round).values[0]
        values = self._expect(UPDATE, round).values
        (P, K), losses = like.shapes.theta, like.shapes.scalars
        theta, scalars = values[: P * K].reshape(P, K), values[P * K :].astype(np.float64)
        return float(y_hat), domkl.Update(round, theta, scalars[:losses], like.fingerprint, {}, 1)

    def update(self, round: int, update: domkl.Update) -> None:
        """Give the device a neighbour's message."""
        self.send(Frame(UPDATE, round, np.append(update.theta.ravel(), update.scalars)))

    def _expect(self, kind: int, round: int) -> Frame:
        frame = self.receive()
        if (frame.type, frame.round) != (kind, round):
            raise ValueError(f"the device sent frame {frame.type} of round {frame.round}: {frame.values[:4]}")
        return frame

    def _read(self, n: int) -> bytes:
        found = b""
        while len(found) < n:
            more = self.port.read(n - len(found))
            if not more:
                raise EOFError("the line has ended")
            found += more
        return found


class AutoLine(Line):
    """That of a device with `Auto`: names on the line are places in `names`, those of the whole network."""

    def __init__(
        self, port: Any, names: Sequence[Hashable], name: Hashable, neighbours: Sequence[Hashable]
    ) -> None:
        super().__init__(port)
        self.names, self.name, self.neighbours = list(names), name, list(neighbours)

    def sample(self, round: int, x: Any, y: float, like: domkl.Learner) -> tuple[float, domkl.Update]:
        """Let the device predict and learn; its message, as from a learner with the settings of `like`."""
        self.send(Frame(SAMPLE, round, np.append(x, y)))
        y_hat = self._expect(PREDICTION, round).values[0]
        form = _form(like, len(self.neighbours))
        head, news = _split(self._expect(UPDATE, round).values.tobytes(), form, _summaries(like))
        edges = {
            name: Held(*map(int, held)) for name, held in zip(self.neighbours, head["held"], strict=True)
        }
        known = {
            self.names[one["name"]]: Summary(int(one["samples"]), one["low"], one["high"], one["shape"])
            for one in news
        }
        theta, number = head["theta"][None], head["number"][None]
        return float(y_hat), domkl.Update(round, theta, number, like.fingerprint, edges, len(edges), known)

    def update(self, round: int, name: Hashable, update: domkl.Update, like: domkl.Learner) -> None:
        """Give the device the message of a neighbour."""
        head, news = np.zeros(1, _form(like, 1)), np.zeros(len(update.news), _summaries(like))
        head["number"], head["name"] = update.scalars, self.names.index(name)
        head["degree"], head["theta"] = update.degree, update.theta
        head["held"] = update.edges[self.name]
        for to, (whose, one) in zip(news, update.news.items(), strict=True):
            to["name"], to["samples"] = self.names.index(whose), one.samples
            to["low"], to["high"], to["shape"] = one.low, one.high, one.shape
        self.send(Frame(UPDATE, round, np.frombuffer(head.tobytes() + news.tobytes(), "<f4")))

    def close(self, round: int) -> None:
        """End the round without the messages that are missing."""
        self.send(Frame(CLOSE, round, np.zeros(0)))

    def duals(self, round: int) -> np.ndarray:
        """lam of the device, the duals of all its edges."""
        self.send(Frame(DUALS, round, np.zeros(0)))
        return self._expect(DUALS, round).values


def _form(like: domkl.Learner, edges: int) -> np.dtype:
    """Of an update, without the summaries in it."""
    size = like.shapes.theta[1]
    head = [("number", "<f8"), ("name", "<u4"), ("degree", "<u4"), ("theta", "<f4", size)]
    return np.dtype([*head, ("held", "<i8", (edges, len(Held._fields)))])


def _summaries(like: domkl.Learner) -> np.dtype:
    """Of a summary, as C lays it out."""
    columns = like.shapes.columns
    bounds = [("low", "<f8", columns), ("high", "<f8", columns)]
    whole = [("name", "<u4"), ("samples", "<u4"), *bounds, ("shape", "<u2", (QUANTILES, columns))]
    return np.dtype(whole, align=True)


def _split(data: bytes, form: np.dtype, of: np.dtype) -> tuple[np.void, np.ndarray]:
    return np.frombuffer(data, form, 1)[0], np.frombuffer(data[form.itemsize :], of)
