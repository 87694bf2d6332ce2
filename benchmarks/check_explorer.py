"""The explorer under random hands: sliders moved in a browser, what goes wrong in it or in the log, memory, answers.

A server of its own, one page of bsr and one of aim, whose sliders are put anywhere; the noise of aim stays zero, as
labels of softmax attention with noise take minutes. Every tenth move waits for its answer: from the move to the
moment when the page has other numbers, network and browser included.

    python benchmarks/check_explorer.py [--moves 1000] [--seed 0]
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import psutil

# Sliders that are moved, by the tab, first the one that every number depends on; bytes that the server may come to.
SLIDERS, LIMIT = {"bsr": ("noise", "rho", "beta"), "aim": ("rho", "temperature")}, 1e9
MOVE = "(input, value) => { input.value = value; input.dispatchEvent(new Event('input')); }"


def moved(page: Any, name: str, rng: np.random.Generator) -> None:
    slider = page.get_by_role("slider", name=f"{name} slider")
    low, high = (float(slider.get_attribute(end)) for end in ("min", "max"))
    before = slider.input_value()
    # Sliders go in steps: a place next to where it is may be where it is.
    while slider.input_value() == before:
        slider.evaluate(MOVE, f"{rng.uniform(low, high):.3f}")


def told(page: Any) -> str:
    """The numbers below the curve."""
    text: str = page.locator("div.wide").first.text_content()
    return text


def settled(page: Any) -> None:
    """Wait until nothing has been said to be computing for a while."""
    silent, start = time.perf_counter(), time.perf_counter()
    while time.perf_counter() - silent < 0.5:
        if page.get_by_role("status").first.inner_text().strip():
            silent = time.perf_counter()
        if time.perf_counter() - start > 60:
            raise TimeoutError("no answer within a minute")


def answered(page: Any, name: str, rng: np.random.Generator) -> float:
    """Seconds from a move to the moment when the numbers below the curve are others."""
    settled(page)
    before, start = told(page), time.perf_counter()
    moved(page, name, rng)
    while told(page) == before:
        if time.perf_counter() - start > 60:
            raise TimeoutError("no answer within a minute")
    return time.perf_counter() - start


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


def tortured(
    browser: Any, address: str, process: psutil.Process, options: argparse.Namespace
) -> tuple[list[str], float]:
    """What went wrong in the browser, and the largest memory of the server."""
    rng, wrong, largest = np.random.default_rng(options.seed), list[str](), 0.0
    pages = {tab: opened(browser, address, tab, wrong) for tab in SLIDERS}
    waits: dict[str, list[float]] = {tab: [] for tab in SLIDERS}
    for move in range(options.moves):
        tab = str(rng.choice(list(SLIDERS)))
        name = str(rng.choice(SLIDERS[tab]))
        if move % 10:
            moved(pages[tab], name, rng)
        else:
            waits[tab].append(answered(pages[tab], SLIDERS[tab][0], rng))
            largest = max(largest, process.memory_info().rss)
    for tab, seconds in waits.items():
        low, middle, high = np.quantile(seconds, [0.1, 0.5, 0.9])
        print(f"{tab}: answers after {middle:.3f} s, eight of ten within {low:.3f} to {high:.3f} s")
    return wrong, largest


def main() -> None:
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moves", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    command = [sys.executable, "-m", "glassformer", "explore", "--no-browser"]
    with TemporaryDirectory() as folder, Path(folder, "log").open("w+") as log, sync_playwright() as playwright:
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
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
    print(f"{options.moves} moves: {len(wrong)} errors in the browser, {len(written.splitlines())} lines in the log")
    print(f"largest memory of the server {largest / 1e6:.0f} MB")
    print("\n".join([*wrong[:10], written[:2000]]))
    sys.exit(bool(wrong) or bool(written) or largest > LIMIT)


if __name__ == "__main__":
    main()
