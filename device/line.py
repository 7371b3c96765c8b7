"""The other end of a device's serial line: frames as in device/README.md.

line = Line(port)                              # has read(n), write(bytes) and flush(), as pyserial's
y_hat, update = line.sample(0, x, y, learner)  # the device predicts and learns; an Update for its neighbours
line.update(0, from_neighbour)                 # one of theirs

That is a device with `Paper`; learners beside it have no name: with one they would wait for what it says of
its edges. With `Auto` all have names:

line = AutoLine(port, "a", ["b", "c"], learner, names)  # the device is a; names of the whole network
y_hat, update = line.sample(0, x, y)
line.update(0, "b", from_b)
line.close(0)  # the round, where a message is missing
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


class Frames:
    """Frames over a port; what is damaged is passed over and counted."""

    def __init__(self, port: Any) -> None:
        self.port, self.damaged = port, 0

    def send(self, frame: Frame) -> None:
        self.port.write(frame.packed())
        self.port.flush()

    def receive(self, most: int = 1 << 20) -> Frame:
        """The next whole frame."""
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


class Line(Frames):
    """That of a device with `Paper`."""

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


class AutoLine(Frames):
    """That of a device with `Auto`, whose messages are as from a learner with the settings of `like`.

    On the line a name is a place in `names`, those of the whole network.
    """

    def __init__(
        self,
        port: Any,
        name: Hashable,
        neighbours: Sequence[Hashable],
        like: domkl.Learner,
        names: Sequence[Hashable],
    ) -> None:
        super().__init__(port)
        self.name, self.neighbours, self.names = name, list(neighbours), list(names)
        self.fingerprint, size, columns = like.fingerprint, like.shapes.theta[1], like.shapes.columns
        head = [("number", "<f8"), ("name", "<u4"), ("degree", "<u4"), ("theta", "<f4", size)]
        bounds = [("low", "<f8", columns), ("high", "<f8", columns)]
        self.head = np.dtype(head)
        self.held = np.dtype(("<i8", len(Held._fields)))
        self.summary = np.dtype(
            [("name", "<u4"), ("samples", "<u4"), *bounds, ("shape", "<u2", (QUANTILES, columns))],
            align=True,  # as C has it
        )

    def sample(self, round: int, x: Any, y: float) -> tuple[float, domkl.Update]:
        """Let the device predict and learn; its message for its neighbours."""
        self.send(Frame(SAMPLE, round, np.append(x, y)))
        y_hat = self._expect(PREDICTION, round).values[0]
        data, n = self._expect(UPDATE, round).values.tobytes(), len(self.neighbours)
        head = np.frombuffer(data, self.head, 1)[0]
        held = np.frombuffer(data, self.held, n, self.head.itemsize)
        news = np.frombuffer(data[self.head.itemsize + n * self.held.itemsize :], self.summary)
        edges = {name: Held(*map(int, one)) for name, one in zip(self.neighbours, held, strict=True)}
        told = {self.names[name]: Summary(int(samples), *rest) for name, samples, *rest in news}
        theta, number = head["theta"][None], head["number"][None]
        return float(y_hat), domkl.Update(round, theta, number, self.fingerprint, edges, n, told)

    def update(self, round: int, name: Hashable, update: domkl.Update) -> None:
        """Give the device the message of a neighbour."""
        place = self.names.index
        head = np.array((update.scalars[0], place(name), update.degree, update.theta[0]), self.head)
        held = np.array(update.edges[self.name], "<i8")
        news = np.array([(place(whose), *one) for whose, one in update.news.items()], self.summary)
        data = head.tobytes() + held.tobytes() + news.tobytes()
        self.send(Frame(UPDATE, round, np.frombuffer(data, "<f4")))

    def close(self, round: int) -> None:
        """End the round without the messages that are missing."""
        self.send(Frame(CLOSE, round, np.zeros(0)))

    def duals(self, round: int) -> np.ndarray:
        """lam of the device, the duals of all its edges."""
        self.send(Frame(DUALS, round, np.zeros(0)))
        return self._expect(DUALS, round).values
