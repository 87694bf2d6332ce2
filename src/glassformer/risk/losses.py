"""The named losses of a label and one field, and the table of all losses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, ndtr, xlogy

from glassformer.core.arrays import AnyArray
from glassformer.core.checks import is_number
from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array
from glassformer.risk.cross_entropy import CrossEntropy
from glassformer.risk.custom_loss import CustomLoss
from glassformer.risk.loss_base import Loss, ResidualAverages

# Width over which the kink of the hinge is rounded, a quadratic of which no margin is wrong by more than this.
_HINGE_WIDTH = 1e-3
# Steps of Halley's method for the logistic proximal map, at most, and the relative one after which the remaining error,
# of the order of its cube, is rounding. From any start that is used three are enough.
_HALLEY_STEPS, _LAST_HALLEY_STEP = 12, 1e-5


@dataclass(frozen=True)
class Square(Loss):
    r"""Half the squared residual, :math:`(y-h)^2/2`.

    Example:
        >>> float(Square().proximal(np.array(3.0), np.array(0.0), 0.5))
        1.0
    """

    quadratic = True
    of_residual = True
    sharpness = 1.0

    @property
    def exact_fit(self) -> Loss | None:
        return self

    def slope(self, y: Array, h: Array) -> Array:
        return h - y

    def curvature(self, slopes: Array) -> Array:
        return np.ones_like(slopes)

    def value(self, y: Array, h: Array) -> Array:
        return 0.5 * (y - h) ** 2

    def of_vectors(self, y: AnyArray, h: AnyArray) -> AnyArray:
        return 0.5 * ((y - h) ** 2).sum()

    def proximal(self, y: Array, omega: Array, variance: Array | float) -> Array:
        return omega + variance * (y - omega) / (1 + variance)

    def score(self, y: Array, omega: Array, variance: Array | float) -> tuple[Array, Array]:
        g = (y - omega) / (1 + variance)
        return g, np.broadcast_to(1 / (1 + np.asarray(variance)), g.shape)

    def conjugate(self, y: Array, u: Array) -> Array:
        return u * y + 0.5 * u**2


@dataclass(frozen=True)
class Logistic(Loss):
    r"""Negative log-likelihood of the logistic model, :math:`\log(1 + e^{-yh})`, for labels +1 and -1.

    Example:
        >>> g, _ = Logistic().score(np.array(1.0), np.array(0.3), 2.0)
        >>> p = Logistic().proximal(np.array(1.0), np.array(0.3), 2.0)
        >>> bool(np.isclose(g, 1 / (1 + np.exp(p))))
        True
    """

    labels = "signs"
    sharpness = 0.25
    unbounded = True

    @property
    def exact_fit(self) -> Loss | None:
        return HardMargin()

    def slope(self, y: Array, h: Array) -> Array:
        return -y * expit(-y * h)

    def curvature(self, slopes: Array) -> Array:
        miss = np.abs(slopes)
        return miss * (1 - miss)

    def value(self, y: Array, h: Array) -> Array:
        return np.logaddexp(0.0, -y * h)

    def of_vectors(self, y: AnyArray, h: AnyArray) -> AnyArray:
        import jax.numpy as jnp

        return jnp.sum(jnp.logaddexp(0.0, -y * h))

    def proximal(self, y: Array, omega: Array, variance: Array | float) -> Array:
        margin, v = np.broadcast_arrays(y * omega, np.asarray(variance, dtype=float))
        # Far from the margin one exponential dominates, and Lambert's function solves z = margin + v/(1 + e^z): from
        # the field that is fitted already, or from the longest step. In between it is off by less than log 2.
        right = margin > -0.5 * v
        with np.errstate(divide="ignore", over="ignore"):
            step = _near_omega(np.log(variance) + np.where(right, -margin, margin + v))
            z = margin + np.where(right, step, v - step)
            for _ in range(_HALLEY_STEPS):
                miss = 1 / (1 + np.exp(z))
                pull = v * miss
                curvature = pull * (1 - miss)
                residual, slope = z - margin - pull, 1 + curvature
                step = residual / (slope + 0.5 * residual * curvature * (1 - 2 * miss) / slope)
                z = z - step
                if not np.any(np.abs(step) > _LAST_HALLEY_STEP * np.maximum(np.abs(z), 1.0)):
                    break
        return np.asarray(y * z)

    def score(self, y: Array, omega: Array, variance: Array | float) -> tuple[Array, Array]:
        z = y * self.proximal(y, omega, variance)
        with np.errstate(over="ignore"):
            miss, hit = 1 / (1 + np.exp(z)), 1 / (1 + np.exp(-z))
        curvature = miss * hit
        return y * miss, curvature / (1 + variance * curvature)

    def breakpoints(self, y: Array, variance: Array) -> tuple[Array, ...]:
        return 0 * y, -y * variance

    def conjugate(self, y: Array, u: Array) -> Array:
        share = -y * u
        inside = (share >= 0) & (share <= 1)
        share = np.clip(share, 0.0, 1.0)
        return np.where(inside, xlogy(share, share) + xlogy(1 - share, 1 - share), np.inf)


def _near_omega(x: Array) -> Array:
    """Return the solution of ``w + log w = x`` to two per cent (S. Winitzki), where SciPy's is exact and slower.

    Solutions below the rounding of one are zero: the logarithms that keep their digits are ten times as slow.
    """
    log = np.maximum(x, 0.0) + np.log(1 + np.exp(-np.abs(x)))
    return np.asarray(log * (1 - np.log(1 + log) / (2 + log)))


@dataclass(frozen=True)
class Hinge(Loss):
    r"""Hinge loss of support vector machines, :math:`\max(0, 1 - yh)`, for labels +1 and -1.

    Example:
        >>> Hinge().proximal(np.ones(3), np.array([-2.0, 0.8, 2.0]), 0.5)
        array([-1.5,  1. ,  2. ])
    """

    labels = "signs"

    @property
    def exact_fit(self) -> Loss | None:
        return HardMargin()

    def value(self, y: Array, h: Array) -> Array:
        return np.maximum(0.0, 1 - y * h)

    def of_vectors(self, y: AnyArray, h: AnyArray) -> AnyArray:
        import jax.numpy as jnp

        missing = 1 - y * h
        rounded = 0.5 * jnp.clip(missing, 0.0, _HINGE_WIDTH) ** 2 / _HINGE_WIDTH
        return jnp.sum(rounded + jnp.maximum(missing - _HINGE_WIDTH, 0.0))

    def proximal(self, y: Array, omega: Array, variance: Array | float) -> Array:
        return omega + y * np.clip(1 - y * omega, 0.0, variance)

    def score(self, y: Array, omega: Array, variance: Array | float) -> tuple[Array, Array]:
        missing = 1 - y * omega
        at_kink = (missing > 0) & (missing < variance)
        return y * np.clip(missing / variance, 0.0, 1.0), np.where(at_kink, 1 / np.asarray(variance), 0.0)

    def breakpoints(self, y: Array, variance: Array) -> tuple[Array, ...]:
        return y + 0 * variance, y * (1 - variance)

    def conjugate(self, y: Array, u: Array) -> Array:
        share = -y * u
        return np.where((share >= 0) & (share <= 1), -share, np.inf)


@dataclass(frozen=True)
class SquaredHinge(Loss):
    r"""Smooth loss of support vector machines, :math:`\frac12\max(0, 1 - yh)^2`, for labels +1 and -1.

    Example:
        >>> SquaredHinge().proximal(np.ones(3), np.array([-2.0, 0.5, 2.0]), 0.5)
        array([-1.        ,  0.66666667,  2.        ])
    """

    labels = "signs"
    sharpness = 1.0
    name = "squared-hinge"

    @property
    def exact_fit(self) -> Loss | None:
        return HardMargin()

    def slope(self, y: Array, h: Array) -> Array:
        return -y * np.maximum(0.0, 1 - y * h)

    def value(self, y: Array, h: Array) -> Array:
        return 0.5 * np.maximum(0.0, 1 - y * h) ** 2

    def of_vectors(self, y: AnyArray, h: AnyArray) -> AnyArray:
        import jax.numpy as jnp

        return jnp.sum(0.5 * jnp.maximum(1 - y * h, 0.0) ** 2)

    def score(self, y: Array, omega: Array, variance: Array | float) -> tuple[Array, Array]:
        share = 1 / (1 + np.asarray(variance))
        missing = 1 - y * omega
        return y * np.maximum(missing, 0.0) * share, np.where(missing > 0, share, 0.0)

    def breakpoints(self, y: Array, variance: Array) -> tuple[Array, ...]:
        return (y + 0 * variance,)

    def conjugate(self, y: Array, u: Array) -> Array:
        share = -y * u
        return np.where(share >= 0, 0.5 * share**2 - share, np.inf)


@dataclass(frozen=True)
class HardMargin(Loss):
    r"""Zero for :math:`yh \ge 1`, infinite elsewhere: the limit of losses of labels +1 and -1 at a vanishing penalty.

    Example:
        >>> HardMargin().proximal(np.ones(2), np.array([-2.0, 2.0]), 0.5)
        array([1., 2.])
    """

    labels = "signs"
    name = "hard-margin"

    def value(self, y: Array, h: Array) -> Array:
        # The proximal map ends at the margin, up to rounding.
        return np.where(y * h >= 1 - 1e-9, 0.0, np.inf)

    def proximal(self, y: Array, omega: Array, variance: Array | float) -> Array:
        return omega + y * np.maximum(1 - y * omega, 0.0)

    def score(self, y: Array, omega: Array, variance: Array | float) -> tuple[Array, Array]:
        missing = 1 - y * omega
        return y * np.maximum(missing, 0.0) / variance, np.where(missing > 0, 1 / np.asarray(variance), 0.0)

    def breakpoints(self, y: Array, variance: Array) -> tuple[Array, ...]:
        return (y + 0 * variance,)

    def conjugate(self, y: Array, u: Array) -> Array:
        share = -y * u
        return np.where(share >= 0, -share, np.inf)


@dataclass(frozen=True)
class Huber(Loss):
    r"""Huber loss: half the squared residual up to :math:`|y-h| = \delta`, and :math:`\delta|y-h| - \delta^2/2` beyond.

    Args:
        knee: :math:`\delta`, finite and > 0.

    Raises:
        ParameterError: ``knee`` is out of range.

    Example:
        >>> Huber().score(np.array([0.5, 5.0]), np.zeros(2), 1.0)[0]
        array([0.25, 1.  ])
    """

    knee: float = 1.0
    of_residual = True
    sharpness = 1.0

    @property
    def exact_fit(self) -> Loss | None:
        return Square()

    def __post_init__(self) -> None:
        if not (is_number(self.knee) and 0 < self.knee < np.inf):
            raise ParameterError("knee", self.knee, "finite and > 0")

    def slope(self, y: Array, h: Array) -> Array:
        return np.clip(h - y, -self.knee, self.knee)

    def value(self, y: Array, h: Array) -> Array:
        size = np.abs(y - h)
        return np.where(size <= self.knee, 0.5 * size**2, self.knee * (size - 0.5 * self.knee))

    def of_vectors(self, y: AnyArray, h: AnyArray) -> AnyArray:
        import jax.numpy as jnp

        size = jnp.abs(y - h)
        return jnp.sum(jnp.where(size <= self.knee, 0.5 * size**2, self.knee * (size - 0.5 * self.knee)))

    def score(self, y: Array, omega: Array, variance: Array | float) -> tuple[Array, Array]:
        g = (y - omega) / (1 + variance)
        return np.clip(g, -self.knee, self.knee), np.where(np.abs(g) < self.knee, 1 / (1 + np.asarray(variance)), 0.0)

    def breakpoints(self, y: Array, variance: Array) -> tuple[Array, ...]:
        reach = self.knee * (1 + variance)
        return y - reach, y + reach

    def residual_averages(self, mean: Array, variance: Array, susceptibility: Array) -> ResidualAverages:
        v, knee = susceptibility, self.knee
        reach, root = knee * (1 + v), np.sqrt(variance)
        upper, lower = (_positive_part(shift, root) for shift in (mean - reach, -mean - reach))
        tails = upper[0] + lower[0]
        # The average of the residual up to the ends of the quadratic part is the residual less both tails.
        clipped = mean - upper[1] + lower[1]
        square = mean**2 + variance - (upper[2] + lower[2]) - 2 * reach * (upper[1] + lower[1])
        outside = [_positive_part(shift, root) for shift in (mean - knee, -mean - knee)]
        # A residual r beyond the knee costs the square less half of the excess squared.
        test = 0.5 * (mean**2 + variance - outside[0][2] - outside[1][2])
        beyond = upper[1] + lower[1]
        training = 0.5 * square / (1 + v) ** 2 + knee * beyond
        inside = 1 - tails
        return ResidualAverages(
            clipped / (1 + v), square / (1 + v) ** 2, inside / (1 + v), inside / (1 + v) ** 2, training, test
        )

    def conjugate(self, y: Array, u: Array) -> Array:
        # Clipped slopes lie on the boundary of the domain, and rounding must not move them outside.
        return np.where(np.abs(u) <= self.knee * (1 + 1e-12), u * y + 0.5 * u**2, np.inf)


def _positive_part(mean: Array, deviation: Array) -> tuple[Array, Array, Array]:
    """Return the probability of a normal variable above zero, and the first two moments of its positive part."""
    ratio = mean / deviation
    probability, density = ndtr(ratio), np.exp(-0.5 * ratio**2) / np.sqrt(2 * np.pi)
    first = mean * probability + deviation * density
    return probability, first, (mean**2 + deviation**2) * probability + mean * deviation * density


LOSSES: dict[str, Callable[[], Loss]] = {
    "square": Square,
    "logistic": Logistic,
    "hinge": Hinge,
    "squared-hinge": SquaredHinge,
    "huber": Huber,
    "cross-entropy": CrossEntropy,
}


def loss_of(given: object, convex: bool = True) -> Loss:
    """Return the loss of a name, the custom loss of a function of a label and a field, or a given loss unchanged.

    Args:
        given: a name, a function or a loss.
        convex: whether the loss must be convex, as for matrices.

    Raises:
        ParameterError: the name is unknown, or the function is not a convex loss.

    Example:
        >>> loss_of("hinge"), loss_of("hinge").labels
        (Hinge(), 'signs')
    """
    if isinstance(given, str) and given in LOSSES:
        return LOSSES[given]()
    if not isinstance(given, Loss):
        if not callable(given):
            raise ParameterError("loss", given, f"{', '.join(LOSSES)}, or a function of a label and a field")
        return CustomLoss(given, convex)
    if convex and not given.convex:
        raise ParameterError("loss", given.name, "convex in the field")
    return given
