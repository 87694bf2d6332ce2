"""Thresholds against one parameter of the model."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from glassformer.cli.output import plots, print_json, print_rows, threshold_row, write
from glassformer.core.display import heading
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.options import Option, values_of
from glassformer.core.parsing import parse_grid

_ALLOWED = "NAME=SPEC with a parameter of the model that is a number, for example noise=0:1:5 or depth=1,2,3"


def add(parser: argparse.ArgumentParser) -> None:
    """The parameter that varies."""
    parser.add_argument(
        "--along", metavar="NAME=SPEC", help="parameter that varies, and its values (default those of --skip)"
    )


def run(options: argparse.Namespace, model: Callable[..., Any]) -> int:
    """Print the thresholds at each value."""
    from glassformer.state_evolution.phase_diagram import phase_diagram

    name, values = _asked(options)
    found = phase_diagram(model(**{name: values[0]}), name, values)
    write(options, found, lambda path: plots().plot_phase_diagram(found, path))
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


def _asked(options: argparse.Namespace) -> tuple[str, list[Any]]:
    """The parameter by its field, and its values."""
    from glassformer.models.registry import options_of

    parameters = {word.removeprefix("model_") for word in vars(options) if word.startswith("model_")}
    if options.along is None and "skip" in parameters:
        return "skip", parse_grid("skip", options.model_skip or "1")
    word, _, spec = (options.along or "").partition("=")
    name = word.strip().replace("-", "_")
    if name not in parameters or not spec:
        raise ParameterError("along", options.along, _ALLOWED)
    among = options_of(options.model)
    _require_one_source(options, next(option for option in among if option.field == name))
    return name, values_of(among, name, parse_grid(name, spec))


def _require_one_source(options: argparse.Namespace, varied: Option) -> None:
    """Raise if the parameter that varies has a value of its own, unless it cannot be left out."""
    given = getattr(options, f"model_{varied.field}")
    if given is not None and given is not False and not varied.required:
        told = varied.word if varied.flag else f"{varied.word} {given}"
        raise IncompatibleError(f"--along {options.along} and {told} exclude each other: leave out one of the two")
