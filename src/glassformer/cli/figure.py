"""Figures of the papers."""

from __future__ import annotations

import argparse
from pathlib import Path

from glassformer.cli.argument_parser import Parser
from glassformer.cli.output import NOT_CONVERGED, add_progress
from glassformer.core.files import user_path


def add(parser: Parser) -> None:
    """The figures, their size, and the folders of results and data."""
    which = parser.exclusive()
    which.add_argument("name", nargs="?", help="name of a figure, see --list")
    which.add_argument("--list", action="store_true", help="list the figures, with their numbers in the papers")
    which.add_argument("--all", action="store_true", help="draw every figure")
    parser.add_argument("--quick", action="store_true", help="fewer points, fewer instances and smaller sizes")
    out = "folder for PNG, CSV and summary (default out)"
    parser.add_argument("--out", type=user_path, default=Path("out"), help=out)
    parser.add_argument("--reference", type=user_path, help="folder of published data to compare with")
    data = "folder of the data set, for smi-3-right and universality-1"
    parser.add_argument("--data", type=user_path, metavar="DIR", help=data)
    add_progress(parser)


def run(options: argparse.Namespace) -> int:
    """Draw a figure, or list them."""
    from glassformer.papers.catalogue import FIGURES, draw, draw_all, source

    if options.list:
        for name, figure in FIGURES.items():
            print(f"{name:12s} {figure.title} [{source(name)}]")
        return 0
    if options.all:
        return 0 if draw_all(options.out, options.quick, options.reference, options.data) else NOT_CONVERGED
    return 0 if draw(options.name, options.out, options.quick, options.reference, options.data) else NOT_CONVERGED
