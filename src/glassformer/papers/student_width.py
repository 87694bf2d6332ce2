"""Errors of students of every width: quadratic networks with a power-law teacher, and perfect recovery."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas

from glassformer.core.estimate import Array
from glassformer.learners.regularised_risk import RegularisedRisk
from glassformer.models import AttentionIndexed
from glassformer.papers.drawing import RUN_MARKS, Axis, Series
from glassformer.papers.published import deviations, load_each
from glassformer.papers.recipe import Context, Part, Recipe
from glassformer.random_matrices.given import power_law
from glassformer.random_matrices.nuclear_norm import nuclear_norm_threshold
from glassformer.verbs.limits import limits

# Dimension, exponent of the teacher's eigenvalues, noise of its labels and weight decay over sqrt(n)/d, in units of a
# teacher of power one; numbers of samples.
_D, _EXPONENT, _NOISE, _DECAY = 400, 1.25, 0.05, 0.1
_SAMPLES = (26516, 160000)
_THEORY, _TRAINED = ("rank", "mse"), ("rank", "mse_mean", "mse_std")
# Widths, those of the published networks among them.
_WIDTHS = (2, 3, 4, 6, 8, 9, 11, 13, 14, 18, 23, 28, 35, 42, 46, 55, 68, 86, 101, 120, 135, 168, 210, 282, 328, 400)
_FEW = (2, 4, 9, 23, 55, 135, 400)
# A point of the theory lies in the same curve as a published one whose full width differs by less than this share.
_SAME_CURVE = 0.3


def power_law_teacher(quick: bool) -> Recipe:
    """The error of weight decay over the width of the student, for two numbers of samples; and perfect recovery."""
    widths = np.array(_FEW if quick else _WIDTHS, dtype=float)
    return Recipe([lambda context: _errors(context, widths), _recovery], names=["source", "curve"])


def _errors(context: Context, widths: Array) -> Part:
    """Errors over widths from 2 to full width."""
    series, frames, lines = [], [], []
    for k, samples in enumerate(_SAMPLES):
        model, power, learner = _network(samples)
        tables = [limits(model, [samples / _D**2], learner.varied(student_rho=r / _D), throw=False) for r in widths]
        error = np.array([float(one["error"][0]) for one in tables]) / power
        status = [one.status[0] for one in tables]
        label = f"$n = {samples}$"
        series.append(Series(widths, error, k, "-", label, status=status))
        names = {"source": "theory", "curve": f"n = {samples}"}
        frames.append(
            pandas.DataFrame({**names, "width": widths, "error": error, "status": [str(one) for one in status]})
        )
        best = int(np.argmin(error))
        lines.append(
            f"n = {samples}: full width {error[-1]:.4f}, best width {widths[best]:.0f} of {_D} {error[best]:.4f}; "
            "below the rank of the full estimate the theory is a heuristic"
        )
    further, words = _published(context.reference, widths, series)
    settings = {"xscale": "log", "yscale": "log", "xlabel": f"width of the student, of $d = {_D}$", "ylabel": "error"}
    settings["title"] = rf"quadratic network, $\lambda_k\propto k^{{-{_EXPONENT}}}$, weight decay"
    return Part([Axis([*series, *further], len(_SAMPLES), settings)], frames, [*lines, *words])


def _network(samples: float) -> tuple[AttentionIndexed, float, RegularisedRisk]:
    """Return a model, the power of its teacher, which is the unit of errors, and a learner."""
    model = AttentionIndexed(tokens=1, channel="linear", noise=_NOISE, spectrum=power_law(_EXPONENT, _D))
    # The package scales eigenvalues to power one around their mean.
    power = float(model.matrix_prior.second_moment)
    strength = _DECAY * np.sqrt(samples * power) / _D / 4
    return model.varied(noise=_NOISE * power), power, RegularisedRisk("square", "trace", strength)


def _published(folder: Path | None, widths: Array, series: list[Series]) -> tuple[list[Series], list[str]]:
    """Return published theory and trained networks; each belongs to the curve whose error at full width is closest."""
    found, lines = [], []
    for columns, style, source in ((_THEORY, ":", "published theory"), (_TRAINED, "o", "published networks")):
        for rows in load_each(folder, columns, exact=True):
            own = rows[(rows["rank"] >= widths[0]) & (rows["rank"] <= _D)].sort_values("rank")
            value = own[columns[1]].to_numpy()
            full = np.array([np.log(np.asarray(one.y)[-1] / value[-1]) for one in series])
            k = int(np.argmin(np.abs(full)))
            if abs(full[k]) > _SAME_CURVE:
                continue
            spread = own[columns[2]].to_numpy() if len(columns) > 2 else None
            look = {"lw": 1.2} if style == ":" else RUN_MARKS
            found.append(Series(own["rank"], value, k, style, source if k == 0 else None, spread, look))
            common, ours, theirs = np.intersect1d(widths, own["rank"], return_indices=True)
            title = f"{source}, {series[k].label}"
            lines.append(deviations(title, common, np.asarray(series[k].y)[ours], value[theirs], name="width"))
    return found, lines


def _recovery(context: Context) -> Part:
    """The sample ratio of perfect recovery without noise, in the limit of no weight decay, over the student's width."""
    del context
    series, frames, widths = [], [], (0.1, 0.3, 0.5)
    for k, rho in enumerate(widths):
        student = rho + (1 - rho) * np.linspace(0, 1, 60) ** 2
        alpha = np.array([nuclear_norm_threshold(1.0, rho, width) for width in student])
        series.append(Series(student, alpha, k, "-", rf"$\rho = {rho:g}$"))
        names = {"source": "conjecture", "curve": f"rho = {rho:g}"}
        frames.append(pandas.DataFrame({**names, "width": student, "alpha": alpha, "status": "converged"}))
    settings = {"xlabel": r"width of the student over $d$", "ylabel": r"$\alpha$ of perfect recovery", "xlim": (0, 1)}
    settings["title"] = "bsr, $\\beta = 1$, no noise, weight decay to zero\n(replica symmetric, a conjecture)"
    line = "perfect recovery: from counting, at the teacher's width, to the threshold of the nuclear norm; a conjecture"
    return Part([Axis(series, len(widths), settings, legend={"loc": "lower right"})], frames, [line])
