"""Networks of transports: of one kind, with or without certificates, and how learners get into them."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import pathlib

import pytest

import brokers
from domkl.agent import transports
from domkl.agent.transports import TransportSettings, make, topic

NETWORK = "field"
NAMES = ("a", "b", "c")
PATIENCE = 20.0

needs_mosquitto = pytest.mark.skipif(brokers.MOSQUITTO is None, reason="mosquitto is not installed")

#: Transports without certificates, and those that need a broker.
PLAIN, BROKERED = ("memory",), ("mqtt",)


def _params(kind):
    marks = needs_mosquitto if kind in BROKERED else ()
    ends = [""] if kind in PLAIN else ["", "+tls"]
    return [pytest.param(kind + end, marks=marks, id=kind + end) for end in ends]


#: Every transport that there is, and those between processes.
KINDS = [param for kind in transports.KINDS for param in _params(kind)]
REMOTE = [param for param in KINDS if param.id != "memory"]


@dataclasses.dataclass
class Net:
    """A network of one kind, and how each learner gets into it."""

    kind: str
    folder: pathlib.Path
    ports: dict[str, int]
    broker: brokers.Broker | None

    @property
    def tls(self):
        return self.kind.endswith("+tls")

    def settings(self, name, **changes):
        values = {
            "kind": self.kind.removesuffix("+tls"),
            "network": NETWORK,
            "name": name,
            "listen": (f"127.0.0.1:{self.ports[name]}",),
            "connect": tuple(f"127.0.0.1:{port}" for other, port in self.ports.items() if other < name),
            "broker": self.broker.address if self.broker else "127.0.0.1:1883",
            "peers": NAMES,
        }
        return TransportSettings(**{**values, **(self.files(name) if self.tls else {}), **changes})

    def files(self, name, folder=None):
        place = folder or self.folder
        return {"ca": f"{self.folder}/ca.pem", "cert": f"{place}/{name}.pem", "key": f"{place}/{name}.key"}

    @contextlib.asynccontextmanager
    async def learners(self, *names, **changes):
        async with contextlib.AsyncExitStack() as stack:
            made = [make(self.settings(name, **changes)) for name in names]
            for each in made:
                await each.open()
                stack.push_async_callback(each.close)
            yield made


@contextlib.contextmanager
def network(kind, authority):
    ports = dict(zip(NAMES, brokers.free_ports(len(NAMES)), strict=True))
    with contextlib.ExitStack() as stack:
        broker = None
        if kind.startswith("mqtt"):
            tls = kind.endswith("+tls")
            broker = stack.enter_context(brokers.running(authority, tls=tls, network=NETWORK))
        yield Net(kind, authority, ports, broker)


def run(work):
    """A coroutine to its end, but not for ever."""
    return asyncio.run(asyncio.wait_for(work, 3 * PATIENCE))


def own(transport, channel):
    return topic(NETWORK, transport.settings.name, channel)


async def linked(sender, receiver):
    """Say hello until it is heard: links and subscriptions take a moment."""
    hello = own(sender, "hello")
    for _ in range(int(PATIENCE / 0.02)):
        sender.publish(hello, b"hello")
        with contextlib.suppress(asyncio.TimeoutError):
            if any(where == hello for where, _ in await asyncio.wait_for(receiver.receive(), 0.02)):
                return
    raise AssertionError("they never heard each other")


async def collect(receiver, count):
    """So many messages, apart from hello."""
    found = []
    while len(found) < count:
        batch = await asyncio.wait_for(receiver.receive(), PATIENCE)
        found += [(where, payload) for where, payload in batch if not where.endswith("/hello")]
    return found


async def settle(receiver, seconds=0.15):
    """All that comes within some time, apart from hello."""
    found = []
    with contextlib.suppress(asyncio.TimeoutError):
        while True:
            found += await asyncio.wait_for(receiver.receive(), seconds)
    return [(where, payload) for where, payload in found if not where.endswith("/hello")]


async def pair(stack, net, **changes):
    """a and b, where b listens to a and both have heard each other."""
    a, b = await stack.enter_async_context(net.learners("a", "b", **changes))
    b.subscribe(f"domkl/{NETWORK}/a/#")
    await linked(a, b)
    await settle(b, 0.05)
    return a, b


def with_pair(net, work, **changes):
    """Run `work(a, b)` in a network of two."""

    async def main():
        async with contextlib.AsyncExitStack() as stack:
            return await work(*await pair(stack, net, **changes))

    return run(main())


async def collect_one(a, b, payload):
    a.publish(own(a, "theta"), payload)
    (found,) = await collect(b, 1)
    return found


async def until(receiver, message):
    """Wait for one message among others."""
    while message not in await asyncio.wait_for(receiver.receive(), PATIENCE):
        pass
