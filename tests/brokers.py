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
from collections.abc import Iterator

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


def configure(directory: pathlib.Path, port: int, *, tls: bool, network: str) -> pathlib.Path:
    """The configuration that `domkl certs --broker` writes, or an open one for loopback."""
    config = directory / f"broker-{port}.conf"
    if tls:
        certs.make_broker(directory, network=network)
        text = certs.mosquitto_conf(directory, port)
    else:
        text = f"listener {port} 127.0.0.1\nallow_anonymous true\nset_tcp_nodelay true\npersistence false\n"
    user = "user root\n" if os.geteuid() == 0 else ""  # or it could not read the keys of this user
    config.write_text(text + user)
    return config


def with_users(config: pathlib.Path, users: dict[str, str], tls: pathlib.Path | None) -> None:
    """Ask for passwords; over TLS if there is a folder with the broker's certificate."""
    passwords = config.with_suffix(".passwords")
    passwords.touch(0o600)
    for user, password in users.items():
        subprocess.run(["mosquitto_passwd", "-b", passwords, user, password], check=True, capture_output=True)
    text = config.read_text().replace(
        "allow_anonymous true", f"allow_anonymous false\npassword_file {passwords}"
    )
    if tls is not None:
        certs.make_broker(tls, network="domkl")
        text += f"certfile {tls}/broker.pem\nkeyfile {tls}/broker.key\n"
    config.write_text(text)


@contextlib.contextmanager
def running(
    directory: pathlib.Path,
    *,
    tls: bool = False,
    network: str = "domkl",
    users: dict[str, str] | None = None,
    shows: pathlib.Path | None = None,
) -> Iterator[Broker]:
    """A broker for the length of a block; with `users` it asks for passwords, with `shows` over TLS."""
    (port,) = free_ports(1)
    config = configure(directory, port, tls=tls, network=network)
    if users is not None:
        with_users(config, users, shows)
    broker = Broker(directory, config, port)
    broker.start()
    try:
        yield broker
    finally:
        broker.resume()
        broker.kill()
