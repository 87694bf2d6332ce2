"""What a part says of itself unless its class says otherwise."""

from __future__ import annotations

from typing import Any


def default_property(value: Any, meaning: str) -> Any:
    """A read-only attribute that is ``value`` until a class declares another, by a plain attribute or a property.

    Example:
        >>> class Part:
        ...     symmetric = default_property(False, "True when rows are symmetric matrices.")
        >>> class Square(Part):
        ...     symmetric = True
        >>> Part().symmetric, Square().symmetric, Part.symmetric.__doc__
        (False, True, 'True when rows are symmetric matrices.')
    """
    return property(lambda _: value, doc=meaning)
