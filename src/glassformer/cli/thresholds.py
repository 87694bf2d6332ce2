"""Weak and perfect recovery, and the hard phase."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from glassformer.cli.commands import ModelOf
from glassformer.cli.expected_time import require_short_time
from glassformer.cli.learners import learner_of
from glassformer.cli.output import print_json, print_rows, threshold_row, write
from glassformer.core.display import heading
from glassformer.core.errors import IncompatibleError, ParameterError

if TYPE_CHECKING:
    from glassformer.bayes_optimal.threshold_results import Thresholds
    from glassformer.models.base import Model

# Largest degree of the polynomials of a row that are tried, and number of samples for the test of each.
_LARGEST, _SAMPLES = 4, 2**18


def add(parser: argparse.ArgumentParser) -> None:
    """The rows of one threshold."""
    rows = "rows, counted from 1, separated by commas"
    parser.add_argument("--subspace", metavar="ROWS", help=f"only the threshold of weak recovery of these {rows}")
    parser.add_argument("--known", metavar="ROWS", help=f"with --subspace: known {rows} (default: none)")


def run(options: argparse.Namespace, model: ModelOf) -> int:
    """Print the thresholds."""
    from glassformer.bayes_optimal.expected_time import expected_seconds
    from glassformer.verbs.thresholds import thresholds

    chosen = model()
    learner = learner_of(options.learner, options)
    if learner.info.name == "gamp":
        require_short_time(options, chosen, expected_seconds(chosen, "thresholds", chosen.prior.rows))
    if options.subspace is None and options.known is None:
        found, exponents = thresholds(chosen, learner), _row_exponents(chosen)
    else:
        found, exponents = _of_subspace(options, chosen, learner.info.name), {}
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


def _of_subspace(options: argparse.Namespace, model: Model, learner: str) -> Thresholds:
    """Return the threshold of the given rows if only the known ones are found, as the only threshold."""
    import numpy as np

    from glassformer.bayes_optimal.staircase import subspace_threshold
    from glassformer.bayes_optimal.threshold_results import Threshold, Thresholds

    if options.subspace is None:
        raise IncompatibleError(f"--known {options.known} needs the rows whose threshold is computed: add --subspace")
    if learner != "gamp":
        raise IncompatibleError(f"--subspace {options.subspace} has no meaning for learner {learner}: leave it out")
    rows, known = (_rows(model, name, getattr(options, name)) for name in ("subspace", "known"))
    if set(rows) & set(known):
        raise ParameterError("known", options.known, f"other rows than those of --subspace {options.subspace}")
    directions = np.eye(model.prior.rows)
    step = subspace_threshold(model, directions[:, rows], directions[:, known] if known else None)
    names, found = (", ".join(model.row_names[row] for row in some) for some in (rows, known))
    note = f"weak recovery of {names} " + (f"if only {found} is known" if known else "if nothing is known")
    entry = Threshold("subspace", step.alpha, step.error_estimate, note, names, step.matrix.tolist())
    return Thresholds(model.name, model.parameters, (entry,), None, "not determined with --subspace")


def _rows(model: Model, name: str, given: str | None) -> list[int]:
    """Return rows of the command line, which are counted from 1, as indices; none without any."""
    count = model.prior.rows
    rows = [int(part) if part.strip().isdecimal() else 0 for part in given.split(",")] if given is not None else []
    if not all(1 <= row <= count for row in rows):
        raise ParameterError(name, given, f"integers from 1 to {count}, separated by commas")
    return [row - 1 for row in rows]


def _row_exponents(model: Model) -> dict[str, Any]:
    """Exponents of every row of a link of several rows, null where none is found; nothing for other models."""
    if not model.has_user_link or len(model.row_names) < 2:
        return {}
    from glassformer.bayes_optimal.row_exponents import row_exponents
    from glassformer.core.results import to_json_types

    found = row_exponents(model, _LARGEST, _SAMPLES)
    return {"row_exponents": {name: to_json_types(own._asdict()) for name, own in found.items()}}
