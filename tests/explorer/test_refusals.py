"""What is wrong with a question stays beside its control until it is put right, on a page without a browser."""

import pytest

from glassformer.explorer.panels import curve
from glassformer.explorer.prefetch import Ahead

pytestmark = pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")


@pytest.fixture
def bench(thread):
    pytest.importorskip("panel")
    from glassformer.explorer.model_tab import Bench
    from glassformer.explorer.page import PANELS

    ahead = Ahead(thread.later, list, list)
    made = Bench("bsr", {"alpha": "0:1:5", "panel": "3"}, thread.later, lambda: None, PANELS, ahead)
    yield made
    ahead.end()
    made.end()


def said(control):
    return control._refused.object


def drawn(bench):
    return bench.curve.drawn and not bench.curve.busy


@pytest.mark.slow
def test_an_answer_to_what_was_asked_before_leaves_a_refusal(bench, thread, monkeypatch):
    """Numbers that come once nobody asks for them any more were drawn, and the refusal was gone."""
    thread.until(lambda: drawn(bench))
    before, rho = bench.curve.share._answer, bench.controls["rho"]
    answered = curve.answered

    def meanwhile(asked, so_far):
        thread.later(lambda: rho.put("-1"))
        return answered(asked, so_far)

    monkeypatch.setattr(curve, "answered", meanwhile)
    bench.controls["noise"].put("0.1")
    thread.until(lambda: said(rho))
    monkeypatch.setattr(curve, "answered", answered)
    thread.rest()
    assert "rho = -1.0 is not allowed" in said(rho)
    assert bench.curve.share._answer is before
    assert bench.curve._renderers["Bayes-optimal"][0].glyph.line_alpha < 1, "the curve is that of another question"
    rho.put("0.4")
    thread.until(lambda: drawn(bench) and bench.curve.share._answer is not before)
    assert not said(rho)
    assert bench.curve._renderers["Bayes-optimal"][0].glyph.line_alpha == 1


@pytest.mark.slow
def test_a_panel_that_is_refused_is_not_forgiven_by_the_answer_of_the_curve(bench, thread):
    thread.until(lambda: drawn(bench))
    bench.active.controls["d"].put("x")
    bench.active.ask()
    thread.until(lambda: said(bench.active.controls["d"]))
    bench.curve.ask()
    thread.until(lambda: drawn(bench))
    thread.rest()
    assert "a number" in said(bench.active.controls["d"])
    bench.active.controls["d"].put("20")
    assert not said(bench.active.controls["d"])


@pytest.mark.slow
def test_without_a_place_for_the_panels_there_is_a_curve(bench, thread):
    thread.until(lambda: drawn(bench))
    before = bench.curve.share._answer
    bench.controls["at"].put("nowhere")
    assert "expected a number" in said(bench.controls["at"])
    bench.controls["noise"].put("0.1")
    thread.until(lambda: bench.curve.share._answer is not before)
    thread.rest()
    assert "expected a number" in said(bench.controls["at"])
