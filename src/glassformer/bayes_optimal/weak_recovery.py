r"""Weak recovery: sample ratios from which on the uninformed start, and message passing, find a non-zero overlap.

:func:`weak_recovery` lists the thresholds of any model.

- Side information, or labels with a non-zero mean score (a link that is not even, or inputs that hidden states shift),
  give an overlap at any :math:`\alpha > 0`.
- **One row with even labels**: the limit of the equation of state at vanishing overlap,
  :math:`\alpha_c = \lim_{\hat q\to0}\hat q/E g^2(\mathrm{MMSE}(\hat q))`. A prior with an onset needs an information at
  zero overlap above it.
- **Several rows**: subspaces are found one after the other (:mod:`~glassformer.bayes_optimal.staircase`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from glassformer.bayes_optimal.equation_of_state import equation_of_state, natural_scale
from glassformer.bayes_optimal.instability import (
    DEGENERATE,
    STANDARD_ERRORS,
)
from glassformer.bayes_optimal.staircase import information_matrix, known_at_any_ratio, weak_recovery_steps
from glassformer.bayes_optimal.subspaces import group_named
from glassformer.bayes_optimal.threshold_results import Threshold
from glassformer.core.estimate import Array
from glassformer.models.base import Model

_UNINFORMED_UNSTABLE = "The uninformed fixed point becomes unstable"
# Conjugate overlap, per degree of freedom, from which the limit at vanishing overlap is extrapolated.
_VANISHING = 1e-5


def weak_recovery(model: Model) -> list[Threshold]:
    """Return the thresholds of weak recovery in increasing order; models of several rows have one for each subspace.

    Equation :eq:`weak-recovery` of the documentation.
    """
    prior = model.prior
    if prior.side > 0:
        note = "Weak recovery at any alpha > 0: side information correlates with every direction"
        return [Threshold("weak_recovery", 0.0, 0.0, note, **_subspace_fields(model, np.eye(prior.rows)))]
    if model.channel.labels.even:
        return [_even_row_threshold(model)] if model.has_curve else _subspace_thresholds(model, 1)
    if prior.weak_recovery_onset > 0:
        return [_threshold_beyond_onset(model)]
    known = known_at_any_ratio(model) if prior.rows > 1 else np.eye(1)
    if not known.any():
        return _subspace_thresholds(model, 1)
    cause = "the link is not an even function"
    if np.any(model.channel.fields.shift_square):
        cause = "hidden states shift the inputs, or the link is not an even function"
    note = f"Weak recovery at any alpha > 0: {cause}"
    first = Threshold("weak_recovery", 0.0, 0.0, note, **_subspace_fields(model, known))
    return [first, *(_subspace_thresholds(model, 2) if prior.rows > 1 and not model.has_curve else [])]


def _threshold_beyond_onset(model: Model) -> Threshold:
    """Return the ratio at which the largest eigenvalue of the information at zero overlap reaches the prior's onset."""
    prior = model.prior
    value, error = information_matrix(model, np.eye(prior.rows))
    values, vectors = np.linalg.eigh(np.diag(np.diag(value)) if prior.diagonal else prior.allowed(value))
    uncertainty = float(np.linalg.norm(error))
    leading = vectors[:, values >= (1 - DEGENERATE) * values[-1] - STANDARD_ERRORS * uncertainty]
    alpha = prior.degrees * prior.weak_recovery_onset / float(values[-1])
    direction = _subspace_fields(model, leading @ leading.T)
    note = f"{direction['layer'] or 'a subspace'} becomes learnable first" if prior.rows > 1 else _UNINFORMED_UNSTABLE
    return Threshold("weak_recovery", alpha, alpha * uncertainty / float(values[-1]), note, **direction)


def _subspace_fields(model: Model, matrix: Array) -> dict[str, Any]:
    """Return the fields ``layer`` and ``subspace`` of a threshold for the range of a matrix; empty for one row."""
    if not model.overlap_shape:
        return {}
    subspace = matrix / np.trace(matrix)
    return {"layer": group_named(subspace, model.row_groups), "subspace": subspace.tolist()}


# --- one row ----------------------------------------------------------------------------------------------------------


def _even_row_threshold(model: Model) -> Threshold:
    """Return the limit of the equation of state at vanishing overlap, by Richardson extrapolation.

    The equation of state is analytic at zero overlap.
    """
    if is_hidden(model):
        note = "No weak recovery at finite alpha: the generative exponent is above 2"
        return Threshold("weak_recovery", np.inf, 0.0, note, **_subspace_fields(model, np.eye(1)))
    if model.prior.weak_recovery_onset > 0:
        note = "No weak recovery on this sample scale: even labels carry no information at zero overlap"
        return Threshold("weak_recovery", np.inf, 0.0, note)
    curve = equation_of_state(model, _VANISHING * natural_scale(model) * np.array([1.0, 2.0, 4.0]))
    linear = 2 * curve.alpha[:2] - curve.alpha[1:]
    value = float((4 * linear[0] - linear[1]) / 3)
    error = float(abs(value - linear[0]) + curve.error[0])
    return Threshold("weak_recovery", value, error, _UNINFORMED_UNSTABLE, **_subspace_fields(model, np.eye(1)))


def is_hidden(model: Model) -> bool:
    """Return whether the information at small overlap vanishes faster than the overlap."""
    exponents = model.channel.labels.exponents
    return exponents is not None and exponents.generative > 2 and model.prior.side == 0


# --- several rows -----------------------------------------------------------------------------------------------------


def _subspace_thresholds(model: Model, first_number: int) -> list[Threshold]:
    """Return the thresholds at positive sample ratios, numbered from ``first_number`` on."""
    entries = []
    for number, step in enumerate(weak_recovery_steps(model), first_number):
        name = "weak_recovery" if number == 1 else f"weak_recovery_{number}"
        direction: dict[str, Any] = {}
        if not np.isfinite(step.alpha):
            what = "No direction grows"
            if np.isnan(step.alpha):
                what = "Not determined, averages are too rough: use more data points (points)"
            note = f"{what}; within the error nothing is learnable up to alpha = {step.silent:.2g}"
        elif step.degenerate:
            note = "Several directions become learnable at the same alpha, within the error"
        else:
            direction = _subspace_fields(model, step.matrix)
            note = f"{direction['layer'] or 'another direction'} becomes learnable"
        entries.append(Threshold(name, step.alpha, step.error_estimate, note, **direction))
    return entries
