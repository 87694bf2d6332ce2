"""Inputs and labels of one's own as a model takes them; what they contradict is refused by name."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from glassformer.core.errors import DataError, IncompatibleError, ParameterError
from glassformer.core.estimate import Array
from glassformer.designs.base import Design
from glassformer.models.base import Model

_NUMBERS = "an array of real numbers"
# Beyond these sums of squares of a few numbers overflow; they leave room for many.
_LARGEST = 1e100


def observed(model: Model, inputs: Design | ArrayLike, labels: ArrayLike) -> tuple[Design, Array]:
    """The design of inputs, and labels of shape (instances, samples, ...), where both are those of the model.

    Args:
        model: that the labels are believed to come from.
        inputs: shape (samples, tokens, d), or (instances, samples, tokens, d), of numbers or truth values; or a design.
        labels: shape ``(instances, samples, ...)``, or ``(samples, ...)`` for one instance, as the channel draws them;
            truth values stand for +1 and -1 where these are the labels, else for 1 and 0.

    Raises:
        DataError: inputs or labels have another type or shape, do not match each other, or are not finite.
        ParameterError: a size that the model says is not that of the inputs.
        IncompatibleError: a design of another model.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> model = BilinearSequenceRegression(beta=0.5, rho=0.2, channel="sign")
        >>> design, y = observed(model, np.ones((3, 2, 4), dtype=int), [True, False, True])
        >>> design.signal_shape, y
        ((2, 4), array([[ 1., -1.,  1.]]))
        >>> observed(model, np.ones((3, 4, 4)), [True, False, True])
        Traceback (most recent call last):
        ...
        glassformer.core.errors.ParameterError: beta = 0.5 is not allowed: expected what X says: its samples, of shape \
(4, 4), have 4 tokens, not 2; give beta=1
    """
    design = inputs if isinstance(inputs, Design) else _design(model, as_inputs(inputs))
    _require_its_own(model, design)
    return design, as_labels(model, design, labels)


def as_inputs(inputs: Any) -> Array:
    """Inputs as an array of float64 or float32, never copied where they are one.

    Raises:
        DataError: they are no array of numbers.

    Example:
        >>> as_inputs([[[1, 2]]]).dtype
        dtype('float64')
    """
    if hasattr(inputs, "toarray"):
        raise DataError("X", f"<{type(inputs).__name__}>", _NUMBERS, "make a sparse one dense, by X.toarray()")
    if np.ma.is_masked(inputs):
        raise DataError("X", "<a masked array>", _NUMBERS, "fill what is masked, or leave the samples out")
    remedy = "sequences of unequal length: pad them, or use the estimators of glassformer.sklearn"
    found = one_array("X", inputs, remedy)
    if found.dtype.kind not in "biuf":
        raise DataError("X", f"<{found.dtype}>", _NUMBERS, "encode categories as numbers")
    return found if found.dtype in (np.float64, np.float32) else found.astype(np.float64)


def one_array(name: str, given: Any, remedy: str) -> Any:
    """Data as an array; lists of unequal length are none.

    Raises:
        DataError: they are no array.
    """
    try:
        return np.asarray(given)
    except ValueError as error:
        raise DataError(name, f"<{type(given).__name__}>", _NUMBERS, remedy) from error


def as_labels(model: Model, design: Design, labels: Any) -> Array:
    """Labels of shape (instances, samples, ...) as the channel of the model draws them.

    Raises:
        DataError: they do not match the inputs, are no numbers, or not finite.
    """
    given = one_array("y", labels, "give labels of one shape")
    if given.dtype.kind not in "biuf":
        raise DataError("y", f"<{given.dtype}>", _NUMBERS, "encode classes as numbers, two of them as +1 and -1")
    signs = given.dtype.kind == "b" and tuple(getattr(model.channel, "values", ())) == (-1.0, 1.0)
    y = 2.0 * given - 1.0 if signs else given.astype(float)
    expected = (design.instances, design.samples, *model.channel.label_shape)
    y = y[None] if y.shape == expected[1:] else y
    if y.shape != expected:
        shown = expected if design.instances > 1 else expected[1:]
        raise DataError("y", given.shape, f"a shape {shown} that matches X and the labels of the model")
    if not np.all(np.isfinite(y)):
        raise DataError("y", first_bad("y", given), "finite entries", "remove or repair the samples")
    require_squares("y", y)
    return y


def first_bad(name: str, values: Array) -> str:
    """Where the first entry that is not finite stands, as users index it.

    Example:
        >>> first_bad("X", np.array([[0.0, np.nan]]))
        '<X[0, 1] = nan>'
    """
    place = tuple(int(k) for k in np.argwhere(~np.isfinite(values))[0])
    return f"<{name}[{', '.join(map(str, place))}] = {values[place]}>"


def _design(model: Model, inputs: Array) -> Design:
    if inputs.ndim not in (3, 4) or 0 in inputs.shape:
        remedy = "give one sample's tokens as rows: X.reshape(n, L, d)" if inputs.ndim == 2 else ""
        raise DataError("X", inputs.shape, "a shape (samples, tokens, d), no axis empty", remedy)
    kind: Any = model.inputs_at(int(inputs.shape[-1]))[0]
    # Finiteness first: the message of the design knows no places.
    if not _bounded(inputs):
        if not np.isfinite(inputs).all():
            raise DataError("X", first_bad("X", inputs), "finite entries", "remove or repair the samples")
        require_squares("X", inputs)
    design: Design = kind(inputs)
    return design


def _bounded(values: Array) -> bool:
    """Whether all values are numbers whose squares can be summed."""
    return not values.size or max(float(values.max()), -float(values.min())) <= _LARGEST


def require_squares(name: str, values: Array, shape: tuple[int, ...] | None = None) -> None:
    """Raise where variances would overflow, and name the first entry that is to blame.

    Args:
        name: of the data.
        values: finite, shape (n,) or (n, features).
        shape: of one sample, as it was given; None for flat ones.

    Example:
        >>> require_squares("y", np.array([0.0, 1e200]))
        Traceback (most recent call last):
        ...
        glassformer.core.errors.DataError: y[1] = 1e+200 is not allowed: expected a number from -1e+100 to 1e+100; ...
    """
    # Numbers of single precision cannot be compared with the limit, and do not reach it.
    if _bounded(values):
        return
    place = int(np.argmax(np.abs(values) > _LARGEST))
    index = entry_of(place, values.shape[1:] if shape is None else shape)
    allowed = f"a number from {-_LARGEST:g} to {_LARGEST:g}"
    raise DataError(f"{name}[{index}]", values.flat[place], allowed, f"divide {name} by a constant")


def entry_of(place: int, shape: tuple[int, ...]) -> str:
    """Of an entry that is counted over all samples, each of this shape."""
    sample, entry = divmod(place, math.prod(shape))
    return ", ".join(map(str, (sample, *np.unravel_index(entry, shape)))) if shape else str(sample)


def _require_its_own(model: Model, design: Design) -> None:
    """Raise unless inputs have the sizes and the fields of the model."""
    tokens, d = design.input_shape
    if design.several_rows != bool(model.overlap_shape):
        raise IncompatibleError(
            f"{type(design).__name__} is not the design of model {model.name}: use model.at_size(d).design"
        )
    fields, own = design.field_shape[1:], model.channel.field_components
    if not design.several_rows and len(fields) != len(own):
        raise DataError("X", f"<fields of shape {fields}>", f"fields of shape {own}, as the channel")
    expected = model.inputs_at(d)[1]
    if tokens != expected:
        name = model.tokens_parameter
        allowed = f"what X says: its samples, of shape ({tokens}, {d}), have {tokens} tokens, not {expected}"
        raise ParameterError(name, getattr(model, name), allowed, f"give {model.tokens_remedy(tokens, d)}")
    if not design.several_rows and fields != own:
        raise DataError("X", f"<fields of shape {fields}>", f"fields of shape {own}, as the channel")
