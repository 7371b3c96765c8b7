"""An update and a hello, the decoder that takes them, and the same with other values in them."""

from __future__ import annotations

import msgspec
import numpy as np

from domkl.agent import wire
from domkl.agent.lives import Life
from domkl.agent.wire import Decoder, Hello
from domkl.exchange.edges import Held
from domkl.exchange.message import Update
from forgeries import resealed

MARK = "0123456789abcdef"
SHAPE = (2, 3)
THETA, SCALARS = np.arange(6.0).reshape(SHAPE) / 7, np.array([0.1, 0.2])
LINKS = {"a": (3, ("b", "c-3")), "b": (0, ("a",))}
UPDATE = Update(7, THETA, SCALARS, MARK, {"b": Held(1, 2, 6, 6, 5), "c-3": Held()}, 2, None, LINKS)
SENT = {name: (version, list(near)) for name, (version, near) in LINKS.items()}
LIFE = Life(3, 7)
HELLO = Hello(MARK, LIFE, 7, 5, {"b": 6}, {"b": Held(1, 2, 6, 6, 5)}, False, 1, {"c-3": 6}, SENT)


def decoder(**options):
    return Decoder(**{"shape": SHAPE, "fingerprint": MARK, "has_scalars": True} | options)


def changed(message=None, **fields):
    """An update, or another message, with some fields changed under a right checksum; ... removes one."""
    sent = msgspec.msgpack.decode((message or wire.encode_update(UPDATE, LIFE, 5, "float64"))[8:]) | fields
    return resealed(msgspec.msgpack.encode({k: v for k, v in sent.items() if v is not ...}))
