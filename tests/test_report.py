"""Reports of real and odd outcomes: their numbers, their files, what a reader sees."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.image import imread
from rich.console import Console

from domkl.base.errors import InputError
from domkl.datasets import Split
from domkl.exchange.graph import as_graph
from domkl.lab import experiment, report, trial
from domkl.lab.experiment import AutoSpec, Experiment, KernelSpec, LearningSpec, RateSpec
from domkl.lab.report import error_figure, graph_figure, tables, terminal
from domkl.lab.report.text import number
from domkl.lab.trial import Source
from problems import streams

FIGURES = ("error", "weights", "graph")
ODD_NAMES = ("<b>&\"'", "Zürich 気象台", "a$x_1$", "[bold]x[/bold]", "a name that goes on and on and on")
VOID = {"meta", "img", "br"}


def made(graph="ring", J=5, T=60, names=(), loss="squared", notes=(), preset="own", **split):
    """A small outcome on made-up streams."""
    X, y = streams(J, T, 2, classify=loss == "logistic")
    spec = Experiment(
        name="made up",
        preset=preset,
        graphs=(graph,),
        auto=AutoSpec(size=60),
        kernels=KernelSpec(D=5, sigma2=(0.01, 1.0, 100.0)),
        rates=RateSpec(rho=0.1, eta=0.1, eta_g=0.5),
        learning=LearningSpec(loss=loss),
    )
    outcome = trial.carry_out(spec, Source("toy", Split(X, y, names=names, **split)))
    return replace(outcome, notes=(*outcome.notes, *notes))


@pytest.fixture(scope="module")
def stations():
    spec = experiment.load("three-stations").with_preset("own")
    return trial.carry_out(spec, trial.prepare(spec, rounds=300))


OUTCOMES = {
    "odd names": lambda: made("star", names=ODD_NAMES, notes=("<i>note</i>",)),
    "one learner": lambda: made("complete", J=1),
    "one round": lambda: made(J=3, T=1),
    "ring of 30": lambda: made(J=30, delay=2),
    "classes": lambda: made(J=4, loss="logistic"),
    "auto": lambda: made(J=5, names=ODD_NAMES, preset="auto", delay=2),
    "auto classes": lambda: made(J=3, loss="logistic", preset="auto"),
}


@pytest.fixture(scope="module", params=["stations", *OUTCOMES])
def outcome(request):
    made_up = OUTCOMES.get(request.param)
    return made_up() if made_up else request.getfixturevalue("stations")


@pytest.fixture(scope="module")
def written(outcome, tmp_path_factory):
    """The files of a report by name; its directory did not exist before."""
    paths = report.write(outcome, tmp_path_factory.mktemp("report") / "new" / "deep")
    return {path.name: path for path in paths}


def figures_of(outcome):
    """Weights are drawn where there are kernels."""
    return [name for name in FIGURES if name != "weights" or outcome.sigma2]


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
        assert learner["mse"] == run.mse[j]
        assert learner["cv"] == run.cv[j]
        assert learner["rmse"] == pytest.approx(np.sqrt(outcome.scale * run.mse[j]))
        assert learner["omkl_mse"] == outcome.central_mse[j]
        assert learner["baselines"] == {name: mse[j] for name, mse in outcome.baselines.items()}
        if outcome.sigma2:
            assert learner["best_kernel"]["mse"] == run.kernel_mse[j].min()
    assert facts["rounds"] == run.y_hat.shape[1]
    if outcome.sigma2:
        assert facts["kernels"]["fingerprint"] == outcome.fingerprint
    assert facts["network"]["mse"] == run.mse.mean()


def test_preset_auto_shows_no_kernels_and_what_it_sends():
    auto = OUTCOMES["auto"]()
    facts, shown = report.document(auto), printed(auto, 100)
    assert [facts[key] for key in ("preset", "rates", "hedge", "kernels")] == ["auto", None, None, None]
    assert facts["auto"] == {"size": 60, "seed": 0, "sent": auto.run.sent}
    assert facts["single_kernels"] == []
    assert facts["network"]["best_kernel"] is facts["network"]["best_kernels_mse"] is None
    own = trial.carry_out(auto.experiment.with_preset("own"), Source("toy", auto.split))
    assert [one["baselines"]["first-order"] for one in facts["learners"]] == own.run.mse.tolist()
    assert "σ²" not in shown
    assert "best kernel" not in shown
    assert "nothing tuned" in shown


def test_document_names_the_heaviest_kernels(stations):
    q, P = stations.run.q, len(stations.sigma2)
    for j, learner in enumerate(report.document(stations)["learners"]):
        weights = [kernel["weight"] for kernel in learner["top_kernels"]]
        assert weights == sorted(q[j], reverse=True)[:3]
        for kernel in learner["top_kernels"]:
            p = stations.sigma2.index(kernel["sigma2"])
            assert (kernel["weight"], kernel["mse"]) == (q[j, p], stations.run.kernel_mse[j, p])
    assert len(report.document(stations)["single_kernels"]) == P


def test_document_names_the_neighbours():
    facts = report.document(made("star", J=3, names=("hub", "b", "c")))
    assert facts["graph"]["edges"] == [["hub", "b"], ["hub", "c"]]
    assert [one["neighbours"] for one in facts["learners"]] == [["b", "c"], ["hub"], ["hub"]]


def test_accuracy_is_told_of_classes_only(stations):
    classes = made(J=4, loss="logistic")
    right = (np.sign(classes.run.y_hat) == classes.split.y).mean(1)
    assert [one["accuracy"] for one in report.document(classes)["learners"]] == right.tolist()
    assert report.document(stations)["network"]["accuracy"] is None


def test_a_run_without_bounds_is_reported(tmp_path):
    wild = made(J=3)
    mse = np.array([np.inf, np.nan, 1.0])
    y_hat = np.full_like(wild.run.y_hat, np.nan)
    wild = replace(wild, run=replace(wild.run, mse=mse, y_hat=y_hat, kernel_mse=wild.run.kernel_mse * np.inf))
    facts = report.document(wild)
    assert [one["mse"] for one in facts["learners"]] == [None, None, 1.0]
    json.dumps(facts, allow_nan=False)
    assert "–" in printed(wild, 80)
    page = Page(report.write(wild, tmp_path)[0].read_text("utf-8"))
    assert any("beyond all bounds" in attributes.get("alt", "") for _, attributes in page.attributes)


@pytest.mark.parametrize("width", [50, 60, 80, 100, 120])
def test_summary_never_cuts_a_number(outcome, width):
    facts = report.document(outcome)
    lines = printed(outcome, width).splitlines()
    columns = terminal._that_fit(tables.learner_columns(facts), width)
    rows = [j for j in terminal._shown(facts) if j is not None]
    for j in rows:
        numbers = [column.cells[j] for column in columns]
        assert any(re.search(r"\s+".join(map(re.escape, numbers)) + r"(\s|$)", line) for line in lines)
    assert width < 80 or len(columns) == len(tables.learner_columns(facts))


@pytest.mark.parametrize("width", [60, 80, 120])
def test_summary_fits_the_terminal_and_names_everybody(outcome, width):
    shown = printed(outcome, width)
    assert max(map(len, shown.splitlines())) <= width
    if outcome.graph.J <= terminal.MOST_ROWS and width >= 80:
        assert all(name[:5] in shown for name in outcome.split.names)
        assert ("top kernels" in shown) == bool(outcome.sigma2)


def test_summary_says_what_its_words_mean(stations):
    shown = printed(stations, 80)
    assert "RMSE" in shown
    assert "°F²" in shown
    assert re.search(r"CV\s+consensus violation", shown)
    assert re.search(r"OMKL\s+one central learner that sees everybody's data", shown)
    assert shown.count("← best") == 1
    assert all(note in shown for note in stations.notes)


def test_summary_shows_errors_in_the_unit(stations):
    row = next(line for line in printed(stations, 80).splitlines() if line.startswith("EWR"))
    mse = stations.scale * stations.run.mse[0]
    assert f"{mse:.1f}" in row
    assert f"{np.sqrt(mse):.2f}" in row
    assert "σ²=" in row


def test_errors_of_a_table_are_told_in_the_scale_of_its_labels():
    table = replace(made(J=2), scale=400.0)
    facts = report.document(table)
    assert facts["network"]["rmse"] == pytest.approx(20 * np.sqrt(table.run.mse.mean()))
    assert f"(RMSE) of {number(facts['network']['rmse'])}" in printed(table, 120)


def test_summary_of_many_learners_lists_best_and_worst():
    many = made(J=30)
    shown = printed(many, 80)
    order = np.argsort(many.run.mse)
    for j in (order[0], order[-1]):
        assert re.search(rf"^{many.split.names[j]} ", shown, re.MULTILINE)
    assert not re.search(rf"^{many.split.names[order[15]]} ", shown, re.MULTILINE)


def test_page_is_well_formed_and_needs_nothing_else(written):
    source = written["index.html"].read_text("utf-8")
    page = Page(source)
    assert page.open == []
    assert not {"script", "link", "iframe", "object"} & set(page.tags)
    assert not re.search(r"https?://|url\(|@import", source)
    for _, attributes in page.attributes:
        assert attributes.get("src", "data:").startswith("data:")
        assert "href" not in attributes


def test_page_is_accessible(outcome, written):
    page = Page(written["index.html"].read_text("utf-8"))
    images = [attributes for tag, attributes in page.attributes if tag == "img"]
    assert len(images) == len(figures_of(outcome))
    assert all(len(image["alt"]) > 40 for image in images)
    assert all(
        attributes.get("scope") in ("row", "col") for tag, attributes in page.attributes if tag == "th"
    )
    assert ("html", {"lang": "en"}) in page.attributes


def test_page_tells_the_outcome(outcome, written):
    page = Page(written["index.html"].read_text("utf-8"))
    words = page.text
    for name in outcome.split.names:
        assert " ".join(name.split()) in words
    assert outcome.fingerprint is None or outcome.fingerprint in words
    assert ("top kernels" in words) == ("Fingerprint" in words) == bool(outcome.sigma2)
    assert " ".join(tables.sentence(report.document(outcome)).split()) in words
    assert all(note in words for note in outcome.notes)


def test_page_escapes_what_users_wrote(tmp_path):
    odd = OUTCOMES["odd names"]()
    odd = replace(odd, experiment=replace(odd.experiment, title="</title><script>alert(1)</script>"))
    page = Page(report.write(odd, tmp_path)[0].read_text("utf-8"))
    assert not {"b", "i", "script"} & set(page.tags)


def test_page_promises_no_privacy(written):
    assert "priva" not in written["index.html"].read_text("utf-8").lower()


def test_figures_are_pictures_of_something(outcome, written):
    for name in figures_of(outcome):
        pixels = imread(written[f"{name}.png"])[..., :3]
        assert 0.01 < (pixels.min(-1) < 0.95).mean() < 0.9
        root = ElementTree.fromstring(written[f"{name}.svg"].read_text("utf-8"))
        assert root.tag.endswith("svg")
        assert len(list(root.iter())) > 30


def test_figures_are_the_same_every_time(stations, tmp_path):
    first = report.write(stations, tmp_path / "a")
    again = report.write(stations, tmp_path / "b")
    assert [p.read_bytes() for p in first] == [p.read_bytes() for p in again]
    assert not list(tmp_path.glob("*/.*"))


def test_graph_of_a_hundred_learners_has_no_names():
    drawn, _, _ = graph_figure.draw(made("star", J=100, T=3))
    assert list(drawn.axes[0].texts) == []


def test_learners_stand_apart_in_every_network():
    for graph in ("ring", "path", "star", "complete"):
        for J in (1, 2, 3, 5, 30):
            places = graph_figure.layout(as_graph(graph, J))
            gaps = np.linalg.norm(places[:, None] - places[None], axis=-1)[~np.eye(J, dtype=bool)]
            assert gaps.size == 0 or gaps.min() > 0.02
            assert np.abs(places).max() <= 1 + 1e-9


def test_rolling_error_is_the_error_of_each_window(stations):
    curves = error_figure.rolling(stations)
    squares = stations.scale * (stations.run.y_hat - stations.split.y) ** 2
    assert curves.rounds[0] == curves.window
    assert curves.rounds[-1] == squares.shape[1]
    for end, errors in zip(curves.rounds.astype(int), curves.errors.T, strict=True):
        np.testing.assert_allclose(errors, np.sqrt(squares[:, end - curves.window : end].mean(1)))


def test_figures_of_classes_count_the_wrong_ones():
    classes = made(J=4, loss="logistic")
    wrong = 100 * (1 - report.document(classes)["network"]["accuracy"])
    assert error_figure.measure(classes).samples.mean() == pytest.approx(wrong)
    drawn, alt, _ = graph_figure.draw(classes)
    assert "%" in alt
    assert drawn.axes[1].get_ylabel() == "wrong classes, %"


def test_labels_never_overlap():
    rng = np.random.default_rng(0)
    for _ in range(50):
        heights = sorted(rng.uniform(size=8).tolist())
        assert np.diff(error_figure.spread(heights)).min() >= error_figure.GAP - 1e-9


def test_a_directory_that_cannot_be_made_is_one_line_with_a_remedy(stations, tmp_path):
    (tmp_path / "file").write_text("here")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InputError, match=r"cannot be written to .*--out DIR") as caught:
            report.write(stations, place)
        assert "\n" not in str(caught.value)


def test_matplotlib_is_left_as_it_was(stations, tmp_path):
    import matplotlib

    before = dict(matplotlib.rcParams)
    report.write(stations, tmp_path)
    assert dict(matplotlib.rcParams) == before
