"""BibTeX of the papers behind models and learners."""

from __future__ import annotations

import argparse


def add(parser: argparse.ArgumentParser) -> None:
    """Models and learners."""
    from glassformer.papers.citations import used

    parser.add_argument("used", nargs="*", help=f"{', '.join(used())} (default all)")


def run(options: argparse.Namespace) -> int:
    """Print the entries."""
    from glassformer.papers.citations import bibtex

    print(bibtex(options.used))
    return 0
