"""Figures of the regularised risk of rows: what regression and classification reach, with runs beside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
import pandas

from glassformer.core.accuracy import Accuracy
from glassformer.learners.regularised_risk import RegularisedRisk
from glassformer.models.smi import SequenceMultiIndex
from glassformer.papers.curves import (
    LABEL_ERROR,
    ComputedCurve,
    Curve,
    CurvesPanel,
    Overlay,
    Runs,
    beside_optimum,
    plain_label,
)
from glassformer.papers.drawing import RUN_MARKS, RunSize, Series, runs_entry
from glassformer.papers.links import first_field, sign
from glassformer.papers.recipe import Recipe
from glassformer.verbs.instances import first_failure
from glassformer.verbs.simulate import experiment_of

if TYPE_CHECKING:
    import jax

    from glassformer.core.arrays import AnyArray

# A tenth of the features has nine tenths of the variance: strong features are found at few samples, and labels of
# wrong sign, which have to be fitted as well, spoil them at more.
_FEW_STRONG_FEATURES = np.array([9.1] + 9 * [0.1])
# Strength of the hinge that stands for the largest margin on data, and the gap at which its minimum is accepted: its
# errors are those of the largest margin to a per cent below a sample ratio of 2.2.
_LARGEST_MARGIN = RegularisedRisk("hinge", strength=1e-3).at_accuracy(Accuracy(tolerance=1e-3))


def _class(z: AnyArray) -> jax.Array:
    return jnp.argmax(z[:, 0])


def double_descent(quick: bool) -> Recipe:
    """Ridge regression, and classification by logistic regression, of no, small and best strength."""
    size, points = ((200, 5), 60) if quick else ((500, 10), 240)
    numbers = SequenceMultiIndex(first_field, noise=0.2)
    labels = SequenceMultiIndex(sign, noise_law="flip:0.1", feature_spectrum=_FEW_STRONG_FEATURES)
    none, weak, best = (RegularisedRisk(strength=strength) for strength in (0.0, 0.02, None))
    ridge = [
        Curve("no penalty", numbers, none, [Runs("runs", none, (0.3, 0.6, 0.8, 1.3, 1.7, 2.5), *size)]),
        Curve("strength 0.02", numbers, weak),
        Curve("best strength", numbers, best, [Runs("runs", best, (0.3, 0.8, 1.3, 2.5), *size)]),
    ]
    none, weak, best = (RegularisedRisk("logistic", strength=strength) for strength in (0.0, 0.02, None))
    margin = Runs("largest margin", _LARGEST_MARGIN, (0.8, 2.2), *size, "label_error", marker="s")
    logistic = [
        Curve("no penalty", labels, none, [margin, Runs("runs", none, (3.8, 5.0), *size, "label_error")]),
        Curve("strength 0.02", labels, weak),
        Curve("best strength", labels, best, [Runs("runs", best, (0.8, 2.2, 3.8, 5.0), *size, "label_error")]),
    ]
    separable = float(none.theory(labels).thresholds()["interpolation"].alpha)
    panels = [
        CurvesPanel(
            ridge,
            np.linspace(0.02, 3, points),
            r"ridge regression, noise $\Delta = 0.2$",
            settings={"xlim": (0, 3), "ylim": (0, 2)},
            indented=True,
            further=partial(_peaks, column="error"),
        ),
        CurvesPanel(
            logistic,
            np.linspace(0.05, 6, points),
            "logistic regression, 10 % wrong labels, 10 % strong features",
            "label_error",
            settings={"xlim": (0, 6), "ylim": (0.05, 0.45), "ylabel": LABEL_ERROR},
            verticals=[(separable, "0.4", rf"separable below $\alpha = {separable:.3g}$")],
            indented=True,
            further=partial(_peaks, column="label_error"),
        ),
    ]
    return Recipe(panels, names=["source", "panel", "curve"], size=(5.6, 4.4))


def _peaks(computed: Sequence[ComputedCurve], column: str) -> Overlay:
    """Say where errors rise with the number of samples."""
    lines = []
    for curve, theory, _ in computed:
        alpha, error = theory["alpha"], theory[column]
        rising = np.flatnonzero(np.diff(error) > 0)
        text = "falls everywhere"
        if len(rising):
            text = f"rises from alpha = {alpha[rising[0]]:.2f} to a peak near {alpha[rising[-1] + 1]:.2f}"
        lines.append(f"{curve.label}: the error {text}")
    return Overlay(lines=lines)


def _end(computed: Sequence[ComputedCurve], column: str) -> Overlay:
    """Say how far above the optimum errors are at the largest sample ratio."""
    (_, optimum, _), *others = computed
    cells = [
        f"{plain_label(curve.label)} {theory[column][-1] / optimum[column][-1]:.2f}" for curve, theory, _ in others
    ]
    line = f"errors at alpha = {optimum['alpha'][-1]:g}: Bayes-optimal {optimum[column][-1]:.4f}; in units of it: "
    return Overlay(lines=[line + ", ".join(cells)])


def signs(quick: bool) -> Recipe:
    """Labels +1 and -1: logistic, hinge and square loss of the best strength beside the optimum."""
    size, points = ((200, 4), 40) if quick else ((400, 10), 160)
    model = SequenceMultiIndex(sign)
    learners = {f"{loss}, best strength": RegularisedRisk(loss) for loss in ("logistic", "hinge", "square")}
    ratios = (0.5, 1.0, 2.0, 5.0, 10.0)
    runs = {
        label: [Runs("runs", learner, ratios, *size, "label_error")]
        for label, learner in learners.items()
        if learner.loss != "hinge"
    }
    panel = CurvesPanel(
        beside_optimum(model, learners, runs),
        np.geomspace(0.1, 20, points),
        r"labels $\mathrm{sign}(z)$, ridge",
        "label_error",
        settings={"xscale": "log", "yscale": "log", "ylim": (None, 0.5), "ylabel": LABEL_ERROR},
        legend={"loc": "lower left"},
        further=partial(_end, column="label_error"),
    )
    return Recipe([panel], names=["source", "curve"])


def sparse(quick: bool) -> Recipe:
    """LASSO and ridge beside the optimum that knows the prior of sparse weights."""
    size, points = ((500, 6), 60) if quick else ((1000, 20), 240)
    model = SequenceMultiIndex(first_field, noise=0.05, prior="gauss-bernoulli:0.1")
    learners = {
        "LASSO, best strength": RegularisedRisk(penalty="lasso"),
        r"minimum $\ell_1$-norm interpolator": RegularisedRisk(penalty="lasso", strength=0.0),
        "ridge, best strength": RegularisedRisk(),
    }
    runs = {
        label: [Runs("runs", learner, (0.2, 0.4, 0.6, 0.8, 1.2), *size, "relative_error")]
        for label, learner in learners.items()
        if learner.strength is None
    }
    panel = CurvesPanel(
        beside_optimum(model, learners, runs),
        np.linspace(0.02, 1.5, points),
        r"a tenth of the weights is not zero, noise $\Delta = 0.05$",
        settings={"xlim": (0, 1.5), "yscale": "log", "ylim": (1e-3, 3)},
        legend={"loc": "lower left"},
        further=partial(_end, column="error"),
    )
    return Recipe([panel], names=["source", "curve"])


def three_classes(quick: bool) -> Recipe:
    """Multinomial regression of three classes beside the optimum."""
    points, grid = (1024, np.geomspace(0.5, 8, 9)) if quick else (4096, np.geomspace(0.5, 12, 24))
    size = RunSize(200, 4) if quick else RunSize(600, 8)
    ratios = (1.0, 2.0, 4.0, 8.0) if quick else (0.5, 1.0, 2.0, 4.0, 8.0, 12.0)
    classes = SequenceMultiIndex(_class, indices=3, noise_law="flip:0.1")
    learners = {f"strength {s:g}": RegularisedRisk("cross-entropy", strength=s) for s in (1.0, 0.1, 0.01)}
    optimum, *curves = beside_optimum(classes.at_accuracy(Accuracy(points=points)), learners)
    # Bayes-optimal errors of three rows are averages of averages: a few points of fewer samples take most of the time.
    fewer = classes.at_accuracy(Accuracy(points=64 if quick else 256))
    optimum = replace(optimum, model=fewer, ratios=np.array(ratios))
    panel = CurvesPanel(
        [optimum, *curves],
        grid,
        "multinomial regression, three classes, 10 % wrong labels" + f"\n{size.marks}",
        "label_error",
        settings={"xlim": (0, grid[-1] + 0.2), "ylim": (0.1, 0.55), "ylabel": LABEL_ERROR},
        further=partial(_runs_of_classes, ratios=ratios, size=size),
    )
    return Recipe([panel], names=["source", "curve"])


def _runs_of_classes(computed: Sequence[ComputedCurve], ratios: Sequence[float], size: RunSize) -> Overlay:
    """Runs of the largest and the smallest strength. They need no Bayes-optimal errors of their own."""
    series, lines, frames = [], [], []
    for curve, theory, _ in (computed[1], computed[-1]):
        assert curve.learner is not None
        found = experiment_of(curve.model, ratios, *size, 0, curve.learner).runs()
        errors = np.array([[run.label_error for run in runs] for runs in found], dtype=float)
        mean, blur = errors.mean(axis=1), errors.std(axis=1, ddof=1) / np.sqrt(size.instances)
        series.append(Series(ratios, mean, curve.color, "o", None, blur, RUN_MARKS))
        exact = np.interp(ratios, theory["alpha"], theory["label_error"])
        lines.append(f"{curve.label}: {size.instances} runs at d = {size.d}, label error, standard error, theory")
        lines += [
            f"  alpha {a:5.2f}: {m:.4f} +- {b:.4f} ({t:.4f})"
            for a, m, b, t in zip(ratios, mean, blur, exact, strict=True)
        ]
        data = {
            "source": "runs",
            "curve": curve.label,
            "alpha": ratios,
            "label_error": mean,
            "label_standard_error": blur,
        }
        statuses = [str(first_failure(run.status for run in runs)) for runs in found]
        frames.append(pandas.DataFrame({**data, "status": statuses}))
    return Overlay([*series, runs_entry()], [*lines, *_end(computed, "label_error").lines], frames)
