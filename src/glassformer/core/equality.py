"""Equality of results by content. Arrays are compared entry by entry."""

from __future__ import annotations

import dataclasses


def same_content(first: object, second: object) -> bool:
    """Return whether two dataclasses or named tuples of the same class have equal fields. NaN equals NaN."""
    if first is second or type(first) is not type(second):
        return first is second
    key = _content(first)
    return key is not None and key == _content(second)


def content_hash(result: object) -> int:
    """Return a hash that is equal for objects of equal content."""
    return hash((type(result).__qualname__, _content(result)))


class ComparedByContent:
    """Base of dataclasses with ``eq=False`` that hold arrays.

    Example:
        >>> import numpy as np
        >>> @dataclasses.dataclass(frozen=True, eq=False)
        ... class Curve(ComparedByContent):
        ...     values: np.ndarray
        >>> Curve(np.array([1.0, np.nan])) == Curve(np.array([1.0, np.nan])), Curve(np.zeros(2)) == Curve(np.ones(2))
        (True, False)
        >>> len({Curve(np.zeros(2)), Curve(np.zeros(2))})
        1
    """

    def __eq__(self, other: object) -> bool:
        return same_content(self, other)

    def __hash__(self) -> int:
        return content_hash(self)


def _content(result: object) -> str | None:
    # Imported here because it imports NumPy, which the command line does not need for --help.
    from glassformer.core.hashing import identity_or_none

    if isinstance(result, tuple):
        return identity_or_none(*result)
    assert dataclasses.is_dataclass(result)
    return identity_or_none(*(getattr(result, one.name) for one in dataclasses.fields(result)))
