"""Errors of estimates on the way to the last one."""

from __future__ import annotations

from typing import Any

import numpy as np

from glassformer.channels.label_errors import new_samples, squared_errors_on
from glassformer.core.estimate import Array
from glassformer.models.base import Model
from glassformer.models.comparison import Comparison, Inner, compare


class Snapshots:
    """Estimates on their way, compared with the truth at once; errors on labels are those of all of them together.

    One call for hundreds of steps: one each takes as long as the steps do.
    """

    def __init__(self, model: Model, teacher: Array | None) -> None:
        self._model, self._teacher, self._taken = model, teacher, list[Comparison]()

    def clear(self) -> None:
        """Forget what was taken: a new attempt begins."""
        self._taken.clear()

    def take(self, estimate: Array, variance: Array | None = None) -> None:
        """Compare one more, with the covariance that it claims; nothing without a truth."""
        if self._teacher is not None:
            self._taken.append(compare(self._model, estimate, self._teacher, variance))

    def developed(self) -> list[dict[str, Any]]:
        """One entry for each, of what is worth following."""
        if not self._model.overlap_shape:
            return [{"error": found.errors["error"]} for found in self._taken]
        rows = [{name: found.of_rows[name] for name in ("row_error", "cosine")} for found in self._taken]
        channel = self._model.channel
        if not channel.predictable or not rows:
            return rows
        inner = Inner(*map(np.array, zip(*(found.inner for found in self._taken), strict=True)))
        bayes, plugin = squared_errors_on(channel, new_samples(channel, *inner[:3]), inner.claimed)
        return [
            {**row, "prediction_error": float(one), "plugin_error": float(other)}
            for row, one, other in zip(rows, bayes, plugin, strict=True)
        ]
