"""An update and a hello, the decoder that takes them, and the same with other values in them."""

from __future__ import annotations

import msgspec
import numpy as np

from domkl.agent import wire
from domkl.agent.incarnation import Incarnation
from domkl.agent.wire import Decoder, Hello
from domkl.exchange.edges import Held
from domkl.exchange.message import Update
from domkl.learning.auto.scale import Summary
from forgeries import resealed

#: Of an update's summaries.
COLUMNS = 2
MARK = "0123456789abcdef"
SHAPE = (2, 3)
THETA, SCALARS = np.arange(6.0).reshape(SHAPE) / 7, np.array([0.1, 0.2])
NEWS = {"a": Summary.of(np.arange(8.0).reshape(4, 2), 4), "c-3": Summary.of(np.ones((1, 2)), 1)}
UPDATE = Update(7, THETA, SCALARS, MARK, {"b": Held(1, 2, 6, 6, 5), "c-3": Held()}, 2, NEWS)
LIFE = Incarnation(3, 7)
HELLO = Hello(MARK, LIFE, 7, 5, {"b": 6}, {"b": Held(1, 2, 6, 6, 5)}, False, 1, {"c-3": 6})


def decoder(**options):
    return Decoder(**{"shape": SHAPE, "fingerprint": MARK, "has_scalars": True, "columns": COLUMNS} | options)


def changed(message=None, **fields):
    """An update, or another message, with some fields changed under a right checksum; ... removes one."""
    sent = msgspec.msgpack.decode((message or wire.encode_update(UPDATE, LIFE, 5, "float64"))[8:]) | fields
    return resealed(msgspec.msgpack.encode({k: v for k, v in sent.items() if v is not ...}))
