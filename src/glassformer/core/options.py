"""Fields of data classes as options of the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, dataclass, field
from typing import Any

from glassformer.core.errors import ParameterError

# What the first word of a field's type says of the text of an option.
_KINDS: dict[str, type] = {"int": int, "float": float, "str": str, "bool": bool}


def parameter(
    text: str, default: Any = MISSING, *, option: str = "", read: Callable[[str, str], Any] | None = None, **more: Any
) -> Any:
    """A field of a data class that is an option of the command line as well.

    Args:
        text: what it means.
        default: None where the class has a rule for what is left open.
        option: its name there, if that is another one. A truth value that is true by default is an option that makes it
            false.
        read: makes the value from the name of the option and its text, where a number or the text itself is not meant.
        more: ``metavar``; ``required`` for an option that cannot be left out though the class has a default; ``usual``,
            the ends of the range of a number that is worth a look, and ``begin``, where a look begins if not at the
            default; ``among``, the words that a text may be; ``opens_file``, whether the text may name a file that is
            read.
    """
    return field(default=default, metadata={"help": text, "option": option, "read": read, **more})


def as_text(name: str, given: str) -> str:
    """The text itself, for fields of any type.

    Example:
        >>> as_text("prior", "rademacher")
        'rademacher'
    """
    del name
    return given


@dataclass(frozen=True)
class Option:
    """A field as an option.

    Attributes:
        field: its name in the class.
        name: its name as an option, with underscores.
        kind: type of its text.
        meaning: what it means.
        required: whether it cannot be left out.
        default: of the class.
        metavar: stands for the value in the help.
        read: see :func:`parameter`.
        usual: see :func:`parameter`.
        begin: see :func:`parameter`.
        among: see :func:`parameter`.
        opens_file: see :func:`parameter`.
        whole: whether its numbers are whole ones.
    """

    field: str
    name: str
    kind: type
    meaning: str
    required: bool
    default: Any
    metavar: str
    read: Callable[[str, str], Any] | None
    usual: tuple[float, float] | None = None
    begin: Any = None
    among: tuple[str, ...] = ()
    opens_file: bool = False
    whole: bool = False

    @property
    def word(self) -> str:
        """As it is written."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def text(self) -> str:
        """What it means, and its default where it can be left out."""
        told = not self.required and self.default is not None and not isinstance(self.default, bool)
        return f"{self.meaning} (default {self.default})" if told else self.meaning

    @property
    def flag(self) -> bool:
        """Whether it takes no value."""
        return self.kind is bool

    def value(self, given: Any) -> Any:
        """The value of the field from what was written; None where nothing was."""
        if self.flag:
            return not self.default if given else None
        return given if given is None or self.read is None else self.read(self.name, given)


def values_of(options: Iterable[Option], field: str, values: Any) -> list[Any]:
    """Numbers that a field takes one after the other: whole ones where it takes no others.

    Raises:
        ParameterError: they are no finite numbers, or fractions where whole ones are meant.

    Example:
        >>> @dataclass
        ... class Walk:
        ...     steps: int = parameter("how many", 10)
        >>> values_of(options_in(Walk), "steps", [1.0, 2.0])
        [1, 2]
    """
    # Command lines are read without NumPy.
    from glassformer.core.checks import real_numbers

    numbers = [float(value) for value in real_numbers(field, values).ravel()]
    if not any(option.whole for option in options if option.field == field):
        return numbers
    for number in numbers:
        if not number.is_integer():
            raise ParameterError(field, number, "whole numbers, for example 1,2,3 or 1:3:3")
    return [int(number) for number in numbers]


def options_in(*kinds: type) -> list[Option]:
    """The options in data classes, each once.

    Example:
        >>> @dataclass
        ... class Walk:
        ...     steps: int = parameter("how many", 10)
        ...     silent: bool = False
        >>> [(option.word, option.text) for option in options_in(Walk)]
        [('--steps', 'how many (default 10)')]
    """
    found: dict[str, Option] = {}
    for kind in kinds:
        # Those that only the constructor takes are among them.
        for one in kind.__dataclass_fields__.values():  # type: ignore[attr-defined]
            if "help" in one.metadata:
                found.setdefault(one.name, _option(one))
    return list(found.values())


def _option(one: Field[Any]) -> Option:
    read, name = one.metadata["read"], one.metadata["option"] or one.name
    kind = _KINDS.get(str(one.type).partition(" ")[0], str)
    return Option(
        field=one.name,
        name=name,
        kind=str if read else kind,
        meaning=one.metadata["help"],
        required=one.default is MISSING or bool(one.metadata.get("required")),
        default=None if one.default is MISSING else one.default,
        metavar=one.metadata.get("metavar") or name.upper().replace("_", "-"),
        read=read,
        whole=kind is int,
        **{key: one.metadata[key] for key in ("usual", "begin", "among", "opens_file") if key in one.metadata},
    )
