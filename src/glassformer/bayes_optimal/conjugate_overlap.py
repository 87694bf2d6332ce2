"""Conjugate overlaps at given overlaps, to a requested accuracy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from glassformer.core.checks import require_arguments, require_integer
from glassformer.core.display import DisplayMixin
from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array, Estimate
from glassformer.core.progress import advance, progress
from glassformer.models.base import Model, require_theory
from glassformer.numerics.quasi_random import confidence_factor

if TYPE_CHECKING:
    import pandas

    from glassformer.channels.base import Inference

# Sampled data points per replica, at most: a limit of time and memory (chosen by trial).
_MOST = 1 << 18
# The accuracy of diagonal entries that are nearly zero is relative to this, per unit of alpha and column.
_SMALLEST = 1e-6
# The number of points aims at a slightly smaller error than requested: the error estimate has an error of about 20 %.
_SAFETY = 1.2


@dataclass(frozen=True, eq=False)
class ConjugateOverlap(DisplayMixin):
    r"""The conjugate overlap and its error, as :func:`conjugate_overlap` returns them.

    Attributes:
        value: :math:`\hat Q`, shape (P, P).
        error_estimate: shape (P, P); with a confidence of 95 % where averages are sampled.
        points: sampled data points per replica, of eight.
        accuracy: largest error estimate on the diagonal, relative to its entry.
        reached: whether the requested accuracy is reached.
    """

    value: Array
    error_estimate: Array
    points: int
    accuracy: float
    reached: bool

    drawing = "plot_numbers"

    @property
    def title(self) -> str:
        """Heading of the displayed result."""
        return "conjugate overlap"

    @property
    def remarks(self) -> tuple[str, ...]:
        """Statement of the accuracy."""
        text = f"relative error estimate {self.accuracy:.2g} on the diagonal, with {self.points} points per replica"
        return (
            text
            if self.reached
            else f"{text}: less accurate than requested; more points (most) reduce the sampling error",
        )

    def to_pandas(self) -> pandas.DataFrame:
        """Return a data frame with one row per entry."""
        import pandas

        names = [f"row {i + 1}, column {j + 1}" for i, j in np.ndindex(self.value.shape)]
        columns = {"value": self.value.ravel(), "error_estimate": self.error_estimate.ravel()}
        return pandas.DataFrame({"quantity": names, **columns})


def conjugate_overlap(
    model: Model, overlap: ArrayLike, alpha: float = 1.0, accuracy: float = 1e-3, most: int = _MOST
) -> ConjugateOverlap:
    r"""Return one step of state evolution, :math:`\hat Q(Q)`, to a requested accuracy.

    Equation :eq:`matrix-state-evolution` of the documentation.

    .. math:: \hat Q = \frac{\alpha}{\mathrm{degrees}}\,E\sum_l g_l g_l^T.

    Args:
        model: prior and channel of ``P`` rows; a scalar model has one.
        overlap: ``Q``, shape (P, P), or its diagonal, shape (P,), or for one row a number; positive
            semi-definite, below the power of the rows.
        alpha: sample ratio, finite and > 0.
        accuracy: requested error estimate of every diagonal entry, relative to the entry.
        most: largest number of data points per replica; ``reached`` tells whether it suffices.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> from glassformer import DeepAttention
        >>> found = conjugate_overlap(DeepAttention(depth=1), [0.5], accuracy=0.03)
        >>> found.reached, found.value.shape
        (True, (1, 1))
    """
    require_arguments(conjugate_overlap, locals())
    require_integer("most", most)
    require_theory(model)
    matrix = _checked_overlap(model, overlap)
    if not (np.isfinite(alpha) and alpha > 0):
        raise ParameterError("alpha", alpha, "finite and > 0")
    if not (np.isfinite(accuracy) and accuracy > 0):
        raise ParameterError("accuracy", accuracy, "finite and > 0")
    prior = model.prior
    rate, variance = alpha / prior.degrees, prior.self_overlap - matrix
    # Sampled posteriors have a bias that more data points do not remove, so that more work is spent on each point.
    inference = model.channel.inference.high_accuracy()
    points = inference.points

    def information(inference: Inference) -> Estimate:
        averages = inference.averages(variance[None])
        confidence = confidence_factor(averages.replicas.shape[1]) if inference.sampled else 1.0
        return Estimate(rate * averages.information.value[0], confidence * rate * averages.information.error[0])

    def accuracy_of(found: Estimate) -> float:
        floor = _SMALLEST * rate * model.channel.fields.columns
        return float(np.max(np.diag(found.error) / np.maximum(np.diag(found.value), floor)))

    with progress(f"conjugate overlap {model.name}", points):
        while True:
            found = information(inference.with_points(points))
            worst = accuracy_of(found)
            if worst <= accuracy or 2 * points > most or not inference.sampled:
                break
            # Errors fall with the root of the number of points. A larger set of points is a new sample of the data.
            wanted = points * (_SAFETY * worst / accuracy) ** 2
            spent, points = points, min(max(2 * points, 1 << int(np.ceil(np.log2(wanted)))), 1 << int(np.log2(most)))
            advance(spent, points)
    with_more_noise = inference.with_more_noise
    if with_more_noise is not None:
        # Noiseless labels are regularised by a small noise; the error of this is the change with more noise.
        noisier = information(with_more_noise.with_points(points))
        found = Estimate(found.value, found.error + np.abs(noisier.value - found.value))
        worst = accuracy_of(found)
    return ConjugateOverlap(*found, points, worst, worst <= accuracy)


def _checked_overlap(model: Model, overlap: ArrayLike) -> Array:
    prior = model.prior
    size = prior.rows
    given = np.asarray(overlap, dtype=float)
    given = given.reshape(1) if size == 1 and given.ndim == 0 else given
    matrix = np.diag(given) if given.shape == (size,) else given
    if matrix.shape != (size, size) or not np.all(np.isfinite(matrix)) or not np.allclose(matrix, matrix.T):
        raise ParameterError("overlap", overlap, f"a symmetric matrix of shape ({size}, {size}), or its diagonal")
    smallest = np.linalg.eigvalsh(matrix)[0]
    if smallest < -1e-12 or np.linalg.eigvalsh(prior.self_overlap - matrix)[0] <= 0:
        raise ParameterError("overlap", overlap, "positive semi-definite, and below the power of the rows")
    return np.asarray(matrix)
