"""Data flow one way: no room imports from one above it."""

import ast
from pathlib import Path

import pytest

HOME = Path(__file__).parents[1] / "src" / "glassformer"
# From the bottom to the top; rooms of one floor do not know each other.
FLOORS = (("core",), ("models",), ("theory",), ("learners",), ("experiments", "sklearn"), ("interface",))
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
# Results draw themselves: imported when that is asked for.
DOORS = {("core/display.py", "interface")}


def imported(path):
    """Rooms that a file imports from."""
    for node in ast.walk(ast.parse(path.read_text())):
        name = node.module if isinstance(node, ast.ImportFrom) else ""
        if name and name.startswith("glassformer."):
            yield name.split(".")[1]


@pytest.mark.slow
@pytest.mark.parametrize("room", FLOOR)
def test_nothing_is_imported_from_above(room):
    files = sorted((HOME / room).rglob("*.py"))
    assert files
    found = {(str(path.relative_to(HOME)), other) for path in files for other in imported(path)}
    against = {(path, other) for path, other in found if other != room and FLOOR.get(other, len(FLOORS)) >= FLOOR[room]}
    assert against - DOORS == set()


def test_the_root_has_few_entries():
    """Beside the marker of typed packages."""
    assert len([entry for entry in HOME.iterdir() if entry.name not in ("py.typed", "__pycache__")]) <= 10
