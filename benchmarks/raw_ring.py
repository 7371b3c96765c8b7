"""Rounds a second of five processes in a ring: each waits for both neighbours' message before it goes on.

    python benchmarks/raw_ring.py --transport zenoh|mqtt [--through domkl] [--tls] [--rounds N] [--json]

Without --through the library's own callbacks are used; with it the same ring runs through
`domkl.transports`, so that the difference is what the adapter costs. MQTT starts a mosquitto of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import multiprocessing
import os
import pathlib
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests"))
import brokers
from domkl.agent import certs
from domkl.agent.transports import TransportSettings, make, topic

SIZE = 13_775  # bytes: 17 kernels x 100 float64, their losses, and what surrounds them
PATIENCE = 10.0  # seconds without a neighbour's message before the ring counts as broken
NAMES = tuple("abcde")


class Waiting:
    """The newest round heard from each neighbour, for a thread that waits."""

    def __init__(self, neighbours: tuple[str, ...]):
        self.rounds = dict.fromkeys(neighbours, -1)
        self.changed = threading.Condition()

    def hear(self, sender: str, payload: bytes) -> None:
        with self.changed:
            self.rounds[sender] = int.from_bytes(payload[:8], "big")
            self.changed.notify()

    def until(self, round_: int, patience: float) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: min(self.rounds.values()) >= round_, patience)


def neighbours_of(name: str) -> tuple[str, ...]:
    i = NAMES.index(name)
    return NAMES[i - 1], NAMES[(i + 1) % len(NAMES)]


def message(round_: int) -> bytes:
    return round_.to_bytes(8, "big") + bytes(SIZE - 8)


def key_of(name: str) -> str:
    return topic("ring", name, "theta")


def raw_zenoh(settings: TransportSettings, waiting: Waiting) -> Callable[[bytes], Any]:
    """Plain Zenoh, with the tuning that the adapter uses."""
    from domkl.agent.transports.zenoh import configuration, load

    zenoh = load()
    session = zenoh.open(zenoh.Config.from_json5(json.dumps(configuration(settings))))
    for other in neighbours_of(settings.name):

        def hear(sample: Any, other: str = other) -> None:
            waiting.hear(other, sample.payload.to_bytes())

        session.declare_subscriber(key_of(other), hear)
    publisher = session.declare_publisher(
        key_of(settings.name), congestion_control=zenoh.CongestionControl.DROP
    )

    def send(payload: bytes, session: Any = session) -> None:  # the session ends with its last reference
        publisher.put(payload)

    return send


def raw_mqtt(settings: TransportSettings, waiting: Waiting) -> Callable[[bytes], Any]:
    """Plain paho with its own thread."""
    import socket

    from paho.mqtt import client as mqtt

    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)

    def nodelay(client: Any, userdata: Any, sock: Any) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def hear(client: Any, userdata: Any, found: Any) -> None:
        waiting.hear(found.topic.split("/")[2], found.payload)

    client.on_socket_open = nodelay
    client.on_message = hear
    if settings.ca is not None:
        client.tls_set(settings.ca, settings.cert, settings.key)
    host, port = settings.broker.split(":")
    client.connect(host, int(port))
    client.subscribe([(key_of(other), 0) for other in neighbours_of(settings.name)])
    client.loop_start()
    return lambda payload: client.publish(key_of(settings.name), payload)


def raw(settings: TransportSettings, rounds: int, barrier: Any) -> list[float]:
    """Seconds of each round with the library alone."""
    waiting = Waiting(neighbours_of(settings.name))
    send = {"zenoh": raw_zenoh, "mqtt": raw_mqtt}[settings.kind](settings, waiting)
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        send(message(0))
        if waiting.until(0, 0.05):
            break
    send(message(0))
    barrier.wait(PATIENCE)
    times = [time.perf_counter()]
    for round_ in range(1, rounds + 1):
        send(message(round_))
        if not waiting.until(round_, PATIENCE):
            raise RuntimeError(f"{settings.name}: round {round_} never came, {waiting.rounds}")
        times.append(time.perf_counter())
    barrier.wait(PATIENCE)
    return times


async def through_domkl(settings: TransportSettings, rounds: int, barrier: Any) -> list[float]:
    """Seconds of each round through the adapter."""
    heard = dict.fromkeys(map(key_of, neighbours_of(settings.name)), -1)
    mine = key_of(settings.name)
    transport = make(settings)

    async def hear(round_: int, patience: float) -> None:
        while min(heard.values()) < round_:
            for where, payload in await asyncio.wait_for(transport.receive(), patience):
                heard[where] = int.from_bytes(payload[:8], "big")

    await transport.open()
    for each in heard:
        transport.subscribe(each)
    until = time.monotonic() + PATIENCE
    while min(heard.values()) < 0 and time.monotonic() < until:
        transport.publish(mine, message(0))
        try:
            await hear(0, 0.05)
        except asyncio.TimeoutError:
            continue
    transport.publish(mine, message(0))
    await asyncio.to_thread(barrier.wait, PATIENCE)
    times = [time.perf_counter()]
    for round_ in range(1, rounds + 1):
        transport.publish(mine, message(round_))
        while min(heard.values()) < round_:
            for where, payload in await transport.receive():
                heard[where] = int.from_bytes(payload[:8], "big")
        times.append(time.perf_counter())
    await asyncio.to_thread(barrier.wait, PATIENCE)
    await transport.close()
    return times


def learner(settings: TransportSettings, through: str, rounds: int, barrier: Any, results: Any) -> None:
    """One process of the ring."""
    try:
        start = time.process_time()
        if through == "domkl":
            times = asyncio.run(through_domkl(settings, rounds, barrier))
        else:
            times = raw(settings, rounds, barrier)
        results.put((times, time.process_time() - start))
    except BaseException as error:
        results.put(f"{settings.name}: {error!r}")
        barrier.abort()
    finally:
        results.close()
        results.join_thread()
        os._exit(0)  # plain Zenoh and paho were not closed, and need not be


def settings_of(args: argparse.Namespace, directory: pathlib.Path, broker: str) -> list[TransportSettings]:
    """Each learner listens, and knows the addresses of its neighbours only."""
    if args.tls:
        certs.make(directory, NAMES)
    ports = dict(zip(NAMES, brokers.free_ports(len(NAMES)), strict=True))
    return [
        TransportSettings(
            kind=args.transport,
            network="ring",
            name=name,
            listen=(f"127.0.0.1:{ports[name]}",),
            connect=tuple(f"127.0.0.1:{ports[other]}" for other in neighbours_of(name)),
            broker=broker,
            peers=NAMES,
            ca=str(directory / "ca.pem") if args.tls else None,
            cert=str(directory / f"{name}.pem") if args.tls else None,
            key=str(directory / f"{name}.key") if args.tls else None,
        )
        for name in NAMES
    ]


def run(args: argparse.Namespace, settings: list[TransportSettings]) -> dict[str, Any]:
    """Start the five, collect what they measured."""
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(len(settings)), context.Queue()
    workers = [
        context.Process(target=learner, args=(each, args.through, args.rounds, barrier, results))
        for each in settings
    ]
    for worker in workers:
        worker.start()
    found = [results.get(timeout=600) for _ in workers]
    for worker in workers:
        worker.join()
    failures = [each for each in found if isinstance(each, str)]
    if failures:
        raise SystemExit("; ".join(failures))
    all_times, processor = zip(*found, strict=True)
    seconds = max(times[-1] for times in all_times) - min(times[0] for times in all_times)
    laps = sorted(b - a for times in all_times for a, b in itertools.pairwise(times))
    return {
        "transport": args.transport,
        "through": args.through,
        "tls": args.tls,
        "rounds": args.rounds,
        "bytes": SIZE,
        "rounds_per_second": round(args.rounds / seconds, 1),
        "p50_us": round(laps[len(laps) // 2] * 1e6),
        "p99_us": round(laps[len(laps) * 99 // 100] * 1e6),
        "cpu_us": round(sum(processor) / len(processor) / args.rounds * 1e6),  # of one learner, in one round
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--transport", choices=("zenoh", "mqtt"), default="zenoh")
    parser.add_argument("--through", choices=("nothing", "domkl"), default="nothing")
    parser.add_argument("--tls", action="store_true", help="mutual TLS and access control")
    parser.add_argument("--rounds", type=int, default=5000)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        directory = pathlib.Path(folder)
        if args.transport == "mqtt":
            with brokers.running(directory, tls=args.tls, network="ring") as broker:
                result = run(args, settings_of(args, directory, broker.address))
        else:
            result = run(args, settings_of(args, directory, "127.0.0.1:1883"))
    if args.json:
        print(json.dumps(result))
    else:
        print(
            "{rounds_per_second} rounds/s, p50 {p50_us} us, p99 {p99_us} us, cpu {cpu_us} us".format(**result)
        )


if __name__ == "__main__":
    main()
