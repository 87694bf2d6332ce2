"""Bayes-optimal limits, free entropy and prediction errors of models of several rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from glassformer.core.integral import Array
from glassformer.core.results import Table
from glassformer.core.settings import Iteration
from glassformer.core.solution import Solution, Status
from glassformer.models.matrix import MatrixModel
from glassformer.theory.free_entropy import overlap_free_entropy
from glassformer.theory.overlap_evolution import coarse_evolution, overlap_evolution

# Relative size from which on what a prior neglects is worth a note.
_NOTED = 0.1
# Fixed points whose covariances differ by less than this, or than this many errors, are one.
_DISTINCT, _ERRORS = 0.02, 5.0


def overlap_limits(model: MatrixModel, alpha: Array, settings: Iteration | None, throw: bool) -> Table:
    """What :func:`~glassformer.theory.limits.limits` returns for a model of several rows."""
    uninformed = overlap_evolution(model, alpha, "uninformed", settings)
    other = coarse_evolution(model, alpha, "informed", settings)
    candidates = np.flatnonzero(_apart(uninformed, other))
    if candidates.size:
        # What few points hold for a second fixed point must be one with all of them.
        found = overlap_evolution(model, alpha[candidates], other.value[candidates], settings)
        other = replace(other, extra=uninformed.extra).overlaid(candidates, found)
    distinct = _apart(uninformed, other) & np.isin(np.arange(len(alpha)), candidates)
    informed, best, q_hat = uninformed.value.copy(), uninformed.value.copy(), uninformed.extra["q_hat"].copy()
    # A second fixed point that was seen but did not settle is neither there nor not there.
    informed[[k for k in candidates.tolist() if not other.status[k].ok]] = np.nan
    if distinct.any():
        informed[distinct] = other.value[distinct]
        beyond = other.extra["q_hat"][distinct]
        phi = [
            overlap_free_entropy(model, alpha[distinct], conjugate, value[distinct]).value
            for conjugate, value in ((q_hat[distinct], uninformed.value), (beyond, informed))
        ]
        higher = (phi[1] > phi[0])[:, None, None]
        best[distinct] = np.where(higher, informed[distinct], best[distinct])
        q_hat[distinct] = np.where(higher, beyond, q_hat[distinct])
    prediction = model.channel.prediction_errors(best)
    table = Table(
        model=model.name,
        parameters=model.parameters,
        columns={
            "alpha": alpha,
            "error": _mean_error(best),
            "overlap": model.prior.moment - best,
            "row_error": np.diagonal(best, axis1=1, axis2=2),
            "q_hat": q_hat,
            "q_hat_off_diagonal": _off_diagonal(q_hat),
            "prediction_error": prediction.bayes.value,
            "prediction_standard_error": prediction.bayes.error,
            "plugin_error": prediction.plugin.value,
            "plugin_standard_error": prediction.plugin.error,
            "label_noise": np.full(len(alpha), model.channel.label_noise),
            **_last_layer_alone(model, best),
            "algorithmic_error": _mean_error(uninformed.value),
            "informed_error": _mean_error(informed),
            "error_estimate": uninformed.error_estimate,
            "residual": uninformed.residual,
            "iterations": uninformed.iterations.astype(float),
        },
        status=[
            Status.BISTABLE if two and status.ok else status
            for status, two in zip(uninformed.status, distinct, strict=True)
        ],
        notes=_notes(model, _off_diagonal(q_hat)),
    )
    if throw:
        table.raise_unless_converged(accepted=(Status.CONVERGED, Status.BISTABLE))
    return table


def _last_layer_alone(model: MatrixModel, variance: Array) -> dict[str, Array]:
    """Error of the plug-in predictor that has not learned the earlier layers, where there are any."""
    if model.last_layer is None:
        return {}
    return {"plugin_error_last_layer": model.channel.prediction_errors(variance, model.last_layer).plugin.value}


def _notes(model: MatrixModel, off_diagonal: Array) -> list[str]:
    largest = float(np.max(np.abs(off_diagonal)))
    if not model.prior.diagonal or largest < _NOTED:
        return []
    return [
        f"rows are treated one by one: off-diagonal conjugate overlaps, up to {largest:.2g} of the diagonal, left out"
    ]


def _apart(first: Solution, second: Solution) -> Any:
    """Where two fixed points differ by more than sampling and slow convergence explain."""
    gap = np.linalg.norm(first.value - second.value, axis=(1, 2))
    blur = np.where(np.isfinite(second.error_estimate), second.error_estimate, 0.0) + first.error_estimate
    settled = np.array([a.ok and b.ok for a, b in zip(first.status, second.status, strict=True)])
    return settled & (gap > _DISTINCT + _ERRORS * blur)


def _mean_error(variance: Array) -> Array:
    return np.asarray(np.trace(variance, axis1=1, axis2=2) / variance.shape[-1])


def _off_diagonal(matrices: Array) -> Array:
    """Largest entry off the diagonal, relative to those on it, with its sign; zero for a single row."""
    size = matrices.shape[-1]
    if size == 1:
        return np.zeros(len(matrices))
    scale = np.sqrt(np.maximum(np.diagonal(matrices, axis1=1, axis2=2), 1e-300))
    relative = matrices / (scale[:, :, None] * scale[:, None, :])
    flat = relative[:, ~np.eye(size, dtype=bool)]
    place = np.argmax(np.abs(flat), axis=1)
    return np.asarray(np.take_along_axis(flat, place[:, None], axis=1)[:, 0])
