"""The members of a channel are those of the page that explains how to write one, in its order."""

import ast
import re
from pathlib import Path

import pytest

from glassformer.channels.base import Channel
from glassformer.channels.scalar.base import ScalarChannel

PAGE = (Path(__file__).parents[2] / "docs" / "extending.md").read_text()
SECTION = PAGE.partition("## A new channel\n")[2].partition("## A new prior\n")[0]
MEMBERS = dict(re.findall(r"^\| `(\w+)` \|.*\| (must|may) \|$", SECTION, flags=re.MULTILINE))
MOST_MEMBERS, MOST_LINES = 16, 40


def public(kind):
    return {name for name in dir(kind) if not name.startswith("_")}


def test_a_channel_has_the_members_of_the_page_and_no_others():
    assert public(ScalarChannel) == set(MEMBERS)
    assert public(Channel) <= set(MEMBERS)
    assert len(MEMBERS) <= MOST_MEMBERS


def test_the_page_says_what_must_be_written():
    assert {name for name, need in MEMBERS.items() if need == "must"} == ScalarChannel.__abstractmethods__


@pytest.mark.parametrize("kind", [Channel, ScalarChannel])
def test_members_are_in_the_order_of_the_page(kind):
    own = [name for name in vars(kind) if not name.startswith("_")]
    assert own == [name for name in MEMBERS if name in own]


def test_the_example_is_short():
    """Lines of code, without docstrings, comments and blank lines."""
    (text,) = re.findall(r"^New file `\S+probit.py`:\n\n```python\n(.*?)^```", SECTION, flags=re.DOTALL | re.MULTILINE)
    (found,) = (node for node in ast.parse(text).body if isinstance(node, ast.ClassDef))
    strings = [node for node in ast.walk(found) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)]
    covered = {line for one in strings for line in range(one.lineno, one.end_lineno + 1)}
    lines = text.splitlines()
    code = [
        line
        for line in range(found.lineno, found.end_lineno + 1)
        if line not in covered and lines[line - 1].split("#")[0].strip()
    ]
    assert len(code) < MOST_LINES
