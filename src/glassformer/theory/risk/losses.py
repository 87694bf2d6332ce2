r"""Convex losses of a label and a fitted field, :math:`\ell(y, h)`.

In state evolution a loss is seen through its proximal map :math:`p = \mathrm{prox}_{V\ell(y,\cdot)}(\omega)`, the
minimiser of :math:`\ell(y, p) + (p-\omega)^2/(2V)`, and the score :math:`g = (p - \omega)/V = -\partial_h\ell(y, p)`;
in a certificate through its conjugate :math:`\ell^*(y, u) = \sup_h[uh - \ell(y, h)]`. Losses of several fields are in
:mod:`glassformer.theory.risk.cross_entropy`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, wrightomega, xlogy

from glassformer.core.checks import is_number
from glassformer.core.declarations import declared
from glassformer.core.errors import ParameterError
from glassformer.core.integral import Array
from glassformer.core.numerics.roots import bracketed_root


class Loss(ABC):
    """A loss, convex in the fitted field. Labels, fields and variances broadcast."""

    binary = declared(False, "True when labels have to be +1 or -1.")
    quadratic = declared(False, "True for half the square: it has closed forms, and fits labels exactly in a limit.")

    sharpness = declared(np.inf, "Largest curvature in the field of a sample of weight one; infinite for kinks.")
    weights = declared(1.0, "Of the samples: numbers > 0 that multiply their losses.")

    @property
    def steady(self) -> bool:
        """Whether the loss bends alike everywhere."""
        return bool(self.quadratic)

    @property
    def name(self) -> str:
        """Name on the command line."""
        return type(self).__name__.lower()

    def slope(self, y: Array, h: Array) -> Array:
        """Derivative in the field, of losses that have one everywhere."""
        raise NotImplementedError

    def bend(self, slopes: Array) -> Array | None:
        """Second derivative where the slopes are these, of losses whose slopes tell it; None of others."""
        del slopes
        return None

    @abstractmethod
    def value(self, y: Array, h: Array) -> Array:
        """The loss."""

    @abstractmethod
    def proximal(self, y: Array, omega: Array, variance: Array | float) -> Array:
        """The minimiser ``p``."""

    @abstractmethod
    def score(self, y: Array, omega: Array, variance: Array | float) -> tuple[Array, Array]:
        r"""The score ``g`` and :math:`-\partial_\omega g`."""

    def bends(self, y: Array, variance: Array) -> tuple[Array, ...]:
        """Places in ``omega`` where the score bends, or changes fast, of losses of one field."""
        raise NotImplementedError

    def conjugate(self, y: Array, u: Array) -> Array:
        """The conjugate, of losses of one field; infinite outside its domain."""
        raise NotImplementedError

    def conjugate_at(self, y: Array, h: Array, slopes: Array, share: float) -> Array:
        """The conjugate, or no less, at a share in [0, 1] of the slopes of the loss, or its envelope, at ``h``."""
        del h
        return self.conjugate(y, share * slopes)

    def adapted(self, channel: Any) -> Loss:
        """The loss with what it has not been told taken from the channel of its labels."""
        del channel
        return self

    def labels_of(self, channel: Any, power: float) -> Any:
        """Labels of a channel, of fields of this power, as the loss sees them."""
        from glassformer.theory.risk.labels import Labels

        return Labels(channel, power, self)


@dataclass(frozen=True)
class Square(Loss):
    r"""Half the squared residual, :math:`(y-h)^2/2`.

    Example:
        >>> float(Square().proximal(np.array(3.0), np.array(0.0), 0.5))
        1.0
    """

    quadratic = True
    sharpness = 1.0

    def slope(self, y: Array, h: Array) -> Array:
        return h - y

    def bend(self, slopes: Array) -> Array:
        return np.ones_like(slopes)

    def value(self, y: Array, h: Array) -> Array:
        return 0.5 * (y - h) ** 2

    def proximal(self, y: Array, omega: Array, variance: Array | float) -> Array:
        return omega + variance * (y - omega) / (1 + variance)

    def score(self, y: Array, omega: Array, variance: Array | float) -> tuple[Array, Array]:
        g = (y - omega) / (1 + variance)
        return g, np.broadcast_to(1 / (1 + np.asarray(variance)), g.shape)

    def bends(self, y: Array, variance: Array) -> tuple[Array, ...]:
        return ()

    def conjugate(self, y: Array, u: Array) -> Array:
        return u * y + 0.5 * u**2


@dataclass(frozen=True)
class Logistic(Loss):
    r"""Minus the log-likelihood of a logistic model, :math:`\log(1 + e^{-yh})`, for labels +1 and -1.

    Example:
        >>> g, _ = Logistic().score(np.array(1.0), np.array(0.3), 2.0)
        >>> p = Logistic().proximal(np.array(1.0), np.array(0.3), 2.0)
        >>> bool(np.isclose(g, 1 / (1 + np.exp(p))))
        True
    """

    binary = True
    sharpness = 0.25

    def slope(self, y: Array, h: Array) -> Array:
        return -y * expit(-y * h)

    def bend(self, slopes: Array) -> Array:
        miss = np.abs(slopes)
        return miss * (1 - miss)

    def value(self, y: Array, h: Array) -> Array:
        return np.logaddexp(0.0, -y * h)

    def proximal(self, y: Array, omega: Array, variance: Array | float) -> Array:
        margin, v = np.broadcast_arrays(y * omega, np.asarray(variance, dtype=float))

        def condition(z: Array) -> tuple[Array, Array]:
            miss = expit(-z)
            return z - margin - v * miss, 1 + v * miss * (1 - miss)

        # Far from the margin one of its exponentials is all there is, and the equation that of Lambert's function.
        with np.errstate(divide="ignore"):
            right = margin + wrightomega(np.log(v) - margin)
            left = margin + v - wrightomega(np.log(v) + margin + v)
        start = np.where(margin > -0.5 * v, right, left)
        return y * bracketed_root(condition, margin, margin + v, start=start)

    def score(self, y: Array, omega: Array, variance: Array | float) -> tuple[Array, Array]:
        z = y * self.proximal(y, omega, variance)
        miss = expit(-z)
        bend = miss * expit(z)
        return y * miss, bend / (1 + variance * bend)

    def bends(self, y: Array, variance: Array) -> tuple[Array, ...]:
        return 0 * y, -y * variance

    def conjugate(self, y: Array, u: Array) -> Array:
        share = -y * u
        inside = (share >= 0) & (share <= 1)
        share = np.clip(share, 0.0, 1.0)
        return np.where(inside, xlogy(share, share) + xlogy(1 - share, 1 - share), np.inf)


@dataclass(frozen=True)
class Hinge(Loss):
    r"""That of support vector machines, :math:`\max(0, 1 - yh)`, for labels +1 and -1.

    Example:
        >>> Hinge().proximal(np.ones(3), np.array([-2.0, 0.8, 2.0]), 0.5)
        array([-1.5,  1. ,  2. ])
    """

    binary = True

    def value(self, y: Array, h: Array) -> Array:
        return np.maximum(0.0, 1 - y * h)

    def proximal(self, y: Array, omega: Array, variance: Array | float) -> Array:
        return omega + y * np.clip(1 - y * omega, 0.0, variance)

    def score(self, y: Array, omega: Array, variance: Array | float) -> tuple[Array, Array]:
        missing = 1 - y * omega
        bent = (missing > 0) & (missing < variance)
        return y * np.clip(missing / variance, 0.0, 1.0), np.where(bent, 1 / np.asarray(variance), 0.0)

    def bends(self, y: Array, variance: Array) -> tuple[Array, ...]:
        return y + 0 * variance, y * (1 - variance)

    def conjugate(self, y: Array, u: Array) -> Array:
        share = -y * u
        return np.where((share >= 0) & (share <= 1), -share, np.inf)


@dataclass(frozen=True)
class Huber(Loss):
    r"""Quadratic up to a residual of :math:`\delta`, linear beyond: :math:`\delta|y-h| - \delta^2/2` there.

    Args:
        knee: :math:`\delta`, finite and > 0.

    Raises:
        ParameterError: ``knee`` is out of range.

    Example:
        >>> Huber().score(np.array([0.5, 5.0]), np.zeros(2), 1.0)[0]
        array([0.25, 1.  ])
    """

    knee: float = 1.0
    sharpness = 1.0

    def slope(self, y: Array, h: Array) -> Array:
        return np.clip(h - y, -self.knee, self.knee)

    def __post_init__(self) -> None:
        if not (is_number(self.knee) and 0 < self.knee < np.inf):
            raise ParameterError("knee", self.knee, "finite and > 0")

    def value(self, y: Array, h: Array) -> Array:
        size = np.abs(y - h)
        return np.where(size <= self.knee, 0.5 * size**2, self.knee * (size - 0.5 * self.knee))

    def proximal(self, y: Array, omega: Array, variance: Array | float) -> Array:
        return omega + variance * self.score(y, omega, variance)[0]

    def score(self, y: Array, omega: Array, variance: Array | float) -> tuple[Array, Array]:
        g = (y - omega) / (1 + variance)
        return np.clip(g, -self.knee, self.knee), np.where(np.abs(g) < self.knee, 1 / (1 + np.asarray(variance)), 0.0)

    def bends(self, y: Array, variance: Array) -> tuple[Array, ...]:
        reach = self.knee * (1 + variance)
        return y - reach, y + reach

    def conjugate(self, y: Array, u: Array) -> Array:
        # The domain's end is reached by clipping: rounding must not push it outside.
        return np.where(np.abs(u) <= self.knee * (1 + 1e-12), u * y + 0.5 * u**2, np.inf)


# Where minimisers are bracketed, and the misfit of slopes that tells a kink from a smooth place.
_REACH, _KINK = 1e8, 1e-6


@dataclass(frozen=True)
class OwnLoss(Loss):
    r"""Any loss of one's own, convex in the field: a function of one label and one field that JAX can differentiate.

    Args:
        function: of ``y`` and ``h``, numbers, to a number.

    Raises:
        ParameterError: the function is not convex in ``h``, not finite, or not traceable.

    Example:
        >>> import jax.numpy as jnp
        >>> absolute = OwnLoss(lambda y, h: jnp.abs(y - h))
        >>> absolute.proximal(np.array([3.0, 0.2]), np.zeros(2), 0.5).round(6)
        array([0.5, 0.2])
    """

    function: Callable[[Any, Any], Any]

    def __post_init__(self) -> None:
        fields = np.linspace(-6.0, 6.0, 241)
        for label in (-1.0, 1.0):
            try:
                values = np.asarray(self._traced(0)(np.full_like(fields, label), fields), dtype=float)
            except Exception as error:
                allowed = "a function of a label and a field that JAX can trace"
                raise ParameterError("loss", self.name, allowed, str(error).splitlines()[0]) from error
            bend = np.diff(values, 2)
            if not np.all(np.isfinite(values)) or np.min(bend) < -1e-9 * max(1.0, float(np.max(np.abs(values)))):
                raise ParameterError("loss", self.name, "finite and convex in the field, for labels -1 and 1")

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", "own")

    def _traced(self, order: int) -> Callable[[Array, Array], Any]:
        import jax

        from glassformer.core.numerics.compiled import Specialised

        def calculated(y: Array, h: Array) -> Any:
            with jax.enable_x64(True):
                return Specialised(_derivative, function=self.function, order=order)(y, h)

        return calculated

    def _evaluated(self, order: int, y: Array, h: Array) -> Array:
        y, h = np.broadcast_arrays(np.asarray(y, dtype=float), np.asarray(h, dtype=float))
        return np.asarray(self._traced(order)(y.ravel(), h.ravel()), dtype=float).reshape(h.shape)

    def value(self, y: Array, h: Array) -> Array:
        return self._evaluated(0, y, h)

    def proximal(self, y: Array, omega: Array, variance: Array | float) -> Array:
        y, omega, v = np.broadcast_arrays(y, omega, np.asarray(variance, dtype=float))
        # The minimiser lies on the way that the slope at omega points.
        slope = v * self._evaluated(1, y, omega)
        low, high = np.minimum(omega, omega - slope), np.maximum(omega, omega - slope)

        def condition(p: Array) -> tuple[Array, Array]:
            return p - omega + v * self._evaluated(1, y, p), 1 + v * np.maximum(self._evaluated(2, y, p), 0.0)

        return bracketed_root(condition, low, high)

    def score(self, y: Array, omega: Array, variance: Array | float) -> tuple[Array, Array]:
        p = self.proximal(y, omega, variance)
        g = (p - omega) / variance
        # At a kink the proximal map stands still while the slope jumps.
        kink = np.abs(g + self._evaluated(1, y, p)) > _KINK * (1 + np.abs(g))
        bend = np.maximum(self._evaluated(2, y, p), 0.0)
        return g, np.where(kink, 1 / np.asarray(variance), bend / (1 + variance * bend))

    def bends(self, y: Array, variance: Array) -> tuple[Array, ...]:
        return (y + 0 * variance,)

    def conjugate(self, y: Array, u: Array) -> Array:
        y, u = np.broadcast_arrays(np.asarray(y, dtype=float), np.asarray(u, dtype=float))
        reach = np.full(u.shape, _REACH)

        def condition(h: Array) -> tuple[Array, Array]:
            return self._evaluated(1, y, h) - u, np.maximum(self._evaluated(2, y, h), 0.0)

        h = bracketed_root(condition, -reach, reach)
        bounded = np.abs(h) < 0.99 * _REACH
        return np.where(bounded, u * h - self._evaluated(0, y, h), np.inf)


def _derivative(y: Any, h: Any, function: Callable[[Any, Any], Any], order: int) -> Any:
    """Derivative in the field of that order, of arrays of labels and fields."""
    import jax

    for _ in range(order):
        function = jax.grad(function, argnums=1)
    return jax.vmap(function)(y, h)


def _cross_entropy() -> Loss:
    """It is made of this module."""
    from glassformer.theory.risk.cross_entropy import CrossEntropy

    return CrossEntropy()


LOSSES: dict[str, Callable[[], Loss]] = {
    "square": Square,
    "logistic": Logistic,
    "hinge": Hinge,
    "huber": Huber,
    "cross-entropy": _cross_entropy,
}


def loss_of(given: object) -> Loss:
    """The loss that a name, a function of one's own or a loss itself asks for.

    Raises:
        ParameterError: there is none of this name, or a function that is no convex loss.

    Example:
        >>> loss_of("hinge")
        Hinge()
    """
    if isinstance(given, Loss):
        return given
    if isinstance(given, str) and given in LOSSES:
        return LOSSES[given]()
    if callable(given):
        return OwnLoss(given)
    raise ParameterError("loss", given, f"{', '.join(LOSSES)}, or a function of a label and a field")
