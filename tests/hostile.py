"""A neighbour with a valid name, valid framing and true settings that lies in any field of its messages.

It is a real agent whose messages are changed on their way out: so all that it does not lie about is fresh and
right (rounds, fingerprint, edges). Between its lies it replays messages and sends bursts.
"""

from __future__ import annotations

import asyncio
import collections
import gc
import os
import pathlib
import time
import zlib

import msgspec
import numpy as np

import inmemory
from domkl.agent import Agent, wire

WHOLE = [0, 1, -1, 2, 63, 64, 65, 1000, 10**6, 2**31, 2**32, 2**40, 2**52, 2**53 - 1, 2**53, 2**62, 2**63 - 1]
REAL = [0.0, -1.0, 1.0, 1e-300, 1e6, 1e8, -1e8, 1.1e8, 1e12, 1e38, 1e154, -1e300, np.inf, -np.inf, np.nan]
NAMES = ["a", "b", "m", "x", "", "a/b", "ä", "operator", "x" * 64, "x" * 65]
#: How many of its messages it may replay.
REPLAYS = 256


def lie(rng, value):
    """Another value of the same kind, anywhere in its range, or now and then of another kind."""
    if rng.random() < 0.03:
        return [None, True, -1, 2**64 - 1, 0.5, "", b"", [], {}][rng.integers(9)]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        near = value + int(rng.integers(-3, 70))
        return near if rng.random() < 0.4 else WHOLE[rng.integers(len(WHOLE))]
    if isinstance(value, float):
        return float(REAL[rng.integers(len(REAL))])
    if isinstance(value, str):
        return NAMES[rng.integers(len(NAMES))]
    if isinstance(value, bytes):
        return false_bytes(rng, value)
    if isinstance(value, dict):
        return false_map(rng, value)
    if isinstance(value, list):
        return false_list(rng, value)
    return value


def false_bytes(rng, value):
    """Arrays with other values in them, or of another length."""
    if len(value) % 8 or not value or rng.random() < 0.05:
        return value[: rng.integers(len(value) + 1)]
    array = np.frombuffer(value, "<f8").copy()
    kind = rng.integers(5)
    which = slice(None) if kind == 0 else rng.integers(len(array), size=rng.integers(1, 6))
    if kind == 1:
        array = -array
    elif kind == 2:
        with np.errstate(over="ignore"):
            array = array * 10.0 ** rng.integers(-3, 9)
    elif kind == 3:
        array = array + rng.normal(size=len(array))
    else:
        array[which] = REAL[rng.integers(len(REAL))]
    return array.tobytes()


def false_map(rng, value):
    made = dict(value)
    if made and rng.random() < 0.7:
        name = [*made][rng.integers(len(made))]
        made[name] = lie(rng, made[name])
    elif made and rng.random() < 0.3:
        made.pop([*made][rng.integers(len(made))])
    else:
        others = [0, 2**53 - 1, [0, ["a"]], [0, 0, -1, -1, -1]]
        made[NAMES[rng.integers(len(NAMES))]] = others[rng.integers(len(others))]
    return made


def false_list(rng, value):
    made = list(value)
    if not made or rng.random() < 0.2:
        return made * int(rng.integers(3)) + [["a", "b"][rng.integers(2)]] * int(rng.integers(2))
    which = rng.integers(len(made))
    made[which] = lie(rng, made[which])
    return made


def sealed(body):
    start = b"dk" + bytes(wire.VERSION)
    return start + zlib.crc32(body, zlib.crc32(start)).to_bytes(4, "little") + body


def false_message(rng, payload):
    """The message with lies in one to three of its fields, under a right checksum."""
    fields = msgspec.msgpack.decode(payload[8:])
    if fields["type"] == "again" and fields["updates"] and rng.random() < 0.7:
        fields["updates"] = [false_message(rng, each) for each in fields["updates"]]
        return sealed(msgspec.msgpack.encode(fields))
    names = [name for name in fields if name not in ("type", "fingerprint")]
    for name in rng.choice(names, size=min(len(names), rng.integers(1, 4)), replace=False):
        fields[name] = lie(rng, fields[name])
    return sealed(msgspec.msgpack.encode(fields))


class HostileTransport:
    """A transport that adds lies and replays to what is published, until `left` is 0."""

    def __init__(self, inner, seed, count, copies):
        self.inner, self.rng, self.left, self.copies = inner, np.random.default_rng(seed), count, copies
        self.past = collections.deque(maxlen=REPLAYS)

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def publish(self, topic, payload, *, retain=False):
        if retain or payload[:2] != b"dk":
            return self.inner.publish(topic, payload, retain=retain)
        self.past.append((topic, payload))
        first = self.rng.random() < 0.5  # whether the truth comes before the lies
        if first or not self.left:
            self.inner.publish(topic, payload)
        for _ in range(min(self.left, int(self.rng.integers(2 * self.copies)))):
            self.left -= 1
            if self.rng.random() < 0.1:
                self.inner.publish(*self.past[self.rng.integers(len(self.past))])
            else:
                self.inner.publish(topic, false_message(self.rng, payload))
        if not first and self.rng.random() < 0.7:
            self.inner.publish(topic, payload)
        return None


def resident():
    """Bytes of memory that this process holds."""
    gc.collect()
    pages = pathlib.Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def function(x):
    return np.sin(4 * x[..., 0]) / 2 + x[..., 1] * x[..., 2]


async def attacked(configs, make_transport, count, *, seed=0, copies=30, after=300, seconds=600.0):
    """Honest learners beside one that lies in `count` messages and then is honest; facts to judge them by.

    The last of the configurations is the liar.
    """
    rng, outs, over = np.random.default_rng(seed), [[] for _ in configs], asyncio.Event()

    async def stream():
        left, index = after, 0
        while left:
            x = rng.random(inmemory.d)
            yield inmemory.Reading(index, x, float(function(x)), None)
            left, index = left - over.is_set(), index + 1
            await asyncio.sleep(0)

    hostile = HostileTransport(make_transport(configs[-1]), seed, count, copies)
    agents = [
        Agent(each, make_transport(each), stream(), outs[j].append) for j, each in enumerate(configs[:-1])
    ]
    agents.append(Agent(configs[-1], hostile, stream(), outs[-1].append))
    tasks = [asyncio.create_task(agent.run()) for agent in agents]
    end, slowest, before = time.monotonic() + seconds, 0.0, 0
    rounds, moved_at = [0] * (len(agents) - 1), time.monotonic()
    while hostile.left and not any(task.done() for task in tasks):
        await asyncio.sleep(0.01)
        now = [agent.progress.samples for agent in agents[:-1]]
        if all(new > old for new, old in zip(now, rounds, strict=True)):
            slowest, rounds, moved_at = max(slowest, time.monotonic() - moved_at), now, time.monotonic()
        before = before or (resident() if hostile.left < 0.9 * count else 0)
        assert time.monotonic() < end, "the honest learners hang"
    grown, marks = resident() - before, [len(out) for out in outs]
    over.set()
    await asyncio.wait_for(asyncio.gather(*tasks), max(1.0, end - time.monotonic()))
    return agents, {
        "messages": count,
        "refused": {agent.config.name: dict(agent.refused) for agent in agents[:-1]},
        "samples": [agent.progress.samples for agent in agents[:-1]],
        "slowest_round": slowest,
        "grown_mb": grown / 2**20,
        "marks": marks,
        "predictions": outs,
    }
