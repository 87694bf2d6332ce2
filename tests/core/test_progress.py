"""Progress on a terminal: an estimate of the time left where the work ahead is known, and nothing elsewhere."""

import io
import re
import sys
import time

import pytest

import glassformer.core.progress as core
from glassformer import Accuracy, DeepAttention, limits
from glassformer.bayes_optimal.conjugate_overlap import conjugate_overlap
from glassformer.core.progress import advance, note, plain_progress, progress, times, track


class Terminal(io.StringIO):
    def isatty(self):
        return True


def terminal(monkeypatch):
    """Standard error that is a terminal; set in the test itself, because pytest sets its own before."""
    found = Terminal()
    monkeypatch.setattr(sys, "stderr", found)
    monkeypatch.setattr(core, "_PATIENCE", 0.0)
    for name, value in (("COLUMNS", "160"), ("TERM", "xterm")):
        monkeypatch.setenv(name, value)
    return found


def test_the_time_left_is_that_at_the_pace_so_far(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(core.time, "monotonic", lambda: now[0])
    bar = Bar()
    task = core._Task("counting", 6, True, started=0.0, done=2, bar=bar)
    now[0] = 30.0
    task.update()
    assert times(0.0, bar.fields["ends"]) == "0:00:30, about 0:01:00 left"
    now[0] = 50.0
    assert times(0.0, bar.fields["ends"]) == "0:00:50, about 0:00:40 left"
    now[0] = 100.0
    assert times(0.0, bar.fields["ends"]) == "0:01:40, about 0:00:00 left"
    task.done, task.total = 3, None
    task.update()
    assert times(0.0, bar.fields["ends"]) == "0:01:40"
    # The first part, of 90 seconds, compiled: the next took 10.
    task.done, task.total, task.first, task.since = 2, 4, 1, 90.0
    task.update()
    assert times(0.0, bar.fields["ends"]) == "0:01:40, about 0:00:20 left"


class Bar:
    """Keeps what it is told."""

    def update(self, task, **fields):
        self.fields = fields


def test_work_beyond_the_estimate_makes_it_longer(monkeypatch):
    shown = terminal(monkeypatch)
    with progress("thinking", 10.0):
        advance(5.0)
        assert core._tasks[-1].total == 10.0
        advance(5.0)
        assert core._tasks[-1].total == pytest.approx(10 / 0.9)
        advance(1.0, ahead=20.0)
        assert core._tasks[-1].total == 31.0
        with progress("within", 1.0):  # one line for all
            assert len(core._tasks) == 1
        core._tasks[-1].bar.refresh()
    assert not core._tasks
    assert "thinking" in shown.getvalue() and " left" in shown.getvalue()


def test_items_that_take_long_have_an_estimate(monkeypatch):
    shown = terminal(monkeypatch)
    for _ in track(range(3), "counting"):
        pass
    assert "counting" in shown.getvalue()


@pytest.mark.thorough
@pytest.mark.parametrize(
    "ask",
    [
        lambda model: limits(model, [1.0], throw=False),
        lambda model: conjugate_overlap(model, [0.5], accuracy=0.02),
    ],
)
def test_sampled_averages_tell_the_time_left(monkeypatch, ask):
    found = terminal(monkeypatch)
    model = DeepAttention(depth=1).at_accuracy(Accuracy(points=32))
    with progress("outer"):
        ask(model)
    shown = found.getvalue()
    assert "about 0:0" in shown and " left" in shown
    assert not core._tasks


def test_progress_is_shown_on_terminals_and_notebooks_only(capsys):
    with progress("thinking", 2.0), progress("outer"):
        advance(1.0)
        note("step 1")
    assert capsys.readouterr().err == ""


def test_a_log_has_lines_in_place_of_bars(capsys, monkeypatch):
    monkeypatch.setattr(core, "_EVERY", 0.02)
    with plain_progress(), progress("three layers"), progress("limits", 10.0):
        advance(5.0)
        note("iteration 3")
        time.sleep(0.1)  # as long as a program is compiled
    line = capsys.readouterr().err.splitlines()[0]
    assert re.fullmatch(r"glassformer: limits, iteration 3: 50%, 0:00:00, about 0:00:00 left", line)
    assert not core._tasks
    with plain_progress():
        assert list(track("ab", "spelling")) == ["a", "b"]
    assert capsys.readouterr().err == ""
