"""Checks of a handed model's state: shapes and ranges of all of it, before anything is made from it.

Whatever a file claims (parameters, inputs, learners) must be what its arrays have, so that reading takes no
more memory than the file, and numbers that no training gives are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..base import checks
from ..base.types import Array
from ..learning.auto import C
from ..learning.auto.additive import Terms
from ..learning.auto.change import EXPERTS
from ..learning.auto.experts import FIRST, NAMES
from ..learning.auto.features import Features
from ..learning.auto.label_unit import MOST as MOST_UNIT
from ..learning.auto.message import SCALARS
from ..learning.settings import Auto

#: The largest whole number: counts of rounds and samples.
MOST = 2**53
#: A length that may be any.
ANY = -1

Shape = tuple[int, ...]


def check_names(names: Any, inputs: int) -> tuple[str, ...]:
    """Names of inputs: none, or a different one for each."""
    found = tuple(names)
    need(not found or len(set(found)) == len(found) == inputs, f"{inputs} inputs have {len(found)} names")
    need(all(isinstance(name, str) for name in found), "a name is no text")
    return found


def check_auto(settings: Auto, rows: Mapping[str, Any]) -> None:
    """Raise ValueError unless these are the rows of one learner, as `hand_over` leaves them."""
    first, now = (settings.check_inputs(rows["inputs"][name]) for name in ("first", "now"))
    need(first <= now, f"{now} inputs were {first}")
    theta = rows["joint"]["state"]["theta"]
    K = theta.shape[-1]
    need(settings.size <= 3 * K + 100, f"size is {settings.size} with {K} parameters a model")
    for group, shapes in expected(rows, now, K):
        for name, shape in shapes.items():
            check_array(name, group[name], shape)
    for name, value in numbers(rows):
        need(is_number(name, value), f"{name} is {checks.short(value)}")
    _check_alone(rows)
    _check_errors(rows["gate"])
    check_labels(rows)
    check_ridge(rows)
    check_counts(rows)
    check_scale(rows["scale"])
    check_sizes(settings, first, now, K, rows["memories"]["all"])


def check_paper(state: Mapping[str, Any], names: Sequence[str]) -> None:
    """Raise ValueError unless these are kernels, parameters and a scale that go together."""
    P, D, d = state["V"].shape
    need(min(P, D, d) > 0, "it has no kernels")
    shapes = {"V": (P, D, d), "theta": (P, 2 * D), "L": (P,), "q": (P,), "mean": (d,), "factor": (d,)}
    for name in names:
        check_array(name, state[name], shapes[name])
    need(bool((state["q"] >= 0).all() and (state["factor"] >= 0).all()), "a weight or factor is below 0")
    need(abs(float(state["y_mean"])) <= checks.LARGEST, f"y_mean is {state['y_mean']}")
    need(checks.NARROWEST < float(state["y_scale"]) <= checks.LARGEST, f"y_scale is {state['y_scale']}")
    need(state["loss"] in Auto.LOSSES, f"loss is {checks.short(state['loss'])}")


def expected(
    rows: Mapping[str, Any], d: int, K: int, J: int = 1, kept: int = 0
) -> list[tuple[Mapping[str, Any], dict[str, Shape]]]:
    """Every array of J learners' rows by name, with the shape that it must have; `kept`: of samples."""
    joint, memories, scale = rows["joint"], rows["memories"], rows["scale"]
    n = len(NAMES) if memories["all"] else FIRST
    one, many = (J,), len(scale["inputs"]["n"])  # a scale is common, or each learner's own
    need(many in (1, J), f"there are {many} scales")
    columns = dict.fromkeys(("n", "mean", "sd", "low", "high"), (many, d))
    watch = dict.fromkeys(("level", "surplus", "since", "lasting", "usual_error"), one)
    return [
        (rows, {"low": one, "high": one, "weight": one, "own_range": (2, J), "is_far": one}),
        (scale, {"centre": one, "width": one, "whole": (kept,)}),
        (scale["inputs"], {**columns, "quantiles": (many, ANY, d)}),
        (rows["experts"], _experts(J, n)),
        (rows["ridges"], _experts(J, 2)),
        (rows["halves"], _experts(J, 2)),
        (rows["residual"], {**dict.fromkeys(("last", "gain", "vector"), (J, 2)), "matrix": (J, 2, 2)}),
        (rows["residual"], {"size": one, "pairs": one}),
        (rows["dependence"], {"last": one, "size": one, "pairs": one}),
        (
            rows["own_watch"],
            {**dict.fromkeys(("errors", "guesses", "labels"), (J, kept)), "since": one, "age": one},
        ),
        (rows["unit"], {"shift": one, "factor": one}),
        (rows["warm_up"], {"gone": one, "skip": one}),
        (joint, {"mean": (J, C.models, K), "ridge": one, "restarts": one}),
        (joint["state"], _second_order(J, C.models, K)),
        *([] if rows["gate"] is None else [(rows["gate"], _gate(J, kept))]),
        *([] if joint["own"] is None else _of_own(J, C.models, K, joint["own"])),
        (memories, {"alarm": (J, 2), "restart": (J, 2)}),
        (memories["detector"], {**watch, "errors": (J, EXPERTS)}),
        *(each for memory in memories["all"] for each in _of_memory(J, memory)),
        *([] if rows["own_memory"] is None else _of_own_memory(J, d, rows["own_memory"])),
    ]


def _experts(J: int, n: int) -> dict[str, Shape]:
    return {"log_weights": (J, n), "errors": (J, n), "rounds": (n,)}


def _gate(J: int, kept: int) -> dict[str, Shape]:
    return {"errors": (J, ANY), "labels": (J, kept)}


def _of_own(
    J: int, P: int, K: int, own: Mapping[str, Any]
) -> list[tuple[Mapping[str, Any], dict[str, Shape]]]:
    wide: dict[str, Shape] = dict.fromkeys(("m", "weak", "apart", "weak_before", "apart_before"), (J, P, K))
    halves = {"half": (J, P, K * (K + 1) // 2), "terms": (J, P, ANY, K)}
    return [(own, wide | halves), (own["judge"], {"since": (J,)})]


def _of_memory(J: int, memory: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], dict[str, Shape]]]:
    K = _parameters(memory)
    own = {"variances": (J, K), "noise": (J,), "mean": (J, 1, K), "diagonal": (J, K)}
    return [(memory, own), (memory["state"], _second_order(J, 1, K))]


def _of_own_memory(
    J: int, d: int, own: Mapping[str, Any]
) -> list[tuple[Mapping[str, Any], dict[str, Shape]]]:
    columns = dict.fromkeys(("n", "mean", "sd", "low", "high"), (J, d))
    return [
        (own["scale"], {"centre": (J,), "width": (J,), "whole": (0,)}),
        (own["scale"]["inputs"], {**columns, "quantiles": (J, ANY, d)}),
        *_of_memory(J, own["memory"]),
    ]


def _second_order(J: int, P: int, K: int) -> dict[str, Shape]:
    wide = dict.fromkeys(("theta", "lam", "theta_sum", "m"), (J, P, K))
    return {**wide, "L": (J, P), "q": (J, P), "half": (J, P, K * (K + 1) // 2), "terms": (J, P, ANY, K)}


def check_array(name: str, array: Any, shape: Shape) -> None:
    found = array.shape if isinstance(array, np.ndarray) else None
    fits = found is not None and len(found) == len(shape)
    fits = fits and all(want in (ANY, have) for have, want in zip(array.shape, shape, strict=True))
    need(fits and array.dtype.kind in "fi", f"{name} has shape {found} and not {shape}")
    checks.finite(name, array)
    need(name != "rounds" or bool((array >= 0).all()), "a count of rounds is below 0")


def numbers(state: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """All that is in a state but arrays."""
    inner = state.items() if isinstance(state, Mapping) else [(name, item) for item in state]
    for key, item in inner:
        if isinstance(item, Mapping | list):
            yield from numbers(item, key)
        elif not isinstance(item, np.ndarray):
            yield key, item


def is_number(name: str, value: Any) -> bool:
    """Whether it is a count, or the length of a memory, which may be without end; samples are absent."""
    if value is None:
        # Of version 1, or of samples that are not handed over.
        return name in ("x", "y", "own", "gate", "z", "misses", "own_memory")
    if isinstance(value, float):
        return name == "rounds" and value >= 1
    return isinstance(value, int) and 0 <= value <= MOST


def _check_alone(rows: Mapping[str, Any]) -> None:
    """Refuse samples, and anything of a network."""
    warm = rows["warm_up"]
    own = rows["joint"]["own"] or {}
    judge = {name: value for name, value in own.get("judge", {}).items() if name not in ("count", "since")}
    need(not own or (not own["judge"]["count"] and not own["judge"]["since"].any()), "it counts samples")
    kept = [warm["samples"], rows["memories"]["recent"], judge]
    need(not any(v is not None for each in kept for v in each.values()), "it holds samples")
    need(rows["late"] == rows["known"] == [], "it holds values of single inputs")
    need(warm["learners"] == 1 and warm["diameter"] == 0, f"it is of {warm['learners']} learners")
    need(bool(warm["over"]) and not warm["shared"], "its scale may still change")
    watch = rows["own_watch"]
    counts = watch["since"], watch["age"], warm["gone"], warm["skip"]
    need(not any(each.any() for each in counts), "it counts samples that it does not hold")
    need(
        rows["own_memory"] is None and not rows["is_far"].any(),
        "it has a memory that only a learner with neighbours can have",
    )
    need(len(rows["memories"]["all"]) in (0, 3), f"it has {len(rows['memories']['all'])} memories")


def check_labels(rows: Mapping[str, Any]) -> None:
    """Refuse labels without predictions, counts of labels that are not there, and units that are none."""
    watch, factor = rows["own_watch"], rows["unit"]["factor"]
    n = watch["labels"].shape[1]
    need(watch["guesses"].shape[1] == n <= C.label_window, f"{n} labels have other predictions")
    need(watch["errors"].shape[1] <= C.label_window, f"it has {watch['errors'].shape[1]} errors")
    need(bool(((watch["age"] >= 0) & (watch["age"] <= n)).all()), "it counts labels that it does not hold")
    since = watch["since"]
    need(
        bool(((since >= 0) & (since <= watch["errors"].shape[1])).all()),
        "it counts errors that are not there",
    )
    need(bool(((factor >= 1 / MOST_UNIT) & (factor <= MOST_UNIT)).all()), "a unit's factor is not above 0")
    need(
        bool((np.abs(rows["unit"]["shift"]) <= checks.LARGEST * MOST_UNIT).all()),
        "a unit's shift is too large",
    )


def check_counts(rows: Mapping[str, Any]) -> None:
    """Refuse counts of samples that are not there, and of restarts that cannot be."""
    warm, joint = rows["warm_up"], rows["joint"]
    kept = 0 if warm["samples"]["y"] is None else len(warm["samples"]["y"])
    most = [("gone", warm, kept), ("skip", warm, kept), ("restarts", joint, MOST)]
    if joint["own"] is not None:
        most.append(("since", joint["own"]["judge"], joint["own"]["judge"]["count"]))
    for name, part, limit in most:
        counts = part[name]
        fits = counts.dtype.kind == "i" and bool(((counts >= 0) & (counts <= limit)).all())
        need(fits, f"{name} is not a count of at most {limit}")


def check_ridge(rows: Mapping[str, Any]) -> None:
    """Refuse a ridge that no correlation of errors leads to."""
    ridge = rows["joint"]["ridge"]
    need(bool(((ridge >= 1) & (ridge <= C.ridge_most)).all()), "a ridge is out of its range")
    need(bool((rows["dependence"]["size"] >= 0).all()), "a sum of squares is below 0")


def _check_errors(gate: Mapping[str, Any] | None) -> None:
    if gate is not None:
        errors = gate["errors"]
        need(errors.shape[1] <= C.label_window, f"it has {errors.shape[1]} errors")
        need(bool((errors >= 0).all()), "an absolute error is below 0")


def check_scale(scale: Mapping[str, Any]) -> None:
    inputs = scale["inputs"]
    need(2 <= inputs["quantiles"].shape[1] <= C.quantile_steps + 1, "it has another number of quantiles")
    good = (inputs["n"] >= 0) & (inputs["sd"] >= 0) & (inputs["low"] <= inputs["high"])
    need(bool(good.all()), "its statistics are of no data")
    need(float(scale["width"][0]) > checks.NARROWEST, f"width is {scale['width'][0]}")


def check_sizes(settings: Auto, first: int, now: int, K: int, memories: Sequence[Any]) -> None:
    """The settings lead to as many parameters as there are."""
    terms = Terms(int(C.memory_part * settings.size), first)
    left = settings.size - SCALARS - (terms.K if settings.forgetting == "auto" else 0)
    for c in range(first, now):
        terms.add_input(c)
    made = Features.sizes(left, first, now)
    need(2 * made.D + 1 + made.linear == K, f"a model has {K} parameters, of size {settings.size}")
    for one in memories:
        need(_parameters(one) == terms.K, f"a memory has {_parameters(one)} parameters")
        need(bool((one["variances"] > 0).all() and (one["noise"] > 0).all()), "a variance is not above 0")


def _parameters(memory: Mapping[str, Any]) -> int:
    theta: Array = memory["state"]["theta"]
    return int(theta.shape[-1])


def need(good: bool, fact: str) -> None:
    if not good:
        raise ValueError(fact)
