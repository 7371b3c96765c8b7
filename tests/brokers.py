"""A mosquitto of one's own, on a free loopback port; and free ports."""

from __future__ import annotations

import contextlib
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping

from domkl.agent import certs

_DEBIAN = "/usr/sbin/mosquitto"

#: The broker's program, or None: then tests that need it are skipped.
MOSQUITTO = shutil.which("mosquitto") or (_DEBIAN if os.path.exists(_DEBIAN) else None)


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on now; all different, and none that the system gives to clients."""
    found: list[int] = []
    while len(found) < count:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            found += [port] if port not in found else []
    return found


class Broker:
    """A mosquitto process; ended by its own process id."""

    def __init__(self, directory: pathlib.Path, config: pathlib.Path, port: int):
        self.config, self.port = config, port
        self.log = directory / f"broker-{port}.log"
        self.address = f"127.0.0.1:{port}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        assert MOSQUITTO is not None
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([MOSQUITTO, "-c", str(self.config)], stdout=log, stderr=log)
        self._wait_until_it_listens()

    def kill(self) -> None:
        """As when its machine loses power: nothing is said to anyone."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def pause(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def _wait_until_it_listens(self) -> None:
        until = time.monotonic() + 10
        while time.monotonic() < until:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.01)
        raise RuntimeError(self.log.read_text())


def configure(
    directory: pathlib.Path, port: int, *, tls: bool, network: str, users: Mapping[str, str] | None = None
) -> pathlib.Path:
    """The configuration that `domkl certs --broker` writes, or one for loopback: open, or for users."""
    config = directory / f"broker-{port}.conf"
    if tls:
        certs.make_broker(directory, network=network)
        text = certs.mosquitto_conf(directory, port).replace(f"listener {port}", f"listener {port} 127.0.0.1")
    else:
        text = f"listener {port} 127.0.0.1\nset_tcp_nodelay true\npersistence false\n"
        text += f"password_file {passwords(directory, users)}\n" if users else "allow_anonymous true\n"
    user = "user root\n" if os.geteuid() == 0 else ""  # or it could not read the keys of this user
    config.write_text(text + user)
    return config


def passwords(directory: pathlib.Path, users: Mapping[str, str]) -> pathlib.Path:
    """A file of users and hashed passwords."""
    file = directory / "passwords"
    file.touch(0o600)
    for name, password in users.items():
        subprocess.run(["mosquitto_passwd", "-b", file, name, password], check=True, capture_output=True)
    return file


@contextlib.contextmanager
def running(
    directory: pathlib.Path,
    *,
    tls: bool = False,
    network: str = "domkl",
    users: Mapping[str, str] | None = None,
) -> Iterator[Broker]:
    """A broker for the length of a block."""
    (port,) = free_ports(1)
    broker = Broker(directory, configure(directory, port, tls=tls, network=network, users=users), port)
    broker.start()
    try:
        yield broker
    finally:
        broker.resume()
        broker.kill()
