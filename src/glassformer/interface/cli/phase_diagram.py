"""Thresholds against the skip strength."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from glassformer.core.ranges import numbers_from
from glassformer.core.showing import heading
from glassformer.interface.cli.output import plots, print_json, print_rows, write


def add(parser: argparse.ArgumentParser) -> None:
    """No options of its own."""
    del parser


def run(options: argparse.Namespace, model: Callable[..., Any]) -> int:
    """Print the thresholds at each skip strength."""
    from glassformer.theory.phase_diagram import phase_diagram

    values = numbers_from("skip", "1" if options.model_skip is None else options.model_skip)
    found = phase_diagram(model(skip=values[0]), "skip", values)
    write(options, found, lambda path: plots().plot_phase_diagram(found, path))
    if options.json:
        print_json("phase-diagram", found.to_dict())
        return 0
    document = found.to_dict()
    print(heading(found.model, found.parameters))
    print_rows(document["points"], ["skip", "threshold", "alpha", "error_estimate", "note"])
    return 0
