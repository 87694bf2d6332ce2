"""Default values of attributes, which subclasses override by attributes or properties."""

from __future__ import annotations

from typing import Any


def default_property(value: object, meaning: str) -> Any:
    """Return a read-only attribute of value ``value``. Subclasses may declare another value.

    Example:
        >>> class Part:
        ...     symmetric = default_property(False, "True when rows are symmetric matrices.")
        >>> class Square(Part):
        ...     symmetric = True
        >>> Part().symmetric, Square().symmetric, Part.symmetric.__doc__
        (False, True, 'True when rows are symmetric matrices.')
    """
    return property(lambda _: value, doc=meaning)
