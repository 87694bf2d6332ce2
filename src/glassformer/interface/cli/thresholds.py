"""Weak and perfect recovery, and the hard phase."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any

from glassformer.interface.cli.learners import add_learner, learner_of
from glassformer.interface.cli.output import heading, plots, print_json, print_rows, write


def add(parser: argparse.ArgumentParser) -> None:
    """Whose thresholds, and its settings."""
    add_learner(parser)


def run(options: argparse.Namespace, model: Callable[..., Any]) -> int:
    """Print the thresholds."""
    found = learner_of(options.learner, options).thresholds(model())
    write(options, found, lambda path: plots().plot_thresholds(found, path))
    if options.json:
        print_json(found.to_dict())
        return 0
    print(heading(found.model, found.parameters))
    rows = [
        {"threshold": e.name, "alpha": _text(e.alpha, ".8g"), "+-": _error(e), "note": e.note} for e in found.entries
    ]
    print_rows(rows, ["threshold", "alpha", "+-", "note"])
    said = {True: "yes", False: "no", None: "unknown"}[found.hard_phase]
    print(f"hard phase: {said} ({found.hard_phase_reason})")
    if found.exponents is not None:
        print(", ".join(f"{name} exponent: {value:g}" for name, value in found.exponents._asdict().items()))
    return 0


def _text(value: float, form: str) -> str:
    return "-" if math.isnan(value) else f"{value:{form}}"


def _error(entry: Any) -> str:
    """The absolute error of a threshold; nothing where there is no number that could be off."""
    return _text(entry.error_estimate, ".2g") if math.isfinite(entry.alpha) else "-"
