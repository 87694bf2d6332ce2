"""Figures of regularised risk: what training reaches beside the Bayes-optimal error, and spectra of what is learned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from glassformer.experiments.simulation import experiment_of
from glassformer.learners.gradient_descent import GradientDescent
from glassformer.learners.regularised_risk import RegularisedRisk
from glassformer.models import AttentionIndexed, BilinearSequenceRegression
from glassformer.papers import error_curves
from glassformer.papers.drawing import Axis, FigureContent, Series, joined
from glassformer.papers.error_curves import ComputedCurve, ErrorCurve, Runs
from glassformer.plotting.style import ATTENTION_ERROR_LABEL, ERROR_LABEL, label_alpha
from glassformer.random_matrices.given import power_law

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from glassformer.models.base import Model

# Exponent of the eigenvalues k^-gamma. Where labels are noisier than the error, as many of them are learned as are
# above the noise, and errors fall as n^(1/(2 gamma) - 1), until all are learned.
_EXPONENT = 1.25
_SHADES = ("0.1", "#2b5c8a", "#b3402a", "#3f8f5b", "#8a5ca8")
_Learners = Sequence[tuple[str, RegularisedRisk, bool]]


def _compute(
    model: Any, learners: _Learners, alpha: Any, ratios: tuple[float, ...], size: tuple[int, int], column: str
) -> list[ComputedCurve]:
    """The optimum and the theory of each learner, with runs beside those that are marked so."""
    curves = [ErrorCurve("Bayes-optimal", model)]
    for label, learner, run in learners:
        runs = [Runs("runs", learner, ratios, *size, column)] if run else []
        curves.append(ErrorCurve(label, model, learner, runs))
    return error_curves.compute(curves, alpha)


def _figure(
    computed: Sequence[ComputedCurve], axes: Sequence[Axis], further: Sequence[Any] = (), lines: Sequence[str] = ()
) -> FigureContent:
    frames = []
    for curve, theory, simulations in computed:
        frames.append(theory.to_pandas().assign(curve=curve.label))
        for table in simulations:
            label = f"{curve.label}, runs at d = {table.parameters['d']}"
            frames.append(table.to_pandas().assign(curve=label))
    summary = [*error_curves.summary_lines(computed), *lines]
    return FigureContent(axes, joined([*frames, *further]), "\n".join(summary))


def _axis(computed: Sequence[ComputedCurve], column: str, further: Sequence[Series] = (), **settings: Any) -> Axis:
    """Theory as lines, the optimum as a thick one, and runs as marks."""
    shaded = [
        one._replace(color=_SHADES[one.color]) if isinstance(one.color, int) else one
        for one in error_curves.curve_series(computed, column)
    ]
    shaded[0] = shaded[0]._replace(look={"lw": 2.2})
    theory = computed[0].theory
    common = {"xlim": (0, theory["alpha"][-1]), "xlabel": label_alpha(theory.parameters["alpha"])}
    return Axis([*shaded, *further], 1, {**common, **settings})


def bilinear(quick: bool) -> FigureContent:
    """Noisy bilinear labels: nuclear norm of the best and of no strength, ridge, descent with weight decay."""
    model = BilinearSequenceRegression(beta=1, rho=0.3, noise=0.1)
    learners = [
        ("nuclear norm, best strength", RegularisedRisk(), True),
        ("least nuclear norm that fits", RegularisedRisk(strength=0.0), False),
        ("ridge, best strength", RegularisedRisk(penalty="ridge"), True),
    ]
    d, instances = (24, 2) if quick else (50, 8)
    ratios = (0.2, 0.5, 0.8, 1.2)
    alpha = np.linspace(0.02, 1.6, 60 if quick else 240)
    computed = _compute(model, learners, alpha, ratios, (d, instances), "relative_error")
    descents = []
    for ratio in ratios:
        # Weight decay on two factors of full width is the nuclear norm of twice its strength.
        decay = float(RegularisedRisk().limits(model, [ratio])["strength"][0]) / 2
        learner = GradientDescent(weight_decay=decay, student_width=d, momentum=0.9, max_steps=20_000)
        runs = Runs("descent with decay", learner, (ratio,), d, instances, "relative_error")
        descents += error_curves.compute(
            [ErrorCurve("descent on factors with decay", model, runs=[runs])], np.array([ratio])
        )
    errors, bars = (
        np.array([one.simulations[0][name][0] for one in descents])
        for name in ("relative_error", "relative_standard_error")
    )
    marks = Series(ratios, errors, _SHADES[4], "x", f"descent with decay, $d = {d}$", bars, {"ms": 7})
    title = r"$\beta = 1$, $\rho = 0.3$, noise $\Delta = 0.1$"
    left = _axis(computed, "error", [marks], ylim=(0, 1.25), ylabel=ERROR_LABEL, title=title)
    right = _spectrum(model, RegularisedRisk(), 0.5, 40 if quick else 100)
    frames = [one.simulations[0].to_pandas().assign(curve=one.curve.label) for one in descents]
    return _figure(computed, [left, right], frames, error_curves.summary_lines(descents))


def network(quick: bool) -> FigureContent:
    """Weight decay on a quadratic network, that is one token, and the spectrum of what it learns."""
    model = AttentionIndexed(rho=0.3, tokens=1, channel="linear", noise=0.1)
    learners = [
        ("weight decay, best strength", RegularisedRisk(penalty="trace"), True),
        ("weight decay 0.02", RegularisedRisk(penalty="trace", strength=0.02), True),
        ("least trace that fits", RegularisedRisk(penalty="trace", strength=0.0), False),
    ]
    size = (30, 2) if quick else (100, 6)
    alpha = np.linspace(0.02, 0.9, 60 if quick else 240)
    computed = _compute(model, learners, alpha, (0.1, 0.3, 0.5, 0.8), size, "relative_error")
    title = r"quadratic network, $\rho = 0.3$, noise $\Delta = 0.1$"
    left = _axis(computed, "error", ylim=(0, 1.25), ylabel=ATTENTION_ERROR_LABEL, title=title)
    right = _spectrum(model, RegularisedRisk(penalty="trace"), 0.4, 60 if quick else 250)
    return _figure(computed, [left, right])


def signs(quick: bool) -> FigureContent:
    """Labels +1 and -1: logistic, hinge and square loss of the best strength beside the optimum."""
    model = BilinearSequenceRegression(beta=1, rho=0.3, channel="sign")
    losses = ("logistic", "hinge", "square")
    learners = [(f"{loss}, best strength", RegularisedRisk(loss, tolerance=1e-4), True) for loss in losses]
    size = (20, 2) if quick else (40, 6)
    alpha = np.linspace(0.1, 4.0, 24 if quick else 96)
    computed = _compute(model, learners, alpha, (1.0, 2.0, 3.0), size, "label_error")
    title = r"labels $\mathrm{sign}(h)$, $\beta = 1$, $\rho = 0.3$, nuclear norm"
    label = "share of wrong labels on new samples"
    return _figure(computed, [_axis(computed, "label_error", ylim=(0, 0.5), ylabel=label, title=title)])


def scaling(quick: bool) -> FigureContent:
    """Quadratic networks whose eigenvalues fall as a power, and the power of the sample ratio by which errors fall."""
    count, points, instances = (40, 6, 1) if quick else (100, 20, 3)
    model = AttentionIndexed(spectrum=power_law(_EXPONENT, count), tokens=1, channel="linear", noise=1.0)
    learners = [
        ("weight decay 1", RegularisedRisk(penalty="trace", strength=1.0), True),
        ("weight decay, best strength", RegularisedRisk(penalty="trace"), False),
    ]
    alpha = np.geomspace(0.004, 30.0, points)
    computed = _compute(model, learners, alpha, (0.3, 1.0, 3.0, 9.0), (count, instances), "relative_error")
    # The predicted power, drawn below the optimum where the slope of the optimum is closest to it, once something is
    # learned: before, the slope passes every value.
    slope, error = 1 / (2 * _EXPONENT) - 1, computed[0].theory["error"]
    local = np.gradient(np.log(error), np.log(alpha))
    place = int(np.argmin(np.where(error < 0.5 * error[0], np.abs(local - slope), np.inf)))
    span = alpha[place] * np.array([0.3, 3.0])
    power = 0.6 * error[place] * (span / alpha[place]) ** slope
    guide = Series(span, power, "k", "--", rf"$n^{{{slope:g}}}$", look={"lw": 1})
    law = rf"$\lambda_k\propto k^{{-{_EXPONENT}}}$, $k\leq {count}$"
    settings = {"xscale": "log", "yscale": "log", "xlim": (alpha[0], alpha[-1]), "ylabel": ATTENTION_ERROR_LABEL}
    settings["title"] = rf"quadratic network, {law}, noise $\Delta = 1$"
    axis = replace(_axis(computed, "error", [guide], **settings), legend={"loc": "lower left"})
    return _figure(computed, [axis])


def _spectrum(model: Model, learner: RegularisedRisk, alpha: float, d: int) -> Axis:
    """A histogram of what the learner makes of one data set, beside its law in theory.

    Eigenvalues of symmetric estimates; else singular values in units of the root of the size, of both signs together.
    The law is that of a noisy matrix, lowered by the threshold of the estimate.
    """
    _, found = experiment_of(model, [alpha], d, 1, 0, learner).learned()
    estimate = found.estimates[0]
    if learner.penalty == "trace":
        values, mass, label = np.linalg.eigvalsh(estimate), 1.0, r"eigenvalue of $\hat S$"
    else:
        values = np.linalg.svd(estimate, compute_uv=False) / float(estimate.size) ** 0.25
        mass, label = 2.0, r"singular value of $\hat S\,/\,(dL)^{1/4}$"
    row = {name: float(column[0]) for name, column in learner.limits(model, [alpha]).columns.items()}
    law = model.matrix_prior.noisy_law(np.array([row["effective_noise"]]))
    top = float(np.nanmax(law.support)) - row["threshold"]
    x = np.linspace(1e-6, top, 600)
    positive = values[values > 1e-6]
    heights, edges = np.histogram(positive, bins=30, range=(0, 1.05 * top))
    bars = partial(_draw_bars, edges=edges, heights=heights / len(values) / np.diff(edges), label=f"$d = {d}$")
    zeros = f"share of zeros {1 - len(positive) / len(values):.3f}, theory {1 - row['rank']:.3f}"
    settings = {"xlabel": label, "ylabel": "density of values that are not zero"}
    settings["title"] = rf"best strength at $\alpha = {alpha:g}$: {zeros}"
    curve = Series(x, mass * law.density(x + row["threshold"]), _SHADES[1], "-", "theory")
    return Axis([curve], 1, settings, annotate=bars)


def _draw_bars(axes: Axes, edges: Any, heights: Any, label: str) -> None:
    axes.stairs(heights, edges, fill=True, color="#c8d5e3", label=label, zorder=1)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
