"""The code of the README runs."""

import re
from pathlib import Path

import numpy as np
import pytest

from glassformer import Sweep

README = Path(__file__).parents[1] / "README.md"


@pytest.mark.slow
def test_every_python_block_of_the_readme_runs():
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    rng = np.random.default_rng(0)
    names: dict[str, object] = {"X": rng.standard_normal((300, 20, 20)), "y": rng.standard_normal(300)}
    for block in blocks:
        exec(compile(block, str(README), "exec"), names)
    assert {"mine", "deep", "solution", "curve"} <= set(names)


def test_the_sweep_of_the_readme_is_one(tmp_path):
    (block,) = re.findall(r"```toml\n(.*?)```", README.read_text(), flags=re.DOTALL)
    (tmp_path / "sweep.toml").write_text(block)
    assert Sweep.from_toml(tmp_path / "sweep.toml").shape == (2, 4, 4)
