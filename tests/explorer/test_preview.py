"""A first look at a curve that takes long, on a page without a browser."""

import numpy as np
import pytest

from glassformer import limits
from glassformer.core import cache
from glassformer.explorer.answer import Request
from glassformer.explorer.panels.curve import answered
from glassformer.explorer.prefetch import Prefetcher
from glassformer.explorer.question import beginning, built, ratios

pytestmark = pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
TEXTS = {**beginning("attention"), "depth": "1", "points": "128", "alpha": "0.4,0.8,0.6"}


@pytest.fixture(autouse=True)
def empty(monkeypatch, tmp_path):
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path))
    monkeypatch.setattr(cache, "memoize", lambda compute, *parts: compute())
    monkeypatch.setattr(cache, "_SLOW", 0.0)


@pytest.fixture
def asked():
    return Request("attention", built("attention", TEXTS), TEXTS)


@pytest.mark.slow
def test_it_comes_before_the_numbers_and_covers_them(asked):
    seen = []
    table = answered(asked, seen.append).content.tables["Bayes-optimal"]
    glances = [one for one in seen if one.first_look]
    assert seen[: len(glances)] == glances
    assert [len(one.content.look["alpha"]) for one in glances] == [1, 2, 3]
    look = glances[-1].content.look
    order = np.argsort(table["alpha"])
    np.testing.assert_array_equal(look["alpha"], table["alpha"][order])
    apart = np.abs(look["error"] - table["algorithmic_error"][order])
    assert np.all(apart <= look["error_estimate"] + table["error_estimate"][order])
    assert look["error_estimate"][0] > table["error_estimate"][order][0], "fewer points, larger bars"


@pytest.mark.slow
def test_the_numbers_are_those_of_the_command_line_digit_by_digit(asked):
    frame = answered(asked, lambda part: None).frame
    np.testing.assert_array_equal(frame["error"], limits(asked.model, ratios(TEXTS), throw=False)["error"])


@pytest.mark.slow
def test_there_is_none_of_what_is_kept_and_none_where_nobody_looks(asked, monkeypatch):
    from glassformer.explorer.panels import curve

    monkeypatch.setattr(curve, "previews", lambda *given: pytest.fail("looked"))
    first = answered(asked, None)
    seen = []
    again = answered(asked, seen.append)
    assert not any(one.first_look for one in seen)
    np.testing.assert_array_equal(first.frame["error"], again.frame["error"])


@pytest.mark.slow
def test_it_is_drawn_over_the_last_curve_and_cannot_be_taken_along(thread):
    pytest.importorskip("panel")
    from glassformer.explorer.model_tab import ModelTab
    from glassformer.explorer.page import PANELS

    prefetcher = Prefetcher(thread.later, list, list)
    model_tab = ModelTab("attention", TEXTS, thread.later, lambda: None, PANELS, prefetcher)
    try:
        curve = model_tab.curve
        thread.until(lambda: curve.has_content)
        assert curve._look.data["alpha"] == [0.4]
        shown = [item.label.value for item in curve._items if item.visible]
        assert shown == ["first look at message passing"], "no curve is drawn yet"
        assert curve.share._csv.disabled and curve.share._png.disabled
        assert curve._renderers["Bayes-optimal"][0].glyph.line_alpha < 1
        assert not curve.share._answer.command
        thread.until(lambda: not curve.busy)
        assert not curve._look.data["alpha"] and not curve._whiskers.data["alpha"]
        assert not curve.share._csv.disabled and not curve.share._png.disabled
        assert curve._renderers["Bayes-optimal"][0].glyph.line_alpha == 1
    finally:
        prefetcher.end()
        model_tab.end()
