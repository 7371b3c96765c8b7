"""The other end of a device's serial line: frames as in device/README.md.

line = Line(port)                              # has read(n), write(bytes) and flush(), as pyserial's
y_hat, update = line.sample(0, x, y, learner)  # the device predicts and learns; an Update for its neighbours
line.update(0, from_neighbour)                 # one of theirs

Learners beside it have no name: with one they would wait for what it says of its edges.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any, NamedTuple

import numpy as np

import domkl

HEAD = struct.Struct("<BII")
SAMPLE, PREDICTION, UPDATE, REFUSED = 1, 2, 3, 4


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
