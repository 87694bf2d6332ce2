r"""Samples that stand for infinitely many: what gradient descent on a matrix sees in the limit of large sizes.

Fields :math:`\phi_\mu(S)` of ``n`` samples are independent Gaussian vectors, and inner products of signals are their
covariances. They are revealed along the directions that the descent looks at
(:mod:`~glassformer.designs.gaussian_matrix`). With orthonormal :math:`q^j` of signals and :math:`p_j` of scores,

.. math::
   \phi(q^t) = f^t + \sum_{j<t}\langle b_j, q^t\rangle p_j, \qquad
   b_t = B_t + \sum_{k\le t} q^k\,[\phi(q^k), p_t],

where :math:`f^t` and :math:`B_t` are fresh Gaussian vectors, each independent of all earlier ones. In the limit of
large ``n`` the vectors :math:`f^t` are orthogonal, and their squared norm is ``n`` times the fields of a sample.

- Linear labels and square loss: scores are linear in the fields, and only inner products of sample vectors count. The
  fresh vectors are coordinates, and no sample is drawn.
- Other labels: a sample is a trajectory of fields. ``N`` trajectories stand for ``n`` samples, with inner products
  :math:`[u,v] = \frac nN\sum uv`; moments of the fresh vectors are matched.
- As many directions as samples: the limit does not hold, as the directions exhaust the samples. Then ``n`` samples are
  revealed exactly.

Source: C. Gerbelot et al., arXiv:2210.06591; R. Berthier, A. Montanari, P.-M. Nguyen, arXiv:1708.03950; Y. M. Lu,
arXiv:2101.07464.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from glassformer.core.estimate import Array
from glassformer.designs.base import Design
from glassformer.designs.gaussian_matrix import GaussianMatrix, Span
from glassformer.designs.revealed import RevealedDesign
from glassformer.models.base import FiniteSize

# The limit of many samples has an error of the order of directions over samples. Above this share of the samples they
# are revealed exactly (a convention).
ROOM = 0.05
# Rounds in which fresh fields are made orthogonal to earlier fresh fields and to earlier scores in turn; the rest is a
# sampling error of the trajectories.
_ROUNDS = 2
# Single precision takes half the time, and its errors are far below the spread of the draws.
_STORAGE, _KIND = "float32", np.float32


@dataclass(frozen=True)
class Samples:
    """Inputs and labels, and the number of samples that they stand for.

    Attributes:
        design: maps signals to fields of the samples, and scores back.
        labels: as the channel draws them.
        count: ``n``, the number of samples.
        weight: ``n/N``; fields of the design are those of a sample times its square root.
    """

    design: Design
    labels: Array
    count: float
    weight: float = 1.0


class MeanFieldMatrix(GaussianMatrix):
    """A Gaussian matrix whose rows stand for more, or infinitely many, independent ones.

    Args:
        shape: ``(N, size)``: entries of a vector of samples, and of a signal.
        power: squared norm of the image of a direction, ``n`` times the fields of a sample.
        rng: what is drawn from.
        components: fields of a sample if images are trajectories; zero if they are coordinates.
    """

    def __init__(self, shape: tuple[int, int], power: float, rng: np.random.Generator, components: int = 0) -> None:
        super().__init__(shape, rng, _KIND)
        self._power, self._components = power, components
        self._known = Span(shape[0], 0, _KIND)
        self._coordinates = 0

    def coordinate(self) -> NDArray[Any]:
        """Return a vector of samples that is orthogonal to all earlier ones, with the squared norm of an image."""
        image = np.zeros(self.shape[0], _KIND)
        image[self._coordinates] = np.sqrt(self._power)
        self._coordinates += 1
        return image

    def _fresh(self, own: Span, other: Span) -> NDArray[Any]:
        if own is self._rows:
            return super()._fresh(own, other)
        return self._matched(other) if self._components else self.coordinate()

    def _matched(self, scores: Span) -> NDArray[Any]:
        """Return fresh fields of all trajectories with the mean, the power and the correlations of many samples."""
        drawn = self._rng.standard_normal((self.shape[0] // self._components, self._components), dtype=_KIND)
        fresh = (drawn - drawn.mean(axis=0)).ravel()
        for _ in range(_ROUNDS):
            for span in (self._known, scores):
                for directions, _ in span.blocks:
                    fresh -= (directions @ fresh) @ directions
        fresh /= np.linalg.norm(fresh)
        self._known.append(fresh, np.empty(0, _KIND))
        return _KIND(np.sqrt(self._power)) * fresh


def has_room(directions: int, samples: float) -> bool:
    """Return whether so many directions are few enough for the limit of many samples.

    Example:
        >>> has_room(100, 7200), has_room(800, 7200)
        (True, False)
    """
    return directions <= ROOM * samples


def coordinate_samples(
    size: FiniteSize, samples: float, teacher: Array, directions: int, rng: np.random.Generator
) -> Samples:
    """Return samples of linear labels in coordinates.

    Args:
        size: the model at its size.
        samples: ``n``.
        teacher: the true signal.
        directions: largest number of directions of signals.
        rng: what is drawn from.
    """
    channel = size.model.channel
    components = channel.fields.columns
    # One coordinate more for the noise of the labels.
    rows = -(-(directions + 1) // components)
    design, matrix = _design(size, samples, rows, rng, coordinates=True)
    noise = np.sqrt(channel.labels.noise) * matrix.coordinate()
    fields = design.forward(teacher, 0)
    return Samples(design, np.asarray(channel.clean(fields + noise.reshape(fields.shape))), samples)


def trajectory_samples(
    size: FiniteSize, samples: float, teacher: Array, trajectories: int, rng: np.random.Generator
) -> Samples:
    """Return samples of any labels, of which each trajectory stands for ``n/N``.

    Args:
        size: the model at its size.
        samples: ``n``.
        teacher: the true signal.
        trajectories: ``N``.
        rng: what is drawn from.
    """
    design, _ = _design(size, samples, trajectories, rng, coordinates=False)
    weight = samples / trajectories
    labels = size.model.channel.sample(design.forward(teacher, 0) / np.sqrt(weight), rng)
    return Samples(design, labels, samples, weight)


def revealed_samples(size: FiniteSize, samples: int, teacher: Array, rng: np.random.Generator) -> Samples:
    """Return that many samples, revealed exactly, or those of their Gaussian equivalent."""
    design = _revealed(size, samples, rng)
    return Samples(design, size.model.channel.sample(design.forward(teacher, 0), rng), samples)


def _revealed(size: FiniteSize, samples: int, rng: np.random.Generator) -> RevealedDesign:
    kind = cast(type[Design], size.design)
    reveal = kind.reveal if kind.revealable else kind.reveal_equivalent
    return cast(RevealedDesign, reveal(samples, size.input_shape, rng, _STORAGE))


def _design(
    size: FiniteSize, samples: float, rows: int, rng: np.random.Generator, coordinates: bool
) -> tuple[RevealedDesign, MeanFieldMatrix]:
    """Return a design of so many rows that stand for the samples, and its matrix."""
    design, components = _revealed(size, rows, rng), size.model.channel.fields.columns
    shape = design.matrices[0].shape
    matrix = MeanFieldMatrix(shape, samples * components, rng, 0 if coordinates else components)
    return replace(design, matrices=(matrix,)), matrix
