"""Packages import in one direction, and no modules import each other in a circle."""

import ast
import graphlib
from pathlib import Path

import pytest

HOME = Path(__file__).parents[1] / "src" / "glassformer"
# From the bottom to the top. Packages of one entry do not import each other.
LAYERS = (
    ("core",),
    ("numerics",),
    ("random_matrices",),
    ("priors",),
    ("designs",),
    ("inputs",),
    ("channels",),
    ("models",),
    ("bayes_optimal",),
    ("risk",),
    ("dynamics",),
    ("learners",),
    ("data_analysis",),
    ("verbs",),
    ("sweeps", "sklearn"),
    ("plotting",),
    ("papers",),
    ("testing", "explorer"),
    ("cli",),
)
RANK = {package: rank for rank, packages in enumerate(LAYERS) for package in packages}


def modules():
    """Paths of all modules by their dotted names below the package."""
    paths = {path: path.relative_to(HOME).with_suffix("").parts for path in HOME.rglob("*.py")}
    return {".".join(parts).removesuffix(".__init__"): path for path, parts in paths.items()}


def imports(path, known):
    """Modules that a file imports: at its top, inside functions, and for type checkers."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("glassformer"):
            base = node.module.removeprefix("glassformer").lstrip(".")
            for alias in node.names:
                name = f"{base}.{alias.name}".lstrip(".")
                yield name if name in known else base
        elif isinstance(node, ast.Import):
            yield from (alias.name.removeprefix("glassformer.") for alias in node.names if "glassformer." in alias.name)


@pytest.fixture(scope="module")
def graph():
    known = modules()
    return {name: set(imports(path, known)) - {name} for name, path in known.items()}


def test_every_package_has_a_layer(graph):
    assert {name.split(".")[0] for name in graph if "." in name} == set(RANK)


def test_nothing_is_imported_from_above(graph):
    def allowed(above, below):
        return above == below or RANK[below] < RANK[above]

    pairs = {(name, other) for name, others in graph.items() for other in others if "." in name and "." in other}
    assert {pair for pair in pairs if not allowed(*(name.split(".")[0] for name in pair))} == set()


def test_no_modules_import_each_other(graph):
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError with the circle
