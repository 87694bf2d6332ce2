r"""Designs whose inputs are never drawn, but revealed along the directions that an algorithm looks at.

Fields are products of a matrix of independent Gaussian numbers
(:class:`~glassformer.designs.gaussian_matrix.GaussianMatrix`): their law is that of stored inputs at any finite size.
For pairs of tokens, in which fields are quadratic, it is that of the Gaussian equivalent, the limit of long tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np

from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array
from glassformer.designs.base import Design
from glassformer.designs.gaussian_matrix import GaussianMatrix
from glassformer.designs.shifted import ShiftedDesign
from glassformer.designs.stored import type_of_storage
from glassformer.designs.token_pairs import to_components, to_matrices
from glassformer.designs.wrapped import WrappedDesign

# Margin of the largest singular value: sizes of at least 100 coordinates exceed the limit by less.
_MARGIN = 1.05


def gaussian_matrices(
    samples: int, sizes: tuple[int, ...], d: int, rng: np.random.Generator, storage: str
) -> tuple[GaussianMatrix, ...]:
    """Return Gaussian matrices of that many rows, with these numbers of columns, drawn from independent generators.

    Raises:
        ParameterError: the storage is neither float64 nor float32.
    """
    kind, generators = type_of_storage(storage), rng.spawn(len(sizes))
    return tuple(
        GaussianMatrix((samples, size), own, kind, ("d", d)) for size, own in zip(sizes, generators, strict=True)
    )


@dataclass(frozen=True, eq=False)
class RevealedDesign(WrappedDesign):
    """Inputs seen through products alone.

    Args:
        kind: a design of the same kind with one sample, for shapes and properties.
        number: of samples.
        matrices: the Gaussian matrices; one of all coordinates, or one for each head.
    """

    revealed: ClassVar[Literal[True]] = True

    kind: Design
    number: int
    matrices: tuple[GaussianMatrix, ...]

    @property
    def samples(self) -> int:
        return self.number

    def first(self, samples: int) -> Self:
        """Return the design itself: a part of revealed inputs would be as large as all of them."""
        if samples != self.number:
            raise IncompatibleError("revealed inputs cannot be divided: reveal as many samples as are needed")
        return self

    def parts(self, instance: int = 0) -> Iterator[Array]:
        raise IncompatibleError("the entries of revealed inputs are not known: use storage float64 or float32")

    def state(self) -> dict[str, Array]:
        """Return what has been revealed, as named arrays."""
        named = ((f"matrix_{k}_", matrix.state()) for k, matrix in enumerate(self.matrices))
        return {prefix + name: part for prefix, state in named for name, part in state.items()}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Set what has been revealed to what :meth:`state` returned."""
        for k, matrix in enumerate(self.matrices):
            prefix = f"matrix_{k}_"
            own = {name.removeprefix(prefix): part for name, part in arrays.items() if name.startswith(prefix)}
            matrix.restore(own)

    @property
    def _inner(self) -> Design:
        return self.kind


@dataclass(frozen=True, eq=False)
class RevealedSequences(RevealedDesign):
    r"""Fields :math:`\mathrm{Tr}(X_\mu S^T)/\sqrt{dL}` of :math:`X_\mu = C^{1/2}Z_\mu`.

    Args:
        root: :math:`C^{1/2}`, shape (L, L); None for independent tokens.
    """

    root: Array | None = None

    @property
    def largest_singular_value(self) -> float:
        """The largest singular value of the inputs at large sizes, with a margin for finite ones: an upper bound."""
        norm = 1.0 if self.root is None else float(np.linalg.norm(self.root, 2))
        return _MARGIN * norm * (1 + np.sqrt(self.sample_ratio))

    def forward(self, signal: Array, instance: int) -> Array:
        del instance
        mixed = signal if self.root is None else self.root @ signal
        return self.matrices[0].times(mixed.ravel()) / np.sqrt(mixed.size)

    def adjoint(self, score: Array, instance: int) -> Array:
        del instance
        product = self.matrices[0].transpose_times(score).reshape(self.signal_shape)
        mixed = product if self.root is None else self.root @ product
        return np.asarray(mixed / np.sqrt(mixed.size))


@dataclass(frozen=True, eq=False)
class RevealedProjections(RevealedDesign):
    r"""Fields :math:`WX^T/\sqrt d`, shape (samples, P, L): one matrix of all token vectors for each head."""

    def shifted(self, signal: Array, shifts: Array) -> Design:
        return ShiftedDesign(self, signal, shifts)

    def forward(self, signal: Array, instance: int) -> Array:
        del instance
        heads, tokens = len(self.matrices), self.input_shape[0]
        products = [self.matrices[row % heads].times(weights) for row, weights in enumerate(signal)]
        return np.stack(products, axis=1).reshape(self.samples, tokens, -1).swapaxes(1, 2) / np.sqrt(signal.shape[1])

    def adjoint(self, score: Array, instance: int) -> Array:
        del instance
        heads = len(self.matrices)
        rows = np.moveaxis(score, 1, 0).reshape(score.shape[1], -1)
        products = [self.matrices[row % heads].transpose_times(one) for row, one in enumerate(rows)]
        return np.stack(products) / np.sqrt(self.signal_shape[1])


@dataclass(frozen=True, eq=False)
class GaussianEquivalent(RevealedDesign):
    r"""Independent normal fields in place of those of pairs of tokens: :math:`h = \langle G, S\rangle`.

    For a symmetric matrix the free entries of ``G`` are independent. The law is that of attention indices in the limit
    of long tokens; at finite ``d`` errors differ by terms of order ``1/d`` for two tokens, and of order
    :math:`1/\sqrt d` for more.

    Args:
        symmetric: whether signals are symmetric matrices.
    """

    symmetric: bool = True

    # Fields are Gaussian, so that no eigenvectors are outlying.
    damping = 0.0

    def forward(self, signal: Array, instance: int) -> Array:
        del instance
        products = [
            self.matrices[0].times(self._coordinates(one)) for one in (signal if self.several_rows else [signal])
        ]
        fields = np.stack(products, axis=1).reshape(self.samples, self._inner.field_shape[1], -1).swapaxes(1, 2)
        return fields if self.several_rows else fields[:, 0]

    def adjoint(self, score: Array, instance: int) -> Array:
        del instance
        rows = np.moveaxis(score, 1, 0) if self.several_rows else score[None]
        matrices = [self._matrix(self.matrices[0].transpose_times(one.ravel())) for one in rows]
        return np.stack(matrices) if self.several_rows else matrices[0]

    def _coordinates(self, matrix: Array) -> Array:
        """Return free entries of a matrix, so that the norm of those of unit power is one."""
        d = len(matrix)
        if not self.symmetric:
            return matrix.ravel() / d
        return np.sqrt(2 / d) * to_components(matrix)

    def _matrix(self, product: Array) -> Array:
        """Return the transpose of :meth:`_coordinates` in the inner product of the free entries."""
        d = self.signal_shape[0]
        if not self.symmetric:
            return product.reshape(d, d) / d
        return np.sqrt(2 / d) / d * to_matrices(product, d)
