"""Results that consist of entries with names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, TypeVar

from glassformer.core.errors import ParameterError


class Entry(Protocol):
    """An entry of such a result."""

    @property
    def name(self) -> str:
        """By which it is asked for."""


E = TypeVar("E", bound=Entry)


class NamedEntries(Mapping[str, E]):
    """A mapping from names to the entries of a result, in their order.

    Attributes:
        entries: the entries.

    Raises:
        ParameterError: there is no entry of the name asked for.
    """

    entries: tuple[E, ...]

    def __getitem__(self, name: str) -> E:
        for entry in self.entries:
            if entry.name == name:
                return entry
        raise ParameterError("name", name, f"one of {', '.join(self)}")

    def __iter__(self) -> Iterator[str]:
        return iter([entry.name for entry in self.entries])

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, name: object) -> bool:
        return name in list(self)

    def get(self, name: str, default: Any = None) -> Any:
        """The entry of this name, or a default where there is none."""
        return next((entry for entry in self.entries if entry.name == name), default)
