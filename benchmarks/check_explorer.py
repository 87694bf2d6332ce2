"""The explorer under random hands: sliders moved in a browser, what goes wrong in it or in the log, memory, answers.

A server of its own, and a page for every tab, whose sliders are put anywhere; the noise of aim stays zero, as labels of
softmax attention with noise take minutes. Every tenth move, of bsr or aim, waits for its answers, that of the curve and
that of the free entropy below it: from the move to the moment when the browser has painted other numbers.

Before, one key on the skip strength of deep attention: right after the last answer, and once the page has computed the
next step ahead. With --rest pages stand still for so many seconds before they are moved, in which others are computed.

    python benchmarks/check_explorer.py [--moves 1000] [--seed 0] [--rest 0]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import psutil

# Sliders that are moved, by the tab, first the one that every number depends on; bytes that the server may come to.
SLIDERS, LIMIT = {"bsr": ("noise", "rho", "beta"), "aim": ("rho", "temperature")}, 1e9
# The same where answers take long, or come from a link of one's own: moved, and not waited for.
OTHERS = {"attention": ("skip", "side information", "noise"), "link&family=bsr": ("noise", "rho", "beta")}
LINK = "import jax.numpy as jnp\n\n\ndef link(z):\n    return jnp.tanh(z)\n"
MOVE = "(input, value) => { input.value = value; input.dispatchEvent(new Event('input')); }"
# A column that only the curve has, and one that only the panel below it has.
FIGURES = {"curve": "marker", "free entropy": "overlap"}
# Milliseconds until each of them has other numbers and two more frames, in which it is painted, have passed; the move
# comes once nothing has changed for a second.
ANSWERS = """async (input, [value, columns]) => {
  const frame = () => new Promise(requestAnimationFrame);
  const renderers = () => [...Bokeh.documents[0]._all_models.values()].filter((one) => one.type === "GlyphRenderer");
  const sources = () => renderers().map((one) => one.data_source);
  const now = () => columns.map((name) => sources().find((one) => one.data[name]?.length > 0)?.data);
  const others = (first, second) => first.map((one, k) => one !== second[k]);
  const soon = (from, seen) => {
    if (performance.now() - from > 60000) throw new Error(`${value}: frames with other numbers in a minute: ${seen}`);
  };
  let before = now(), since = performance.now();
  for (const start = since; performance.now() - since < 1000; await frame(), soon(start, "all"))
    if (others(before, now()).includes(true)) { before = now(); since = performance.now(); }
  const start = performance.now(), painted = columns.map(() => null), seen = columns.map(() => 0);
  input.value = value;
  input.dispatchEvent(new Event("input"));
  for (; painted.includes(null); await frame(), soon(start, seen))
    others(before, now()).forEach((other, k) => {
      seen[k] += other;
      if (seen[k] === 3) painted[k] = performance.now() - start;
    });
  return painted;
}"""

# Seconds from a key until the last curve is grey, a first look has one point and all of them, and the curve is there.
STEP = """async (input) => {
  const marked = () => [...Bokeh.documents[0]._all_models.values()].filter(
    (one) => one.type === "GlyphRenderer" && one.data_source.data["marker"]?.length > 0);
  // What is filled with white is the first look.
  const looks = (one) => one.glyph.fill_color?.value === "#ffffff";
  const curve = () => marked().find((one) => !looks(one));
  const looked = () => marked().find(looks)?.data_source.data["alpha"].length ?? 0;
  const before = curve().data_source.data, count = before["alpha"].length, seen = [null, null, null, null];
  const start = performance.now(), since = () => (performance.now() - start) / 1000;
  input.stepUp();
  input.dispatchEvent(new Event("input"));
  while (seen[3] === null && since() < 120) {
    await new Promise(requestAnimationFrame);
    const data = curve().data_source.data;
    if (seen[0] === null && curve().glyph.line_alpha?.value < 1) seen[0] = since();
    if (seen[1] === null && looked() > 0) seen[1] = since();
    if (seen[2] === null && looked() === count) seen[2] = since();
    if (data !== before) seen[3] = since();
  }
  return seen;
}"""
# Keys on a slider of deep attention, and seconds without a computation after which nothing more comes ahead.
KEYS, QUIET = 3, 3.0


class Hand:
    """Moves the sliders of one page, to where they have not been of late: a page that is back there has no news."""

    def __init__(self, page: Any, rng: np.random.Generator) -> None:
        self._page, self._rng = page, rng
        self._recent: dict[str, deque[str]] = {}

    def move(self, name: str) -> None:
        slider, value = self._place(name)
        slider.evaluate(MOVE, value)

    def answered(self, name: str) -> list[float]:
        """Seconds from a move to the moment when each figure is painted with other numbers."""
        slider, value = self._place(name)
        return [ms / 1000 for ms in slider.evaluate(ANSWERS, [value, list(FIGURES.values())])]

    def _place(self, name: str) -> tuple[Any, str]:
        slider = self._page.get_by_role("slider", name=f"{name} slider")
        low, high, step = (float(slider.get_attribute(end)) for end in ("min", "max", "step"))
        recent = self._recent.setdefault(name, deque([f"{float(slider.input_value()):.6g}"], maxlen=20))
        values = [f"{low + step * k:.6g}" for k in range(round((high - low) / step) + 1)]
        recent.append(str(self._rng.choice([value for value in values if value not in recent])))
        return slider, recent[-1]


def opened(browser: Any, address: str, tab: str, wrong: list[str]) -> Any:
    page = browser.new_page()
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
    start = time.perf_counter()
    page.goto(f"{address}?tab={tab}")
    page.get_by_role("slider").first.wait_for()
    print(f"{tab}: sliders after {time.perf_counter() - start:.2f} s", flush=True)
    page.get_by_text("Values as a table").first.wait_for(timeout=60_000)
    return page


def stepped(browser: Any, address: str, process: psutil.Process, wrong: list[str]) -> None:
    """Print what a key on the skip strength of deep attention takes."""
    page = opened(browser, address, "attention", wrong)
    slider = page.get_by_role("slider", name="skip slider")
    # All points of the first curve are there.
    at_rest(process, QUIET)
    for name, seconds in (("cold", 0.0), ("computed ahead", QUIET)):
        for _ in range(KEYS):
            at_rest(process, seconds)
            seen = zip(("grey", "first look", "all of it", "curve"), slider.evaluate(STEP), strict=True)
            told = (f"{what} {'not seen' if s is None else f'after {s:.2f} s'}" for what, s in seen)
            print(f"attention, {name}:", ", ".join(told), flush=True)
    page.close()


def at_rest(process: psutil.Process, seconds: float) -> None:
    """Wait until the server has computed nothing for so long."""
    since, used = time.monotonic(), -1.0
    while time.monotonic() - since < seconds:
        now = sum(process.cpu_times()[:2])
        if now - used > 0.1:
            since, used = time.monotonic(), now
        time.sleep(0.1)


def tortured(
    browser: Any, address: str, process: psutil.Process, options: argparse.Namespace
) -> tuple[list[str], float]:
    """What went wrong in the browser, and the largest memory of the server."""
    rng, wrong, largest = np.random.default_rng(options.seed), list[str](), 0.0
    stepped(browser, address, process, wrong)
    moved = {**SLIDERS, **OTHERS}
    hands = {tab: Hand(opened(browser, address, tab, wrong), rng) for tab in moved}
    waits: dict[str, list[list[float]]] = {tab: [] for tab in SLIDERS}
    time.sleep(options.rest)
    print(f"at the start the server has {process.memory_info().rss / 1e6:.0f} MB", flush=True)
    for move in range(options.moves):
        tab = str(rng.choice(list(moved if move % 10 else SLIDERS)))
        if move % 10:
            hands[tab].move(str(rng.choice(moved[tab])))
        else:
            waits[tab].append(hands[tab].answered(SLIDERS[tab][0]))
            largest = max(largest, process.memory_info().rss)
    for tab, seconds in ((tab, seconds) for tab, seconds in waits.items() if seconds):
        for figure, own in zip(FIGURES, np.transpose(seconds), strict=True):
            low, middle, high = np.quantile(own, [0.1, 0.5, 0.9])
            print(f"{tab}: {figure} after {middle:.3f} s, eight of ten within {low:.3f} to {high:.3f} s")
    return wrong, largest


def main() -> None:
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moves", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rest", type=float, default=0.0)
    options = parser.parse_args()
    command = [sys.executable, "-m", "glassformer", "explore", "--no-browser"]
    with TemporaryDirectory() as folder, Path(folder, "log").open("w+") as log, sync_playwright() as playwright:
        # Nothing is kept from before.
        settings = {**os.environ, "GLASSFORMER_CACHE": str(Path(folder, "cache"))}
        Path(folder, "link.py").write_text(LINK)
        command += ["--link", f"{folder}/link.py:link"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=settings)
        try:
            assert server.stdout is not None
            address = server.stdout.readline().split()[3]
            chromium = shutil.which("chromium") or shutil.which("google-chrome")
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
            wrong, largest = tortured(browser, address, psutil.Process(server.pid), options)
            browser.close()
        finally:
            server.terminate()
            server.wait(60)
            log.seek(0)
            written = log.read()
            print(written[:2000])
    print(f"{options.moves} moves: {len(wrong)} errors in the browser, {len(written.splitlines())} lines in the log")
    print(f"largest memory of the server {largest / 1e6:.0f} MB")
    print("\n".join(wrong[:10]))
    sys.exit(bool(wrong) or bool(written) or largest > LIMIT)


if __name__ == "__main__":
    main()
