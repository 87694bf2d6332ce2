"""Errors of several learners, in theory and in runs."""

from __future__ import annotations

import argparse

from glassformer.cli.accuracy import accuracy_of
from glassformer.cli.commands import ModelOf
from glassformer.cli.output import add_columns, report, write
from glassformer.core.parsing import parse_grid


def add(parser: argparse.ArgumentParser) -> None:
    """The learners, the quantity, and the sizes of runs."""
    text = (
        "a learner, with its settings in the same quotes: 'risk loss=logistic strength=0.1'; FILE.py:FUNCTION for "
        "training of your own; once for each"
    )
    parser.add_argument("--learner", action="append", required=True, metavar="LEARNER", help=text)
    text = "error (of the estimate, default), label_error, prediction_error, ..."
    parser.add_argument("--quantity", default="error", help=text)
    parser.add_argument("--d", type=int, help="token dimension of simulated runs (default: theory only)")
    parser.add_argument("--run-alpha", metavar="SPEC", help="sample ratios of runs (default: six of --alpha)")
    parser.add_argument("--instances", type=int, default=4, help="independent runs per sample ratio (default 4)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first run (default 0)")
    add_columns(parser)


def run(options: argparse.Namespace, model: ModelOf) -> int:
    """Print the errors of all learners."""
    from glassformer.learners.registry import learner_from_text
    from glassformer.verbs.compare import compare

    found = compare(
        model(),
        options.alpha,
        [learner_from_text(text, options.d) for text in options.learner],
        d=options.d,
        run_alpha=None if options.run_alpha is None else parse_grid("run_alpha", options.run_alpha),
        instances=options.instances,
        seed=options.seed,
        quantity=options.quantity,
        accuracy=accuracy_of(options),
    )
    write(options, found)
    return report(options, found, ["learner", "kind", "alpha", options.quantity, "bar", "status"])
