"""What a page draws and says, without a browser."""

import shlex
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from glassformer.cli import main
from glassformer.explorer.answer import Request
from glassformer.explorer.prefetch import Prefetcher
from glassformer.explorer.question import beginning, built

pytest.importorskip("panel")

from glassformer.explorer.own_link import shape_of
from glassformer.explorer.panels.curve import _LINE, _labels, _refusals, answered

pytestmark = pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")


@pytest.fixture
def model_tab(thread):
    from glassformer.explorer.model_tab import ModelTab
    from glassformer.explorer.page import PANELS

    prefetcher = Prefetcher(thread.later, list, list)
    made = ModelTab("bsr", {"alpha": "0:1.5:4", "panel": "3"}, thread.later, lambda: None, PANELS, prefetcher)
    yield made
    prefetcher.end()
    made.end()


def asked(name, **texts):
    texts = {**beginning(name), **texts}
    return Request(name, built(name, texts), texts)


def test_the_place_of_the_curve_says_what_is_waited_for_and_the_legend_names_what_is_drawn(model_tab, thread):
    curve = model_tab.curve
    model_tab.controls["rho"].set_text("-1")
    assert "put right" in curve._empty.object
    model_tab.controls["rho"].set_text("0.5")
    assert "Computing" in curve._empty.object
    assert not curve.has_content
    thread.until(lambda: curve.has_content and not curve.busy)
    assert curve._empty not in curve._place
    assert [item.label.value for item in curve._items if item.visible] == ["Bayes-optimal"]


def test_thresholds_that_are_close_share_a_label_and_no_two_labels_overlap():
    rng = np.random.default_rng(0)
    for _ in range(50):
        places = {alpha: ["a"] * rng.integers(1, 4) for alpha in np.sort(rng.uniform(0, 2, 6)).tolist()}
        found = _labels(places, 0.0, 2.0, 1.0)
        assert sum(label.count("a") for label in found["label"]) == sum(map(len, places.values()))
        ends = []
        for alpha, label, offset in zip(found["alpha"], found["label"], found["offset"], strict=True):
            width = 2 * _LINE * label.count("a")
            ends.append((alpha - width, alpha) if offset < 0 else (alpha, alpha + width))
        assert all(one[1] <= other[0] + 1e-12 for one, other in pairwise(ends))


def test_an_error_below_its_estimate_is_called_zero():
    answer = answered(asked("bsr", alpha="0:1.5:4"), None)
    assert 0 < answer.frame["error"].iloc[-1] < 1e-12, "the table has the number as it is"
    assert answer.said.startswith("The Bayes-optimal error goes from 1 at alpha = 0 to 0 at 1.5.")


@pytest.mark.slow
def test_regularised_risk_is_offered_with_what_fits_the_model(tmp_path, capsys):
    softmax = built("aim", beginning("aim"))
    assert "risk" not in _refusals(softmax) and "ridge" in _refusals(softmax)
    answer = answered(asked("aim", channel="linear", alpha="0.05,0.1", learners="risk"), None)
    page = answer.frame.set_index("learner").loc["risk", "error"]
    names = {}
    exec(answer.code, names)
    np.testing.assert_array_equal(names["risk"]["error"], page)
    path = tmp_path / "risk.csv"
    assert main([*shlex.split(answer.command.splitlines()[-1])[1:], "--csv", str(path)]) == 0
    described = np.genfromtxt(path, delimiter=",", names=True, usecols=(0, 1))
    np.testing.assert_allclose(described["error"], page, rtol=1e-14)
    capsys.readouterr()


@pytest.mark.slow
def test_the_shape_of_a_link_is_the_smallest_that_works_unless_another_is_asked_for():
    assert shape_of(lambda z: z[0, 0] * z[1, 0], "smi", {}) == {"indices": "2", "tokens": "1"}
    assert shape_of(lambda z: z[0, 0] * z[1, 0], "smi", {"indices": "3"}) == {"indices": "3", "tokens": "1"}
    assert shape_of(lambda z: jnp.sign(z[0, 0] * z[1, 0]), "smi", {}) == {"indices": "2", "tokens": "1"}
    assert shape_of(lambda z: jax.nn.softmax(z[0])[0], "smi", {}) == {"indices": "1", "tokens": "2"}
    assert shape_of(lambda z: 1.0, "smi", {}) == {}
    assert shape_of(np.tanh, "bsr", {}) == {}
