"""Published data to compare with, recognised by their columns, not by file names.

The functions ``compare_...`` take the folder and the computed curves of a panel. They return what the panel shows and
says beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas
from numpy.typing import NDArray

from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array
from glassformer.models import AttentionIndexed
from glassformer.numerics.quasi_random import normal_score
from glassformer.papers.curves import OVERLAP, ComputedCurve, Overlay, measured, values
from glassformer.papers.drawing import Series, legend_entry
from glassformer.random_matrices.nuclear_norm import nuclear_norm_threshold
from glassformer.verbs.limits import limits

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
# Published message passing of deep attention is regularised: beyond this sample ratio that shows.
_REGULARISED = 0.8
# Width of the published runs of the nuclear norm.
_INTERPOLATED = 0.2


def load(folder: Path | None, columns: tuple[str, ...], exact: bool = False) -> pandas.DataFrame | None:
    """Return all CSV files below ``folder`` with these columns as one frame; None if there are none.

    Arguments and errors as those of :func:`load_each`.
    """
    found = load_each(folder, columns, exact)
    return pandas.concat(found, ignore_index=True) if found else None


def load_each(folder: Path | None, columns: tuple[str, ...], exact: bool = False) -> list[pandas.DataFrame]:
    """Return each CSV file below ``folder`` with these columns as a frame; with ``exact``, only without other columns.

    Raises:
        ParameterError: ``folder`` is not a folder.
    """
    if folder is None:
        return []
    found = []
    for path in csv_files(folder):
        header = pandas.read_csv(path, nrows=0)
        if set(columns) == set(header.columns) or (set(columns) <= set(header.columns) and not exact):
            found.append(pandas.read_csv(path)[list(columns)])
    return found


def csv_files(folder: Path) -> list[Path]:
    """Return the CSV files below a folder in the order of their names.

    Raises:
        ParameterError: ``folder`` is not a folder.
    """
    if not folder.is_dir():
        raise ParameterError("reference", str(folder), "an existing folder of CSV files")
    return sorted(folder.rglob("*.csv"))


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
    title: str,
    alpha: Array,
    ours: Array,
    published: Array,
    spread: Array | None = None,
    name: str = "alpha",
    runs: int | None = None,
) -> str:
    """Return a table of our values, published ones and their differences, also in units of ``spread`` if it is known.

    Spreads that are from a number of our own ``runs`` count by Student's distribution.

    Example:
        >>> print(deviations("error", np.array([0.2]), np.array([0.61]), np.array([0.6]), np.array([0.02])))
        error: alpha, ours, published, difference (in combined spreads)
            0.2000   0.61000   0.60000  +1.0e-02  (+0.5)
    """
    lines = [f"{title}: {name}, ours, published, difference" + ("" if spread is None else " (in combined spreads)")]
    for k, (a, own, other) in enumerate(zip(alpha, ours, published, strict=True)):
        line = f"  {a:8.4f}  {own:8.5f}  {other:8.5f}  {own - other:+.1e}"
        if spread is not None and spread[k] > 0:
            distance = (own - other) / spread[k]
            line += f"  ({distance if runs is None else normal_score(distance, runs):+.1f})"
        lines.append(line)
    return "\n".join(lines)


# --- comparisons of panels --------------------------------------------------------------------------------------------


def compare_optimum(folder: Path, computed: Sequence[ComputedCurve]) -> Overlay:
    """Bayes-optimal errors of bilinear sequence regression, for each width."""
    rows = load(folder, CURVES)
    if rows is None:
        return Overlay()
    fixed = computed[0].curve.model.parameters
    own = np.isclose(rows["beta"], fixed["beta"]) & np.isclose(rows["delta"], fixed["noise"])
    rows = rows[own].sort_values("alpha")
    series, lines = [], ["published data (largest difference below perfect recovery, and where):"]
    for one in computed:
        model, rho = one.curve.model, one.curve.model.parameters["rho"]
        own = rows[np.isclose(rows["rho"], rho)]
        series.append(Series(own[::8]["alpha"], own[::8]["mmse"], "k", ".", look={"ms": 2.2, "zorder": 3}))
        if fixed["noise"] == 0:
            # At the threshold itself an iteration that stops early leaves an error of 1e-4, which is no disagreement.
            own = own[own["alpha"] < model.prior.mmse_dimension - 1e-9]
        if own.empty:
            lines.append(f"  rho = {rho:g}: none")
            continue
        gap = np.abs(limits(model, own["alpha"].to_numpy(), throw=False)["error"] - own["mmse"].to_numpy())
        at = float(own["alpha"].iloc[int(np.argmax(gap))])
        lines.append(f"  rho = {rho:g}: {gap.max():.1e} at alpha = {at:g} ({len(own)} points)")
    return Overlay([*series, legend_entry("published data", ".", ms=3)], lines)


def compare_nuclear_norm(folder: Path, computed: Sequence[ComputedCurve]) -> Overlay:
    """Errors of the minimum nuclear norm at one width, and its thresholds; curves with a learner are its theory."""
    series, lines = [], []
    theories = [one for one in computed if one.curve.learner is not None]
    widths = [one.curve.model.parameters["rho"] for one in theories]
    rows = load(folder, INTERPOLATIONS, exact=True)
    if rows is not None:
        curve = theories[widths.index(_INTERPOLATED)].curve
        ratio, mean, error = (rows[name].to_numpy() for name in INTERPOLATIONS)
        ours = limits(curve.model, ratio, curve.learner or "gamp")["error"]
        series.append(Series(ratio, mean, curve.color, "s", "published, $d = 50$", error, {"ms": 5, "mfc": "none"}))
        lines.append(deviations(f"nuclear norm, rho = {_INTERPOLATED:g}", ratio, ours, mean, error))
    rows = load(folder, THRESHOLDS)
    if rows is not None:
        rows = rows[(rows["beta"] == 1) & rows["rho"].round(6).isin(widths)]
        exact = np.array([nuclear_norm_threshold(1.0, rho) for rho in rows["rho"]])
        lines.append(deviations("threshold of the nuclear norm", rows["rho"], exact, rows["alpha_MNNE"], name="rho"))
    return Overlay(series, lines)


def compare_descents(folder: Path, computed: Sequence[ComputedCurve]) -> Overlay:
    """Errors of gradient descent: the first runs of the first curve are single ones, the second ones averages."""
    series, lines = [], []
    (curve, _, simulations), theirs = computed[0], descents(folder) or ()
    for k, rows in enumerate(theirs):
        label = "published, $d = 100$" if k == 0 else None
        series.append(Series(rows["alpha"], rows["gen_error_mean"], "0.4", "x", label, look={"ms": 4}))
        own, table = curve.runs[k], simulations[k]
        mean, error = measured(own, table)
        there, matched = at_ratios(rows, table["alpha"])
        spread = np.hypot(error[there], matched["gen_error_std"].to_numpy())
        title, other = f"{own.label}, no noise, d = {own.d} (published: 100)", matched["gen_error_mean"].to_numpy()
        lines.append(deviations(title, table["alpha"][there], mean[there], other, spread, runs=own.instances))
    return Overlay(series, lines)


def compare_quadratic(folder: Path, computed: Sequence[ComputedCurve]) -> Overlay:
    """Bayes-optimal errors of a quadratic network of half width."""
    del computed
    rows = load(folder, QUADRATIC)
    if rows is None:
        return Overlay()
    alpha, theirs = rows["alpha"].to_numpy(), rows["gen_error"].to_numpy()
    ours = limits(AttentionIndexed(0.5, 1, "linear"), alpha, throw=False)["error"]
    few = slice(None, None, max(1, len(alpha) // 16))
    text = deviations("quadratic network, rho = 0.5", alpha[few], ours[few], theirs[few])
    worst = f"largest difference at all {len(alpha)} ratios: {np.max(np.abs(ours - theirs)):.1e}"
    dots = Series(alpha[few], theirs[few], "k", ".", "published data", look={"ms": 3, "zorder": 3})
    return Overlay([dots], [text, worst])


def compare_overlaps(folder: Path, computed: Sequence[ComputedCurve]) -> Overlay:
    """Overlaps of two layers of attention, of state evolution and of message passing."""
    ((_, theory, (runs,)),) = computed
    series, lines = [], []
    curve, points = load(folder, OVERLAPS), load(folder, AMP_OVERLAPS)
    measured_points = load(folder, (*AMP_OVERLAPS, "Q11_std", "Q22_std"))
    for k, name in enumerate(("Q11", "Q22")):
        if curve is not None:
            label = "published state evolution" if k == 1 else None
            series.append(Series(curve["alpha"], curve[name], k, ":", label, look={"lw": 1.2}))
            gap = np.abs(np.interp(curve["alpha"], theory["alpha"], values(theory, OVERLAP, k)) - curve[name])
            early, place = gap[curve["alpha"] < 0.6].max(), f"alpha = {curve['alpha'][gap.argmax()]:.2f}"
            text = f"largest difference {early:.3f} below alpha = 0.6, {gap.max():.3f} at {place}"
            lines.append(f"published {name}: {text}")
        if points is not None:
            near, label = points[points["alpha"] <= _REGULARISED], "published AMP" if k == 1 else None
            series.append(Series(near["alpha"], near[f"{name}_mean"], k, "x", label, look={"ms": 4}))
        if measured_points is not None:
            near = measured_points[measured_points["alpha"] <= _REGULARISED]
            there, rows = at_ratios(near, runs["alpha"])
            spread = np.hypot(runs["row_standard_error"][there, k], rows[f"{name}_std"].to_numpy())
            ours, theirs = values(runs, OVERLAP, k)[there], rows[f"{name}_mean"].to_numpy()
            title, instances = f"message passing, {name}", len(runs.instances[0])
            lines.append(deviations(title, runs["alpha"][there], ours, theirs, spread, runs=instances))
    return Overlay(series, lines)


def compare_plugin(folder: Path, computed: Sequence[ComputedCurve]) -> Overlay:
    """Errors of predictions with the estimated weights."""
    del computed
    rows = load(folder, PLUGIN_ERROR, exact=True)
    if rows is None:
        return Overlay()
    return Overlay([Series(rows["alpha"], rows["gen_error"], "k", ":", "published plug-in", look={"lw": 1.2})])
