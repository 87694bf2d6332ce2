r"""A Gaussian matrix that is never drawn, but revealed along the directions that an algorithm looks at.

Let :math:`X \in \mathbb R^{n \times N}` have independent standard normal entries. An algorithm that sees it only
through products :math:`Xw` and :math:`X^T e`, each of which may depend on all earlier ones, sees exactly the same law
if only these products are drawn (Y. M. Lu, arXiv:2101.07464). With orthonormal :math:`q_i` and their images
:math:`a_i = Xq_i`, orthonormal :math:`p_j` and their images :math:`b_j = X^Tp_j`, a new direction ``q`` has the image

.. math:: a = f + \sum_j p_j\,(b_j\cdot q - p_j\cdot f), \qquad f \sim N(0, 1_n),

whose components along the :math:`p_j` are known, while the others are fresh. The transposed product is the same with
both sides exchanged.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.core.estimate import Array
from glassformer.core.progress import note
from glassformer.core.resources import require_resources

# Directions of a block of memory: growth copies nothing.
_BLOCK = 16
# Part of a vector outside the known directions, relative to its norm, below which it counts as zero, by bytes of a
# number. Errors of products are as large; rounding of orthogonal parts is an order of magnitude below. Against a
# tolerance of 1e-12, errors of message passing do not change, those of the minimum nuclear norm by 3e-5 of themselves,
# and those of 400 steps of descent by 2e-3, a tenth of the scatter of runs (benchmarks/bench_revealed.py).
TOLERANCE = {8: 1e-6, 4: 1e-5}
# A second orthogonalisation is needed where the first leaves less than this share of a vector (Kahan).
_TWICE = 0.7


class Span:
    """Orthonormal directions and their images, as the rows of blocks of memory."""

    def __init__(self, size: int, image_size: int, dtype: Any) -> None:
        self._sizes, self._dtype = (size, image_size), dtype
        self._blocks: list[tuple[NDArray[Any], NDArray[Any]]] = []
        self.count = 0

    @property
    def image_size(self) -> int:
        """Length of an image."""
        return self._sizes[1]

    @property
    def capacity(self) -> int:
        """Number of directions for which memory is held."""
        return _BLOCK * len(self._blocks)

    @property
    def blocks(self) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """Directions and images of every block, the last one as far as it is filled."""
        for start, (directions, images) in zip(range(0, self.count, _BLOCK), self._blocks, strict=True):
            filled = min(_BLOCK, self.count - start)
            yield directions[:filled], images[:filled]

    def append(self, direction: NDArray[Any], image: NDArray[Any]) -> None:
        """Add a direction and its image."""
        place = self.count % _BLOCK
        if place == 0:
            directions, images = (np.empty((_BLOCK, size), self._dtype) for size in self._sizes)
            self._blocks.append((directions, images))
        directions, images = self._blocks[-1]
        directions[place], images[place] = direction, image
        self.count += 1

    def state(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return all directions and all images, shapes (count, size) and (count, image size)."""
        parts = list(zip(*self.blocks, strict=True)) or [[np.empty((0, size), self._dtype)] for size in self._sizes]
        directions, images = (np.concatenate(part) for part in parts)
        return directions, images

    def restore(self, directions: NDArray[Any], images: NDArray[Any]) -> None:
        """Set the directions and images."""
        self._blocks, self.count = [], 0
        for direction, image in zip(directions, images, strict=True):
            self.append(direction, image)

    def split(self, vector: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the image of a vector's part along the directions, and the part orthogonal to them."""
        rest, image = vector.copy(), np.zeros(self._sizes[1], self._dtype)
        for _ in range(2):
            before = np.linalg.norm(rest)
            for directions, images in self.blocks:
                components = directions @ rest
                rest -= components @ directions
                image += components @ images
            if np.linalg.norm(rest) > _TWICE * before:
                break
        return image, rest


class GaussianMatrix:
    """Independent standard normal numbers of shape (n, N), drawn as far as they are looked at.

    A product costs of the order of :math:`K(n+N)` operations for ``K`` directions, and memory is
    :math:`2K(n+N)` numbers. A direction that is dependent on the earlier ones within :data:`TOLERANCE` reveals nothing.

    Args:
        shape: ``(n, N)``.
        rng: what is drawn from; its state belongs to the matrix.
        dtype: precision of directions and images.
        name: parameter and value that messages name if memory is too small.

    Example:
        >>> matrix = GaussianMatrix((4, 3), np.random.default_rng(0))
        >>> rows = np.stack([matrix.transpose_times(one) for one in np.eye(4)])
        >>> bool(np.allclose(rows, np.stack([matrix.times(one) for one in np.eye(3)]).T)), matrix.directions
        (True, 7)
    """

    def __init__(
        self,
        shape: tuple[int, int],
        rng: np.random.Generator,
        dtype: Any = np.float64,
        name: tuple[str, object] = ("d", "<matrix>"),
    ) -> None:
        self.shape, self._rng, self._dtype, self._name = shape, rng, np.dtype(dtype), name
        self._columns, self._rows = Span(shape[1], shape[0], dtype), Span(shape[0], shape[1], dtype)
        self._tolerance = TOLERANCE[self._dtype.itemsize]

    @property
    def directions(self) -> int:
        """Number of directions that have been revealed, of both sides."""
        return self._columns.count + self._rows.count

    def times(self, vector: Array) -> Array:
        """Return the product with a vector of ``N`` numbers, shape (n,)."""
        return self._product(vector, self._columns, self._rows)

    def transpose_times(self, vector: Array) -> Array:
        """Return the product of the transpose with a vector of ``n`` numbers, shape (N,)."""
        return self._product(vector, self._rows, self._columns)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return what has been revealed, and the state of the generator, as named arrays."""
        columns, rows = self._columns.state(), self._rows.state()
        generator = np.array(json.dumps(self._rng.bit_generator.state))
        return {"right": columns[0], "images": columns[1], "left": rows[0], "preimages": rows[1], "rng": generator}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Set the state to one that :meth:`state` returned."""
        self._columns.restore(arrays["right"], arrays["images"])
        self._rows.restore(arrays["left"], arrays["preimages"])
        self._rng.bit_generator.state = json.loads(str(arrays["rng"]))

    def _product(self, vector: Array, own: Span, other: Span) -> Array:
        image, rest = own.split(vector.astype(self._dtype, copy=False))
        size = float(np.linalg.norm(rest))
        if size > self._tolerance * float(np.linalg.norm(vector)):
            if own.count == own.capacity:
                self._require_memory()
            rest /= size
            fresh = self._reveal(rest, own, other)
            own.append(rest, fresh)
            image += size * fresh
        return image.astype(np.float64, copy=False)

    def _reveal(self, direction: NDArray[Any], own: Span, other: Span) -> NDArray[Any]:
        """Return the image of a new direction: known along the directions of the other side, and fresh elsewhere."""
        image = self._fresh(own, other)
        for directions, images in other.blocks:
            image += (images @ direction - directions @ image) @ directions
        return image

    def _fresh(self, own: Span, other: Span) -> NDArray[Any]:
        """Return an image that is independent of all that is known."""
        del other
        return self._rng.standard_normal(own.image_size, dtype=self._dtype.type)

    def _require_memory(self) -> None:
        """Raise unless a further block of directions fits into memory."""
        block = _BLOCK * sum(self.shape) * self._dtype.itemsize
        what = f"{self.directions + 1} revealed directions (another {_BLOCK} of them)"
        remedy = "use a smaller d or fewer steps, or storage revealed-float32"
        require_resources(*self._name, block, remedy, what=what)
        size = (self._columns.capacity + self._rows.capacity + _BLOCK) * sum(self.shape) * self._dtype.itemsize
        note(f"{self.directions} revealed directions, {size / 1e9:.2g} GB", lasting=True)
