"""Errors after every step of an algorithm."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from glassformer.cli.learners import add_settings, learner_of
from glassformer.cli.output import add_columns, report, write
from glassformer.core.parsing import parse_grid


def add(parser: argparse.ArgumentParser) -> None:
    """Number of steps, the start, the algorithm, and runs beside theory."""
    parser.add_argument(
        "--steps", type=int, default=50, help="steps of the algorithm, or equal parts of its way (default 50)"
    )
    text = "with the truth before the first step; default: side information, for even labels that of a random start"
    parser.add_argument("--overlap", type=float, help=text)
    text = "whose steps are followed: gamp (default), blind-gamp, vamp, risk (proximal message passing) or online-sgd"
    parser.add_argument("--algorithm", "--learner", default="gamp", help=text)
    parser.add_argument("--d", type=int, help="token dimension of runs beside theory; without it theory alone")
    parser.add_argument("--instances", type=int, help="independent runs, with --d (default 4)")
    parser.add_argument("--seed", type=int, help="first instance's seed, with --d (default 0)")
    add_settings(parser)
    add_columns(parser)


def run(options: argparse.Namespace, model: Callable[..., Any]) -> int:
    """Print errors step by step."""
    from glassformer.experiments.trajectories import follow

    table = follow(
        model(),
        parse_grid("alpha", options.alpha),
        steps=options.steps,
        overlap=options.overlap,
        d=options.d,
        instances=options.instances,
        seed=options.seed,
        algorithm=learner_of(options.algorithm, options),
    )
    write(options, table)
    names = ("measured_error", "measured_standard_error", "row_error", "cosine", "measured_cosine")
    there = [name for name in names if name in table.columns]
    return report(options, table, ["alpha", "iteration", "error", *there, "status", "error_estimate"])
