"""Tasks of one event loop that end together."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def race(*ways: Coroutine[Any, Any, None]) -> None:
    """Run all until the first ends, and cancel the rest."""
    tasks = [asyncio.create_task(way) for way in ways]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
