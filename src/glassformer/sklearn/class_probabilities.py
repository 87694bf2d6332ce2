"""How probable the second of two classes is, given fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import log_ndtr

from glassformer.core.estimate import Array


class Chances(Protocol):
    """Log-odds of the second class."""

    def odds(self, fields: Array, power: Array) -> Array:
        """Of samples with these fields, whose inputs see a signal in no direction with these variances, shape (n,)."""


@dataclass(frozen=True)
class ProbitChances:
    r"""Those of :math:`\Phi\bigl(h/\sqrt{E\,\langle x^2\rangle + \Delta}\bigr)`, of a posterior with errors ``E``.

    Attributes:
        error: ``E``.
        noise: :math:`\Delta`.

    Example:
        >>> odds = ProbitChances(0.5, 0.5).odds(np.array([1.0]), np.ones(1))
        >>> bool(np.isclose(1 / (1 + np.exp(-odds[0])), 0.841345))
        True
    """

    error: float
    noise: float

    def odds(self, fields: Array, power: Array) -> Array:
        away = fields / np.sqrt(self.error * power + self.noise)
        return np.asarray(log_ndtr(away) - log_ndtr(-away))
