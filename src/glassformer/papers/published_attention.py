"""Published data of attention-indexed models (arXiv:2506.01582), recognised by their file names.

Message passing and gradient descent have the same columns. Files are therefore named after what they hold:
``ALGORITHM_CHANNEL_T2_rho0.5_d200.csv``, without an algorithm for state evolution.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas

from glassformer.core.accuracy import Accuracy
from glassformer.core.estimate import Array
from glassformer.learners.gamp import MessagePassing
from glassformer.models import AttentionIndexed
from glassformer.papers.curves import ComputedCurve, Overlay
from glassformer.papers.drawing import Series, legend_entry
from glassformer.papers.published import csv_files
from glassformer.verbs.limits import limits
from glassformer.verbs.simulate import simulate

_NAME = re.compile(r"(?:(\w+)_)?(softmax|hardmax)_T(\d+)_rho(\d+(?:\.\d+)?)(?:_d(\d+))?")
# What an algorithm is called, and its marks.
_LOOKS = {"": ("theory", "."), "amp": ("AMP", "x"), "gd": ("GD", "2"), "averaged_gd": ("average of GD", "+")}
# Most points of state evolution that are compared and drawn.
_POINTS = 32
# Errors above that without data, of descent from few samples, are not drawn.
_SHOWN = 1.0
_NOT_OPTIMAL = (
    "published theory of hardmax attention is not Bayes-optimal: its derivative of log Phi_2(h, k; r) in h is the "
    "bivariate density over Phi_2, in place of phi(h) Phi((k - r h)/sqrt(1 - r^2))/Phi_2"
)
# Where message passing shows it: width, sample ratio, token dimension and number of runs.
_WIDTH, _RATIO, _DIMENSION, _INSTANCES = 0.5, 0.22, 50, 4


class PublishedErrors(NamedTuple):
    """Errors of one file.

    Attributes:
        algorithm: a key of the looks: empty for state evolution.
        model: of the data.
        d: token dimension of runs in words; empty if the name of the file does not have it.
        rows: sample ratio ``alpha``, error ``mmse``, and ``mmse_std`` of runs.
    """

    algorithm: str
    model: AttentionIndexed
    d: str
    rows: pandas.DataFrame


def load_errors(folder: Path) -> list[PublishedErrors]:
    """Return the errors of each file below ``folder`` that is named after what it holds.

    Raises:
        ParameterError: ``folder`` is not a folder.
    """
    found = []
    for path in csv_files(folder):
        match = _NAME.fullmatch(path.stem)
        if match is None or (match[1] or "") not in _LOOKS:
            continue
        rows = pandas.read_csv(path)
        if {"alpha", "mmse"} <= set(rows.columns):
            model = AttentionIndexed(float(match[4]), int(match[3]), match[2])
            found.append(PublishedErrors(match[1] or "", model, f", d = {match[5]}" if match[5] else "", rows))
    return found


def compare_errors(
    folder: Path, computed: Sequence[ComputedCurve], algorithms: Sequence[str] = tuple(_LOOKS)
) -> Overlay:
    """Errors of these algorithms, drawn where a curve has their width and tokens, and compared with the optimum."""
    first, curves = computed[0].curve.model, {}
    for k, one in enumerate(computed):
        parameters = one.curve.model.parameters
        curves[parameters["rho"], parameters["tokens"]] = k, one.curve
    tokens = {count for _, count in curves}
    series: list[Series] = []
    entries, lines = {}, []
    for found in load_errors(folder):
        model, (name, marker) = found.model, _LOOKS[found.algorithm]
        if found.algorithm not in algorithms or _channel(model) != _channel(first) or model.tokens not in tokens:
            continue
        theory = not found.algorithm
        rows = found.rows[:: -(-len(found.rows) // _POINTS)] if theory else found.rows
        lines += _compared(found, rows, name)
        if (model.rho, model.tokens) not in curves:
            continue
        k, curve = curves[model.rho, model.tokens]
        rows = rows[rows["mmse"] <= _SHOWN]
        error = None if theory else rows.get("mmse_std")
        look = {"ms": 3 if theory else 5, "lw": 0.8, "zorder": 3}
        x = curve.scale * rows["alpha"].to_numpy()
        series.append(Series(x, rows["mmse"], "k" if theory else k, marker, None, error, look))
        wrong = rf", $\rho = {model.rho:g}$: not optimal" if theory and _channel(model) == "hardmax" else ""
        entries[name] = legend_entry(f"published {name}{wrong}", marker, ms=4)
    if lines and _channel(first) == "hardmax" and "" in algorithms:
        lines += [_NOT_OPTIMAL, _proof(folder)]
    return Overlay([*series, *entries.values()], lines)


def _compared(found: PublishedErrors, rows: pandas.DataFrame, name: str) -> list[str]:
    """Compare published errors with Bayes-optimal ones at the same sample ratios."""
    alpha, theirs = rows["alpha"].to_numpy(), rows["mmse"].to_numpy()
    ours = limits(found.model, alpha, throw=False)["error"]
    model = found.model
    head = f"published {name}, {_channel(model)}, T = {model.tokens}, rho = {model.rho:g}{found.d}: "
    if found.algorithm:
        # Close to perfect recovery the ratio of two small errors says nothing.
        known = ours > 0.05
        if not known.any():
            return []
        ratio = theirs[known] / ours[known]
        span = f"alpha = {alpha[known].min():.3g} to {alpha[known].max():.3g}"
        return [
            f"{head}{ratio.min():.2f} to {ratio.max():.2f} Bayes-optimal errors, median {np.median(ratio):.2f}, {span}"
        ]
    gap = np.abs(ours - theirs)
    worst = int(np.argmax(gap))
    line = f"{head}largest difference {gap[worst]:.1e} at alpha = {alpha[worst]:.3g}, median {np.median(gap):.1e}"
    lines = [f"{line} ({len(alpha)} points)"]
    if _channel(model) == "hardmax":
        powers = f"{_power(alpha, theirs):.2f} published, {_power(alpha, ours):.2f} here"
        lines.append(f"  power of alpha by which the error falls at the largest ratios: {powers}")
    return lines


def _channel(model: AttentionIndexed) -> str:
    return str(model.parameters["channel"])


def _power(alpha: Array, error: Array) -> float:
    """Return the slope of the logarithm of the error at the last three sample ratios."""
    return float(np.polyfit(np.log(alpha[-3:]), np.log(error[-3:]), 1)[0])


def _proof(folder: Path) -> str:
    """Run message passing where it shows that published theory is above the optimum."""
    model = AttentionIndexed(_WIDTH, 2, "hardmax")
    learner = MessagePassing().at_accuracy(Accuracy(tolerance=2e-3, max_iterations=800))
    runs = simulate(model, [_RATIO], learner, d=_DIMENSION, instances=_INSTANCES)
    measured, error = float(runs["error"][0]), float(runs["standard_error"][0])
    theirs = [one.rows for one in load_errors(folder) if not one.algorithm and one.model == model]
    known = f", published theory {np.interp(_RATIO, theirs[0]['alpha'], theirs[0]['mmse']):.3f}" if theirs else ""
    return (
        f"proof: at rho = {_WIDTH:g}, alpha = {_RATIO:g} the mean of {_INSTANCES} runs of message passing at d = "
        f"{_DIMENSION} is {measured:.3f} +- {error:.3f}, theory here {limits(model, [_RATIO])['error'][0]:.3f}{known}"
    )
