"""Messages that are damaged, forged or wrong: each fault is named in one line, and nothing else happens."""

from __future__ import annotations

import gc
import tracemalloc

import msgspec
import numpy as np
import pytest

import domkl
import forgeries
from domkl.agent import wire
from domkl.agent.incarnation import Incarnation
from domkl.agent.wire import Again, Hello
from domkl.base.errors import InputError, PeerError
from domkl.exchange.edges import Held
from domkl.learning.auto.scale import Summary
from forgeries import resealed
from updates import COLUMNS, HELLO, LIFE, MARK, SHAPE, THETA, UPDATE, changed, decoder

THETA_BYTES = THETA.tobytes()
SUMMARY = Summary.of(np.arange(8.0).reshape(4, COLUMNS), 4)
NEWS = [4, SUMMARY.low.tobytes(), SUMMARY.high.tobytes(), SUMMARY.shape.tobytes()]
NAN = np.full(SHAPE, np.nan).tobytes()
SIGNAL = b"\1\0\x80\x7f"  # a signalling NaN: to convert it would raise a warning


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        (b"", "a message has 0 bytes; expected 8 or more; send it again"),
        (b"dk\2\0", "a message has 4 bytes"),
        (b'{"round": 7}', "a message begins with b'{\"'; expected b'dk'; let only learners send here"),
        (b"dk\1" + changed()[3:], "a message has version 1 of the format; expected 3; let all"),
        (changed()[:-1], "the checksum of a message is wrong; expected no damage; send it again"),
        (changed() + b"\0", "checksum"),
        (resealed(changed()[8:] + b"\0"), "malformed: .*trailing characters"),
        (resealed(b""), "malformed: Input data was truncated"),
        (resealed(b"\xc1"), "malformed"),
        (resealed(b"\x82\xa4type\xa6update\xa1x" + b"\x91" * 100_000), "malformed: maximum recursion depth"),
        (resealed(b"\xdf\xff\xff\xff\xff\xa4type\xa6update"), "malformed"),
        (resealed(msgspec.msgpack.encode([1, 2])), "malformed: Expected `object`, got `array`"),
        (changed(type="bye"), "malformed: Invalid value 'bye'"),
        (changed(type="x" * 10_000), "malformed: Invalid value 'x{105}; fix its sender"),
        (changed(type="a\nb"), r"malformed: Invalid value 'a\\nb'"),
        (changed(type=...), "malformed: Object missing required field `type`"),
        (changed(theta=...), "missing required field `theta`"),
        (
            changed(fingerprint="feed"),
            "a message has fingerprint 'feed'; expected '0123456789abcdef'; give all",
        ),
        (changed(fingerprint="x" * 65), "malformed: .*length <= 64"),
        (changed(fingerprint=7), "malformed: Expected `str`, got `int`"),
        (changed(dtype="int8"), "malformed: Invalid enum value 'int8'"),
        (changed(dtype="float32"), "theta has 48 bytes; expected 24; fix its sender"),
        (changed(scalars=np.array([1e308, np.nan]).tobytes()), "scalars is not finite"),
        (changed(theta=THETA_BYTES[:-1]), "theta has 47 bytes; expected 48"),
        (changed(theta=THETA_BYTES + b"\0"), "theta has 49 bytes"),
        (changed(theta=b""), "theta has 0 bytes"),
        (changed(theta=NAN), "theta is not finite; expected finite numbers; fix its sender"),
        (changed(theta=SIGNAL * 6, dtype="float32"), "theta is not finite"),
        (changed(theta="text"), "malformed: Expected `bytes`, got `str`"),
        (changed(theta=None), "malformed: Expected `bytes`, got `None`"),
        (changed(scalars=THETA_BYTES), "scalars has 48 bytes; expected 16"),
        (changed(scalars=np.array([1, np.inf]).tobytes()), "scalars is not finite"),
        (changed(scalars=None), "an update has no scalars; expected scalars; fix its sender"),
        (changed(round=-1), "malformed: Expected `int` >= 0"),
        (changed(round=2**52), "malformed: Expected `int` <"),
        (changed(round=7.0), "malformed: Expected `int`, got `float`"),
        (changed(round=True), "malformed: Expected `int`, got `bool`"),
        (changed(durable=-1), "malformed"),
        (changed(round=7, durable=8), "a message of round 7 is durable up to 8; expected no later round"),
        (changed(wire.encode(HELLO), durable=2**51), "is durable up to 2251799813685248"),
        (changed(life=[2**63, 1]), "malformed"),
        (changed(life=[1, 2**63]), "malformed"),
        (changed(life=7), "malformed"),
        (changed(life=[1]), "malformed"),
        (changed(wire.encode(HELLO), lives={"b": [1, -1]}), "malformed"),
        (changed(wire.encode(HELLO), lives={"b/c": [1, 1]}), "malformed: Expected `str` matching"),
        (changed(wire.encode(HELLO), rivals=["b/c"]), "malformed: Expected `str` matching"),
        (changed(wire.encode(HELLO), rivals=["b"] * 1025), "malformed: .*length <= 1024"),
        (
            changed(edges={"a/b": Held()}),
            "malformed: Expected `str` matching regex",
        ),
        (changed(edges={"ä": Held()}), "malformed: Expected `str` matching"),
        (changed(edges={"a\n": Held()}), "malformed: Expected `str` matching"),
        (changed(edges={"": Held()}), "malformed: Expected `str` matching"),
        (changed(edges={"x" * 65: Held()}), "malformed: Expected `str` of length <= 64"),
        (
            changed(edges={str(i): Held() for i in range(1025)}),
            "malformed: Expected `object` of length <= 1024",
        ),
        (changed(edges={"a": Held(-1)}), "a message has an edge with numbers out of range"),
        (changed(edges={"a": Held(0, 2**63)}), "out of range"),
        (changed(edges={"a": Held(seen=-2)}), "out of range"),
        (changed(edges={"a": Held(moved=2**52)}), "out of range"),
        (changed(edges={"a": Held(before=2**52)}), "out of range"),
        (changed(edges={"a": [0, 0, 0.5]}), "malformed: Expected `int`, got `float`"),
        (changed(edges={"a": [0] * 6}), "malformed: Expected `array`"),
        (changed(news={"a/b": NEWS}), "malformed: Expected `str` matching"),
        (changed(news={"": NEWS}), "malformed: Expected `str` matching"),
        (changed(news={"a": [0, *NEWS[1:]]}), "malformed: Expected `int` >= 1"),
        (changed(news={"a": [2**31, *NEWS[1:]]}), "malformed: Expected `int` <= 2147483647"),
        (changed(news={"a": [1.5, *NEWS[1:]]}), "malformed: Expected `int`, got `float`"),
        (changed(news={str(i): NEWS for i in range(1025)}), "malformed: .*length <= 1024|expected at most"),
        (changed(news={"a": NEWS[:3]}), "malformed: Expected `array` of length 4"),
        (changed(news={"a": [*NEWS, 1]}), "malformed: Expected `array` of length 4"),
        (changed(news={"a": [1, "low", *NEWS[2:]]}), "malformed: Expected `bytes`, got `str`"),
        (changed(news={"a": [1, b"", *NEWS[2:]]}), r"a summary has \(0, 16, .*expected \(16, 16, "),
        (changed(news={"a": [1, NEWS[1], NEWS[2] + b"\0", NEWS[3]]}), r"a summary has \(16, 17, \d+\) bytes"),
        (changed(news={"a": [*NEWS[:3], NEWS[3][:-2]]}), "a summary has"),
        (changed(news=[]), "malformed: Expected `object`, got `array`"),
        (changed(degree=1025), "malformed: Expected `int` <= 1024"),
        (changed(degree=-1), "malformed: Expected `int` >= 0"),
        (changed(wire.encode(HELLO), ended={"b/c": 1}), "malformed: Expected `str` matching"),
        (changed(wire.encode(HELLO), wants={"a b": 1}), "malformed: Expected `str` matching"),
        (changed(wire.encode(HELLO), wants={"a": -1}), "malformed"),
        (changed(wire.encode(HELLO), done=0), "malformed: Expected `bool`, got `int`"),
        (changed(wire.encode(HELLO), fingerprint="feed"), "fingerprint 'feed'"),
        (changed(wire.encode(Again(MARK, LIFE, [])), updates=[b""] * 65), "malformed: .*length <= 64"),
        (changed(wire.encode(Again(MARK, LIFE, [])), updates=["text"]), "malformed: Expected `bytes`"),
    ],
)
def test_each_fault_is_named_in_one_line(message, fault):
    with pytest.raises(PeerError, match=fault) as caught:
        decoder().decode(message)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 250


def test_a_learner_without_summaries_takes_none():
    with pytest.raises(PeerError, match=r"a summary has .* bytes; expected \(0, 0, 0\); fix its sender"):
        decoder(columns=0).decode(changed())
    assert decoder(columns=0).decode(changed(news={})).update.news == {}


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"low": np.array([np.nan, 0.0])}, "bounds that are not finite or not in order"),
        ({"high": np.array([0.0, np.inf])}, "bounds that are not finite or not in order"),
        ({"low": np.array([9.0, 0.0])}, "bounds that are not finite or not in order"),
        ({"high": np.array([1e200, 9.0])}, "bounds that are not finite or not in order"),
        ({"samples": 513}, "a summary of 513 samples is odd"),
        ({"samples": 2**31 - 1}, "a summary of 2147483647 samples is odd"),
    ],
)
def test_a_learner_refuses_summaries_that_cannot_be(change, fault):
    """What the decoder lets through, as it does not know what a summary means."""
    learner = domkl.Learner(domkl.Auto(size=60), ["b"], name="a", inputs=1)
    take, shapes = wire.Decoder.of(learner.shapes, learner.fingerprint), learner.shapes
    theta, scalars = np.zeros(shapes.theta), np.zeros(shapes.scalars)
    one = Summary.of(np.array([[0.0, 1.0], [8.0, 5.0]]), 2)
    for news, is_good in (({"b": one}, True), ({"b": one._replace(**change)}, False)):
        sent = domkl.Update(0, theta, scalars, learner.fingerprint, {}, 1, news)
        found = take.update(wire.encode_update(sent, LIFE, 0)).update
        if is_good:
            learner.check("b", found, decoded=True)
            continue
        with pytest.raises(PeerError, match=fault) as caught:
            learner.check("b", found, decoded=True)
        assert "\n" not in str(caught.value)


def test_a_learner_refuses_too_many_summaries_and_forgets_none():
    learner = domkl.Learner(domkl.Auto(size=60), ["b"], name="a", inputs=1)
    one, shapes = Summary.of(np.ones((1, 2))), learner.shapes
    news = {str(i): one for i in range(1025)}
    theta, scalars = np.zeros(shapes.theta), np.zeros(shapes.scalars)
    update = domkl.Update(0, theta, scalars, learner.fingerprint, {}, 1, news)
    with pytest.raises(PeerError, match="a message has 1025 summaries"):
        learner.check("b", update)
    with pytest.raises(InputError, match=r"this message cannot be sent: .*length <= 1024"):
        wire.encode_update(update, LIFE, 0)


def test_scalars_must_not_come_where_they_stay_at_home():
    with pytest.raises(PeerError, match="an update has scalars; expected no scalars"):
        decoder(has_scalars=False).decode(changed())


def test_too_long_messages_are_not_looked_at():
    with pytest.raises(PeerError, match="a message has 100 bytes; expected at most 99; fix its sender"):
        decoder(max_bytes=99).decode(bytes(100))
    longest = Again(MARK, LIFE, [wire.encode_update(UPDATE, LIFE, 1)] * wire.MOST_UPDATES)
    assert decoder().decode(wire.encode(longest)) == longest
    with pytest.raises(PeerError, match="expected at most"):
        decoder().decode(bytes(20_000_000))


@pytest.mark.parametrize("payload", ["text", None, bytearray(8), 7])
def test_payloads_are_bytes(payload):
    with pytest.raises(InputError, match=r"expected bytes; convert it with bytes\(\)"):
        decoder().decode(payload)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_one_number_that_is_not_finite_is_enough(bad, dtype):
    theta = np.full(SHAPE, 3e38)  # the squares overflow, the numbers do not
    narrow = theta.astype(dtype)
    wide = narrow.astype(float).tobytes()
    np.testing.assert_array_equal(
        decoder().decode(changed(theta=wide, scalars=bytes(16))).update.theta, narrow
    )
    narrow[1, 2] = bad
    wide = narrow.astype(float).tobytes()
    with pytest.raises(PeerError, match="theta is not finite"):
        decoder().decode(changed(theta=wide))


def test_what_a_precision_cannot_hold_is_refused():
    theta = THETA.copy()
    theta[1, 2] = 65520.0
    message = r"theta\[1, 2\] is 65520.0; float16 holds at most 65504; choose float32"
    with pytest.raises(InputError, match=message):
        wire.encode_update(UPDATE._replace(theta=theta), LIFE, 0, "float16")
    with pytest.raises(InputError, match=r"float32 holds at most 3.4028235e\+38; choose float64"):
        wire.encode_update(UPDATE._replace(theta=theta * 1e300), LIFE, 0, "float32")


@pytest.mark.parametrize(
    ("change", "options", "fault"),
    [
        ({"round": -1}, {}, "Expected `int` >= 0"),
        ({"round": np.int64(3)}, {}, "numpy.int64"),
        ({}, {"incarnation": Incarnation(2**63, 1)}, "Expected `int` <"),
        ({}, {"incarnation": Incarnation(1, -1)}, "Expected `int` >= 0"),
        ({}, {"durable": None}, "Expected `int`, got `None`"),
        ({}, {"durable": 8}, "is durable up to 8; expected no later round than its own"),
        ({}, {"dtype": "float8"}, "dtype is 'float8'; expected one of float64, float32, float16"),
        ({"edges": {"a b": Held()}}, {}, "Expected `str` matching"),
        ({"edges": {7: Held()}}, {}, "Expected `str`, got `int`"),
        ({"edges": {"a": Held(2**70)}}, {}, "can't serialize ints"),
        ({"news": {"b c": SUMMARY}}, {}, "Expected `str` matching"),
        ({"news": {7: SUMMARY}}, {}, "Expected `str`, got `int`"),
        ({"fingerprint": object()}, {}, "Encoding objects of type object is unsupported"),
    ],
)
def test_the_callers_faults(change, options, fault):
    with pytest.raises(InputError, match=fault):
        wire.encode_update(UPDATE._replace(**change), **{"incarnation": LIFE, "durable": 1} | options)


@pytest.mark.parametrize(
    "message",
    [
        Again(MARK, LIFE, [b""] * 65),
        Again(MARK, Incarnation(-1, 1), []),
        Hello(MARK, LIFE, 1, 1, {"a/b": 1}, {}, False, 1),
        Hello(MARK, LIFE, 1, 1, {}, {"a": Held(-1)}, False, 1),
        Hello(MARK, LIFE, 1, 1, {}, {}, None, 1),
    ],
)
def test_what_no_peer_would_take_is_not_sent(message):
    with pytest.raises(InputError, match="this message cannot be sent: a message "):
        wire.encode(message)


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"shape": (0, 3)}, "shape is 0; expected a whole number of at least 1"),
        ({"max_bytes": 0}, "max_bytes is 0"),
    ],
)
def test_decoders_are_made_of_sound_settings(options, fault):
    with pytest.raises(InputError, match=fault):
        decoder(**options)


def test_every_single_flipped_bit_is_seen():
    message = wire.encode_update(UPDATE, LIFE, 5)
    for bit in range(8 * len(message)):
        damaged = bytearray(message)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(PeerError):
            decoder().decode(bytes(damaged))


@pytest.mark.parametrize("seed", range(3))
def test_no_damaged_message_is_believed_and_no_forged_one_crashes(seed):
    tallies = forgeries.messages(4000, seed)
    assert not tallies["damaged"].bad
    assert not tallies["forged"].bad
    assert tallies["damaged"]["refused"] > 1900
    assert tallies["forged"]["sound"] > 0


def test_refused_messages_leave_no_memory_behind():
    rng = np.random.default_rng(0)
    subject = forgeries.Messages(SHAPE, rng)
    forgeries.run(subject, subject.forged, 200, rng, may_differ=True)
    tracemalloc.start()
    try:
        forgeries.run(subject, subject.forged, 50, rng, may_differ=True)
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        forgeries.run(subject, subject.forged, 1000, rng, may_differ=True)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 50_000
    finally:
        tracemalloc.stop()
