"""What the documentation lists is what there is."""

import importlib
import inspect
import re
import shlex
import tempfile
from pathlib import Path

import pytest

import glassformer
from glassformer.cli import main
from glassformer.cli.commands import COMMANDS
from glassformer.cli.parser import parser_for
from glassformer.papers.catalogue import FIGURES

HOME = Path(__file__).parents[1]
PAGES = [HOME / "README.md", HOME / "CONTRIBUTING.md", *sorted((HOME / "docs").glob("*.md"))]


def public():
    return {name: getattr(glassformer, name) for name in glassformer.__all__}


def test_every_public_name_is_documented_with_an_example():
    pages = "".join(page.read_text() for page in (HOME / "docs" / "api").glob("*.md"))
    documented = set(re.findall(r"^\.\. auto\w+:: (\S+)", pages, flags=re.MULTILINE))
    for name, thing in public().items():
        thing = inspect.unwrap(thing)
        assert f"{thing.__module__}.{thing.__qualname__}" in documented, name
        plain = isinstance(thing, type) and issubclass(thing, Exception)
        assert plain or re.search(r"^ *Example", thing.__doc__, flags=re.MULTILINE), name


MODULES = (
    *("models", "learners", "results", "errors", "channels", "priors", "designs", "losses", "penalties", "laws"),
    *("data_analysis", "sklearn"),
)


@pytest.mark.parametrize("name", MODULES)
def test_names_of_public_modules_are_documented(name):
    pages = "".join(page.read_text() for page in (HOME / "docs" / "api").glob("*.md"))
    documented = set(re.findall(r"^\.\. auto\w+:: (\S+)", pages, flags=re.MULTILINE))
    module = importlib.import_module(f"glassformer.{name}")
    assert module.__all__
    for thing in (inspect.unwrap(getattr(module, one)) for one in module.__all__):
        assert f"{thing.__module__}.{thing.__qualname__}" in documented
    # The page of the public names lists this module.
    assert f'"{name}"' in (HOME / "docs" / "_extensions" / "catalogues.py").read_text()


def command_lines(page):
    """The words of the commands on a page, or in a comment of a tutorial, that compute something of a model."""
    text = re.sub(r"\\\n(# +| +)", "", page.read_text())
    for line in re.findall(r"^(?:#     |    )(?:\.venv/bin/)?glassformer (.+)$", text, flags=re.MULTILINE):
        words = shlex.split(line.partition(" | ")[0], comments=True)
        if words[0] in COMMANDS and COMMANDS[words[0]].takes_model:
            yield words


TUTORIALS = sorted((HOME / "docs" / "tutorials").glob("*.py"))


# The commands of the page on new parts are run by test_contributing.py.
WITH_COMMANDS = [page for page in [*PAGES, *TUTORIALS] if page.stem != "extending"]


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.stem)
def test_commands_of_a_page_are_understood(page):
    for words in command_lines(page):
        parser_for(words).parse_args(words)


def test_pages_have_commands():
    assert sum(len(list(command_lines(page))) for page in WITH_COMMANDS) > 20


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_that_a_page_names_are_there(page):
    skeletons = re.findall(r"^New file `(\S+)`", page.read_text(), flags=re.MULTILINE)
    for place in re.findall(r"`((?:tests|benchmarks|docs|src)/[\w/.]+\.\w+)`", page.read_text()):
        assert place in skeletons or (HOME / place).is_file(), place


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["1_own_model", "7_from_equations_to_training", "8_your_own_network"])
def test_tutorials_run_as_scripts_and_save_pictures(name, tmp_path, monkeypatch, capsys):
    """What the longest asserts is in the suite with fewer steps and trajectories: tests/dynamics and tests/learners."""
    pytest.importorskip("matplotlib").use("agg")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    page = HOME / "docs" / "tutorials" / f"{name}.py"
    exec(compile(page.read_text(), str(page), "exec"), {})
    pictures = re.findall(r"^picture saved: (\S+)$", capsys.readouterr().out, flags=re.MULTILINE)
    assert pictures and all(Path(picture).stat().st_size > 3000 for picture in pictures)


def test_results_of_the_papers_name_commands_and_functions_that_exist():
    page = (HOME / "docs" / "papers.md").read_text()
    section = page.split("\n## All results\n")[1].split("\n## ")[0]
    needed = {"bsr": [], "aim": ["--rho", "1"], "attention": [], "smi": ["--link", "a.py:f", "--indices", "1"]}
    commands, models = map("|".join, (COMMANDS, needed))
    lines = re.findall(rf"`((?:{commands}) (?:{models})(?: [^`]*)?)`", section)
    assert len(lines) > 30
    for line in lines:
        words = line.replace("FILE", "a.py:f").split()
        alpha = ["--alpha", "1"] if COMMANDS[words[0]].takes_alpha else []
        words = [*words[:2], *alpha, *needed[words[1]], *words[2:]]
        parser_for(words).parse_args(words)
    assert set(re.findall(r"`figure ([\w-]+)", section)) <= set(FIGURES)
    for place in re.findall(r"\{py:\w+\}`~([\w.]+)`", section):
        module, name = place.rsplit(".", 1)
        assert hasattr(importlib.import_module(module), name), place


def test_single_numbers_beside_published_ones(capsys):
    page = (HOME / "docs" / "papers.md").read_text()
    assert main(["thresholds", "bsr", "--rho", "0.5"]) == 0
    printed = capsys.readouterr().out
    for name in ("perfect_recovery", "nuclear_norm_perfect_recovery"):
        (value,) = re.findall(rf"^{name} +(\S+)", printed, flags=re.MULTILINE)
        assert f"| {value} |" in page
