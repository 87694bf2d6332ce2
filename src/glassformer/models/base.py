"""The interface of models: prior, channel, and the model at a finite size."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, Self, cast

import numpy as np

from glassformer.channels.label_errors import new_samples, squared_errors_on, wrong_labels_on
from glassformer.channels.labelling import is_predictable
from glassformer.core.accuracy import POINTS, WithAccuracy
from glassformer.core.checks import is_number
from glassformer.core.defaults import default_property
from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array
from glassformer.core.frozen import set_fields
from glassformer.core.resources import require_resources
from glassformer.designs.base import Design
from glassformer.designs.dense import CorrelatedDesign
from glassformer.inputs.hidden_states import Indices
from glassformer.models.comparison import NewInputs, compare
from glassformer.models.nested import with_nested
from glassformer.models.trainable.base import Trainable
from glassformer.priors.base import Prior, ScalarPrior
from glassformer.priors.signals import signal_shape

# Outside this range results equal those of the limits up to rounding, and their computation loses digits.
SMALLEST, LARGEST = 1e-9, 1e9

# Width over size up to which finite-width corrections stay below the statistical error of a few runs (a convention).
_NEGLIGIBLE = 0.02


@dataclass(frozen=True)
class FiniteSize:
    """A model at a finite size, with the design from which inputs are drawn.

    Attributes:
        model: the model at the ratios of the rounded sizes.
        design: class of the inputs, or an object that draws them.
        input_shape: shape of the input of one sample.
        unit: number of samples at sample ratio one.
        remarks: finite-size effects that the theory neglects.
    """

    model: Model
    design: type[Design] | CorrelatedDesign
    input_shape: tuple[int, int]
    unit: float
    remarks: tuple[str, ...] = ()


def finite_width_warning(width: int | None, shape: tuple[int, int]) -> tuple[str, ...]:
    """Return a warning that the theory of negligible width neglects terms of order width over size, or nothing.

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


class Model(WithAccuracy, Trainable, ABC):
    """A model: a prior, a channel, and the design at a finite size.

    A scalar model is the case of one row. In results its overlaps are numbers; overlaps of several rows are matrices.
    """

    # Required.

    channel: Any
    """The channel: a :class:`~glassformer.channels.scalar.base.ScalarChannel`, or a channel of several rows."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name on the command line."""

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
        """Return the model at token dimension ``d``.

        Raises:
            IncompatibleError: the model is a limit of infinite or negligible ratios, which has no finite size.
        """

    # Optional: the class in the table of models.

    channel_names: ClassVar[tuple[str, ...]] = ()
    """Names of the channels that the model accepts."""

    ratios_per_call: ClassVar[int] = 1024
    """Number of sample ratios that sweeps compute in one call: large where one ratio takes less than a millisecond."""

    @classmethod
    def select(cls, given: dict[str, Any]) -> dict[str, Any] | None:
        """Return the parameters of this class if they select it among the classes of the same name; None otherwise.

        Raises:
            IncompatibleError: parameters that exclude each other.
        """
        return given

    # Optional: inputs of a user, and the size of a teacher.

    tokens_parameter: ClassVar[str] = "tokens"
    """Name of the parameter that sets the number of tokens."""

    def tokens_remedy(self, tokens: int, d: int) -> str:
        """Return the setting that fits inputs of ``tokens`` tokens of dimension ``d``, for error messages."""
        del d
        return f"{self.tokens_parameter}={tokens}"

    def inputs_at(self, d: int) -> tuple[type[Design], int]:
        """Return the design class for the user's inputs with tokens of dimension ``d``, and the number of tokens."""
        size = self.at_size(d)
        return cast(type[Design], size.design), size.input_shape[0]

    def require_teacher(self, d: int) -> None:
        """Raise if a signal at token dimension ``d`` and its factors do not fit into memory; rows always do."""
        del d

    # Optional: the rows.

    @property
    def row_names(self) -> tuple[str, ...]:
        """Names of the rows in messages and plots."""
        return tuple(f"row {k + 1}" for k in range(self.prior.rows))

    @property
    def row_groups(self) -> dict[str, tuple[int, ...]]:
        """Groups of interchangeable rows by name; by default every row is a group."""
        return {name: (k,) for k, name in enumerate(self.row_names)}

    last_layer = default_property(
        None, "1 for rows of the last layer and 0 for others, shape (P,); None without layers."
    )

    @property
    def learned_rows(self) -> str:
        """Phrase for all learned rows, in messages."""
        return "all rows"

    # Optional: what is known of the theory.

    has_user_link = default_property(
        False,
        "True when labels are a user's function of the fields of several rows. `thresholds` then also compares fixed "
        "points at a few sample ratios, to find a hard phase.",
    )
    remarks = default_property((), "Assumptions of the theory that may fail; results list them as notes.")
    theory_unavailable_reason = default_property(
        None, "Reason why state evolution is not available, offending parameter first; None if it is."
    )
    features = default_property(
        None,
        "Law of correlated features in which labels are linear, a "
        ":class:`~glassformer.random_matrices.anisotropic_ridge.RidgeFeatures`. Their ridge regression has a theory of "
        "its own. None for independent features.",
    )
    well_specified = default_property(
        True, "False when labels are no function of the learned signal, so that nothing can infer it from their law."
    )

    @property
    def baseline_thresholds(self) -> dict[str, float]:
        """Sample ratios of perfect recovery by estimators other than the Bayes-optimal one, by name."""
        return {}

    # Derived.

    _arguments: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """Arguments as given, for attributes that now hold the objects constructed from them."""

    def _set_channel(self, channel: object, /, **arguments: object) -> None:
        """Set the channel object and its noise, and store the arguments that it was constructed from."""
        set_fields(self, _arguments=arguments, channel=channel, noise=float(getattr(channel, "noise", 0.0)))

    def varied(self, **parameters: object) -> Self:
        """Return the model with other parameters; a channel that depends on them is constructed again.

        Parameters of a part have a dot in their name: ``inputs.signal``.

        Raises:
            GlassformerError: a value is not allowed, for the same reasons as in the constructor. The noise and the
                temperature of a channel given as an object cannot be changed.

        Example:
            >>> from glassformer import BilinearSequenceRegression
            >>> BilinearSequenceRegression(rho=0.5, channel="gaussian").varied(noise=0.1).channel
            GaussianChannel(noise=0.1)
        """
        given = with_nested(parameters, lambda name: getattr(self, name, None))
        return cast(Self, replace(cast(Any, self), **{**self._arguments, **given}))

    @property
    def overlap_shape(self) -> tuple[int, ...]:
        """Shape of one overlap in results: empty for numbers, (P, P) for matrices."""
        return self.prior.overlap_shape

    @property
    def has_curve(self) -> bool:
        """True for one row with averages that are not sampled: the equation of state then gives all fixed points."""
        return self.prior.rows == 1 and not self.channel.inference.sampled

    @property
    def matrix_prior(self) -> ScalarPrior:
        """Prior of a signal that is one matrix.

        Raises:
            IncompatibleError: the signal has several rows.
        """
        if self.overlap_shape:
            raise IncompatibleError(
                f"model {self.name} has several rows, and this calculation needs a signal of one matrix: use bsr or aim"
            )
        return cast(ScalarPrior, self.prior)

    def signal_shape(self, design: Design) -> tuple[int, ...]:
        """Return the shape of a signal for a design; the first axis runs over the rows if there are several."""
        return signal_shape(self.prior, design.row_shape)

    def labelled(self, design: Design, signal: Array, rng: np.random.Generator) -> tuple[Design, Array]:
        """Return inputs of the law of the model along the rows of the signal, and drawn labels.

        Args:
            design: inputs of one instance, independent of the signal.
            signal: the true signal.
            rng: draws hidden states or fields, and the noise of the labels.
        """
        moved, hidden = self.shifted_inputs(design, signal, rng)
        fields = moved.forward(signal, 0)
        if hidden is None:
            return moved, self.channel.sample(fields, rng)
        return moved, self.channel.inference.sample_given(fields, hidden, rng)

    def shifted_inputs(self, design: Design, signal: Array, rng: np.random.Generator) -> tuple[Design, Indices | None]:
        """Return inputs of the law of the model along the rows of a signal, and the hidden states, or None."""
        law = self.channel.fields
        if law.states is not None:
            hidden = law.states.draw(rng.random(design.samples))
            return design.shifted(signal, law.states.shifts[hidden]), hidden
        if not law.sources:
            return design, None
        power, source = signal @ signal.T / signal.shape[1], rng.standard_normal((design.samples, law.sources))
        return design.shifted(signal, law.shifts(design.forward(signal, 0), source, power)), None

    def measured(
        self, estimate: Array, signal: Array, variance: Array | None = None, new: NewInputs | None = None
    ) -> dict[str, Any]:
        """Return the errors of an estimate after alignment by the symmetries of the labels.

        Args:
            estimate: estimate of the signal.
            signal: the true signal.
            variance: posterior covariance that the estimate claims, shape (P, P); none by default.
            new: test inputs; by default the fields of new samples are drawn as in the limit of large sizes, normal with
                the inner products of the rows as covariances.

        Returns:
            ``error`` and ``prior_error``; for discrete labels ``label_error``; for numerical labels
            ``prediction_error`` and ``plugin_error``; with hidden states and a claimed covariance ``state_error`` and
            ``state_with_label_error``; for several rows also ``row_error``, ``overlap`` and ``cosine``.
        """
        comparison = compare(self.prior, self.channel.labels.row_symmetries, estimate, signal, variance)
        if self.theory_unavailable_reason is not None:
            return comparison.errors
        channel, inner, alignment = self.channel, comparison.inner, comparison.alignment
        if new is None:
            samples = new_samples(channel, *inner[:3])
        else:
            samples = new.samples(comparison.estimate, comparison.signal)
        on_labels: dict[str, Any] = {}
        if channel.labels.discrete:
            aligned = samples._replace(estimated=alignment @ samples.estimated)
            on_labels["label_error"] = wrong_labels_on(channel, aligned, alignment @ inner.claimed @ alignment.T)
        if is_predictable(channel):
            both = squared_errors_on(channel, samples, inner.claimed)
            on_labels |= zip(("prediction_error", "plugin_error"), map(float, both), strict=True)
        if variance is not None:
            claimed = alignment @ inner.claimed @ alignment.T
            on_labels |= channel.inference.state_errors(alignment @ samples.estimated, samples.fields, claimed)
        return {**comparison.errors, **on_labels, **(comparison.row_columns if self.overlap_shape else {})}


class SampledModel(Model):
    """A model whose averages over labels are sampled."""

    ratios_per_call: ClassVar[int] = 8
    accuracy_defaults: ClassVar[Mapping[str, Any]] = {"points": POINTS}

    @property
    def points(self) -> int:
        """Data points per replica of sampled averages, a power of two: that of the accuracy."""
        return int(self.accurate("points"))


def require_one_unit(parameter: str, values: Sequence[Any], models: Sequence[Any]) -> None:
    """Raise unless the sample ratios of models at several values of a parameter have the same unit.

    Raises:
        IncompatibleError: the units differ. The message names two values.
    """
    units = {str(model.parameters["alpha"]): value for value, model in zip(values, models, strict=True)}
    if len(units) > 1:
        (one, value), (other, another) = list(units.items())[:2]
        raise IncompatibleError(
            f"the sample ratio is {one} at {parameter} = {value} and {other} at {parameter} = {another}: "
            "compute them in separate calls"
        )


def require_theory(model: Model) -> None:
    """Raise if state evolution does not describe the model.

    Raises:
        IncompatibleError: it does not.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> require_theory(BilinearSequenceRegression(rho=0.5, token_correlation=0.5))
        Traceback (most recent call last):
        ...
        glassformer.core.errors.IncompatibleError: token_correlation = 0.5: of bsr with correlated tokens only the \
theory of ridge is known ...
    """
    if model.theory_unavailable_reason is not None:
        raise IncompatibleError(f"{model.theory_unavailable_reason}: use learner ridge, or simulate")


def counting_threshold(model: Model) -> float:
    """Return the sample ratio of as many noiseless labels as unknowns; infinite if labels never determine the fields.

    They do not if they are discrete, or change with some rows by jumps alone.

    Equation :eq:`counting` of the documentation.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> counting_threshold(BilinearSequenceRegression(beta=1, rho=0.5, noise=0.0))
        0.75
    """
    labels = model.channel.labels
    if labels.rank == 0 or labels.row_symmetries.by_jumps:
        return np.inf
    return model.prior.degrees * model.prior.mmse_dimension / labels.rank


def is_ratio(value: object) -> bool:
    """Return whether a value is a number in the range of ratios that the theory computes without loss of digits."""
    return is_number(value) and bool(SMALLEST <= value <= LARGEST)


def factor_columns(width: int | None, rho: float | None, d: int) -> int:
    """Return the number of columns of the factors at token dimension ``d``; zero for a signal without factors.

    Example:
        >>> factor_columns(None, 0.5, 100), factor_columns(3, None, 100), factor_columns(None, None, 100)
        (50, 3, 0)
    """
    return width or (0 if rho is None else max(1, round(rho * d)))


def require_teacher_memory(sizes: dict[str, tuple[float, object]], shape: tuple[int, int], width: int) -> None:
    """Raise if a signal of this shape and its factors do not fit into memory; the message names the largest size.

    Args:
        sizes: for each parameter, by name, the size that it sets and its value.
        shape: shape of the signal.
        width: width of the factors.

    Example:
        >>> require_teacher_memory({"d": (100, 100), "rho": (50, 0.5)}, (100, 100), 50)
    """
    name = max(sizes, key=lambda name: sizes[name][0])
    memory = 8.0 * (4 * shape[0] * shape[1] + 2 * width * sum(shape))
    require_resources(name, sizes[name][1], memory, "use a smaller d, or smaller ratios", what="weights of a teacher")
