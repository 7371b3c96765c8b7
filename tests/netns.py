"""Learners on bad networks: a network namespace each, with loss, delay and partitions. Linux, and root.

`lossy` and `partitioned` are whole scenarios; each returns facts to judge it by.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading
import time

import numpy as np

import domkl
import faults
from brokers import MOSQUITTO
from domkl.agent import certs
from domkl.lab import fleet

#: Of the networks of this process; also in the names, with its id, so that those of others stay apart.
_count = itertools.count()
BROKER = "broker"
#: Readings that are there from the start.
FEW = 5
#: With these a learner errs as much alone as among others, so that an error above that is the network's work.
MODEL = dataclasses.replace(faults.FIRST, rates=domkl.Rates(rho=0.5, eta=5.0, eta_g=1.0))
#: Checked by each arriving packet: `loss` and `cut` hold what the tests put there.
TABLE = """
table inet domkl {
    chain loss { type filter hook input priority 0; }
    chain cut { type filter hook input priority 1; }
}
"""


def run(*command, given=None):
    done = subprocess.run(command, input=given, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


@functools.cache
def supported(delay=False):
    """Why there can be no such networks here; None if there can."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "network namespaces need root"
    programs = ["ip", "nft"] + (["vde_switch", "wirefilter"] if delay else [])
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        return f"there is no {' and no '.join(missing)} here"
    if delay and not os.access("/dev/net/tun", os.W_OK):
        return "there is no /dev/net/tun here, which delays need"
    try:
        with connected(["a", "b"], delay=int(delay)) as net:
            net.loss("a", 1)
            net.round_trip("a", "b")
    except OSError as error:
        return f"network namespaces cannot be made here: {error}"
    return None


class Network:
    """Machines that see nothing but each other."""

    def __init__(self, names):
        tag = f"domkl-{os.getpid()}-{next(_count)}"
        self.spaces = {name: f"{tag}-{name}" for name in names}
        self.hub = f"{tag}-hub"
        self.addresses = {name: f"10.77.0.{i}" for i, name in enumerate(names, 1)}

    def within(self, name):
        """What stands before a command that runs on this machine."""
        return ["ip", "netns", "exec", self.spaces[name]]

    def loss(self, name, percent):
        """Let so many of the packets that arrive at a machine get lost."""
        self._filter(name, "flush chain inet domkl loss\n")
        if percent:
            rule = f'iifname != "lo" numgen random mod 1000 <= {round(10 * percent) - 1} drop'
            self._filter(name, f"add rule inet domkl loss {rule}\n")

    def partition(self, here, there):
        """Let nothing through between two groups of machines."""
        for group, others in ((here, there), (there, here)):
            addresses = ", ".join(self.addresses[name] for name in others)
            for name in group:
                self._filter(name, f"add rule inet domkl cut ip saddr {{ {addresses} }} drop\n")

    def heal(self):
        """Let everything through again that partitions held up."""
        for name in self.spaces:
            self._filter(name, "flush chain inet domkl cut\n")

    def round_trip(self, here, there, timeout=5.0):
        """Seconds for a packet to get there and its answer to come back."""
        # Nobody listens on that port, so the answer is a refusal.
        probe = (
            "import socket, sys, time\n"
            "s = socket.socket(); s.settimeout(float(sys.argv[2])); start = time.monotonic()\n"
            "code = s.connect_ex((sys.argv[1], 9))\n"
            "print(time.monotonic() - start if code == 111 else 'inf')\n"
        )
        python = ["python3", "-c", probe, self.addresses[there], str(timeout)]
        return float(run(*self.within(here), *python))

    def _filter(self, name, rules):
        run(*self.within(name), "nft", "-f", "-", given=rules)


@contextlib.contextmanager
def connected(names, delay=0, loss=0.0):
    """A network of machines; each packet takes `delay` ms, and `loss` percent of them never arrive."""
    net = Network(list(names))
    with contextlib.ExitStack() as stack:
        for space in (*net.spaces.values(), net.hub):
            run("ip", "netns", "add", space)
            stack.callback(run, "ip", "netns", "delete", space)
            run("ip", "-n", space, "link", "set", "lo", "up")
        if delay or loss:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="vde"))
            _join_by_wires(net, stack, pathlib.Path(folder), delay, loss)
        else:
            _join_by_bridge(net)
        for name, space in net.spaces.items():
            run("ip", "-n", space, "addr", "add", f"{net.addresses[name]}/24", "dev", "eth0")
            run("ip", "-n", space, "link", "set", "eth0", "up")
            net._filter(name, TABLE)
        yield net


def _join_by_bridge(net):
    run("ip", "-n", net.hub, "link", "add", "bridge", "type", "bridge")
    run("ip", "-n", net.hub, "link", "set", "bridge", "up")
    for i, space in enumerate(net.spaces.values()):
        pair = ["type", "veth", "peer", "name", "eth0", "netns", space]
        run("ip", "link", "add", f"port{i}", "netns", net.hub, *pair)
        run("ip", "-n", net.hub, "link", "set", f"port{i}", "master", "bridge", "up")


def _join_by_wires(net, stack, folder, delay, loss):
    """A star of VDE's switches and wires: the kernel's own netem is not everywhere."""
    each = 100 * (1 - (1 - loss / 100) ** 0.5)  # there are two wires on every way
    filters = ["-d", str(delay / 2), "-l", f"{each:.4f}"]
    hub = folder / "hub"
    _start(stack, ["vde_switch", "-s", str(hub)], (hub / "ctl").exists)
    for i, (name, space) in enumerate(net.spaces.items()):
        switch = folder / str(i)
        command = [*net.within(name), "vde_switch", "-s", str(switch), "-tap", "eth0"]
        _start(stack, command, lambda space=space: "eth0" in run("ip", "-n", space, "link"))
        _start(stack, ["wirefilter", *filters, "-v", f"{switch}:{hub}"], lambda: True)


def _start(stack, command, is_ready, seconds=5.0):
    # Both programs end at the end of their standard input, so they do not outlive this process.
    nowhere = subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=nowhere, stderr=nowhere)
    stack.callback(_end, process)
    until = time.monotonic() + seconds
    while not is_ready():
        if process.poll() is not None or time.monotonic() > until:
            raise OSError(f"{command[0]} does not start: {' '.join(command)}")
        time.sleep(0.01)


def _end(process):
    process.terminate()
    try:
        process.wait(2)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdin is not None:
        process.stdin.close()


# Scenarios


def lossy(folder, kind, rounds, J=3, delay=50, loss=5.0, deadline=2.0, seconds=300.0):
    """A network that loses and delays packets from the first to the last moment."""
    with scene(folder, kind, J, rounds, deadline, delay=delay, loss=loss) as (_, learners, facts):
        learners.start()
        watch = Watch(learners)
        learners.wait(seconds)
        facts["stalls"] = watch.stop()
    return facts


def partitioned(folder, kind, seconds, J=4, deadline=1.0, pause=0.02, before=2.0, after=6.0):
    """Two halves that cannot reach each other for a while, though their sensors go on.

    A broker stays with the first half; the learners of the other are alone.
    """
    rounds = round((before + seconds + after) / pause)
    with scene(folder, kind, J, rounds, deadline, paced=True) as (net, learners, facts):
        names = list(learners.names)
        here, there = names[: J // 2], names[J // 2 :]
        all_run = threading.Event()
        feeds = [feed(folder, name, pause, all_run) for name in names]
        learners.start()
        for name in names:
            faults.wait_for_rounds(learners, name, 1)
        all_run.set()
        watch = Watch(learners)
        time.sleep(before)
        net.partition([*here, BROKER] if kind == "mqtt" else here, there)
        time.sleep(seconds)
        net.heal()
        facts["apart"] = {name: len(learners.predictions(name)) for name in names}
        learners.wait(before + seconds + after + 90)
        facts["stalls"] = watch.stop()
        for thread in feeds:
            thread.join()
    return facts


@contextlib.contextmanager
def scene(folder, kind, J, rounds, deadline, paced=False, **bad):
    """Learners, each on its own machine; facts are filled in once they have ended by themselves."""
    experiment, source = faults.made(J, rounds, model=MODEL)
    names = list(source.split.names)
    machines = [*names, BROKER] if kind == "mqtt" else names
    sections = faults.sections(deadline, start=20.0, resend=0.3)
    if paced:
        sections["stream"] = {"kind": "stdin"}
    with connected(machines, **bad) as net, contextlib.ExitStack() as stack:
        transport = secure(folder, kind, names, net, stack, experiment.name)
        fleet.lay_out(folder, experiment, source, transport, sections, net.addresses)
        prefix = {name: net.within(name) + (fed(folder, name) if paced else []) for name in names}
        learners = stack.enter_context(fleet.Fleet(folder, names, prefix))
        facts = {}
        start = time.monotonic()
        yield net, learners, facts
        facts["seconds"] = time.monotonic() - start
        facts |= faults.judged(learners, experiment, source)
        facts["late_ratio"] = late_ratio(learners, experiment, source)
        facts["rounds"] = [faults.saved(learners, name).round for name in names]
        facts["events"] = {name: told(learners, name) for name in names}


def secure(folder, kind, names, net, stack, network):
    """The [transport] of all learners, with mutual TLS; a broker is started on its own machine."""
    folder.mkdir(parents=True, exist_ok=True)
    certs.make(folder, names)
    files = {"ca": "ca.pem", "cert": "{name}.pem", "key": "{name}.key"}
    if kind == "mqtt":
        start_broker(folder, net, stack, network)
        return {"kind": kind, "broker": f"{net.addresses[BROKER]}:8883", **files}
    return {"kind": kind, **files}


def start_broker(folder, net, stack, network):
    certs.make_broker(folder, network=network, hosts=[net.addresses[BROKER]])
    config = folder / "mosquitto.conf"
    config.write_text(config.read_text() + "user root\n")  # or it could not read the key
    _start(stack, [*net.within(BROKER), str(MOSQUITTO), "-c", str(config)], lambda: listens(net))


def listens(net):
    return ":8883" in run(*net.within(BROKER), "ss", "-ltn")


def fed(folder, name):
    """A command's standard input is a pipe that `feed` fills."""
    os.mkfifo(folder / f"{name}.pipe")
    return ["sh", "-c", f'exec "$@" < {name}.pipe', "sh"]


def feed(folder, name, pause, all_run):
    """Write a learner's stream into its pipe: a few readings at once, then one every `pause` seconds."""
    lines = (folder / f"{name}.jsonl").read_bytes().splitlines(keepends=True)

    def write():
        with contextlib.suppress(BrokenPipeError), open(folder / f"{name}.pipe", "wb", buffering=0) as pipe:
            pipe.write(b"".join(lines[:FEW]))
            all_run.wait()
            start = time.monotonic()
            for i, line in enumerate(lines[FEW:]):
                time.sleep(max(0.0, start + i * pause - time.monotonic()))
                pipe.write(line)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    return thread


def late_ratio(learners, experiment, source, share=0.2):
    """The error at the streams' end, compared with that of the undisturbed simulator."""
    y, undisturbed = source.split.y, faults.simulated(experiment, source).y_hat
    late = slice(round((1 - share) * y.shape[1]), None)
    said = [[each["y_hat"] for each in learners.predictions(name)[late]] for name in learners.names]
    return float(np.mean((said - y[:, late]) ** 2) / np.mean((undisturbed - y)[:, late] ** 2))


def told(learners, name):
    """How often a learner logged each event."""
    found = [event["event"] for event in faults.events(learners, name)]
    return {event: found.count(event) for event in dict.fromkeys(found) if event != "status"}


class Watch:
    """The longest pause between two predictions of each learner."""

    def __init__(self, learners):
        self.learners, self.longest = learners, dict.fromkeys(learners.names, 0.0)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def stop(self):
        self._over.set()
        self._thread.join()
        return self.longest

    def _look(self):
        sizes, since = {}, {}
        while not self._over.wait(0.01):
            now = time.monotonic()
            for name in self.learners.names:
                size = self._size(name)
                if size != sizes.get(name, 0):
                    self.longest[name] = max(self.longest[name], now - since.get(name, now))
                    sizes[name], since[name] = size, now

    def _size(self, name):
        path = self.learners.folder / f"{name}.predictions.jsonl"
        return path.stat().st_size if path.exists() else 0
