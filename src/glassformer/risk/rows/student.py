r"""The student: what is fitted to a label, as a function of the fields of a few rows of weights, and the loss.

A student of ``P`` rows sees fields :math:`Z = WX^T/\sqrt d` of shape (P, L) and predicts :math:`s(Z)`. It need not be
the teacher's link, nor have as many rows. The loss :math:`\ell(y, s(Z))` is a function of label and fields, and risk,
descent and their theories ask for nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.channels.base import Channel
from glassformer.channels.labelling import draw_labels
from glassformer.core.arrays import AnyArray
from glassformer.core.cache import memoize
from glassformer.core.checks import require_integer
from glassformer.core.errors import DataError, IncompatibleError, ParameterError
from glassformer.core.estimate import Array
from glassformer.models.base import Model
from glassformer.numerics.cached_jit import CachedJit
from glassformer.numerics.jax_settings import jax_settings
from glassformer.risk.loss_base import Loss, sign_labels_error
from glassformer.risk.losses import LOSSES, loss_of

# Random fields that show labels, sets of them that show the values of discrete ones (a class of probability 1e-4 is
# missed with probability 1e-3), and fields at which a student is tried.
_SHOWN, _SETS, _TRIED = 4096, 16, 16
# Second derivatives of a linear student that are rounding.
_ROUNDING = 1e-9


def linear_prediction(fields: AnyArray) -> Any:
    r"""Return the prediction of a linear student: of each row the sum of its fields over :math:`\sqrt L`, shape (P,).

    Example:
        >>> linear_prediction(np.array([[3.0]])).tolist()
        [3.0]
    """
    return jnp.sum(fields, axis=-1) / np.sqrt(fields.shape[-1])


@dataclass(frozen=True)
class Student:
    """A student: its prediction from the fields of its rows, and the loss on labels.

    Attributes:
        prediction: function of fields of shape (P, L), as JAX can trace and differentiate it.
        rows: ``P``.
        tokens: ``L``.
        loss: of label and prediction.
        values: values of the label that are classes, in the order of the student's outputs; empty otherwise.
        root: square root of the correlation of the tokens, which the fields are multiplied with; empty if independent.
        own_link: whether the prediction is the teacher's own link.
        signs: whether labels are +1 and -1.
    """

    prediction: Callable[[Any], Any]
    rows: int
    tokens: int
    loss: Loss
    values: tuple[float, ...] = ()
    root: tuple[tuple[float, ...], ...] = ()
    own_link: bool = False
    signs: bool = False

    def predict(self, fields: AnyArray) -> Any:
        """Return the prediction for the fields of one sample, as a vector."""
        seen = fields @ jnp.asarray(self.root) if self.root else fields
        return jnp.ravel(jnp.asarray(self.prediction(seen)))

    def cost(self, y: AnyArray, fields: AnyArray) -> Any:
        """Return the loss of one sample with label ``y``, a vector as :meth:`targets` gives it."""
        return self.loss.of_vectors(y, self.predict(fields))

    def targets(self, labels: Array) -> Array:
        """Return labels of shape (n, ...) as vectors that the loss takes, shape (n, entries).

        Raises:
            DataError: a label is not among the classes.
        """
        flat = np.asarray(labels, dtype=float).reshape(len(labels), -1)
        if not self.values:
            return flat
        classes = np.asarray(flat == np.array(self.values))
        unknown = ~classes.any(axis=1)
        if unknown.any():
            allowed = f"one of the {len(self.values)} classes that {_SHOWN * _SETS} random labels have"
            raise DataError("y", float(flat[unknown][0, 0]), allowed, "merge rare classes in the link")
        return classes.astype(float)

    def decisions(self, predictions: Array) -> Array:
        """Return the labels that predictions of shape (..., entries) stand for: signs, or classes."""
        if self.values:
            return np.asarray(np.array(self.values)[np.argmax(predictions, axis=-1)])
        return np.where(predictions[..., 0] >= 0, 1.0, -1.0)

    def predictions(self, fields: Array) -> Array:
        """Return predictions for fields of shape (n, P, L), shape (n, entries)."""
        with jax_settings():
            return np.asarray(CachedJit(_predictions, student=self)(jnp.asarray(fields)))

    def mean_loss(self, y: Array, fields: Array, intercept: Array) -> float:
        """Return the mean loss of samples with labels as :meth:`targets` gives them."""
        with jax_settings():
            costs = CachedJit(_losses, student=self)(*map(jnp.asarray, (y, fields, intercept)))
            return float(np.mean(np.asarray(costs)))

    @cached_property
    def is_linear(self) -> bool:
        """True for a prediction that is linear in the fields: a convex loss then makes a convex risk."""
        fields = np.random.default_rng(3).standard_normal((_TRIED, self.rows, self.tokens))
        zero, one, two = (self.predictions(factor * fields) for factor in (0.0, 1.0, 2.0))
        size = _ROUNDING * (1 + np.max(np.abs(two)))
        sums = self.predictions(fields + fields[::-1])
        return bool(
            np.max(np.abs(zero)) <= size
            and np.max(np.abs(two - 2 * one)) <= size
            and np.max(np.abs(sums - one - one[::-1])) <= size
        )

    @cached_property
    def even_rows(self) -> Array:
        """True for rows whose sign the prediction does not depend on, shape (P,)."""
        fields = np.random.default_rng(5).standard_normal((_TRIED, self.rows, self.tokens))
        before = self.predictions(fields)
        flips = 1 - 2 * np.eye(self.rows)
        changes = [np.max(np.abs(self.predictions(flip[:, None] * fields) - before)) for flip in flips]
        return np.asarray(np.array(changes) <= _ROUNDING * (1 + np.max(np.abs(before))))

    @property
    def is_convex(self) -> bool:
        """True when the risk has one minimum: a loss convex in a prediction that is linear."""
        return self.loss.convex and self.is_linear


def _predictions(fields: AnyArray, student: Student) -> Any:
    return jax.vmap(student.predict)(fields)


def _losses(y: AnyArray, fields: AnyArray, intercept: AnyArray, student: Student) -> Any:
    return jax.vmap(lambda label, own: student.loss.of_vectors(label, student.predict(own) + intercept))(y, fields)


def _costs(y: AnyArray, fields: AnyArray, student: Student) -> Any:
    return jax.vmap(student.cost)(y, fields), jax.vmap(jax.grad(student.cost, argnums=1))(y, fields)


def student_of(
    model: Model,
    loss: str | Loss | Callable[..., AnyArray],
    function: str | Callable[[AnyArray], AnyArray] | None = None,
    rows: int | None = None,
) -> Student:
    """Return the student of a model.

    Without a function it is what users expect: for labels +1 and -1 and for a loss of them, one linear row, and for a
    loss of one's own on labels of one field, which may have any link; for classes and cross-entropy, one linear row per
    class; for numbers otherwise the teacher's own link, with the teacher's rows.

    Args:
        model: of the teacher, of several rows or of one index.
        loss: name, or function of label and prediction.
        function: of the fields of the student's rows; "linear" for :func:`linear_prediction`; None for the above.
        rows: of the student; None for the teacher's, for a linear student one per class or number of the label.

    Raises:
        ParameterError: an argument is out of range, or the function is not differentiable.
        IncompatibleError: the loss does not go with the labels.

    Example:
        >>> from glassformer import SequenceMultiIndex
        >>> found = student_of(SequenceMultiIndex(lambda z: 2.0 * (z[0, 0] > 0) - 1), "logistic")
        >>> found.rows, found.is_convex
        (1, True)
    """
    student: Student = memoize(
        lambda: _tried_student(model, loss, function, rows), "student", model, loss, function, rows
    )
    return student


def _tried_student(
    model: Model,
    loss: str | Loss | Callable[..., AnyArray],
    function: str | Callable[[AnyArray], AnyArray] | None,
    rows: int | None,
) -> Student:
    """Return the student of a model after a trial on some of its labels."""
    channel, chosen = model.channel, loss_of(loss, convex=False)
    if rows is not None:
        require_integer("student_rows", rows)
    shown = _shown_labels(channel)
    values = tuple(np.unique(shown).tolist()) if channel.labels.discrete and shown.shape[1] == 1 else ()
    signs = set(np.unique(shown)) == {-1.0, 1.0} and shown.shape[1] == 1
    _require_labels(chosen, model, signs, values, shown.shape[1])
    classes = values if chosen.labels == "classes" else ()
    linear = isinstance(function, str) and function == "linear"
    if isinstance(function, str) and not linear:
        raise ParameterError("student", function, "linear, or a function of the fields of the student's rows")
    one_field = channel.fields.rows * channel.fields.columns == 1
    one_linear = (signs and channel.fields.rows == 1) or (one_field and chosen.name not in LOSSES)
    default_linear = function is None and (chosen.labels != "numbers" or one_linear)
    if linear or default_linear:
        outputs = len(classes) or shown.shape[1]
        prediction: Any = linear_prediction
        count = outputs if rows is None else rows
        if count != outputs and chosen.convex:
            allowed = f"{outputs} for the linear student, one row for each output: give student for others"
            raise ParameterError("student_rows", count, allowed)
    elif function is None:
        prediction, count = _own_link(model), channel.fields.rows if rows is None else rows
        if count != channel.fields.rows:
            allowed = f"{channel.fields.rows} rows, or none, beside the teacher's own link; give student= for others"
            raise ParameterError("student_rows", rows, allowed)
    else:
        prediction, count = function, channel.fields.rows if rows is None else rows
    own = function is None and not default_linear
    root = () if own else _token_root(model)
    student = Student(prediction, int(count), int(channel.fields.columns), chosen, classes, root, own, signs)
    _require_usable(student, student.targets(shown[:_TRIED]), "student" if callable(function) else "loss")
    return student


def _shown_labels(channel: Channel) -> Array:
    """Return labels of random fields, shape (n, entries)."""
    rng = np.random.default_rng(2)
    shape = (_SHOWN, channel.fields.rows, channel.fields.columns)
    drawn = []
    for _ in range(_SETS if channel.labels.discrete else 1):
        normal, source = rng.standard_normal(shape), rng.standard_normal((_SHOWN, channel.fields.sources))
        drawn.append(draw_labels(channel, channel.fields.shifted(normal, source), rng))
    return np.concatenate([np.asarray(labels, dtype=float).reshape(_SHOWN, -1) for labels in drawn])


def _require_labels(loss: Loss, model: Model, signs: bool, values: tuple[float, ...], entries: int) -> None:
    """Raise unless labels are what the loss takes."""
    if loss.labels == "signs" and not signs:
        raise sign_labels_error(loss.name, model, values, entries)
    if loss.labels == "classes" and len(values) < 2:
        raise IncompatibleError(
            f"loss {loss.name} is for discrete labels of one number, not for labels of model {model.name}: use square"
        )


def _own_link(model: Model) -> Callable[[Any], Any]:
    """Return the teacher's own link as the student's prediction."""
    try:
        link: Callable[[Any], Any] = model.traceable_label
    except IncompatibleError as error:
        raise IncompatibleError(
            f"the teacher's own link cannot be the student: {error}; give student, linear or a differentiable function"
        ) from error
    return link


def _token_root(model: Model) -> tuple[tuple[float, ...], ...]:
    """Return the square root of the correlation of the tokens, empty where they are independent."""
    from glassformer.models.token_correlation import correlation_root

    return correlation_root(getattr(model, "token_correlation", 0.0), int(model.channel.fields.columns))


def _require_usable(student: Student, y: Array, parameter: str) -> None:
    """Raise unless the loss of the student is a finite number whose derivatives are finite and not all zero.

    The parameter is blamed for losses: ``student``, or ``loss`` for a default student.
    """
    fields = np.random.default_rng(4).standard_normal((len(y), student.rows, student.tokens))
    name = getattr(student.prediction, "__name__", "student")
    blamed = name if parameter == "student" else student.loss.name
    try:
        # JAX takes the last entry for an index out of range; NumPy raises.
        with jax_settings():
            student.prediction(fields[0])
    except IndexError as error:
        allowed = f"a function of fields Z of shape {fields.shape[1:]}: give student_rows for other rows"
        raise ParameterError("student", name, allowed, str(error)) from error
    except Exception:
        # It may need arrays of JAX, and is tried with them next.
        pass
    try:
        entries = student.predictions(fields).shape[1]
    except Exception as error:
        allowed = f"a function of fields of shape {fields.shape[1:]} that JAX can trace"
        raise ParameterError("student", name, allowed, str(error).splitlines()[0]) from error
    if not student.values and student.loss.convex and entries != y.shape[1]:
        raise ParameterError("student", name, f"{y.shape[1]} numbers, as the label has, not {entries}")
    if student.values and entries != len(student.values):
        raise ParameterError("student", name, f"{len(student.values)} outputs, one per class, not {entries}")
    try:
        with jax_settings():
            costs, slopes = CachedJit(_costs, student=student)(jnp.asarray(y), jnp.asarray(fields))
    except Exception as error:
        raise ParameterError(
            parameter, blamed, "a function that JAX can differentiate", str(error).splitlines()[0]
        ) from error
    if not (np.all(np.isfinite(costs)) and np.all(np.isfinite(slopes))):
        raise ParameterError(parameter, blamed, "finite, with finite derivatives")
    if not np.any(slopes):
        raise ParameterError(parameter, blamed, "a function whose loss changes with the fields", "it is constant")
