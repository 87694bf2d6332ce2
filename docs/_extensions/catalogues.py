"""Pages and parts of pages that are written from the tables of the package."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import matplotlib as mpl
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

HOME = Path(__file__).parents[2]
# Modules of public names beside the package itself.
PUBLIC_MODULES = tuple(
    f"glassformer.{name}"
    for name in (
        *(
            "models",
            "learners",
            "results",
            "errors",
            "channels",
            "priors",
            "designs",
            "inputs",
            "losses",
            "penalties",
            "laws",
        ),
        *("data_analysis", "sklearn"),
    )
)


class ByNumber:
    """The order of scripts: by the numbers with which the names of tutorials begin, and by name."""

    def __init__(self, folder: str) -> None:
        del folder

    def __call__(self, name: object) -> tuple[int, str]:
        number = str(name).partition("_")[0]
        return int(number) if number.isdigit() else 0, str(name)


def plain_figures(gallery: dict[str, Any], script: str) -> None:
    """What the pictures of the galleries have in common."""
    mpl.rcParams.update(
        {
            "figure.figsize": (5.6, 3.8),
            "figure.dpi": 110,
            "font.size": 10,
            "legend.frameon": False,
            "figure.constrained_layout.use": True,
        }
    )


def figures() -> str:
    """Every figure of the catalogue: where it is published, what it shows, the command that draws it."""
    from glassformer.papers.catalogue import FIGURES, source

    rows = [("In the papers", "What it shows", "Command")]
    for name in sorted(FIGURES, key=lambda name: (FIGURES[name].own, source(name))):
        link = re.sub(r"arXiv:([\d.]+)", r"[\g<0>](https://arxiv.org/abs/\1)", source(name))
        data = " --data DIR" if FIGURES[name].takes_data else ""
        rows.append((link, FIGURES[name].title, f"`glassformer figure {name}{data}`"))
    return _table(rows)


def commands() -> str:
    """Every command of the command line."""
    from glassformer.cli.commands import COMMANDS

    model = {True: " MODEL", False: ""}
    rows = [(f"`glassformer {name}{model[one.takes_model]}`", one.text) for name, one in COMMANDS.items()]
    return _table([("Command", "What it computes"), *rows])


def documents() -> str:
    """Every kind of document that ``--json`` prints."""
    from glassformer.cli.output import KINDS, schema_name
    from glassformer.cli.schema import document

    rows = [(f"`{schema_name(kind)}`", (document(kind).__doc__ or "").replace("``", "`")) for kind in KINDS]
    return _table([("Schema", "What it holds"), *rows])


def checks() -> str:
    """Every measurement too slow for the tests."""
    scripts = sorted((HOME / "benchmarks").glob("check_*.py"))
    return _table([("Script", "What is measured"), *((f"`{_place(path)}`", _title(path)) for path in scripts)])


def tests() -> str:
    """Every file of tests, and how many it has: each of them runs for many parameters."""
    rows = [("File", "Tests", "What is checked")]
    for path in sorted((HOME / "tests").rglob("test_*.py")):
        count = len(re.findall(r"^def test_", path.read_text(), flags=re.MULTILINE))
        rows.append((f"`{_place(path)}`", str(count), _title(path)))
    return _table(rows)


def public() -> str:
    """Every public name, with what it is and where it is documented."""
    return "\n".join(["```{eval-rst}", *_summary("glassformer"), "```"])


def modules() -> str:
    """The names of every public module, with what they are and where they are documented."""
    lines = []
    for name in PUBLIC_MODULES:
        title = (importlib.import_module(name).__doc__ or "").partition("\n")[0]
        lines += [f"``{name}``: {title}", "", *_summary(name), ""]
    return "\n".join(["```{eval-rst}", *lines, "```"])


def _summary(module: str) -> list[str]:
    """The lines of a table of the public names of a module."""
    names = importlib.import_module(module).__all__
    things = [inspect.unwrap(getattr(importlib.import_module(module), name)) for name in sorted(names, key=str.lower)]
    places = [f"   ~{thing.__module__}.{thing.__qualname__}" for thing in things]
    return [".. autosummary::", "   :nosignatures:", "", *places]


def _place(path: Path) -> str:
    return path.relative_to(HOME).as_posix()


def _title(path: Path) -> str:
    """The first paragraph of a module's documentation."""
    return " ".join((ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n\n")[0].split())


def _table(rows: list[tuple[str, ...]]) -> str:
    rows = [rows[0], ("---",) * len(rows[0]), *rows[1:]]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in rows)


CATALOGUES = {
    "figures": figures,
    "commands": commands,
    "documents": documents,
    "checks": checks,
    "tests": tests,
    "public": public,
    "modules": modules,
}


class Catalogue(SphinxDirective):
    """``{catalogue} NAME``: one of the tables above."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes(CATALOGUES[self.arguments[0]]())


# What a browser fetches on its own to show a page: scripts, styles, pictures and fonts.
_FETCHED = re.compile(
    r"""<(?:script|img|iframe)[^>]*\ssrc="https?:|<link[^>]*rel="(?:stylesheet|preload)"[^>]*"https?:"""
)


def all_here(app: Sphinx, exception: Exception | None) -> None:
    """Pages are read without a network: refuse one that fetches anything from elsewhere."""
    for page in [] if exception else sorted(Path(app.outdir).rglob("*.html")):
        found = _FETCHED.search(page.read_text(encoding="utf-8"))
        if found and "_static" not in page.parts:
            raise ExtensionError(f"{page} is not readable without a network: {found.group()}")


def pages_by_name(app: Sphinx) -> None:
    """A notebook that was downloaded has no pages around it: where its text links to one, it names it."""
    for path in Path(app.srcdir, "auto").rglob("*.ipynb"):
        text = path.read_text(encoding="utf-8")
        path.write_text(re.sub(r":doc:`/([^`]+)`", r"the page *\1* of the documentation", text), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("catalogue", Catalogue)
    app.connect("build-finished", all_here)
    # After the galleries have written them.
    app.connect("builder-inited", pages_by_name, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
