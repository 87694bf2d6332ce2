"""Order parameters of an estimate of numbers, and their conjugates."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from glassformer.core.estimate import Array


class OrderParameters(NamedTuple):
    r"""Order parameters of an estimate, arrays of shape (batch,).

    Attributes:
        overlap: :math:`m`, inner product of estimate and teacher.
        power: :math:`q`, squared norm of the estimate.
        susceptibility: :math:`V`.
        error: :math:`E = Q_0 - 2m + q`, computed as a sum of positive terms.
        degrees: degrees of freedom of the fit.
        rank: share of singular values that are not zero.
        error_estimate: quadrature error of ``error``.
    """

    overlap: Array
    power: Array
    susceptibility: Array
    error: Array
    degrees: Array
    rank: Array
    error_estimate: Array


class ConjugateParameters(NamedTuple):
    r"""Conjugate parameters, shape (batch,): :math:`\tau^2 = \hat q/\hat m^2`, :math:`\hat m` and :math:`\hat V`."""

    noise: Array
    m_hat: Array
    v_hat: Array

    @classmethod
    def from_logarithms(cls, logarithms: Array) -> ConjugateParameters:
        """Return the parameters whose logarithms, shape (batch, 3), are given."""
        return cls(*np.exp(logarithms).T)

    @property
    def logarithms(self) -> Array:
        """Logarithms of the parameters, shape (batch, 3): the state of the fixed-point iteration."""
        return np.log(np.stack(self, axis=1))
