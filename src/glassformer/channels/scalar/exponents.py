"""How many samples it takes to find the direction that a link of one index reads, as two whole numbers."""

from __future__ import annotations

from typing import NamedTuple


class Exponents(NamedTuple):
    r"""Exponents of a link of one index, in terms of normalised Hermite polynomials :math:`h_k` of the field.

    Attributes:
        information: smallest :math:`k \ge 1` with :math:`E[y\,h_k(z)] \ne 0`, infinite where there is none.
        generative: smallest :math:`k \ge 1` with :math:`E[E[h_k(z) \mid y]^2] > 0`: 1 where any data help, 2 where
            there is a weak-recovery threshold, above where there is none at a finite sample ratio.
    """

    information: float
    generative: float
