"""Figures of deep attention networks (arXiv:2502.00901): overlaps, errors, phase diagram, and layers in time."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas

from glassformer.bayes_optimal.solve import state_evolution
from glassformer.bayes_optimal.trajectory import gamp_trajectory
from glassformer.core.accuracy import Accuracy
from glassformer.core.estimate import Array
from glassformer.learners.gamp import MessagePassing
from glassformer.learners.sgd import SGD
from glassformer.models.deep_attention import DeepAttention
from glassformer.papers import published
from glassformer.papers.curves import OVERLAP, Curve, CurvesPanel, Runs, status_counts
from glassformer.papers.drawing import Axis, RunSize, Series, first_passage, joined, legend_entry
from glassformer.papers.panels import RowsPanel, phase_panel
from glassformer.papers.recipe import Context, Panel, Part, Recipe
from glassformer.verbs.instances import Simulation

_TWO_LAYERS = "depth 2, $L = 2$, $c = 1$"
_OVERLAPS: dict[str, Any] = {"ylabel": "overlap $Q_{ll}$", "ylim": (-0.03, 1.05), "xlim": None}
# Trajectories of the equations of gradient descent, and the passes and steps to which they are solved: their cost grows
# with the square of the steps, and the last layer is learned in the first pass.
_TRAJECTORIES, _EQUATION_PASSES, _EQUATION_STEPS = 8192, 2, 150
_LEGEND = {"loc": "lower right", "fontsize": 8}


def _two_layers(points: int) -> DeepAttention:
    return DeepAttention(depth=2, tokens=2, skip=1.0).at_accuracy(Accuracy(points=points))


# --- over the sample ratio: smi-1, smi-3-left, smi-depth-4 ------------------------------------------------------------


def two_layers(quick: bool) -> Recipe:
    """Overlaps and errors of two layers, with message passing, and their phase diagram."""
    model = _two_layers(256 if quick else 1024)
    alpha = np.linspace(0.05, 1.5, 8) if quick else np.linspace(0.0375, 1.5, 40)
    ratios, size = ((0.65, 1.2), (200, 2)) if quick else ((0.1, 0.3, 0.5, 0.65, 0.8, 1.2, 1.5), (1000, 8))
    runs = Runs("message passing", MessagePassing(), ratios, *size, row={"kind": "message passing"})
    curve = Curve("state evolution", model, runs=[runs], row={"kind": "theory"})
    errors = {
        "prediction_error": "Bayes-optimal",
        "plugin_error": "plug-in",
        "plugin_error_last_layer": "plug-in, first layer not learned",
    }
    transitions = {
        "weak_recovery": "last layer found",
        "weak_recovery_2": "first layer found",
        "perfect_recovery": "perfect",
    }
    panels: list[Panel] = [
        CurvesPanel(
            [curve],
            alpha,
            _TWO_LAYERS,
            OVERLAP,
            settings=_OVERLAPS,
            legend=_LEGEND,
            published=published.compare_overlaps,
        ),
        CurvesPanel(
            [curve],
            alpha,
            _TWO_LAYERS,
            errors,
            settings={"ylabel": r"prediction error $E\|y - \hat y\|^2$", "ylim": (0, None)},
            published=published.compare_plugin,
        ),
        partial(
            phase_panel,
            model=model,
            parameter="skip",
            values=(0.25, 0.5, 1.0, 2.0, 4.0) if quick else np.linspace(0, 4, 17),
            curves=transitions,
            row={"kind": "phase"},
            settings={"xlabel": "skip strength $c$", "title": "thresholds, depth 2, $L = 2$"},
        ),
    ]
    return Recipe(panels, size=(5.2, 4.2))


def three_layers(quick: bool) -> Recipe:
    """Overlaps of three layers."""
    return _several_layers(
        3, *((32, np.array([0.2, 0.4, 0.8, 1.0, 1.2, 1.7])) if quick else (512, np.linspace(0.1, 2.1, 15)))
    )


def four_layers(quick: bool) -> Recipe:
    """Overlaps of four layers."""
    return _several_layers(
        4, *((32, np.array([0.2, 0.3, 0.45, 0.7, 1.0])) if quick else (256, np.linspace(0.2, 2.4, 12)))
    )


def _several_layers(depth: int, points: int, alpha: Array) -> Recipe:
    """Overlaps of all layers, and where all are known."""
    model = DeepAttention(depth=depth, tokens=2, skip=1.0).at_accuracy(Accuracy(points=points))
    curve = Curve("state evolution", model, row={"kind": "theory"})
    title, perfect = f"depth {depth}, $L = 2$, $c = 1$", (depth / 2, "0.5", "perfect recovery, $P/L$")
    panel = CurvesPanel([curve], alpha, title, OVERLAP, settings=_OVERLAPS, verticals=[perfect], legend=_LEGEND)
    return Recipe([panel])


# --- two layers in time: smi-2 ----------------------------------------------------------------------------------------


def message_passing_in_time(quick: bool) -> Recipe:
    """Cosine similarity of each layer with its truth after every step of message passing.

    The start is random, of the size that its overlap 1/d with the truth has in a posterior mean: state evolution
    begins at the same overlap.
    """
    size, steps = (RunSize(200, 2), 40) if quick else (RunSize(1000, 8), 60)
    panel = RowsPanel(
        _two_layers(256),
        alpha=1.2,
        learner=MessagePassing(random_start=size.d**-0.5),
        size=size,
        unit="step of message passing",
        title=_TWO_LAYERS,
        steps=steps,
        theory=_state_evolution_in_time,
    )
    return Recipe([panel])


def sgd_in_time(quick: bool) -> Recipe:
    """The same during stochastic gradient descent, pass after pass over the data."""
    size, passes, every = (RunSize(100, 2), 15, 3) if quick else (RunSize(500, 4), 150, 15)
    panel = RowsPanel(
        _two_layers(64),
        alpha=15.0,
        learner=replace(SGD.published(size.d), passes=passes, record_every=every),
        size=size,
        unit="passes over the data",
        title=_TWO_LAYERS,
        time="passes",
        theory=_descent_in_time,
    )
    return Recipe([panel])


def _dashed(time: Array, cosines: Array, label: str) -> list[Series]:
    """Lines of theory, cosines of shape (times, layers), with one entry of the legend."""
    lines = [Series(time, one, k, "--", look={"lw": 2}) for k, one in enumerate(cosines.T)]
    return [*lines, legend_entry(f"dashed: {label}", "--", lw=2)]


def _state_evolution_in_time(runs: Simulation, cosines: Array) -> tuple[list[Series], str]:
    """State evolution from the overlap of the start of the runs, shape of cosines (runs, steps, layers)."""
    d, steps = runs.parameters["d"], cosines.shape[1]
    table = gamp_trajectory(_two_layers(256), runs["alpha_realised"], steps, overlap=1 / d)
    # Of a posterior mean the power is the overlap with the truth, and the cosine its root.
    known = np.sqrt(np.maximum(1 - table["row_error"], 0.0))
    line = (
        f"state evolution begins at the overlap 1/d = {1 / d:g} of the random start; a layer that is not learned has "
        "a cosine of about 1/sqrt(d) in runs, and may have a smaller one in theory"
    )
    return _dashed(table["iteration"], known, "state evolution"), line


def _descent_in_time(runs: Simulation, cosines: Array) -> tuple[list[Series], str]:
    """Equations of the first passes of gradient descent, whose batches are drawn independently of each other."""
    del cosines
    d, alpha = runs.parameters["d"], float(runs["alpha_realised"][0])
    own = replace(SGD.published(d), start=f"overlap:{d**-0.5}")
    learner = own.at_accuracy(Accuracy(trajectories=_TRAJECTORIES))
    per_pass = learner.descent(alpha, d=d).steps // learner.passes
    steps = min(_EQUATION_PASSES * per_pass, _EQUATION_STEPS)
    path = learner.path(_two_layers(64), alpha, steps, d)
    time, cosine = np.arange(steps + 1) / per_pass, path.cosine
    line = (
        f"equations of the first {steps} steps ({time[-1]:.2g} passes), {path.status}, from a cosine of 1/sqrt(d) = "
        f"{d**-0.5:.2g}, with batches drawn independently, while runs use every sample once in a pass: layer 2 passes "
        f"1/2 at {first_passage(cosine.value[:, 1], time):.2g}, largest 95 % error {np.max(cosine.error):.2g}"
    )
    return _dashed(time, cosine.value, "theory, fresh batches"), line


# --- one layer held fixed: smi-clamped --------------------------------------------------------------------------------


def clamped_layer(quick: bool) -> Recipe:
    """The overlap that one layer reaches while the overlap of the other is held fixed."""
    fixed = np.array([0.05, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99]) if quick else np.linspace(0.02, 0.99, 33)
    return Recipe([partial(_clamped, model=_two_layers(128 if quick else 1024), alpha=1.2, fixed=fixed)])


def _clamped(_: Context, model: DeepAttention, alpha: float, fixed: Array) -> Part:
    """The overlap that one of two layers reaches while that of the other has each of the values ``fixed``."""
    series, frames = [], []
    for row, name in enumerate(model.row_names):
        found = state_evolution(model, np.full(len(fixed), alpha), clamped=(row, 1 - fixed))
        reached = 1 - found.value[:, 1 - row, 1 - row]
        x, y = (fixed, reached) if row == 1 else (reached, fixed)
        series.append(Series(x, y, row, "-o", f"{name} fixed", look={"ms": 3}))
        columns = {"held": fixed, "reached": reached, "error_estimate": found.error_estimate}
        frames.append(pandas.DataFrame(columns).assign(layer=name, status=list(map(str, found.status))))
    settings = {"xlabel": "overlap of layer 2", "ylabel": "overlap of layer 1"}
    settings["title"] = rf"{_TWO_LAYERS}, $\alpha = {alpha:g}$"
    data = joined(frames)
    summary = f"largest error estimate {data['error_estimate'].max():.1e}, {status_counts(data['status'])}"
    return Part([Axis(series, 2, settings, legend={"loc": "upper left"})], [data], [summary])
