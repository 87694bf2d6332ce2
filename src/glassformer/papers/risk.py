"""Figures of regularised risk: what training reaches beside the Bayes-optimal error, and spectra of what is learned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from glassformer.core.accuracy import Accuracy
from glassformer.core.estimate import Array
from glassformer.learners.gradient_descent import GradientDescent
from glassformer.learners.regularised_risk import RegularisedRisk
from glassformer.models import AttentionIndexed, BilinearSequenceRegression
from glassformer.papers.curves import (
    LABEL_ERROR,
    SHADES,
    ComputedCurve,
    Curve,
    CurvesPanel,
    Overlay,
    Runs,
    beside_optimum,
)
from glassformer.papers.drawing import Axis, Series
from glassformer.papers.recipe import Context, Part, Recipe
from glassformer.random_matrices.given import power_law
from glassformer.verbs.limits import limits
from glassformer.verbs.simulate import experiment_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from glassformer.models.base import Model

# Exponent of the eigenvalues k^-gamma. Where labels are noisier than the error, as many of them are learned as are
# above the noise, and errors fall as n^(1/(2 gamma) - 1), until all are learned.
_EXPONENT = 1.25
# Curves that rise again fill the plot: its legend is below.
_BELOW = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.15), "ncols": 2, "fontsize": 8.5}
_Learners = Sequence[tuple[str, RegularisedRisk, bool]]


def _curves(
    model: Model, learners: _Learners, ratios: Sequence[float], size: tuple[int, int], column: str = "relative_error"
) -> list[Curve]:
    """The optimum, thick, and the theory of each learner, with runs beside those that are marked so."""
    runs = {
        label: [Runs("runs", learner, ratios, *size, column, row={"curve": f"{label}, runs at d = {size[0]}"})]
        for label, learner, run in learners
        if run
    }
    return beside_optimum(model, {label: learner for label, learner, _ in learners}, runs)


def bilinear(quick: bool) -> Recipe:
    """Noisy bilinear labels: nuclear norm of the best and of no strength, ridge, descent with weight decay."""
    model = BilinearSequenceRegression(beta=1, rho=0.3, noise=0.1)
    learners = [
        ("nuclear norm, best strength", RegularisedRisk(), True),
        ("minimum nuclear norm interpolator", RegularisedRisk(strength=0.0), False),
        ("ridge, best strength", RegularisedRisk(penalty="ridge"), True),
    ]
    size, ratios = (24, 2) if quick else (50, 8), (0.2, 0.5, 0.8, 1.2)
    optimum, nuclear, *others = _curves(model, learners, ratios, size)
    descents = []
    for ratio in ratios:
        # Weight decay on two factors of full width is the nuclear norm of twice its strength.
        decay = float(limits(model, [ratio], RegularisedRisk())["strength"][0]) / 2
        learner = GradientDescent(weight_decay=decay, student_width=size[0], momentum=0.9, steps=20_000)
        label, row = "descent on factors with decay", {"curve": "descent on factors with decay"}
        descents.append(Runs(label, learner, (ratio,), *size, "relative_error", "x", "k", row=row))
    panel = CurvesPanel(
        [optimum, replace(nuclear, runs=[*nuclear.runs, *descents]), *others],
        np.linspace(0.02, 1.6, 60 if quick else 240),
        r"$\beta = 1$, $\rho = 0.3$, noise $\Delta = 0.1$",
        settings={"xlim": (0, 1.6), "ylim": (0, 1.25)},
        legend=_BELOW,
    )
    spectrum = partial(_spectrum, model=model, learner=RegularisedRisk(), alpha=0.5, d=40 if quick else 100)
    return Recipe([panel, spectrum], names=["curve"])


def network(quick: bool) -> Recipe:
    """Weight decay on a quadratic network, that is one token, and the spectrum of what it learns."""
    model = AttentionIndexed(rho=0.3, tokens=1, channel="linear", noise=0.1)
    learners = [
        ("weight decay, best strength", RegularisedRisk(penalty="trace"), True),
        ("weight decay 0.02", RegularisedRisk(penalty="trace", strength=0.02), True),
        ("minimum trace interpolator", RegularisedRisk(penalty="trace", strength=0.0), False),
    ]
    panel = CurvesPanel(
        _curves(model, learners, (0.1, 0.3, 0.5, 0.8), (30, 2) if quick else (100, 6)),
        np.linspace(0.02, 0.9, 60 if quick else 240),
        r"quadratic network, $\rho = 0.3$, noise $\Delta = 0.1$",
        settings={"xlim": (0, 0.9), "ylim": (0, 1.25)},
        legend=_BELOW,
    )
    learner = RegularisedRisk(penalty="trace")
    spectrum = partial(_spectrum, model=model, learner=learner, alpha=0.4, d=60 if quick else 250)
    return Recipe([panel, spectrum], names=["curve"])


def signs(quick: bool) -> Recipe:
    """Labels +1 and -1: logistic, hinge and square loss of the best strength beside the optimum."""
    model = BilinearSequenceRegression(beta=1, rho=0.3, channel="sign")
    losses = ("logistic", "hinge", "square")
    learners = [
        (f"{loss}, best strength", RegularisedRisk(loss).at_accuracy(Accuracy(tolerance=1e-4)), True) for loss in losses
    ]
    panel = CurvesPanel(
        _curves(model, learners, (1.0, 2.0, 3.0), (20, 2) if quick else (40, 6), "label_error"),
        np.linspace(0.1, 4.0, 24 if quick else 96),
        r"labels $\mathrm{sign}(h)$, $\beta = 1$, $\rho = 0.3$, nuclear norm",
        quantity="label_error",
        settings={"xlim": (0, 4), "ylim": (0, 0.5), "ylabel": LABEL_ERROR},
    )
    return Recipe([panel], names=["curve"])


def scaling(quick: bool) -> Recipe:
    """Quadratic networks whose eigenvalues fall as a power, and the power of the sample ratio by which errors fall."""
    count, points, instances = (40, 11, 1) if quick else (100, 20, 3)
    model = AttentionIndexed(spectrum=power_law(_EXPONENT, count), tokens=1, channel="linear", noise=1.0)
    learners = [
        ("weight decay 1", RegularisedRisk(penalty="trace", strength=1.0), True),
        ("weight decay, best strength", RegularisedRisk(penalty="trace"), False),
    ]
    law = rf"$\lambda_k\propto k^{{-{_EXPONENT}}}$, $k\leq {count}$"
    panel = CurvesPanel(
        _curves(model, learners, (0.3, 1.0, 3.0, 9.0), (count, instances)),
        np.geomspace(0.004, 30.0, points),
        rf"quadratic network, {law}, noise $\Delta = 1$",
        settings={"xscale": "log", "yscale": "log", "ylim": (None, None)},
        legend={"loc": "lower left"},
        further=_predicted_power,
    )
    return Recipe([panel], names=["curve"])


def _predicted_power(computed: Sequence[ComputedCurve]) -> Overlay:
    """The predicted power, drawn below the optimum where the slope of the optimum is closest to it.

    Only once something is learned: before, the slope passes every value.
    """
    alpha, error = computed[0].theory["alpha"], computed[0].theory["error"]
    slope = 1 / (2 * _EXPONENT) - 1
    local = np.gradient(np.log(error), np.log(alpha))
    place = int(np.argmin(np.where(error < 0.5 * error[0], np.abs(local - slope), np.inf)))
    span = alpha[place] * np.array([0.3, 3.0])
    power = 0.6 * error[place] * (span / alpha[place]) ** slope
    return Overlay([Series(span, power, "k", "--", rf"$n^{{{slope:g}}}$", look={"lw": 1})])


def _spectrum(_: Context, model: Model, learner: RegularisedRisk, alpha: float, d: int) -> Part:
    """A histogram of what a learner makes of one data set, beside its law in theory.

    Eigenvalues of symmetric estimates; else singular values in units of the root of the size, of both signs together.
    The law is that of a noisy matrix, lowered by the threshold of the estimate.
    """
    estimate = experiment_of(model, [alpha], d, 1, 0, learner).learned()[1].estimates[0]
    if learner.penalty == "trace":
        values, mass, label = np.linalg.eigvalsh(estimate), 1.0, r"eigenvalue of $\hat S$"
    else:
        values = np.linalg.svd(estimate, compute_uv=False) / float(estimate.size) ** 0.25
        mass, label = 2.0, r"singular value of $\hat S\,/\,(dL)^{1/4}$"
    table = limits(model, [alpha], learner)
    row = {name: float(column[0]) for name, column in table.columns.items()}
    law = model.matrix_prior.noisy_law(np.array([row["effective_noise"]]))
    top = float(np.nanmax(law.support)) - row["threshold"]
    x = np.linspace(1e-6, top, 600)
    positive = values[values > 1e-6]
    heights, edges = np.histogram(positive, bins=min(30, max(8, d // 6)), range=(0, 1.05 * top))
    density = heights / len(values) / np.diff(edges)
    bars = partial(_draw_bars, edges=edges, heights=density, label=f"one run, $d = {d}$")
    zeros = f"share of zeros {1 - len(positive) / len(values):.3f}, theory {1 - row['rank']:.3f}"
    settings = {"xlabel": label, "ylabel": "density of values that are not zero"}
    settings["title"] = rf"best strength at $\alpha = {alpha:g}$:" + f"\n{zeros}"
    curve = Series(x, mass * law.density(x + row["threshold"]), SHADES[1], "-", "theory")
    line = f"spectrum at alpha = {alpha:g}, one run at d = {d}: {zeros}"
    return Part([Axis([curve], 1, settings, annotate=bars)], [], [line])


def _draw_bars(axes: Axes, edges: Array, heights: Array, label: str) -> None:
    axes.stairs(heights, edges, fill=True, color="#c8d5e3", label=label, zorder=1)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
