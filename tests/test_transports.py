"""One suite for every transport."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import subprocess
import sys
import threading
import time

import pytest

from domkl.agent.transports import LOST, make, topic
from domkl.base.errors import InputError
from nets import (
    KINDS,
    NETWORK,
    PATIENCE,
    REMOTE,
    collect,
    collect_one,
    linked,
    network,
    own,
    run,
    settle,
    until,
    with_pair,
)


@pytest.fixture(params=KINDS)
def net(request, authority):
    with network(request.param, authority) as made:
        yield made


@pytest.fixture(params=REMOTE)
def remote(request, authority):
    with network(request.param, authority) as made:
        yield made


@pytest.mark.parametrize("size", [0, 1, 13_775, 1_000_000])
def test_a_message_arrives_as_it_was_sent(net, size):
    payload = bytes(i % 251 for i in range(size))

    async def work(a, b):
        a.publish(own(a, "theta"), payload)
        assert await collect(b, 1) == [(own(a, "theta"), payload)]
        assert type((await collect_one(a, b, b"x"))[1]) is bytes

    with_pair(net, work)


def test_messages_of_a_sender_keep_their_order(net):
    async def work(a, b):
        for i in range(200):
            a.publish(own(a, "theta"), i.to_bytes(8, "big"))
            if i % 20 == 0:
                await asyncio.sleep(0)
        assert [int.from_bytes(payload, "big") for _, payload in await collect(b, 200)] == [*range(200)]

    with_pair(net, work)


def test_receive_returns_all_that_is_in(net):
    async def work(a, b):
        before = b.counts.received
        for i in range(3):
            a.publish(own(a, "theta"), bytes([i]))
        while b.counts.received < before + 3:
            await asyncio.sleep(0.005)
        assert [payload for _, payload in await b.receive()] == [b"\0", b"\1", b"\2"]

    with_pair(net, work)


def test_patterns_choose(net):
    async def main():
        async with net.learners("a", "b", "c") as (a, b, c):
            c.subscribe(f"domkl/{NETWORK}/+/theta")
            c.subscribe(f"domkl/{NETWORK}/a/theta")
            c.subscribe(f"domkl/{NETWORK}/+/hello")
            await linked(a, c)
            await linked(b, c)
            for each in (a, b):
                each.publish(own(each, "metrics"), b"not for c")
                each.publish(topic(NETWORK, each.settings.name, "theta", "deep"), b"nor this")
                each.publish(own(each, "theta"), each.settings.name.encode())
            assert sorted(set(await settle(c, 0.3))) == [(own(a, "theta"), b"a"), (own(b, "theta"), b"b")]

    run(main())


def test_unsubscribe_ends_it_and_what_was_never_subscribed_is_fine(net):
    async def work(a, b):
        b.subscribe(f"domkl/{NETWORK}/a/metrics/#")
        b.unsubscribe(f"domkl/{NETWORK}/a/#")
        b.unsubscribe(f"domkl/{NETWORK}/c/#")
        await asyncio.sleep(0.1)
        a.publish(own(a, "theta"), b"no longer wanted")
        a.publish(own(a, "metrics"), b"wanted")
        assert await settle(b, 0.3) == [(own(a, "metrics"), b"wanted")]

    with_pair(net, work)


def test_own_messages_come_back_only_to_those_who_subscribe_to_them(net):
    async def work(a, b):
        a.publish(own(a, "theta"), b"to b")
        await collect(b, 1)
        assert await settle(a, 0.05) == []
        a.subscribe(own(a, "theta"))
        await asyncio.sleep(0.1)
        a.publish(own(a, "theta"), b"to both")
        assert await collect(a, 1) == await collect(b, 1) == [(own(a, "theta"), b"to both")]

    with_pair(net, work)


def test_the_last_retained_message_awaits_a_late_subscriber(net):
    async def main():
        async with net.learners("a", "b") as (a, b):
            a.publish(own(a, "state"), b"init", retain=True)
            a.publish(own(a, "state"), b"ready", retain=True)
            a.publish(own(a, "graph"), b"gone", retain=True)
            a.publish(own(a, "graph"), b"", retain=True)
            a.publish(own(a, "theta"), b"not retained")
            b.subscribe(f"domkl/{NETWORK}/a/hello")
            await linked(a, b)
            b.subscribe(f"domkl/{NETWORK}/a/#")
            assert (await collect(b, 1))[0] == (own(a, "state"), b"ready")
            async with net.learners("c") as (c,):
                c.subscribe(f"domkl/{NETWORK}/+/state")
                assert set(await settle(c, 0.6)) == {(own(a, "state"), b"ready")}

    run(main())


def test_who_subscribes_before_the_other_is_there_hears_its_state(net):
    async def main():
        b = make(net.settings("b"))
        b.subscribe(f"domkl/{NETWORK}/+/state")
        await b.open()
        a = make(net.settings("a"))
        a.publish(own(a, "state"), b"init", retain=True)  # not open yet: kept until it is
        await a.open()
        assert (await collect(b, 1))[0] == (own(a, "state"), b"init")
        await a.close()
        await b.close()
        assert a.counts.dropped == 1

    run(main())


def test_closing_is_heard_by_the_others_and_opening_again_restores_everything(net):
    async def main():
        async with net.learners("a", "b") as (a, b):
            b.subscribe(f"domkl/{NETWORK}/a/#")
            await linked(a, b)
            a.publish(own(a, "state"), b"ready", retain=True)
            await until(b, (own(a, "state"), b"ready"))
            await a.close()
            await a.close()
            await until(b, (own(a, "state"), LOST))
            a.publish(own(a, "theta"), b"into the void")
            assert a.counts.dropped == 1
            await a.open()
            await until(b, (own(a, "state"), b"ready"))
            await b.close()
            await b.open()
            await linked(a, b)

    run(main())


def test_too_long_messages_are_refused_going_out_and_coming_in(net):
    async def main():
        async with net.learners("a") as (a,), net.learners("b", max_bytes=1000) as (b,):
            b.subscribe(f"domkl/{NETWORK}/a/#")
            await linked(a, b)
            while not b.counts.refused:
                a.publish(own(a, "theta"), bytes(1001))
                await asyncio.sleep(0.01)
            a.publish(own(a, "theta"), bytes(1000))
            assert await collect(b, 1) == [(own(a, "theta"), bytes(1000))]
            refused = b.counts.refused
            b.publish(own(b, "theta"), bytes(1001))
            assert (b.counts.refused, b.counts.sent) == (refused + 1, 0)

    run(main())


def test_a_far_too_long_message_harms_nobody(net):
    async def main():
        async with net.learners("a") as (a,), net.learners("b", max_bytes=1000) as (b,):
            b.subscribe(f"domkl/{NETWORK}/a/#")
            await linked(a, b)
            a.publish(own(a, "theta"), bytes(2_000_000))
            await linked(a, b)
            assert await settle(b, 0.05) == []

    run(main())


def test_a_full_inbox_keeps_the_oldest_and_counts_the_rest(net):
    async def work(a, b):
        for i in range(20):
            a.publish(own(a, "theta"), bytes([i]))
        while b.counts.refused < 15:
            await asyncio.sleep(0.005)
        assert [payload for _, payload in await b.receive()] == [bytes([i]) for i in range(5)]
        assert (await collect_one(a, b, b"again"))[1] == b"again"

    with_pair(net, work, inbox=5)


def test_a_cancelled_receive_loses_nothing(net):
    async def work(a, b):
        waiting = asyncio.create_task(b.receive())
        await asyncio.sleep(0.02)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        found = []
        for i in range(50):
            a.publish(own(a, "theta"), bytes([i]))
            with contextlib.suppress(asyncio.TimeoutError):
                found += await asyncio.wait_for(b.receive(), 0.0005)
        if len(found) < 50:
            found += await collect(b, 50 - len(found))
        assert [payload[0] for _, payload in found] == [*range(50)]

    with_pair(net, work)


def test_a_handler_gets_messages_in_the_loops_thread_also_after_opening_again(net):
    async def work(a, b):
        got, mine = [], threading.get_ident()

        def handler(messages):
            assert threading.get_ident() == mine
            got.append([payload for _, payload in messages])

        async def until(count):
            while sum(map(len, got)) < count:
                await asyncio.sleep(0.002)

        await settle(b, 0.05)
        b.deliver(handler)
        b.expect(3)
        for i in range(3):
            a.publish(own(a, "theta"), bytes([i]))
        await asyncio.wait_for(until(3), PATIENCE)
        assert got == [[b"\0", b"\1", b"\2"]]
        b.expect(1)
        await b.close()
        await b.open()
        deadline = time.monotonic() + PATIENCE
        while len(got) < 2 and time.monotonic() < deadline:
            a.publish(own(a, "theta"), b"again")
            await asyncio.sleep(0.02)
        assert got[1][0] == b"again"

    with_pair(net, work)


def test_counts_tell_messages_and_bytes(net):
    async def work(a, b):
        before = dataclasses.replace(a.counts), dataclasses.replace(b.counts)
        await collect_one(a, b, bytes(100))
        assert (a.counts.sent, a.counts.sent_bytes) == (before[0].sent + 1, before[0].sent_bytes + 100)
        assert b.counts.received == before[1].received + 1
        assert b.counts.received_bytes == before[1].received_bytes + 100

    with_pair(net, work)


def test_a_closed_transport_receives_nothing_and_says_so(net):
    async def main():
        (b,) = [make(net.settings("b"))]
        with pytest.raises(InputError, match="closed"):
            await b.receive()
        await b.close()
        await b.open()
        await b.open()
        waiting = asyncio.create_task(b.receive())
        await asyncio.sleep(0.02)
        await b.close()
        with pytest.raises(InputError, match="closed"):
            await waiting

    run(main())


def test_a_learner_speaks_under_its_own_name_only(net):
    a = make(net.settings("a"))
    for bad in (f"domkl/{NETWORK}/b/theta", f"domkl/{NETWORK}/a", f"domkl/{NETWORK}/a/+", "domkl", ""):
        with pytest.raises(InputError, match="publishes on"):
            a.publish(bad, b"")
    for bad in ("#", "domkl/#", f"other/{NETWORK}/a", f"domkl/{NETWORK}/#/a", f"domkl/{NETWORK}/a*/b"):
        with pytest.raises(InputError, match="pattern is"):
            a.subscribe(bad)


CHILD = """
import asyncio, json, sys
from domkl.agent.transports import TransportSettings, make
async def main():
    values = json.loads(sys.argv[1])
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
    transport = make(TransportSettings(**values))
    await transport.open()
    transport.publish(transport.state_topic, b"ready", retain=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""


def test_a_killed_process_is_lost_to_the_others(remote):
    async def main():
        async with remote.learners("a") as (a,):
            a.subscribe(f"domkl/{NETWORK}/b/#")
            values = json.dumps(dataclasses.asdict(remote.settings("b")))
            child = subprocess.Popen([sys.executable, "-c", CHILD, values])
            try:
                await until(a, (topic(NETWORK, "b", "state"), b"ready"))
            finally:
                child.kill()
                child.wait()
            await until(a, (topic(NETWORK, "b", "state"), LOST))

    run(main())
