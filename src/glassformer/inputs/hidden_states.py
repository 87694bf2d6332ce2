r"""A finite number of hidden states, each of which shifts the fields of a sample.

With probability :math:`\pi_h` the fields of a sample are :math:`Z = s_h + N(0, I)`. The density of their law with
respect to standard normal fields is

.. math:: D(Z) = \sum_h\pi_h\exp\bigl(\langle s_h, Z\rangle - \tfrac12|s_h|^2\bigr).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from glassformer.core.checks import real_numbers
from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array

# Sums of probabilities may differ from one by rounding, and rarer states are below the accuracy of averages.
_ROUNDING, _RAREST = 1e-9, 1e-9
# Largest entry of a shift: exponentials of larger ones overflow double precision.
_LARGEST = 20.0

Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class HiddenStates:
    """Probabilities and shifts of hidden states.

    Attributes:
        probabilities: shape (H,), positive, of sum one.
        shifts: of the fields, shape (H, P, L).
        labels: label of each state, shape (H,), for labels that are the state itself.

    Example:
        >>> two = HiddenStates(np.full(2, 0.5), np.array([[[-1.0]], [[1.0]]]), np.array([-1.0, 1.0]))
        >>> two.square.tolist(), two.draw(np.array([0.1, 0.7])).tolist()
        ([[1.0]], [0, 1])
    """

    probabilities: Array
    shifts: Array
    labels: Array

    @classmethod
    def of(cls, probabilities: object, shifts: object, labels: object = None) -> HiddenStates:
        """Return checked hidden states.

        Args:
            probabilities: shape (H,), positive numbers of sum one.
            shifts: shape (H, P, L).
            labels: of the states, shape (H,); by default -1 and 1 for two states, and their numbers otherwise.

        Raises:
            ParameterError: shapes do not match, or numbers are out of range.

        Example:
            >>> HiddenStates.of([0.25, 0.75], np.zeros((2, 1, 1))).labels
            array([-1.,  1.])
        """
        weights, moves = real_numbers("weights", probabilities), real_numbers("means", shifts)
        if moves.ndim != 3 or len(moves) < 1:
            raise ParameterError("means", shifts, "numbers of shape (states, rows, tokens)")
        if np.max(np.abs(moves)) > _LARGEST:
            allowed = f"shifts of at most {_LARGEST:g}, in standard deviations of the fields"
            raise ParameterError("means", shifts, allowed)
        if weights.shape != (len(moves),) or np.min(weights) < _RAREST or abs(np.sum(weights) - 1) > _ROUNDING:
            raise ParameterError("weights", probabilities, f"{len(moves)} probabilities > {_RAREST:g} of sum one")
        return cls(weights / np.sum(weights), moves, _labels(len(moves), labels))

    @property
    def count(self) -> int:
        """``H``, the number of states."""
        return len(self.probabilities)

    @cached_property
    def square(self) -> Array:
        r"""Mean square of the shifts over the rows, :math:`\sum_h\pi_hs_hs_h^T`, shape (P, P)."""
        return np.asarray(np.einsum("h,hpl,hql->pq", self.probabilities, self.shifts, self.shifts))

    def draw(self, uniform: Array) -> Indices:
        """Return states drawn by numbers that are uniform in (0, 1)."""
        return _places(np.cumsum(self.probabilities)[None], uniform)

    def log_weights(self, mean: Array, variance: Array | None = None) -> Array:
        r"""Return the logarithms of the weights of the states given mean fields, shape (n, H).

        .. math:: \log\pi_h + \langle s_h, \omega\rangle + \tfrac12\langle s_h, Vs_h\rangle - \tfrac12|s_h|^2

        Args:
            mean: :math:`\\omega`, shape (n, P, L).
            variance: ``V``, shape (n, P, P) or (P, P); None for fields that are known.
        """
        along = np.einsum("npl,hpl->nh", mean, self.shifts, optimize=True)
        weights = np.log(self.probabilities) + along - 0.5 * np.sum(self.shifts**2, axis=(1, 2))
        if variance is None:
            return np.asarray(weights)
        return np.asarray(weights + 0.5 * np.einsum("...pq,hpq->...h", variance, self._squares))

    @cached_property
    def _squares(self) -> Array:
        """Squares of the shifts over the rows, shape (H, P, P)."""
        return np.asarray(np.einsum("hpl,hql->hpq", self.shifts, self.shifts))

    def draw_given(self, fields: Array, uniform: Array) -> Indices:
        """Return states drawn from their posterior given the fields, shape (n, P, L): their law is that of the truth.

        Labels depend on the inputs through fields and state alone, so that a pair of fields and such a state has the
        law of the fields of a sample and its own state.
        """
        return _places(np.cumsum(np.exp(log_softmax(self.log_weights(fields), axis=1)), axis=1), uniform)


def _places(cumulative: Array, uniform: Array) -> Indices:
    """Return the number of the interval in which each number lies, from cumulative probabilities, shape (n, H)."""
    return np.asarray(np.sum(uniform[:, None] > cumulative[:, :-1], axis=1))


def _labels(count: int, given: object) -> Array:
    if given is None:
        return np.array([-1.0, 1.0]) if count == 2 else np.arange(float(count))
    labels = real_numbers("labels", given)
    if labels.shape != (count,) or len(set(labels.tolist())) != count:
        raise ParameterError("labels", given, f"{count} different numbers")
    return labels
