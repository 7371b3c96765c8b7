"""One HTML file that needs nothing else: no script, no network, no other file."""

from __future__ import annotations

import base64
from html import escape

from . import tables
from .facts import Document
from .style import Picture
from .tables import Column
from .text import number, percent, plural

STYLE = """
:root{color-scheme:light dark;--paper:#fff;--ink:#1f2328;--soft:#59636e;--line:#d8dee4;--mark:#0072b2;
--tint:#eef5fa}
@media(prefers-color-scheme:dark){:root{--paper:#14181c;--ink:#e6e9ec;--soft:#9aa4ae;--line:#30373e;
--mark:#56b4e9;--tint:#1b2630}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:52rem;padding:2rem 1rem 4rem;background:var(--paper);color:var(--ink);
font:1rem/1.55 system-ui,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.7rem;line-height:1.2;margin:0 0 .4rem}
h2{font-size:1.2rem;margin:2.8rem 0 .6rem}
p{margin:.4rem 0}.soft,figcaption,small{color:var(--soft)}
.lead{font-size:1.1rem;margin:1.2rem 0;padding:.9rem 1.1rem;background:var(--tint);
border-left:4px solid var(--mark);border-radius:4px}
.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.92rem;font-variant-numeric:tabular-nums;overflow-wrap:normal}
th,td{padding:.35rem .5rem;border-bottom:1px solid var(--line);text-align:right;vertical-align:top;
white-space:nowrap}
thead th{border-bottom:2px solid var(--line);white-space:normal;vertical-align:bottom;line-height:1.3}
th small{display:block;font-weight:400;white-space:nowrap}
.left{text-align:left}
tbody th{font-weight:600}tfoot th,tfoot td{font-weight:600;border-bottom:0}
td.main,tr.best th,tr.best td{font-weight:700}tr.best{background:var(--tint)}
.bar{display:inline-block;height:.7rem;background:var(--mark);border-radius:2px;min-width:2px}
td.bars{width:45%;min-width:6rem}
figure{margin:1rem 0 2.4rem}figure img{display:block;width:100%;max-width:40rem;height:auto}
figcaption{font-size:.9rem;margin-top:.5rem;max-width:40rem}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.35rem 1.2rem;margin:.5rem 0}
dt{font-weight:600}dd{margin:0}
@media(max-width:32rem){dl{grid-template-columns:1fr;gap:0}dd{margin-bottom:.6rem}}
"""


def render(facts: Document, pictures: list[Picture]) -> str:
    """The whole page. Every piece of text is escaped where it enters."""
    title = escape(facts["title"] or facts["experiment"])
    parts = [
        f'<header><h1>{title}</h1><p class="soft">{escape(tables.setting_line(facts))}</p></header>',
        f'<p class="lead">{escape(tables.sentence(facts))}</p>',
        _section("Learners", _learners(facts)),
        _section("Figures", "\n".join(_figure(picture) for picture in pictures)),
        _section("Every kernel alone", _kernels(facts)) if tables.has_kernels(facts) else "",
        _section("Settings", _definitions(_settings(facts))),
        _section("Notes", _notes(facts)) if facts["notes"] else "",
        _section("How to read this", _definitions(tables.glossary(facts))),
    ]
    return _shell(title, "\n".join(parts))


def _shell(title: str, body: str) -> str:
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _section(title: str, body: str) -> str:
    return f"<section>\n<h2>{escape(title)}</h2>\n{body}\n</section>"


def _table(about: str, heads: str, rows: str, foot: str = "") -> str:
    """A table that may be wider than a phone; focusable, so that the keyboard can scroll it."""
    return (
        f'<p class="soft">{escape(about)}</p>\n'
        f'<div class="wide" role="region" aria-label="{escape(about)}" tabindex="0">\n<table>\n'
        f"<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n{foot}</table>\n</div>"
    )


def _learners(facts: Document) -> str:
    columns = tables.learner_columns(facts)
    heads = "".join(_head(column) for column in columns)
    top = '<th scope="col" class="left">top kernels<small>σ²: weight</small></th>'
    top = top if tables.has_kernels(facts) else ""
    heads = f'<th scope="col" class="left">learner</th>{heads}{top}'
    rows = "\n".join(_learner(facts, columns, j) for j in range(len(facts["learners"])))
    about = "DOMKL beside other methods on the same samples; less is better."
    return _table(about, heads, rows, _mean(facts, columns))


def _head(column: Column) -> str:
    small = " ".join(part for part in (column.measure, column.unit) if part)
    below = f"<small>{escape(small)}</small>" if small else ""
    return f'<th scope="col">{escape(column.head)}{below}</th>'


def _learner(facts: Document, columns: list[Column], j: int) -> str:
    learner = facts["learners"][j]
    cells = "".join(_cell(column, column.cells[j]) for column in columns)
    if tables.has_kernels(facts):
        top = ", ".join(f"{sigma2}: {weight}" for sigma2, weight in tables.top_kernels(learner, 3))
        cells += f'<td class="left">{escape(top)}</td>'
    return f'<tr><th scope="row" class="left">{escape(learner["name"])}</th>{cells}</tr>'


def _cell(column: Column, words: str) -> str:
    kind = ' class="main"' if column.head == "DOMKL" else ""
    return f"<td{kind}>{escape(words)}</td>"


def _mean(facts: Document, columns: list[Column]) -> str:
    if len(facts["learners"]) == 1:
        return ""
    cells = "".join(_cell(column, column.mean) for column in columns)
    cells += "<td></td>" if tables.has_kernels(facts) else ""
    return f'<tfoot><tr><th scope="row" class="left">mean</th>{cells}</tr></tfoot>\n'


def _figure(picture: Picture) -> str:
    data = base64.b64encode(picture.svg.encode()).decode()
    return (
        f'<figure>\n<img alt="{escape(picture.alt)}" src="data:image/svg+xml;base64,{data}">\n'
        f"<figcaption>{escape(picture.caption)}</figcaption>\n</figure>"
    )


def _kernels(facts: Document) -> str:
    unit = tables.squared_unit(facts)
    units = {"σ²": "", "MSE": unit, "CV": unit, "weight": ""}
    heads = "".join(_head(Column(head, "", of, [], "")) for head, of in units.items())
    best, lengths = tables.best_single(facts), tables.bar_lengths(facts)
    rows = "\n".join(
        _kernel(facts, kernel, lengths[p], p == best) for p, kernel in enumerate(facts["single_kernels"])
    )
    heads += '<th scope="col" class="left">√MSE</th>'
    about = "The network with one kernel only (DOKL), mean over learners; weight: its final share in DOMKL."
    return _table(about, heads, rows)


def _kernel(facts: Document, kernel: Document, length: float, best: bool) -> str:
    squares = [number(tables.in_unit(facts, kernel[key])) for key in ("mse", "cv")]
    cells = "".join(f"<td>{cell}</td>" for cell in (*squares, percent(kernel["weight"])))
    bar = f'<span class="bar" style="width:{70 * length:.1f}%"></span>{" best" if best else ""}'
    row = '<tr class="best">' if best else "<tr>"
    return f'{row}<th scope="row">{number(kernel["sigma2"])}</th>{cells}<td class="bars left">{bar}</td></tr>'


def _definitions(items: dict[str, str]) -> str:
    pairs = "\n".join(f"<dt>{escape(term)}</dt><dd>{escape(words)}</dd>" for term, words in items.items())
    return f"<dl>\n{pairs}\n</dl>"


def _settings(facts: Document) -> dict[str, str]:
    return {
        "Experiment": facts["experiment"],
        "Data": f"{facts['dataset']}, {plural(facts['rounds'], 'round')} for each learner",
        "Delay": f"{plural(facts['delay'], 'round')} until a label is known" if facts["delay"] else "none",
        "Network": _network(facts),
        "Loss": facts["loss"] + (f" with ridge penalty {number(facts['reg'])}" if facts["reg"] else ""),
        **(_own(facts) if tables.has_kernels(facts) else _auto(facts["auto"])),
    }


def _own(facts: Document) -> dict[str, str]:
    rates, kernels = facts["rates"], facts["kernels"]
    return {
        "Rates": ", ".join(f"{name} {number(rates[key])}" for name, key in RATES.items()),
        "Hedge": facts["hedge"],
        "Local step": _step(facts),
        "Kernels": _dictionary(kernels),
        "Fingerprint": f"{kernels['fingerprint']} (the same where the random features are the same)",
    }


def _auto(auto: Document) -> dict[str, str]:
    return {
        "Preset": "auto: a second-order step with nothing to tune; it has no kernel weights to show",
        "Size": f"{plural(auto['size'], 'number')} at each learner at most, seed {auto['seed']}",
        "Sent": f"{number(auto['sent'])} numbers to each neighbour in a round, on average",
    }


RATES = {"ρ": "rho", "η": "eta", "η_g": "eta_g"}
MOST_LINKS = 30


def _network(facts: Document) -> str:
    graph = facts["graph"]
    links = [f"{a} – {b}" for a, b in graph["edges"]]
    listed = ": " + ", ".join(links) if 0 < len(links) <= MOST_LINKS else ""
    return f"{graph['name']}, {plural(len(links), 'link')}{listed}"


def _step(facts: Document) -> str:
    if facts["step"] == "first":
        return "first order"
    count = "all" if facts["memory"] is None else f"about {number(facts['memory'])}"
    return f"second order, {count} past samples count"


def _dictionary(kernels: Document) -> str:
    count, sigma2 = plural(len(kernels["sigma2"]), "kernel"), kernels["sigma2"]
    span = f"σ² from {number(min(sigma2))} to {number(max(sigma2))}"
    return f"{kernels['family']}, {count}, {span}, D = {kernels['D']}, seed {kernels['seed']}"


def _notes(facts: Document) -> str:
    return "<ul>" + "".join(f"<li>{escape(note)}</li>" for note in facts["notes"]) + "</ul>"
