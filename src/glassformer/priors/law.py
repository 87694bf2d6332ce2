r"""Laws of a single weight, seen through the observation of ``P`` weights with a precision matrix.

A weight vector of ``P`` independent entries is known from natural parameters ``b`` and ``A``,

.. math:: p(w\mid b, A) = \frac{1}{Z(b, A)} \prod_{a=1}^P p(w_a)\; e^{b\cdot w - \frac12 w^TAw},
   \qquad b = Aw^* + A^{1/2}\xi,

which is all that rows of weights and factors of matrices need of their law. Laws have unit variance: before any data
the posterior covariance is the identity.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from glassformer.core.estimate import Array


class Law(ABC):
    """The law of one weight; ``P`` of them are independent."""

    @property
    @abstractmethod
    def label(self) -> str:
        """Short name, as messages and tables spell it."""

    @property
    @abstractmethod
    def mean(self) -> float:
        """What is known of a weight before any data; the variance around it is one."""

    @property
    @abstractmethod
    def mmse_dimension(self) -> float:
        r""":math:`\lim_{a\to\infty} a\,\mathrm{MMSE}(a)`: the weight of the continuous part, zero if there is none."""

    @property
    @abstractmethod
    def fourth_moment(self) -> float:
        """Of the weight around zero: 3 for Gaussian ones, 1 for signs."""

    @property
    def rotational(self) -> bool:
        """True when rotations of several independent weights leave their law as it is."""
        return False

    def validate(self, rows: int) -> None:
        """Refuse so many rows, or a law that contradicts itself.

        Raises:
            ParameterError: with what can be done about it.
        """
        del rows

    @abstractmethod
    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Independent weights."""

    @abstractmethod
    def posterior(self, field: Array, precision: Array) -> tuple[Array, Array]:
        """Mean, shape (n, P), and covariance, shape (n, P, P), of fields ``b``, shape (n, P), at one precision."""

    @abstractmethod
    def log_partition(self, field: Array, precision: Array) -> Array:
        r""":math:`\log Z(b, A)`, shape (n,)."""

    @abstractmethod
    def estimates(self, precision: Array, function: Callable[[Array], Array]) -> Array:
        """Independent estimates, along the first axis, of the mean of ``function`` over fields at this precision.

        Args:
            precision: shape (P, P), positive semi-definite.
            function: from fields, shape (n, P), to numbers or arrays, shape (n, ...).
        """
