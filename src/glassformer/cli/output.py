"""Output of commands: tables, JSON, files, pictures, and the exit codes of statuses."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.core.display import first_columns, heading
from glassformer.core.errors import DataError, IncompatibleError, ParameterError
from glassformer.core.files import replace_file, require_writable_file, user_path

if TYPE_CHECKING:
    import pandas

    from glassformer.bayes_optimal.threshold_results import Threshold
    from glassformer.core.display import DisplayMixin
    from glassformer.core.results import Table
    from glassformer.core.status import Status
    from glassformer.verbs.plan import PlanEntry

FAILED, BAD_USAGE, NOT_CONVERGED = 1, 2, 3
# Digits of numbers in a table, and the largest number of digits, for rows that would look equal with fewer.
_DIGITS, _MOST_DIGITS = 7, 12
# Kinds of JSON documents, with their versions; ``cli.schema`` has their content.
KINDS = dict.fromkeys(
    ("table", "thresholds", "phase-diagram", "landscapes", "spectra", "plan", "width-plan", "sweep", "doctor"), 1
)


@contextmanager
def short_warnings() -> Iterator[None]:
    """Print every warning once, in one line like errors, without its place in the source."""
    printed: set[str] = set()
    original = warnings.formatwarning

    def in_one_line(message: Warning | str, *place: Any, **more: Any) -> str:
        del place, more
        text = f"glassformer: warning: {' '.join(str(message).split())}\n"
        if text in printed:
            return ""
        printed.add(text)
        return text

    warnings.formatwarning = in_one_line
    try:
        yield
    finally:
        warnings.formatwarning = original


# --- files ------------------------------------------------------------------------------------------------------------


def add_files(parser: argparse.ArgumentParser) -> None:
    """Options for the files of a result, and for its picture."""
    parser.add_argument("--csv", type=user_path, metavar="FILE", help="write the result as CSV")
    parser.add_argument("--plot", type=user_path, metavar="FILE", help="draw the result, in the format of the ending")
    add_look(parser)


def add_look(parser: argparse.ArgumentParser) -> None:
    """Options for the look of a plot."""
    text = "width and height of the drawing in inches, for instance 6x4"
    parser.add_argument("--plot-size", metavar="WxH", help=text)
    parser.add_argument("--plot-theme", metavar="NAME", help="light (default) or dark")


def add_progress(parser: argparse.ArgumentParser) -> None:
    """The option for progress in logs."""
    text = "auto (a bar on a terminal, nothing elsewhere; default) or plain (a line per half minute, for logs)"
    parser.add_argument("--progress", choices=("auto", "plain"), default="auto", metavar="MODE", help=text)


def require_writable(options: argparse.Namespace) -> None:
    """Raise before anything is computed if a requested file could not be written afterwards.

    Raises:
        DataError: its folder does not exist, or it is a folder, or may not be written, or is requested twice.
        ParameterError: a plot of an unknown format, size or theme.
        IncompatibleError: the look of a plot that is not requested.
    """
    taken: dict[str, str] = {}
    for name in ("csv", "plot", "netcdf"):
        path = getattr(options, name, None)
        if path is not None:
            # Unlike Path.resolve, this does not fail for links that lead to each other.
            other = taken.setdefault(os.path.realpath(path), name)
            if other != name:
                raise DataError(name, str(path), f"a file other than that of --{other}")
            require_writable_file(name, path)
    if hasattr(options, "plot_size"):
        picture(options)


def picture(options: argparse.Namespace) -> Any:
    """The file and the look of the plot; None where no plot is requested."""
    if options.plot is None:
        for name in ("plot_size", "plot_theme"):
            if getattr(options, name) is not None:
                raise IncompatibleError(f"--{name.replace('_', '-')} needs a plot: give its file with --plot")
        return None
    size = None
    if options.plot_size is not None:
        try:
            width, height = (float(length) for length in options.plot_size.lower().split("x"))
        except ValueError:
            allowed = "a width and a height in inches, as in 6x4"
            raise ParameterError("plot_size", options.plot_size, allowed) from None
        size = width, height
    from glassformer.plotting.style import Picture

    return Picture(options.plot, size, options.plot_theme or "light")


def write(options: argparse.Namespace, result: DisplayMixin, draw: Callable[[Path], object] | None = None) -> None:
    """Write a result to the requested files, drawn by ``draw`` or by the function that it names (``drawing``)."""
    if options.csv:
        write_csv(options.csv, result.to_pandas())
    if options.plot and draw is not None:
        draw(picture(options))
    elif options.plot:
        from glassformer.plotting import plots

        getattr(plots, result.drawing)(result, picture(options))


def write_csv(path: Path, frame: pandas.DataFrame) -> None:
    """Write a data frame as CSV."""
    with replace_file(path, "csv") as part:
        frame.to_csv(part, index=False)


# --- JSON and tables --------------------------------------------------------------------------------------------------


def schema_name(kind: str) -> str:
    """Return the name of the schema of a kind of document.

    Example:
        >>> schema_name("table")
        'glassformer/table/1'
    """
    return f"glassformer/{kind}/{KINDS[kind]}"


def print_json(kind: str, document: dict[str, Any]) -> None:
    """Print a document of this kind. Numbers that are not finite, such as unknown free memory, are null."""
    from glassformer.core.results import to_json_types

    print(json.dumps({"schema": schema_name(kind), **to_json_types(document)}, indent=2))


def add_columns(parser: argparse.ArgumentParser) -> None:
    """The option for all columns of a table."""
    parser.add_argument("--all-columns", action="store_true", help="print all columns of the table instead of five")


def report(options: argparse.Namespace, table: Table, columns: list[str]) -> int:
    """Print a table and return the exit code of its statuses.

    The first five of the columns are printed, or all columns of the table with ``--all-columns``. Infinite numbers,
    which JSON cannot represent, are printed as such.
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


def exit_code(statuses: Sequence[Status], parameters: Mapping[str, Any]) -> int:
    """Return the exit code of statuses of results with these parameters; print remedies of those that are not good."""
    failed = {str(status): status.remedy_for(parameters) for status in statuses if not status.ok}
    for name, remedy in failed.items():
        print(f"glassformer: {name}: {remedy}", file=sys.stderr)
    return NOT_CONVERGED if failed else 0


def threshold_row(entry: Threshold | PlanEntry) -> dict[str, str]:
    """A threshold in a table: ``inf`` where it is never reached, ``-`` where it does not apply.

    Example:
        >>> from glassformer.bayes_optimal.threshold_results import Threshold
        >>> threshold_row(Threshold("weak_recovery", math.inf, 0.0, "never"))
        {'alpha': 'inf', '+-': '-', 'note': 'never'}
    """
    alpha = "-" if math.isnan(entry.alpha) else f"{entry.alpha:.8g}"
    known = math.isfinite(entry.alpha) and math.isfinite(entry.error_estimate)
    return {"alpha": alpha, "+-": f"{entry.error_estimate:.2g}" if known else "-", "note": entry.note}


def print_rows(rows: list[dict[str, Any]], columns: list[str]) -> None:
    """Print a plain table: numbers to the right, words to the left."""

    def text(value: object, digits: int) -> str:
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return "-"
        if isinstance(value, list):
            return " ".join(text(part, digits) for part in value)
        if isinstance(value, float):
            return f"{value:.2g}" if 0 < abs(value) < 1e-4 else f"{value:.{digits}g}"
        return str(value)

    # The first column identifies the row.
    digits = {columns[0]: _digits_to_distinguish([row[columns[0]] for row in rows])}
    cells = [[text(row[name], digits.get(name, _DIGITS)) for name in columns] for row in rows]
    widths = [max(len(name), *(len(line[i]) for line in cells)) for i, name in enumerate(columns)]
    words = [any(isinstance(row[name], str) for row in rows) for name in columns]
    for line in [columns, *cells]:
        padded = (c.ljust(w) if word else c.rjust(w) for c, w, word in zip(line, widths, words, strict=True))
        print("  ".join(padded).rstrip())


def _digits_to_distinguish(values: list[Any]) -> int:
    """The fewest digits, up to a limit, with which different numbers are written differently.

    Example:
        >>> _digits_to_distinguish([0.5, 0.25]), _digits_to_distinguish([0.50999978, 0.50999979, None])
        (7, 8)
    """
    numbers = {value for value in values if isinstance(value, float) and math.isfinite(value)}
    enough = (n for n in range(_DIGITS, _MOST_DIGITS) if len({f"{value:.{n}g}" for value in numbers}) == len(numbers))
    return next(enough, _MOST_DIGITS)
