"""An algorithm on simulated data, next to theory."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from glassformer.core.ranges import numbers_from
from glassformer.interface.cli.learners import add_settings, learner_of, titles
from glassformer.interface.cli.output import plots, report, write


def add(parser: argparse.ArgumentParser) -> None:
    """Sizes, and the settings of all learners."""
    from glassformer.learners.registry import names

    parser.add_argument("--algorithm", default=names()[0], help=f"{titles()}; default {names()[0]}")
    parser.add_argument("--d", type=int, default=100, help="token dimension (default 100)")
    parser.add_argument("--instances", type=int, default=4, help="independent runs per point (default 4)")
    parser.add_argument("--seed", type=int, default=0, help="first instance's seed (default 0)")
    parser.add_argument("--storage", default="float64", help="float64 (default), float32, sharded, generated")
    text = "folder that keeps finished runs and the state of unfinished ones; the same command continues from it"
    parser.add_argument("--checkpoint", type=Path, metavar="DIR", help=text)
    add_settings(parser)


def run(options: argparse.Namespace, model: Callable[..., Any]) -> int:
    """Print errors beside theory."""
    import numpy as np

    from glassformer.experiments.simulation import simulate

    result = simulate(
        model(),
        numbers_from("alpha", options.alpha),
        d=options.d,
        instances=options.instances,
        seed=options.seed,
        algorithm=learner_of(options.algorithm, options),
        storage=options.storage,
        checkpoint=options.checkpoint,
    )
    write(options, result, lambda path: plots().plot_simulation(result, path))
    rows = ["row_error", "row_theory"] if "row_error" in result.columns else []
    theories = result.columns["theory"], result.columns["theory_bayes_optimal"]
    bayes = [] if np.array_equal(*theories, equal_nan=True) else ["theory_bayes_optimal"]
    return report(options, result, ["alpha", "error", "standard_error", "theory", *bayes, *rows, "status"])
