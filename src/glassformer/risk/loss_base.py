r"""Interface of a loss :math:`\ell(y, h)`, convex in the fitted field ``h``.

State evolution uses the proximal map :math:`p = \mathrm{prox}_{V\ell(y,\cdot)}(\omega)`, the minimiser of
:math:`\ell(y, p) + (p-\omega)^2/(2V)`, and the score :math:`g = (p - \omega)/V = -\partial_h\ell(y, p)`. Certificates
of a duality gap use the conjugate :math:`\ell^*(y, u) = \sup_h[uh - \ell(y, h)]`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from glassformer.channels.base import Channel
from glassformer.core.arrays import AnyArray
from glassformer.core.defaults import default_property
from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array


class ResidualAverages(NamedTuple):
    r"""Averages over a normal residual :math:`y - \omega`, all of one shape.

    Attributes:
        score: :math:`E\,g`.
        score_square: :math:`E\,g^2`.
        curvature: :math:`-E\,\partial_\omega g`.
        curvature_square: :math:`E(\partial_\omega g)^2`.
        training_loss: :math:`E\,\ell(y, p)`.
        test_loss: :math:`E\,\ell(y, \omega)`.
    """

    score: Array
    score_square: Array
    curvature: Array
    curvature_square: Array
    training_loss: Array
    test_loss: Array


class Loss(ABC):
    """A loss, convex in the fitted field. Labels, fields and variances broadcast."""

    labels = default_property(
        "numbers", "What labels are: ``numbers``, ``signs`` +1 and -1, or ``classes``, as rows of probabilities."
    )
    convex = default_property(True, "True when the loss is convex in the prediction; matrices need such losses.")
    quadratic = default_property(
        False, "True for half the squared residual, whose second derivative is constant, and which has closed forms."
    )
    sharpness = default_property(
        np.inf, "Largest second derivative in the field at sample weight one; infinite for losses with kinks."
    )
    of_residual = default_property(False, "True when the loss depends on the difference of label and field alone.")
    exact_fit = default_property(
        None,
        "Loss that is zero where this one has its least value and infinite elsewhere, the limit of a small penalty.",
    )
    unbounded = default_property(
        False, "True when the loss falls without end as margins grow, so that a vanishing penalty leaves a direction."
    )
    best_intercept = default_property(False, "True when fields are shifted by the intercept of least loss.")
    weights = default_property(1.0, "Weights > 0 of the samples, which multiply their losses.")

    @property
    def binary(self) -> bool:
        """True if labels must be +1 or -1."""
        return bool(self.labels == "signs")

    @property
    def name(self) -> str:
        """Name on the command line."""
        return type(self).__name__.lower()

    def slope(self, y: Array, h: Array) -> Array:
        """Return the derivative in the field, for differentiable losses."""
        raise NotImplementedError

    def curvature(self, slopes: Array) -> Array | None:
        """Return the second derivative as a function of the first; None if it is not a function of the first."""
        del slopes
        return None

    @abstractmethod
    def value(self, y: Array, h: Array) -> Array:
        """Return the loss."""

    def of_vectors(self, y: AnyArray, h: AnyArray) -> AnyArray:
        """Return the loss of a label and a prediction of several rows, both vectors, as JAX traces it.

        Losses with kinks round them off. By default it is the sum of :meth:`value` over the entries, whose operations
        must be such that JAX traces them.
        """
        value: Callable[..., AnyArray] = self.value
        return value(y, h).sum()

    @abstractmethod
    def score(self, y: Array, omega: Array, variance: Array | float) -> tuple[Array, Array]:
        r"""Return the score ``g`` and :math:`-\partial_\omega g`."""

    def proximal(self, y: Array, omega: Array, variance: Array | float) -> Array:
        r"""Return the proximal map, :math:`p = \omega + Vg`."""
        return np.asarray(omega + variance * self.score(y, omega, variance)[0])

    def envelope(self, y: Array, omega: Array, variance: Array | float) -> Array:
        r"""Return the Moreau envelope, :math:`\min_p\,\ell(y, p) + (p-\omega)^2/(2V)`, whose derivative is ``-g``."""
        p = self.proximal(y, omega, variance)
        return np.asarray(self.value(y, p) + (p - omega) ** 2 / (2 * variance))

    def breakpoints(self, y: Array, variance: Array) -> tuple[Array, ...]:
        """Return values of ``omega`` at which the score has a kink or changes fast; none by default."""
        del y, variance
        return ()

    def residual_averages(self, mean: Array, variance: Array, susceptibility: Array) -> ResidualAverages | None:
        r"""Return closed averages over residuals :math:`y - \omega \sim N(\mu, s)`, or None where none are known."""
        del mean, variance, susceptibility
        return None

    def conjugate(self, y: Array, u: Array) -> Array:
        """Return the conjugate, infinite outside its domain, for losses of one field."""
        raise NotImplementedError

    def conjugate_at(self, y: Array, h: Array, slopes: Array, share: float) -> Array:
        """Return the conjugate, or an upper bound, at ``share`` in [0, 1] times the slopes of the loss at ``h``.

        The slopes may also be those of an envelope of the loss.
        """
        del h
        return self.conjugate(y, share * slopes)

    def adapted(self, channel: Channel) -> Loss:
        """Return the loss with unset parameters set to those of the channel of the labels."""
        del channel
        return self


# Values of discrete labels that an error lists.
_FEW_VALUES = 4


def sign_labels_error(loss: str, model: Any, values: Sequence[float], entries: int = 1) -> IncompatibleError:
    """Return the error for a loss of labels +1 and -1 that a model does not have.

    Args:
        loss: name of the loss.
        model: the teacher.
        values: of its labels if they are discrete; empty if they are continuous.
        entries: numbers in a label.

    Example:
        >>> from types import SimpleNamespace
        >>> print(sign_labels_error("logistic", SimpleNamespace(name="smi", parameters={"link": "mine"}), (0.0, 1.0)))
        loss logistic needs labels +1 and -1, and the labels of link mine are 0 and 1: let the link return +1 and -1, \
or use square or huber
    """
    own_link = "link" in model.parameters
    whose = f"link {model.parameters['link']}" if own_link else f"model {model.name}"
    listed = [f"{value:g}" for value in values[:_FEW_VALUES]]
    kinds = f"{', '.join(listed[:-1])} and {listed[-1]}" if len(listed) > 1 else "".join(listed)
    kinds += f" and {len(values) - len(listed)} more" if len(values) > len(listed) else ""
    are = f"{entries} numbers each" if entries > 1 else kinds or "continuous"
    change = "let the link return +1 and -1, or " if own_link else ""
    others = "square, huber, or cross-entropy for classes" if len(values) > 2 else "square or huber"
    return IncompatibleError(
        f"loss {loss} needs labels +1 and -1, and the labels of {whose} are {are}: {change}use {others}"
    )
