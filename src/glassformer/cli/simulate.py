"""Errors of a learner on simulated data, compared with theory."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from glassformer.cli.commands import ModelOf
from glassformer.cli.expected_time import require_short_time
from glassformer.cli.learners import learner_of
from glassformer.cli.output import add_columns, report, write
from glassformer.core.files import user_path

if TYPE_CHECKING:
    from glassformer.learners.base import Learner
    from glassformer.models.base import Model

# Steps of message passing that a run usually takes (measured for attention networks).
_USUAL_STEPS = 40


def add(parser: argparse.ArgumentParser) -> None:
    """Sizes, and where runs are stored."""
    parser.add_argument("--d", type=int, default=100, help="token dimension (default 100)")
    parser.add_argument("--instances", type=int, default=4, help="independent runs per sample ratio (default 4)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first run (default 0)")
    parser.add_argument("--storage", help="inputs: float64 (default up to 2 GB), float32, revealed, ...")
    text = "folder for finished runs and the state of unfinished ones; the same command continues from it"
    parser.add_argument("--checkpoint", type=user_path, metavar="DIR", help=text)
    add_columns(parser)


def run(options: argparse.Namespace, model: ModelOf) -> int:
    """Print errors and theory."""
    import numpy as np

    from glassformer.verbs.simulate import simulate

    learner, asked = learner_of(options.learner, options), model()
    _require_short_time(options, learner, asked)
    result = simulate(
        asked,
        options.alpha,
        learner,
        d=options.d,
        instances=options.instances,
        seed=options.seed,
        storage=options.storage,
        checkpoint=options.checkpoint,
    )
    write(options, result)
    others = result.known_columns(("row_error", "row_theory", "label_error", "label_theory"))
    if "error" not in result.columns:
        found = (
            *("label_error", "label_above_optimum", "prediction_error", "prediction_above_optimum"),
            *("test_error", "test_standard_error", "test_theory", "new_task_error", "new_task_theory"),
        )
        return report(options, result, ["alpha", *result.known_columns(found), "status"])
    known = [name for name in ("theory", "theory_bayes_optimal") if not np.all(np.isnan(result[name]))]
    if len(known) == 2 and np.array_equal(result["theory"], result["theory_bayes_optimal"], equal_nan=True):
        known = known[:1]
    return report(options, result, ["alpha", "error", "standard_error", *known, *others, "status"])


def _require_short_time(options: argparse.Namespace, learner: Learner, model: Model) -> None:
    """Raise if the limits of the model, and the posteriors of message passing, take long."""
    from glassformer.bayes_optimal.expected_time import expected_seconds

    posteriors, ratios = 0.0, len(options.alpha) * (model.theory_unavailable_reason is None)
    if learner.info.name == "gamp":
        samples = sum(options.alpha) * options.d
        posteriors = samples * options.instances * min(learner.accurate("max_iterations"), _USUAL_STEPS)
    require_short_time(options, model, expected_seconds(model, "limits", ratios, posteriors))
