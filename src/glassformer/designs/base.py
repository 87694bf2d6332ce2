"""The interface of designs: the linear map from signals to fields, and its transpose."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from glassformer.core.defaults import default_property
from glassformer.core.errors import DataError, IncompatibleError
from glassformer.core.estimate import Array

# Numbers of inputs that are drawn into memory at a time (16 MB; a convention).
_DRAWN_AT_ONCE = 2_000_000


class Design(ABC):
    r"""Inputs of a batch of instances, and the fields :math:`h = \mathrm{forward}(S)` they make of a signal.

    Components of the fields of a unit-power signal independent of the inputs have unit variance. Designs of one array
    in memory derive from :class:`~glassformer.designs.stored.StoredDesign`, which has the inputs.
    """

    # Required: the linear map.

    @property
    @abstractmethod
    def signal_shape(self) -> tuple[int, int]:
        """Shape of one signal."""

    @property
    @abstractmethod
    def sample_ratio(self) -> float:
        r""":math:`\hat q` per unit of :math:`E g^2`: samples per signal entry for independent entries."""

    @abstractmethod
    def forward(self, signal: Array, instance: int) -> Array:
        """Return the fields of one instance, shape ``field_shape``, from a signal of ``signal_shape``."""

    @abstractmethod
    def adjoint(self, score: Array, instance: int) -> Array:
        """Return transpose of ``forward`` in the signal's own inner product: ``signal_shape`` from ``field_shape``."""

    # Required: the inputs.

    @classmethod
    @abstractmethod
    def sample(cls, samples: int, shape: tuple[int, int], rng: np.random.Generator, storage: str = "float64") -> Self:
        """Return one instance of random inputs of the given shape. A longer draw from the same state begins alike."""

    revealable: ClassVar[bool] = False
    """True when :meth:`reveal` is available."""
    revealed: ClassVar[bool] = False
    """True when the entries of the inputs are not known."""

    @classmethod
    def reveal(cls, samples: int, shape: tuple[int, int], rng: np.random.Generator, storage: str = "float64") -> Design:
        """Return random inputs that are never drawn, but revealed along the directions that an algorithm looks at.

        Their law is that of :meth:`sample` at any size. A larger number of samples does not begin like a smaller one.

        Raises:
            IncompatibleError: fields are not linear in inputs of independent normal numbers.
        """
        del samples, shape, rng, storage
        raise IncompatibleError(
            f"inputs of a {cls.__name__} cannot be revealed: use storage float64 or float32, or for attention indices "
            "revealed-equivalent"
        )

    @classmethod
    def reveal_equivalent(
        cls, samples: int, shape: tuple[int, int], rng: np.random.Generator, storage: str = "float64"
    ) -> Design:
        """Return the Gaussian equivalent of random inputs, revealed; its law is that of large sizes.

        Raises:
            IncompatibleError: there is none.
        """
        del samples, shape, rng, storage
        raise IncompatibleError(f"inputs of a {cls.__name__} have no Gaussian equivalent: use storage revealed")

    def shifted(self, signal: Array, shifts: Array) -> Design:
        r"""Return the inputs with the tokens of every sample shifted along the rows of a signal.

        Args:
            signal: rows :math:`W^*`, shape (P, d).
            shifts: ``s`` of every sample, shape (samples, P, L): its tokens are moved by :math:`s^TW^*/\sqrt d`.

        Raises:
            IncompatibleError: fields are no projections of tokens on rows.
        """
        del signal, shifts
        raise IncompatibleError(f"inputs of a {type(self).__name__} have no hidden states: use model smi")

    @abstractmethod
    def first(self, samples: int) -> Self:
        """Return the design of the first samples alone, sharing memory with this one."""

    @property
    @abstractmethod
    def instances(self) -> int:
        """Number of instances, each with inputs of its own."""

    @property
    @abstractmethod
    def samples(self) -> int:
        """Number of samples per instance."""

    @property
    @abstractmethod
    def input_shape(self) -> tuple[int, int]:
        """Shape of the input of one sample: tokens and their dimension."""

    @abstractmethod
    def parts(self, instance: int = 0) -> Iterator[Array]:
        """Return inputs of one instance, in order, each of shape (samples, tokens, d)."""

    # Optional.

    @property
    def field_shape(self) -> tuple[int, ...]:
        """Shape of the fields of one instance: ``(samples,)``, or ``(samples, components)``."""
        return (self.samples,)

    several_rows = default_property(False, "True when signals and fields have an axis of rows.")

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of one row of the signal."""
        return self.signal_shape

    metric = default_property(1.0, "Inner product of signals that :meth:`adjoint` belongs to, in sums over entries.")

    damping = default_property(0.0, "Initial damping of message passing; larger for inputs far from Gaussian.")

    @classmethod
    def new_fields(cls, signals: Array, shape: tuple[int, int], samples: int, rng: np.random.Generator) -> Array:
        """Return the fields of signals on the same new samples, shape (signals, samples, P, K).

        From new inputs, drawn a part at a time; designs that know the law of their fields draw from it.

        Args:
            signals: shape ``(signals, P, *row_shape)``, with ``P = 1`` for one row.
            shape: of the input of one sample.
            samples: how many.
            rng: what they are drawn from.
        """
        size = max(1, _DRAWN_AT_ONCE // (shape[0] * shape[1]))
        counts = [min(size, samples - start) for start in range(0, samples, size)]
        parts = (cls.sample(count, shape, rng) for count in counts)
        return np.concatenate([np.stack([row_fields(part, one, 0) for one in signals]) for part in parts], axis=1)

    def approximate_inverse(self, strength: float) -> Callable[[Array], Array] | None:
        """Return an approximate inverse of the normal equations of ridge regression, for conjugate gradients.

        None where fields of single entries are cheap, so that the equations are factored instead.
        """
        del strength
        return None

    def checked_labels(self, labels: ArrayLike) -> Array:
        """Return the labels as an array, one number per sample.

        Raises:
            DataError: they do not match the inputs, or are not finite.
        """
        y = np.asarray(labels, dtype=float)
        if y.shape != (self.samples,):
            raise DataError("y", y.shape, f"a shape ({self.samples},) that matches X")
        if not np.all(np.isfinite(y)):
            raise DataError("y", "<labels>", "finite entries", "remove or repair the samples")
        return y

    def entry_fields(self) -> Array:
        """Return fields of the matrices with a single entry of one, shape (samples, L d), for fields of one number."""
        size = int(np.prod(self.signal_shape))
        return np.column_stack([self.forward(one.reshape(self.signal_shape), 0) for one in np.eye(size)])


def row_fields(design: Design, signal: Array, instance: int) -> Array:
    """Return fields of shape (samples, P, K) from a signal of shape ``(P, *row_shape)``.

    One row has ``P = 1``.
    """
    if design.several_rows:
        return design.forward(signal, instance)
    return design.forward(signal[0], instance).reshape(design.samples, 1, -1)


def row_correlation(design: Design, score: Array, instance: int) -> Array:
    """Return the transpose of :func:`row_fields`: shape ``(P, *row_shape)`` from (samples, P, K)."""
    if design.several_rows:
        return design.adjoint(score, instance)
    return design.adjoint(score.reshape(design.field_shape), instance)[None]
