"""Rows of every kind of oddity, and what an agent makes of them.

    tally = odd_rows("auto", "jsonl", 1000, seed=0)

A row is honest, and must be learnt, or odd, and must be used or refused with a dead letter.
"""

from __future__ import annotations

import asyncio
import json
import pathlib
import random
import tempfile

import numpy as np

import domkl
from domkl.agent import Agent
from domkl.agent.config import LONGEST_ROW, StreamSection
from domkl.agent.rows import DeadLetters
from domkl.datasets.columns import Columns
from domkl.models.settings import KernelSpec
from inmemory import config, together, until

RATES = domkl.Rates(rho=0.5, eta=0.5, eta_g=1.0)
SMALL = KernelSpec(D=10, sigma2=(0.3, 3.0))
MODELS = {
    "auto": domkl.Auto(size=40),
    "auto classes": domkl.Auto(size=40, loss="logistic"),
    "paper": domkl.Paper(kernels=SMALL, rates=RATES),
    "paper newton": domkl.Paper(kernels=SMALL, rates=RATES, step="newton"),
}
#: Numbers at the edges of what a float is.
EDGES = [
    *("0", "-0.0", "5e-324", "-1e-310", "1e-250", "1e15", "-1e38", "1e99", "1e100", "-1.1e100", "1e154"),
    *("1e160", "1e308", "-1.7976931348623157e308", "1e309", "9" * 400, "2e-999", "9007199254740993"),
]
#: What is no number.
NOT_NUMBERS = ["NaN", "Infinity", "-inf", "null", "true", '""', '"1"', '"1,5"', "[]", "{}", "1_0", ""]
D = 3


def sample(rng):
    x = [rng.uniform(-1, 1) for _ in range(D)]
    return x, float(np.sin(3 * x[0]) + x[1])


def honest(rng, kind, classifies):
    x, y = sample(rng)
    return line_of([*map(repr, x)], "1" if classifies and y > 0 else "-1" if classifies else repr(y), kind)


def line_of(x, y, kind, id=None):
    if kind == "csv":
        return ",".join([*x, y]).encode()
    if kind == "flat":
        cells = {**dict(zip("abcdefgh", x, strict=False)), **({"y": y} if y else {})}
        return ("{" + ", ".join(f'"{name}": {cell}' for name, cell in cells.items()) + "}").encode()
    label, name = f', "y": {y}' if y else "", "" if id is None else f', "id": {json.dumps(id)}'
    return f'{{"x": [{", ".join(x)}]{label}{name}}}'.encode()


def odd(rng, kind, classifies, absurd):
    """One odd row; `absurd`: numbers at the edges too, which are used where they are no larger than 1e100."""
    ways = [_any_bytes, _damaged, _wrong_value, _wrong_length, _nested, _marked, _late, _flat]
    ways += [_edge] * 2 if absurd else []
    made = (_long if rng.random() < 0.002 else rng.choice(ways))(rng, kind, classifies)
    return made.replace(b"\n", b" ").replace(b"\r", b" ")


def _any_bytes(rng, kind, classifies):
    return rng.randbytes(rng.randrange(1, 200))


def _damaged(rng, kind, classifies):
    row = bytearray(honest(rng, kind, classifies))
    for _ in range(rng.randrange(1, 4)):
        row[rng.randrange(len(row))] = rng.choice(b'{}[]",:\\\x00\xff\xfe a')  # no digit
    return bytes(row[: rng.randrange(1, len(row) + 1)] if rng.random() < 0.3 else row)


def _wrong_value(rng, kind, classifies):
    x, y = sample(rng)
    cells = [*map(repr, x), repr(y)]
    cells[rng.randrange(len(cells))] = rng.choice(NOT_NUMBERS)
    return line_of(cells[:-1], cells[-1], kind)


def _edge(rng, kind, classifies):
    x, y = sample(rng)
    cells = [*map(repr, x), repr(y)]
    for _ in range(rng.randrange(1, 3)):
        cells[rng.randrange(len(cells))] = rng.choice(EDGES)
    return line_of(cells[:-1], cells[-1], kind)


def _wrong_length(rng, kind, classifies):
    return line_of([repr(rng.random())] * rng.choice([0, 1, 2, 4, 1000]), "1", kind)


def _nested(rng, kind, classifies):
    depth = rng.choice([1, 3, 100, 5000])
    inside = b"[" * depth + b"1" + b"]" * rng.choice([depth, depth - 1])
    return rng.choice([b'{"x": %s, "y": 1}', b'{"x": [1, 2, 3], "y": %s}', b'{"o": %s}']) % inside


def _marked(rng, kind, classifies):
    return rng.choice([b"\xef\xbb\xbf", b"\xff\xfe", b"\x00"]) + honest(rng, kind, classifies)


def _late(rng, kind, classifies):
    """Inputs and labels with ids: known, unknown and used twice."""
    id = rng.choice(["k", "", 7, str(rng.randrange(20)), "\ud7ff" * 3, 2**70])
    x, y = sample(rng)
    with_x = line_of([*map(repr, x)], rng.choice(["", repr(y)]), "jsonl", id)
    label = json.dumps({"y": 1.0 if classifies else y, "id": id}).encode()
    return rng.choice([with_x, label])


def _flat(rng, kind, classifies):
    return rng.choice([b'{"a": 1, "b": 2, "c": 3, "y": 4}', b"{}", b'{"y": 3}', b'{"id": "k"}', b"1;2;3;4"])


def _long(rng, kind, classifies):
    return b'{"x": [' + b"1," * rng.choice([10_000, LONGEST_ROW]) + b'1], "y": 1}'


def odd_messages(count, seed=0):
    """Feed an agent messages of four topics among odd ones, of more topics too; its counts."""
    rng, section = random.Random(seed), StreamSection(topics=("s/+", "s/y", "t/#"), within=1e6)
    columns = Columns("y", ("a", "b", "c"))
    out, labels = [], []

    async def main():
        given = {"model": MODELS["auto"], "dtype": None, "stream": section, "columns": columns, "inputs": 0}
        agent = Agent(config("a", **given), out=out.append)
        task = asyncio.create_task(agent.run())
        for _ in range(count):
            if rng.random() < 0.5:
                topic = rng.choice(["s/a", "s/b", "s/c", "s/y", "t/" + str(rng.random()), "t/x/a", "t"])
                way = rng.choice([_any_bytes, _damaged, _wrong_value, _nested, _flat, _edge, _marked])
                odd_one = way(rng, rng.choice(["flat", "jsonl"]), False)
                agent.topics.receive(topic, odd_one if b'"y"' not in odd_one else odd_one[:-1])
            else:
                x, y = sample(rng)
                for name, value in zip("abcy", [*x, y], strict=True):
                    agent.topics.receive(f"s/{name}", repr(value).encode())
                labels.append(y)
            if agent.topics.readings.qsize() > 1000:
                await until(lambda: not agent.topics.readings.qsize())
        await until(lambda: not agent.topics.readings.qsize() or task.done())
        agent.topics.readings.put_nowait(None)
        await asyncio.wait_for(task, 60)
        return agent

    agent = asyncio.run(main())
    learnt = [record["y"] for record in out if record.get("y") in {*labels}]
    assert learnt == labels, "an honest reading was lost"
    assert agent.rows.total() > 0
    assert np.isfinite(agent.progress.rmse)
    return {"honest": len(labels), "used": agent.rows.used, **agent.rows}


class Counting(DeadLetters):
    """Dead letters that are counted too."""

    written = 0

    def write(self, record):
        super().write(record)
        self.written += 1


def odd_rows(model, kind, count, seed=0, absurd=True):
    """Feed an agent rows of which three in ten are honest; what became of them."""
    rng, settings = random.Random(f"{model} {kind} {seed}"), MODELS[model]
    classifies = settings.loss == "logistic"
    is_honest = [rng.random() < 0.3 for _ in range(count)]
    lines = [
        honest(rng, kind, classifies) if good else odd(rng, kind, classifies, absurd) for good in is_honest
    ]
    lines = [line if line and not line.isspace() else b"blank" for line in lines]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / ("in.csv" if kind == "csv" else "in.jsonl")
        path.write_bytes(b"\n".join([b"a,b,c,y", *lines] if kind == "csv" else lines))
        section = StreamSection(path=str(path))
        out = []
        columns = Columns("y", ("a", "b", "c")) if kind == "flat" else Columns()
        given = config("a", model=settings, dtype=None, stream=section, columns=columns)
        agent = Agent(given, out=out.append)
        agent.rows.letters = Counting(f"{folder}/bad")
        asyncio.run(together(agent, seconds=3600))
    return _judged(agent, out, is_honest)


def _judged(agent, out, is_honest):
    """What must hold whatever the rows were; and counts."""
    rows, arrays = agent.rows, agent.learner.save()[0]
    predicted = {record["index"]: record for record in out}
    truths = [index for index, good in enumerate(is_honest) if good]
    assert rows.read == len(is_honest), (rows.read, len(is_honest))
    assert rows.letters.written == rows.total(), rows
    assert rows.letters.lost == 0
    assert {*truths} <= predicted.keys(), "an honest row was refused"
    assert agent.progress.samples >= len(truths)
    assert all(np.isfinite(record["y_hat"]) for record in out)
    assert np.isfinite(agent.progress.rmse)
    assert [name for name, array in arrays.items() if not _is_sound(name, array)] == []
    last = [predicted[index] for index in truths[-200:]]
    error = float(np.mean([(record["y_hat"] - record["y"]) ** 2 for record in last]))
    size = float(np.var([record["y"] for record in last]))
    return {"rows": rows.read, "honest": len(truths), "used": rows.used, **rows, "error": error / size}


def _is_sound(name, array):
    """Whether all of it is finite; inputs that are kept may be missing."""
    may_be_missing = any(kept in name for kept in ("memory.X", "asked"))
    return not np.isinf(array).any() and (may_be_missing or not np.isnan(array).any())
