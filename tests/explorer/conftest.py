"""A page without a browser, and a server in a process of its own."""

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from queue import Queue

import pytest

from glassformer.explorer.phase import Phase


class Thread:
    """The thread of a page: does what it is told when the test looks, but for what waits for a while."""

    def __init__(self):
        self._calls = Queue()

    def later(self, function, seconds=0.0):
        if not seconds:
            self._calls.put(function)

    def until(self, holds):
        end = time.monotonic() + 60
        while not holds():
            assert time.monotonic() < end, "a minute without what was waited for"
            if self._calls.empty():
                time.sleep(0.01)
            else:
                self._calls.get()()

    def settled(self, page):
        """Whether a page has a whole answer and computes nothing."""
        waits = not page.work._waiting.done() or not self._calls.empty() or page._phase is not Phase.IDLE
        return not waits and page.answer is not None and not page.answer.preview

    def rest(self, seconds=1.0):
        """Do all that comes within some time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(0.01)
            while not self._calls.empty():
                self._calls.get()()


@pytest.fixture
def thread():
    return Thread()


@pytest.fixture
def opened(thread):
    """Opens pages without a browser, and waits for their first answer."""
    pytest.importorskip("panel")
    from glassformer.explorer.own_link import LinkSource
    from glassformer.explorer.page import Page

    pages = []

    def made(query="", given=None, wait=True):
        page = Page("bsr", given or LinkSource(), query, thread.later)
        pages.append(page)
        page.ask()
        if wait:
            thread.until(lambda: thread.settled(page))
        return page

    yield made
    for page in pages:
        page.end()


@contextmanager
def _served(folder, *words):
    """The address of a page, whose server has to write nothing into its log."""
    command = [sys.executable, "-m", "glassformer", "explore", "--no-browser", *words]
    settings = {**os.environ, "GLASSFORMER_CACHE": str(folder / "cache")}
    with (
        (folder / "log").open("w+") as file,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=file, text=True, env=settings) as server,
    ):
        line = server.stdout.readline()
        try:
            yield line.split()[3]
        finally:
            server.terminate()
            server.wait(30)
        file.seek(0)
        assert not file.read()


@pytest.fixture(scope="session")
def served():
    return _served
