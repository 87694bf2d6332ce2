"""What the loops need to know of a model: its prior, its channel, and what it is at a finite size."""

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
from glassformer.models.comparison import compared
from glassformer.models.new_samples import NewInputs
from glassformer.models.trainable.base import Trainable
from glassformer.priors.base import Prior, ScalarPrior

# Ratios beyond these equal their limits to rounding, and would only lose digits.
SMALLEST, LARGEST = 1e-9, 1e9

# Share of the width in the size up to which a run is taken for one of negligible width.
_NEGLIGIBLE = 0.02


@dataclass(frozen=True)
class FiniteSize:
    """A model at a finite size, and how to draw from it.

    Attributes:
        model: the model at the ratios that whole numbers allow.
        design: the class of its inputs, or what draws them in the place of one.
        input_shape: shape of one sample's input.
        unit: number of samples at sample ratio one.
        remarks: what theory leaves out at this size.
    """

    model: Model
    design: type[Design] | CorrelatedDesign
    input_shape: tuple[int, int]
    unit: float
    remarks: tuple[str, ...] = ()


def finite_width_warning(width: int | None, shape: tuple[int, int]) -> tuple[str, ...]:
    """What theory of negligible width leaves out of a matrix of this fixed width and shape.

    Example:
        >>> finite_width_warning(8, (100, 100))[0]
        'width = 8 of 100: theory is that of a width far below the size, runs have terms of order 0.08 beside it'
        >>> finite_width_warning(1, (100, 100))
        ()
    """
    size = min(shape)
    if width is None or width < _NEGLIGIBLE * size:
        return ()
    return (
        f"width = {width} of {size}: theory is that of a width far below the size, runs have terms of order "
        f"{width / size:.2g} beside it",
    )


class Model(Trainable, ABC):
    """A model: a prior and a channel, of one row or of several, and what it is at a finite size.

    The loops see a scalar model as the case of one row; its overlaps are numbers in results, those of several rows
    matrices.
    """

    channel_names: ClassVar[tuple[str, ...]] = ()
    """Channels that may be given by name, where there are any."""

    together: ClassVar[int] = 1024
    """Sample ratios whose theory is best computed in one call: many of fractions of a millisecond, few of slow ones."""

    channel: Any
    """What is reported: a :class:`~glassformer.channels.scalar.base.ScalarChannel`, or one of several rows."""

    @classmethod
    def variants(cls) -> tuple[type[Model], ...]:
        """The classes that go by the name of this one."""
        return (cls,)

    @classmethod
    def chosen(cls, given: dict[str, Any]) -> tuple[type[Model], dict[str, Any]]:
        """Which of them parameters ask for, and what they are there.

        Raises:
            IncompatibleError: parameters that exclude each other.
        """
        return cls, given

    _asked: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """Arguments in the place of which the model holds what it has made of them."""

    def _finish(self, channel: Any, /, **asked: Any) -> None:
        """Hold a finished channel, which brings its noise along, and what was asked for in its place."""
        object.__setattr__(self, "_asked", asked)
        object.__setattr__(self, "channel", channel)
        object.__setattr__(self, "noise", float(getattr(channel, "noise", 0.0)))

    def varied(self, **parameters: Any) -> Self:
        """The same model with other parameters; a channel that depends on them is made anew.

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
        """What is learned."""

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
    """The parameter that says how many tokens an input has."""

    def inputs_at(self, d: int) -> tuple[type[Design], int]:
        """The class of designs of inputs of one's own with tokens of dimension ``d``, and how many tokens they have."""
        size = self.at_size(d)
        return cast(type[Design], size.design), size.input_shape[0]

    def tokens_remedy(self, tokens: int, d: int) -> str:
        """How its parameters say that inputs have so many tokens of dimension ``d``."""
        del d
        return f"{self.tokens_parameter}={tokens}"

    @property
    def baseline_thresholds(self) -> dict[str, float]:
        """Sample ratios at which estimators other than the Bayes-optimal one recover perfectly, by name."""
        return {}

    @property
    def row_names(self) -> tuple[str, ...]:
        """What the rows are, in messages and plots."""
        return tuple(f"row {k + 1}" for k in range(self.prior.rows))

    @property
    def learned_rows(self) -> str:
        """What is known once all rows are, in messages."""
        return "all rows"

    @property
    def row_groups(self) -> dict[str, tuple[int, ...]]:
        """Rows that are told apart from others, not among themselves, by the name of each group: here every row."""
        return {name: (k,) for k, name in enumerate(self.row_names)}

    remarks = default_property((), "What its theory takes for granted, where that may not hold: notes of results.")
    theory_unavailable_reason = default_property(
        None, "Why no theory of it is known, what is to blame first; None where there is one."
    )

    last_layer = default_property(
        None, "One for rows of the last layer, zero for others, shape (P,); None without layers."
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
        """Errors of an estimate, with the signs or rotations of its rows, which labels do not see, that suit it best.

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
        found = compared(self, estimate, signal, variance)
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

    of_link = default_property(False, "True when labels are a function of one's own of the fields of several rows.")
    few_rows = default_property(
        False, "True when fixed points at a few sample ratios cost no more than the thresholds."
    )

    @property
    def has_curve(self) -> bool:
        """True for one row whose averages are not sampled: all its fixed points lie on one curve."""
        return self.prior.rows == 1 and not self.channel.sampled


def require_theory(model: Model) -> None:
    """Refuse a model of which there are data alone.

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
    """Sample ratio at which noiseless labels are as many as the unknowns; infinite where labels never fix the field.

    Equation :eq:`counting` of the documentation.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> counting_threshold(BilinearSequenceRegression(beta=1, rho=0.5, noise=0.0))
        0.75
    """
    rank = model.channel.rank
    return model.prior.degrees * model.prior.mmse_dimension / rank if rank > 0 else np.inf


def is_ratio(value: object) -> bool:
    """True for a number in the range of ratios for which the theory keeps its digits."""
    return is_number(value) and bool(SMALLEST <= value <= LARGEST)  # type: ignore[operator]


def require_teacher(sizes: dict[str, tuple[float, object]], shape: tuple[int, int], width: int) -> None:
    """Raise if a signal of this shape and its factors would not fit into memory; the parameter of most is to blame.

    Args:
        sizes: what sets the size: by the names of parameters, how large they make it, and their values.
        shape: of the signal.
        width: of its factors.

    Example:
        >>> require_teacher({"d": (100, 100), "rho": (50, 0.5)}, (100, 100), 50)
    """
    name = max(sizes, key=lambda name: sizes[name][0])
    memory = 8.0 * (4 * shape[0] * shape[1] + 2 * width * sum(shape))
    require_resources(name, sizes[name][1], memory, "use a smaller d, or smaller ratios", what="weights of a teacher")
