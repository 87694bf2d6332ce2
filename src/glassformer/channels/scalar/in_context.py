"""Labels of queries, of the task of their context."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from glassformer.channels.labels import Labels
from glassformer.channels.scalar.gaussian import GaussianChannel


@dataclass(frozen=True)
class InContextChannel(GaussianChannel):
    r"""Labels :math:`y = w\cdot g/\sqrt d + \sqrt\rho\,z` of a task ``w``, which no map of the context knows exactly.

    The labels are linear in the task, and not in the field of the learned map.

    Args:
        noise: variance :math:`\rho\ge0` of the label noise.

    Raises:
        ParameterError: ``noise`` is negative or not finite.

    Example:
        >>> InContextChannel(0.1).labels.linear, InContextChannel(0.1).labels.noise
        (False, 0.1)
    """

    label = "in-context"

    @cached_property
    def labels(self) -> Labels:
        return replace(GaussianChannel(self.noise).labels, linear=False, rank=0.0)
