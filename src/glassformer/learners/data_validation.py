"""Data validation: checks of a user's inputs and labels, and their conversion to the form that a model expects."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from glassformer.core.checks import is_number
from glassformer.core.errors import DataError, IncompatibleError, ParameterError
from glassformer.core.estimate import Array
from glassformer.designs.base import Design
from glassformer.models.base import Model

_NUMBERS = "an array of real numbers"
# Squares of numbers above 1e154 overflow; the limit is lower so that sums of many squares are finite.
_LARGEST = 1e100


def validate_data(model: Model, inputs: Design | ArrayLike, labels: ArrayLike) -> tuple[Design, Array]:
    """Return the design of the inputs, and labels of shape (instances, samples, ...), as the model expects them.

    Args:
        model: the assumed model of the labels.
        inputs: numbers or booleans of shape (samples, tokens, d) or (instances, samples, tokens, d), or a design.
        labels: labels as the channel draws them, shape ``(instances, samples, ...)``, or ``(samples, ...)`` for one
            instance. Booleans become +1 and -1 for channels with these labels, and 1 and 0 otherwise.

    Raises:
        DataError: inputs or labels have a wrong type or shape, do not match each other, or are not finite.
        ParameterError: a size parameter of the model is not that of the inputs.
        IncompatibleError: the design is that of another model.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> model = BilinearSequenceRegression(beta=0.5, rho=0.2, channel="sign")
        >>> design, y = validate_data(model, np.ones((3, 2, 4), dtype=int), [True, False, True])
        >>> design.signal_shape, y
        ((2, 4), array([[ 1., -1.,  1.]]))
        >>> validate_data(model, np.ones((3, 4, 4)), [True, False, True])
        Traceback (most recent call last):
        ...
        glassformer.core.errors.ParameterError: beta = 0.5 is not allowed: expected the size of X, whose samples of \
shape (4, 4) have 4 tokens, not 2; give beta=1
    """
    design = design_of(model, inputs)
    return design, as_label_array(model, design, labels)


def design_of(model: Model, inputs: Design | ArrayLike) -> Design:
    """Return the design of inputs as the model expects them; see :func:`validate_data`."""
    design = inputs if isinstance(inputs, Design) else _stored(model, as_input_array(inputs))
    _require_model_of_design(model, design)
    return design


def as_input_array(inputs: ArrayLike) -> Array:
    """Return inputs as an array of float64 or float32; arrays of these types are not copied.

    Raises:
        DataError: inputs are not an array of numbers.

    Example:
        >>> as_input_array([[[1, 2]]]).dtype
        dtype('float64')
    """
    if hasattr(inputs, "toarray"):
        raise DataError("X", f"<{type(inputs).__name__}>", _NUMBERS, "convert a sparse array by X.toarray()")
    refuse_nested("X", inputs)
    remedy = "pad sequences of unequal length, or use the estimators of glassformer.sklearn"
    array = as_array("X", inputs, remedy)
    if array.dtype.kind not in "biuf":
        raise DataError("X", f"<{array.dtype}>", _NUMBERS, "encode categories as numbers")
    return array if array.dtype in (np.float64, np.float32) else array.astype(np.float64)


def as_array(name: str, given: ArrayLike, remedy: str) -> NDArray[Any]:
    """Return data as an array.

    Raises:
        DataError: the data have no array shape, for instance lists of unequal length; or they are masked, or dates.
    """
    refuse_masked(name, given)
    try:
        array = np.asarray(given)
    except ValueError as error:
        raise DataError(name, f"<{type(given).__name__}>", _NUMBERS, remedy) from error
    refuse_dates(name, array)
    return array


def refuse_masked(name: str, given: object) -> None:
    """Raise if data are a masked array, or a list of them, with masked entries.

    Example:
        >>> refuse_masked("y", np.ma.masked_invalid([1.0, np.nan]))
        Traceback (most recent call last):
        ...
        glassformer.core.errors.DataError: y = '<a masked array>' is not allowed: expected an array of real numbers; ...
    """
    parts = given if isinstance(given, list | tuple) else [given]
    if any(np.ma.is_masked(one) for one in parts):
        raise DataError(name, "<a masked array>", _NUMBERS, "fill the masked entries, or remove their samples")


def refuse_dates(name: str, given: object) -> None:
    """Raise if data are dates or differences of dates, which NumPy would convert to numbers of an arbitrary unit.

    Example:
        >>> refuse_dates("y", np.array(["2020-01-01"], dtype="datetime64[D]"))
        Traceback (most recent call last):
        ...
        glassformer.core.errors.DataError: y = '<datetime64[D]>' is not allowed: expected an array of real numbers; ...
    """
    types: Any = getattr(given, "dtypes", None)
    # Packages have types of their own, which need not be those of NumPy.
    if not hasattr(types, "__iter__") or not all(hasattr(one, "kind") for one in types):
        own = getattr(given, "dtype", None)
        types = [own if hasattr(own, "kind") else np.asarray(given).dtype]
    # Columns of a data frame have their own types.
    for kind in types:
        if kind.kind in ("M", "m"):
            raise DataError(name, f"<{kind}>", _NUMBERS, "convert dates to numbers, for example to days")


def refuse_nested(name: str, given: Any) -> None:
    """Raise if the cells of a table are series, one per sample and feature.

    Example:
        >>> import pandas
        >>> refuse_nested("X", pandas.DataFrame({"a": [pandas.Series([1.0, 2.0])]}))
        Traceback (most recent call last):
        ...
        glassformer.core.errors.DataError: X = '<cells of type Series>' is not allowed: expected an array of real \
numbers; ...
    """
    # Sparse arrays hold numbers only, and some of them have no rows.
    if hasattr(given, "toarray") or getattr(given, "ndim", 0) != 2 or 0 in given.shape:
        return
    first = given.iloc[0] if hasattr(given, "iloc") else given[0]
    for cell in first if getattr(first, "dtype", np.dtype(object)).kind == "O" else ():
        if getattr(cell, "ndim", 0) > 0 or isinstance(cell, list | tuple):
            remedy = "stack the series to an array of shape (n, L, d), or give a list of arrays (L_i, d)"
            raise DataError(name, f"<cells of type {type(cell).__name__}>", _NUMBERS, remedy)


def refuse_mixed(name: str, given: Any) -> None:
    """Raise if classes, or names of groups, are texts and numbers, which have no common order.

    Example:
        >>> refuse_mixed("y", [1, "a"])
        Traceback (most recent call last):
        ...
        glassformer.core.errors.DataError: y = [1, 'a'] is not allowed: expected numbers only, or texts only; ...
    """
    if not (isinstance(given, list | tuple) or getattr(getattr(given, "dtype", None), "kind", "") == "O"):
        return
    if any(isinstance(one, str) for one in given) and any(is_number(one) and one == one for one in given):
        raise DataError(name, given, "numbers only, or texts only", "convert all of them to texts")


def as_label_array(model: Model, design: Design, labels: ArrayLike) -> Array:
    """Return labels of shape (instances, samples, ...), as the channel of the model draws them.

    Raises:
        DataError: labels do not match the inputs, or are not finite numbers.
    """
    given = as_array("y", labels, "give labels of equal shapes")
    if given.dtype.kind not in "biuf":
        raise DataError("y", f"<{given.dtype}>", _NUMBERS, "encode classes as numbers, two of them as +1 and -1")
    signs = given.dtype.kind == "b" and model.channel.labels.values == (-1.0, 1.0)
    y = 2.0 * given - 1.0 if signs else given.astype(float)
    expected = (design.instances, design.samples, *model.channel.labels.shape)
    y = y[None] if y.shape == expected[1:] else y
    if y.shape != expected:
        shown = expected if design.instances > 1 else expected[1:]
        raise DataError("y", given.shape, f"a shape {shown} that matches X and the labels of the model")
    if not np.all(np.isfinite(y)):
        raise DataError("y", first_non_finite("y", given), "finite entries", "remove or repair the samples")
    require_squares("y", y)
    return y


def first_non_finite(name: str, values: Array) -> str:
    """Return the index and value of the first entry that is not finite.

    Example:
        >>> first_non_finite("X", np.array([[0.0, np.nan]]))
        '<X[0, 1] = nan>'
    """
    place = tuple(int(k) for k in np.argwhere(~np.isfinite(values))[0])
    return f"<{name}[{', '.join(map(str, place))}] = {values[place]}>"


def _stored(model: Model, inputs: Array) -> Design:
    if inputs.ndim not in (3, 4) or 0 in inputs.shape:
        remedy = "give one sample's tokens as rows: X.reshape(n, L, d)" if inputs.ndim == 2 else ""
        raise DataError("X", inputs.shape, "a shape (samples, tokens, d), no axis empty", remedy)
    kind: Any = model.inputs_at(int(inputs.shape[-1]))[0]
    # Checked before the design is constructed, whose message does not contain the index of an entry.
    if not _bounded(inputs):
        if not np.isfinite(inputs).all():
            raise DataError("X", first_non_finite("X", inputs), "finite entries", "remove or repair the samples")
        require_squares("X", inputs)
    design: Design = kind(inputs)
    return design


def _bounded(values: Array) -> bool:
    """Return whether all values are finite, with squares that can be summed."""
    return not values.size or max(float(values.max()), -float(values.min())) <= _LARGEST


def require_squares(name: str, values: Array, shape: tuple[int, ...] | None = None) -> None:
    """Raise if squares of the values would overflow; the message contains the index of the first such entry.

    Args:
        name: name of the data in the message.
        values: finite numbers, shape (n,) or (n, features).
        shape: shape of one sample, as the user gave it; None for that of ``values``.

    Example:
        >>> require_squares("y", np.array([0.0, 1e200]))
        Traceback (most recent call last):
        ...
        glassformer.core.errors.DataError: y[1] = 1e+200 is not allowed: expected a number from -1e+100 to 1e+100; ...
    """
    # The limit is not representable in single precision, in which all numbers are below it.
    if _bounded(values):
        return
    place = int(np.argmax(np.abs(values) > _LARGEST))
    index = entry_index(place, values.shape[1:] if shape is None else shape)
    allowed = f"a number from {-_LARGEST:g} to {_LARGEST:g}"
    raise DataError(f"{name}[{index}]", values.flat[place], allowed, f"divide {name} by a constant")


def entry_index(position: int, shape: tuple[int, ...]) -> str:
    """Return the index of an entry from its position in the flat array, for samples of this shape."""
    sample, entry = divmod(position, math.prod(shape))
    return ", ".join(map(str, (sample, *np.unravel_index(entry, shape)))) if shape else str(sample)


def _require_model_of_design(model: Model, design: Design) -> None:
    """Raise unless inputs have the sizes and the fields of the model."""
    tokens, d = design.input_shape
    if design.several_rows != bool(model.overlap_shape):
        raise IncompatibleError(
            f"{type(design).__name__} is not the design of model {model.name}: use that of model.at_size(d).design"
        )
    fields, own = design.field_shape[1:], model.channel.fields.shape
    if not design.several_rows and len(fields) != len(own):
        raise DataError("X", f"<fields of shape {fields}>", f"fields of shape {own}, as the channel")
    expected = model.inputs_at(d)[1]
    if tokens != expected:
        name = model.tokens_parameter
        allowed = f"the size of X, whose samples of shape ({tokens}, {d}) have {tokens} tokens, not {expected}"
        raise ParameterError(name, getattr(model, name), allowed, f"give {model.tokens_remedy(tokens, d)}")
    if not design.several_rows and fields != own:
        raise DataError("X", f"<fields of shape {fields}>", f"fields of shape {own}, as the channel")
