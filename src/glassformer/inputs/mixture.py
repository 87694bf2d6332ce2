"""Gaussian mixtures with means along the rows of the teacher."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.core.checks import real_numbers
from glassformer.core.errors import ParameterError
from glassformer.core.frozen import set_fields
from glassformer.inputs.hidden_states import HiddenStates
from glassformer.inputs.law import FieldLaw


@dataclass(frozen=True)
class Mixture(FieldLaw):
    r"""Classes of samples: class ``h``, of probability :math:`\pi_h`, shifts the fields by a matrix :math:`s_h`.

    In terms of the tokens the mean of class ``h`` is :math:`s_h^TW^*/\sqrt d`: for one token and one row two classes at
    :math:`\pm\mu` with :math:`|\mu|^2 = \nu` are ``Mixture([-nu**0.5, nu**0.5])``.

    Args:
        means: the shifts, shape (classes, P, L); for one token (classes, P), and for one row and one token (classes,).
        weights: probabilities of the classes; equal by default.
        labels: label of each class, for models whose label is the class; by default -1 and 1 for two classes, and their
            numbers otherwise.

    Raises:
        ParameterError: an argument is out of range.

    Source: Mignacco, Krzakala, Lu, Zdeborova, arXiv:2002.11544; Loureiro et al., arXiv:2106.03791.

    Example:
        >>> Mixture([-1.0, 1.0], weights=[0.3, 0.7]).states(1, 1).probabilities
        array([0.3, 0.7])
    """

    means: Any
    weights: Sequence[float] | None = None
    labels: Sequence[float] | None = None

    def __post_init__(self) -> None:
        means = real_numbers("means", self.means)
        means = means.reshape(*means.shape, *(1,) * (3 - means.ndim)) if means.ndim < 3 else means
        set_fields(self, means=tuple(tuple(map(tuple, one)) for one in means.tolist()))
        for name in ("weights", "labels"):
            given = getattr(self, name)
            set_fields(self, **{name: None if given is None else tuple(real_numbers(name, given).tolist())})
        self.states(*means.shape[1:])

    @property
    def label(self) -> str:
        means = ";".join(",".join(f"{x:g}" for row in one for x in row) for one in self.means)
        weights = "" if self.weights is None else " weights=" + ",".join(f"{x:g}" for x in self.weights)
        return f"mixture:{means}{weights}"

    def states(self, rows: int, tokens: int) -> HiddenStates:
        means = np.array(self.means)
        if means.shape[1:] != (rows, tokens):
            allowed = f"shifts of {rows} rows and {tokens} tokens, shape (classes, {rows}, {tokens})"
            raise ParameterError("means", means.shape, allowed)
        weights = np.full(len(means), 1 / len(means)) if self.weights is None else np.array(self.weights)
        return HiddenStates.of(weights, means, self.labels)
