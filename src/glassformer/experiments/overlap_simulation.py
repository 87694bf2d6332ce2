"""Message passing on simulated data for models of several rows, next to theory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from glassformer.core.checkpoints import Checkpoint
from glassformer.core.errors import IncompatibleError
from glassformer.core.integral import Array
from glassformer.core.settings import Descent, MultiPass
from glassformer.core.solution import Status
from glassformer.experiments.instances import Experiment, Simulation, collected, drawn, standard_error
from glassformer.learners.algorithms.gamp_step import GampState, Side
from glassformer.learners.gamp import gamp
from glassformer.models.base import Model
from glassformer.models.channels.multi_index.base import PredictionErrors
from glassformer.models.channels.multi_index.latent import LatentChannel
from glassformer.models.channels.multi_index.line_integrals import LineChannel
from glassformer.theory.state_evolution import state_evolution


@dataclass(frozen=True)
class RowsInstance:
    r"""One run on a model of several rows.

    Attributes:
        seed: seed of teacher, inputs and noise.
        error: mean over rows of ``row_error``.
        row_error: squared error of each row, up to signs that labels are blind to; 1 on average before any data.
        overlap: inner products of estimated with true rows, shape (P, P).
        cosine: cosine similarity of each estimated row with its true one.
        prediction_error: squared error on new labels of their average over the claimed posterior.
        plugin_error: squared error on new labels of those that the estimated rows would have.
        claimed_error: the algorithm's own estimate of ``error``; NaN where it makes none.
        nishimori_ratio: measured square over measured slope of the score, 1 for a run that can be trusted; NaN for
            algorithms without scores.
        status: how the run ended.
        iterations: steps taken.
        damping: damping at the end.
        history: ``cosine``, ``row_error``, ``prediction_error`` and ``plugin_error`` after every step; for stochastic
            gradient descent several times per pass over the data, with ``passes`` made.
    """

    seed: int
    error: float
    row_error: Sequence[float]
    overlap: Array
    cosine: Sequence[float]
    prediction_error: float
    plugin_error: float
    claimed_error: float
    nishimori_ratio: float
    status: Status
    iterations: int
    damping: float
    history: Sequence[dict[str, Any]]


def simulate_rows(experiment: Experiment) -> Simulation:
    """What :func:`~glassformer.experiments.simulation.simulate` returns for a model of several rows."""
    finite, settings = experiment.size.model, experiment.settings

    def learn(design: Any, seed: int, checkpoint: Checkpoint) -> RowsInstance:
        if experiment.algorithm == "sgd":
            return _descend(finite, design, seed, settings, checkpoint)
        return _learn(finite, design, seed, settings)

    runs = experiment.runs(RowsInstance, learn)
    theory = state_evolution(finite, experiment.realised)
    predicted = finite.channel.prediction_errors(theory.value)
    rows = collected(runs, "row_error")
    errors = rows.mean(axis=2)
    optimal = np.trace(theory.value, axis1=1, axis2=2) / finite.prior.rows
    own = optimal if experiment.algorithm == "gamp" else np.full(len(optimal), np.nan)
    columns = {
        "error": errors.mean(axis=1),
        "standard_error": standard_error(errors),
        "theory": own,
        "theory_bayes_optimal": optimal,
        "row_error": rows.mean(axis=1),
        "row_standard_error": np.stack([standard_error(rows[:, :, k]) for k in range(finite.prior.rows)], axis=1),
        "row_theory": np.diagonal(theory.value, axis1=1, axis2=2),
        "overlap": collected(runs, "overlap").mean(axis=1),
        "cosine": collected(runs, "cosine").mean(axis=1),
        **_prediction_columns(runs, predicted),
        "theory_error_estimate": theory.error_estimate,
    }
    return experiment.table(columns, runs)


def _prediction_columns(runs: list[list[RowsInstance]], theory: PredictionErrors) -> dict[str, Array]:
    columns = {}
    for name, expected in (("prediction", theory.bayes), ("plugin", theory.plugin)):
        values = collected(runs, f"{name}_error")
        columns[f"{name}_error"] = values.mean(axis=1)
        columns[f"{name}_standard_error"] = standard_error(values)
        columns[f"{name}_theory"] = expected.value
    return columns


def _learn(model: Model, design: Any, seed: int, settings: Descent | None) -> RowsInstance:
    shape = (model.prior.rows, *design.row_shape)
    signal, labels = drawn(model, design, shape, seed)
    history: list[dict[str, Any]] = []

    def follow(state: GampState) -> None:
        measured = _measured(model, state.estimate.signal, signal, state.estimate.variance)
        history.append({name: value for name, value in measured.items() if name != "overlap"})

    side = None
    if model.prior.side > 0:
        noise = np.random.default_rng([seed, 3]).standard_normal(shape)
        side = Side(model.prior.side, np.sqrt(model.prior.side) * signal + noise)
    solution = gamp(model, design, labels, settings, seed, side=side, watch=follow)
    measured = _measured(model, solution.value[0], signal, solution.extra["variance"][0])
    return RowsInstance(
        seed=seed,
        error=float(np.mean(measured["row_error"])),
        **measured,
        claimed_error=float(solution.error_estimate[0]),
        nishimori_ratio=float(solution.extra["nishimori_ratio"][0]),
        status=solution.status[0],
        iterations=int(solution.iterations[0]),
        damping=float(solution.extra["damping"][0]),
        history=history,
    )


def _descend(model: Model, design: Any, seed: int, settings: MultiPass, checkpoint: Checkpoint) -> RowsInstance:
    from glassformer.learners.algorithms.row_descent import row_descent

    shape = (model.prior.rows, *design.row_shape)
    signal, labels = drawn(model, design, shape, seed)
    rng, unclaimed = np.random.default_rng([seed, 3]), np.zeros((model.prior.rows,) * 2)
    start = (1.0 if settings.init == "prior" else settings.small) * rng.standard_normal(shape)

    def follow(weights: Array) -> dict[str, Any]:
        measured = _measured(model, weights, signal, unclaimed)
        return {name: value for name, value in measured.items() if name != "overlap"}

    found = row_descent(design, labels, _link_of(model), start, settings, rng, follow, checkpoint)
    measured = _measured(model, found.weights, signal, unclaimed)
    return RowsInstance(
        seed=seed,
        error=float(np.mean(measured["row_error"])),
        **measured,
        claimed_error=float("nan"),
        nishimori_ratio=float("nan"),
        status=found.status,
        iterations=found.steps,
        damping=0.0,
        history=found.records,
    )


def _link_of(model: Model) -> Callable[[Any], Any]:
    """The label as a traceable function of the fields."""
    if not isinstance(model.channel, LatentChannel):
        raise IncompatibleError("algorithm sgd needs labels of several projections: use gamp for a single one")
    if isinstance(model.channel, LineChannel) and model.channel.discrete:
        raise IncompatibleError("algorithm sgd needs labels that vary smoothly with the weights: use gamp")
    return cast("Callable[[Any], Any]", model.channel.functions.label)


def _measured(model: Model, estimate: Array, signal: Array, variance: Array) -> dict[str, Any]:
    """Errors, overlaps and cosines of an estimate, with the signs that make the overlaps largest."""
    overlap = model.prior.gram(estimate, signal)
    signs = max(model.channel.symmetries, key=lambda s: float(s @ np.diag(overlap)))
    squares = model.prior.gram(estimate, estimate), model.prior.gram(signal, signal)
    prediction, plugin = model.channel.errors_of(squares[0], overlap, squares[1], variance)
    own, true = (np.diag(square) for square in squares)
    aligned = signs[:, None] * overlap
    scale = np.sqrt(np.maximum(own * true, 1e-300))
    return {
        "row_error": own + true - 2 * np.diag(aligned),
        "overlap": aligned,
        "cosine": np.diag(aligned) / scale,
        "prediction_error": prediction,
        "plugin_error": plugin,
    }
