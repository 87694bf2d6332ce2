"""The skeletons of docs/extending.md: a new file, a line in a table, a line in the conformance suite, and it works.

They are put into copies of the sources and of the conformance suite, which processes of their own then use.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

HOME = Path(__file__).parents[1]
KINDS = ("channel", "prior", "model", "learner", "command")
# What of the tests is copied, and which of it is run where all skeletons are in: those that name them, and quickly.
SUITE = ("tests/conformance", "tests/cli/test_commands.py", "tests/priors/test_separable.py")
CHOSEN = "(square and probit) or sparse-signs or perceptron or hebb or excess] or is_checked"
CONFORMANCE = tuple(f"tests/conformance/test_{name}.py" for name in ("models", "learners", "theory"))
ASKED = (*CONFORMANCE, *SUITE[1:])
PYTEST = ("-m", "pytest", "-v", "-p", "no:cacheprovider")
# How many checks there are at least of each.
LEAST = {"probit": 10, "sparse": 3, "perceptron": 8, "hebb": 8, "excess": 4, "is_checked": 4}


@dataclass(frozen=True)
class Skeleton:
    """What the page says of one kind of part: a file and its text, two lines and where they go, and a question."""

    file: tuple[str, str]
    lines: tuple[tuple[str, str, str], tuple[str, str, str]]
    question: str

    def put_into(self, folder):
        """Do what it says, and nothing else."""
        place, text = self.file
        assert not (folder / place).exists()
        (folder / place).write_text(text)
        for table, path, line in self.lines:
            (folder / path).write_text(with_line((folder / path).read_text(), table, line))


def skeleton(kind):
    page = (HOME / "docs" / "extending.md").read_text()
    (section,) = re.findall(rf"^## A new {kind}\n(.*?)(?=^##|\Z)", page, flags=re.DOTALL | re.MULTILINE)
    block = r":\n\n```\w+\n(.*?\n)```"
    (file,) = re.findall(rf"^New file `(\S+)`{block}", section, flags=re.DOTALL | re.MULTILINE)
    lines = re.findall(rf"^In `(\w+)` of `(\S+)`{block}", section, flags=re.DOTALL | re.MULTILINE)
    (question,) = re.findall(r"^Run it:\n\n    glassformer (.*)$", section, flags=re.MULTILINE)
    return Skeleton(file, tuple(lines), question)


def with_line(text, table, line):
    """The text with a line at the end of a table, a dictionary or a list."""
    assert line.count("\n") == 1
    (whole,) = re.findall(rf"^{table}\b[^\n]*= [{{\[]\n.*?^[}}\]]", text, flags=re.DOTALL | re.MULTILINE)
    return text.replace(whole, f"{whole[:-1]}    {line}{whole[-1]}")


def contents(folder):
    files = (path for path in folder.rglob("*.*") if path.is_file() and path.suffix != ".pyc")
    return {path.relative_to(folder): path.read_bytes() for path in files}


def python(folder, *arguments):
    """A process that imports the package from the copy."""
    path = {
        **os.environ,
        "PYTHONPATH": str(folder / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=path, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.fixture
def copy(tmp_path):
    # With the bytecode of the sources, which is valid for copies of the same time of change: it is not written again.
    shutil.copytree(HOME / "src", tmp_path / "src")
    ignored = shutil.ignore_patterns("__pycache__")
    for part in SUITE:
        source, target = HOME / part, tmp_path / part
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, target, ignore=ignored) if source.is_dir() else shutil.copy(source, target)
    shutil.copy(HOME / "pyproject.toml", tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_part_is_one_file_and_two_lines(kind, copy):
    before, found = contents(copy), skeleton(kind)
    found.put_into(copy)
    after = contents(copy)
    changed = {str(path) for path in before if after[path] != before[path]}
    assert {str(path) for path in after.keys() - before.keys()} == {found.file[0]}
    assert [path.partition("/")[0] for path in sorted(changed)] == ["src", "tests"]
    for path in changed:
        lines = (after[Path(path)].splitlines(), before[Path(path)].splitlines())
        assert len(lines[0]) == len(lines[1]) + 1


@pytest.mark.slow
def test_parts_answer_their_questions_and_pass_their_conformance_checks(copy):
    found = [skeleton(kind) for kind in KINDS]
    for one in found:
        one.put_into(copy)
    # One process answers the questions of the page.
    words = [shlex.split(one.question) for one in found]
    answer = python(copy, "-c", f"from glassformer.cli import main\nfor words in {words}: print(main(words), 'end')")
    assert answer.stderr == ""
    *answers, rest = answer.stdout.split("0 end\n")
    assert rest == "" and len(answers) == len(KINDS) and all("converged" in one for one in answers)
    # Examples of the new files, then the suite: what names a skeleton, and that every line of the tables is checked.
    run = python(copy, *PYTEST, "-k", CHOSEN, *(one.file[0] for one in found), *ASKED)
    assert run.returncode == 0, run.stdout[-6000:]
    for name, least in LEAST.items():
        assert len(re.findall(rf"{name}\S* PASSED", run.stdout)) >= least, name


@pytest.mark.slow
@pytest.mark.parametrize("kind", [pytest.param("loss", marks=pytest.mark.thorough), "penalty"])
def test_parts_without_a_table_run_as_they_are(kind):
    """Each example is short, and compares its theory with runs."""
    page = (HOME / "docs" / "extending.md").read_text()
    (code,) = re.findall(rf"^## A new {kind}\n.*?^```python\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)
    assert len(code.splitlines()) < 40 and "\nassert " in code.replace("    assert", "assert")
    exec(compile(code, f"<A new {kind}>", "exec"), {"__name__": f"a_new_{kind}"})
