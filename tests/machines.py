"""Faults of machines and operators on networks of real processes: disks, clocks, names, clients, upgrades.

Each scenario returns facts to judge it by, as in faults.py.
"""

from __future__ import annotations

import contextlib
import functools
import pathlib
import signal
import socket
import subprocess
import threading
import time
import urllib.request

import faults
import netns
from brokers import free_ports
from domkl.lab import fleet

#: A day, as libfaketime takes it.
YESTERDAY = "-1d"


@contextlib.contextmanager
def small_disk(folder, kilobytes):
    """A file system of its own at `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    made = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(folder)]
    subprocess.run(made, check=True, capture_output=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False, capture_output=True)


def fill(folder):
    """Leave no room at all on a small disk."""
    path = folder / "filler"
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    return path


def remount(folder, how):
    subprocess.run(["mount", "-o", f"remount,{how}", str(folder)], check=True, capture_output=True)


def _on_a_small_disk(folder, transport, break_it, mend, T, seconds, kill):
    """A learner's disk refuses for a while; with `kill`, it also starts again meanwhile."""
    experiment, source = faults.made(3, T)
    names = fleet.lay_out(folder, experiment, source, transport, faults.sections(every=20))
    with small_disk(folder / f"{names[0]}.ckpt", 2000) as disk, fleet.Fleet(folder, names) as net:
        net.start()
        faults.wait_for_rounds(net, names[0], T // 10)
        broken = break_it(disk)
        time.sleep(seconds)
        if kill:
            net.kill(names[0])
            net.start(names[0])
            time.sleep(seconds)
        alive = len(net.running)
        mend(disk, broken)
        net.wait(120)
        return {"alive": alive, **faults.judged(net, experiment, source)}


def disk_full(folder, transport, T=6000, seconds=3.0, kill=False):
    """The disk of a learner's state is full for a while."""
    return _on_a_small_disk(folder, transport, fill, lambda _, path: path.unlink(), T, seconds, kill)


def disk_read_only(folder, transport, T=6000, seconds=3.0, kill=False):
    """The disk of a learner's state is read-only for a while."""
    ends = (lambda disk: remount(disk, "ro")), (lambda disk, _: remount(disk, "rw"))
    return _on_a_small_disk(folder, transport, *ends, T, seconds, kill)


@functools.cache
def faketime():
    """libfaketime, which gives one process another clock; None if it is not there."""
    found = sorted(pathlib.Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    return str(found[0]) if found else None


def clock_jumps(folder, transport, T=6000):
    """A learner's clock is set back by a day while it runs, and it starts again on that clock."""
    experiment, source = faults.made(3, T)
    names = fleet.lay_out(folder, experiment, source, transport, faults.sections(every=20))
    clock = folder / "clock"
    clock.write_text("+0\n")
    there = {"LD_PRELOAD": faketime(), "FAKETIME_TIMESTAMP_FILE": str(clock), "FAKETIME_NO_CACHE": "1"}
    there |= {"FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1"}
    prefix = {names[0]: ["env", *(f"{key}={value}" for key, value in there.items())]}
    with fleet.Fleet(folder, names, prefix) as net:
        net.start()
        faults.wait_for_rounds(net, names[0], T // 10)
        clock.write_text(YESTERDAY + "\n")
        faults.wait_for_rounds(net, names[0], T // 3)
        net.kill(names[0])
        net.start(names[0])
        net.wait(120)
        return faults.judged(net, experiment, source)


def duplicate_name(folder, transport, T=8000):
    """A second agent starts under the name of one that runs, with a directory and an address of its own."""
    experiment, source = faults.made(3, T)
    names = fleet.lay_out(folder, experiment, source, transport, faults.sections(every=20))
    text = (folder / f"{names[0]}.toml").read_text()
    twin = text.replace(f"{names[0]}.ckpt", "twin.ckpt").replace(
        f"{names[0]}.predictions", "twin.predictions"
    )
    if "listen = " in twin:
        line = next(line for line in twin.splitlines() if line.startswith("listen = "))
        twin = twin.replace(line, f'listen = ["127.0.0.1:{free_ports(1)[0]}"]')
    (folder / "twin.toml").write_text(twin)
    with fleet.Fleet(folder, names) as net:
        net.start()
        faults.wait_for_rounds(net, names[0], 100)
        for name in names:  # so that the stream does not end before the twin has
            net.signal(name, signal.SIGCONT)
        net.start("twin")
        try:
            code = net.processes["twin"].wait(40)
        except subprocess.TimeoutExpired:
            code = None
            net.kill("twin")
        reason = net.tail("twin")
        del net.processes["twin"]
        net.wait(120)
        return {"twin": code, "reason": reason, **faults.judged(net, experiment, source)}


def slow_clients(folder, transport, T=6000, clients=50):
    """Clients that send a byte a second to a learner's page, while it learns."""
    experiment, source = faults.made(3, T)
    port = free_ports(1)[0]
    names = fleet.lay_out(folder, experiment, source, transport, faults.sections(every=50))
    path = folder / f"{names[0]}.toml"
    path.write_text(f'{path.read_text()}\n[http]\nlisten = "127.0.0.1:{port}"\n')
    stop, waits = threading.Event(), []
    with fleet.Fleet(folder, names) as net:
        net.start()
        faults.wait_for_rounds(net, names[0], 100)
        dribbling = [threading.Thread(target=_dribble, args=(port, stop)) for _ in range(clients)]
        for each in dribbling:
            each.start()
        while net.processes[names[0]].poll() is None and len(waits) < 10:
            time.sleep(0.3)
            waits.append(_answer(port))
        net.wait(120)
        stop.set()
        for each in dribbling:
            each.join()
        slowest = max(waits, default=0.0)
        return {"slowest_answer": slowest, "answers": len(waits), **faults.judged(net, experiment, source)}


def _dribble(port, stop):
    while not stop.is_set():
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 2) as client:
            for byte in b"GET /metrics HTTP/1.1\r\nX-Slow: " + b"x" * 100:
                if stop.wait(1.0):
                    return
                client.send(bytes([byte]))
        stop.wait(0.2)


def _answer(port):
    """Seconds until /healthz answers; infinite if it does not."""
    start = time.monotonic()
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5):
            return time.monotonic() - start
    except OSError:
        return float("inf")


def flapping(folder, kind="zenoh", every=2.0, seconds=40.0, pause=0.05):
    """The link between two learners is cut and healed again and again, under TLS."""
    rounds = round((seconds + 10.0) / pause)
    with netns.scene(folder, kind, 4, rounds, 1.0, paced=True) as (net, learners, facts):
        names, all_run = list(learners.names), threading.Event()
        feeds = [netns.feed(folder, name, pause, all_run) for name in names]
        learners.start()
        for name in names:
            faults.wait_for_rounds(learners, name, 1)
        all_run.set()
        end, flaps = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            net.partition(names[:1], names[1:2])
            time.sleep(every)
            net.heal()
            time.sleep(every)
            flaps += 1
        learners.wait(90)
        for thread in feeds:
            thread.join()
    return {"flaps": flaps, **facts}
