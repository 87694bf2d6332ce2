"""What training reaches: regularised risk beside the Bayes-optimal error, and spectra of what is learned."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from glassformer.core.results import Table
from glassformer.experiments.simulation import simulate
from glassformer.learners.base import Learner
from glassformer.learners.data_set import DataSet
from glassformer.learners.gradient_descent import GradientDescent
from glassformer.learners.regularised_risk import RegularisedRisk
from glassformer.models import AttentionIndexed, BilinearSequenceRegression
from glassformer.models.base import Model
from glassformer.plotting.style import ATTENTION_ERROR_LABEL, ERROR_LABEL, canvas, label_alpha
from glassformer.random_matrices.given import power_law
from glassformer.state_evolution.limits import limits

if TYPE_CHECKING:
    import pandas

_Result = tuple["pandas.DataFrame", str, bool]
# Power of eigenvalues. Where labels are noisier than the error, k of which are above the noise, and errors fall as
# n^(1/(2 gamma) - 1), until all are.
_EXPONENT = 1.25
_BAYES, _SHADES = "0.1", ("#2b5c8a", "#b3402a", "#3f8f5b", "#8a5ca8")


class _Curve(NamedTuple):
    """A learner, what the legend calls it, and whether runs stand beside its theory."""

    label: str
    learner: Learner
    runs: bool = False


def bilinear(path: Path, quick: bool, reference: Path | None) -> _Result:
    """Figure ``risk-1``: noisy bilinear labels; nuclear norm at its best and at nought, ridge, descent with decay."""
    del reference
    model = BilinearSequenceRegression(beta=1, rho=0.3, noise=0.1)
    curves = [
        _Curve("nuclear norm, best strength", RegularisedRisk(), True),
        _Curve("least nuclear norm that fits", RegularisedRisk(strength=0.0)),
        _Curve("ridge, best strength", RegularisedRisk(penalty="ridge"), True),
    ]
    alpha, marks = np.linspace(0.02, 1.6, 60 if quick else 240), [0.2, 0.5, 0.8, 1.2]
    size, instances = (24, 2) if quick else (50, 8)
    with canvas(path, columns=2) as axes:
        found = _drawn(axes[0], model, curves, alpha, marks, size, instances, "error")
        found += _descent(axes[0], model, marks, size, instances)
        _bilinear_spectrum(axes[1], model, 0.5, 40 if quick else 100)
        axes[0].set_ylim(0, 1.25)
        axes[0].set_ylabel(ERROR_LABEL)
        axes[0].set_title(r"$\beta = 1$, $\rho = 0.3$, noise $\Delta = 0.1$", fontsize=11)
        axes[0].legend(loc="upper right")
    return _summed(found)


def network(path: Path, quick: bool, reference: Path | None) -> _Result:
    """Figure ``risk-2``: weight decay on a quadratic network, that is one token, and spectra of what it learns."""
    del reference
    model = AttentionIndexed(rho=0.3, tokens=1, channel="linear", noise=0.1)
    curves = [
        _Curve("weight decay, best strength", RegularisedRisk(penalty="trace"), True),
        _Curve("weight decay 0.02", RegularisedRisk(penalty="trace", strength=0.02), True),
        _Curve("least trace that fits", RegularisedRisk(penalty="trace", strength=0.0)),
    ]
    alpha, marks = np.linspace(0.02, 0.9, 60 if quick else 240), [0.1, 0.3, 0.5, 0.8]
    size, instances = (30, 2) if quick else (100, 6)
    with canvas(path, columns=2) as axes:
        found = _drawn(axes[0], model, curves, alpha, marks, size, instances, "error")
        _network_spectrum(axes[1], model, 0.4, 60 if quick else 250)
        axes[0].set_ylim(0, 1.25)
        axes[0].set_ylabel(ATTENTION_ERROR_LABEL)
        axes[0].set_title(r"quadratic network, $\rho = 0.3$, noise $\Delta = 0.1$", fontsize=11)
        axes[0].legend(loc="upper right")
    return _summed(found)


def signs(path: Path, quick: bool, reference: Path | None) -> _Result:
    """Figure ``risk-3``: labels +1 and -1; logistic, hinge and square loss at their best beside the optimum."""
    del reference
    model = BilinearSequenceRegression(beta=1, rho=0.3, channel="sign")
    curves = [
        _Curve(f"{loss}, best strength", RegularisedRisk(loss, tolerance=1e-4), True)
        for loss in ("logistic", "hinge", "square")
    ]
    alpha, marks = np.linspace(0.1, 4.0, 24 if quick else 96), [1.0, 2.0, 3.0]
    size, instances = (20, 2) if quick else (40, 6)
    with canvas(path) as (axes,):
        found = _drawn(axes, model, curves, alpha, marks, size, instances, "label_error")
        axes.set_ylim(0, 0.5)
        axes.set_ylabel("share of wrong labels on new samples")
        axes.set_title(r"labels $\mathrm{sign}(h)$, $\beta = 1$, $\rho = 0.3$, nuclear norm", fontsize=11)
        axes.legend(loc="upper right")
    return _summed(found)


def scaling(path: Path, quick: bool, reference: Path | None) -> _Result:
    """Figure ``risk-4``: quadratic networks whose eigenvalues fall as a power, and the power of what is learned."""
    del reference
    count, points, instances = (40, 6, 1) if quick else (100, 20, 3)
    model = AttentionIndexed(spectrum=power_law(_EXPONENT, count), tokens=1, channel="linear", noise=1.0)
    curves = [
        _Curve("weight decay 1", RegularisedRisk(penalty="trace", strength=1.0), True),
        _Curve("weight decay, best strength", RegularisedRisk(penalty="trace")),
    ]
    alpha, marks = np.geomspace(0.004, 30.0, points), [0.3, 1.0, 3.0, 9.0]
    with canvas(path) as (axes,):
        found = _drawn(axes, model, curves, alpha, marks, count, instances, "error")
        _power(axes, found[0][1], 1 / (2 * _EXPONENT) - 1)
        axes.set(xscale="log", yscale="log", xlim=(alpha[0], alpha[-1]), ylabel=ATTENTION_ERROR_LABEL)
        law = rf"$\lambda_k\propto k^{{-{_EXPONENT}}}$, $k\leq {count}$"
        axes.set_title(rf"quadratic network, {law}, noise $\Delta = 1$", fontsize=11)
        axes.legend(loc="lower left")
    return _summed(found)


def _power(axes: Any, optimum: Table, slope: float) -> None:
    """The predicted power of the sample ratio, beside the optimum where its own slope is closest to it."""
    alpha, error = optimum["alpha"], optimum["error"]
    local = np.gradient(np.log(error), np.log(alpha))
    # Before anything is learned the slope passes every value.
    place = int(np.argmin(np.where(error < 0.5 * error[0], np.abs(local - slope), np.inf)))
    span = alpha[place] * np.array([0.3, 3.0])
    axes.plot(span, 0.6 * error[place] * (span / alpha[place]) ** slope, "k--", lw=1, label=rf"$n^{{{slope:g}}}$")


def _drawn(
    axes: Any, model: Model, curves: Sequence[_Curve], alpha: Any, marks: list[float], d: int, instances: int, name: str
) -> list[tuple[str, Table]]:
    """Theory of every learner as a curve, the optimum as a thick one, and runs as marks with standard errors."""
    optimum = limits(model, alpha, throw=False)
    axes.plot(alpha, optimum[name], color=_BAYES, lw=2.2, label="Bayes-optimal")
    found = [("Bayes-optimal", optimum)]
    for curve, shade in zip(curves, _SHADES, strict=False):
        theory = curve.learner.limits(model, alpha, throw=False)
        known = np.where([status.ok for status in theory.status], theory[name], np.nan)
        axes.plot(alpha, known, color=shade, label=curve.label)
        found.append((curve.label, theory))
        if curve.runs:
            runs = simulate(model, marks, d=d, instances=instances, algorithm=curve.learner)
            mean, bar = _measured(runs, name)
            label = f"runs, $d = {d}$" if curve is curves[0] else None
            axes.errorbar(marks, mean, bar, fmt="o", ms=4, capsize=2, color=shade, label=label)
            found.append((f"{curve.label}, runs at d = {d}", runs))
    axes.set_xlim(0, alpha[-1])
    axes.set_xlabel(label_alpha(model.parameters["alpha"]))
    return found


def _measured(runs: Table, name: str) -> tuple[Any, Any]:
    """Means of runs and their standard errors; errors are those of a teacher of power one."""
    if name == "error":
        return runs["relative_error"], runs["relative_standard_error"]
    return runs["label_error"], runs["label_standard_error"]


def _descent(
    axes: Any, model: BilinearSequenceRegression, marks: list[float], d: int, instances: int
) -> list[tuple[str, Table]]:
    """Descent on factors of full width, whose decay is that of the nuclear norm's best strength at each ratio."""
    tables = []
    for alpha in marks:
        # Full width of a square matrix: the strength is twice the decay.
        decay = float(RegularisedRisk().limits(model, [alpha])["strength"][0]) / 2
        learner = GradientDescent(weight_decay=decay, student_width=d, momentum=0.9, max_steps=20_000)
        tables.append(simulate(model, [alpha], d=d, instances=instances, algorithm=learner))
    errors, bars = ([table[name][0] for table in tables] for name in ("relative_error", "relative_standard_error"))
    axes.errorbar(marks, errors, bars, fmt="x", ms=7, color=_SHADES[3], label=f"descent with decay, $d = {d}$")
    return [("descent on factors with decay", table) for table in tables]


def _bilinear_spectrum(axes: Any, model: BilinearSequenceRegression, alpha: float, d: int) -> None:
    """Singular values of one estimate, in units of the root of the size, and their law."""
    learner = RegularisedRisk()
    estimate = _estimate(model, learner, alpha, d)
    values = np.linalg.svd(estimate, compute_uv=False) / float(estimate.size) ** 0.25
    _spectrum(axes, model, learner, alpha, values, 2.0)
    axes.set_xlabel(r"singular value of $\hat S\,/\,(dL)^{1/4}$")


def _network_spectrum(axes: Any, model: AttentionIndexed, alpha: float, d: int) -> None:
    """Eigenvalues of one trained network, and their law."""
    learner = RegularisedRisk(penalty="trace")
    _spectrum(axes, model, learner, alpha, np.linalg.eigvalsh(_estimate(model, learner, alpha, d)), 1.0)
    axes.set_xlabel(r"eigenvalue of $\hat S$")


def _estimate(model: Model, learner: RegularisedRisk, alpha: float, d: int) -> Any:
    """What the learner makes of one simulated data set."""
    size, rng = model.at_size(d), np.random.default_rng(0)
    design = size.design.sample(round(alpha * size.unit), size.input_shape, rng, "float32")
    signal = size.model.prior.sample(design.signal_shape, rng)
    labels = size.model.channel.sample(design.forward(signal, 0), rng)
    return learner.learn(size.model, DataSet(design, labels)).estimates[0]


def _spectrum(axes: Any, model: Model, learner: RegularisedRisk, alpha: float, values: Any, mass: float) -> None:
    """A histogram of the values that are not zero, beside the law of the noisy matrix lowered by its threshold."""
    row = {name: float(column[0]) for name, column in learner.limits(model, [alpha]).columns.items()}
    law = model.prior.noisy_law(np.array([row["effective_noise"]]))  # type: ignore[union-attr]
    top = float(np.nanmax(law.support)) - row["threshold"]
    x = np.linspace(1e-6, top, 600)
    kept = values[values > 1e-6]
    heights, edges = np.histogram(kept, bins=30, range=(0, 1.05 * top))
    axes.stairs(heights / len(values) / np.diff(edges), edges, fill=True, color="#c8d5e3", label=f"$d = {len(values)}$")
    axes.plot(x, mass * law.density(x + row["threshold"]), color=_SHADES[0], label="theory")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("density of values that are not zero")
    rank = f"share of zeros {1 - len(kept) / len(values):.3f}, theory {1 - row['rank']:.3f}"
    axes.set_title(rf"best strength at $\alpha = {alpha:g}$: {rank}", fontsize=11)
    axes.legend(loc="upper right")


def _summed(found: Sequence[tuple[str, Table]]) -> _Result:
    """All tables in one frame, and which of them did not converge everywhere."""
    import pandas

    data = pandas.concat([table.to_pandas().assign(curve=label) for label, table in found], ignore_index=True)
    lines = []
    for label, table in found:
        missed = sum(not status.ok for status in table.status)
        lines.append(f"{label}: {len(table.status)} points" + (f", {missed} not converged" if missed else ""))
    return data, "\n".join(lines), all(table.converged for _, table in found)
