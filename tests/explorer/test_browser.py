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
# Height that the figure is laid out for.
DRAWN = "[...Bokeh.documents[0]._all_models.values()].find((one) => one.type === 'Figure').outer_height"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def address(served, tmp_path_factory):
    with served(tmp_path_factory.mktemp("explore")) as address:
        yield address


@pytest.fixture(scope="module")
def trusting(served, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trusting")
    (folder / "links.py").write_text("def gated(z):\n    return z[0, 0] * z[1, 0]\n")
    with served(folder, "--allow-code", "--link", f"{folder / 'links.py'}:gated") as address:
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


@pytest.fixture(scope="module")
def person(browser):
    """Pages of one person: scripts are loaded and compiled once."""
    with browser.new_context() as context:
        yield context


@pytest.fixture
def visit(person, address):
    """Opens a page; whatever goes wrong in it, or leaves this machine, fails the test."""
    wrong, pages = [], []

    def opened(query="", width=1400, there=".sentence", by=person):
        page = by.new_page()
        pages.append(page)
        page.set_viewport_size({"width": width, "height": 900})
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
        page.on("request", lambda asked: None if _own(asked.url, address) else wrong.append(asked.url))
        page.set_default_timeout(60_000)
        page.goto(address + query)
        page.locator(there).first.wait_for()
        return page

    yield opened
    for page in pages:
        page.close()
    assert not wrong


def _own(url, address):
    return url.startswith((address.rpartition("/")[0] + "/", "data:", "blob:"))


def _said(page, text):
    page.get_by_text(text).first.wait_for()


def _inside(page, selector):
    """Whether all of an element is on the screen, and the plot in it is as large as its place."""
    box, size = page.locator(selector).first.bounding_box(), page.viewport_size
    return box["x"] >= 0 and box["x"] + box["width"] <= size["width"] and box["y"] + box["height"] <= size["height"]


def test_a_slider_moves_the_curve_and_the_address_leads_back(visit, address, browser):
    first, second = visit("?alpha=0:1:21&rho=inf&at=0.25"), visit(by=browser.new_context())
    slider = first.get_by_role("slider", name="noise slider")
    for _ in range(4):
        slider.press("ArrowRight")
    model = BilinearSequenceRegression(rho=np.inf, noise=0.04)
    expected = limits(model, np.linspace(0, 1, 21))["error"]
    _said(first, f"With 0.25 samples per entry the best possible error is {expected[5]:.3g}")
    first.wait_for_url("**noise=0.04*")
    again = visit(first.url.removeprefix(address))
    assert again.get_by_role("textbox", name="noise").input_value() == "0.04"
    _said(again, f"the best possible error is {expected[5]:.3g}")
    # The other person's page is as it was.
    assert second.get_by_role("textbox", name="noise").input_value() == "0.0"
    with again.expect_download() as taken:
        again.get_by_role("button", name="CSV").click()
    written = pandas.read_csv(io.BytesIO(taken.value.path().read_bytes()))
    np.testing.assert_allclose(written["error"], expected, rtol=1e-14)
    with again.expect_download() as taken:
        again.get_by_role("button", name="PNG").click()
    assert taken.value.path().read_bytes().startswith(b"\x89PNG")


def test_the_plot_fills_the_page_and_everything_fits_on_wide_and_narrow_screens(visit):
    page = visit("?alpha=0:1:5")
    assert _inside(page, ".plot") and _inside(page, ".sentence")
    plot = page.locator(".plot").bounding_box()
    assert plot["width"] * plot["height"] > 0.45 * 1400 * 900
    page.get_by_role("button", name="Code").click()
    page.locator("pre").first.wait_for()

    def cut_off():
        return abs(page.locator(".plot").bounding_box()["height"] - page.evaluate(DRAWN))

    for _ in range(100):
        page.wait_for_timeout(100)
        if cut_off() < 4:
            break
    assert cut_off() < 4, "nothing of the figure is cut off"
    narrow = visit("?alpha=0:1:5", width=400)
    assert narrow.evaluate("document.documentElement.scrollWidth") <= 400
    assert narrow.locator(".plot").bounding_box()["y"] < narrow.get_by_role("slider").first.bounding_box()["y"]


def test_a_bad_value_is_refused_beside_its_control_on_a_narrow_screen(visit):
    # Written at once: the first answer, to what was asked before, is on its way.
    page = visit("?alpha=0:1:5&noise=0.0123", width=400, there="select")
    field = page.get_by_role("textbox", name="rho")
    field.fill("-1")
    field.press("Enter")
    refused = page.get_by_role("alert").filter(has_text="rho = -1.0 is not allowed: expected >= 0")
    refused.wait_for()
    assert 0 < refused.bounding_box()["y"] - field.bounding_box()["y"] < 120
    # As long as it may take until that answer would be there.
    page.wait_for_timeout(1000)
    assert refused.is_visible()
    field.fill("0.4")
    field.press("Enter")
    refused.wait_for(state="hidden")
    _said(page, "the best possible error is")


def test_tabs_views_and_learners_are_reached_by_keys(visit):
    page = visit("?alpha=0.2:1:5")
    page.get_by_role("tab", name="What can be learned?").press("ArrowRight")
    _said(page, "ridge regression reaches")
    page.get_by_role("checkbox", name="minimum nuclear norm").press("Space")
    page.locator(".legend").get_by_text("minimum nuclear norm").wait_for(state="detached")
    page.get_by_role("tab", name="What does my training reach?").press("ArrowRight")
    _said(page, "after 30")
    assert page.get_by_role("tab", name="In time").get_attribute("aria-selected") == "true"
    page.get_by_role("button", name="Table").press("Space")
    page.locator("table").first.wait_for()
    page.get_by_role("button", name="Code").press("Space")
    _said(page, "glassformer trajectory bsr")


def test_another_model_is_named_in_the_menu_and_has_its_own_texts_and_axes_at_once(visit):
    page = visit("?alpha=0:1:5")
    menu, noise = page.get_by_role("combobox", name="Model"), page.get_by_role("textbox", name="noise")
    # Within a second: the form is made anew while the noise that was just written is that of another model.
    page.get_by_role("slider", name="noise slider").press("ArrowRight")
    menu.select_option("attention")
    _said(page, "Without data the error is 1.")
    assert (menu.input_value(), noise.input_value()) == ("attention", "0.0")
    page.wait_for_url("**model=attention*")
    menu.select_option("bsr")
    page.wait_for_url("**model=bsr*")
    assert (menu.input_value(), noise.input_value()) == ("bsr", "0.01")


@pytest.mark.thorough
def test_tabs_that_are_left_while_they_compute_leave_nothing_behind(visit):
    page = visit("?alpha=0:1:5")
    for name in ("In time", "On data", "What can be learned?", "Phase", "Free entropy", "In time", "What can"):
        page.get_by_role("tab", name=name).click()
        page.wait_for_timeout(150)
    page.get_by_role("slider", name="noise slider").press("ArrowRight")
    expected = limits(BilinearSequenceRegression(rho=0.5, noise=0.01), [0.0])["error"][0]
    _said(page, f"With 0 samples per entry the best possible error is {expected:.3g}")


@pytest.mark.thorough
def test_code_from_the_page_runs_and_is_described(person, trusting):
    page = person.new_page()
    page.goto(f"{trusting}?model=link&family=bsr&alpha=0.5:1:3")
    code = page.get_by_label("Python code")
    code.fill("def link(z):\n    return open_a_file(z)\n")
    page.get_by_role("button", name="Run this code").click()
    _said(page, "open_a_file")
    code.fill("def link(z):\n    return z**2\n")
    page.get_by_role("button", name="Run this code").click()
    _said(page, "even in the fields; information exponent 2")
    _said(page, "the best possible error is")
    page.close()


@pytest.mark.thorough
def test_indices_of_a_link_are_found_and_can_be_changed(person, trusting):
    page = person.new_page()
    page.goto(f"{trusting}?alpha=0.5&points=32")
    _said(page, "fields with indices = 2 and tokens = 1")
    field = page.get_by_role("textbox", name="indices")
    assert field.input_value() == "2"
    field.fill("1")
    field.press("Enter")
    _said(page, "IndexError: index 1 is out of bounds")
    page.close()
