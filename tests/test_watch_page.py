"""The page in a real browser: what it shows, to whom, and that it needs nothing from elsewhere."""

from __future__ import annotations

import math
import pathlib
import time

import numpy as np
import pytest

import browser
import outcomes
from domkl.lab import report
from domkl.lab.report.page import render
from domkl.watch import Feed, Server

AXE = pathlib.Path(__file__).parent.parent / "build" / "axe.min.js"
#: Sizes and schemes in which the page is looked at.
LOOKS = {"light": (1280, 900, False), "dark": (1280, 900, False), "phone": (320, 700, True)}
EVIL = "<img src=x onerror=alert(1)>"
TAB, ENTER, RIGHT = "\ue004", "\ue007", "\ue014"
#: What has the focus, and whether that is seen.
FOCUSED = "const e = document.activeElement; return e.id || e.getAttribute('class') || e.tagName"
HAS_RING = """const e = document.activeElement;
    return getComputedStyle(e).outlineStyle !== 'none' || e.matches('.node')"""
NAMED = "return [...document.querySelectorAll('#learners button')].map((each) => each.textContent)"
CHECK = "axe.run(document, {runOnly: arguments[0]}).then(arguments[1])"
WIDE = """return [...document.querySelectorAll('main *')].filter((e) => !e.closest('.spoken, thead')
    && e.getBoundingClientRect().right > 321).map((e) => e.outerHTML.slice(0, 100))"""
PLACE = """(() => { const r = document.querySelector('#chart .u-over').getBoundingClientRect();
    return [r.x, r.y, r.width, r.height]; })()"""
CHOOSE = """const select = document.getElementById('learner');
    select.value = arguments[0]; select.dispatchEvent(new Event('change'))"""


def fed(learners=6, samples=60):
    """A feed as of a ring of agents, the first of them our own."""
    names = [f"station-{n}" for n in range(learners - 1)] + [EVIL]
    feed = Feed(EVIL, target="temperature", unit="°C", own=names[0], inputs=("humidity", EVIL), alarming=True)
    for j, name in enumerate(names):
        for t in range(samples):
            y = 15 + 8 * math.sin(t / 9) + j
            y_hat = y + math.sin(t * 7 + j)
            alarm = t == 40
            record = {
                "learner": name,
                "index": t,
                "round": t,
                "y_hat": y_hat,
                "low": y_hat - 2,
                "high": y_hat + 2,
            }
            feed.sample(
                {
                    **record,
                    "time": f"2026-05-01T{t // 60:02d}:{t % 60:02d}:00Z",
                    "alarm": alarm,
                    "surprise": 1e-3,
                }
            )
            feed.truth(name, t, y + 9 * alarm)
        near = [names[j - 1], names[(j + 1) % learners]]
        feed.status(
            {
                "learner": name,
                "state": ("ready", "init", "done")[j % 3],
                "round": samples,
                "rmse_alone": 1.2,
                "weights": [["own", 0.7], [EVIL, 0.3]],
                "neighbours": [
                    {"name": each, "up": j != 2, "trust": 0.3 if j == 4 else 1.0} for each in near
                ],
                **dict.fromkeys(("messages_sent", "bytes_sent", "bytes_received", "refused"), 1234),
                "via": names[1] if j == 3 else None,
            }
        )
    for t in range(samples):
        curve = [
            {"lead": f"{h}min", "time": f"2026-05-01T{(t + h) // 60:02d}:{(t + h) % 60:02d}:00Z"}
            | {"y_hat": 15.0 + h, "low": 13.0, "high": 17.0 + h}
            for h in (1, 2, 3)
        ]
        now = 1e9 if t == 50 else 15.0  # no sensor measures that
        when = f"2026-05-01T{t // 60:02d}:{t % 60:02d}:00Z"
        feed.forecast(names[0], when, now, curve, [1.25, 1.5, math.nan], [2.5, 2.75, math.nan])
    feed.explain(names[0], samples, [["humidity", 0.9, 2.5, "rises"], [EVIL, 0.1, 0.5, ""]])
    return feed


def answered(question):
    explained = {"inputs": [["humidity", -2.0], [EVIL, 0.5]]} if question["explain"] else {}
    return {"y_hat": 20.25, "low": 19.0, "high": 21.5, **explained}


@pytest.fixture(scope="module")
def window():
    browser.need()
    feed = fed()
    with (
        Server(("127.0.0.1", 0), feed, predict=answered) as server,
        browser.opened() as opened,
    ):
        opened.open(server.url)
        opened.server, opened.feed = server, feed
        yield opened


@pytest.fixture
def page(window):
    """The page of the feed, opened again where the test before went elsewhere."""
    if not window.run("return location.href").startswith(window.server.url):
        window.open(window.server.url)
    window.wait_for("document.querySelectorAll('#learners tbody tr').length >= 6")
    return window


def look(page, name):
    page.resize(*LOOKS[name])
    page.prefer(prefers_color_scheme="dark" if name == "dark" else "light", prefers_reduced_motion="reduce")
    page.wait_for(f"innerWidth === {LOOKS[name][0]}")
    time.sleep(0.2)  # plots follow the size


def test_it_shows_what_was_fed(page):
    look(page, "light")
    text = page.run("return document.body.innerText")
    for words in (
        "station-0",
        "°C",
        "live",
        "round 60",
        "learning",
        "starting",
        "ended",
        "from station-1",
    ):
        assert words in text, words
    assert page.run("return document.querySelectorAll('#graph .link').length") == 6
    assert page.run("return document.querySelectorAll('.uplot canvas').length") == 3
    assert page.run("return document.querySelectorAll('#alarms tbody tr').length") == 6
    assert page.run("return document.querySelectorAll('#weights tbody tr').length") == 2
    effects = page.run("return document.querySelector('#effects tbody tr').innerText").split()
    assert effects == ["humidity", "90", "%", "2.50", "°C", "rises"]


def test_the_curve_goes_on_beyond_now_and_no_absurd_reading_flattens_it(page):
    look(page, "light")
    page.wait_for("document.querySelectorAll('#leads tbody tr').length === 3")
    cells = page.run("return [...document.querySelector('#leads tbody tr').cells].map((e) => e.textContent)")
    assert cells == ["1min", "2026-05-01 01:00:00", "16.0 °C", "13.0 to 18.0", "1.25", "2.50"]
    low, high = page.run("return [ahead.plot.scales.y.min, ahead.plot.scales.y.max]")
    assert 0 < low < 13 < 20 < high < 30
    assert page.run("return ahead.data[2].filter((each) => each !== null).length") == 4  # from now on


def test_what_learners_are_called_is_text(page):
    """No name becomes an element, and the policy would stop its script anyway."""
    assert page.run("return document.querySelectorAll('main img, main script').length") == 0
    assert EVIL in page.run("return document.getElementById('title').textContent")
    assert EVIL in page.run(NAMED)


def test_nothing_comes_from_elsewhere_and_nothing_is_wrong(page):
    asked = [url for url in page.requests() if not url.startswith(("chrome", "data:"))]
    assert asked
    assert [url for url in asked if not url.startswith(page.server.url)] == []
    assert [each for each in page.logged("browser") if each["level"] == "SEVERE"] == []


@pytest.mark.parametrize("name", LOOKS)
def test_axe_finds_no_violation(page, name):
    look(page, name)
    page.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    accessible(page)


def accessible(page):
    """Nothing that axe-core knows of is wrong."""
    if not AXE.is_file():
        pytest.skip("no axe-core; install it with scripts/install_axe.sh")
    if not page.run("return Boolean(window.axe)"):
        page.devtools("Runtime.evaluate", {"expression": AXE.read_text(encoding="utf-8")})
    tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    found = page.run_later(CHECK, tags)
    assert found["passes"]
    assert {each["id"]: [node["html"][:200] for node in each["nodes"]] for each in found["violations"]} == {}


def test_a_phone_does_not_scroll_sideways(page):
    look(page, "phone")
    assert page.run("return document.documentElement.scrollWidth") <= 320
    assert page.run(WIDE) == []


def test_every_plot_has_a_table(page):
    look(page, "light")
    page.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    page.wait_for("document.querySelectorAll('figure details table').length === 3")
    heads = page.run(
        "return [...document.querySelectorAll('#samples details thead th')].map((each) => each.textContent)"
    )
    assert heads == ["time (UTC)", "truth", "prediction", "low", "high", "alarm"]
    assert (
        page.run("return document.querySelector('#samples details tbody th').textContent")
        == "2026-05-01 00:59:00"
    )


def test_times_that_no_calendar_has_are_not_shown_as_dates(page):
    """Nor do they stop the page from showing everything else."""
    feed = Feed("net")
    for t in range(9):
        feed.sample({"learner": "a", "index": t, "y_hat": 1.0, "time": 1e300 + t, "alarm": t == 3})
        feed.truth("a", t, 1.5)
    with Server(("127.0.0.1", 0), feed) as server:
        page.open(server.url)
        page.wait_for("document.querySelectorAll('.uplot canvas').length === 2")
        assert page.run("return document.querySelector('#samples .u-legend').innerText").startswith("reading")
        assert "reading 3" in page.run("return document.getElementById('alarms').innerText")
        page.open("about:blank")  # else it would miss its server
        assert [each for each in page.logged("browser") if each["level"] == "SEVERE"] == []


def test_a_report_is_hovered_and_zoomed_and_has_dates(page, tmp_path):
    look(page, "light")
    times = 1.7e9 + 3600 * np.tile(np.arange(200.0), (2, 1))
    outcome, file = outcomes.made(J=2, T=200, times=times), tmp_path / "index.html"
    without_figures = render(outcome, report.document(outcome), [])
    file.write_text(without_figures, encoding="utf-8")
    page.open(file.as_uri())
    x, y, width, height = page.wait_for(PLACE)
    page.mouse("mouseMoved", x + width / 2, y + height / 2)
    page.wait_for("document.querySelector('.u-legend').innerText.includes('2023-11-1')")
    ticks = "document.querySelector('#chart canvas').toDataURL()"
    before = page.run(f"return {ticks}")
    page.mouse("mousePressed", x + width / 2, y + height / 2)
    page.mouse("mouseMoved", x + width / 2 + 90, y + height / 2)
    page.mouse("mouseReleased", x + width / 2 + 90, y + height / 2)
    page.wait_for(f"{ticks} !== '{before}'")
    assert [each for each in page.logged("browser") if each["level"] == "SEVERE"] == []
    accessible(page)


def test_everything_is_reached_by_keyboard(page):
    look(page, "light")
    page.open(page.server.url)
    page.wait_for("document.querySelectorAll('#learners tbody tr').length === 6")
    seen = []
    while not seen or (seen[-1] != "BODY" and len(seen) < 40):
        page.press(TAB)
        seen.append(page.run(FOCUSED))
        assert page.run(HAS_RING) or seen[-1] == "BODY", seen[-1]
    assert seen[:4] == ["skip", "learner", "pause", "theme"]
    assert any("node" in each for each in seen)
    assert {"x-0", "x-1"} <= set(seen)
    assert sum(each == "BUTTON" for each in seen) >= 6


def test_a_range_of_time_is_chosen_by_keyboard(page):
    pressed = "return document.querySelector('#ranges [aria-pressed=true]').textContent"
    assert page.run(pressed) == "Latest"
    page.run("document.querySelector('#ranges button').focus()")
    page.press(TAB, TAB, ENTER)
    page.wait_for("document.getElementById('n-samples').textContent.includes('in the last day')")
    assert page.run(pressed) == "Day"
    assert page.run("return state.detail.samples[0].length") == 60
    page.run("document.querySelector('#ranges button').click()")
    page.wait_for("document.getElementById('n-samples').textContent.includes('the last 60')")


def test_a_learner_is_chosen_by_arrow_and_enter(page):
    page.run("document.querySelector('.node[tabindex=\"0\"]').focus()")
    page.press(RIGHT, ENTER)
    page.wait_for("document.getElementById('learner').value === 'station-1'")
    page.wait_for("document.getElementById('n-samples').textContent.startsWith('station-1')")
    assert page.run("return document.getElementById('effects').hidden")  # known on its own page only


def test_the_theme_can_be_turned_and_updates_paused(page):
    look(page, "light")
    before = page.run("return getComputedStyle(document.body).backgroundColor")
    page.run("document.getElementById('theme').click()")
    assert page.run("return getComputedStyle(document.body).backgroundColor") != before
    page.run("document.getElementById('theme').click()")
    page.run("document.getElementById('pause').click()")
    page.feed.status({"learner": "late", "state": "ready", "round": 1})
    time.sleep(1.3)
    assert page.run("return document.querySelectorAll('#learners tbody tr').length") == 6
    page.run("document.getElementById('pause').click()")
    assert page.run("return document.querySelectorAll('#learners tbody tr').length") == 7


def test_a_question_is_answered(page):
    page.run(CHOOSE, "station-0")
    page.wait_for("!document.getElementById('asking').hidden")
    page.run("document.getElementById('x-0').value = '3'; document.getElementById('ask').requestSubmit()")
    found = page.wait_for("document.getElementById('answer').textContent")
    assert found == "temperature: 20.3 °C, between 19.0 and 21.5"
    added = page.run("return document.querySelector('#added tbody tr').innerText").split()
    assert added == ["humidity", "−2.00", "°C"]


def test_it_says_when_the_server_has_gone(page):
    page.feed.end()
    page.wait_for("document.getElementById('pill').dataset.state === 'ended'")
