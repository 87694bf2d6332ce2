"""What is computed before anybody asks, on a page without a browser."""

from itertools import count

import pytest

from glassformer.core.cache import cached_table
from glassformer.core.progress import note
from glassformer.explorer import prefetch as here
from glassformer.explorer.answer import Request
from glassformer.explorer.page import PANELS
from glassformer.explorer.question import beginning, built

# Words for widgets are those of the oldest Panel that is supported.
pytestmark = pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
TEXTS = {"depth": "1", "points": "32", "alpha": "0.5"}


@pytest.fixture
def opened(monkeypatch, tmp_path, thread):
    pytest.importorskip("panel")
    from glassformer.explorer.model_tab import ModelTab

    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path))
    ended = []

    def made(name, texts, slider, number):
        """A page whose slider is moved before there is any answer: computing one takes long."""
        prefetcher = here.Prefetcher(thread.later, lambda: model_tab.neighbours(), list)
        model_tab = ModelTab(name, texts, thread.later, lambda: None, PANELS, prefetcher)
        ended.extend([prefetcher, model_tab])
        assert not model_tab.neighbours(), "no slider was moved"
        model_tab.controls[slider].slider.value = number
        thread.until(lambda: model_tab.curve.has_content and not model_tab.curve.busy and not model_tab.active.busy)
        return model_tab

    yield made
    for one in ended:
        one.end()


def kept(texts):
    """Whether the answer for attention is kept."""

    def missing():
        raise LookupError

    model = built("attention", {**beginning("attention"), **texts})
    try:
        return cached_table(missing, "limits", model, [float(texts["alpha"])]) is not None
    except LookupError:
        return False


@pytest.mark.slow
def test_after_an_answer_the_step_of_the_slider_beside_it_is_kept(opened, thread):
    model_tab = opened("attention", TEXTS, "skip", 4.0)
    neighbours = {**TEXTS, "skip": "3.99"}
    assert [asked.texts["skip"] for asked in model_tab.neighbours()] == ["3.99"], "the slider ends at 4"
    assert kept({**TEXTS, "skip": "4"})
    assert not kept(neighbours)
    seen = model_tab.curve.progress.object, model_tab.curve.share.view[0].object
    thread.idle()
    thread.until(lambda: kept(neighbours))
    assert (model_tab.curve.progress.object, model_tab.curve.share.view[0].object) == seen
    assert not model_tab.curve.busy
    assert not model_tab.curve.cancel.visible


def test_models_whose_answers_take_no_time_have_nothing_computed_ahead(opened, thread, monkeypatch):
    monkeypatch.setattr(here, "answered", lambda *given: pytest.fail("computed"))
    model_tab = opened("bsr", {"alpha": "0.5"}, "noise", 0.1)
    assert model_tab.controls["noise"].neighbours() == ["0.09", "0.11"]
    assert thread.resting
    assert not model_tab.neighbours()


def test_a_question_drops_what_nobody_has_asked(monkeypatch, thread):
    begun, dropped = [], []

    def endless(asked, so_far):
        begun.append(asked)
        try:
            while True:
                note("still at it")
        except BaseException:
            dropped.append(asked)
            raise

    monkeypatch.setattr(here, "answered", endless)
    asked = here.first_requests(["bsr", "attention"])
    prefetcher = here.Prefetcher(thread.later, lambda: asked, list)
    prefetcher.answered("nobody")
    assert not thread.resting
    prefetcher.asked("curve")
    prefetcher.asked("panel")
    prefetcher.answered("curve")
    thread.idle()
    assert not begun, "the panel waits still"
    prefetcher.answered("panel")
    first = thread.resting.pop()
    prefetcher.asked("curve")
    prefetcher.answered("curve")
    first()
    assert not begun, "something was asked in between"
    thread.idle()
    thread.until(lambda: begun)
    prefetcher.asked("panel")
    thread.until(lambda: dropped)
    prefetcher.answered("panel")
    thread.idle()
    thread.until(lambda: len(begun) == 2)
    prefetcher.end()
    thread.until(lambda: len(dropped) == 2)


def test_where_steps_take_no_time_other_tabs_are_computed_ahead(monkeypatch, thread):
    seen = []
    monkeypatch.setattr(here, "answered", lambda asked, so_far: seen.append(asked.name))
    prefetcher = here.Prefetcher(thread.later, list, lambda: here.first_requests(["aim", "attention"]))
    prefetcher.asked("curve")
    prefetcher.answered("curve")
    thread.idle()
    assert not seen, "whoever moves on is not slowed"
    thread.idle()
    thread.until(lambda: seen == ["attention"])
    prefetcher.end()


def test_mistakes_and_what_nobody_could_find_again_are_passed_over(monkeypatch):
    from glassformer.core.errors import IncompatibleError

    model, texts, seen = built("bsr", beginning("bsr")), beginning("bsr"), []
    states = (1.0 for _ in count())
    unknown = built("bsr", texts, lambda z: z * next(states))

    def refusing(asked, so_far):
        seen.append(asked.model)
        raise IncompatibleError("no")

    monkeypatch.setattr(here, "answered", refusing)
    here._answer([Request("bsr", one, texts) for one in (unknown, model, model)], seen.append)
    assert seen == [model, model]
