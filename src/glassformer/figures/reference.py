"""Published data to compare with, recognised by their columns rather than by file names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from glassformer.errors import ParameterError

if TYPE_CHECKING:
    import pandas

CURVES = ("rho", "delta", "beta", "alpha", "mmse")
THRESHOLDS = ("rho", "beta", "alpha_BO", "alpha_MNNE")
LANDSCAPE = ("alpha", "q", "fe")


def load(folder: Path | None, columns: tuple[str, ...], exact: bool = False) -> pandas.DataFrame | None:
    """All CSV files below ``folder`` that have the columns, as one frame; None where there is none.

    Authors' own files and renamed ones are found alike; with ``exact``, only files without other columns are.

    Raises:
        ParameterError: ``folder`` is not a folder.
    """
    if folder is None:
        return None
    if not folder.is_dir():
        raise ParameterError("reference", str(folder), "an existing folder of CSV files")
    import pandas

    found = []
    for path in sorted(folder.rglob("*.csv")):
        header = pandas.read_csv(path, nrows=0)
        if set(columns) == set(header.columns) or (set(columns) <= set(header.columns) and not exact):
            found.append(pandas.read_csv(path)[list(columns)])
    return pandas.concat(found, ignore_index=True) if found else None
