"""A problem of regularised risk: model, loss and penalty, and one step of its state evolution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar

from glassformer.bayes_optimal.solve import validated_alpha
from glassformer.core.cache import memoize
from glassformer.core.checks import is_number
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.estimate import Array
from glassformer.models.base import Model
from glassformer.risk.attention_averages import attention_averages
from glassformer.risk.label_averages import LabelAverages, SampleAverages
from glassformer.risk.loss_base import Loss
from glassformer.risk.order_parameters import ConjugateParameters, OrderParameters
from glassformer.risk.penalised_matrix import matrix_order, threshold_of
from glassformer.risk.penalty_base import MATRICES, POSITIVE_MATRICES, Penalty

# Strength in place of the limit of no penalty: errors differ from the limit in proportion to the strength.
SMALL_STRENGTH = 1e-11
# Effective noise below which the signal counts as recovered: close to the square of the rounding error.
NEGLIGIBLE_NOISE = 1e-20
# Largest useful strength of a penalty whose estimate is never zero, in units of m_hat over its slope at one (a
# convention).
STRONG_RIDGE = 30.0
# Noises for the extrapolation of the statistical dimension, each half of the previous one, and bounds of log c.
_NOISES, _LOG_THRESHOLDS = 0.02 * 0.5 ** np.arange(4), (-6.0, 2.0)

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class RiskProblem:
    """Minimise a loss and a penalty on the labels of a model, in the limit of large sizes.

    Attributes:
        model: model of the teacher.
        loss: loss of the student.
        penalty: penalty of the student.
        given_averages: averages over labels; None for those of the loss at the first accuracy.
        width: largest share of nonzero singular values of the estimate; None if it is unbounded.

    Raises:
        IncompatibleError: labels do not correlate with their fields, so that a linear fit learns nothing.
    """

    model: Any
    loss: Loss
    penalty: Penalty
    given_averages: LabelAverages | None = None
    width: float | None = None

    some_estimate = "some matrix separates"

    def __post_init__(self) -> None:
        slope, _ = self.labels.regression
        if not slope > 0:
            text = (
                f"do not correlate with their fields (E[h y] = {slope:.3g}), and a linear fit learns nothing from them"
            )
            raise IncompatibleError(f"labels of channel {self.model.channel.label} {text}: use gamp")

    @property
    def power(self) -> float:
        """Power of the teacher, :math:`Q_0`."""
        return float(self.model.prior.second_moment)

    @property
    def positive(self) -> bool:
        """Whether signals are positive matrices."""
        return bool(self.model.prior.symmetric)

    @property
    def reaches_zero(self) -> bool:
        """Whether a large strength leaves an estimate of zero."""
        return self.penalty.kink > 0

    @property
    def rank(self) -> float:
        """Share of the singular values of the teacher that are not zero."""
        return float(self.model.prior.rank)

    @cached_property
    def labels(self) -> LabelAverages:
        """Averages over the labels, as the loss needs them."""
        if self.given_averages is not None:
            return self.given_averages
        averages = attention_averages if self.loss.labels == "classes" else LabelAverages
        return averages(self.model.channel, self.power, self.loss)

    @property
    def finer(self) -> RiskProblem | None:
        """The problem with more accurate averages over labels; None at the highest accuracy."""
        finer = self.labels.finer
        return None if finer is None else replace(self, given_averages=finer)

    def tuned_error(self, order: OrderParameters) -> Array:
        """Return the error that the best strength minimises, for labels that are numbers."""
        return order.error

    def columns(self, order: OrderParameters) -> dict[str, Array]:
        """Return order parameters, and how well the estimate predicts, as columns of a table."""
        with np.errstate(divide="ignore", invalid="ignore"):
            cosine = order.overlap / np.sqrt(order.power * self.power)
        columns = {"error": order.error, "overlap": order.overlap, "power": order.power, "cosine": cosine}
        if self.labels.has_label_error:
            columns["label_error"] = self.labels.label_error(order)
        return columns

    # One step of state evolution --------------------------------------------------------------------------------

    def order_parameters(self, strength: Array, conjugate: ConjugateParameters) -> OrderParameters:
        """Return the order parameters at conjugate parameters."""
        prior = self.model.prior
        return matrix_order(self.penalty, prior, strength / prior.degrees, conjugate, self.width)

    def threshold(self, strength: Array, conjugate: ConjugateParameters) -> Array:
        """Return the threshold below which singular values of the noisy matrix are set to zero, shape (batch,)."""
        prior = self.model.prior
        return threshold_of(self.penalty, prior, strength / prior.degrees, conjugate)

    def conjugate_parameters(self, alpha: Array, order: OrderParameters) -> ConjugateParameters:
        """Return the conjugate parameters at order parameters."""
        return self.conjugate_from_averages(alpha, self.labels.averages(order))

    def conjugate_from_averages(self, alpha: Array, averages: SampleAverages) -> ConjugateParameters:
        """Return the conjugate parameters from averages per sample."""
        count = alpha / self.model.prior.degrees
        noise = np.maximum(averages.q_hat / count / averages.m_hat**2, NEGLIGIBLE_NOISE)
        # At an estimate of zero the proximal map of a loss with kinks may be constant, with V_hat = 0.
        v_hat = np.maximum(averages.v_hat, SMALL_STRENGTH * averages.m_hat)
        return ConjugateParameters(noise, count * averages.m_hat, count * v_hat)

    def unlearned(self, alpha: Array) -> ConjugateParameters:
        """Return the conjugate parameters at an estimate of zero."""
        zero = OrderParameters(*(np.zeros_like(alpha) for _ in OrderParameters._fields))
        return self.conjugate_parameters(alpha, zero._replace(error=np.full_like(alpha, self.power)))

    # Quantities known without iterations ------------------------------------------------------------------------

    def known_error(self, alpha: Array, strength: Array) -> Array:
        """Return errors that need no iteration, NaN elsewhere.

        For strengths of at least ``lambda_max`` the estimate is zero. Above its threshold, the interpolator of least
        norm of exact labels is the signal, and so is the only positive matrix of the same trace that fits them.
        """
        known = np.full(len(alpha), np.nan)
        if self.reaches_zero and self.penalty.is_norm:
            known[strength >= self.lambda_max(alpha)] = self.power
        known[((strength == 0) | self.penalty.pinned) & self.recovers(alpha)] = 0.0
        return known

    def labels_per_unknown(self, alpha: Array) -> Array:
        """Return the number of components of labels per unknown."""
        return np.asarray(alpha / self.model.prior.degrees * self.labels.components)

    def is_least_squares(self, alpha: Array, strength: Array) -> Flags:
        """Return where fixed points have the closed form of least squares.

        These are fixed points of the square loss at strength zero, with a ridge penalty, or with at least as many
        labels as unknowns.
        """
        if self.positive or not self.loss.quadratic:
            return np.zeros(alpha.shape, dtype=bool)
        return np.asarray((strength == 0) & ((self.labels_per_unknown(alpha) >= 1) | self.penalty.quadratic))

    def recovers(self, alpha: Array) -> Flags:
        """Return where the interpolator of least norm is the signal."""
        if not self.labels.exact_components > 0:
            return np.zeros(alpha.shape, dtype=bool)
        exact_labels = alpha / self.model.prior.degrees * self.labels.exact_components
        return np.asarray(exact_labels >= self.statistical_dimension[0])

    @property
    def statistical_dimension(self) -> tuple[float, float]:
        """Number of exact labels per unknown that perfect recovery needs, and its error."""
        if self.penalty.kink == 0:
            return 1.0, 0.0
        known = self.norm_dimension if self.penalty.is_norm else None
        if known is not None:
            return known, 0.0
        dimension: tuple[float, float] = memoize(
            self.extrapolated_dimension, "statistical dimension", self.model.prior, self.penalty
        )
        return dimension

    @property
    def norm_dimension(self) -> float | None:
        """Number of exact labels per unknown that recovery with a norm needs; None if no closed form is known."""
        return float(self.model.prior.convex_dimension)

    def extrapolated_dimension(self) -> tuple[float, float]:
        """Return the statistical dimension, extrapolated from errors at small noise, and its error."""

        def error_at(noise: Array, level: Array) -> Array:
            one = np.ones_like(noise)
            strength = level * self.model.prior.degrees / self.penalty.kink
            return self.order_parameters(strength, ConjugateParameters(noise**2, one, one)).error

        return descent_dimension(error_at)

    def lambda_max(self, alpha: Array) -> Array:
        """Return the smallest strength with an estimate of zero; for ridge, the largest useful strength."""
        return self.lambda_max_at(self.unlearned(alpha))

    def lambda_max_at(self, conjugate: ConjugateParameters) -> Array:
        """Return the smallest strength with an estimate of zero at these conjugate parameters."""
        prior, kink = self.model.prior, self.penalty.kink
        if kink == 0:
            largest = STRONG_RIDGE * conjugate.m_hat / self.penalty.slope(np.ones(1))
        else:
            largest = conjugate.m_hat * self.largest_value(conjugate.noise) / kink
        return np.asarray(prior.degrees * largest)

    def largest_value(self, noise: Array) -> Array:
        """Return the largest singular value of the signal seen through noise."""
        return np.asarray(np.nanmax(self.model.prior.noisy_law(noise).support, axis=(1, 2)))


def positive_alpha(alpha: ArrayLike) -> Array:
    """Return sample ratios as an array, or raise an error that names the first one that is not positive."""
    values = validated_alpha(alpha)
    if np.any(values <= 0):
        raise ParameterError("alpha", float(values.min()), "> 0: regularised risk needs samples")
    return values


def risk_problem(
    model: Model, loss: Loss, penalty: Penalty, strength: float | None, student_rho: float | None = None
) -> RiskProblem:
    """Return the problem of a model, loss, penalty and strength, of a student of full width or of a given one.

    Raises:
        ParameterError: the strength is out of range.
        IncompatibleError: they are incompatible.
    """
    prior, channel = model.prior, model.channel
    if strength is not None and not (is_number(strength) and 0 <= strength < np.inf):
        raise ParameterError("strength", strength, "finite and >= 0, or None for the best one")
    if model.overlap_shape:
        reason = "this theory is for models of one matrix, bsr and aim"
        raise IncompatibleError(f"model {model.name}: {reason}; use learner risk, whose theory includes models of rows")
    if not model.well_specified:
        raise IncompatibleError(f"model {model.name} learns a map, of which only ridge regression has a theory")
    if not getattr(prior, "extensive", False):
        given = ((name, model.parameters.get(name)) for name in ("width", "rho"))
        narrow = next((f"{name} = {value:g}" for name, value in given if value is not None), f"model {model.name}")
        raise IncompatibleError(f"{narrow}: the theory of risk needs bsr or aim of extensive width: give rho > 0")
    if getattr(channel, "root", ()):
        correlated = f"token_correlation = {model.parameters['token_correlation']}"
        raise IncompatibleError(f"{correlated}: the theory of risk needs independent tokens: leave it out, or use gamp")
    if (POSITIVE_MATRICES if prior.symmetric else MATRICES) not in penalty.signals:
        fitting = "trace or pinned" if prior.symmetric else "nuclear, ridge or elastic"
        raise IncompatibleError(f"this penalty does not apply to the matrices of model {model.name}: use {fitting}")
    if penalty.pinned and not channel.labels.linear:
        raise IncompatibleError(f"labels of channel {channel.label} do not determine the trace: use penalty trace")
    if penalty.pinned and strength is not None:
        raise IncompatibleError(f"strength = {strength} has no effect with penalty pinned: leave it out")
    if prior.symmetric and not channel.labels.linear and bool(channel.fields.shape) and loss.quadratic:
        reason = f"loss {loss.name} has no theory for labels of channel {channel.label} of several indices"
        raise IncompatibleError(f"{reason}: use cross-entropy, or channel linear")
    if loss.binary and set(channel.labels.values) != {-1.0, 1.0}:
        noisy = " with noise" if model.parameters.get("noise") else ""
        reason = f"loss {loss.name} needs labels +1 and -1, not labels of channel {channel.label}{noisy}"
        clean = ", or noise = 0, or noise_law = 'flip:0.1'" if noisy and channel.label.startswith("sign") else ""
        raise IncompatibleError(f"{reason}: use {'cross-entropy' if prior.symmetric else 'square or huber'}{clean}")
    if strength == 0 and not loss.quadratic:
        raise IncompatibleError(
            f"strength = 0 is available for loss square only, not for {loss.name}: give strength > 0"
        )
    width = None if student_rho is None else _width_share(model, penalty, strength, student_rho)
    return RiskProblem(model, loss.adapted(channel), penalty, width=width)


def _width_share(model: Model, penalty: Penalty, strength: float | None, student_rho: float) -> float | None:
    """Return the width of a student over the length of the smaller side; None if it does not bind.

    Raises:
        IncompatibleError: penalty or strength are not those of weight decay on factors.
    """
    if not penalty.is_norm or penalty.pinned:
        raise IncompatibleError(f"student_rho is for penalties nuclear and trace, not {penalty.name}: leave it out")
    if strength == 0:
        raise IncompatibleError(
            "student_rho needs a strength > 0, or None for the best one: interpolators are not unique"
        )
    share = student_rho / min(1.0, model.matrix_prior.shape_ratio or 1.0)
    return share if share < 1 else None


def descent_dimension(error_at: Callable[[Array, Array], Array]) -> tuple[float, float]:
    r"""Return the statistical dimension of the descent cone of a penalty, and an error estimate.

    The estimate of a matrix in small noise :math:`\tau`, with singular values lowered by :math:`\theta = c\,\tau`, has
    an error :math:`D(c)\,\tau^2`. For exact linear labels the effective noise per unknown is :math:`\tau^2 = E/\alpha`,
    which decreases if :math:`\alpha > \min_c D(c)`. The limit of no noise is taken by Richardson extrapolation.

    Args:
        error_at: error of the estimate of a matrix in noise of this standard deviation, with this threshold.

    Example:
        >>> value, _ = descent_dimension(lambda noise, level: noise**2 * (0.3 + noise) + (level - noise) ** 2)
        >>> round(value, 6)
        0.3
    """

    def dimension(noise: float) -> float:
        def at(level: float) -> float:
            return float(error_at(np.array([noise]), np.array([noise * np.exp(level)]))[0]) / noise**2

        return float(minimize_scalar(at, bounds=_LOG_THRESHOLDS, method="bounded", options={"xatol": 1e-7}).fun)

    sums = np.array([dimension(noise) for noise in _NOISES])
    once = 2 * sums[1:] - sums[:-1]
    twice = (4 * once[1:] - once[:-1]) / 3
    return float(twice[-1]), float(abs(twice[-1] - twice[-2])) + 1e-9
