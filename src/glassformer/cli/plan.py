"""Number of samples for a target error."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING

from glassformer.cli.commands import ModelOf
from glassformer.cli.learners import learner_of
from glassformer.cli.output import exit_code, print_json, print_rows, threshold_row, write
from glassformer.core.display import heading

if TYPE_CHECKING:
    from glassformer.verbs.width_plan import WidthPlan


def add(parser: argparse.ArgumentParser) -> None:
    """The target, its quantity, and the size."""
    text = "largest accepted value of the quantity, > 0"
    parser.add_argument("--target", type=float, required=True, metavar="X", help=text)
    text = "error (of the estimate, default), label_error, prediction_error, plugin_error, test_loss, test_error, ..."
    parser.add_argument("--quantity", default="error", help=text)
    text = "setting of the learner over which to plan, at the sample ratio of full width: student_rho of risk"
    parser.add_argument("--over", choices=["student_rho"], help=text)
    parser.add_argument("--d", type=int, help="token dimension, to print numbers of samples")


def run(options: argparse.Namespace, model: ModelOf) -> int:
    """Print the sample ratios, the numbers of samples, and the thresholds of the model."""
    from glassformer.verbs.plan import plan

    learner = learner_of(options.learner, options)
    if options.over is not None:
        return _over_widths(
            options, plan(model(), options.target, learner, quantity=options.quantity, over=options.over)
        )
    found = plan(model(), options.target, learner, quantity=options.quantity, d=options.d)
    write(options, found)
    statuses = [entry.status for entry in found.entries]
    if options.json:
        print_json("plan", found.to_dict())
        return exit_code(statuses, found.parameters)
    print(heading(found.model, found.parameters))
    print(f"{found.quantity} at or below {found.target:g}" + ("" if found.d is None else f", d = {found.d}"))
    rows = [
        {"who": one.name, **threshold_row(one), "n": one.samples, "status": str(one.status)} for one in found.entries
    ]
    print_rows(rows, ["who", "alpha", "+-", *([] if found.d is None else ["n"]), "status", "note"])
    if found.thresholds is not None:
        finite = [one for one in found.thresholds.entries if not math.isnan(one.alpha)]
        print_rows(
            [{"threshold": one.name, **threshold_row(one)} for one in finite], ["threshold", "alpha", "+-", "note"]
        )
    for note in found.notes:
        print(f"note: {note}")
    return exit_code(statuses, found.parameters)


def _over_widths(options: argparse.Namespace, found: WidthPlan) -> int:
    """Print the errors of students over their widths, and what the best width gains."""
    write(options, found)
    if options.json:
        print_json("width-plan", found.to_dict())
    else:
        print(found)
    return exit_code(found.status, found.parameters)
