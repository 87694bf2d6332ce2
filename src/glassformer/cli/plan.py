"""How many samples a target takes."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any

from glassformer.cli.learners import add_learner, learner_of
from glassformer.cli.output import exit_code, plots, print_json, print_rows, threshold_row, write
from glassformer.core.display import heading


def add(parser: argparse.ArgumentParser) -> None:
    """The target, whose error it is of, and the size."""
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--target-error", type=float, metavar="X", help="that the quantity is to reach, > 0")
    target.add_argument("--target-label-error", type=float, metavar="X", help="the same with --quantity label_error")
    text = "error (of the estimate, default), label_error, prediction_error, plugin_error, test_loss, ..."
    parser.add_argument("--quantity", help=text)
    parser.add_argument("--d", type=int, help="token dimension at which samples are counted")
    add_learner(parser)


def run(options: argparse.Namespace, model: Callable[..., Any]) -> int:
    """Print the sample ratios, the samples and the thresholds beside them."""
    from glassformer.core.errors import ParameterError
    from glassformer.learners.plan import plan

    option, target, quantity = _asked(options)
    try:
        found = plan(model(), target, learner_of(options.learner, options), quantity, options.d)
    except ParameterError as error:
        raise (error.named(option) if error.name == "target" else error) from error.__cause__
    write(options, found, lambda path: plots().plot_plan(found, path))
    if options.json:
        print_json("plan", found.to_dict())
    else:
        _print(found)
    return exit_code([entry.status for entry in found.entries], found.parameters)


def _asked(options: argparse.Namespace) -> tuple[str, float, str]:
    """The option that holds the target, the target and its quantity, which the option may say."""
    from glassformer.core.errors import IncompatibleError

    if options.target_label_error is None:
        return "--target-error", options.target_error, options.quantity or "error"
    if options.quantity not in (None, "label_error"):
        raise IncompatibleError(
            f"--target-label-error and --quantity {options.quantity} exclude each other: use --target-error"
        )
    return "--target-label-error", options.target_label_error, "label_error"


def _print(found: Any) -> None:
    print(heading(found.model, found.parameters))
    print(f"{found.quantity} at or below {found.target:g}" + ("" if found.d is None else f", d = {found.d}"))
    rows = [
        {"who": one.name, **threshold_row(one), "n": one.samples, "status": str(one.status)} for one in found.entries
    ]
    print_rows(rows, ["who", "alpha", "+-", *([] if found.d is None else ["n"]), "status", "note"])
    if found.thresholds is not None:
        known = [one for one in found.thresholds.entries if not math.isnan(one.alpha)]
        beside = [{"threshold": one.name, **threshold_row(one)} for one in known]
        print_rows(beside, ["threshold", "alpha", "+-", "note"])
    for note in found.notes:
        print(f"note: {note}")
