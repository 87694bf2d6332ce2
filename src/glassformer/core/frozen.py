"""Fields of frozen dataclasses."""

from __future__ import annotations


def set_fields(part: object, **values: object) -> None:
    """Set fields of a frozen dataclass in its ``__post_init__``, to the objects that stand for the given values.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Walk:
        ...     steps: tuple[int, ...]
        ...
        ...     def __post_init__(self):
        ...         set_fields(self, steps=tuple(self.steps))
        >>> Walk([1, 2])
        Walk(steps=(1, 2))
    """
    for name, value in values.items():
        object.__setattr__(part, name, value)
