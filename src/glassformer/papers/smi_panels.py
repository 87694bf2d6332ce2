"""Figures of deep attention networks: overlaps, errors, phase diagram, message passing in time, three layers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from glassformer.core.estimate import Array
from glassformer.core.results import Table
from glassformer.experiments.instances import Simulation
from glassformer.experiments.simulation import simulate
from glassformer.learners.sgd import SGD
from glassformer.models.deep_attention import DeepAttention
from glassformer.papers.reference import at_ratios, deviations, load
from glassformer.plotting.curves import mark_unsettled
from glassformer.plotting.style import canvas, colors, label_alpha
from glassformer.state_evolution.limits import limits
from glassformer.state_evolution.phase_diagram import PhaseDiagram, phase_diagram
from glassformer.state_evolution.solve import state_evolution
from glassformer.state_evolution.trajectory import random_overlap, trajectory

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

_Result = tuple["pandas.DataFrame", str, bool]
_OVERLAPS, _AMP, _PLUGIN = ("alpha", "Q11", "Q22"), ("alpha", "Q11_mean", "Q22_mean"), ("alpha", "gen_error")
# Published message passing is regularised: beyond this sample ratio that shows.
_REGULARISED = 0.8


def overlaps(path: Path, quick: bool, reference: Path | None) -> _Result:
    """Figure ``smi-1``: overlaps and errors of two layers, with message passing, and their phase diagram."""
    model = DeepAttention(depth=2, tokens=2, skip=1.0, points=256 if quick else 1024)
    alpha = np.linspace(0.05, 1.5, 8) if quick else np.linspace(0.0375, 1.5, 40)
    theory = limits(model, alpha, throw=False)
    at = [0.5, 1.2] if quick else [0.1, 0.3, 0.5, 0.65, 0.8, 1.2, 1.5]
    runs = simulate(model, at, d=200 if quick else 1000, instances=2 if quick else 8)
    diagram = phase_diagram(model, "skip", [0.5, 2.0] if quick else np.linspace(0, 4, 17))
    with canvas(path, columns=3, size=(5.2, 4.2)) as (left, middle, right):
        _draw_overlaps(left, theory, model.row_names)
        _draw_runs(left, runs)
        _draw_published_overlaps(left, reference)
        _draw_errors(middle, theory, runs, reference)
        _draw_diagram(right, diagram)
    frames = [_labelled(theory, "theory"), _labelled(runs, "message passing"), diagram.to_pandas().assign(kind="phase")]
    summary = "\n".join([_overlap_summary(theory, reference), _run_summary(runs, reference), _diagram_summary(diagram)])
    return _joined(frames), summary, theory.converged and runs.converged


def in_time(path: Path, quick: bool, reference: Path | None) -> _Result:
    """Figure ``smi-2-left``: cosine similarity of each layer with its truth after every step of message passing."""
    del reference
    model = DeepAttention(depth=2, tokens=2, skip=1.0, points=256)
    d, instances, steps = (200, 2, 40) if quick else (1000, 8, 60)
    result = simulate(model, [1.2], d=d, instances=instances)
    theory = trajectory(model, result["alpha_realised"], steps, overlap=random_overlap(model, d))
    histories = [
        np.array([step["cosine"] for step in run.history] + [run.cosine] * steps)[:steps] for run in result.instances[0]
    ]
    time = np.arange(1.0, steps + 1)
    return _drawn_in_time(path, model, result, np.array(histories), time, "step of message passing", theory)


def in_passes(path: Path, quick: bool, reference: Path | None) -> _Result:
    """Figure ``smi-2-right``: the same during stochastic gradient descent, pass after pass over the data."""
    del reference
    model = DeepAttention(depth=2, tokens=2, skip=1.0, points=64)
    d, instances, passes = (100, 2, 15) if quick else (500, 4, 150)
    result = simulate(model, [15.0], d=d, instances=instances, algorithm="sgd", settings=SGD(passes=passes))
    histories = np.array([[step["cosine"] for step in run.history] for run in result.instances[0]])
    time = np.array([step["passes"] for step in result.instances[0][0].history])
    return _drawn_in_time(path, model, result, histories, time, "passes over the data")


def _drawn_in_time(
    path: Path,
    model: DeepAttention,
    result: Simulation,
    histories: Array,
    time: Array,
    label: str,
    theory: Table | None = None,
) -> _Result:
    """Every run's cosine similarities, shape (runs, times, rows), their means, and state evolution in time."""
    cosine, (alpha,) = np.abs(histories), result["alpha"]
    with canvas(path) as (axes,):
        for k, (name, color) in enumerate(zip(model.row_names, colors(2), strict=True)):
            axes.plot(time, cosine[:, :, k].T, color=color, lw=0.5, alpha=0.4)
            axes.plot(time, cosine[:, :, k].mean(axis=0), color=color, label=name)
            if theory is not None:
                # Of a posterior mean the power is the overlap with the truth, and the cosine its root.
                known = np.sqrt(np.maximum(1 - theory["row_error"][:, k], 0.0))
                label_of = "state evolution" if k == 1 else None
                axes.plot(theory["iteration"], known, "--", color=color, lw=1.2, label=label_of)
        axes.set_xlabel(label)
        axes.set_ylabel("cosine similarity with the truth")
        axes.set_title(rf"depth 2, $L = 2$, $c = 1$, $\alpha = {alpha:g}$, $d = {result.parameters['d']}$")
        axes.legend(loc="lower right")
    import pandas

    data = pandas.DataFrame({"time": time, **{f"cosine_{k + 1}": cosine[:, :, k].mean(axis=0) for k in range(2)}})
    data = data.assign(alpha=alpha, status=str(result.status[0]))
    lines = [_arrival(cosine[:, :, k], time, name, label) for k, name in enumerate(model.row_names)]
    return data, "\n".join(lines), result.converged


def _arrival(cosine: Array, time: Array, name: str, unit: str) -> str:
    """When the runs, shape (runs, times), found a layer, those that never did left out and counted."""
    there = (cosine > 0.5).any(axis=1)
    if not there.any():
        return f"{name}: cosine above 1/2 in none of {len(cosine)} runs"
    mean = float(np.mean(time[np.argmax(cosine[there] > 0.5, axis=1)]))
    return f"{name}: cosine above 1/2 in {there.sum()} of {len(cosine)} runs, on average at {mean:.2g} ({unit})"


def three_layers(path: Path, quick: bool, reference: Path | None) -> _Result:
    """Figure ``smi-3-left``: overlaps of three layers."""
    del reference
    return _deep(path, 3, 128 if quick else 512, np.linspace(0.2, 2.5, 4) if quick else np.linspace(0.1, 2.1, 15))


def four_layers(path: Path, quick: bool, reference: Path | None) -> _Result:
    """Figure ``smi-depth-4``: overlaps of four layers."""
    del reference
    return _deep(path, 4, 32 if quick else 256, np.array([0.15, 0.3]) if quick else np.linspace(0.2, 2.4, 12))


def _deep(path: Path, depth: int, points: int, alpha: Array) -> _Result:
    """Overlaps of all layers, and where all are known."""
    model = DeepAttention(depth=depth, tokens=2, skip=1.0, points=points)
    theory = limits(model, alpha, throw=False)
    with canvas(path) as (axes,):
        _draw_overlaps(axes, theory, model.row_names)
        axes.axvline(depth / 2, color="0.5", ls=":", lw=1, label="perfect recovery, $P/L$")
        axes.legend(loc="lower right")
        axes.set_title(f"depth {depth}, $L = 2$, $c = 1$")
    return _labelled(theory, "theory"), _status_summary(theory), theory.converged


def clamped_layer(path: Path, quick: bool, reference: Path | None) -> _Result:
    """Figure ``smi-clamped``: the overlap that one layer reaches while the other is held at a given one."""
    del reference
    import pandas

    model = DeepAttention(depth=2, tokens=2, skip=1.0, points=128 if quick else 1024)
    held = np.linspace(0.05, 0.95, 5) if quick else np.linspace(0.02, 0.99, 33)
    alpha, frames = 1.2, []
    with canvas(path) as (axes,):
        for row, color in enumerate(colors(2)):
            found = state_evolution(model, np.full(len(held), alpha), clamped=(row, 1 - held))
            reached = 1 - found.value[:, 1 - row, 1 - row]
            x, y = (held, reached) if row == 1 else (reached, held)
            axes.plot(x, y, "-o", ms=3, color=color, label=f"{model.row_names[row]} held")
            columns = {"held": held, "reached": reached, "error_estimate": found.error_estimate}
            frames.append(
                pandas.DataFrame(columns).assign(layer=model.row_names[row], status=list(map(str, found.status)))
            )
        axes.set_xlabel("overlap of layer 2")
        axes.set_ylabel("overlap of layer 1")
        axes.set_title(rf"depth 2, $L = 2$, $c = 1$, $\alpha = {alpha:g}$")
        axes.legend(loc="upper left")
    data = pandas.concat(frames, ignore_index=True)
    late = int((data["status"] != "converged").sum())
    summary = f"largest error estimate {data['error_estimate'].max():.1e}, not converged: {late} of {len(data)}"
    return data, summary, late == 0


def _draw_overlaps(axes: Axes, theory: Table, names: tuple[str, ...]) -> None:
    overlap = 1 - theory["row_error"]
    for k, (name, color) in enumerate(zip(names, colors(len(names)), strict=True)):
        axes.plot(theory["alpha"], overlap[:, k], color=color, label=name)
    axes.set_xlabel(label_alpha("n/d"))
    axes.set_ylabel("overlap $Q_{ll}$")
    axes.set_ylim(-0.03, 1.05)
    axes.legend(loc="lower right")


def _draw_runs(axes: Axes, runs: Simulation) -> None:
    overlap = 1 - runs["row_error"]
    for k, color in enumerate(colors(2)):
        label = f"GAMP, $d = {runs.parameters['d']}$" if k == 1 else None
        axes.errorbar(
            runs["alpha"], overlap[:, k], runs["row_standard_error"][:, k], fmt="o", ms=4, color=color, label=label
        )
    mark_unsettled(axes, runs["alpha"], overlap[:, 1], runs.status)
    axes.set_title("depth 2, $L = 2$, $c = 1$")
    axes.legend(loc="lower right")


def _draw_published_overlaps(axes: Axes, reference: Path | None) -> None:
    curve, points = load(reference, _OVERLAPS), load(reference, _AMP)
    for k, color in enumerate(colors(2)):
        if curve is not None:
            label = "published state evolution" if k == 1 else None
            axes.plot(curve["alpha"], curve[f"Q{k + 1}{k + 1}"], ":", color=color, lw=1.2, label=label)
        if points is not None:
            near = points[points["alpha"] <= _REGULARISED]
            label = "published AMP" if k == 1 else None
            axes.plot(near["alpha"], near[f"Q{k + 1}{k + 1}_mean"], "x", color=color, ms=4, label=label)
    axes.legend(loc="lower right", fontsize=8)


def _draw_errors(axes: Axes, theory: Table, runs: Simulation, reference: Path | None) -> None:
    names = {
        "prediction_error": "Bayes-optimal",
        "plugin_error": "plug-in",
        "plugin_error_last_layer": "plug-in, first layer not learned",
    }
    for (column, label), color in zip(names.items(), colors(3), strict=True):
        axes.plot(theory["alpha"], theory[column], color=color, label=label)
        if column in runs.columns:
            errors = runs[column.replace("error", "standard_error")]
            axes.errorbar(runs["alpha"], runs[column], errors, fmt="o", ms=4, color=color)
    published = load(reference, _PLUGIN, exact=True)
    if published is not None:
        axes.plot(published["alpha"], published["gen_error"], "k:", lw=1.2, label="published plug-in")
    axes.set_xlabel(label_alpha("n/d"))
    axes.set_ylabel(r"prediction error $E\|y - \hat y\|^2$")
    axes.set_ylim(bottom=0)
    axes.legend()


def _draw_diagram(axes: Axes, diagram: PhaseDiagram) -> None:
    names = {"weak_recovery": "last layer found", "weak_recovery_2": "first layer found", "perfect_recovery": "perfect"}
    for (name, label), color in zip(names.items(), colors(3), strict=True):
        axes.plot(diagram.values, diagram.curve(name), "-o", ms=3, color=color, label=label)
    axes.set_xlabel("skip strength $c$")
    axes.set_ylabel(label_alpha("n/d"))
    axes.set_ylim(bottom=0)
    axes.legend()


def _labelled(table: Table, kind: str) -> pandas.DataFrame:
    return table.to_pandas().assign(kind=kind)


def _joined(frames: list[pandas.DataFrame]) -> pandas.DataFrame:
    import pandas

    for frame in frames:
        frame.attrs = {}
    return pandas.concat(frames, ignore_index=True)


def _status_summary(theory: Table) -> str:
    late = sum(not status.ok for status in theory.status)
    return f"theory: largest error estimate {np.max(theory['error_estimate']):.1e}, not converged: {late}"


def _overlap_summary(theory: Table, reference: Path | None) -> str:
    lines = [_status_summary(theory)]
    published = load(reference, _OVERLAPS)
    if published is not None:
        ours = [np.interp(published["alpha"], theory["alpha"], 1 - theory["row_error"][:, k]) for k in range(2)]
        for k in range(2):
            gap = np.abs(ours[k] - published[f"Q{k + 1}{k + 1}"])
            early = published["alpha"] < 0.6
            worst = published["alpha"][gap.argmax()]
            text = f"{gap[early].max():.3f} below alpha = 0.6, {gap.max():.3f} at alpha = {worst:.2f}"
            lines.append(f"published Q{k + 1}{k + 1}: largest difference {text}")
    return "\n".join(lines)


def _run_summary(runs: Simulation, reference: Path | None) -> str:
    lines = [f"message passing, d = {runs.parameters['d']} (overlap of each layer, standard error, theory)"]
    for k, a in enumerate(runs["alpha"]):
        numbers = zip(runs["row_error"][k], runs["row_standard_error"][k], runs["row_theory"][k], strict=True)
        cells = [f"{1 - error:.3f} +- {blur:.3f} ({1 - exact:.3f})" for error, blur, exact in numbers]
        done = sum(run.status.ok for run in runs.instances[k])
        lines.append(f"  alpha {a:.2f}: " + ", ".join(cells) + f"; converged {done}/{len(runs.instances[k])}")
    published = load(reference, (*_AMP, "Q11_std", "Q22_std"))
    if published is not None:
        lines += [_run_deviations(runs, published[published["alpha"] <= _REGULARISED], k) for k in range(2)]
    return "\n".join(lines)


def _run_deviations(runs: Simulation, published: pandas.DataFrame, row: int) -> str:
    there, rows = at_ratios(published, runs["alpha"])
    name = f"Q{row + 1}{row + 1}"
    spread = np.hypot(runs["row_standard_error"][there, row], rows[f"{name}_std"].to_numpy())
    ours, theirs = 1 - runs["row_error"][there, row], rows[f"{name}_mean"].to_numpy()
    return deviations(f"message passing, {name}", runs["alpha"][there], ours, theirs, spread)


def _diagram_summary(diagram: PhaseDiagram) -> str:
    lines = ["thresholds over the skip strength"]
    for k, c in enumerate(diagram.values):
        names = ("weak_recovery", "weak_recovery_2", "perfect_recovery")
        lines.append(f"  c = {c:g}: " + ", ".join(f"{diagram.curve(name)[k]:.4f}" for name in names))
    return "\n".join(lines)
