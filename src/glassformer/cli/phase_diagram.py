"""Thresholds against one parameter of the model."""

from __future__ import annotations

import argparse
from typing import Any

from glassformer.cli.commands import ModelOf
from glassformer.cli.expected_time import require_short_time
from glassformer.cli.learners import learner_of
from glassformer.cli.output import print_json, print_rows, threshold_row, write
from glassformer.core.display import heading
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.options import values_of
from glassformer.core.parsing import parse_grid
from glassformer.models.registry import options_of

_ALLOWED = (
    "NAME=SPEC with a parameter of the model that is a number, for example noise=0:1:5, depth=1,2,3 or "
    "inputs.signal=0:4:5"
)


def add(parser: argparse.ArgumentParser) -> None:
    """The parameter that varies."""
    parser.add_argument(
        "--along", metavar="NAME=SPEC", help="parameter that varies and its values (for attention, default --skip)"
    )


def run(options: argparse.Namespace, model: ModelOf) -> int:
    """Print the thresholds at each value."""
    from glassformer.bayes_optimal.expected_time import expected_seconds
    from glassformer.verbs.phase_diagram import phase_diagram

    name, values = _varied(options)
    models, learner = [model(**{name: value}) for value in values], learner_of(options.learner, options)
    if learner.name == "gamp":
        seconds = sum(expected_seconds(one, "thresholds", one.prior.rows) for one in models)
        require_short_time(options, models[-1], seconds, name, len(values))
    found = phase_diagram(models[0], name, values, learner)
    write(options, found)
    if options.json:
        print_json("phase-diagram", found.to_dict())
        return 0
    print(heading(found.model, found.parameters))
    rows = [
        {name: value, "threshold": entry.name, **threshold_row(entry)}
        for value, thresholds in zip(found.values, found.thresholds, strict=True)
        for entry in thresholds.entries
    ]
    print_rows(rows, [name, "threshold", "alpha", "+-", "note"])
    return 0


def _varied(options: argparse.Namespace) -> tuple[str, list[Any]]:
    """The parameter that varies, by its field, and its values."""
    parameters = {option.field: option for option in options_of(options.model)}
    if options.along is None and "skip" in parameters:
        return "skip", parse_grid("skip", options.model_skip or "1")
    word, _, spec = (options.along or "").partition("=")
    name = word.strip().replace("-", "_")
    if name.partition(".")[0] not in parameters or not spec:
        raise ParameterError("along", options.along, _ALLOWED)
    if "." in name:
        return name, values_of(parameters.values(), name, parse_grid(name, spec))
    varied, given = parameters[name], getattr(options, f"model_{name}")
    # The value of a parameter that cannot be left out is ignored.
    if given is not None and given is not False and not varied.required:
        text = varied.word if varied.flag else f"{varied.word} {given}"
        raise IncompatibleError(f"--along {options.along} and {text} exclude each other: leave out one of the two")
    return name, values_of(parameters.values(), name, parse_grid(name, spec))
