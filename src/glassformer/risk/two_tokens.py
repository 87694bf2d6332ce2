r"""Cross-entropy of two tokens: minimisers by way of the plane of row differences.

All that the loss sees are :math:`u_a = \beta(h_{aa} - h_{ab})`, of which the chances of the own tokens are logistic,
:math:`\sigma(u_a)`. With the shares ``y`` that labels give to the own tokens a minimiser solves

.. math:: u + \beta^2V\begin{pmatrix}3&1\\1&3\end{pmatrix}(\sigma(u) - y) = u_\omega,

two equations whose Newton steps are written out. Numbers of one sample are along the first axes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from glassformer.core.estimate import Array

# Row differences from components, and the shortest way back; square of a row, and the determinant of products.
_ROWS = np.array([[np.sqrt(2), -1.0, 0.0], [0.0, -1.0, np.sqrt(2)]])
_BACK = np.linalg.pinv(_ROWS)
_SQUARE, _DETERMINANT = 3.0, 8.0


@dataclass(frozen=True)
class Newton:
    """Newton's method with shortened steps, for the minimisers of many samples at once."""

    steps: int = 100  # at most
    last: float = 1e-7  # step the next one after which is rounding
    halvings: int = 60  # of a step that does not bring enough
    decrease: float = 0.1  # share of what a step foretells that it has to bring
    rounding: float = 1e-14  # of what is to decrease, relative to the numbers that it is the difference of


_POLICY = Newton()


# A strength of the loss that is none, so that it has a logarithm.
_TINY = 1e-300
# Share of samples below which the others are left out.
_FEW = 0.5


def minimised(y: Array, omega: Array, variance: Array, scale: float) -> tuple[Array, Array, Array]:
    """Minimisers and scores, shape (3, n), and minus the traces of the scores' derivatives, shape (n,)."""
    found = _searched(scale * _ROWS @ omega, y[[0, 1], [0, 1]], scale**2 * variance)
    # Large variances would multiply the rounding of scores.
    minimiser = omega + _BACK @ (found.u - found.centre) / scale
    both = 2 * _DETERMINANT * found.pull * np.prod(found.bend, axis=0)
    trace = scale**2 * (_SQUARE * np.sum(found.bend, axis=0) + both) / found.determinant
    return minimiser, -scale * _ROWS.T @ found.apart, trace


class _Place(NamedTuple):
    """Row differences of some samples, and what the equations are and come to there.

    Attributes:
        u: row differences, shape (2, n).
        centre: those of the field, shape (2, n).
        shares: of the own tokens in labels, shape (2, n).
        pull: the squared scale times ``V``, shape (n,).
        apart: chances less shares, shape (2, n).
        bend: derivatives of chances, shape (2, n).
        residual: of the equations, shape (2, n).
    """

    u: Array
    centre: Array
    shares: Array
    pull: Array
    apart: Array
    bend: Array
    residual: Array

    @classmethod
    def at(cls, u: Array, centre: Array, shares: Array, pull: Array) -> _Place:
        # The hyperbolic tangent takes a fraction of the time of exponentials.
        tangent = np.tanh(0.5 * u)
        apart, bend = 0.5 * (1 + tangent) - shares, 0.25 * (1 - tangent**2)
        residual = u - centre + pull * (2 * apart + (apart[0] + apart[1]))
        return cls(u, centre, shares, pull, apart, bend, residual)

    def moved(self, step: Array) -> _Place:
        return self.at(self.u + step, self.centre, self.shares, self.pull)

    def some(self, rows: Any) -> _Place:
        return _Place(*(np.take(part, rows, axis=-1) for part in self))

    @property
    def determinant(self) -> Array:
        """Of the equations' slopes."""
        first, second = self.bend
        return np.asarray(1 + self.pull * (_SQUARE * (first + second) + _DETERMINANT * self.pull * first * second))

    @property
    def step(self) -> Array:
        """Newton's."""
        first, second = self.pull * self.bend
        one, other = self.residual
        steps = [second * other - (1 + _SQUARE * second) * one, first * one - (1 + _SQUARE * first) * other]
        return np.stack(steps) / self.determinant

    @property
    def distance(self) -> Array:
        """Size of the residual."""
        return np.asarray(np.abs(self.residual[0]) + np.abs(self.residual[1]))

    @property
    def rounding(self) -> Array:
        """Of residuals."""
        return np.asarray(_POLICY.rounding * (1 + self.pull + np.abs(self.centre[0]) + np.abs(self.centre[1])))


def _searched(centre: Array, shares: Array, pull: Array) -> _Place:
    """Where the equations hold, by Newton's method with shortened steps."""
    u, active = _guess(centre, shares, pull), np.arange(len(pull))
    here = _Place.at(u, centre, shares, pull)
    for _ in range(_POLICY.steps):
        step = here.step
        here = _shortened(here, step)
        u[:, active] = here.u
        moving = np.flatnonzero(np.max(np.abs(step), axis=0) > _POLICY.last + here.rounding)
        if not len(moving):
            break
        # To leave samples out costs about as much as a step.
        if len(moving) < _FEW * len(active):
            active, here = active[moving], here.some(moving)
    return _Place.at(u, centre, shares, pull)


def _shortened(here: _Place, step: Array) -> _Place:
    """Where steps lead, halved until the residual is small enough."""
    there, share, before = here.moved(step), np.ones(len(here.pull)), here.distance
    for _ in range(_POLICY.halvings):
        far = there.distance > (1 - _POLICY.decrease * share) * before + here.rounding
        if not far.any():
            break
        share[far] *= 0.5
        there = here.moved(share * step)
    return there


def _guess(centre: Array, shares: Array, pull: Array) -> Array:
    r"""Where the equations nearly hold without the other row.

    With :math:`r = 3\beta^2V` that is :math:`u = f + r\sigma(-u)`, which knows no difference between ``(u, f)`` and
    ``(-u, -r - f)``. For ``u > 0`` it is nearly :math:`u = f + re^{-u}`, solved by Lambert's function.
    """
    reach = _SQUARE * pull
    pushed = centre - reach * (1 - shares)
    turned = pushed < -0.5 * reach
    pushed = np.where(turned, -reach - pushed, pushed)
    # Of the exponential of this, by a formula that is never off by more than some hundredths.
    size = np.logaddexp(0.0, np.log(np.maximum(reach, _TINY)) - pushed)
    u = pushed + size * (1 - np.log1p(size) / (2 + size))
    return np.where(turned, -u, u)
