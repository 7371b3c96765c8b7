"""Handed models that claim what they do not hold: refused in one line, before anything is made from them."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest

from domkl.base.errors import DataError
from domkl.learner import files, handed
from taught import MODELS, taught
from test_handover_files import rewritten


@pytest.fixture(scope="module")
def contents():
    """A file's bytes of each kind of model."""
    return {kind: taught(kind, 100) for kind in MODELS}


def put(path, value):
    """Sets a field of the description, by its dotted path."""

    def change(arrays, meta):
        *outer, last = path.split(".")
        inside = meta["state"]["fields"]
        for name in outer:
            inside = inside[int(name)] if isinstance(inside, list) else inside[name]
            inside = inside["fields"] if isinstance(inside, dict) and "fields" in inside else inside
        inside[last] = value

    return change


def fill(ending, value):
    """Sets all of an array."""

    def change(arrays, meta):
        name = next(name for name in arrays if name.endswith(ending))
        arrays[name] = np.full(arrays[name].shape, float(value))

    return change


def scale(ending, by, skew=0.0):
    """Multiplies a matrix, and makes its halves differ."""

    def change(arrays, meta):
        name = next(name for name in arrays if name.endswith(ending))
        arrays[name] = by * arrays[name] + skew * np.triu(np.ones(arrays[name].shape), 1)

    return change


def whole(ending):
    """Writes whole numbers."""

    def change(arrays, meta):
        name = next(name for name in arrays if name.endswith(ending))
        arrays[name] = np.rint(arrays[name]).astype(np.int64)

    return change


def resize(ending, *shape):
    def change(arrays, meta):
        name = next(name for name in arrays if name.endswith(ending))
        arrays[name] = np.zeros(shape)

    return change


def number(value):
    return {"float": float(value).hex()}


LIES = {
    "auto": [
        put("settings.size", 10**9),
        put("settings.size", 20_000),
        put("settings.size", 119),
        put("settings.start", number("nan")),
        put("settings.kind", "paper"),
        put("settings", {"fields": {"kind": "paper"}}),
        put("rows.inputs", 10**6),
        put("rows.inputs", 4096),
        put("rows.inputs", 2),
        put("rows.inputs", -1),
        put("rows.inputs", number(3)),
        put("rows.scale", None),
        put("rows.consensus", None),
        put("rows.scale.known", [[]] * 2),
        put("rows.scale.known", [[["b", 0, [], [], []]]]),
        put("rows.scale.known", [[["b", 1, [number("nan")] * 4, [number(0)] * 4, []]]]),
        put("rows.memory", {"fields": {}}),
        put("names", ["a", "b"]),
        put("names", ["a", "a", "b"]),
        put("names", [1, 2, 3]),
        fill("scale.width", 0.0),
        fill("scale.width", -1.0),
        fill("scale.width", 1e-300),
        fill("recent.variance", 0.0),
        fill("scale.deviation", -1.0),
        fill("scale.span", -1.0),
        fill("scale.mean", 1e200),
        fill("scale.number", -1.0),
        fill("scale.number", 0.5),
        fill("consensus.theta", 1e151),
        fill("consensus.tau", -1.0),
        fill("inverse.base", np.nan),
        fill("inverse.base", 0.0),
        fill("inverse.base", 1.0),
        scale("inverse.base", -1.0),
        scale("inverse.base", 1e6),
        scale("inverse.base", 1.0, skew=1e-3),
        scale("recent.S", -1.0),
        whole("inverse.base"),
        fill("inverse.U", 0.5),
        fill("consensus.weight", -1.0),
        fill("rows.consensus.restarts", np.nan),
        fill("rows.consensus.degree", -1.0),
        resize("scale.quantiles", 1, 400, 3),
        resize("consensus.theta", 1, 1, 900),
        resize("consensus.lam", 1, 2, 1),
        resize("inverse.base", 1, 5, 5),
        resize("inverse.U", 1, 5, 5),
        resize("memory.X", 1, 1, 3),
        resize("mixture_mixer.errors", 1, 11),
        resize("rows.consensus.restarts", 2),
        resize("rows.consensus.degree", 2),
    ],
    "paper": [
        put("y_mean", number("nan")),
        put("y_mean", number(1e300)),
        put("y_scale", number(0)),
        put("y_scale", number("inf")),
        put("y_scale", "much"),
        put("loss", "huber"),
        put("rates", [number(1), number("nan"), number(1)]),
        put("rates", [number(1)]),
        put("names", ["a"] * 3),
        fill("theta", 1e101),
        fill("factor", -1.0),
        resize("V", 17, 50, 0),
        resize("V", 17, 50, 4),
        resize("mean", 10**6),
    ],
}


@pytest.mark.parametrize(("kind", "lie"), [(kind, i) for kind in LIES for i in range(len(LIES[kind]))])
def test_a_lie_is_refused_in_one_line_at_once(tmp_path, contents, kind, lie):
    path = tmp_path / "a.model"
    handed.write(path, contents[kind])
    rewritten(path, LIES[kind][lie])
    start = time.process_time()
    with pytest.raises(
        DataError, match=r"cannot be used as a model: .*; expected a file of hand_over"
    ) as error:
        handed.read(path)
    assert time.process_time() - start < 0.5  # seconds, most of them for the digest of a file that is whole
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400 + len(str(path))


def test_a_file_of_a_hundred_bytes_cannot_ask_for_gigabytes(tmp_path):
    settings = {"fields": {"kind": "auto", "size": 10**9}}
    rows = {"fields": {"inputs": 10**6}}
    state = {"fields": {"kind": "auto", "names": [], "settings": settings, "rows": rows, "errors": []}}
    meta = {"schema": "model", "version": 1, "state": state}
    path = tmp_path / "a.model"
    for _ in range(2):
        path.write_bytes(files.content({}, {}, meta | {"digest": files.seal_of({}, meta)}))
        with pytest.raises(DataError, match="cannot be used as a model"):
            handed.read(path)
        settings["fields"]["size"] = 20_000


def test_a_description_without_end_is_refused(tmp_path):
    path, deep = tmp_path / "a.model", "[" * 100_000 + "]" * 100_000
    header = json.dumps({"__metadata__": {"meta": f'{{"state": {deep}}}'}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(DataError, match="cannot be used as a model"):
        handed.read(path)
