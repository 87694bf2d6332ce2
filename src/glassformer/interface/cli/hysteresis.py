"""Fixed points followed up and down."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from glassformer.core.ranges import numbers_from
from glassformer.interface.cli.output import plots, report, write


def add(parser: argparse.ArgumentParser) -> None:
    """No options of its own."""
    del parser


def run(options: argparse.Namespace, model: Callable[..., Any]) -> int:
    """Print both branches."""
    from glassformer.theory.hysteresis import follow_branches

    table = follow_branches(model(), numbers_from("alpha", options.alpha))
    write(options, table, lambda path: plots().plot_branches(table, path))
    return report(options, table, ["alpha", "error_up", "error_down", "two_branches", "status", "error_estimate"])
