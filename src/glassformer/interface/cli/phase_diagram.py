"""Thresholds against one parameter of the model."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from glassformer.core.errors import ParameterError
from glassformer.core.options import values_of
from glassformer.core.ranges import numbers_from
from glassformer.core.showing import heading
from glassformer.interface.cli.output import plots, print_json, print_rows, write

_ALLOWED = "NAME=SPEC with a parameter of the model that is a number, for example noise=0:1:5 or depth=1,2,3"


def add(parser: argparse.ArgumentParser) -> None:
    """The parameter that varies."""
    parser.add_argument(
        "--along", metavar="NAME=SPEC", help="parameter that varies, and its values (default those of --skip)"
    )


def run(options: argparse.Namespace, model: Callable[..., Any]) -> int:
    """Print the thresholds at each value."""
    from glassformer.theory.phase_diagram import phase_diagram

    name, values = _asked(options)
    found = phase_diagram(model(**{name: values[0]}), name, values)
    write(options, found, lambda path: plots().plot_phase_diagram(found, path))
    if options.json:
        print_json("phase-diagram", found.to_dict())
        return 0
    document = found.to_dict()
    print(heading(found.model, found.parameters))
    print_rows(document["points"], [name, "threshold", "alpha", "error_estimate", "note"])
    return 0


def _asked(options: argparse.Namespace) -> tuple[str, list[Any]]:
    """The parameter by its field, and its values."""
    from glassformer.models.registry import options_of

    parameters = {word.removeprefix("model_") for word in vars(options) if word.startswith("model_")}
    if options.along is None and "skip" in parameters:
        return "skip", numbers_from("skip", options.model_skip or "1")
    word, _, spec = (options.along or "").partition("=")
    name = word.strip().replace("-", "_")
    if name not in parameters or not spec:
        raise ParameterError("along", options.along, _ALLOWED)
    return name, values_of(options_of(options.model), name, numbers_from(name, spec))
