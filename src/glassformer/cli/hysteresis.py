"""Fixed points followed up and down in the sample ratio."""

from __future__ import annotations

import argparse

from glassformer.cli.commands import ModelOf
from glassformer.cli.learners import learner_of
from glassformer.cli.output import add_columns, report, write


def add(parser: argparse.ArgumentParser) -> None:
    """All columns."""
    add_columns(parser)


def run(options: argparse.Namespace, model: ModelOf) -> int:
    """Print both branches."""
    from glassformer.verbs.hysteresis import hysteresis

    table = hysteresis(model(), options.alpha, learner_of(options.learner, options), throw=False)
    write(options, table)
    return report(options, table, ["alpha", "error_up", "error_down", "two_branches", "status", "error_estimate"])
