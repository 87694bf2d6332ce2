"""What is wrong with a question stays beside its control until it is put right, on a page without a browser."""

import pytest

from glassformer.explorer.panels import curve
from glassformer.explorer.prefetch import Prefetcher

pytestmark = pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")


@pytest.fixture
def model_tab(thread):
    pytest.importorskip("panel")
    from glassformer.explorer.model_tab import ModelTab
    from glassformer.explorer.page import PANELS

    prefetcher = Prefetcher(thread.later, list, list)
    made = ModelTab("bsr", {"alpha": "0:1:5", "panel": "3"}, thread.later, lambda: None, PANELS, prefetcher)
    yield made
    prefetcher.end()
    made.end()


def said(control):
    return control._refused.object


def content(model_tab):
    return model_tab.curve.has_content and not model_tab.curve.busy


@pytest.mark.slow
def test_an_answer_to_what_was_asked_before_leaves_a_refusal(model_tab, thread, monkeypatch):
    """Numbers that come once nobody asks for them any more were drawn, and the refusal was gone."""
    thread.until(lambda: content(model_tab))
    before, rho = model_tab.curve.share._answer, model_tab.controls["rho"]
    answered = curve.answered

    def meanwhile(asked, so_far):
        thread.later(lambda: rho.set_text("-1"))
        return answered(asked, so_far)

    monkeypatch.setattr(curve, "answered", meanwhile)
    model_tab.controls["noise"].set_text("0.1")
    thread.until(lambda: said(rho))
    monkeypatch.setattr(curve, "answered", answered)
    thread.rest()
    assert "rho = -1.0 is not allowed" in said(rho)
    assert model_tab.curve.share._answer is before
    assert model_tab.curve._renderers["Bayes-optimal"][0].glyph.line_alpha < 1, "the curve is that of another question"
    rho.set_text("0.4")
    thread.until(lambda: content(model_tab) and model_tab.curve.share._answer is not before)
    assert not said(rho)
    assert model_tab.curve._renderers["Bayes-optimal"][0].glyph.line_alpha == 1


@pytest.mark.slow
def test_a_panel_that_is_refused_is_not_forgiven_by_the_answer_of_the_curve(model_tab, thread):
    thread.until(lambda: content(model_tab))
    model_tab.active.controls["d"].set_text("x")
    model_tab.active.ask()
    thread.until(lambda: said(model_tab.active.controls["d"]))
    model_tab.curve.ask()
    thread.until(lambda: content(model_tab))
    thread.rest()
    assert "a number" in said(model_tab.active.controls["d"])
    model_tab.active.controls["d"].set_text("20")
    assert not said(model_tab.active.controls["d"])


@pytest.mark.slow
def test_without_a_place_for_the_panels_there_is_a_curve(model_tab, thread):
    thread.until(lambda: content(model_tab))
    before = model_tab.curve.share._answer
    model_tab.controls["at"].set_text("nowhere")
    assert "expected a number" in said(model_tab.controls["at"])
    model_tab.controls["noise"].set_text("0.1")
    thread.until(lambda: model_tab.curve.share._answer is not before)
    thread.rest()
    assert "expected a number" in said(model_tab.controls["at"])
