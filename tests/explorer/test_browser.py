"""The explorer in a real browser, as two people use it."""

import io
import shutil

import numpy as np
import pandas
import pytest

from glassformer import BilinearSequenceRegression, limits

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)


@pytest.fixture(scope="module")
def address(served, tmp_path_factory):
    with served(tmp_path_factory.mktemp("explore")) as address:
        yield address


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("no Chromium: apt-get install chromium, as root, brings one")
    sync = pytest.importorskip("playwright.sync_api")
    with sync.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET.split())
        yield browser
        browser.close()


@pytest.fixture
def visit(browser, address):
    """Opens a page in a window of its own; whatever goes wrong in it, or leaves this machine, fails the test."""
    wrong, windows = [], []

    def opened(query="", width=1280, there="Values as a table"):
        window = browser.new_context(viewport={"width": width, "height": 900})
        windows.append(window)
        page = window.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
        page.on("request", lambda asked: None if _own(asked.url, address) else wrong.append(asked.url))
        page.set_default_timeout(60_000)
        page.goto(address + query)
        page.get_by_text(there).first.wait_for()
        return page

    yield opened
    for window in windows:
        window.close()
    assert not wrong


def _own(url, address):
    return url.startswith((address.rpartition("/")[0] + "/", "data:", "blob:"))


def _said(page, text):
    page.get_by_text(text).first.wait_for()


@pytest.mark.slow
def test_a_slider_moves_the_curve_and_the_address_leads_back(visit, address):
    first, second = visit("?alpha=0:1:21&rho=inf&at=0.25"), visit()
    slider = first.get_by_role("slider", name="noise slider")
    for _ in range(4):
        slider.press("ArrowRight")
    expected = limits(BilinearSequenceRegression(rho=np.inf, noise=0.04), [0.0, 1.0])["error"][1]
    _said(first, f"goes from 1 at alpha = 0 to {expected:.4g} at 1")
    first.wait_for_url("**noise=0.04*")
    again = visit(first.url.removeprefix(address))
    assert again.get_by_role("textbox", name="noise").input_value() == "0.04"
    _said(again, f"goes from 1 at alpha = 0 to {expected:.4g} at 1")
    # The other person's page is as it was.
    assert second.get_by_role("textbox", name="noise").input_value() == "0.0"
    with again.expect_download() as taken:
        again.get_by_role("button", name="CSV: error").click()
    described = pandas.read_csv(io.BytesIO(taken.value.path().read_bytes()))
    model = BilinearSequenceRegression(rho=np.inf, noise=0.04)
    np.testing.assert_allclose(described["error"], limits(model, np.linspace(0, 1, 21))["error"], rtol=1e-14)
    with again.expect_download() as taken:
        again.get_by_role("button", name="PNG: free-entropy").click()
    assert taken.value.path().read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_a_bad_value_is_refused_beside_its_control_on_a_narrow_screen(visit):
    # Written at once: the first answer, to what was asked before, is on its way.
    page = visit("?alpha=0:1:5&noise=0.0123", width=390, there="alpha of the panels below")
    field = page.get_by_role("textbox", name="rho")
    field.fill("-1")
    field.press("Enter")
    refused = page.get_by_role("alert").filter(has_text="rho = -1.0 is not allowed: expected >= 0")
    refused.wait_for()
    assert 0 < refused.bounding_box()["y"] - field.bounding_box()["y"] < 120
    # As long as it may take until that answer would be there.
    page.wait_for_timeout(2000)
    assert refused.is_visible()
    field.fill("0.4")
    field.press("Enter")
    refused.wait_for(state="detached")
    _said(page, "The Bayes-optimal error goes from")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.slow
def test_only_learners_that_fit_are_offered_and_tables_unfold_by_key(visit):
    page = visit("?tab=aim&alpha=0.5:1:3&panel=3&algorithm=ridge")
    said = page.get_by_role("button", name="Learners that are not for this model: show")
    said.wait_for()
    offered = page.get_by_role("combobox", name="algorithm")
    assert offered.locator("option").all_inner_texts() == ["gamp", "risk", "gd", "averaged-gd"]
    assert offered.input_value() == "gamp"
    said.press("Enter")
    _said(page, "ridge: algorithm ridge fits single linear labels")
    _said(page, "sgd: algorithm sgd needs a label")
    assert page.locator("table").count() == 0
    page.get_by_role("button", name="Values as a table: show").first.press("Space")
    page.locator("table").first.wait_for()
    page.get_by_role("button", name="Values as a table: hide").press("Space")
    page.locator("table").first.wait_for(state="detached")


@pytest.mark.slow
def test_runs_appear_and_can_be_cancelled(visit):
    page = visit("?alpha=0.2:1:5&noise=0.1&panel=3&d=16&instances=1&places=2")
    page.get_by_role("button", name="Compute: simulated data").click()
    _said(page, "2 runs at 2 sample ratios")
    size = page.get_by_role("textbox", name="instances")
    size.fill("500")
    size.press("Enter")
    page.get_by_role("button", name="Compute: simulated data").click()
    page.get_by_role("button", name="Cancel").click()
    _said(page, "cancelled")


@pytest.mark.slow
def test_code_from_the_page_runs_only_where_the_command_line_said_so(browser, address, served, tmp_path):
    refused = browser.new_page()
    refused.goto(f"{address}?tab=link")
    _said(refused, "without it the page runs no code")
    assert refused.get_by_label("Python code").count() == 0
    refused.close()
    with served(tmp_path, "--allow-code") as trusting:
        page = browser.new_page()
        page.goto(f"{trusting}?tab=link&family=bsr&alpha=0.5:1:3")
        code = page.get_by_label("Python code")
        code.fill("def link(z):\n    return open_a_file(z)\n")
        page.get_by_role("button", name="Run this code").click()
        _said(page, "open_a_file")
        code.fill("def link(z):\n    return 2 * z\n")
        page.get_by_role("button", name="Run this code").click()
        expected = limits(BilinearSequenceRegression(rho=0.5, link=lambda z: 2 * z), [0.5])["error"][0]
        _said(page, f"goes from {expected:.4g} at alpha = 0.5 to 0 at 1.")
        page.close()


@pytest.mark.slow
def test_tabs_that_are_left_while_they_compute_are_whole_afterwards(visit):
    """What was changed in a hidden tab referred to what the browser had forgotten, and to style sheets elsewhere."""
    page = visit("?tab=bsr&alpha=0:1:5")
    for name in ("aim:", "bsr:", "aim:", "In time", "bsr:", "Spectrum", "aim:", "Free entropy", "bsr:"):
        page.locator(".bk-tab").filter(has_text=name).locator("visible=true").first.click()
        page.wait_for_timeout(400)
    slider = page.get_by_role("slider", name="noise slider").locator("visible=true")
    slider.press("ArrowRight")
    expected = limits(BilinearSequenceRegression(rho=0.5, noise=0.01), [1.0])["error"][0]
    _said(page, f"to {expected:.4g} at 1.")


@pytest.mark.slow
def test_indices_of_a_link_are_found_and_can_be_changed(browser, served, tmp_path):
    (tmp_path / "links.py").write_text("def gated(z):\n    return z[0, 0] * z[1, 0]\n")
    with served(tmp_path, "--link", f"{tmp_path / 'links.py'}:gated") as address:
        page = browser.new_page()
        page.goto(f"{address}?alpha=0.5&points=32")
        _said(page, "fields with indices = 2 and tokens = 1")
        field = page.get_by_role("textbox", name="indices")
        assert field.input_value() == "2"
        _said(page, "Computing; the figure will be drawn here")
        field.fill("1")
        field.press("Enter")
        _said(page, "IndexError: index 1 is out of bounds")
        _said(page, "put right what is refused")
        page.close()
