"""The first rows of a file or a query, looked at before anything runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ..base.errors import DataError
from .config import STORED, AgentConfig
from .refusals import RefusedRows
from .streams import stream_of

#: Rows that are looked at.
FIRST = 20


def preview(config: AgentConfig) -> RefusedRows | None:
    """Count which of the first rows can be used; None where there is no file or database to look into.

    Raises DataError if none can.
    """
    section = config.stream
    is_there = section.kind == "database" or Path(str(section.path)).is_file()
    if section.kind not in STORED or not is_there:
        return None
    found = asyncio.run(_look(config))
    if found.first is not None and not found.used:
        raise DataError(
            f"{section.shown}: none of the first {found.read} rows can be used; the first is "
            f"{found.first.kind}: {found.first.reason}; {found.first.remedy}"
        )
    return found


async def _look(config: AgentConfig) -> RefusedRows:
    found = RefusedRows(is_logged=False)  # the caller reports them
    stream = stream_of(config, follow=False, refused=found, most=FIRST)
    async for _ in stream:
        found.used += 1
    return found
