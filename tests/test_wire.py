"""Messages that come back as they were sent."""

from __future__ import annotations

import subprocess
import sys
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from domkl.agent import wire
from domkl.agent.incarnation import Incarnation
from domkl.agent.wire import Again, Envelope, Hello
from domkl.base.errors import PeerError
from domkl.exchange.edges import Held
from domkl.exchange.message import Update
from domkl.learning.auto.scale import Summary
from updates import COLUMNS, HELLO, LIFE, MARK, SCALARS, SHAPE, THETA, UPDATE, changed, decoder

numbers = st.integers(0, 2**63 - 1)
rounds = st.integers(0, 2**52 - 1)
lasts = st.integers(-1, 2**52 - 1)
names = st.from_regex(r"[A-Za-z0-9_.-]{1,64}", fullmatch=True)
lives = st.builds(Incarnation, numbers, numbers)
edges = st.dictionaries(names, st.builds(Held, numbers, numbers, lasts, lasts, lasts), max_size=5)
finite = st.floats(allow_nan=False, allow_infinity=False)
samples = hnp.arrays(float, st.tuples(st.integers(1, 5), st.just(COLUMNS)), elements=st.floats(-1e150, 1e150))
summaries = st.dictionaries(names, st.builds(Summary.of, samples, st.integers(1, 2**31 - 1)), max_size=3)


@settings(max_examples=50, deadline=None)
@given(hnp.arrays(float, SHAPE, elements=finite), hnp.arrays(float, 2, elements=finite), edges, st.data())
def test_an_update_comes_back_to_the_last_bit(theta, scalars, edges, data):
    life, (durable, t) = data.draw(lives), sorted((data.draw(rounds), data.draw(rounds)))
    degree, news = data.draw(st.integers(0, 1024)), data.draw(summaries)
    sent = Update(t, theta, scalars, MARK, edges, degree, news)
    message = wire.encode_update(sent, life, durable, "float64")
    found = decoder().decode(message)
    assert found[:3] == (life, durable, "float64")
    assert type(found.incarnation) is Incarnation
    assert found.update.theta.tobytes() == theta.tobytes()
    assert found.update.scalars.tobytes() == scalars.tobytes()
    assert (found.update.round, found.update.fingerprint, found.update.edges) == (t, MARK, edges)
    assert found.update.degree == degree
    assert {name: one.key() for name, one in found.update.news.items()} == {
        name: one.key() for name, one in news.items()
    }
    assert all(type(held) is Held for held in found.update.edges.values())
    assert wire.encode_update(found.update, life, durable, "float64") == message


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_hello_and_again_come_back(data):
    wants = data.draw(st.dictionaries(names, rounds, max_size=5))
    told = {"done": True, "graph": 2, "ended": wants, "rivals": list(wants)}
    told["incarnations"] = {name: data.draw(lives) for name in wants}
    hello = Hello(MARK, data.draw(lives), data.draw(rounds), 0, wants, data.draw(edges), **told)
    again = Again(MARK, data.draw(lives), data.draw(st.lists(st.binary(), max_size=64)))
    assert decoder().decode(wire.encode(hello)) == hello
    assert decoder().decode(wire.encode(again)) == again


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@settings(max_examples=50, deadline=None)
@given(theta=hnp.arrays(float, SHAPE, elements=st.floats(-6e4, 6e4)))
def test_rounded_is_what_receivers_hold(dtype, theta):
    message = wire.encode_update(Update(0, theta, SCALARS, MARK), LIFE, 0, dtype)
    found = decoder().decode(message)
    assert found.dtype == dtype
    held = theta.astype(dtype).astype(float)
    assert held.dtype == float
    assert found.update.theta.tobytes() == held.tobytes()
    assert found.update.scalars.tobytes() == SCALARS.tobytes()  # never rounded
    again = wire.encode_update(Update(0, held, SCALARS, MARK), LIFE, 0, dtype)
    assert again == message


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("sent", ["float64", "float32", "float16"])
def test_arrays_are_aligned_contiguous_and_read_only(dtype, sent):
    update = Update(7, THETA.astype(dtype), SCALARS.astype(dtype), MARK)
    found = decoder().decode(wire.encode_update(update, LIFE, 0, sent)).update
    for array in (found.theta, found.scalars):
        assert array.dtype == np.float64
        assert array.flags.c_contiguous
        assert array.flags.aligned
        assert not array.flags.writeable
    np.testing.assert_array_equal(found.theta, update.theta.astype(sent).astype(float))


def test_the_order_of_an_array_in_memory_does_not_matter():
    turned = np.asfortranarray(THETA)
    assert not turned.flags.c_contiguous
    message = wire.encode_update(UPDATE._replace(theta=turned, scalars=np.repeat(SCALARS, 2)[::2]), LIFE, 5)
    assert message == wire.encode_update(UPDATE, LIFE, 5)


def test_summaries_are_never_rounded():
    one = Summary.of(np.array([[1 / 3, 1e140]]), 512)
    message = wire.encode_update(UPDATE._replace(news={"a": one}), LIFE, 5, "float16")
    found = decoder().decode(message).update.news["a"]
    assert Summary.check(found, COLUMNS, 512).key() == one.key()


def test_scalars_that_stay_at_home():
    update = UPDATE._replace(scalars=None)
    assert decoder(has_scalars=False).decode(wire.encode_update(update, LIFE, 5)).update.scalars is None


def test_again_holds_updates_byte_for_byte():
    first = [wire.encode_update(UPDATE._replace(round=t), LIFE, t) for t in range(3)]
    again = decoder().decode(wire.encode(Again(MARK, LIFE, first)))
    assert again.updates == first
    assert [decoder().update(one).update.round for one in again.updates] == [0, 1, 2]
    with pytest.raises(PeerError, match="a message is Hello; expected an update"):
        decoder().update(wire.encode(HELLO))


def test_fields_of_a_newer_minor_version_are_ignored():
    body = changed(hue="blue", others={"a": [1, {"b": None}]})[8:]
    start = b"dk" + bytes([wire.VERSION[0], wire.VERSION[1] + 1])
    message = start + zlib.crc32(start + body).to_bytes(4, "little") + body
    assert isinstance(decoder().decode(message), Envelope)


def test_domkl_itself_does_not_need_msgspec():
    code = (
        "import sys, domkl; domkl.Learner; print('msgspec' in sys.modules, 'domkl.agent.wire' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False False"
