"""Figures of deep attention networks (arXiv:2502.00901): overlaps, errors, phase diagram, and layers in time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas

from glassformer.bayes_optimal.limits import limits
from glassformer.bayes_optimal.phase_diagram import phase_diagram
from glassformer.bayes_optimal.solve import state_evolution
from glassformer.bayes_optimal.trajectory import random_overlap, trajectory
from glassformer.core.estimate import Array
from glassformer.experiments.simulation import simulate
from glassformer.learners.sgd import SGD
from glassformer.models.deep_attention import DeepAttention
from glassformer.papers import published
from glassformer.papers.drawing import RUN_MARKS, Axis, FigureContent, Series, first_passage, joined
from glassformer.papers.error_curves import status_counts, theory_accuracy
from glassformer.plotting.style import label_alpha

if TYPE_CHECKING:
    from glassformer.core.results import Table
    from glassformer.experiments.instances import Simulation

# Published message passing is regularised: beyond this sample ratio that shows.
_REGULARISED = 0.8
_COSINE = "cosine similarity with the truth"


def _two_layers(points: int) -> DeepAttention:
    return DeepAttention(depth=2, tokens=2, skip=1.0, points=points)


def _overlap_axis(series: Sequence[Series], layers: int, title: str, **more: Any) -> Axis:
    settings = {"xlabel": label_alpha("n/d"), "ylabel": "overlap $Q_{ll}$", "ylim": (-0.03, 1.05), "title": title}
    return Axis(series, layers, settings, legend={"loc": "lower right", "fontsize": 8}, **more)


def _overlap_lines(theory: Table, names: Sequence[str]) -> list[Series]:
    return [Series(theory["alpha"], 1 - theory["row_error"][:, k], k, "-", name) for k, name in enumerate(names)]


# --- two layers: smi-1 ------------------------------------------------------------------------------------------------


def two_layers(quick: bool, reference: Path | None) -> FigureContent:
    """Overlaps and errors of two layers, with message passing, and their phase diagram."""
    model = _two_layers(256 if quick else 1024)
    alpha = np.linspace(0.05, 1.5, 8) if quick else np.linspace(0.0375, 1.5, 40)
    theory = limits(model, alpha, throw=False)
    ratios = [0.5, 1.2] if quick else [0.1, 0.3, 0.5, 0.65, 0.8, 1.2, 1.5]
    runs = simulate(model, ratios, d=200 if quick else 1000, instances=2 if quick else 8)
    diagram = phase_diagram(model, "skip", [0.5, 2.0] if quick else np.linspace(0, 4, 17))
    transitions = {
        "weak_recovery": "last layer found",
        "weak_recovery_2": "first layer found",
        "perfect_recovery": "perfect",
    }
    lines = [
        Series(diagram.values, diagram.curve(name), k, "-o", label, look={"ms": 3})
        for k, (name, label) in enumerate(transitions.items())
    ]
    settings = {"xlabel": "skip strength $c$", "ylabel": label_alpha("n/d"), "ylim": (0, None)}
    axes = [
        _overlap_axis(_overlaps(model, theory, runs, reference), 2, "depth 2, $L = 2$, $c = 1$"),
        Axis(
            _prediction_errors(theory, runs, reference),
            3,
            {"xlabel": label_alpha("n/d"), "ylabel": r"prediction error $E\|y - \hat y\|^2$", "ylim": (0, None)},
        ),
        Axis(lines, 3, settings, legend={}),
    ]
    data = joined(
        [
            theory.to_pandas().assign(kind="theory"),
            runs.to_pandas().assign(kind="message passing"),
            diagram.to_pandas().assign(kind="phase"),
        ]
    )
    summary = [theory_accuracy(theory), *_compared(theory, runs, reference), "thresholds over the skip strength"]
    for k, skip in enumerate(diagram.values):
        summary.append(f"  c = {skip:g}: " + ", ".join(f"{diagram.curve(name)[k]:.4f}" for name in transitions))
    return FigureContent(axes, data, "\n".join(summary), (5.2, 4.2))


def _overlaps(model: DeepAttention, theory: Table, runs: Simulation, reference: Path | None) -> list[Series]:
    """Overlaps of both layers in theory and by message passing, ours and published."""
    curve, points = published.load(reference, published.OVERLAPS), published.load(reference, published.AMP_OVERLAPS)
    series = _overlap_lines(theory, model.row_names)
    for k in range(2):
        only_last, name = k == 1, f"Q{k + 1}{k + 1}"
        label = f"GAMP, $d = {runs.parameters['d']}$" if only_last else None
        overlap, error = 1 - runs["row_error"][:, k], runs["row_standard_error"][:, k]
        series.append(Series(runs["alpha"], overlap, k, "o", label, error, RUN_MARKS, runs.status))
        if curve is not None:
            label = "published state evolution" if only_last else None
            series.append(Series(curve["alpha"], curve[name], k, ":", label, look={"lw": 1.2}))
        if points is not None:
            near = points[points["alpha"] <= _REGULARISED]
            label = "published AMP" if only_last else None
            series.append(Series(near["alpha"], near[f"{name}_mean"], k, "x", label, look={"ms": 4}))
    return series


def _prediction_errors(theory: Table, runs: Simulation, reference: Path | None) -> list[Series]:
    labels = {
        "prediction_error": "Bayes-optimal",
        "plugin_error": "plug-in",
        "plugin_error_last_layer": "plug-in, first layer not learned",
    }
    series = [Series(theory["alpha"], theory[name], k, "-", label) for k, (name, label) in enumerate(labels.items())]
    for k, name in enumerate(labels):
        if name in runs.columns:
            error = runs[name.replace("error", "standard_error")]
            series.append(Series(runs["alpha"], runs[name], k, "o", None, error, RUN_MARKS))
    rows = published.load(reference, published.PLUGIN_ERROR, exact=True)
    if rows is not None:
        series.append(Series(rows["alpha"], rows["gen_error"], "k", ":", "published plug-in", look={"lw": 1.2}))
    return series


def _compared(theory: Table, runs: Simulation, reference: Path | None) -> list[str]:
    """Compare published overlaps with theory, runs with theory, and published runs with ours."""
    lines = []
    rows = published.load(reference, published.OVERLAPS)
    if rows is not None:
        for k, name in enumerate(("Q11", "Q22")):
            gap = np.abs(np.interp(rows["alpha"], theory["alpha"], 1 - theory["row_error"][:, k]) - rows[name])
            early, place = gap[rows["alpha"] < 0.6].max(), f"alpha = {rows['alpha'][gap.argmax()]:.2f}"
            text = f"largest difference {early:.3f} below alpha = 0.6, {gap.max():.3f} at {place}"
            lines.append(f"published {name}: {text}")
    lines.append(f"message passing, d = {runs.parameters['d']} (overlap of each layer, standard error, theory)")
    for k, alpha in enumerate(runs["alpha"]):
        numbers = zip(runs["row_error"][k], runs["row_standard_error"][k], runs["row_theory"][k], strict=True)
        cells = [f"{1 - error:.3f} +- {blur:.3f} ({1 - exact:.3f})" for error, blur, exact in numbers]
        lines.append(f"  alpha {alpha:.2f}: {', '.join(cells)}; {status_counts([r.status for r in runs.instances[k]])}")
    rows = published.load(reference, (*published.AMP_OVERLAPS, "Q11_std", "Q22_std"))
    if rows is not None:
        there, rows = published.at_ratios(rows[rows["alpha"] <= _REGULARISED], runs["alpha"])
        for k, name in enumerate(("Q11", "Q22")):
            spread = np.hypot(runs["row_standard_error"][there, k], rows[f"{name}_std"].to_numpy())
            ours, theirs = 1 - runs["row_error"][there, k], rows[f"{name}_mean"].to_numpy()
            title = f"message passing, {name}"
            lines.append(published.deviations(title, runs["alpha"][there], ours, theirs, spread))
    return lines


# --- layers in time: smi-2 --------------------------------------------------------------------------------------------


def message_passing_in_time(quick: bool) -> FigureContent:
    """Cosine similarity of each layer with its truth after every step of message passing."""
    model = _two_layers(256)
    d, instances, steps = (200, 2, 40) if quick else (1000, 8, 60)
    runs = simulate(model, [1.2], d=d, instances=instances)
    theory = trajectory(model, runs["alpha_realised"], steps, overlap=random_overlap(model, d))
    # Of a posterior mean the power is the overlap with the truth, and the cosine its root.
    known = np.sqrt(np.maximum(1 - theory["row_error"], 0.0))
    look = {"lw": 1.2}
    lines = [
        Series(theory["iteration"], known[:, k], k, "--", "state evolution" if k == 1 else None, look=look)
        for k in range(2)
    ]
    # A run that has settled stays where it is.
    cosines = [[step["cosine"] for step in run.history] + [run.cosine] * steps for run in runs.instances[0]]
    cut = np.array([one[:steps] for one in cosines])
    return _layers_in_time(runs, cut, np.arange(1.0, steps + 1), "step of message passing", lines)


def sgd_in_time(quick: bool) -> FigureContent:
    """The same during stochastic gradient descent, pass after pass over the data."""
    d, instances, passes = (100, 2, 15) if quick else (500, 4, 150)
    runs = simulate(_two_layers(64), [15.0], d=d, instances=instances, algorithm=SGD(passes=passes))
    histories = [run.history for run in runs.instances[0]]
    cosines = np.array([[step["cosine"] for step in history] for history in histories])
    time = np.array([step["passes"] for step in histories[0]])
    return _layers_in_time(runs, cosines, time, "passes over the data", [])


def _layers_in_time(
    runs: Simulation, cosines: Array, time: Array, unit: str, theory: Sequence[Series]
) -> FigureContent:
    """Every run's cosine similarities, shape (runs, times, layers), and their means."""
    cosines, names = np.abs(cosines), _two_layers(64).row_names
    (alpha,) = runs["alpha"]
    series, lines, columns = [], [], {"time": time}
    for k, name in enumerate(names):
        own = cosines[:, :, k]
        columns[f"cosine_{k + 1}"] = own.mean(axis=0)
        series.append(Series(time, own.T, k, look={"lw": 0.5, "alpha": 0.4}))
        series.append(Series(time, own.mean(axis=0), k, "-", name))
        times = [t for t in (first_passage(one, time) for one in own) if np.isfinite(t)]
        mean = f", on average at {np.mean(times):.2g} ({unit})" if times else ""
        lines.append(f"{name}: cosine above 1/2 in {len(times) or 'none'} of {len(own)} runs{mean}")
    title = rf"depth 2, $L = 2$, $c = 1$, $\alpha = {alpha:g}$, $d = {runs.parameters['d']}$"
    axis = Axis(
        [*series, *theory], 2, {"xlabel": unit, "ylabel": _COSINE, "title": title}, legend={"loc": "lower right"}
    )
    data = pandas.DataFrame(columns).assign(alpha=alpha, status=str(runs.status[0]))
    return FigureContent([axis], data, "\n".join(lines))


# --- several layers, and one held fixed: smi-3-left, smi-depth-4, smi-clamped -----------------------------------------


def three_layers(quick: bool) -> FigureContent:
    """Overlaps of three layers."""
    return _several_layers(3, *((128, np.linspace(0.2, 2.5, 4)) if quick else (512, np.linspace(0.1, 2.1, 15))))


def four_layers(quick: bool) -> FigureContent:
    """Overlaps of four layers."""
    return _several_layers(4, *((32, np.array([0.15, 0.3])) if quick else (256, np.linspace(0.2, 2.4, 12))))


def _several_layers(depth: int, points: int, alpha: Array) -> FigureContent:
    """Overlaps of all layers, and where all are known."""
    model = DeepAttention(depth=depth, tokens=2, skip=1.0, points=points)
    theory = limits(model, alpha, throw=False)
    perfect = [(depth / 2, "0.5", "perfect recovery, $P/L$")]
    lines, title = _overlap_lines(theory, model.row_names), f"depth {depth}, $L = 2$, $c = 1$"
    axis = _overlap_axis(lines, depth, title, verticals=perfect)
    return FigureContent([axis], theory.to_pandas().assign(kind="theory"), theory_accuracy(theory))


def clamped_layer(quick: bool) -> FigureContent:
    """The overlap that one layer reaches while the overlap of the other is held fixed."""
    model, alpha = _two_layers(128 if quick else 1024), 1.2
    fixed = np.linspace(0.05, 0.95, 5) if quick else np.linspace(0.02, 0.99, 33)
    series, frames = [], []
    for row, name in enumerate(model.row_names):
        found = state_evolution(model, np.full(len(fixed), alpha), clamped=(row, 1 - fixed))
        reached = 1 - found.value[:, 1 - row, 1 - row]
        x, y = (fixed, reached) if row == 1 else (reached, fixed)
        series.append(Series(x, y, row, "-o", f"{name} held", look={"ms": 3}))
        columns = {"held": fixed, "reached": reached, "error_estimate": found.error_estimate}
        frames.append(pandas.DataFrame(columns).assign(layer=name, status=list(map(str, found.status))))
    data = joined(frames)
    settings = {"xlabel": "overlap of layer 2", "ylabel": "overlap of layer 1"}
    settings["title"] = rf"depth 2, $L = 2$, $c = 1$, $\alpha = {alpha:g}$"
    summary = f"largest error estimate {data['error_estimate'].max():.1e}, {status_counts(data['status'])}"
    return FigureContent([Axis(series, 2, settings, legend={"loc": "upper left"})], data, summary)
