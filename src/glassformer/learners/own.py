"""A researcher's own training as a learner: a function of data, or an estimator of scikit-learn."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from glassformer.channels.labelling import clean_labels, is_predictable, true_labels
from glassformer.core.errors import GlassformerError, IncompatibleError, ParameterError
from glassformer.core.random_streams import random_stream
from glassformer.core.status import Status
from glassformer.learners.base import FitResult, Learner, LearnerInfo, Theory

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from glassformer.core.estimate import Array
    from glassformer.designs.base import Design
    from glassformer.learners.data_set import DataSet
    from glassformer.models.base import Model
    from glassformer.models.comparison import NewInputs

# New samples on which predictions are compared with labels: the standard error of a label error is below 0.8 %.
_NEW_SAMPLES = 4096
# Difference beyond which two discrete labels are not the same.
_DIFFERENT = 1e-6


@runtime_checkable
class Estimator(Protocol):
    """An object that fits and predicts, like those of scikit-learn."""

    def fit(self, X: ArrayLike, y: ArrayLike) -> object:
        """Fit inputs and labels."""

    def predict(self, X: ArrayLike) -> ArrayLike:
        """Return predictions of labels."""


def is_own(given: object) -> bool:
    """Return whether an object is a training of one's own: a function, or an object that fits and predicts."""
    return not isinstance(given, type | str | Learner) and (callable(given) or isinstance(given, Estimator))


@dataclass(frozen=True)
class OwnLearner(Learner):
    r"""A training of one's own, measured on new inputs of the model.

    No signal is claimed, so that there is no ``error``; ``prediction_error`` and ``label_error`` of new labels without
    their noise are those of :func:`~glassformer.simulate`, and ``prediction_above_optimum`` and
    ``label_above_optimum`` are the distances from the Bayes-optimal errors.

    Args:
        training: a function ``fit(X, y, rng) -> predict`` of inputs of shape (n, L, d), labels of shape (n, ...) and a
            generator of NumPy, which returns a function of new inputs; or an estimator with ``fit`` and ``predict``, of
            which a copy is fitted, with ``random_state`` set if it has one.
        title: name in tables and legends; None for that of the function or class.
        flatten: whether inputs have shape (n, L d); None to flatten them for estimators.

    Raises:
        ParameterError: the training is neither a function nor an estimator.

    Example:
        >>> from glassformer import SequenceMultiIndex, simulate
        >>> def mean_of_classes(X, y, rng):
        ...     weights = (y[:, None] * X[:, 0]).mean(axis=0)
        ...     return lambda X: np.sign(X[:, 0] @ weights)
        >>> model = SequenceMultiIndex(lambda z: 2.0 * (z[0, 0] > 0) - 1)
        >>> runs = simulate(model, [3.0], OwnLearner(mean_of_classes), d=100, instances=2)
        >>> bool(runs["label_above_optimum"][0] > 0)
        True
    """

    training: Any
    title: str | None = None
    flatten: bool | None = None

    def __post_init__(self) -> None:
        if not is_own(self.training):
            raise ParameterError("training", self.training, "a function fit(X, y, rng), or an estimator")
        if inspect.isfunction(self.training):
            try:
                inspect.signature(self.training).bind(0, 0, 0)
            except TypeError as error:
                allowed = "a function of three arguments, fit(X, y, rng)"
                raise ParameterError("training", self.title_of, allowed) from error
        super().__post_init__()

    @property
    def title_of(self) -> str:
        """Name in tables and legends."""
        return self.title or str(getattr(self.training, "__name__", type(self.training).__name__))

    @property
    def info(self) -> LearnerInfo:  # type: ignore[override]
        """Properties of the learner, with a name of its own."""
        return LearnerInfo(name=self.title_of, title=self.title_of, family="own")

    def check(self, model: Model) -> None:
        if not model.well_specified:
            raise IncompatibleError(f"sees inputs as one array, and contexts of model {model.name} are drawn as sums")

    def theory(self, model: Model) -> Theory:
        raise IncompatibleError(f"training of one's own ({self.name}) is measured only: use simulate or compare with d")

    def learn(self, model: Model, data: DataSet) -> FitResult:
        X, y = self._seen(np.asarray(data.design.inputs[0])), np.asarray(data.labels)
        with self._blamed("fit"):
            if isinstance(self.training, Estimator):
                estimator, flat = _copied(self.training, data.rng), y.reshape(len(y), -1)
                estimator.fit(X, flat[:, 0] if flat.shape[1] == 1 else flat)
                predict = estimator.predict
            else:
                predict = self.training(X, y, data.rng)
        if not callable(predict):
            raise ParameterError("training", self.name, "a function fit(X, y, rng) that returns a function of X")
        return OwnFit(
            np.zeros((1, 0)), status=Status.CONVERGED, iterations=0, residual=0.0, learner=self, predict=predict
        )

    def _seen(self, inputs: Array) -> Array:
        flat = isinstance(self.training, Estimator) if self.flatten is None else self.flatten
        return inputs.reshape(len(inputs), -1) if flat else inputs

    def predictions(self, predict: Callable[[Array], Any], inputs: Array, shape: tuple[int, ...]) -> Array:
        """Return predictions of the labels of inputs, shape (n, ``*shape``).

        Raises:
            ParameterError: they are not that many finite numbers.
        """
        with self._blamed("predict"):
            found = np.asarray(predict(self._seen(inputs)))
        allowed = f"predictions of shape {(len(inputs), *shape)}, finite numbers"
        if found.dtype.kind not in "biuf" or found.size != len(inputs) * int(np.prod(shape)):
            raise ParameterError("training", f"{self.name} with predictions of shape {found.shape}", allowed)
        if not np.all(np.isfinite(found)):
            raise ParameterError("training", f"{self.name} with predictions that are not finite", allowed)
        return found.astype(float).reshape(len(inputs), *shape)

    @contextmanager
    def _blamed(self, what: str) -> Iterator[None]:
        """Name errors of one's own code as such."""
        try:
            yield
        except GlassformerError:
            raise
        except Exception as error:
            allowed = f"code that runs: {what} of {self.name} raised {type(error).__name__} ({error})"
            raise ParameterError("training", self.name, allowed) from error


def _copied(estimator: Estimator, rng: np.random.Generator) -> Estimator:
    """Return an unfitted copy of an estimator, with random numbers of the run."""
    from copy import deepcopy

    try:
        from sklearn.base import clone

        copy = clone(estimator, safe=False)
    except ImportError:
        copy = deepcopy(estimator)
    parameters = copy.get_params() if hasattr(copy, "get_params") else {}
    if "random_state" in parameters:
        copy.set_params(random_state=int(rng.integers(2**31)))
    return copy


@dataclass(frozen=True, kw_only=True)
class OwnFit(FitResult):
    """The function that predicts, after training.

    Attributes:
        learner: the training.
        predict: function of inputs.
    """

    learner: OwnLearner = field(repr=False)
    predict: Callable[[Array], Any] = field(repr=False)

    def predicted(self, model: Model, design: Design) -> Array:
        inputs = np.concatenate(list(design.parts(0)))
        return self.learner.predictions(self.predict, inputs, model.channel.labels.shape)

    def measured(self, model: Model, signal: Array, new: NewInputs) -> dict[str, Any]:
        """Return the errors of predictions on new inputs, of labels without their noise."""
        channel = model.channel
        design: Any = new.design.sample(_NEW_SAMPLES, new.shape, random_stream(*new.seed))
        design, _ = model.shifted_inputs(design, signal, random_stream(*new.seed, 1))
        shape = (_NEW_SAMPLES, channel.fields.rows, channel.fields.columns)
        fields = np.asarray(design.forward(signal, 0)).reshape(shape)
        found = self.learner.predictions(self.predict, np.asarray(design.inputs[0]), channel.labels.shape)
        errors = {}
        if channel.labels.discrete:
            true = np.asarray(true_labels(channel, fields), dtype=float).reshape(found.shape)
            levels = np.unique(true)
            nearest = levels[np.searchsorted((levels[1:] + levels[:-1]) / 2, found)]
            errors["label_error"] = float(np.mean(np.abs(nearest - true) > _DIFFERENT))
        if is_predictable(channel):
            labels = np.asarray(clean_labels(channel, fields)).reshape(found.shape)
            squares = ((found - labels) ** 2).reshape(len(found), -1).sum(axis=1)
            errors["prediction_error"] = float(np.mean(squares)) / channel.labels.error_unit
        return errors
