"""An outcome as plain data ready for JSON, as columns of text, and in words; all else shows these."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ...base.types import Array
from ...base.words import column, number, percent, plural, with_unit
from ...learning import losses
from ...learning.losses import Loss
from ...models.settings import KernelSpec
from ..trial import Outcome

Document: TypeAlias = "dict[str, Any]"
#: So many kernels of each learner are listed as its top kernels.
TOP = 3


class Measure(NamedTuple):
    """An error as figures show it: root mean square, or share of wrong classes."""

    name: str
    unit: str
    samples: Array  # (J, T) whose mean, or the root of whose mean, is the error
    root: bool

    @property
    def axis(self) -> str:
        """Label of an axis that shows this error."""
        return f"{self.name}, {self.unit}" if self.unit else self.name

    def of(self, means: Array) -> Array:
        """The error where samples have these means."""
        return np.asarray(np.sqrt(np.maximum(means, 0)) if self.root else means)

    def words(self, error: float) -> str:
        """An error with its unit."""
        return with_unit(float(error), self.unit)


def document(outcome: Outcome) -> Document:
    """Everything about an outcome, ready for `json.dumps(..., allow_nan=False)`.

    Every error is in the data's unit: "mse", "cv" and the baselines in `unit` squared, "rmse" in `unit`, the
    root of "mse"; "scale" is the factor from the learners' own squared errors. "alone" is what a learner
    would have with its own samples only. "model" holds the settings as given, "rates" and
    "kernels" what they became. "sent" is how many values a learner sends to each neighbour in a round, on
    average. What is not finite, not known, or not part of the model is None. Of several targets there is a
    document for each, under "targets".
    """
    if len(parts := outcome.parts()) > 1:
        return {"targets": [document(part) for part in parts]}
    return {
        **_setting(outcome),
        "learners": [_learner(outcome, j) for j in range(outcome.graph.J)],
        "network": _network(outcome),
        "single_kernels": _single_kernels(outcome),
        "notes": list(outcome.notes),
    }


def measure(outcome: Outcome) -> Measure:
    """The error of every prediction: wrong classes where labels are classes, else squared errors."""
    labels, y_hat = _labels(outcome), outcome.run.y_hat
    if _loss(outcome).classifies:
        return Measure("wrong classes", "%", np.where(labels * y_hat > 0, 0.0, 100.0), root=False)
    return Measure("RMSE", outcome.unit, outcome.scale * (y_hat - labels) ** 2, root=True)


def names_of(outcome: Outcome) -> list[str]:
    """The learners' names, as text."""
    return [str(name) for name in outcome.graph.names]


def plain(value: Any) -> float | None:
    """A number for JSON, which has neither NaN nor infinity."""
    return float(value) if math.isfinite(value) else None


def _loss(outcome: Outcome) -> Loss:
    return outcome.experiment.model.loss_function


def _labels(outcome: Outcome) -> Array:
    """The labels that errors are measured against. (J, T)"""
    return losses.labels(_loss(outcome), outcome.split.y)


def _setting(outcome: Outcome) -> Document:
    experiment, names, rates = outcome.experiment, names_of(outcome), outcome.rates
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "dataset": outcome.dataset,
        "target": outcome.source.target,
        "unit": outcome.unit,
        "scale": float(outcome.scale),
        "rounds": int(outcome.split.y.shape[1]),
        "delay": int(outcome.split.delay),
        "model": experiment.model.table,
        "loss": _loss(outcome).name,
        "reg": float(_loss(outcome).reg),
        "rates": None if rates is None else {name: float(value) for name, value in vars(rates).items()},
        "kernels": _kernels(outcome),
        "sent": plain(outcome.run.sent),
        "graph": {
            "name": str(experiment.graphs[0]),
            "note": outcome.graph.note,
            "edges": [[names[a], names[b]] for a, b in outcome.graph.edges],
        },
    }


def _kernels(outcome: Outcome) -> Document | None:
    model = outcome.experiment.paper_model
    if model is None:
        return None
    used = dataclasses.replace(model, kernels=KernelSpec()) if model.kernels is None else model
    return {**used.table["kernels"], "fingerprint": outcome.fingerprint}


def _errors(outcome: Outcome, learners: list[int]) -> Document:
    """Means over some learners; `best_kernel` is the one kernel that is best for all of them together."""
    run, loss = outcome.run, _loss(outcome)
    right = run.y_hat[learners] * _labels(outcome)[learners] > 0  # a score of 0 is not right

    def squared(values: Array) -> float | None:
        return plain(outcome.scale * values[learners].mean())

    kernels = run.kernel_mse[learners].mean(0)
    p = int(np.where(np.isfinite(kernels), kernels, np.inf).argmin())
    best = (
        {"sigma2": float(outcome.sigma2[p]), "mse": plain(outcome.scale * kernels[p])}
        if outcome.sigma2
        else None
    )
    return {
        "mse": squared(run.mse),
        "rmse": plain(np.sqrt(outcome.scale * run.mse[learners].mean())),
        "cv": squared(run.cv),
        "accuracy": plain(right.mean()) if loss.classifies else None,
        "mse_alone": squared(outcome.mse_alone),
        "rmse_alone": plain(np.sqrt(outcome.scale * outcome.mse_alone[learners].mean())),
        "baselines": {name: squared(mse) for name, mse in outcome.baselines.items()},
        "best_kernel": None if best is None else {**best, "mse": plain(outcome.scale * kernels[p])},
    }


def _learner(outcome: Outcome, j: int) -> Document:
    run, names = outcome.run, names_of(outcome)
    largest = np.argsort(-run.q[j], kind="stable")[: TOP if outcome.sigma2 else 0]
    top = [
        {
            "sigma2": float(outcome.sigma2[p]),
            "weight": plain(run.q[j, p]),
            "mse": plain(outcome.scale * run.kernel_mse[j, p]),
        }
        for p in largest
    ]
    near = [names[i] for i in outcome.graph.neighbours[j]]
    return {"name": names[j], "neighbours": near, **_errors(outcome, [j]), "top_kernels": top}


def _network(outcome: Outcome) -> Document:
    known = _errors(outcome, list(range(outcome.graph.J)))
    best = plain(outcome.scale * outcome.run.kernel_mse.min(1).mean()) if outcome.sigma2 else None
    return {**known, "best_kernels_mse": best, "unused": unused(outcome.run.trust)}


def _single_kernels(outcome: Outcome) -> list[Document]:
    mse, cv, q = (a.mean(0) for a in (outcome.run.kernel_mse, outcome.run.kernel_cv, outcome.run.q))
    return [
        {
            "sigma2": float(s),
            "mse": plain(outcome.scale * mse[p]),
            "cv": plain(outcome.scale * cv[p]),
            "weight": plain(q[p]),
        }
        for p, s in enumerate(outcome.sigma2)
    ]


#: A kernel with less weight than this is not listed, unless it has the most.
WORTH_NAMING = 0.01


class Column(NamedTuple):
    """One measure of all learners."""

    head: str
    measure: str  # MSE, or nothing where the head tells
    unit: str
    cells: list[str]
    mean: str
    best: frozenset[int | str] = frozenset()  # rows, and "mean", in which it is the least


class KernelRow(NamedTuple):
    """A single kernel by itself."""

    sigma2: str
    mse: str
    cv: str
    weight: str
    length: float  # of its bar, a share of the longest
    best: bool


def learner_columns(facts: Document) -> list[Column]:
    """One row for each learner, and the mean of the network."""
    sources, unit = _sources(facts), squared_unit(facts)
    best, everyone = _least_rows(sources), (*facts["learners"], facts["network"])
    found = []
    for name, values, mean in sources:
        *cells, last = column([*values, mean])
        found.append(Column(name, "MSE", unit, cells, last, best[name]))
    if has_classes(facts):
        *cells, last = [percent(one["accuracy"]) for one in everyone]
        found.append(Column("right", "", "", cells, last))
    else:
        *cells, last = column([one["rmse"] for one in everyone])
        found.append(Column("RMSE", "", facts["unit"], cells, last))
    if has_neighbours(facts):
        *cells, last = column([one["cv"] for one in everyone])
        found.append(Column("CV", "", unit, cells, last))
    return found


def _sources(facts: Document) -> list[tuple[str, list[float | None], float | None]]:
    """Name, mean squared error of each learner, and of the network; the report's own learners first."""
    learners, network = facts["learners"], facts["network"]
    baselines = [
        (name, [one["baselines"][name] for one in learners], mean)
        for name, mean in network["baselines"].items()
    ]
    found = [(facts["model"]["kind"], [one["mse"] for one in learners], network["mse"])]
    if has_neighbours(facts):
        found.append(("alone", [one["mse_alone"] for one in learners], network["mse_alone"]))
    if has_kernels(facts):
        best = [one["best_kernel"]["mse"] for one in learners]
        found.append(("best kernel", best, network["best_kernels_mse"]))
    return [*found, *baselines]


def _least_rows(
    sources: list[tuple[str, list[float | None], float | None]],
) -> dict[str, frozenset[int | str]]:
    """The rows in which each source's error is the least, as far as a reader sees.

    What is known only in hindsight does not count.
    """
    found: dict[str, set[int | str]] = {name: set() for name, _, _ in sources}
    known = [one for one in sources if one[0] != "best kernel"]
    rows: list[int | str] = ["mean", *range(len(known[0][1]))]
    for row in rows:
        errors = {name: mean if row == "mean" else cells[row] for name, cells, mean in known}  # type: ignore[index]
        least = min((error for error in errors.values() if error is not None), default=None)
        for name, error in errors.items():
            if error is not None and number(error) == number(least):
                found[name].add(row)
    return {name: frozenset(places) for name, places in found.items()}


def has_classes(facts: Document) -> bool:
    """Whether labels are classes, so that right ones can be counted."""
    return facts["network"]["accuracy"] is not None


def has_neighbours(facts: Document) -> bool:
    """Whether there are learners to learn together."""
    return len(facts["learners"]) > 1


def has_kernels(facts: Document) -> bool:
    """Whether there are kernels with weights of their own, as in the paper's model."""
    return bool(facts["single_kernels"])


def squared_unit(facts: Document) -> str:
    """The unit of squared errors, or nothing."""
    return f"{facts['unit']}²" if facts["unit"] else ""


def top_words(learner: Document, most: int) -> str:
    """σ² and weight of the kernels with most weight."""
    top = learner["top_kernels"][:most]
    named = [k for i, k in enumerate(top) if i == 0 or (k["weight"] or 0) >= WORTH_NAMING]
    return " · ".join(f"σ²={number(k['sigma2'])} {percent(k['weight'])}" for k in named)


def kernel_rows(facts: Document) -> list[KernelRow]:
    """Every kernel by itself, in the order of the dictionary."""
    kernels = facts["single_kernels"]
    roots = [math.inf if k["mse"] is None else math.sqrt(k["mse"]) for k in kernels]
    finite = [root for root in roots if root < math.inf]
    longest = max(finite, default=0.0) or 1.0
    best = roots.index(min(finite)) if finite else None
    return [
        KernelRow(
            number(kernel["sigma2"]),
            number(kernel["mse"]),
            number(kernel["cv"]),
            percent(kernel["weight"]),
            min(roots[p] / longest, 1.0),
            p == best,
        )
        for p, kernel in enumerate(kernels)
    ]


#: Longer lists are shown as their range, or counted.
MOST_LINKS, MOST_VALUES = 30, 4
#: Errors that differ by a smaller share are called the same.
SAME = 0.005
ALONE_WORDS = "the same learners without neighbours"
METHODS = {
    "auto": "learners of domkl.Auto, each with its own data and its neighbours' messages",
    "paper": "learners of the paper (DOMKL), each with its own data and its neighbours' messages",
    "best kernel": "lowest error of any single kernel at that learner, known only in hindsight",
    "simple guess": "the best for each learner of: last known label, same time yesterday or last week, mean "
    "of the hour, mean so far; of all labels and of those with the same categories",
}


def setting_line(facts: Document) -> str:
    """Who learnt, on which network, and for how long."""
    learners, delay = plural(len(facts["learners"]), "learner"), facts["delay"]
    late = f", labels known {plural(delay, 'round')} later" if delay else ""
    rounds, model = plural(facts["rounds"], "round"), facts["model"]["kind"]
    network = f"{facts['graph']['name']} network, {rounds} each" if has_neighbours(facts) else rounds
    return f"{learners}, {network}{late}, model {model}"


def sentence(facts: Document) -> str:
    """The result in plain words."""
    network, J = facts["network"], len(facts["learners"])
    who = "The learner predicts" if J == 1 else f"The {J} learners predict"
    what = "with a root mean squared error (RMSE)"
    if has_classes(facts):
        what = f"{percent(network['accuracy'])} of the classes right; their scores have a mean squared error"
    return f"{who} {what} of {_level(facts, network['mse'])}. {_comparison(facts)}"


def headline(facts: Document) -> str:
    """The title, and how much better or worse than the best simple guess the learners are."""
    title, network = str(facts["title"] or facts["experiment"]), facts["network"]
    ours, best = network["mse"], network["baselines"].get("simple guess")
    if best is None or ours is None:
        return title
    if not has_classes(facts):
        ours, best = math.sqrt(ours), math.sqrt(best)
    words = difference(ours, best)
    return f"{title}: {words} {'as' if words.startswith('the') else 'than'} the best simple guess"


def verdict(facts: Document) -> str:
    """Whether it paid to learn together, in one line; nothing for a learner without neighbours."""
    network = facts["network"]
    if not has_neighbours(facts) or network["mse"] is None or network["mse_alone"] is None:
        return ""
    squared = [network["mse"], network["mse_alone"]]
    errors = squared if has_classes(facts) else [math.sqrt(mse) for mse in squared]
    words = together_or_alone(errors[0], errors[1], facts["unit"])
    words = f"Mean squared error: {words}" if has_classes(facts) else words
    return f"{words}{unused_words(network['unused'], len(facts['learners']))}"


def unused(trust: Array) -> int:
    """How many learners used less than half of their neighbours' messages, of those that judged some."""
    judged = np.isfinite(trust).any(-1) if trust.size else np.zeros(0, bool)
    return int((np.nanmean(trust[judged], -1) < 0.5).sum()) if judged.any() else 0


def unused_words(n: int, J: int) -> str:
    """A sentence about learners that made little use of their neighbours.

    >>> unused_words(2, 3)
    ' 2 of 3 learners hardly used their neighbours.'
    """
    return f" {n} of {plural(J, 'learner')} hardly used their neighbours." if n else ""


def together_or_alone(together: float, alone: float, unit: str = "") -> str:
    """Two errors, and how they differ.

    >>> together_or_alone(3.9, 4.06, "°F")
    'Together 3.90 °F, alone 4.06 °F: 4 % less error.'
    """
    shown = (f"{error} {unit}".strip() for error in column([together, alone]))
    return "Together {}, alone {}: {}.".format(*shown, difference(together, alone))


def difference(together: float, alone: float) -> str:
    """What learning together changes, in words.

    >>> difference(3.9, 4.06), difference(4.25, 4.06), difference(4.06, 4.05)
    ('4 % less error', '5 % more error', 'the same error')
    """
    if abs(together - alone) <= SAME * alone:
        return "the same error"
    share = f"{percent(abs(together / alone - 1))} " if alone else ""
    return f"{share}{'less' if together < alone else 'more'} error"


def _comparison(facts: Document) -> str:
    network, best = facts["network"], facts["network"]["best_kernel"]
    others = []
    if best is not None:
        level, sigma2 = _level(facts, best["mse"]), number(best["sigma2"])
        others.append(f"{level} for the best single kernel in hindsight (σ²={sigma2})")
    others += [f"{_level(facts, mse)} for “{name}”" for name, mse in network["baselines"].items()]
    return f"For comparison: {'; '.join(others)}."


def _level(facts: Document, mse: float | None) -> str:
    """A mean squared error as the headline shows it: of numbers its root, with the unit."""
    if has_classes(facts) or mse is None:
        return number(mse)
    return with_unit(math.sqrt(mse), facts["unit"])


def settings_words(facts: Document) -> dict[str, str]:
    """What was run: the experiment, and every setting of the model by its name in files."""
    known = {name: facts[name] for name in ("kernels", "loss", "reg") if facts[name]}
    model, used, sent = {**facts["model"], **known}, facts["rates"], facts["sent"]
    links = [f"{a} – {b}" for a, b in facts["graph"]["edges"]]
    listed = ": " + ", ".join(links) if 0 < len(links) <= MOST_LINKS else ""
    return {
        "Experiment": facts["experiment"],
        "Data": f"{facts['dataset']}, {plural(facts['rounds'], 'round')} for each learner",
        "Delay": f"{plural(facts['delay'], 'round')} until a label is known" if facts["delay"] else "none",
        "Network": f"{facts['graph']['name']}, {plural(len(links), 'link')}{listed}",
        "Model": model.pop("kind"),
        **{name.capitalize(): _value(value) for name, value in model.items()},
        **({"Rates used": _value(used)} if used else {}),
        **({"Sent": f"{number(sent)} values to each neighbour in a round, on average"} if sent else {}),
    }


def _value(value: Any) -> str:
    """A setting's value; tables as "key value" pairs, long lists as their range."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {_value(each)}" for key, each in value.items())
    if isinstance(value, list) and len(value) > MOST_VALUES:
        return f"from {number(min(value))} to {number(max(value))} ({len(value)} values)"
    if isinstance(value, list):
        return " ".join(map(_value, value))
    return number(value) if isinstance(value, float) else str(value)


def glossary(facts: Document) -> dict[str, str]:
    """What every heading means, a short line each."""
    kind = facts["model"]["kind"]
    alone = {"alone": ALONE_WORDS} if has_neighbours(facts) else {}
    methods = ["best kernel"] if has_kernels(facts) else []
    shown = [name for name in (*methods, *facts["network"]["baselines"]) if name in METHODS]
    others = {name: METHODS[name] for name in shown}
    width = "kernel width: small follows fine detail, large only broad trends"
    frequency = "kernel frequency: large follows fine detail, small broad trends"
    reads = has_kernels(facts) and facts["kernels"]["read_as"] == "frequency"
    sigma2 = {"σ²": frequency if reads else width} if has_kernels(facts) else {}
    return {**_measures(facts), kind: METHODS[kind], **alone, **others, **sigma2}


def _measures(facts: Document) -> dict[str, str]:
    unit = facts["unit"]
    numbers = {
        "MSE": f"mean squared error of predictions made before the label{f', in {unit}²' if unit else ''}",
        "RMSE": f"root of the MSE{f', in {unit}' if unit else ''}",
    }
    classes = {
        "MSE": "mean squared difference of score and label (±1); scores beyond ±1 add to it",
        "right": "share of rounds in which the predicted class was right",
    }
    found = classes if has_classes(facts) else numbers
    if has_neighbours(facts):
        found["CV"] = "consensus violation: mean squared difference to neighbours' predictions"
    return found
