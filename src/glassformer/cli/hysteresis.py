"""Fixed points followed up and down in the sample ratio."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from glassformer.cli.learners import learner_of
from glassformer.cli.output import add_columns, report, write


def add(parser: argparse.ArgumentParser) -> None:
    """All columns."""
    add_columns(parser)


def run(options: argparse.Namespace, model: Callable[..., Any]) -> int:
    """Print both branches."""
    from glassformer.verbs.hysteresis import hysteresis

    table = hysteresis(model(), options.alpha, learner_of(options.learner, options), throw=False)
    write(options, table)
    return report(options, table, ["alpha", "error_up", "error_down", "two_branches", "status", "error_estimate"])
