"""`domkl telegraf`: influx line protocol in and out, as Telegraf's execd processor speaks it over pipes.

Telegraf itself is in neither Debian nor PyPI, so it does not run here: the rules are those of its documents.
"""

from __future__ import annotations

import contextlib
import io
import math
import re
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domkl import cli
from domkl.cli.telegraf import LONGEST, Options, Processor
from domkl.datasets import line_protocol
from domkl.datasets.line_protocol import INTEGER, UNSIGNED, LineError, escaped, parse, written

# What Telegraf writes: control characters are escaped there, so no line has any; a backslash at the end of a
# name cannot be told from one that escapes the sign after it.
NAMES = st.text(st.characters(exclude_categories=["C", "Z"]) | st.sampled_from(' ,="\\'), min_size=1).filter(
    lambda name: not name.endswith("\\") and "\\" not in name.replace("\\\\", "")
)
VALUES = (
    st.floats(allow_nan=False, allow_infinity=False)
    | st.integers(-INTEGER - 1, UNSIGNED)
    | st.booleans()
    | st.text(st.characters(exclude_categories=["C"]))
)


def line_of(measurement, tags, fields, time):
    name = re.sub(r"([, ])", r"\\\1", measurement)
    key = "".join(f",{escaped(tag)}={escaped(value)}" for tag, value in tags.items())
    body = ",".join(f"{escaped(field)}={written(value)}" for field, value in fields.items())
    return f"{name}{key} {body}" + ("" if time is None else f" {time}")


@settings(deadline=None, max_examples=200)
@given(
    NAMES.filter(lambda name: not name.startswith("#")),
    st.dictionaries(NAMES, NAMES, max_size=3),
    st.dictionaries(NAMES, VALUES, min_size=1, max_size=4),
    st.none() | st.integers(-INTEGER - 1, INTEGER),
    st.dictionaries(st.sampled_from(["a new_predicted", "b=_low"]), st.floats(-1e9, 1e9) | st.booleans()),
)
def test_what_is_written_is_read_again_and_fields_are_added_behind_the_others(
    name, tags, fields, time, added
):
    text = line_of(name, tags, fields, time)
    line = parse(text)
    assert (line.measurement, line.tags, line.fields, line.time) == (name, tags, fields, time)
    assert {type(value) for value in line.fields.values()} == {type(value) for value in fields.values()}
    more = parse(line.add(added))
    assert (more.measurement, more.tags, more.time) == (name, tags, time)
    assert more.fields == {**fields, **added}
    assert list(more.fields) == [*fields, *added]


@settings(deadline=None)
@given(st.text() | st.text(st.sampled_from('m,= "\\tf1iu.-#\n')))
def test_any_text_is_a_line_or_refused(text):
    with contextlib.suppress(LineError):
        line = parse(text)
        assert line.fields
        assert parse(line.add({"new name": 1.5})).fields == {**line.fields, "new name": 1.5}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("1", 1.0),
        ("-.5", -0.5),
        ("2.", 2.0),
        ("1e-3", 0.001),
        ("-0i", 0),
        ("18446744073709551615u", UNSIGNED),
        ("T", True),
        ("FALSE", False),
        (r'"a, \"b\" \\ c=d"', r'a, "b" \ c=d'),
    ],
)
def test_values_as_the_protocol_writes_them(field, value):
    (found,) = parse(f"m f={field}").fields.values()
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    "text",
    [
        *("", "m", "m f", "m f=", "m,t f=1", "m,t= f=1", "m,t=1,t=2 f=1", ",t=1 f=1", "#m f=1", "m f=1,f=2"),
        *(
            "m f=1 2 3",
            "m f=1 x",
            "m f=1,",
            "m f=nan",
            "m f=inf",
            "m f=1e400",
            "m f=01i",
            "m f=-1u",
            "m f=tr",
        ),
        *('m f="a', 'm f="a"b', "m f=9223372036854775808i", "m f=18446744073709551616u", "m f=١"),
        *("m f=1 9223372036854775808", "m f=1_0", "m f=0x1", "m f=1 1.5", "m f=1i2", "m f=tr", "m f=01i"),
    ],
)
def test_what_is_not_the_protocol_is_refused(text):
    with pytest.raises(LineError, match="expected"):
        parse(text)


def test_numbers_that_the_protocol_cannot_write_are_left_out():
    assert parse("m f=1 5").add({"a": math.nan, "b": math.inf, "c": 2.0}) == "m f=1,c=2.0 5"


def weather(count, noise=0.0):
    """Temperatures that follow the humidity, of two sites, one line every ten minutes."""
    for i in range(count):
        humid = (37 * i) % 100
        temp = 20 - humid / 10 + 3 * math.sin(i / 23) + noise * math.sin(i * i)
        yield f"weather,site={'ab'[i % 2]} humid={humid}i,temp={temp:.3f},wet={humid > 80} {i * 600 * 10**9}"


def processed(lines, **more):
    known = {"features": None, "drop": (), "measurement": None, "coverage": 0.9, "rate": 0.01}
    options = Options(**{"target": "temp", **known, "size": 50, "series": 10, **more})
    log, sink = io.StringIO(), io.BytesIO()
    processor = Processor(options, log)
    processor.run(io.BytesIO("".join(f"{line}\n" for line in lines).encode()), sink)
    return sink.getvalue().decode().splitlines(), log.getvalue(), processor


def test_each_line_comes_back_with_what_was_predicted_before_it_was_learnt():
    lines = list(weather(320, noise=0.1))
    found, log, _ = processed([*lines, lines[-1].replace("temp=", "temp=9")])
    assert [line_protocol.parse(line).text.split(",temp_predicted")[0] for line in found[:2]] == lines[:2]
    pairs = [(parse(old), parse(new)) for old, new in zip(lines, found, strict=False)]
    for old, new in pairs:
        assert (old.measurement, old.tags, old.time) == (new.measurement, new.tags, new.time)
        assert new.fields.items() >= old.fields.items()
    late = [new.fields for _, new in pairs[200:]]
    misses = [abs(fields["temp"] - fields["temp_predicted"]) for fields in late]
    assert sorted(misses)[len(misses) // 2] < 0.3  # of a range of 16
    inside = sum(fields["temp_low"] <= fields["temp"] <= fields["temp_high"] for fields in late)
    assert inside > 0.8 * len(late)
    assert sum(fields["temp_alarm"] for fields in late) <= 3
    assert parse(found[-1]).fields["temp_alarm"] is True
    assert "321 lines" in log


def test_lines_that_cannot_be_used_pass_as_they_are_and_are_counted():
    odd = [
        "cpu,host=a usage=1 5",
        "not a line",
        "weather,site=a humid=1i",
        "# a remark",
        "",
        "m temp=1e400",
        "weather,site=a temp=1,temp_predicted=2 7",
        'weather,site=a temp="hot",humid=1i 8',
        "lonely temp=1",
    ]
    lines = [*weather(4), *odd, *weather(6)]
    found, log, processor = processed(lines)
    assert found[4 : 4 + len(odd)][0:2] == odd[0:2]
    kept = [line for line in found if "temp_predicted=" not in line or line in odd]
    assert [line for line in odd if line not in kept] == ["weather,site=a humid=1i"]  # asks for a prediction
    assert processor.passed == {
        "without temp": 1,
        "not line protocol": 2,
        "with predictions already": 1,
        "not a number": 1,
        "without inputs": 1,
    }
    assert "W! domkl: 1 passed through, not line protocol: 'a line' at column 5; expected" in log
    assert "passed through: 2 not line protocol" in log


def test_series_are_bounded_and_other_measurements_can_be_left_alone():
    lines = [f"m,host={i % 5} temp={i},load={i % 7} {i}" for i in range(50)]
    found, log, processor = processed(lines, series=2)
    assert sum("temp_predicted" in line for line in found) == 18
    assert processor.passed["of too many series"] == 30
    assert "30 passed" not in log  # told at 1 and at 10
    assert "10 passed through, of too many series" in log
    _, _, processor = processed(lines, measurement="other")
    assert processor.passed == {"of other measurements": 50}


def test_a_line_of_any_length_and_any_bytes_passes():
    log, sink = io.StringIO(), io.BytesIO()
    known = {"features": None, "drop": (), "measurement": None, "coverage": 0.9, "rate": 0.01}
    processor = Processor(Options(target="temp", **known, size=50, series=10), log)
    given = b"m temp=1,a=" + b"1" * (LONGEST + 5) + b"\n\xff\xfe temp=1\nm temp=1,a=2 3\r\nm temp=1,a=2 4"
    processor.run(io.BytesIO(given), sink)
    assert sink.getvalue().startswith(given[:-40])
    assert sink.getvalue().count(b"\n") == given.count(b"\n")
    assert processor.passed == {"longer than a line may be": 1, "not UTF-8": 1}


def test_a_process_answers_each_line_before_the_next_one_comes():
    command = [sys.executable, "-m", "domkl", "telegraf", "--target", "temp", "--size", "50"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as process:
        for line in [*weather(6), "other f=1 1"]:
            process.stdin.write(line.encode() + b"\n")
            process.stdin.flush()
            answer = process.stdout.readline().decode()
            assert answer.startswith(line.rsplit(" ", 1)[0])
        process.stdin.close()
        assert process.stdout.read() == b""
        assert process.stderr.read().decode().splitlines()[-1] == (
            "I! domkl: 7 lines, 6 used; passed through: 1 without temp"
        )
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("more", "wrong"),
    [
        (["--drop", "temp"], "is the target and also in"),
        (["--coverage", "2"], "coverage is 2.0; expected a number between 0 and 1"),
        (["--alarm-rate", "0"], "expected a number between 0 and 0.5"),
        (["--series", "0"], "--series is 0; expected"),
    ],
)
def test_bad_options_are_one_line(more, wrong, capsys):
    assert cli.main(["telegraf", "--target", "temp", *more]) == 2
    assert wrong in capsys.readouterr().err
