"""Names on the network: `domkl/<network>/<learner>/<channel...>`, others', and patterns that match them.

Patterns are written as in MQTT: `+` stands for one level, a last `#` for any number of them.

>>> topic("field", "station-3", "theta")
'domkl/field/station-3/theta'
>>> sender_of("domkl/field/station-3/theta")
'station-3'
>>> matches("domkl/field/+/state", "domkl/field/station-3/state")
True
"""

from __future__ import annotations

import hashlib
import re
import sys

from ...base.checks import short
from ...base.errors import InputError

ROOT = "domkl"

#: The channel of a learner's own state, on which others receive `LOST` when it is gone.
STATE = "state"
LOST = b"lost"
#: The channel on which learners tell neighbours how they, and those they have heard of, are.
STATUS = "status"
#: All channels on which neighbours send messages to each other.
CHANNELS = ("theta", "rare", "hello", "to", STATUS)

#: What a client of a broker of others says there while it is connected, and what the broker says then.
HERE, GONE = b"online", b"offline"

#: The name under which a person or a program changes a network.
OPERATOR = "operator"

#: The most learners that one message may name, so the most neighbours of a learner.
MOST_NAMES = 1024

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_TOPIC = re.compile(rf"{ROOT}(/{_NAME.pattern}){{2,}}")
#: Bytes and levels of a topic that is not of a learner.
LONGEST_TOPIC, MOST_LEVELS = 512, 32

#: A level of such a topic: visible characters and blanks, without the signs of MQTT's and Zenoh's patterns.
_FOREIGN = re.compile(r"[^\x00-\x1f\x7f-\x9f+#*$?/\ud800-\udfff]+")
_LEVEL = re.compile(rf"\+|{_NAME.pattern}")


def check_name(name: str, what: str = "name") -> str:
    """`name` itself, if it is valid in a topic and in a certificate."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InputError(
            f"{what} is {name!r}; expected 1 to 64 letters, digits, '.', '_' or '-' (no accents); rename it"
        )
    return name


def topic(network: str, learner: str, *channel: str) -> str:
    """Where `learner` publishes in `network`."""
    check_name(network, "network")
    check_name(learner, "learner")
    for part in channel:
        check_name(part, "channel")
    return "/".join((ROOT, network, learner, *channel))


def sender_of(where: str) -> str:
    if not is_topic(where):
        raise InputError(f"topic is {where!r}; expected {ROOT}/<network>/<learner>/...; use topic()")
    return where.split("/", 3)[2]


def is_topic(where: str) -> bool:
    """Whether a message can be published there."""
    return _TOPIC.fullmatch(where) is not None


def check_filter(pattern: str, what: str = "topic", *, exact: bool = False) -> str:
    """`pattern` itself, if it is a topic of anybody: MQTT's or, with other characters than * $ ?, Zenoh's."""
    levels = pattern.removeprefix("/").split("/")  # MQTT knows topics that begin with a slash
    body = levels if exact else levels[:-1] if levels[-1] == "#" else levels
    is_short = 0 < len(pattern.encode(errors="replace")) <= LONGEST_TOPIC and len(levels) <= MOST_LEVELS
    if not is_short or not all((level == "+" and not exact) or _FOREIGN.fullmatch(level) for level in body):
        wild = "no wildcards" if exact else "'+' for one whole level, a last '#' for any number"
        raise InputError(
            f"{what} is {short(pattern)}; expected levels between single slashes, {wild}, and none of * $ ?; "
            f"fix {what}"
        )
    return pattern


def may_be_ours(pattern: str) -> bool:
    """Whether a pattern also matches topics of learners."""
    return pattern.split("/")[0] in (ROOT, "+", "#")


def check_pattern(pattern: str) -> str:
    """`pattern` itself, if a transport can subscribe to it."""
    levels = pattern.split("/")
    body = levels[:-1] if levels[-1] == "#" else levels
    if levels[0] != ROOT or len(levels) < 3 or not all(map(_LEVEL.fullmatch, body)):
        raise InputError(
            f"pattern is {pattern!r}; expected {ROOT}/<network>/<learner>/... where '+' is one level and a "
            "last '#' any number; fix the pattern"
        )
    return pattern


def matches(pattern: str, where: str) -> bool:
    """Whether a subscription to `pattern` covers a topic."""
    if pattern == where:
        return True
    wanted, found = pattern.split("/"), where.split("/")
    if wanted[-1] == "#":
        del wanted[-1]
        if len(found) < len(wanted):
            return False
        del found[len(wanted) :]
    return len(wanted) == len(found) and all(w in ("+", f) for w, f in zip(wanted, found, strict=True))


#: Zenoh's usual port.
ZENOH_PORT = 7447
#: Where there is one loopback address only: ports below those that the system gives to clients.
FIRST_PORT, PORTS = 10_000, 20_000


def local_address(network: str, name: str, platform: str = sys.platform) -> str:
    """Where a learner listens on this machine if its file does not say.

    All of 127.0.0.0/8 is this machine, so each learner has an address of its own: of 50 learners two share
    one in 0.03 % of all networks. macOS has 127.0.0.1 only, so there the port differs (6 %).

    >>> local_address("garden", "a"), local_address("garden", "a") == local_address("garden", "b")
    ('127.67.167.25:7447', False)
    """
    number = int.from_bytes(hashlib.sha256(f"{network}/{name}".encode()).digest()[:4], "big")
    if platform == "darwin":
        return f"127.0.0.1:{FIRST_PORT + number % PORTS}"
    return f"127.{64 + (number >> 16) % 64}.{(number >> 8) % 256}.{1 + number % 254}:{ZENOH_PORT}"
