"""Configuration files after changes of every kind, and what `load` makes of them.

    tally = odd_configurations(1000, seed=0)

Each must load, or be refused in one line.
"""

from __future__ import annotations

import pathlib
import random
import tempfile
from collections import Counter

from domkl.agent import load
from domkl.base.errors import DataError, InputError

GOOD = """
network = "net"
name = "a"
neighbours = ["b", "c"]
inputs = 3
payload = "float32"
dtype = "float64"
[model]
kind = "auto"
size = 64
loss = "squared"
seed = 1
start = 0.5
forgetting = "none"
[stream]
kind = "csv"
path = "in.csv"
follow = true
low = [0.0, 0.0, 0.0]
high = [1.0, 1.0, 1.0]
target_low = 0.0
target_high = 1.0
journal = true
dead_letters = "bad.jsonl"
[columns]
target = "y"
features = ["u", "v", "w"]
drop = ["z"]
time = ["t"]
learner = "who"
kinds = {t = "time:iso"}
categories = {}
na = ["-9"]
decimal = "."
separator = ";"
missing = "auto"
hashed = 4
calendar = ["hour"]
paths = {u = "a.0.u"}
[transport]
kind = "memory"
listen = ["127.0.0.1:7447"]
connect = ["[::1]:7448"]
broker = "127.0.0.1:1883"
user = "u"
password = "p"
discover = "lan"
insecure = false
max_bytes = 1000
inbox = 10
[rounds]
mode = "sync"
deadline = 5.0
start = 30.0
resend = 0.5
[checkpoint]
directory = "state"
every_rounds = 100
every_seconds = 30.0
sync = true
[output]
predictions = "-"
topic = "a/b"
retain = true
url = "http://127.0.0.1:8080/x"
coverage = 0.9
alarm_rate = 0.01
[http]
listen = "127.0.0.1:9464"
allow_remote = false
[log]
level = "info"
format = "json"
"""
PAPER = """
kind = "paper"
loss = "huber"
reg = 0.1
delta = 2.0
hedge = "local"
step = "newton"
memory = 100
[model.kernels]
family = "gaussian"
D = 10
seed = 3
sigma2 = [0.1, 1.0]
read_as = "bandwidth"
[model.rates]
horizon = 100
kappa = 1.0
kappa_g = 1.0
rho = 1.0
eta = 1.0
eta_g = 1.0
"""
NUMBERS = ["0", "-1", "1", "3.5", "1e308", "-1e400", "nan", "-inf", "9" * 5, "9" * 30, "9" * 400, "9" * 5000]
NUMBERS += ["0x" + "f" * 5000, "true", "false", "1979-05-27T07:32:00Z", "07:32:00"]
TEXTS = ['""', '"-"', '"a"', '"\\u0000"', '"::"', '"a:99999999999"', '"auto"', "'\\'", '"a\\nb"', '"../../x"']
TEXTS += ['"sqlite:"', '"postgresql://me:secret@[h/x"', '"a.parquet"', '"select 1"']
TEXTS += ['"' + "a" * 10_000 + '"', '"127.0.0.1:' + "9" * 5000 + '"']
NESTS = [
    "[]",
    "[1]",
    '["a"]',
    '["a", "a"]',
    "[[1]]",
    "[1, true]",
    "[nan, inf, 1e400]",
    "[" * 3000 + "]" * 3000,
]
NESTS += ["{}", "{a = 1}", "{kind = 3}", "{a = " * 500 + "1" + "}" * 500]
VALUES = NUMBERS + TEXTS + NESTS
KEYS = [
    "query",
    "within",
    "alarm_rate",
    "size",
    "kind",
    "path",
    "D",
    "unknown",
    "self",
    "a.b.c",
    '""',
    "__class__",
    "rates",
    "horizon",
]


def configuration(rng):
    """The text of a right configuration after one to three changes."""
    top, _, rest = GOOD.partition("[model]")
    auto, _, others = rest.partition("[stream]")
    if rng.random() < 0.4:
        auto = PAPER
    lines = f"{top}[model]{auto}[stream]{others}".strip().splitlines()
    for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
        rng.choice(CHANGES)(rng, lines)
    return "\n".join(lines)


def _new_value(rng, lines):
    i = rng.choice([i for i, line in enumerate(lines) if "=" in line] or [0])
    lines[i] = f"{lines[i].partition(' = ')[0]} = {rng.choice(VALUES)}"


def _new_key(rng, lines):
    lines.insert(rng.randrange(len(lines)), f"{rng.choice(KEYS)} = {rng.choice(VALUES)}")


def _no_line(rng, lines):
    if len(lines) > 1:
        del lines[rng.randrange(len(lines))]


def _twice(rng, lines):
    lines.insert(rng.randrange(len(lines)), rng.choice(lines))


def _other_place(rng, lines):
    lines.insert(rng.randrange(len(lines)), lines.pop(rng.randrange(len(lines))))


def _flipped(rng, lines):
    i = rng.randrange(len(lines))
    if lines[i]:
        k = rng.randrange(len(lines[i]))
        lines[i] = lines[i][:k] + rng.choice('[]{}"=.\x00\ud7ff0#') + lines[i][k + 1 :]


CHANGES = [_new_value] * 3 + [_new_key, _no_line, _twice, _other_place, _flipped]


def odd_configurations(count, seed=0):
    """Load changed configurations; how many loaded, and how many were refused in one line."""
    rng, tally = random.Random(seed), Counter()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "a.toml"
        for _ in range(count):
            text = configuration(rng)
            path.write_text(text, encoding="utf-8")
            tally[_outcome(path, text)] += 1
    return dict(tally)


def _outcome(path, text):
    try:
        load(path, {})
        return "loaded"
    except (InputError, DataError) as error:
        if len(str(error).splitlines()) == 1:
            return "refused"
        raise
    except Exception as error:
        raise AssertionError(f"{error!r} for\n{text[:3000]}") from error
