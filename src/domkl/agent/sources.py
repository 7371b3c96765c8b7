"""Sources of a stream: batches of lines, messages or samples with their numbers, as they come."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterable, Iterable
from typing import Protocol, TypeAlias

from ..base.errors import DataError
from .files import CHUNK, Numbered, Splitter, T, Tail, Worker
from .joining import Message
from .tables import CsvRows

Queue: TypeAlias = "asyncio.Queue[Message | None]"


async def later(samples: Iterable[T]) -> AsyncGenerator[T, None]:
    """An iterable as an asynchronous one."""
    for sample in samples:
        yield sample


async def ones(samples: AsyncIterable[T]) -> AsyncGenerator[Numbered[T], None]:
    """Samples one by one."""
    line = 0
    async for sample in samples:
        line += 1
        yield [(line, sample)]


async def messages(queue: Queue) -> AsyncGenerator[Numbered[Message], None]:
    """Messages of topics; None ends them."""
    count = 0
    while (message := await queue.get()) is not None:
        count += 1
        yield [(count, message)]


async def stdin(fd: int) -> AsyncGenerator[Numbered[bytes], None]:
    """Lines of standard input."""
    worker, splitter = Worker(), Splitter()
    try:
        # os.read: a daemon thread inside sys.stdin would hold its lock while the interpreter exits.
        while data := await worker.run(lambda: os.read(fd, CHUNK)):
            yield splitter.feed(data)
        yield splitter.end()
    finally:
        worker.close()


class Repeatable(Protocol[T]):
    """What is read again after a restart: a file or a table."""

    pause: float
    follow: bool

    def read(self) -> Numbered[T] | None: ...

    def close(self) -> None: ...


async def stored(tail: Repeatable[T]) -> AsyncGenerator[Numbered[T], None]:
    """Lines of a file, and of the files that replace it; or rows of a table."""
    worker = Worker()
    try:
        while (found := await worker.run(tail.read)) is not None:
            if found:
                yield found
            elif tail.follow:
                await asyncio.sleep(tail.pause)
    finally:
        worker.close(tail.close)


async def at_most(
    most: int | None, batches: AsyncGenerator[Numbered[T], None]
) -> AsyncGenerator[Numbered[T], None]:
    """The first rows of a source, all of them by default."""
    try:
        async for batch in batches:
            yield batch[:most]
            most = None if most is None else most - len(batch)
            if most is not None and most <= 0:
                return
    finally:
        await batches.aclose()


async def csv(tail: Tail, table: CsvRows) -> AsyncGenerator[Numbered[bytes], None]:
    """The rows below a file's header."""
    rows = stored(tail)
    try:
        async for batch in rows:
            if tail.opened != table.opened:
                table.begin(batch.pop(0)[1], tail)
            yield batch
        if not table.opened:
            raise DataError(f"{tail.path}: the file is empty; expected a line with column names; write one")
    finally:
        await rows.aclose()
