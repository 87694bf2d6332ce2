"""The explorer under random hands: sliders moved in a browser, what goes wrong in it or in the log, memory and answers.

A server of its own, one page of bsr and one of aim, whose sliders are put anywhere, without noise for aim (labels of
softmax attention with noise take minutes). Every tenth move waits for the curve: from the move to the sentence below the
figure, browser and network included. A move is answered when what is drawn belongs to it.

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

TABS, STILL, LIMIT = ("bsr", "aim"), {"aim": ("noise",)}, 1e9
MOVE = "(input, value) => { input.value = value; input.dispatchEvent(new Event('input')); }"


def moved(page: Any, tab: str, rng: np.random.Generator) -> None:
    sliders = [
        s
        for s in page.get_by_role("slider").all()
        if s.get_attribute("aria-label").split()[0] not in STILL.get(tab, ())
    ]
    slider = sliders[rng.integers(len(sliders))]
    low, high = (float(slider.get_attribute(name)) for name in ("min", "max"))
    slider.evaluate(MOVE, f"{rng.uniform(low, high):.3f}")


def answered(page: Any) -> float:
    """Seconds until nothing is said to be computing."""
    start = time.perf_counter()
    time.sleep(0.02)
    page.wait_for_function("() => true")
    page.get_by_role("status").filter(has_text="computing").first.wait_for(state="detached", timeout=60_000)
    return time.perf_counter() - start


def main() -> None:
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moves", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng, wrong, waits, most = (
        np.random.default_rng(options.seed),
        list[str](),
        {tab: list[float]() for tab in TABS},
        0.0,
    )
    command = [sys.executable, "-m", "glassformer", "explore", "--no-browser"]
    with TemporaryDirectory() as folder, Path(folder, "log").open("w+") as log, sync_playwright() as playwright:
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert server.stdout is not None
        address = server.stdout.readline().split()[3]
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        pages = {}
        for tab in TABS:
            page = pages[tab] = browser.new_page()
            page.on("pageerror", lambda error: wrong.append(str(error)))
            page.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
            start = time.perf_counter()
            page.goto(f"{address}?tab={tab}")
            page.get_by_role("slider").first.wait_for()
            print(f"{tab}: sliders after {time.perf_counter() - start:.2f} s")
            page.get_by_text("Values as a table").first.wait_for(timeout=60_000)
        for move in range(options.moves):
            tab = TABS[int(rng.integers(len(TABS)))]
            moved(pages[tab], tab, rng)
            if move % 10 == 0:
                waits[tab].append(answered(pages[tab]))
                most = max(most, psutil.Process(server.pid).memory_info().rss)
        browser.close()
        server.terminate()
        server.wait(60)
        log.seek(0)
        told = log.read()
    for tab, seconds in waits.items():
        if seconds:
            print(
                f"{tab}: answer after {np.median(seconds):.3f} s, nine of ten within {np.quantile(seconds, 0.9):.3f} s"
            )
    print(f"{options.moves} moves: {len(wrong)} errors in the browser, {len(told.splitlines())} lines in the log")
    print(f"largest memory of the server {most / 1e6:.0f} MB")
    print("\n".join([*wrong[:10], told[:2000]]))
    sys.exit(bool(wrong) or bool(told) or most > LIMIT)


if __name__ == "__main__":
    main()
