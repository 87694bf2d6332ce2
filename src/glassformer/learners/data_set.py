"""What a learner is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.core.checkpoints import Checkpoint
from glassformer.core.checks import require_integer
from glassformer.core.errors import DataError
from glassformer.core.estimate import Array
from glassformer.learners.data_arrays import first_bad
from glassformer.learners.training_history import Snapshots
from glassformer.models.base import Model
from glassformer.priors.base import Side


@dataclass(frozen=True)
class DataSet:
    """Inputs and their labels, and what else is given to who learns from them.

    Args:
        design: inputs, of the kind that the model sees; of several instances the first.
        labels: as the channel draws them, shape (samples, ...).
        seed: of everything random in the learner.
        checkpoint: where to continue from and to save to.
        side: side information on the signal, where the model has any.
        teacher: the true signal, for errors along the way.

    Raises:
        DataError: labels are not one per sample, or not finite.
        ParameterError: the seed is no integer >= 0.

    Example:
        >>> from glassformer import BilinearSequenceRegression, Ridge
        >>> rng, size = np.random.default_rng(0), BilinearSequenceRegression(rho=0.3, noise=0.1).at_size(20)
        >>> design = size.design.sample(400, size.input_shape, rng)
        >>> signal = size.model.prior.sample(design.signal_shape, rng)
        >>> data = DataSet(design, size.model.channel.sample(design.forward(signal, 0), rng))
        >>> reached = Ridge().learn(size.model, data)
        >>> str(reached.status), reached.estimates.shape
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
            raise DataError("y", np.shape(self.labels), f"one label of each of {self.design.samples} samples")
        if not np.all(np.isfinite(self.labels)):
            raise DataError("y", first_bad("y", np.asarray(self.labels)), "finite entries")

    @property
    def rng(self) -> np.random.Generator:
        """The beginning of what is random in the learner."""
        return np.random.default_rng([self.seed, 3])

    def followed(self, model: Model, estimate: Array) -> dict[str, Any]:
        """What is worth following of an estimate on its way; nothing without a teacher."""
        if self.teacher is None:
            return {}
        snapshots = Snapshots(model, self.teacher)
        snapshots.take(estimate)
        return snapshots.developed()[0]
