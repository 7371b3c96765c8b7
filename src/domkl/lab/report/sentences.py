"""The facts in words: the result, the settings, and what every heading means."""

from __future__ import annotations

import math
from typing import Any

from ...base.words import column, number, percent, plural, with_unit
from .facts import Document
from .tables import has_classes, has_kernels, has_neighbours

#: Longer lists are shown as their range, or counted.
MOST_LINKS, MOST_VALUES = 30, 4
#: Errors that differ by a smaller share are called the same.
SAME = 0.005
ALONE = "the same learners without neighbours"
#: Guesses that need no learner.
SIMPLE = ("mean so far", "as it is now")
METHODS = {
    "auto": "learners of domkl.Auto, each with its own data and its neighbours' messages",
    "paper": "learners of the paper (DOMKL), each with its own data and its neighbours' messages",
    "OMKL": "one central learner with the paper's kernels that sees everybody's data",
    "best kernel": "lowest error of any single kernel at that learner, known only in hindsight",
    "mean so far": "predicts the mean of the learner's labels known so far",
    "as it is now": "predicts that nothing changes until then",
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
    simple = {name: network["baselines"].get(name) for name in SIMPLE}
    known = {name: mse for name, mse in simple.items() if mse is not None}
    if not known or network["mse"] is None:
        return title
    name = min(known, key=lambda each: known[each])
    ours, best = network["mse"], known[name]
    if not has_classes(facts):
        ours, best = math.sqrt(ours), math.sqrt(best)
    words = difference(ours, best)
    return f"{title}: {words} {'as' if words.startswith('the') else 'than'} “{name}”, the best simple guess"


def verdict(facts: Document) -> str:
    """Whether it paid to learn together, in one line; nothing for a learner without neighbours."""
    network = facts["network"]
    if not has_neighbours(facts) or network["mse"] is None or network["mse_alone"] is None:
        return ""
    squared = [network["mse"], network["mse_alone"]]
    errors = squared if has_classes(facts) else [math.sqrt(mse) for mse in squared]
    words = together_or_alone(errors[0], errors[1], facts["unit"])
    return f"Mean squared error: {words}" if has_classes(facts) else words


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
    others = [f"{_level(facts, network['omkl_mse'])} for OMKL, a central learner that sees everybody's data"]
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


def settings(facts: Document) -> dict[str, str]:
    """What was run: the experiment, and every setting of the model by its name in files."""
    known = {name: facts[name] for name in ("kernels", "loss", "reg") if facts[name]}
    model, used, sent = {**facts["model"], **known}, facts["rates"], facts["sent"]
    return {
        "Experiment": facts["experiment"],
        "Data": f"{facts['dataset']}, {plural(facts['rounds'], 'round')} for each learner",
        "Delay": f"{plural(facts['delay'], 'round')} until a label is known" if facts["delay"] else "none",
        "Network": _network(facts["graph"]),
        "Model": model.pop("kind"),
        **{name.capitalize(): _value(value) for name, value in model.items()},
        **({"Rates used": _value(used)} if used else {}),
        **({"Sent": f"{number(sent)} values to each neighbour in a round, on average"} if sent else {}),
    }


def _network(graph: Document) -> str:
    links = [f"{a} – {b}" for a, b in graph["edges"]]
    listed = ": " + ", ".join(links) if 0 < len(links) <= MOST_LINKS else ""
    return f"{graph['name']}, {plural(len(links), 'link')}{listed}"


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
    alone = {"alone": ALONE} if has_neighbours(facts) else {}
    methods = ["OMKL", *(["best kernel"] if has_kernels(facts) else [])]
    shown = [name for name in (*methods, *facts["network"]["baselines"]) if name in METHODS]
    sigma2 = {"σ²": _sigma2(facts["kernels"])} if has_kernels(facts) else {}
    others = {name: METHODS[name] for name in shown}
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


def _sigma2(kernels: Document) -> str:
    if kernels["read_as"] == "frequency":
        return "kernel frequency: large follows fine detail, small broad trends"
    return "kernel width: small follows fine detail, large only broad trends"
