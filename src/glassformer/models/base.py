"""The interface of models: prior, channel, and the model at a finite size."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, Self, cast

import numpy as np

from glassformer.channels.label_errors import new_samples, squared_errors_on, wrong_labels_on
from glassformer.core.checks import is_number
from glassformer.core.defaults import default_property
from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array
from glassformer.core.resources import require_resources
from glassformer.designs.base import Design
from glassformer.designs.dense import CorrelatedDesign
from glassformer.models.comparison import NewInputs, compare
from glassformer.models.trainable.base import Trainable
from glassformer.priors.base import Prior, ScalarPrior

# Ratios beyond these equal their limits to rounding, and would only lose digits.
SMALLEST, LARGEST = 1e-9, 1e9

# Width over size up to which finite-width corrections stay below the statistical error of a few runs (a convention).
_NEGLIGIBLE = 0.02


@dataclass(frozen=True)
class FiniteSize:
    """A model at a finite size, and how to draw from it.

    Attributes:
        model: the model at the ratios that whole numbers allow.
        design: the class of its inputs, or an object that draws them.
        input_shape: shape of one sample's input.
        unit: number of samples at sample ratio one.
        remarks: finite-size effects that theory does not contain.
    """

    model: Model
    design: type[Design] | CorrelatedDesign
    input_shape: tuple[int, int]
    unit: float
    remarks: tuple[str, ...] = ()


def finite_width_warning(width: int | None, shape: tuple[int, int]) -> tuple[str, ...]:
    """Warn that theory of negligible width neglects terms of order width over size.

    Example:
        >>> finite_width_warning(8, (100, 100))[0]
        'width = 8 of 100: theory assumes width << size; runs differ from it by terms of order 0.08'
        >>> finite_width_warning(1, (100, 100))
        ()
    """
    size = min(shape)
    if width is None or width < _NEGLIGIBLE * size:
        return ()
    return (
        f"width = {width} of {size}: theory assumes width << size; runs differ from it by terms of order "
        f"{width / size:.2g}",
    )


class Model(Trainable, ABC):
    """A model: a prior, a channel, and the design at a finite size.

    A scalar model is the case of one row. Its overlaps are numbers in results, those of several rows matrices.
    """

    channel_names: ClassVar[tuple[str, ...]] = ()
    """Names of its channels."""

    together: ClassVar[int] = 1024
    """Number of sample ratios that are best computed in one call: many when each takes less than a millisecond."""

    channel: Any
    """The channel: a :class:`~glassformer.channels.scalar.base.ScalarChannel`, or one of several rows."""

    @classmethod
    def select(cls, given: dict[str, Any]) -> dict[str, Any] | None:
        """Return the parameters of this class if they select it among the classes of its name; None otherwise.

        Raises:
            IncompatibleError: parameters that exclude each other.
        """
        return given

    _asked: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """Arguments as given, for attributes that hold the objects made of them."""

    def _finish(self, channel: Any, /, **asked: Any) -> None:
        """Set the finished channel and its noise, and keep the arguments as given."""
        object.__setattr__(self, "_asked", asked)
        object.__setattr__(self, "channel", channel)
        object.__setattr__(self, "noise", float(getattr(channel, "noise", 0.0)))

    def varied(self, **parameters: Any) -> Self:
        """Return the model with other parameters; a channel that depends on them is made again.

        Raises:
            GlassformerError: values that are not allowed, as where the model is made. A channel that was given
                finished has noise and temperature of its own.

        Example:
            >>> from glassformer import BilinearSequenceRegression
            >>> BilinearSequenceRegression(rho=0.5, channel="gaussian").varied(noise=0.1).channel
            GaussianChannel(noise=0.1)
        """
        return cast(Self, replace(cast(Any, self), **{**self._asked, **parameters}))

    @property
    @abstractmethod
    def name(self) -> str:
        """Short name, as the command line spells it."""

    @property
    @abstractmethod
    def prior(self) -> Prior:
        """The prior of the signal."""

    @property
    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """The parameters that define the model, by name, as plain numbers and strings."""

    @abstractmethod
    def at_size(self, d: int) -> FiniteSize:
        """The model at token dimension ``d``.

        Raises:
            IncompatibleError: the model is a limit without data.
        """

    def require_teacher(self, d: int) -> None:
        """Raise if a signal at token dimension ``d`` and its factors would not fit into memory; rows always do."""
        del d

    tokens_parameter: ClassVar[str] = "tokens"
    """Name of the parameter that sets the number of tokens."""

    def inputs_at(self, d: int) -> tuple[type[Design], int]:
        """The design class for own inputs with tokens of dimension ``d``, and their number of tokens."""
        size = self.at_size(d)
        return cast(type[Design], size.design), size.input_shape[0]

    def tokens_remedy(self, tokens: int, d: int) -> str:
        """The parameter setting for inputs of ``tokens`` tokens of dimension ``d``, for error messages."""
        del d
        return f"{self.tokens_parameter}={tokens}"

    @property
    def baseline_thresholds(self) -> dict[str, float]:
        """Sample ratios at which estimators other than the Bayes-optimal one recover perfectly, by name."""
        return {}

    @property
    def row_names(self) -> tuple[str, ...]:
        """Names of the rows in messages and plots."""
        return tuple(f"row {k + 1}" for k in range(self.prior.rows))

    @property
    def learned_rows(self) -> str:
        """Name of all rows together, in messages."""
        return "all rows"

    @property
    def row_groups(self) -> dict[str, tuple[int, ...]]:
        """Groups of interchangeable rows by name; by default every row is a group."""
        return {name: (k,) for k, name in enumerate(self.row_names)}

    remarks = default_property((), "Assumptions of the theory that may fail: notes of results.")
    theory_unavailable_reason = default_property(
        None, "Reason why no theory is available, offending parameter first; None if there is one."
    )

    last_layer = default_property(
        None, "1 for rows of the last layer and 0 for others, shape (P,); None without layers."
    )

    @property
    def overlap_shape(self) -> tuple[int, ...]:
        """Shape of one overlap in results: empty for numbers, (P, P) for matrices."""
        return self.prior.overlap_shape

    @property
    def matrix_prior(self) -> ScalarPrior:
        """The prior of a signal that is one matrix.

        Raises:
            IncompatibleError: the signal has several rows.
        """
        if self.overlap_shape:
            raise IncompatibleError(f"this is for a signal of one matrix, not for the rows of {self.name}")
        return cast(ScalarPrior, self.prior)

    def signal_shape(self, design: Design) -> tuple[int, ...]:
        """Shape of the signal behind a design: rows first, where there are several."""
        return self.prior.signal_shape(design.row_shape)

    def measured(
        self, estimate: Array, signal: Array, variance: Array | None = None, new: NewInputs | None = None
    ) -> dict[str, Any]:
        """Return the errors of an estimate after alignment by the symmetries of the labels.

        Args:
            estimate: of the signal.
            signal: the true one.
            variance: posterior covariance that the estimate claims, shape (P, P); none by default.
            new: inputs whose labels are predicted; by default fields of new samples are normal, with the inner products
                of the rows, as in the limit of large sizes.

        Returns:
            ``error`` and ``prior_error``; ``label_error`` where labels are discrete; ``prediction_error`` and
            ``plugin_error`` where they are numbers; for several rows also ``row_error``, ``overlap`` and ``cosine``.
        """
        found = compare(self, estimate, signal, variance)
        if self.theory_unavailable_reason is not None:
            return found.errors
        channel, inner = self.channel, found.inner
        samples = new_samples(channel, *inner[:3]) if new is None else new.samples(found.estimate, found.signal)
        on_labels: dict[str, Any] = {}
        if channel.discrete:
            turned = samples._replace(estimated=found.turn @ samples.estimated)
            on_labels["label_error"] = wrong_labels_on(channel, turned, found.turn @ inner.claimed @ found.turn.T)
        if channel.predictable:
            both = squared_errors_on(channel, samples, inner.claimed)
            on_labels |= zip(("prediction_error", "plugin_error"), map(float, both), strict=True)
        return {**found.errors, **on_labels, **(found.of_rows if self.overlap_shape else {})}

    of_link = default_property(False, "True when labels are a user's function of the fields of several rows.")
    few_rows = default_property(
        False, "True when fixed points at a few sample ratios cost no more than the thresholds."
    )

    @property
    def has_curve(self) -> bool:
        """True for one row whose averages are not sampled: all its fixed points lie on one curve."""
        return self.prior.rows == 1 and not self.channel.sampled


def require_theory(model: Model) -> None:
    """Raise if the model can only be simulated.

    Raises:
        IncompatibleError: no theory of it is known.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> require_theory(BilinearSequenceRegression(rho=0.5, token_correlation=0.5))
        Traceback (most recent call last):
        ...
        glassformer.core.errors.IncompatibleError: token_correlation = 0.5: no theory of bsr with correlated tokens ...
    """
    if model.theory_unavailable_reason is not None:
        raise IncompatibleError(f"{model.theory_unavailable_reason}: use simulate, or leave it out")


def counting_threshold(model: Model) -> float:
    """Sample ratio at which noiseless labels are as many as the unknowns; infinite for labels that never fix the field.

    Equation :eq:`counting` of the documentation.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> counting_threshold(BilinearSequenceRegression(beta=1, rho=0.5, noise=0.0))
        0.75
    """
    rank = model.channel.rank
    return model.prior.degrees * model.prior.mmse_dimension / rank if rank > 0 else np.inf


def is_ratio(value: object) -> bool:
    """True for a number in the range of ratios in which the theory keeps its digits."""
    return is_number(value) and bool(SMALLEST <= value <= LARGEST)  # type: ignore[operator]


def require_teacher(sizes: dict[str, tuple[float, object]], shape: tuple[int, int], width: int) -> None:
    """Raise if a signal of this shape and its factors do not fit into memory, naming the largest size.

    Args:
        sizes: by parameter name, the size that it causes, and its value.
        shape: of the signal.
        width: of its factors.

    Example:
        >>> require_teacher({"d": (100, 100), "rho": (50, 0.5)}, (100, 100), 50)
    """
    name = max(sizes, key=lambda name: sizes[name][0])
    memory = 8.0 * (4 * shape[0] * shape[1] + 2 * width * sum(shape))
    require_resources(name, sizes[name][1], memory, "use a smaller d, or smaller ratios", what="weights of a teacher")
