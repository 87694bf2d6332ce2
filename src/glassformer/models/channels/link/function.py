"""A link function as it is given, made safe to evaluate on arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from glassformer.core.errors import ParameterError
from glassformer.models.channels.base import Array

Function = Callable[[Array], Array]

CHECKED = 8.0  # range of fields on which the link must be finite
OVERFLOW = 1e150  # stands for what is not finite outside of it


def array_link(function: Callable[..., object]) -> Function:
    """The function as one of arrays that never fails: same shape out as in, doubles, finite.

    Args:
        function: NumPy function of an array, or of a scalar (then applied element by element).

    Raises:
        ParameterError: it is not callable, does not return one real number per field, or is not finite for |h| <= 8.

    Example:
        >>> array_link(lambda h: 1 if h > 0 else -1)(np.array([-2.0, 3.0]))
        array([-1.,  1.])
    """
    if not callable(function):
        raise ParameterError("channel", function, "a callable link function")
    probe = np.linspace(-CHECKED, CHECKED, 33)
    with np.errstate(all="ignore"):
        elementwise = function if _keeps_shape(function, probe) else np.vectorize(function, otypes=[float])
        try:
            values = _floats(elementwise(probe))
        except (TypeError, ValueError) as error:
            raise ParameterError("channel", function, "a link function returning one real number per field") from error
    if not np.all(np.isfinite(values)):
        raise ParameterError("channel", function, f"a link function finite for |h| <= {CHECKED:g}")

    def link(h: Array) -> Array:
        # Far outside the prior's reach an overflowing link only has to be impossible, not exact.
        with np.errstate(all="ignore"):
            values = _floats(elementwise(h))
            return _floats(np.nan_to_num(values, nan=OVERFLOW, posinf=OVERFLOW, neginf=-OVERFLOW))

    return link


def _keeps_shape(function: Callable[..., object], probe: Array) -> bool:
    try:
        return np.asarray(function(probe)).shape == probe.shape
    except (TypeError, ValueError):
        return False


def _floats(values: Any) -> Array:
    return np.asarray(values, dtype=float)
