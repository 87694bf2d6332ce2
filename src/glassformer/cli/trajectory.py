"""Errors after every step of a learner."""

from __future__ import annotations

import argparse

from glassformer.cli.commands import ModelOf
from glassformer.cli.learners import learner_of
from glassformer.cli.output import add_columns, report, write
from glassformer.core.files import user_path


def add(parser: argparse.ArgumentParser) -> None:
    """Number of steps, the start, and simulated runs."""
    text = "steps; of sgd gradient steps, of online-sgd equal intervals of time (default those of the learner, or 50)"
    parser.add_argument("--steps", type=int, help=text)
    text = (
        "overlap:X, overlap with the truth before the first step (default: by side information, for even labels by a "
        "random start); for descent also prior, or small:X"
    )
    parser.add_argument("--start", help=text)
    parser.add_argument("--d", type=int, help="token dimension of simulated runs (default: theory only)")
    parser.add_argument("--instances", type=int, help="independent runs, needs --d (default 4)")
    parser.add_argument("--seed", type=int, help="seed of the first run, needs --d (default 0)")
    parser.add_argument("--storage", help="inputs of runs, needs --d: float64 (default), float32, ...")
    text = "folder for finished runs and the state of unfinished ones; the same command continues from it"
    parser.add_argument("--checkpoint", type=user_path, metavar="DIR", help=text)
    add_columns(parser)


def run(options: argparse.Namespace, model: ModelOf) -> int:
    """Print errors step by step."""
    from glassformer.core.results import error_column
    from glassformer.verbs.trajectory import trajectory

    table = trajectory(
        model(),
        options.alpha,
        learner_of(options.learner, options),
        steps=options.steps,
        start=options.start,
        d=options.d,
        instances=options.instances,
        seed=options.seed,
        storage=options.storage,
        checkpoint=options.checkpoint,
        throw=False,
    )
    write(options, table)
    names = (
        *(
            "measured_error",
            "measured_standard_error",
            "measured_test_error",
            "new_task_error",
            "label_error",
            "row_error",
            "cosine",
            "measured_cosine",
        ),
        *("training_loss", "test_loss", "prediction_error", "training_error", "measured_training_error"),
        *("largest_singular_value", "replica_overlap"),
    )
    shown = ["alpha", "iteration", table.main, *table.known_columns(names), "status", error_column(table.main)]
    return report(options, table, shown)
