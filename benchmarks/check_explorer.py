"""The explorer under random hands: sliders moved in a browser, what goes wrong in it or in the log, memory, answers.

A server of its own, and a page for every model, whose sliders are put anywhere; the noise of aim stays zero, as labels
of softmax attention with noise take minutes. Every tenth move, of bsr or aim, waits for the curve: from the move to the
moment when the browser has painted other numbers.

Before, one key on the skip strength of deep attention, right after the last answer.

    python benchmarks/check_explorer.py [--moves 1000] [--seed 0]
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
# Milliseconds until the curve has other numbers and two more frames, in which it is painted, have passed. The move is
# made once nothing has changed for a second.
ANSWERS = """async (input, value) => {
  const frame = () => new Promise(requestAnimationFrame);
  const models = () => [...Bokeh.documents[0]._all_models.values()];
  const now = () => models().filter((one) => one.type === "ColumnDataSource" && one.data.hint).map((one) => one.data);
  const changed = (before) => now().some((one, k) => one !== before[k]);
  const soon = (from) => { if (performance.now() - from > 60000) throw new Error(`${value}: no answer in a minute`); };
  let before = now(), since = performance.now();
  for (const start = since; performance.now() - since < 1000; await frame(), soon(start))
    if (changed(before)) { before = now(); since = performance.now(); }
  const start = performance.now();
  input.value = value;
  input.dispatchEvent(new Event("input"));
  for (let seen = 0; seen < 3; await frame(), soon(start)) seen += changed(before);
  return performance.now() - start;
}"""

# Seconds from a key until the last curve is pale, a preview has one point and all of them, and the curve is there.
STEP = """async (input) => {
  const models = () => [...Bokeh.documents[0]._all_models.values()];
  const points = () => models().find((one) => one.type === "ColumnDataSource" && one.data.hint).data;
  const count = (start) => points().name.filter((name) => name.startsWith(start)).length;
  const alpha = () => points().alpha[points().name.findIndex((name) => name.startsWith("best possible"))];
  const before = points(), all = count("best possible"), seen = [null, null, null, null];
  const start = performance.now(), since = () => (performance.now() - start) / 1000;
  input.stepUp();
  input.dispatchEvent(new Event("input"));
  while (seen[3] === null && since() < 120) {
    await new Promise(requestAnimationFrame);
    const found = count("preview");
    if (seen[0] === null && alpha() < 1) seen[0] = since();
    if (seen[1] === null && found > 0) seen[1] = since();
    // The error without data is one more.
    if (seen[2] === null && found > all) seen[2] = since();
    if (found === 0 && alpha() === 1 && points() !== before) seen[3] = since();
  }
  return seen;
}"""
# Keys on a slider of deep attention, and seconds without a computation after which nothing more comes.
KEYS, QUIET = 3, 3.0


class Hand:
    """Moves the sliders of one page, to where they have not been of late: a page that is back there has no news."""

    def __init__(self, page: Any, rng: np.random.Generator) -> None:
        self._page, self._rng = page, rng
        self._recent: dict[str, deque[str]] = {}

    def move(self, name: str) -> None:
        slider, value = self._place(name)
        slider.evaluate(MOVE, value)

    def answered(self, name: str) -> float:
        """Seconds from a move to the moment when the curve is painted with other numbers."""
        slider, value = self._place(name)
        return float(slider.evaluate(ANSWERS, value)) / 1000

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
    page.goto(f"{address}?model={tab}")
    page.get_by_role("slider").first.wait_for()
    print(f"{tab}: sliders after {time.perf_counter() - start:.2f} s", flush=True)
    page.locator(".sentence").first.wait_for(timeout=60_000)
    return page


def stepped(browser: Any, address: str, process: psutil.Process, wrong: list[str]) -> None:
    """Print what a key on the skip strength of deep attention takes."""
    page = opened(browser, address, "attention", wrong)
    slider = page.get_by_role("slider", name="skip slider")
    # All points of the first curve are there.
    at_rest(process, QUIET)
    for _ in range(KEYS):
        seen = zip(("pale", "preview", "all of it", "curve"), slider.evaluate(STEP), strict=True)
        told = (f"{what} {'not seen' if s is None else f'after {s:.2f} s'}" for what, s in seen)
        print("attention:", ", ".join(told), flush=True)
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
    waits: dict[str, list[float]] = {tab: [] for tab in SLIDERS}
    print(f"at the start the server has {process.memory_info().rss / 1e6:.0f} MB", flush=True)
    for move in range(options.moves):
        tab = str(rng.choice(list(moved if move % 10 else SLIDERS)))
        if move % 10:
            hands[tab].move(str(rng.choice(moved[tab])))
        else:
            waits[tab].append(hands[tab].answered(SLIDERS[tab][0]))
            largest = max(largest, process.memory_info().rss)
    for tab, seconds in ((tab, seconds) for tab, seconds in waits.items() if seconds):
        low, middle, high = np.quantile(seconds, [0.1, 0.5, 0.9])
        print(f"{tab}: curve after {middle:.3f} s, eight of ten within {low:.3f} to {high:.3f} s")
    return wrong, largest


def main() -> None:
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moves", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
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
