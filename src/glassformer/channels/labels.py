"""Facts about the labels of a channel, which a channel declares once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from glassformer.channels.row_symmetries import RowSymmetries
from glassformer.core.estimate import Array


class Exponents(NamedTuple):
    r"""Exponents of a link of one index, in terms of normalised Hermite polynomials :math:`h_k` of the field.

    Attributes:
        information: smallest :math:`k \ge 1` with :math:`E[y\,h_k(z)] \ne 0`. Infinite if there is none.
        generative: smallest :math:`k \ge 1` with :math:`E[E[h_k(z) \mid y]^2] > 0`. At 1 weak recovery is possible at
            any sample ratio, at 2 there is a weak-recovery threshold, above 2 weak recovery is impossible at any finite
            sample ratio.
    """

    information: float
    generative: float


class LabelNodes(NamedTuple):
    """Quadrature over continuous labels, shape (nodes,). Given a label the field is normal.

    Attributes:
        y: labels.
        weight: their probabilities.
        mean: mean of the field given the label.
        variance: variance of the field given the label.
    """

    y: Array
    weight: Array
    mean: Array
    variance: Array


@dataclass(frozen=True, eq=False)
class Labels:
    r"""Facts about the labels of a channel. The defaults are those of one number with noise.

    Attributes:
        even: True when labels do not change if every row changes its sign. Zero overlap is then a fixed point.
        rank: number of components of the fields that a noiseless label determines, :math:`\lim_{V\to0} V\,E|g|^2`.
            Zero with noise, and for discrete labels.
        shape: shape of the label of one sample; empty for numbers.
        noise: mean square of the label noise, in the units of ``prediction_error``.
        noise_law: name of the law of the label noise, if it is not Gaussian.
        error_unit: divisor of squared errors on a label, which are sums over its entries.
        linear: True when the label is one field itself, with or without Gaussian noise.
        discrete: True when labels without noise take few values or are positions of maxima.
        classes: True when discrete labels are names of classes, so that squared differences have no meaning.
        probabilities: True when labels of attention are rows of probabilities, or positions of their largest entries.
        values: values of the label of one field, if it has finitely many.
        steps: fields at which labels of one field jump or are not smooth.
        exponents: information and generative exponent of a link of one field. None if they are unknown.
        regression: slope :math:`c_1 = E[hy]` and residual :math:`E[y^2] - c_1^2` of the regression of the label on its
            field. None to compute them from ``values`` or ``nodes``.
        nodes: function from a factor of the usual number of nodes to a quadrature over continuous labels of one field.
            None if there is no quadrature.
        symmetries: symmetries of the labels under changes of the rows. None for one row, which ``even`` describes.
        law_gap: function that returns the difference between the distribution of drawn labels and the given density,
            as a probability. None where both follow from one formula.
    """

    even: bool = False
    rank: float = 0.0
    shape: tuple[int, ...] = ()
    noise: float = 0.0
    noise_law: str = ""
    error_unit: float = 1.0
    linear: bool = False
    discrete: bool = False
    classes: bool = False
    probabilities: bool = False
    values: tuple[float, ...] = ()
    steps: tuple[float, ...] = (0.0,)
    exponents: Exponents | None = None
    regression: tuple[float, float] | None = None
    nodes: Callable[[float], LabelNodes] | None = None
    symmetries: RowSymmetries | None = None
    law_gap: Callable[[], float] | None = None

    @cached_property
    def row_symmetries(self) -> RowSymmetries:
        """All symmetries of the labels that averages satisfy."""
        if self.symmetries is not None:
            return self.symmetries
        return RowSymmetries.of_signs(np.array([[1.0], [-1.0]]) if self.even else np.ones((1, 1)))
