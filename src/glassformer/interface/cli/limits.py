"""Bayes-optimal error and overlap."""

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
    """Print the limits."""
    from glassformer.theory.limits import limits

    table = limits(model(), numbers_from("alpha", options.alpha), throw=False)
    write(options, table, lambda path: plots().plot_limits(table, path))
    bistable = any(str(status) == "bistable" for status in table.status)
    algorithmic = ["algorithmic_error"] if bistable else []
    overlaps = ["row_error", "prediction_error"] if "row_error" in table.columns else ["overlap"]
    return report(options, table, ["alpha", "error", *algorithmic, *overlaps, "status", "error_estimate"])
