"""Published data to compare with, recognised by their columns, not by file names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array

if TYPE_CHECKING:
    import pandas

# Columns of the published files, by what they hold.
CURVES = ("rho", "delta", "beta", "alpha", "mmse")
THRESHOLDS = ("rho", "beta", "alpha_BO", "alpha_MNNE")
LANDSCAPE = ("alpha", "q", "fe")
INTERPOLATIONS = ("alpha", "error_mean", "error_standard_error")
DESCENT = ("alpha", "gen_error_mean", "gen_error_std")
QUADRATIC = ("Unnamed: 0", "alpha", "gen_error")
OVERLAPS = ("alpha", "Q11", "Q22")
AMP_OVERLAPS = ("alpha", "Q11_mean", "Q22_mean")
PLUGIN_ERROR = ("alpha", "gen_error")


def load(folder: Path | None, columns: tuple[str, ...], exact: bool = False) -> pandas.DataFrame | None:
    """Return all CSV files below ``folder`` with these columns as one frame; None if there are none.

    Arguments and errors as those of :func:`load_each`.
    """
    import pandas

    found = load_each(folder, columns, exact)
    return pandas.concat(found, ignore_index=True) if found else None


def load_each(folder: Path | None, columns: tuple[str, ...], exact: bool = False) -> list[pandas.DataFrame]:
    """Return each CSV file below ``folder`` with these columns as a frame; with ``exact``, only without other columns.

    Raises:
        ParameterError: ``folder`` is not a folder.
    """
    if folder is None:
        return []
    if not folder.is_dir():
        raise ParameterError("reference", str(folder), "an existing folder of CSV files")
    import pandas

    found = []
    for path in sorted(folder.rglob("*.csv")):
        header = pandas.read_csv(path, nrows=0)
        if set(columns) == set(header.columns) or (set(columns) <= set(header.columns) and not exact):
            found.append(pandas.read_csv(path)[list(columns)])
    return found


def descents(folder: Path | None) -> tuple[pandas.DataFrame, pandas.DataFrame] | None:
    """Return published errors of gradient descent, of single runs and of means over starts; None unless both exist.

    Both files have the same columns: single runs have the larger errors.
    """
    found = sorted(load_each(folder, DESCENT), key=lambda frame: -frame["gen_error_mean"].max())
    return (found[0], found[1]) if len(found) == 2 else None


def at_ratios(published: pandas.DataFrame, alpha: Array) -> tuple[NDArray[np.bool_], pandas.DataFrame]:
    """Return which of our sample ratios have published values, and the values."""
    rows, rounded = published.assign(alpha=published["alpha"].round(6)), np.round(alpha, 6)
    rows = rows.drop_duplicates("alpha").set_index("alpha")
    there = np.isin(rounded, rows.index)
    return there, rows.loc[rounded[there]]


def deviations(
    title: str, alpha: Array, ours: Array, published: Array, spread: Array | None = None, name: str = "alpha"
) -> str:
    """Return a table of our values, published ones and their differences, also in units of ``spread`` if it is known.

    Example:
        >>> print(deviations("error", np.array([0.2]), np.array([0.61]), np.array([0.6]), np.array([0.02])))
        error: alpha, ours, published, difference (in combined spreads)
            0.2000   0.61000   0.60000  +1.0e-02  (+0.5)
    """
    lines = [f"{title}: {name}, ours, published, difference" + ("" if spread is None else " (in combined spreads)")]
    for k, (a, own, other) in enumerate(zip(alpha, ours, published, strict=True)):
        line = f"  {a:8.4f}  {own:8.5f}  {other:8.5f}  {own - other:+.1e}"
        known = spread is not None and spread[k] > 0
        lines.append(f"{line}  ({(own - other) / spread[k]:+.1f})" if known else line)  # type: ignore[index]
    return "\n".join(lines)
