"""The code of the README and of the documentation runs."""

import importlib
import re
from pathlib import Path

import numpy as np
import pytest

from glassformer import Accuracy, Sweep
from glassformer.priors.bilinear import BilinearPrior

README = Path(__file__).parents[1] / "README.md"


# The skeletons of the page on new parts are run by test_contributing.py.
PAGES = [README, *sorted(page for page in (README.parent / "docs").glob("*.md") if page.stem != "extending")]
LONG = ("choosing", "own-data", "own-parts")
# What a page asks for, and what is enough here: a page prints more digits than its code needs to run.
SMALLER = (
    (r"^(\w+ = (?:gf\.)?SequenceMultiIndex\([^\n]*\))$", r"\1.at_accuracy(Accuracy(points=32))"),
    (r"(DeepAttention\(depth=2\))\)$", r"\1, accuracy=Accuracy(points=32))"),
    (r"(linspace\(.*), (10|24)\)", r"\1, 3)"),
    (r"\[1\.0, 2\.0, 3\.0\], trained", "[2.0], trained"),
    (r"weight_decay=0\.016\), steps=20", "weight_decay=0.016), steps=3, accuracy=Accuracy(trajectories=1024)"),
    (r"d=(60, instances=4|30)\)\.plot", "d=20, instances=2).plot"),
    (r"(\bSGD\([^()]*\))$", r"\1.at_accuracy(Accuracy(trajectories=1024))"),
    (r"steps=24, d=200", "steps=3, d=40"),
    (r"\[(\d+), \d+\], splits=1", r"[\1], splits=1"),
    (r"strengths=10", "strengths=6"),
    (r"\[:1000\]", "[:300]"),
    (r"(Bilinear\w+)\(\)", r"\1(strengths=6, folds=2)"),
    (r"penalty=penalty", "penalty=penalty, strengths=6, folds=2"),
    (r"\b(cv|folds)=\d", r"\1=2"),
)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning:sklearn")  # on defaults that will change
@pytest.mark.filterwarnings("ignore:the best strength")  # of three strengths, where the page takes more
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.stem, marks=pytest.mark.thorough if page.stem in LONG else ())
        for page in PAGES
        if "```python" in page.read_text()
    ],
)
def test_every_python_block_of_a_page_runs(page, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    rng = np.random.default_rng(0)
    inputs, signal = rng.standard_normal((200, 12, 12)), BilinearPrior(1.0, 0.5).sample((12, 12), rng)
    labels = np.einsum("nld,ld->n", inputs, signal) / 12
    names: dict[str, object] = {"X": inputs, "y": labels, "Accuracy": Accuracy}
    for block in blocks:
        for asked, enough in SMALLER:
            block = re.sub(asked, enough, block, flags=re.MULTILINE)
        exec(compile(block, str(page), "exec"), names)
    assert page != README or {"curve", "learners", "sweep", "found", "steps", "trained", "mine", "fit"} <= set(names)
    assert "FAIL" not in capsys.readouterr().out


def test_the_sweep_of_the_pages_is_one(tmp_path):
    page = README.parent / "docs" / "sweeps.md"
    block = re.findall(r"```toml\n(.*?)```", page.read_text(), flags=re.DOTALL)[0]
    (tmp_path / "sweep.toml").write_text(block)
    assert Sweep.from_toml(tmp_path / "sweep.toml").shape == (2, 4, 4)


def test_equations_and_functions_name_each_other():
    page = (README.parent / "docs" / "equations.md").read_text()
    reference = "".join(page.read_text() for page in (README.parent / "docs" / "api").glob("*.md"))
    named_back: set[str] = set()
    for section in page.split("\n## ")[1:]:
        labels = set(re.findall(r":label: (\S+)", section))
        places = re.findall(r"\{py:\w+\}`~([\w.]+)`", section)
        assert places
        for place in places:
            module, name = place.rsplit(".", 1)
            back = set(re.findall(r":eq:`(\S+?)`", getattr(importlib.import_module(module), name).__doc__))
            assert back, place
            assert back <= labels, place
            assert place in reference
            named_back |= back
        assert labels <= named_back
    assert len(named_back) > 20
