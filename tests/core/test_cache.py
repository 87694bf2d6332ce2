"""The cache folder: tables and compiled programs that processes share."""

import os
import subprocess
import sys
import time
import types
from functools import partial
from multiprocessing import Pipe
from unittest.mock import Mock

import numpy as np
import pytest

from glassformer.cli.doctor import CHECKS
from glassformer.core import cache
from glassformer.core.cache import VARIABLE, cache_folder, cached_array, keep_compiled
from glassformer.sweeps.workers import _Pool


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_table_is_computed_once_for_equal_parameters(folder):
    calls = []

    def table(factor):
        def compute():
            calls.append(factor)
            return factor * np.arange(3.0)

        return cached_array(compute, "table", factor)

    for factor in (2.0, 2.0, 3.0):
        np.testing.assert_array_equal(table(factor), factor * np.arange(3.0))
    assert calls == [2.0, 3.0]


def test_a_file_that_is_no_table_is_computed_again(folder):
    cached_array(lambda: np.ones(2), "broken")
    (path,) = (folder / "tables").iterdir()
    path.write_bytes(path.read_bytes()[:-3])
    np.testing.assert_array_equal(cached_array(lambda: np.zeros(2), "broken"), np.zeros(2))


@pytest.mark.parametrize("word", ["off", ""])
def test_the_cache_can_be_switched_off(word, monkeypatch):
    monkeypatch.setenv(VARIABLE, word)
    assert cache_folder() is None


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv(VARIABLE, str(tmp_path / "file"))
    np.testing.assert_array_equal(cached_array(lambda: np.ones(2), "anything"), np.ones(2))


def test_the_folder_respects_the_users_cache_home(tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "glassformer"


@pytest.mark.parametrize("place", ["relative", "", None])
def test_a_relative_cache_home_is_ignored(place, tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    if place is None:
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", place)
    assert cache_folder() == tmp_path / ".cache" / "glassformer"


def test_doctor_tells_whether_the_cache_can_be_used(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    assert CHECKS["cache"]() == (True, f"{tmp_path / 'cache'} can be written to")
    (tmp_path / "file").touch()
    monkeypatch.setenv(VARIABLE, str(tmp_path / "file"))
    good, found = CHECKS["cache"]()
    assert not good
    assert str(tmp_path / "file") in found
    assert found.endswith("or set GLASSFORMER_CACHE to another folder, or to off")
    monkeypatch.setenv(VARIABLE, "off")
    assert CHECKS["cache"]()[0]


_COMMAND = """
import sys, os
from glassformer.cli import main
sys.argv = ["glassformer", "--version"]
try:
    main({arguments})
except SystemExit:
    pass
print(os.environ.get("JAX_COMPILATION_CACHE_DIR"))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "kept"), [("", True), ("['--version']", False)])
def test_the_command_line_keeps_compiled_programs_and_a_call_of_main_does_not(folder, arguments, kept):
    environment = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    code = _COMMAND.format(arguments=arguments)
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.split()[-1] == (str(folder / "compiled") if kept else "None")


@pytest.mark.parametrize(("given", "runs", "expected"), [("elsewhere", False, "elsewhere"), (None, True, None)])
def test_programs_are_cached_only_before_jax_starts_and_without_other_settings(
    folder, given, runs, expected, monkeypatch
):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", given or "removed below")
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    if given is None:
        monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")
    if runs:
        monkeypatch.setitem(sys.modules, "jax", types.ModuleType("jax"))
    else:
        monkeypatch.delitem(sys.modules, "jax", raising=False)
    keep_compiled()
    assert os.environ.get("JAX_COMPILATION_CACHE_DIR") == expected


def test_compiled_programs_under_other_names_are_dropped(folder, monkeypatch):
    """JAX would run them: a wrong number, or an error in its own words."""
    monkeypatch.delitem(sys.modules, "jax", raising=False)
    at_exit = []
    monkeypatch.setattr(cache.atexit, "register", lambda *call: at_exit.append(call))

    def start():
        """Start a process; return what it does at exit."""
        monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
        keep_compiled()
        remember, *arguments = at_exit.pop()
        return partial(remember, *arguments)

    def command(*names, age=60):
        """Start and end a process that compiles these programs; return the programs that it starts with."""
        end = start()
        there = {path.name for path in programs.glob("*-cache")}
        for name in names:
            (programs / f"{name}-cache").write_text(f"program {name}")
            os.utime(programs / f"{name}-cache", (time.time() - age,) * 2)
        end()
        return there

    programs = folder / "compiled"
    assert command() == set()
    programs.mkdir(parents=True)
    command("a", "bb", "c")
    assert command() == {"a-cache", "bb-cache", "c-cache"}
    (programs / "a-cache").rename(programs / "x")
    (programs / "bb-cache").rename(programs / "a-cache")
    (programs / "x").rename(programs / "bb-cache")
    assert command("a") == {"c-cache"}
    assert command() == {"a-cache", "c-cache"}
    # Of programs that are being written, a process may see a part.
    command("d", age=0)
    (programs / "d-cache").write_text("program d and its rest")
    assert command() == {"a-cache", "c-cache", "d-cache"}
    # While this process runs, another one drops a changed program and compiles it again. What cannot be dropped stays.
    end = start()
    for name in ("a", "c"):
        (programs / f"{name}-cache").unlink()
    (programs / "a-cache").mkdir()
    (programs / "c-cache").write_text("changed")
    assert command("c", age=30) == {"a-cache", "d-cache"}
    end()
    assert command() == {"a-cache", "c-cache", "d-cache"}


@pytest.mark.parametrize("ours", [True, False])
def test_programs_that_ended_workers_may_have_been_writing_are_dropped(folder, ours, monkeypatch):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(folder / "compiled" if ours else folder))
    (folder / "compiled").mkdir(parents=True)
    for name, age in [("old-cache", 60), ("new-cache", 0)]:
        (folder / "compiled" / name).write_text("program")
        os.utime(folder / "compiled" / name, (time.time() - age,) * 2)
    pool, ends = _Pool(abs, {}.__setitem__), Pipe()
    for tasks in ([], [(-1, 0)]):
        pool.workers.append(Mock(connection=ends[0], tasks=tasks))
        pool.end()
        there = {path.name for path in (folder / "compiled").iterdir()}
        assert there == ({"old-cache"} if tasks and ours else {"old-cache", "new-cache"})
