"""The page without a browser: refusals, stale answers, learners on offer, and own links."""

from dataclasses import replace
from threading import Event

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from glassformer.core.progress import note

pytest.importorskip("panel")

from glassformer.explorer import own_link
from glassformer.explorer import page as here
from glassformer.explorer.own_link import LinkSource, shape_of
from glassformer.explorer.picture import Picture, Plot, Series, legend_html
from glassformer.explorer.work import Work

pytestmark = pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")


def field(page, name):
    return next(one for one in [*page.parameters.fields, *page.settings.fields] if one["name"] == name)


def names(page):
    return {one["name"] for one in [*page.parameters.fields, *page.settings.fields]}


def stale(page):
    return "stale" in page.place.css_classes


def test_every_tab_has_its_controls_and_the_code_restores_the_view(opened):
    page = opened("?alpha=0:1:5&rho=0.4&tab=training&learners=ridge&ridge.strength=0.5")
    assert {"rho", "noise", "alpha", "at", "ridge.strength"} <= names(page)
    assert field(page, "ridge.strength")["text"] == "0.5" and field(page, "learners.ridge")["text"] == "yes"
    assert "ridge regression reaches" in page.answer.sentence
    again = opened(page.address())
    assert (again.address(), again.answer.sentence) == (page.address(), page.answer.sentence)
    page.code.value = page.table.value = True
    assert "gradient descents are not drawn here: their theory takes" in field(page, "in time")["text"]
    assert "glassformer limits bsr --rho 0.4" in page.drawer.object and "<table" in page.drawer.object
    assert page.address().replace("&", "&amp;") in page.drawer.object
    assert page._csv().read().decode().startswith("alpha,")


def test_the_settings_of_the_chosen_learner_are_controls(opened):
    page = opened("?model=attention&tab=time&alpha=1", wait=False)
    assert page.run.visible and "sgd.start" not in names(page)
    page.change("learner", "sgd")
    assert not page.run.visible, "its steps have a preview"
    assert (
        field(page, "sgd.batch")["kind"] == "slider"
        and field(page, "sgd.start")["text"] == "overlap:0.3"
        and "sgd.trajectories" not in names(page)
    )
    page.change("sgd.batch", "2.5")
    page.work.end()
    assert page.question().learner("online-sgd").name == "online-sgd"


def test_an_older_address_opens_its_model(opened):
    assert opened("?tab=aim&alpha=0.2", wait=False).model == "aim"


def test_a_value_is_refused_beside_its_control_until_it_is_right(opened, thread):
    page = opened("?alpha=0:1:5&rho=-1", wait=False)
    assert "rho = -1.0 is not allowed" in field(page, "rho")["error"]
    page.change("rho", "0.5")
    assert "error" not in field(page, "rho")
    thread.until(lambda: thread.settled(page))
    page.change("width", "1.5")
    assert "an integer" in field(page, "width")["error"] and stale(page)
    page.change("width", "")
    page.change("at", "nowhere")
    assert "expected a number" in field(page, "at")["error"]


@pytest.mark.slow
def test_an_answer_to_an_earlier_question_is_not_shown(opened, thread, monkeypatch):
    page = opened("?alpha=0:1:5")
    before, answered = page.answer, here.best_error

    def meanwhile(question, show):
        thread.later(lambda: page.change("rho", "-1"))
        return answered(question, show)

    view = here.QUESTIONS["learn"][1]["error"]
    monkeypatch.setitem(here.QUESTIONS["learn"][1], "error", replace(view, compute=meanwhile))
    page.change("noise", "0.1")
    thread.until(lambda: "error" in field(page, "rho"))
    monkeypatch.setitem(here.QUESTIONS["learn"][1], "error", view)
    thread.rest()
    assert page.answer is before and stale(page)
    page.change("rho", "0.4")
    thread.until(lambda: thread.settled(page) and page.answer is not before)
    assert not stale(page)


def test_a_click_chooses_the_sample_ratio_of_the_sentence(opened, thread):
    page = opened("?alpha=0:1:5")
    page._click(0.5)
    thread.until(lambda: thread.settled(page) and "With 0.5 samples" in page.answer.sentence)
    assert page.picture.at == 0.5


@pytest.mark.slow
def test_only_learners_that_fit_are_offered(opened, thread):
    page = opened("?model=aim&alpha=0.2&tab=data&learner=ridge")
    thread.until(lambda: "ridge" not in field(page, "learner")["choices"])
    assert field(page, "learner")["text"] == "gamp"
    page = opened("?model=aim&alpha=0.2&tab=training")
    thread.until(lambda: "refused ridge" in names(page))
    assert "learners.risk" in names(page) and "learners.ridge" not in names(page)


def test_runs_wait_for_the_button_and_can_be_cancelled(opened, thread):
    page = opened("?alpha=0.2:1:5&noise=0.1&tab=data&d=12&instances=1&learner=ridge")
    assert page.run.visible and "Press Compute" in page.answer.sentence
    page.ask(True)
    thread.until(lambda: thread.settled(page) and "5 runs of ridge regression" in page.answer.sentence)
    page.change("instances", "500")
    page.ask(True)
    assert page.busy.visible
    page._cancel()
    assert stale(page) and not page.busy.visible


def test_the_legend_names_what_is_drawn_and_names_of_thresholds_do_not_overlap():
    picture = Picture("x", "y", (Series("drawn", [0, 1], [1, 2]), Series("empty", [], [])), ((0.1, "a"), (0.11, "b")))
    assert "drawn" in legend_html(picture) and "empty" not in legend_html(picture)
    plot = Plot(lambda x: None)
    plot.draw(picture)
    assert len(set(plot._marks.data["dy"])) == 2
    assert [item.label.value for item in plot.legend.items] == ["drawn"]
    plot.draw(Picture("x", "y", (Series("another", [0], [3], "points", bars=[0.5]),)))
    assert not plot._marks.data["x"] and not plot._lines.data["x"] and plot._bars.data["low"] == [2.5]


def test_a_model_that_is_compiled_for_seconds_shows_its_axes_and_the_error_without_data_at_once(opened, thread):
    page = opened("?model=attention&depth=1&points=64&alpha=0.5,1.5", wait=False)
    thread.until(lambda: page.answer is not None)
    (series,), (low, high) = page.picture.series, page.picture.ranges()[0]
    assert (list(series.x), list(series.y)) == ([0.0], [1.0]) and low < 0 < 1.5 < high
    assert "sample ratio" in page.picture.x and "compiled first" in page.answer.sentence and page.csv.disabled
    page.work.end()


@pytest.mark.thorough
def test_a_preview_is_drawn_over_the_last_curve_and_cannot_be_exported(opened, thread, monkeypatch, tmp_path):
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path))
    page = opened("?model=attention&depth=1&points=64&alpha=0.5")
    page.change("skip", "1.5")
    thread.until(lambda: page.answer.preview)
    assert [one.faded for one in page.picture.series] == [True, False] and page.csv.disabled and page.png.disabled
    thread.until(lambda: thread.settled(page))
    assert not any(one.faded for one in page.picture.series) and not page.csv.disabled


def test_what_was_asked_before_is_dropped():
    done, begun, seen = Event(), Event(), []
    work = Work(lambda function: function())

    def slow(show):
        begun.set()
        while True:
            note("still at it")

    work.start(slow, seen.append, seen.append, lambda text: None, lambda: None)
    assert begun.wait(10)
    work.start(lambda show: "the last", seen.append, seen.append, lambda text: None, done.set)
    assert done.wait(10)
    work.end()
    work.start(lambda show: "after the end", *[seen.append] * 4)
    assert seen == ["the last"]


def test_progress_is_not_reported_more_often_than_it_can_be_read():
    done, told = Event(), []

    def busy(show):
        for k in range(1000):
            note(f"step {k}")

    work = Work(lambda function: function())
    work.start(busy, lambda _: None, lambda _: None, told.append, done.set)
    assert done.wait(10)
    work.end()
    assert told[0] == "step 0" and len(told) < 100


@pytest.mark.thorough
def test_the_shape_of_a_link_is_the_smallest_that_works_unless_another_is_asked_for():
    assert shape_of(lambda z: z[0, 0] * z[1, 0], "smi", {}) == {"indices": "2", "tokens": "1"}
    assert shape_of(lambda z: z[0, 0] * z[1, 0], "smi", {"indices": "3"}) == {"indices": "3", "tokens": "1"}
    assert shape_of(lambda z: jnp.sign(z[0, 0] * z[1, 0]), "smi", {}) == {"indices": "2", "tokens": "1"}
    assert shape_of(lambda z: jax.nn.softmax(z[0])[0], "smi", {}) == {"indices": "1", "tokens": "2"}
    assert shape_of(lambda z: 1.0, "smi", {}) == {}
    assert shape_of(np.tanh, "bsr", {}) == {}


@pytest.mark.slow
def test_an_own_link_is_described_and_serves_every_tab(opened, thread):
    given = LinkSource(lambda z: z**2, "links.py:square", "bsr")
    page = opened("?model=link&family=bsr&alpha=0.5,1", given)
    assert page.tab == "link" and "even in the fields; information exponent 2" in field(page, "found")["text"]
    assert "link=square" in page.answer.code and "--link links.py:square" in page.answer.command
    page.change("tab", "time")
    thread.until(lambda: thread.settled(page))
    assert page.model == "link" and "step" in page.answer.sentence


@pytest.mark.slow
def test_code_from_the_page_runs_only_where_the_command_line_allows_it(opened, thread):
    page = opened("?model=link", wait=False)
    assert "link" not in names(page) and "runs no code" in field(page, "found")["text"]
    page.change("link", "def link(z):\n    return z\n")
    assert page.answer is None
    page = opened("?model=link&family=bsr&alpha=0.5:1:3", LinkSource(code=True), wait=False)
    page.change("link", "def link(z):\n    return open_a_file(z)\n")
    assert "open_a_file" in field(page, "link")["error"]
    page.change("link", "def other(z):\n    return z\n\n\ndef link(z):\n    return 2 * z\n")
    thread.until(lambda: thread.settled(page))
    assert page.answer.frame["error"].iloc[0] < 1


def test_the_page_shows_the_file_of_the_command_line(tmp_path):
    file = tmp_path / "links.py"
    file.write_text("def square(z):\n    return z**2\n\n\ndef cube(z):\n    return z**3\n")
    given = LinkSource(lambda z: z**2, f"{file}:square", "bsr", code=True)
    assert own_link.code_of(given) == file.read_text()
    function, name = own_link.from_code(file.read_text(), "square")
    assert (function(3), name) == (9, "link.py:square")
    assert own_link.from_code(file.read_text())[0](3) == 27
    assert own_link.code_of(LinkSource()) == own_link.EXAMPLE
