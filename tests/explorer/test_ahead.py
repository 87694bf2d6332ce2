"""What is computed before anybody asks, on a page without a browser."""

from itertools import count

import pytest

from glassformer.core.cache import cached_table
from glassformer.core.progress import note
from glassformer.explorer import ahead as here
from glassformer.explorer.answer import Asked
from glassformer.explorer.page import PANELS
from glassformer.explorer.question import beginning, built

# Words for widgets are those of the oldest Panel that is supported.
pytestmark = pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
TEXTS = {"depth": "1", "points": "32", "alpha": "0.5"}


@pytest.fixture
def opened(monkeypatch, tmp_path, thread):
    pytest.importorskip("panel")
    from glassformer.explorer.model_tab import Bench

    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path))
    ended = []

    def made(name, texts, slider, number):
        """A page whose slider is moved before there is any answer: computing one takes long."""
        ahead = here.Ahead(thread.later, lambda: bench.beside(), list)
        bench = Bench(name, texts, thread.later, lambda: None, PANELS, ahead)
        ended.extend([ahead, bench])
        assert not bench.beside(), "no slider was moved"
        bench.controls[slider].slider.value = number
        thread.until(lambda: bench.curve.drawn and not bench.curve.busy and not bench.active.busy)
        return bench

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
    bench = opened("attention", TEXTS, "skip", 4.0)
    beside = {**TEXTS, "skip": "3.99"}
    assert [asked.texts["skip"] for asked in bench.beside()] == ["3.99"], "the slider ends at 4"
    assert kept({**TEXTS, "skip": "4"})
    assert not kept(beside)
    seen = bench.curve.progress.object, bench.curve.share.view[0].object
    thread.idle()
    thread.until(lambda: kept(beside))
    assert (bench.curve.progress.object, bench.curve.share.view[0].object) == seen
    assert not bench.curve.busy
    assert not bench.curve.cancel.visible


def test_models_whose_answers_take_no_time_have_nothing_computed_ahead(opened, thread, monkeypatch):
    monkeypatch.setattr(here, "answered", lambda *given: pytest.fail("computed"))
    bench = opened("bsr", {"alpha": "0.5"}, "noise", 0.1)
    assert bench.controls["noise"].beside() == ["0.09", "0.11"]
    assert thread.resting
    assert not bench.beside()


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
    asked = here.beginnings(["bsr", "attention"])
    ahead = here.Ahead(thread.later, lambda: asked, list)
    ahead.answered("nobody")
    assert not thread.resting
    ahead.asked("curve")
    ahead.asked("panel")
    ahead.answered("curve")
    thread.idle()
    assert not begun, "the panel waits still"
    ahead.answered("panel")
    first = thread.resting.pop()
    ahead.asked("curve")
    ahead.answered("curve")
    first()
    assert not begun, "something was asked in between"
    thread.idle()
    thread.until(lambda: begun)
    ahead.asked("panel")
    thread.until(lambda: dropped)
    ahead.answered("panel")
    thread.idle()
    thread.until(lambda: len(begun) == 2)
    ahead.end()
    thread.until(lambda: len(dropped) == 2)


def test_where_steps_take_no_time_other_tabs_are_computed_ahead(monkeypatch, thread):
    seen = []
    monkeypatch.setattr(here, "answered", lambda asked, so_far: seen.append(asked.name))
    ahead = here.Ahead(thread.later, list, lambda: here.beginnings(["aim", "attention"]))
    ahead.asked("curve")
    ahead.answered("curve")
    thread.idle()
    assert not seen, "whoever moves on is not slowed"
    thread.idle()
    thread.until(lambda: seen == ["attention"])
    ahead.end()


def test_mistakes_and_what_nobody_could_find_again_are_passed_over(monkeypatch):
    from glassformer.core.errors import IncompatibleError

    model, texts, seen = built("bsr", beginning("bsr")), beginning("bsr"), []
    states = (1.0 for _ in count())
    unknown = built("bsr", texts, lambda z: z * next(states))

    def refusing(asked, so_far):
        seen.append(asked.model)
        raise IncompatibleError("no")

    monkeypatch.setattr(here, "answered", refusing)
    here._answer([Asked("bsr", one, texts) for one in (unknown, model, model)], seen.append)
    assert seen == [model, model]
