"""What commands print and write, and the exit codes that statuses call for."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

FAILED, BAD_USAGE, NOT_CONVERGED = 1, 2, 3
# Documents that are printed as JSON, and their versions; what is in them says ``interface.documents``.
KINDS = {
    "table": 1,
    "thresholds": 1,
    "phase-diagram": 1,
    "landscapes": 1,
    "plan": 1,
    "sweep": 1,
    "doctor": 1,
}


def plots() -> Any:
    """The module of plots, which brings a library along."""
    from glassformer.interface.figures import plots

    return plots


def write(options: argparse.Namespace, result: Any, plot: Callable[[Path], None]) -> None:
    """Write the result to the files that were asked for."""
    if options.csv:
        result.to_pandas().to_csv(options.csv, index=False)
    if options.plot:
        plot(options.plot)


def schema_name(kind: str) -> str:
    """What a document of this kind says of itself.

    Example:
        >>> schema_name("table")
        'glassformer/table/1'
    """
    return f"glassformer/{kind}/{KINDS[kind]}"


def print_json(kind: str, document: dict[str, Any]) -> None:
    """Print a document of this kind, in types that JSON knows."""
    print(json.dumps({"schema": schema_name(kind), **document}, indent=2))


def report(options: argparse.Namespace, table: Any, columns: list[str]) -> int:
    """Print a table and return the exit code its statuses call for."""
    if options.json:
        print_json("table", table.to_dict())
    else:
        print(heading(table.model, table.parameters))
        print_rows(table.rows(), columns)
        for note in table.notes:
            print(f"note: {note}")
    return exit_code(table.status)


def exit_code(statuses: Sequence[Any]) -> int:
    """What statuses call for; those that are not good are named with their remedies."""
    failed = {str(status): status.remedy for status in statuses if not status.ok}
    for name, remedy in failed.items():
        print(f"glassformer: {name}: {remedy}", file=sys.stderr)
    return NOT_CONVERGED if failed else 0


def heading(model: str, parameters: dict[str, Any]) -> str:
    """One line that names the model and its parameters."""

    def text(value: Any) -> str:
        return f"{value:g}" if isinstance(value, float) else str(value)

    return f"{model}: " + ", ".join(f"{name} = {text(parameters[name])}" for name in sorted(parameters))


def print_rows(rows: list[dict[str, Any]], columns: list[str]) -> None:
    """A plain table: numbers to the right, words to the left."""

    def text(value: Any) -> str:
        if value is None:
            return "-"
        if isinstance(value, list):
            return " ".join(text(part) for part in value)
        if isinstance(value, float):
            return f"{value:.2g}" if 0 < abs(value) < 1e-4 else f"{value:.7g}"
        return str(value)

    cells = [[text(row[name]) for name in columns] for row in rows]
    widths = [max(len(name), *(len(line[i]) for line in cells)) for i, name in enumerate(columns)]
    words = [any(isinstance(row[name], str) for row in rows) for name in columns]
    for line in [columns, *cells]:
        padded = (
            cell.ljust(width) if word else cell.rjust(width)
            for cell, width, word in zip(line, widths, words, strict=True)
        )
        print("  ".join(padded).rstrip())
