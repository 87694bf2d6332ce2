"""Completion in zsh as it is typed: a shell on a terminal, and the tabulator key."""

import os
import pty
import re
import select
import shutil
import subprocess
import time
from contextlib import contextmanager

import pytest

from glassformer.cli import main

pytestmark = pytest.mark.skipif(not shutil.which("zsh"), reason="no zsh: apt-get install zsh, as root, brings one")
TAB, BEGINNING, END = "\t", "\x01", "\x05"


class Terminal:
    """Types into a shell and reads what it says."""

    def __init__(self, place):
        self._place = place

    def answer(self, typed, pattern):
        """What the pattern finds in all that the shell says from now on."""
        os.write(self._place, typed.encode())
        said, end = "", time.monotonic() + 60
        while (found := re.search(pattern, said)) is None:
            assert time.monotonic() < end, said
            if select.select([self._place], [], [], 0.1)[0]:
                said += os.read(self._place, 65536).decode(errors="replace")
        return found[1]


@contextmanager
def shell(folder):
    """A shell that has nothing but the script in this folder."""
    place, other = pty.openpty()
    settings = {**os.environ, "TERM": "dumb", "ZDOTDIR": str(folder), "HOME": str(folder)}
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), other)
    with subprocess.Popen(["zsh", "-f", "-i"], env=settings, start_new_session=True, **streams) as process:
        os.close(other)
        try:
            yield Terminal(place)
        finally:
            process.kill()
            os.close(place)


def test_words_are_completed_at_a_key(capsys, tmp_path):
    assert main(["completion", "zsh"]) == 0
    (tmp_path / "_glassformer").write_text(capsys.readouterr().out)
    with shell(tmp_path) as zsh:
        begin = f"PS1=; fpath=({tmp_path} $fpath); autoload -Uz compinit && compinit -u -d {tmp_path}/dump"
        zsh.answer(f"{begin}; print RE''ADY\n", r"(READY)")
        for line, expected in (
            ("th", "thresholds"),
            ("limits at", "limits attention"),
            ("limits bsr --no", "limits bsr --noise"),
            ("limits bsr --channel s", "limits bsr --channel sign"),
            ("simulate bsr --learner gam", "simulate bsr --learner gamp"),
            ("limits bsr --csv _gl", "limits bsr --csv _glassformer"),
            ("limits bsr --pe", "limits bsr --pe"),
            ("limits bsr --learner risk --pe", "limits bsr --learner risk --penalty"),
            ("limits bsr --learner=risk --pe", "limits bsr --learner=risk --penalty"),
            ("simulate smi --learner sgd:published --mom", "simulate smi --learner sgd:published --momentum"),
            ("simulate smi --mom", "simulate smi --mom"),
        ):
            # What stands in the line after the key is printed by the shell itself.
            typed = f"cd {tmp_path}\nglassformer {line}{TAB}{BEGINNING}print -r -- TO''LD '{END}'\n"
            assert zsh.answer(typed, r"\nTOLD (.*?)\s*\r").removeprefix("glassformer ") == expected
