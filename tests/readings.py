"""Streams of readings for tests: what comes out of one, and where its lines come from."""

from __future__ import annotations

import asyncio
import dataclasses
import os

from domkl.agent.config import StreamSection
from domkl.agent.streams import open_stream
from domkl.datasets.columns import Columns


def plain(reading):
    return reading.index, None if reading.x is None else reading.x.tolist(), reading.y, reading.id


async def collect(stream, at_most=None):
    found = []
    async for reading in stream:
        found.append(plain(reading))
        if len(found) == at_most:
            break
    await stream.aclose()
    return found


def all_of(section, inputs=2, skip=0, **given):
    stream = open_stream(section, inputs, skip, **given)
    return asyncio.run(asyncio.wait_for(collect(stream), 20)), dict(stream.refused)


def split(settings):
    """Settings of the section, and those of the columns."""
    names = {each.name for each in dataclasses.fields(Columns)} - {"missing"}
    columns = Columns(**{name: value for name, value in settings.items() if name in names})
    about = {"columns": columns, "missing": settings.get("missing", False)}
    return {name: value for name, value in settings.items() if name not in names | {"missing"}}, about


def from_bytes(tmp_path, data, kind="jsonl", inputs=2, skip=0, **settings):
    path, (section, about) = tmp_path / f"in.{kind}", split(settings)
    path.write_bytes(data)
    return all_of(StreamSection(kind=kind, path=str(path), **section), inputs, skip, **about)


def from_pipe(data, **settings):
    ours, theirs = os.pipe()
    with os.fdopen(theirs, "wb") as file:
        file.write(data)
    section, about = split(settings)
    try:
        return all_of(StreamSection(**section), stdin=ours, **about)
    finally:
        os.close(ours)


def append(path, data):
    with path.open("ab") as file:
        file.write(data)


def row(i):
    return b'{"x": [%d]}\n' % i
