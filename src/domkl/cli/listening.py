"""What is published at a broker: topics and readings, for `domkl init`."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import time
from collections.abc import Sequence
from typing import Any, TypeAlias

from ..base.errors import DataError, InputError
from ..base.extras import need

Found: TypeAlias = "dict[str, list[dict[str, Any]]]"
#: Readings of a topic that are enough, and seconds without a new topic after which none is expected.
ENOUGH, QUIET = 5, 2.0
#: The most topics, readings of each, and bytes of all.
MOST_TOPICS, MOST_READINGS, MOST_BYTES = 200, 1000, 2**26


def listen(patterns: Sequence[str], settings: dict[str, Any], seconds: float) -> Found:
    """Readings by topic, from `seconds` at most."""
    need("paho.mqtt.client", "mqtt")
    found = asyncio.run(_listen(patterns, settings, seconds))
    if not found:
        raise DataError(
            f"no JSON object came on {', '.join(patterns)} within {seconds:g} s; expected readings; "
            "start the sensors, or wait longer with --wait SECONDS"
        )
    return found


async def _listen(patterns: Sequence[str], settings: dict[str, Any], seconds: float) -> Found:
    from ..agent import transports

    name = f"init-{secrets.token_hex(4)}"
    about = transports.TransportSettings(
        "mqtt", "domkl", name, topics=tuple(patterns), is_guest=True, **settings
    )
    guest = transports.make(about)
    await guest.open()
    found: Found = {}
    end = time.monotonic() + seconds
    newest, room = time.monotonic(), MOST_BYTES
    try:
        for pattern in patterns:
            guest.subscribe(pattern)
        while (now := time.monotonic()) < end and not _is_enough(found, now - newest):
            try:
                messages = await asyncio.wait_for(guest.receive(), min(0.2, end - now))
            except asyncio.TimeoutError:
                continue
            before = len(found)
            for topic, payload in messages:
                room -= len(payload)
                if room > 0:
                    _note(found, topic, payload)
            newest = time.monotonic() if len(found) > before else newest
    finally:
        await guest.close()
    return found


def _is_enough(found: Found, quiet: float) -> bool:
    return bool(found) and quiet > QUIET and all(len(rows) >= ENOUGH for rows in found.values())


def _note(found: Found, topic: str, payload: bytes) -> None:
    try:
        row = json.loads(payload)
    except (ValueError, RecursionError):
        return
    if isinstance(row, dict) and (topic in found or len(found) < MOST_TOPICS):
        rows = found.setdefault(topic, [])
        if len(rows) < MOST_READINGS:
            rows.append(row)


def names_of(topics: Sequence[str]) -> dict[str, str]:
    """A device's name for each topic: the levels in which topics of one length differ.

    >>> names_of(["sensors/ewr/env", "sensors/jfk/env"]), names_of(["home/kitchen"])
    ({'sensors/ewr/env': 'ewr', 'sensors/jfk/env': 'jfk'}, {'home/kitchen': 'home-kitchen'})
    """
    levels = [topic.split("/") for topic in topics]
    alike = len({len(each) for each in levels}) == 1 and len(levels) > 1
    differ = [i for i in range(len(levels[0])) if len({each[i] for each in levels}) > 1] if alike else []
    parts = {topic: [each[i] for i in differ] or each for topic, each in zip(topics, levels, strict=True)}
    names = {topic: safe_name("-".join(filter(None, each))) for topic, each in parts.items()}
    if len(set(names.values())) < len(names):
        raise InputError(f"topics {', '.join(topics)} give no different names; expected some; choose others")
    return names


def safe_name(name: str) -> str:
    """A name that a learner may have."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-")[:64] or "device"
