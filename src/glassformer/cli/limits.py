"""Error and overlap that a learner reaches, by default the Bayes-optimal ones."""

from __future__ import annotations

import argparse

from glassformer.cli.commands import ModelOf
from glassformer.cli.expected_time import require_short_time
from glassformer.cli.learners import learner_of
from glassformer.cli.output import add_columns, report, write


def add(parser: argparse.ArgumentParser) -> None:
    """All columns."""
    add_columns(parser)


def run(options: argparse.Namespace, model: ModelOf) -> int:
    """Print the limits."""
    from glassformer.bayes_optimal.expected_time import expected_seconds
    from glassformer.core.results import error_column
    from glassformer.verbs.limits import limits

    learner, asked = learner_of(options.learner, options), model()
    if learner.info.name == "gamp":
        ratios = len(options.alpha)
        require_short_time(options, asked, expected_seconds(asked, "limits", ratios), values=ratios)
    table = limits(asked, options.alpha, learner, throw=False)
    write(options, table)
    bistable = any(str(status) == "bistable" for status in table.status)
    others = [
        *(["algorithmic_error"] if bistable and "algorithmic_error" in table.columns else []),
        *learner.theory(asked).display_columns(table),
    ]
    shown = ["alpha", table.main, *others[:1], "status", error_column(table.main), *others[1:]]
    return report(options, table, shown)
