"""`domkl telegraf`: predictions as further fields of metrics, for Telegraf's `processors.execd`."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any, BinaryIO, NamedTuple, TextIO

from ..base import checks, words
from ..base.errors import DataError, InputError
from ..datasets.columns import CellError, Columns
from ..datasets.encoder import Encoder
from ..datasets.line_protocol import Line, LineError, Value, parse
from ..faces.estimator import DOMKL
from ..learning import conformal
from ..learning.alarms import Alarms, check_rate
from ..models.settings import Auto
from . import declare
from .options import names

#: Bytes of a line; longer ones pass through unread.
LONGEST = 1 << 20
#: Parameters of a series' model, and the most series.
SIZE, SERIES = 400, 100
#: The field and the column of a line's time.
TIME = "time"
EXAMPLE = """\
in telegraf.conf:
  [[processors.execd]]
    command = ["domkl", "telegraf", "--target", "temp"]
    namepass = ["weather"]

Each line is written back as it came, with <target>_predicted (made before the line's own value was learnt),
<target>_low, <target>_high and <target>_alarm added once they are known. Each measurement with its tags is a
series and has a model of its own, which is not kept at the end. Lines that cannot be used pass through
unchanged; how many and why is on standard error.
"""


class Options(NamedTuple):
    """What every series has in common."""

    target: str
    features: tuple[str, ...] | None
    drop: tuple[str, ...]
    measurement: str | None
    coverage: float
    rate: float
    size: int
    series: int


def add_to(commands: Any) -> None:
    """Declare the command."""
    text = "add predictions to metrics: a processor for Telegraf (influx line protocol)"
    add = declare(commands, "telegraf", text, run, epilog=EXAMPLE, json=None)
    add("--target", metavar="FIELD", required=True, help="the field to predict")
    add("--features", metavar="A,B", help="the fields to predict from (default: all others, and the time)")
    add("--drop", metavar="A,B", help="fields to leave out")
    add("--measurement", metavar="NAME", help="use lines of this measurement alone")
    text = "part of values within low and high (default: 0.9)"
    add("--coverage", type=float, default=0.9, metavar="C", help=text)
    add("--alarm-rate", type=float, default=0.001, metavar="R", help="part of false alarms (default: 0.001)")
    text = f"number of parameters of a model (default: {SIZE})"
    add("--size", type=int, default=SIZE, metavar="N", help=text)
    text = f"most series; others pass (default: {SERIES})"
    add("--series", type=int, default=SERIES, metavar="N", help=text)


def run(args: argparse.Namespace) -> None:
    """Process lines until standard input ends."""
    options = Options(
        args.target,
        names(args.features),
        names(args.drop) or (),
        args.measurement,
        conformal.check_coverage(args.coverage),
        check_rate(args.alarm_rate),
        Auto(size=args.size).size,
        checks.count("--series", args.series),
    )
    if options.target in (*options.drop, *(options.features or ())):
        raise InputError(f"{options.target!r} is the target and also in --features or --drop; leave it out")
    processor = Processor(options, sys.stderr)
    processor.run(sys.stdin.buffer, sys.stdout.buffer)


class Processor:
    """Reads lines, adds predictions, and counts what it could not use."""

    def __init__(self, options: Options, log: TextIO) -> None:
        self.options, self.log = options, log
        self.read = self.used = 0
        self.passed: Counter[str] = Counter()
        self._series: dict[Any, Series] = {}

    def run(self, source: BinaryIO, sink: BinaryIO) -> None:
        """Write a line for each line, at once, and a summary in the end."""
        whole = True  # what was read last ended a line
        while piece := source.readline(LONGEST):
            ended = piece.endswith(b"\n")
            fits = whole and (ended or len(piece) < LONGEST)
            if whole and not fits:
                self._note("longer than a line may be", f"more than {LONGEST} bytes")
            sink.write(self.line(piece) if fits else piece)
            sink.flush()
            whole = ended
        passed = ", ".join(f"{count} {reason}" for reason, count in self.passed.most_common())
        self._tell("I", f"{self.read} lines, {self.used} used; passed through: {passed or 0}")

    def line(self, raw: bytes) -> bytes:
        """A line with predictions, or as it came if there are none."""
        body = raw.rstrip(b"\r\n")
        if not body.strip() or body.lstrip().startswith(b"#"):
            return raw
        self.read += 1
        try:
            answer = self._answer(parse(body.decode()))
        except UnicodeDecodeError:
            return self._pass(raw, "not UTF-8", "bytes that are no text")
        except LineError as error:
            return self._pass(raw, "not line protocol", str(error))
        except CellError as error:
            return self._pass(raw, error.kind, error.reason)
        except DataError as error:
            return self._pass(raw, "of no use", str(error))
        except Exception as error:  # a line must not end the processor, whatever is wrong with it
            return self._pass(raw, "failed", repr(error))
        self.used += 1
        return answer.encode() + raw[len(body) :]

    def _answer(self, line: Line) -> str:
        added = {f"{self.options.target}_{what}" for what in ("predicted", "low", "high", "alarm")}
        if self.options.measurement not in (None, line.measurement):
            raise CellError("of other measurements", line.measurement, "")
        if added & line.fields.keys():
            raise CellError("with predictions already", ", ".join(sorted(added & line.fields.keys())), "")
        row: dict[str, Value] = {**line.fields} if line.time is None else {**line.fields, TIME: line.time}
        found = self._of(line, row).answer(row)
        return line.add({f"{self.options.target}_{what}": value for what, value in found.items()})

    def _of(self, line: Line, row: Mapping[str, Value]) -> Series:
        """The line's series; a new one if the line has the target."""
        key = line.measurement, tuple(sorted(line.tags.items()))
        if key not in self._series:
            if self.options.target not in row:
                raise CellError(f"without {self.options.target}", ", ".join(row), "")
            if len(self._series) >= self.options.series:
                raise CellError("of too many series", f"more than {self.options.series}; raise --series", "")
            self._series[key] = Series(self.options, row)
        return self._series[key]

    def _pass(self, raw: bytes, reason: str, example: str) -> bytes:
        self._note(reason, example)
        return raw

    def _note(self, reason: str, example: str) -> None:
        """Count a line that passes; told the first, the tenth, the hundredth time, and so on."""
        self.passed[reason] += 1
        count = str(self.passed[reason])
        if count == "1" + "0" * (len(count) - 1):
            self._tell("W", f"{count} passed through, {reason}: {example[:200]}")

    def _tell(self, level: str, text: str) -> None:
        """Telegraf reads the level off the beginning of a line."""
        print(f"{level}! domkl: {words.visible(text)}", file=self.log, flush=True)


class Series:
    """One measurement with its tags, and its own model; the first line says what the fields are."""

    def __init__(self, options: Options, first: Mapping[str, Value]) -> None:
        self.encoder = Encoder(columns_of(options, first))
        self.model = DOMKL(model=Auto(size=options.size))
        self.alarms, self.coverage, self._is_new = Alarms(options.rate), options.coverage, True

    def answer(self, row: Mapping[str, Value]) -> dict[str, Value]:
        """What is predicted for a row, which is then learnt if it has the target; nothing for the first."""
        encoded = self.encoder.encode(row)
        answer: dict[str, Value] = {}
        if not self._is_new:
            low, high = self.model.interval(encoded.x, self.coverage)
            y_hat = float(self.model.predict(encoded.x))
            answer = {"predicted": y_hat, "low": float(low), "high": float(high)}
            if encoded.y is not None:
                answer["alarm"] = bool(self.alarms.judge(y_hat, encoded.y).alarm[0])
        if encoded.y is not None:
            self.model.learn(encoded.x, encoded.y)
            self._is_new = False
        return answer


def columns_of(options: Options, row: Mapping[str, Value]) -> Columns:
    """What the fields of a line are: it says itself whether they are numbers, truth values or texts."""
    names = options.features or tuple(name for name in row if name != options.target)
    names = tuple(name for name in names if name not in options.drop)
    if not names:
        raise CellError("without inputs", f"{options.target} alone, and no time", "add fields")
    kinds = {bool: "boolean", str: "text"}
    told = {name: kinds.get(type(row.get(name)), "number") for name in names}
    if TIME not in row:
        return Columns(target=options.target, features=names, kinds=told)
    told[TIME] = "time:ns"
    return Columns(target=options.target, features=names, time=(TIME,), kinds=told)
