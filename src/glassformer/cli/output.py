"""What commands print and write, and the exit codes that statuses call for."""

from __future__ import annotations

import argparse
import json
import math
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from glassformer.core.display import first_columns, heading
from glassformer.core.files import replace_file, require_writable_file

FAILED, BAD_USAGE, NOT_CONVERGED = 1, 2, 3
# Of a number in a table, and of one that only more of them tell from that of another row.
_DIGITS, _MOST_DIGITS = 7, 12
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


@contextmanager
def short_warnings() -> Iterator[None]:
    """Warnings in one line each, as errors are, and once: where in the source they come from tells a reader nothing."""
    told: set[str] = set()
    shown = warnings.formatwarning

    def in_one_line(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
    ) -> str:
        del category, filename, lineno, line
        text = f"glassformer: warning: {' '.join(str(message).split())}\n"
        fresh = text not in told
        told.add(text)
        return text if fresh else ""

    warnings.formatwarning = in_one_line
    try:
        yield
    finally:
        warnings.formatwarning = shown


def plots() -> Any:
    """The module of plots, which brings a library along."""
    from glassformer.plotting import plots

    return plots


def add_files(parser: argparse.ArgumentParser) -> None:
    """Files that a result goes to, and how it is drawn."""
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the result as CSV")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the result (format by the file's ending)")
    add_look(parser)


def add_look(parser: argparse.ArgumentParser) -> None:
    """How a plot looks."""
    text = "width and height of the drawing in inches, for instance 6x4"
    parser.add_argument("--plot-size", metavar="WxH", help=text)
    parser.add_argument("--plot-theme", metavar="NAME", help="light (default) or dark")


def require_writable(options: argparse.Namespace) -> None:
    """Raise before anything is computed if a file that is asked for could not be written afterwards.

    Raises:
        DataError: its folder is not there, or it is a folder itself, or may not be written, or is that of another
            result.
        ParameterError: a plot of no known format, size or theme.
        IncompatibleError: the look of a plot that is not asked for.
    """
    from glassformer.core.errors import DataError

    taken: dict[Path, str] = {}
    for name in ("csv", "plot", "netcdf"):
        path = getattr(options, name, None)
        if path is not None:
            other = taken.setdefault(path.resolve(), name)
            if other != name:
                raise DataError(name, str(path), f"another file than that of --{other}")
            require_writable_file(name, path)
    if hasattr(options, "plot_size"):
        picture(options)


def picture(options: argparse.Namespace) -> Any:
    """Where the plot goes and how it looks; None where none is asked for."""
    from glassformer.core.errors import IncompatibleError

    look = {"--plot-size": options.plot_size, "--plot-theme": options.plot_theme}
    given = [name for name, value in look.items() if value is not None]
    if options.plot is None:
        if given:
            raise IncompatibleError(f"{given[0]} is for a plot: name its file with --plot")
        return None
    from glassformer.plotting.style import Picture

    return Picture(options.plot, _size(options.plot_size), options.plot_theme or "light")


def _size(text: str | None) -> tuple[float, float] | None:
    from glassformer.core.errors import ParameterError

    if text is None:
        return None
    try:
        width, height = (float(length) for length in text.lower().split("x"))
    except ValueError:
        raise ParameterError("plot_size", text, "a width and a height in inches, as in 6x4") from None
    return width, height


def write(options: argparse.Namespace, result: Any, plot: Callable[[Any], None]) -> None:
    """Write the result to the files that were asked for."""
    if options.csv:
        write_csv(options.csv, result.to_pandas())
    if options.plot:
        plot(picture(options))


def write_csv(path: Path, frame: Any) -> None:
    """Write a data frame as CSV."""
    with replace_file(path, "csv") as part:
        frame.to_csv(part, index=False)


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


def add_columns(parser: argparse.ArgumentParser) -> None:
    """How much of a table is printed."""
    parser.add_argument("--all-columns", action="store_true", help="print all columns of the table, not five")


def report(options: argparse.Namespace, table: Any, columns: list[str]) -> int:
    """Print a table and return the exit code its statuses call for.

    Of the columns the first five are printed, unless all of the table are asked for. Infinite numbers, for which JSON
    has no word, are printed as such.
    """
    if options.json:
        print_json("table", table.to_dict())
    else:
        print(heading(table.model, table.parameters))
        every = getattr(options, "all_columns", False)
        shown = [*table.columns, "status"] if every else first_columns(columns)
        values = {**{name: column.tolist() for name, column in table.columns.items()}, "status": map(str, table.status)}
        print_rows([dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)], shown)
        for note in table.notes:
            print(f"note: {note}")
    return exit_code(table.status, table.parameters)


def exit_code(statuses: Sequence[Any], parameters: Mapping[str, Any]) -> int:
    """What statuses of results with these parameters call for; those that are not good are named with remedies."""
    failed = {str(status): status.remedy_for(parameters) for status in statuses if not status.ok}
    for name, remedy in failed.items():
        print(f"glassformer: {name}: {remedy}", file=sys.stderr)
    return NOT_CONVERGED if failed else 0


def threshold_row(entry: Any) -> dict[str, str]:
    """A threshold as tables show it: ``inf`` where it is never reached, and ``-`` where there is none.

    Example:
        >>> from glassformer.state_evolution.thresholds import Threshold
        >>> threshold_row(Threshold("weak_recovery", math.inf, 0.0, "never"))
        {'alpha': 'inf', '+-': '-', 'note': 'never'}
    """
    alpha = "-" if math.isnan(entry.alpha) else f"{entry.alpha:.8g}"
    # Without a number there is none that could be off.
    known = math.isfinite(entry.alpha) and math.isfinite(entry.error_estimate)
    return {"alpha": alpha, "+-": f"{entry.error_estimate:.2g}" if known else "-", "note": entry.note}


def print_rows(rows: list[dict[str, Any]], columns: list[str]) -> None:
    """A plain table: numbers to the right, words to the left."""

    def text(value: Any, digits: int) -> str:
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return "-"
        if isinstance(value, list):
            return " ".join(text(part, digits) for part in value)
        if isinstance(value, float):
            return f"{value:.2g}" if 0 < abs(value) < 1e-4 else f"{value:.{digits}g}"
        return str(value)

    # The first column says where a row belongs.
    digits = {columns[0]: _telling_apart([row[columns[0]] for row in rows])}
    cells = [[text(row[name], digits.get(name, _DIGITS)) for name in columns] for row in rows]
    widths = [max(len(name), *(len(line[i]) for line in cells)) for i, name in enumerate(columns)]
    words = [any(isinstance(row[name], str) for row in rows) for name in columns]
    for line in [columns, *cells]:
        padded = (
            cell.ljust(width) if word else cell.rjust(width)
            for cell, width, word in zip(line, widths, words, strict=True)
        )
        print("  ".join(padded).rstrip())


def _telling_apart(values: list[Any]) -> int:
    """The fewest digits, up to a limit, with which numbers that differ are written differently.

    Example:
        >>> _telling_apart([0.5, 0.25]), _telling_apart([0.50999978, 0.50999979, None])
        (7, 8)
    """
    numbers = {value for value in values if isinstance(value, float) and math.isfinite(value)}
    enough = (n for n in range(_DIGITS, _MOST_DIGITS) if len({f"{value:.{n}g}" for value in numbers}) == len(numbers))
    return next(enough, _MOST_DIGITS)
