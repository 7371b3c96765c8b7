"""Reports of real and odd outcomes: their numbers, what the terminal shows, the page."""

from __future__ import annotations

import io
import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.image import imread
from rich.console import Console

from domkl.base.errors import InputError, MissingExtra
from domkl.base.words import number
from domkl.datasets import Split
from domkl.lab import report, trial
from domkl.lab.report import facts as told
from domkl.lab.report import page as made_page
from domkl.lab.report import terminal
from domkl.lab.report.page import inputs
from domkl.lab.trial import Source
from domkl.models.settings import Auto, Paper
from outcomes import OUTCOMES, made, paper

VOID = {"meta", "img", "br"}


@pytest.fixture(scope="module")
def stations():
    return OUTCOMES["stations"]()


@pytest.fixture(scope="module", params=OUTCOMES)
def outcome(request):
    return OUTCOMES[request.param]()


@pytest.fixture(scope="module")
def written(outcome, tmp_path_factory):
    """The files of a report by name; its directory did not exist before."""
    paths = report.write(outcome, tmp_path_factory.mktemp("report") / "new" / "deep")
    return {path.name: path for path in paths}


def printed(outcome, width):
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(report.summary(outcome))
    return console.file.getvalue()


class Page(HTMLParser):
    """Checks that tags nest, and keeps text, links and attributes."""

    def __init__(self, source):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes, self.words = [], [], [], []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


def test_document_survives_json(outcome):
    facts = report.document(outcome)
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts


def test_document_holds_the_numbers_of_the_outcome(outcome):
    facts, run = report.document(outcome), outcome.run
    for j, learner in enumerate(facts["learners"]):
        assert learner["name"] == outcome.split.names[j]
        assert learner["mse"] == outcome.scale * run.mse[j]
        assert learner["cv"] == outcome.scale * run.cv[j]
        assert learner["rmse"] == pytest.approx(np.sqrt(outcome.scale * run.mse[j]))
        assert learner["mse_alone"] == outcome.scale * outcome.mse_alone[j]
        assert learner["rmse_alone"] == pytest.approx(np.sqrt(outcome.scale * outcome.mse_alone[j]))
        assert learner["baselines"] == {
            name: outcome.scale * mse[j] for name, mse in outcome.baselines.items()
        }
        if outcome.sigma2:
            assert learner["best_kernel"]["mse"] == outcome.scale * run.kernel_mse[j].min()
    assert facts["rounds"] == run.y_hat.shape[1]
    assert facts["network"]["mse"] == outcome.scale * run.mse.mean()
    assert facts["network"]["mse_alone"] == outcome.scale * outcome.mse_alone.mean()


def test_document_holds_the_model_as_set_and_as_used(outcome):
    facts, model = report.document(outcome), outcome.experiment.model
    assert facts["model"] == model.table
    assert facts["loss"] == model.loss_function.name
    if model.kind == "auto":
        assert facts["rates"] is facts["kernels"] is None
        assert facts["sent"] == outcome.run.sent
    else:
        assert facts["rates"] == vars(outcome.rates)
        assert facts["kernels"]["fingerprint"] == outcome.fingerprint


def test_auto_has_no_kernels():
    auto = OUTCOMES["auto"]()
    facts, shown = report.document(auto), printed(auto, 100)
    assert facts["single_kernels"] == []
    assert facts["network"]["best_kernel"] is facts["network"]["best_kernels_mse"] is None
    assert re.search(r"^learner +auto +alone +(simple )*guess", shown, re.MULTILINE)
    assert "σ²" not in shown
    assert "best kernel" not in shown


def test_kernels_and_penalty_that_were_not_given_are_shown_as_used():
    default = made(J=3, T=3, model=Paper(loss="ridge"))
    shown = told.settings_words(report.document(default))
    assert "sigma2 from 0.0001 to 10000 (17 values)" in shown["Kernels"]
    assert shown["Loss"] == "ridge"
    assert shown["Reg"] == number(default.experiment.model.loss_function.reg)
    assert shown["Rates used"] == ", ".join(f"{k} {number(v)}" for k, v in vars(default.rates).items())


def test_document_names_the_heaviest_kernels(stations):
    q, P = stations.run.q, len(stations.sigma2)
    for j, learner in enumerate(report.document(stations)["learners"]):
        weights = [kernel["weight"] for kernel in learner["top_kernels"]]
        assert weights == sorted(q[j], reverse=True)[:3]
        for kernel in learner["top_kernels"]:
            p = stations.sigma2.index(kernel["sigma2"])
            assert (kernel["weight"], kernel["mse"]) == (
                q[j, p],
                stations.scale * stations.run.kernel_mse[j, p],
            )
    assert len(report.document(stations)["single_kernels"]) == P


def test_document_names_the_neighbours():
    facts = report.document(made("star", J=3, names=("hub", "b", "c")))
    assert facts["graph"]["edges"] == [["hub", "b"], ["hub", "c"]]
    assert [one["neighbours"] for one in facts["learners"]] == [["b", "c"], ["hub"], ["hub"]]


def test_accuracy_is_given_for_classes_only(stations):
    classes = made(J=4, model=paper("logistic"))
    right = (np.sign(classes.run.y_hat) == classes.split.y).mean(1)
    assert [one["accuracy"] for one in report.document(classes)["learners"]] == right.tolist()
    assert report.document(stations)["network"]["accuracy"] is None


def test_a_run_that_overflowed_is_reported(tmp_path):
    wild = made(J=3)
    mse = np.array([np.inf, np.nan, 1.0])
    y_hat = np.full_like(wild.run.y_hat, np.nan)
    wild = replace(wild, run=replace(wild.run, mse=mse, y_hat=y_hat, kernel_mse=wild.run.kernel_mse * np.inf))
    facts = report.document(wild)
    assert [one["mse"] for one in facts["learners"]] == [None, None, 1.0]
    json.dumps(facts, allow_nan=False)
    assert "–" in printed(wild, 80)
    page = Page(report.write(wild, tmp_path)[0].read_text("utf-8"))
    alts = [attributes["alt"] for tag, attributes in page.attributes if tag == "img"]
    assert sum("not finite" in alt for alt in alts) == 2


@pytest.mark.parametrize("width", [50, 60, 80, 100, 120])
def test_summary_never_cuts_a_number(outcome, width):
    facts = report.document(outcome)
    lines = printed(outcome, width).splitlines()
    heads = terminal.learners(facts, width).fit(width).names()[1:]
    columns = [column for column in told.learner_columns(facts) if column.head in heads]
    rows = [j for j in terminal._shown(facts) if j is not None]
    for j in rows:
        numbers = [column.cells[j] for column in columns]
        assert any(re.search(r"\s+".join(map(re.escape, numbers)) + r"(\s|$)", line) for line in lines)
    assert width < 80 or len(columns) == len(told.learner_columns(facts))


@pytest.mark.parametrize("width", [60, 80, 120])
def test_summary_fits_the_terminal_and_names_everybody(outcome, width):
    shown = printed(outcome, width)
    assert max(map(len, shown.splitlines())) <= width
    if outcome.graph.J <= terminal.MOST_ROWS and width >= 80:
        assert all(name[:5] in shown for name in outcome.split.names)
        assert ("top kernels" in shown) == ("top kern" in shown)
        assert width < 100 or ("top kernels" in shown) == bool(outcome.sigma2)


def test_summary_says_what_its_words_mean(stations):
    shown = printed(stations, 80)
    assert "RMSE" in shown
    assert "°F²" in shown
    assert re.search(r"CV\s+consensus violation", shown)
    assert re.search(r"paper\s+learners of the paper", shown)
    assert shown.count("← best") == 1
    assert all(note in shown for note in stations.notes)


def test_alone_stands_beside_the_error_and_the_last_line_compares_them(outcome):
    facts = report.document(outcome)
    heads = [column.head for column in told.learner_columns(facts)]
    together, alone = np.sqrt([outcome.scale * mse.mean() for mse in (outcome.run.mse, outcome.mse_alone)])
    if outcome.graph.J == 1:
        assert "alone" not in heads
        assert told.verdict(facts) == ""
        return
    last = printed(outcome, 120).rstrip().splitlines()[-1]
    assert heads[1] == "alone"
    assert told.verdict(facts) == last
    if facts["network"]["accuracy"] is None:
        shown = [float(found) for found in re.findall(r"(?:ogether|alone) ([\d.]+)", last)]
        assert shown == pytest.approx([together, alone], rel=0.01)
        less, more = together < 0.99 * alone, together > 1.01 * alone
        assert ("less error" in last) >= less
        assert ("more error" in last) >= more
    else:
        assert last.startswith("Mean squared error: Together")


@pytest.mark.parametrize(
    ("together", "alone", "words"),
    [
        (0.96, 1.0, "4 % less error"),
        (2.0, 1.0, "100 % more error"),
        (0.998, 1.0, "the same error"),
        (0.0, 0.0, "the same error"),
        (1.0, 0.0, "more error"),
        (0.0, 1.0, "100 % less error"),
    ],
)
def test_the_difference_to_alone_is_told_in_words(together, alone, words):
    assert told.difference(together, alone) == words


def test_summary_shows_errors_in_the_unit(stations):
    row = next(line for line in printed(stations, 100).splitlines() if line.startswith("EWR"))
    mse = stations.scale * stations.run.mse[0]
    assert f"{mse:.1f}" in row
    assert f"{np.sqrt(mse):.2f}" in row
    assert "σ²=" in row


@pytest.mark.parametrize("scale", [1.0, 400.0])
def test_errors_are_shown_in_the_scale_of_the_labels(scale):
    table = replace(made(J=2), scale=scale)
    rmse = np.sqrt(scale * table.run.mse.mean())
    assert report.document(table)["network"]["rmse"] == pytest.approx(rmse)
    assert f"(RMSE) of {number(rmse)}" in printed(table, 120)
    assert "RMSE" in [column.head for column in told.learner_columns(report.document(table))]


def test_summary_of_many_learners_lists_best_and_worst():
    many = made(J=30)
    shown = printed(many, 80)
    order = np.argsort(many.run.mse)
    for j in (order[0], order[-1]):
        assert re.search(rf"^{many.split.names[j]} ", shown, re.MULTILINE)
    assert not re.search(rf"^{many.split.names[order[15]]} ", shown, re.MULTILINE)


def test_figures_are_pictures_of_something(outcome, written):
    names = ["error", "graph", *(["weights"] if len(outcome.run.q_path) else [])]
    assert set(written) == {"index.html", *(f"{name}.{kind}" for name in names for kind in ("svg", "png"))}
    for name in names:
        pixels = imread(written[f"{name}.png"])[..., :3]
        assert 0.01 < (pixels.min(-1) < 0.95).mean() < 0.9
        root = ElementTree.fromstring(written[f"{name}.svg"].read_text("utf-8"))
        assert root.tag.endswith("svg")
        assert len(list(root.iter())) > 30


def test_page_is_well_formed_and_needs_nothing_else(outcome, written):
    source = written["index.html"].read_text("utf-8")
    page = Page(source)
    assert page.open == []
    assert not {"link", "iframe", "object"} & set(page.tags)
    assert not re.search(r"https?://|url\(|@import", source.replace(made_page.uplot()[0], ""))
    script = source.split("const shown = ")[1].split(";\n")[0]
    assert [one["name"] for one in json.loads(script)["learners"]] == list(outcome.split.names)[
        : made_page.LEARNERS
    ]
    for _, attributes in page.attributes:
        assert attributes.get("src", "data:").startswith("data:")
        assert "href" not in attributes


def test_page_is_accessible(outcome, written):
    page = Page(written["index.html"].read_text("utf-8"))
    images = [attributes for tag, attributes in page.attributes if tag == "img"]
    assert len(images) == (3 if len(outcome.run.q_path) else 2)
    assert all(len(image["alt"]) > 40 for image in images)
    assert all(
        attributes.get("scope") in ("row", "col") for tag, attributes in page.attributes if tag == "th"
    )
    assert ("html", {"lang": "en"}) in page.attributes


def test_page_shows_result_settings_and_notes(outcome, written):
    page = Page(written["index.html"].read_text("utf-8"))
    words = page.text
    for name in outcome.split.names:
        assert " ".join(name.split()) in words
    facts = report.document(outcome)
    assert ("top kernels" in words) == ("Every kernel alone" in words) == bool(outcome.sigma2)
    assert " ".join(told.sentence(facts).split()) in words
    assert " ".join(told.verdict(facts).split()) in words
    for name, value in told.settings_words(facts).items():
        assert " ".join(f"{name} {value}".split()) in words
    assert ("Size" in words.split("Settings")[1].split("How to read this")[0]) == (
        outcome.experiment.model.kind == "auto"
    )
    assert outcome.fingerprint is None or outcome.fingerprint in words
    assert all(note in words for note in outcome.notes)


def test_page_escapes_what_users_wrote(tmp_path):
    odd = OUTCOMES["odd names"]()
    odd = replace(odd, experiment=replace(odd.experiment, title="</title><script>alert(1)</script>"))
    page = Page(report.write(odd, tmp_path)[0].read_text("utf-8"))
    assert not {"b", "i"} & set(page.tags)
    assert page.tags.count("script") == 2  # uPlot, and the chart


def test_page_shows_the_numbers_of_its_tables(stations, tmp_path):
    page = Page(report.write(stations, tmp_path)[0].read_text("utf-8"))
    facts = report.document(stations)
    for j, name in enumerate(stations.split.names):
        cells = [column.cells[j] for column in told.learner_columns(facts)]
        assert " ".join([name, *cells]) in page.text
    rows = told.kernel_rows(facts)
    for row in rows:
        assert " ".join([*row[:4], *(["best"] if row.best else [])]) in page.text
    assert [row.best for row in rows].index(True) == stations.run.kernel_mse.mean(0).argmin()


def test_without_jinja2_the_extra_is_named(stations, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingExtra, match=r'jinja2 is not installed .* pip install "domkl\[cli\]"'):
        report.write(stations, tmp_path)


def test_page_promises_no_privacy(written):
    assert "priva" not in written["index.html"].read_text("utf-8").lower()


def test_a_directory_that_cannot_be_made_is_one_line_with_a_remedy(stations, tmp_path):
    (tmp_path / "file").write_text("here")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InputError, match=r"cannot be written to .*--out DIR") as caught:
            report.write(stations, place)
        assert "\n" not in str(caught.value)


def test_page_tells_which_inputs_matter(tmp_path):
    rng = np.random.default_rng(3)
    X = rng.uniform(size=(2, 150, 3))
    spec = replace(made(J=2, T=5).experiment, model=Auto(size=60))
    source = Source("toy", Split(X, X[..., 1] / 2), scale=16.0, inputs=("idle", "busy", "<b>"))
    outcome = trial.carry_out(spec, source)
    found = inputs(outcome)
    assert found.rows[0].name == "busy"
    assert found.rows[0].trend == "rises"
    assert float(found.rows[0].effect) == pytest.approx(2 * np.sqrt(1 / 6), rel=0.2)  # of 4 / 2 x, x uniform
    page = Page(report.write(outcome, tmp_path)[0].read_text(encoding="utf-8"))
    assert "Which inputs matter" in page.text
    assert "mean over the 2 learners" in page.text
    assert inputs(made(J=2, T=5)) is None


def test_all_cells_that_a_reader_takes_for_the_least_are_bold(stations):
    """Also another method's, where only hidden digits tell it from ours."""
    facts = report.document(stations)
    for one in (*facts["learners"], facts["network"]):
        one["mse_alone"] = one["mse"] * 0.5
        one["baselines"] = dict.fromkeys(one["baselines"], one["mse"] * 1.00001)
    facts["learners"][0]["mse_alone"] = facts["learners"][0]["mse"] * 2
    columns = {column.head: column.best for column in told.learner_columns(facts)}
    ours = columns[facts["model"]["kind"]]
    assert 0 in ours
    assert 0 in columns["simple guess"]
    assert {1, "mean"} <= columns["alone"]
    assert not {1, "mean"} & ours
