"""Damaged and forged messages, checkpoints and journals: none may crash a learner, none may be believed.

damaged   bits, bytes or pieces changed, as a bad link or a bad disk does: accepted only if nothing differs
forged    the same, or values of the wrong kind, under a right checksum: accepted only if all of it is sound
"""

from __future__ import annotations

import collections
import hashlib
import json
import pathlib
import tempfile
import zlib

import msgspec
import numpy as np

from domkl.agent import checkpoint, wire
from domkl.agent.checkpoint import Journal
from domkl.agent.incarnation import Incarnation
from domkl.base.errors import DataError, PeerError
from domkl.exchange.edges import Held
from domkl.exchange.message import Update
from domkl.learner import files
from domkl.learning.auto.scale import QUANTILES, Summary

#: Of a summary's shape.
SHAPE_BYTES = bytes(6 * QUANTILES)
WEIRD = [
    *(None, True, False, 0, -1, 2**63, 2**64 - 1, -(2**63), 0.5, 1e308, float("nan"), float("inf")),
    *("", "x", "x" * 70, "a/b", "ä", "\0", "float16", b"", b"x", b"\xff" * 8, [], [1], [[]] * 3, {}, {"": 0}),
    *({"a": [0, b"", b"", b""]}, {"a": [1, b"", b"", b""]}, {"a": [2**31, b"x" * 24, b"x" * 24, b"x"]}),
    *({"a": [1, bytes(24), b"\xff" * 24, SHAPE_BYTES]}, {"a/b": [1, bytes(24), bytes(24), SHAPE_BYTES]}),
    *({"a": [7, bytes(24), bytes(24), SHAPE_BYTES]}, {"a": [1, bytes(24), bytes(24)]}, {"a": [1, 2, 3, 4]}),
    *({"a": 1}, {"a": [1, 2]}, {"a": [0, 0, 0, 0, 2**60]}, {"a/b": [0, 0]}, {1: 2}, [b"x"] * 100, [1] * 5),
]
LIFE, MARK = Incarnation(3, 7), "0123456789abcdef"
#: Of the summaries in an update.
COLUMNS = 3


def mutated(rng, data, other):
    """`data` after one to three accidents; `other` is what a piece may come from."""
    for _ in range(rng.integers(1, 4)):
        data = ACCIDENTS[rng.integers(len(ACCIDENTS))](rng, data, other)
    return data


def piece(rng, data):
    start, end = sorted(rng.integers(0, len(data) + 1, size=2))
    return int(start), min(int(end), int(start) + 64)


def flip(rng, data, other):
    if not data:
        return b"\0"
    where = int(rng.integers(len(data)))
    return data[:where] + bytes([data[where] ^ 1 << int(rng.integers(8))]) + data[where + 1 :]


def flip_early(rng, data, other):
    """Where lengths, types and names are."""
    return flip(rng, data[:96], other) + data[96:]


def truncate(rng, data, other):
    return data[: int(rng.integers(len(data) + 1))]


def behead(rng, data, other):
    return data[int(rng.integers(len(data) + 1)) :]


def insert(rng, data, other):
    where = int(rng.integers(len(data) + 1))
    return data[:where] + rng.bytes(int(rng.integers(1, 17))) + data[where:]


def overwrite(rng, data, other):
    start, end = piece(rng, data)
    return data[:start] + rng.bytes(end - start) + data[end:]


def duplicate(rng, data, other):
    start, end = piece(rng, data)
    return data[:end] + data[start:end] + data[end:]


def remove(rng, data, other):
    start, end = piece(rng, data)
    return data[:start] + data[end:]


def splice(rng, data, other):
    return data[: int(rng.integers(len(data) + 1))] + other[int(rng.integers(len(other) + 1)) :]


ACCIDENTS = [flip, flip_early, truncate, behead, insert, overwrite, duplicate, remove, splice]


class Tally(collections.Counter):
    """What became of the inputs of one kind; `bad` holds the first few that broke a rule."""

    def __init__(self):
        super().__init__()
        self.bad = []

    def note(self, outcome, data):
        self[outcome] += 1
        if outcome in ("crashed", "differs", "unsound") and len(self.bad) < 5:
            self.bad.append((outcome, data))


class Messages:
    """Three kinds of messages, two shapes, three precisions."""

    fingerprint = MARK

    def __init__(self, shape, rng):
        options = {"shape": shape, "fingerprint": self.fingerprint, "has_scalars": True}
        self.shape, self.decoder = shape, wire.Decoder(**options, columns=COLUMNS)
        edges = {"a": Held(1, 2, 3, 3, 2), "station-2": Held()}
        news = {"a": Summary.of(rng.normal(size=(9, COLUMNS)), 8), "b": Summary.of(np.ones((1, COLUMNS)))}
        theta, scalars = rng.normal(size=shape), rng.uniform(size=shape[0])
        updates = [
            wire.encode_update(Update(t, theta + t, scalars, MARK, edges, 2, news), LIFE, t, dtype)
            for t, dtype in enumerate(("float64", "float32", "float16"))
        ]
        hello = wire.Hello(self.fingerprint, LIFE, 7, 5, {"a": 6, "b": 0}, edges, False, 1, {"b": 4})
        again = wire.Again(self.fingerprint, LIFE, updates)
        self.all = [*updates, wire.encode(hello), wire.encode(again)]

    def damaged(self, rng):
        original, other = (self.all[i] for i in rng.integers(len(self.all), size=2))
        return mutated(rng, original, other)

    def forged(self, rng):
        original, other = (self.all[i][8:] for i in rng.integers(len(self.all), size=2))
        return resealed(mutated(rng, original, other) if rng.random() < 0.5 else confused(rng, original))

    def outcome(self, data, may_differ):
        try:
            message = self.decoder.decode(data)
        except PeerError:
            return "refused"
        except BaseException:
            return "crashed"
        if data in self.all:
            return "same"
        if not may_differ:
            return "differs"
        return "sound" if self.sound(message) else "unsound"

    def sound(self, message):
        if isinstance(message, wire.Again):
            return len(message.updates) <= 64 and all(type(update) is bytes for update in message.updates)
        if isinstance(message, wire.Hello):
            rounds = [*message.wants.items(), *message.ended.items()]
            good = all(named(name) and 0 <= t < 2**52 for name, t in rounds)
            return good and sound_edges(message.edges)
        update = message.update
        arrays = [(update.theta, self.shape), (update.scalars, self.shape[:1])]
        return (
            all(a.shape == s and a.dtype == float and np.isfinite(a).all() for a, s in arrays)
            and type(update.degree) is int
            and 0 <= update.degree <= 1024
            and sound_news(update.news)
            and (type(update.round), type(message.durable), type(message.incarnation))
            == (int, int, Incarnation)
            and 0 <= message.durable <= update.round < 2**52
            and update.fingerprint == self.fingerprint
            and sound_edges(update.edges)
        )


def resealed(body):
    start = b"dk" + bytes(wire.VERSION)
    return start + zlib.crc32(body, zlib.crc32(start)).to_bytes(4, "little") + body


def confused(rng, body):
    """A message with a value of another kind in one of its fields, or with a field more or less."""
    fields = msgspec.msgpack.decode(body)
    name = [*fields, "new"][rng.integers(len(fields) + 1)]
    if rng.random() < 0.1:
        fields.pop(name, None)
    else:
        fields[name] = WEIRD[rng.integers(len(WEIRD))]
    return msgspec.msgpack.encode(fields)


def named(name):
    return type(name) is str and 1 <= len(name) <= 64 and name.isascii() and "/" not in name


def sound_edges(edges):
    return all(named(name) and type(held) is Held for name, held in edges.items()) and all(
        type(n) is int and -1 <= n < 2**63 for held in edges.values() for n in held
    )


def sound_news(news):
    """Right in form; whether bounds are finite is for the learner to see."""
    return all(
        named(name)
        and type(one) is Summary
        and 1 <= one.samples < 2**31
        and one.low.shape == one.high.shape == (COLUMNS,)
        and one.shape.shape == (QUANTILES, COLUMNS)
        for name, one in news.items()
    )


class Checkpoints:
    """A directory with two checkpoints, of which the newer is harmed."""

    def __init__(self, directory, rng):
        self.directory = pathlib.Path(directory)
        save = {"theta": rng.normal(size=(3, 4)), "round": np.array([7]), "mask": np.array([True, False])}
        meta = {"name": "a", "edges": {"b": [1, 2]}}
        self.older = checkpoint.save(self.directory, 10, save, meta, sync=False)
        self.newer = checkpoint.save(self.directory, 20, save, meta, sync=False)
        self.content, self.other = self.newer.read_bytes(), self.older.read_bytes()
        self.newer.unlink()

    def damaged(self, rng):
        return mutated(rng, self.content, self.other)

    def forged(self, rng):
        return self.damaged(rng) if rng.random() < 0.5 else self.confused(rng)

    def confused(self, rng):
        size = int.from_bytes(self.content[:8], "little")
        header, data = json.loads(self.content[8 : 8 + size]), self.content[8 + size :]
        inside = header if rng.random() < 0.3 else header[[*header][rng.integers(len(header))]]
        value = WEIRD[rng.integers(len(WEIRD))]
        inside[[*inside][rng.integers(len(inside))]] = repr(value) if isinstance(value, bytes) else value
        text = json.dumps(header, default=repr).encode()
        return len(text).to_bytes(8, "little") + text + data

    def outcome(self, data, may_differ):
        digest = hashlib.sha256(data).hexdigest()[:32]
        path = self.directory / f"round-20-{digest}.safetensors" if may_differ else self.newer
        path.write_bytes(data)
        try:
            found = checkpoint.load(self.directory)
        except BaseException:
            return "crashed"
        finally:
            path.unlink()
        if found.round == 10:
            return "refused" if len(found.skipped) == 1 else "crashed"
        if data == self.content:
            return "same"
        if not may_differ:
            return "differs"
        return "sound" if self.sound(found) else "unsound"

    def sound(self, found):
        kinds = {array.dtype.name for array in found.arrays.values()}
        return found.round == 20 and type(found.meta) is dict and kinds <= set(files.DTYPES.values())


class Journals:
    """A journal of some records; what is read must be how it began, or nothing."""

    def __init__(self, directory, rng):
        self.directory, self.path = directory, pathlib.Path(directory) / "journal-7.jsonl"
        self.records = [{"round": int(t), "peer": "b", "x": float(rng.normal())} for t in range(8)]
        with Journal(directory) as journal:
            journal.start(7, sync=False)
            for record in self.records:
                journal.append(record)
        self.content = self.path.read_bytes()

    def damaged(self, rng):
        return mutated(rng, self.content, self.content)

    def outcome(self, data, may_differ):
        self.path.write_bytes(data)
        try:
            with Journal(self.directory) as journal:
                found = journal.resume(7)
                journal.append({"more": 1})
                again = journal.read()
        except DataError:
            return "refused"
        except BaseException:
            return "crashed"
        if again != [*found, {"more": 1}] or found != self.records[: len(found)]:
            return "differs"
        return "same" if len(found) == len(self.records) else "cut short"


def run(subject, make, count, rng, may_differ=False):
    """The tally of `count` inputs from `make`."""
    tally = Tally()
    for _ in range(count):
        data = make(rng)
        tally.note(subject.outcome(data, may_differ), data)
    return tally


def messages(count, seed=0):
    """Tallies of damaged and of forged messages, `count` together, half of them small."""
    rng = np.random.default_rng(seed)
    tallies = {"damaged": Tally(), "forged": Tally()}
    for shape in ((3, 4), (17, 100)):
        subject = Messages(shape, rng)
        merge(tallies["damaged"], run(subject, subject.damaged, count // 4, rng))
        merge(tallies["forged"], run(subject, subject.forged, count // 4, rng, may_differ=True))
    return tallies


def merge(tally, more):
    tally.update(more)
    tally.bad += more.bad


def checkpoints(count, seed=0):
    """Tallies of damaged and of forged checkpoints, `count` together."""
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as directory:
        subject = Checkpoints(directory, rng)
        return {
            "damaged": run(subject, subject.damaged, count // 2, rng),
            "forged": run(subject, subject.forged, count // 2, rng, may_differ=True),
        }


def journals(count, seed=0):
    """The tally of damaged journals."""
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as directory:
        subject = Journals(directory, rng)
        return {"damaged": run(subject, subject.damaged, count, rng)}
