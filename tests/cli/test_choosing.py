"""The numbers with which the documentation compares learners are those that its commands print."""

import json
import re
from pathlib import Path

import pytest

from glassformer.cli import main

PAGE = (Path(__file__).parents[2] / "docs" / "choosing.md").read_text()
TABLES = re.findall(r"((?:^\|.*\n)+)", PAGE, flags=re.MULTILINE)


def compared():
    """Command, quantity, sample ratios and numbers of each line of the tables with sample ratios."""
    for table in TABLES:
        head, _, *lines = [[cell.strip() for cell in line.strip("| \n").split("|")] for line in table.splitlines()]
        if not any(cell.startswith("`alpha = ") for cell in head):
            continue
        ratios = [cell.strip("`").removeprefix("alpha = ") for cell in head[1:]]
        common = lines[0][0].split("`")[1]
        for words, *numbers in lines:
            command = words.split("`")[1].removeprefix(common)
            yield f"{common} {command}", "label_error" if "sign" in common else "error", ratios, numbers


def cases():
    """Searches for the best strength are long: one of them is looked at with every run of the tests."""
    for command, *rest in compared():
        quick = "--learner" not in command or command.endswith(("ridge", "risk --strength 0", "0.1 --learner risk"))
        yield pytest.param(command, *rest, marks=() if quick else pytest.mark.thorough)


@pytest.mark.slow
@pytest.mark.parametrize(("command", "quantity", "ratios", "numbers"), list(cases()))
def test_learners_are_compared_by_what_they_reach(command, quantity, ratios, numbers, capsys):
    main([*command.split(), "--rho", "0.3", "--alpha", ",".join(ratios), "--json"])
    rows = json.loads(capsys.readouterr().out)["points"]
    found = ["diverges" if row[quantity] is None else f"{row[quantity]:.4f}" for row in rows]
    assert found == numbers


def test_there_are_such_tables():
    assert len(list(compared())) == 9
