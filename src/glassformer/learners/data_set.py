"""Data sets, the input of learners, and errors of estimates during a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.channels.label_errors import new_samples, squared_errors_on
from glassformer.channels.labelling import is_predictable
from glassformer.core.checkpoints import Checkpoint
from glassformer.core.checks import require_integer
from glassformer.core.errors import DataError
from glassformer.core.estimate import Array
from glassformer.core.random_streams import random_stream
from glassformer.learners.data_validation import first_non_finite
from glassformer.models.base import Model
from glassformer.models.comparison import Comparison, Inner, compare
from glassformer.priors.base import Side


@dataclass(frozen=True)
class DataSet:
    """Inputs and labels, and optional inputs of a learner.

    Args:
        design: inputs of the model's design class; the first instance is used.
        labels: labels as the channel draws them, shape (samples, ...).
        seed: seed of all random numbers of the learner.
        checkpoint: checkpoint to continue from and to save to.
        side: side information on the signal, for models that have it.
        teacher: the true signal, for errors during the run.

    Raises:
        DataError: the number of labels is not that of the samples, or labels are not finite.
        ParameterError: the seed is not an integer >= 0.

    Example:
        >>> from glassformer import BilinearSequenceRegression, Ridge
        >>> rng, size = np.random.default_rng(0), BilinearSequenceRegression(rho=0.3, noise=0.1).at_size(20)
        >>> design = size.design.sample(400, size.input_shape, rng)
        >>> signal = size.model.prior.sample(design.signal_shape, rng)
        >>> data = DataSet(design, size.model.channel.sample(design.forward(signal, 0), rng))
        >>> result = Ridge().learn(size.model, data)
        >>> str(result.status), result.estimates.shape
        ('converged', (1, 20, 20))
    """

    design: Any
    labels: Array
    seed: int = 0
    checkpoint: Checkpoint | None = None
    side: Side | None = None
    teacher: Array | None = None

    def __post_init__(self) -> None:
        require_integer("seed", self.seed, 0)
        if np.shape(self.labels)[:1] != (self.design.samples,):
            raise DataError("y", np.shape(self.labels), f"one label for each of {self.design.samples} samples")
        if not np.all(np.isfinite(self.labels)):
            raise DataError("y", first_non_finite("y", np.asarray(self.labels)), "finite entries")

    @property
    def rng(self) -> np.random.Generator:
        """A new generator of the learner's random numbers, in its initial state."""
        return random_stream(self.seed, 3)

    def errors_of(self, model: Model, estimate: Array) -> dict[str, Any]:
        """Return the errors of an estimate by name, as in a history; empty without a teacher."""
        if self.teacher is None:
            return {}
        history = ErrorHistory(model, self.teacher)
        history.append(estimate)
        return history.entries()[0]


class ErrorHistory:
    """Errors of the estimates during a run.

    Errors on labels are computed at the end for all steps in one call, as a call per step takes as long as a step.
    """

    def __init__(self, model: Model, teacher: Array | None) -> None:
        self._model, self._teacher, self._comparisons = model, teacher, list[Comparison]()

    def clear(self) -> None:
        """Remove all estimates, at the beginning of another attempt."""
        self._comparisons.clear()

    def append(self, estimate: Array, variance: Array | None = None) -> None:
        """Add the errors of an estimate with its claimed covariance; does nothing without a teacher."""
        if self._teacher is not None:
            self._comparisons.append(
                compare(self._model.prior, self._model.channel.labels.row_symmetries, estimate, self._teacher, variance)
            )

    def entries(self) -> list[dict[str, Any]]:
        """Return the errors of every estimate, by name."""
        if not self._model.overlap_shape:
            return [{"error": one.errors["error"]} for one in self._comparisons]
        rows = [{name: one.row_columns[name] for name in ("row_error", "cosine")} for one in self._comparisons]
        channel = self._model.channel
        if not is_predictable(channel) or not rows:
            return rows
        inner = Inner(*map(np.array, zip(*(one.inner for one in self._comparisons), strict=True)))
        bayes, plugin = squared_errors_on(channel, new_samples(channel, *inner[:3]), inner.claimed)
        return [
            {**row, "prediction_error": float(best), "plugin_error": float(direct)}
            for row, best, direct in zip(rows, bayes, plugin, strict=True)
        ]
