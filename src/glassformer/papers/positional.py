"""Figures of attention that may learn positions or meanings (arXiv:2402.03902): two minima of one risk.

A student of one attention layer, with positional encodings, learns from a teacher that mixes attention by content with
a fixed attention matrix. Its risk has a positional minimum, which knows the positions, and a semantic one, which knows
the teacher's weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas

from glassformer.channels.label_errors import prediction_errors
from glassformer.core.accuracy import Accuracy
from glassformer.core.estimate import Array
from glassformer.core.results import Table
from glassformer.core.status import Status
from glassformer.learners.regularised_risk import RegularisedRisk
from glassformer.learners.row_fit import RowFit
from glassformer.models.deep_attention import DeepAttention
from glassformer.models.smi import SequenceMultiIndex
from glassformer.papers.curves import status_counts
from glassformer.papers.drawing import RUN_MARKS, Axis, RunSize, Series
from glassformer.papers.published import deviations, load_each
from glassformer.papers.recipe import Context, Part, Recipe
from glassformer.plotting.style import label_alpha
from glassformer.verbs.hysteresis import hysteresis
from glassformer.verbs.limits import limits
from glassformer.verbs.simulate import experiment_of
from glassformer.verbs.thresholds import thresholds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from glassformer.core.arrays import AnyArray
    from glassformer.models.base import Model

# The paper has tokens of variance 1/4 and encodings of +-1, strength 0.01, and a mixture of 0.3. Here tokens have
# variance one: its overlap theta, mean m and free energy Phi are those below.
_MIXTURE, _STRENGTH, _ENCODING = 0.3, 0.04, 2.0
_RISK_SETTINGS: dict[str, Any] = {"strength": _STRENGTH, "positions": [_ENCODING, -_ENCODING]}
_FIXED_ATTENTION = np.array([[0.6, 0.4], [0.4, 0.6]])
_PUBLISHED = ("q", "m", "V", "theta", "mse", "alpha", "lambda", "Phi")
_THETA, _MEAN, _PHI = 1 / 4, 1 / 2, -1 / 4
_DOTS = {**RUN_MARKS, "ms": 3}


def _attention(z: AnyArray) -> jax.Array:
    return jax.nn.softmax(0.25 * z.T @ z, axis=-1)


def _mixed(z: AnyArray, mixture: float = _MIXTURE) -> jax.Array:
    return (1 - mixture) * _attention(z) + mixture * jnp.array(_FIXED_ATTENTION)


# --- order parameters and free energies at one mixture: rows-5 --------------------------------------------------------


def positional_semantic(quick: bool) -> Recipe:
    """Attention of one row and two tokens with positional encodings: the two minima of its risk."""
    points, ratios = (1024, np.linspace(0.9, 2.0, 7)) if quick else (2048, np.linspace(0.8, 2.0, 25))
    size = RunSize(400, 3) if quick else RunSize(1000, 6)
    model = SequenceMultiIndex(_mixed, tokens=2).at_accuracy(Accuracy(points=points))
    marks = (1.0, 1.2, 1.6, 2.0) if quick else (1.0, 1.2, 1.4, 1.6, 1.8, 2.0)
    return Recipe(
        [partial(_two_minima, model=model, ratios=ratios, marks=marks, size=size)], names=["source"], size=(5.6, 4.4)
    )


class _Branch(NamedTuple):
    """One of two minima of the risk, by the way it is followed over the sample ratio.

    Attributes:
        way: up or down.
        name: in legends and summary.
        start: of the runs.
        own: the order parameter that is not near zero.
        symbol: of this order parameter.
        color: of lines and marks.
        marker: of the runs.
    """

    way: str
    name: str
    start: str | None
    own: str
    symbol: str
    color: str
    marker: str

    @property
    def reached(self) -> str:
        """How runs reach the minimum."""
        return f"runs from the {self.start} start" if self.start else "lowest risk of 4 starts"


_SEMANTIC = _Branch("down", "semantic", "informed", "theta", r"\theta", "#2b5c8a", "o")
_POSITIONAL = _Branch("up", "positional", None, "m", "m", "#b3402a", "s")


def _two_minima(context: Context, model: Model, ratios: Array, marks: Sequence[float], size: RunSize) -> Part:
    """Order parameters and free energies of both branches, runs, published points."""
    risk = RegularisedRisk(student=_attention, **_RISK_SETTINGS)
    theory = hysteresis(model, ratios, risk, throw=False)
    left: list[Series] = []
    right: list[Series] = []
    lines = [f"theory: {status_counts(theory.status)}", *theory.notes]
    frames = [theory.to_pandas().assign(source="theory")]
    published = load_each(context.reference, _PUBLISHED)
    for branch in (_SEMANTIC, _POSITIONAL):
        theta, mean = (theory[f"{name}_{branch.way}"][:, 0, 0] for name in ("overlap", "means"))
        columns = {"alpha": ratios, "theta": np.abs(theta) * _THETA, "m": np.abs(mean) * _MEAN}
        ours = pandas.DataFrame({**columns, "energy": theory[f"free_energy_{branch.way}"] / ratios})
        runs = _runs_from(model, replace(risk, branch=branch.start), marks, size)
        frames.append(runs.assign(source=branch.reached))
        parameters, energies, text = _compared(branch, ours, runs, published)
        left, right, lines = [*left, *parameters], [*right, *energies], [*lines, *text]
    lines.append(_teachers(runs))
    title = f"marks: single runs, the same {size.instances} teachers ($d = {size.d}$) at every ratio"
    usual = {"xlabel": label_alpha(model.parameters["alpha"]), "xlim": (ratios[0] - 0.05, ratios[-1] + 0.05)}
    order = {
        "ylabel": r"overlap $\theta = M/4$, mean field $m$",
        "ylim": (-0.01, 0.46),
        "title": f"order parameters of attention, two tokens\n{title}",
    }
    energy = {"ylabel": r"free energy per sample, $f/\alpha$", "title": f"minima of the risk\n{title}"}
    axes = [
        Axis(left, 2, {**usual, **order}, legend={"fontsize": 8}),
        Axis(right, 2, {**usual, **energy}, legend={"fontsize": 8, "loc": "lower left"}),
    ]
    return Part(axes, frames, lines)


def _compared(
    branch: _Branch, theory: pandas.DataFrame, runs: pandas.DataFrame, published: Sequence[pandas.DataFrame]
) -> tuple[list[Series], list[Series], list[str]]:
    """Return order parameters and free energies of a branch, as lines and marks, and theory beside runs in words."""
    left: list[Series] = []
    right: list[Series] = []
    alpha = theory["alpha"].to_numpy()
    for quantity, sign, series in ((branch.own, rf", ${branch.symbol}$", left), ("energy", "", right)):
        series.append(Series(alpha, theory[quantity], branch.color, "-", f"{branch.name} minimum{sign}"))
        marks = Series(runs["alpha"], runs[quantity], branch.color, branch.marker, branch.reached + sign, look=_DOTS)
        series.append(marks)
    if branch.start is None:
        label = rf"{branch.reached}, $\theta$"
        left.append(Series(runs["alpha"], runs["theta"], _SEMANTIC.color, branch.marker, label, look=_DOTS))
    starts = "" if branch.start else " (3 random ones, and a positional one)"
    means = f"means (the {branch.name} minimum in theory) of theta, m, free energy per sample"
    lines = [f"{branch.reached}{starts}: alpha, {means}"]
    for ratio, at in runs.groupby("alpha"):
        cells = [
            f"{at[column].mean():.4f} ({np.interp(ratio, alpha, theory[column]):.4f})"
            for column in ("theta", "m", "energy")
        ]
        lines.append(f"  {ratio:.2f}  {'  '.join(cells)}")
    nearest = _nearest(published, theory)
    if nearest is None:
        return left, right, lines
    near = nearest[(nearest["alpha"] >= alpha[0]) & (nearest["alpha"] <= alpha[-1])]
    entry = "published theory" if branch is _POSITIONAL else None
    for quantity, series in ((branch.own, left), ("energy", right)):
        series.append(Series(near["alpha"], near[quantity], "k", "x", entry, look={"ms": 4, "zorder": 5}))
        exact, title = np.interp(near["alpha"], alpha, theory[quantity]), f"published {branch.name} minimum, {quantity}"
        lines.append(deviations(title, near["alpha"], exact, near[quantity]))
    return left, right, lines


def _teachers(runs: pandas.DataFrame) -> str:
    """Say why runs lie on one side of theory: their few teachers are the same at every sample ratio."""
    powers = ", ".join(f"{power:.3f}" for power in runs["power"].unique())
    return (
        f"runs at all sample ratios have the same teachers, of power {powers} (1 in theory): scores are quadratic in "
        "the weights, so that a weaker teacher has a smaller risk and overlap at every ratio"
    )


def _runs_from(model: Model, risk: RegularisedRisk, ratios: Sequence[float], size: RunSize) -> pandas.DataFrame:
    """Minima on data, one row for each run, in the units of the paper."""
    rows = []
    for alpha in ratios:
        for seed in range(size.instances):
            teacher, found = experiment_of(model, [alpha], size.d, 1, seed, risk).learned()
            assert isinstance(found, RowFit)
            assert found.free_energy is not None
            overlap = abs(float(np.sum(found.estimates[0] * teacher))) / size.d
            rows.append(
                {
                    "alpha": alpha,
                    "theta": overlap * _THETA,
                    "m": abs(float(found.means[0, 0])) * _MEAN,
                    "energy": found.free_energy / alpha,
                    "power": float(np.sum(teacher**2)) / size.d,
                    "status": str(found.status),
                }
            )
    return pandas.DataFrame(rows)


def _nearest(published: Sequence[pandas.DataFrame], ours: pandas.DataFrame) -> pandas.DataFrame | None:
    """The published branch closest to ours: files of all mixtures have the same columns."""

    def distance(frame: pandas.DataFrame) -> float:
        own = frame.sort_values("alpha")
        gaps = [np.interp(ours["alpha"], own["alpha"], np.abs(own[name])) - ours[name] for name in ("theta", "m")]
        return float(np.mean(np.abs(gaps)))

    if not published:
        return None
    best = min(published, key=distance)
    energy = best["Phi"] / _PHI / best["alpha"]
    return best.assign(theta=best["theta"].abs(), m=best["m"].abs(), energy=energy)


# --- which minimum is lower, over sample ratio and mixture: rows-6 ----------------------------------------------------

# Mean field above which a minimum is positional: about a half there, and a sampling error at a semantic minimum.
_MEAN_FIELD = 0.1
_WORDS = (
    "The teacher mixes attention by content with a fixed attention matrix of share omega; the student has positional "
    "encodings and its risk has a positional and a semantic minimum, where they exist. Labels have no noise: whatever "
    "omega < 1 is, they determine the teacher's fields up to a sign, and the overlap of the Bayes-optimal estimate, "
    "which knows omega, depends on the sample ratio alone."
)
# What the risk has at a sample ratio and mixture, with the colour of the diagram.
_REGIONS = (
    ("positional minimum only", "#d98c7e"),
    ("both, positional lower", "#f3d3cb"),
    ("both, semantic lower", "#c9d9ea"),
    ("semantic minimum only", "#7fa3cc"),
)


def phase_diagram(quick: bool) -> Recipe:
    """Which minimum of the risk is the lower one, over sample ratio and mixture, and the Bayes optimum on a cut."""
    mixtures = np.linspace(0.1, 0.5, 3) if quick else np.linspace(0.05, 0.55, 11)
    ratios, points = (np.linspace(0.25, 3.0, 12), 256) if quick else (np.linspace(0.2, 3.6, 35), 1024)
    return Recipe([partial(_diagram, mixtures=mixtures, ratios=ratios, points=points)], size=(5.8, 4.9))


def _diagram(_: Context, mixtures: Array, ratios: Array, points: int) -> Part:
    """The regions of the diagram, and errors on new labels at one mixture beside the Bayes optimum."""
    risk = RegularisedRisk(student=_attention, **_RISK_SETTINGS)
    models = [
        SequenceMultiIndex(partial(_mixed, mixture=float(w)), tokens=2).at_accuracy(Accuracy(points=points))
        for w in mixtures
    ]
    tables = [hysteresis(model, ratios, risk, throw=False) for model in models]
    regions = np.array([_region(table) for table in tables])
    crossings = np.array([_crossing(table) for table in tables])
    optimum = DeepAttention(depth=1, tokens=2).at_accuracy(Accuracy(points=points))
    found = thresholds(optimum)
    weak, perfect = (float(found[name].alpha) for name in ("weak_recovery", "perfect_recovery"))
    lines = [
        _WORDS,
        "mixture: sample ratio at which the free energies of both minima cross, regions along the sample ratio",
    ]
    for mixture, crossing, row in zip(mixtures, crossings, regions, strict=True):
        where = [(name, ratios[row == k]) for k, (name, _) in enumerate(_REGIONS)]
        parts = [f"{name} {own.min():.3g} to {own.max():.3g}" for name, own in where if own.size]
        lines.append(f"  {mixture:.2f}: {crossing:.3f}; {', '.join(parts)}")
    lines.append(f"{np.sum(regions < 0)} of {regions.size} points did not converge, most of them where a minimum ends")
    series = [Series([], [], color, "s", name, look={"ms": 8, "mec": "0.4", "mew": 0.5}) for name, color in _REGIONS]
    series.append(Series([], [], "w", "s", "did not converge", look={"ms": 8, "mec": "0.4", "mew": 0.5}))
    series.append(Series(crossings, mixtures, "k", "-o", "risks are equal", look={"ms": 3}))
    half = 0.5 * (mixtures[1] - mixtures[0])
    settings = {
        "xlabel": label_alpha("n/d"),
        "ylabel": r"share $\omega$ of fixed attention in the teacher",
        "xlim": (0, ratios[-1]),
        "ylim": (mixtures[0] - half, mixtures[-1] + half),
        "title": "minima of the risk of attention, two tokens",
    }
    verticals = [(weak, "0.4", "Bayes-optimal: weak, perfect recovery"), (perfect, "0.4", None)]
    draw = partial(_draw_regions, ratios=ratios, mixtures=mixtures, regions=regions)
    # Regions fill the plot: the legend has its place below it.
    legend = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.15), "ncols": 3, "fontsize": 8}
    axes = [Axis(series, 1, settings, verticals, legend, annotate=draw)]
    cut = int(np.argmin(np.abs(mixtures - _MIXTURE)))
    axis, frame, text = _cut(models[cut], tables[cut], crossings[cut], optimum, perfect)
    frames = [
        table.to_pandas().assign(mixture=w, source="minima of the risk")
        for w, table in zip(mixtures, tables, strict=True)
    ]
    return Part([*axes, axis], [*frames, frame.assign(mixture=mixtures[cut])], [*lines, *text])


def _region(table: Table) -> Array:
    """Number of the region of each sample ratio; -1 where a minimum did not settle."""
    settled = np.array([status is Status.CONVERGED for status in table.status])
    positional = np.abs(table["means_up"][:, 0, 0]) > _MEAN_FIELD
    lower = np.where(table["free_energy_up"] < table["free_energy_down"], 1, 2)
    found = np.where(table["two_branches"] > 0, lower, np.where(positional, 0, 3))
    return np.where(settled, found, -1)


def _crossing(table: Table) -> float:
    """Sample ratio at which the free energies cross, between settled ones that have both minima; NaN if none."""
    region = _region(table)
    alpha, energy, other = (table[name][region >= 0] for name in ("alpha", "free_energy_up", "free_energy_down"))
    gap, region = energy - other, region[region >= 0]
    for k in np.flatnonzero((region[:-1] == 1) & (region[1:] == 2)):
        return float(alpha[k] + (alpha[k + 1] - alpha[k]) * gap[k] / (gap[k] - gap[k + 1]))
    return np.nan


def _draw_regions(axes: Axes, ratios: Array, mixtures: Array, regions: Array) -> None:
    from matplotlib.colors import ListedColormap

    colors = ListedColormap([color for _, color in _REGIONS])
    shown = np.ma.masked_less(regions, 0)
    axes.pcolormesh(ratios, mixtures, shown, cmap=colors, vmin=-0.5, vmax=len(_REGIONS) - 0.5, zorder=0)
    axes.grid(visible=False)


def _cut(
    model: SequenceMultiIndex, table: Table, crossing: float, optimum: DeepAttention, perfect: float
) -> tuple[Axis, pandas.DataFrame, list[str]]:
    """Errors on new labels of both minima and of the Bayes-optimal estimate.

    Labels without noise determine the fields up to a sign, whatever the share of fixed attention is: overlaps of the
    Bayes-optimal estimate are those of plain attention.
    """
    ratios = np.linspace(0.02, 1.1 * perfect, 28)
    known = limits(optimum, ratios, throw=False)
    error = prediction_errors(model.channel, known["error"][:, None, None]).bayes.value
    alpha, region = table["alpha"], _region(table)
    # Without a minimum of its own a branch follows the other one.
    positional = np.where(np.isin(region, (0, 1, 2)), table["prediction_error_up"], np.nan)
    semantic = np.where(np.isin(region, (1, 2, 3)), table["prediction_error_down"], np.nan)
    lower = np.where(region <= 1, positional, semantic)
    shown = np.append(ratios, alpha[-1]), np.append(error, error[-1])
    series = [
        Series(*shown, "0.1", "-", "Bayes-optimal", look={"lw": 2.2}),
        Series(alpha, positional, _POSITIONAL.color, "-", "positional minimum"),
        Series(alpha, semantic, _SEMANTIC.color, "-", "semantic minimum"),
        Series(alpha, lower, "0.5", "o", "minimum of lower risk", look={"ms": 4}),
    ]
    settings = {
        "xlabel": label_alpha("n/d"),
        "ylabel": r"error on new labels $E\|y - \hat y\|^2$",
        "xlim": (0, alpha[-1]),
        "ylim": (0, None),
        "title": rf"errors at $\omega = {_MIXTURE:g}$",
    }
    verticals = [(crossing, "0.5", "risks are equal")] if np.isfinite(crossing) else []
    frame = known.to_pandas()[["alpha", "error", "error_estimate", "status"]]
    frame = frame.assign(prediction_error=error, source="Bayes-optimal")
    lines = [f"errors on new labels at mixture {_MIXTURE:g}: alpha, positional, semantic (nan: no such minimum)"]
    lines += [f"  {a:.2f}  {one:.5f}  {two:.5f}" for a, one, two in zip(alpha, positional, semantic, strict=True)]
    lines.append(f"the Bayes-optimal estimate is perfect from alpha = {perfect:.3g} at every mixture below one")
    return Axis(series, 1, settings, verticals, {"loc": "center right"}), frame, lines
