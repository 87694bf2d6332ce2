"""The task of a solver: one signal, or one signal per class, to be learned from scaled inputs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glassformer.core.estimate import Array


class FitTask(NamedTuple):
    """A signal to be learned.

    Attributes:
        design: design of the scaled inputs.
        tokens: scaled inputs, shape (n, L, d).
        labels: +1 and -1, or numbers of mean zero and variance one.
        weights: of the samples, > 0.
        equal: the same number for samples that are equal.
        groups: the same number for samples that belong to the same fold: equal ones, or those of one group.
        intercept: True to fit a constant.
        loss: of labels and fields.
    """

    design: Any
    tokens: Array
    labels: Array
    weights: Array
    equal: NDArray[np.int64]
    groups: NDArray[np.int64]
    intercept: bool
    loss: Any

    def merged(self) -> FitTask:
        """Return the task with equal samples merged into one with their total weight: they are left out together."""
        _, first, number = np.unique(self.equal, return_index=True, return_inverse=True)
        if len(first) == len(number):
            return self
        once = np.isin(np.arange(len(number)), first)
        return self._replace(
            design=self.design.rows(once),
            tokens=self.tokens[once],
            labels=self.labels[once],
            weights=np.asarray(np.bincount(number, self.weights)[number[once]], dtype=float),
            equal=self.equal[once],
            groups=self.groups[once],
        )
