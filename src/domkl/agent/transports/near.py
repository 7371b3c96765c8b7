"""Addresses on this machine that follow from names, so that no file has to hold them.

>>> address("garden", "a"), address("garden", "a") == address("garden", "b")
('127.67.167.25:7447', False)
"""

from __future__ import annotations

import hashlib
import sys

#: Zenoh's usual port.
PORT = 7447
#: Where there is one loopback address only: ports below those that the system gives to clients.
FIRST_PORT, PORTS = 10_000, 20_000


def address(network: str, name: str, platform: str = sys.platform) -> str:
    """Where a learner listens on this machine if its file does not say.

    All of 127.0.0.0/8 is this machine, so each learner has an address of its own: of 50 learners two share
    one in 0.03 % of all networks. macOS has 127.0.0.1 only, so there the port differs (6 %).
    """
    number = int.from_bytes(hashlib.sha256(f"{network}/{name}".encode()).digest()[:4], "big")
    if platform == "darwin":
        return f"127.0.0.1:{FIRST_PORT + number % PORTS}"
    return f"127.{64 + (number >> 16) % 64}.{(number >> 8) % 256}.{1 + number % 254}:{PORT}"
