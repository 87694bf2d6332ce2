"""Contexts and queries of in-context learning, which a linear attention layer sees as a vector and a query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import gammaincinv, ndtri

from glassformer.core.estimate import Array
from glassformer.designs.stored import StoredDesign


@dataclass(frozen=True)
class ContextDesign(StoredDesign):
    r"""Queries ``g`` and contexts ``h``, with fields :math:`g^TSh/d` of a map :math:`S=\sqrt d\,\Gamma`, shape (d, d).

    A context of ``l`` labelled tokens :math:`x_i`, :math:`y_i = w\cdot x_i/\sqrt d + \sqrt\rho\,z_i` enters a layer of
    linear attention as :math:`h = \frac{\sqrt d}l\sum_iy_ix_i`. As drawn, the second row holds independent normal
    numbers; :meth:`with_tasks` makes contexts of them. Products cost of the order of :math:`nd^2` operations.

    Args:
        inputs: shape ``(instances, samples, 2, d)`` or, for one instance, ``(samples, 2, d)``: ``g`` and ``h``.

    Example:
        >>> design = ContextDesign(np.array([[[1.0, 0.0], [0.0, 3.0]]]))
        >>> design.forward(np.array([[0.0, 2.0], [0.0, 0.0]]), 0), design.sample_ratio
        (array([3.]), 0.25)
    """

    axes: ClassVar[str] = "samples, 2, d"

    @property
    def signal_shape(self) -> tuple[int, int]:
        d = int(self.inputs.shape[3])
        return d, d

    @property
    def sample_ratio(self) -> float:
        return self.samples / self.inputs.shape[3] ** 2

    def forward(self, signal: Array, instance: int) -> Array:
        query, context = self._parts(instance)
        mapped = context @ signal.T.astype(context.dtype, copy=False)
        return np.einsum("na,na->n", query, mapped, dtype=np.float64) / len(signal)

    def adjoint(self, score: Array, instance: int) -> Array:
        query, context = self._parts(instance)
        weighted = query * score[:, None].astype(query.dtype, copy=False)
        return (weighted.T @ context).astype(np.float64, copy=False) / query.shape[1]

    def _parts(self, instance: int) -> tuple[NDArray[Any], NDArray[Any]]:
        return self.inputs[instance, :, 0], self.inputs[instance, :, 1]

    def approximate_inverse(self, strength: float) -> Callable[[Array], Array]:
        """Return the solution of the normal equations for queries without fluctuations."""
        context = self._parts(0)[1].astype(np.float64, copy=False)
        d = context.shape[1]
        factor = cho_factor(context.T @ context / d**2 + strength * np.eye(d))
        return lambda signal: np.asarray(cho_solve(factor, signal.T).T)

    def with_tasks(
        self, tasks: Array, length: float, noise: float, rng: np.random.Generator, *, several: bool
    ) -> tuple[ContextDesign, Array, Array]:
        r"""Return the design with contexts of tasks, the noiseless labels of the queries, and their noise.

        Given the task, ``h`` depends on the tokens through their components along ``w``, which enter by two sums of
        squares and an inner product, and on those across ``w``, whose sum is normal: the law is exact.

        Args:
            tasks: shape (tasks, d).
            length: number of labelled tokens ``l``; infinite for :math:`h = w`.
            noise: variance :math:`\rho` of all labels.
            rng: draws tasks, contexts and label noise.
            several: whether sequences share the tasks, each with a random one; otherwise every sequence has its own.
        """
        query, across = (part.astype(np.float64, copy=False) for part in self._parts(0))
        chance = rng.random((self.samples, 5))
        task, d = tasks[(len(tasks) * chance[:, 0]).astype(int)] if several else tasks, query.shape[1]
        context = task
        if np.isfinite(length):
            size = np.linalg.norm(task, axis=1)
            along, common = 2 * gammaincinv(length / 2, chance[:, 1]), ndtri(chance[:, 2])
            rest = 2 * gammaincinv((length - 1) / 2, chance[:, 3]) if length > 1 else 0.0
            # Inner products of the labels with the tokens along w, and with themselves.
            scale, root = size / np.sqrt(d), np.sqrt(noise * along) * common
            with_tokens = scale * along + root
            power = scale**2 * along + 2 * scale * root + noise * (common**2 + rest)
            direction = task / size[:, None]
            flat = across - np.einsum("na,na->n", across, direction)[:, None] * direction
            context = with_tokens[:, None] * direction + np.sqrt(power)[:, None] * flat
            context = np.sqrt(d) / length * context
        inputs = np.stack([query, context], axis=1).astype(self.inputs.dtype, copy=False)
        labels = np.einsum("na,na->n", query, task) / np.sqrt(d)
        return ContextDesign(inputs), labels, np.sqrt(noise) * ndtri(chance[:, 4])
