"""Weak and perfect recovery, and the hard phase."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from glassformer.cli.expected_time import require_short_time
from glassformer.cli.learners import add_learner, learner_of
from glassformer.cli.output import print_json, print_rows, threshold_row, write
from glassformer.core.display import heading

# Largest degree of the polynomials of a row that are tried, and number of samples for the test of each.
_LARGEST, _SAMPLES = 4, 2**18


def add(parser: argparse.ArgumentParser) -> None:
    """The learner and its settings."""
    add_learner(parser)


def run(options: argparse.Namespace, model: Callable[..., Any]) -> int:
    """Print the thresholds."""
    from glassformer.bayes_optimal.expected_time import expected_seconds

    chosen = model()
    learner = learner_of(options.learner, options)
    if learner.info.name == "gamp":
        require_short_time(options, chosen, expected_seconds(chosen, "thresholds", chosen.prior.rows))
    found, exponents = learner.thresholds(chosen), _row_exponents(chosen)
    write(options, found)
    if options.json:
        print_json("thresholds", {**found.to_dict(), **exponents})
        return 0
    print(heading(found.model, found.parameters))
    rows = [{"threshold": entry.name, **threshold_row(entry)} for entry in found.entries]
    print_rows(rows, ["threshold", "alpha", "+-", "note"])
    answer = {True: "yes", False: "no", None: "unknown"}[found.hard_phase]
    print(f"hard phase: {answer} ({found.hard_phase_reason})")
    if found.exponents is not None:
        print(", ".join(f"{name} exponent: {value:g}" for name, value in found.exponents._asdict().items()))
    for name, own in exponents.get("row_exponents", {}).items():
        values = {kind: f"above {_LARGEST}, or none" if value is None else f"{value:g}" for kind, value in own.items()}
        print(f"{name}: " + ", ".join(f"{kind} exponent {value}" for kind, value in values.items()))
    return 0


def _row_exponents(model: Any) -> dict[str, Any]:
    """Exponents of every row of a link of several rows, null where none is found; nothing for other models."""
    if not model.has_user_link or len(model.row_names) < 2:
        return {}
    from glassformer.bayes_optimal.row_exponents import row_exponents
    from glassformer.core.results import to_json_types

    found = row_exponents(model, _LARGEST, _SAMPLES)
    return {"row_exponents": {name: to_json_types(own._asdict()) for name, own in found.items()}}
