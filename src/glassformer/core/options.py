"""Command-line options from the fields of dataclasses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, dataclass, field
from typing import Any

from glassformer.core.errors import ParameterError

# Type to which the text of an option is converted, by the first word of the annotation of its field.
_KINDS: dict[str, type] = {"int": int, "float": float, "str": str, "bool": bool}


def parameter(
    text: str,
    default: object = MISSING,
    *,
    option: str = "",
    read: Callable[[str, str], Any] | None = None,
    **more: object,
) -> Any:
    """Return a dataclass field that is also a command-line option.

    Args:
        text: the meaning of the field.
        default: default value. None if the class computes the default.
        option: the name of the option, if it differs from the name of the field. The option of a boolean field that is
            true by default sets it to false.
        read: converts the name and the text of the option to the value, if it is neither a number nor text.
        more: ``metavar``; ``required`` for an option that cannot be left out though the class has a default; ``usual``,
            the ends of the range that controls of a page offer, and ``begin``, where they begin if not at the default;
            ``among``, the allowed words; ``opens_file``, whether the text may name a file that is read, and ``named``,
            the names that it may be instead.
    """
    return field(default=default, metadata={"help": text, "option": option, "read": read, **more})


@dataclass(frozen=True)
class Option:
    """A field as an option.

    Attributes:
        field: name of the field in the class.
        name: name of the option, with underscores.
        kind: type to which its text is converted.
        meaning: meaning of the field.
        required: whether the option must be given.
        default: the default of the class.
        metavar: placeholder for the value in the help.
        whole: whether the values are integers.
        read, usual, begin, among, opens_file, named: see :func:`parameter`.
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
    named: tuple[str, ...] = ()
    whole: bool = False

    @property
    def word(self) -> str:
        """The option as users write it, with two dashes."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def text(self) -> str:
        """Help text: the meaning, and the default if the option is optional and the meaning does not say it."""
        show_default = not self.required and self.default is not None and not isinstance(self.default, bool)
        show_default = show_default and "(default" not in self.meaning
        return f"{self.meaning} (default {self.default})" if show_default else self.meaning

    @property
    def flag(self) -> bool:
        """Whether the option takes no value."""
        return self.kind is bool

    def value(self, given: Any) -> Any:
        """Return the value of the field from the text of the option. Return None if the option was not given."""
        if self.flag:
            return not self.default if given else None
        if given is not None and self.read is not None:
            return self.read(self.name, given)
        if isinstance(given, str) and self.kind in (int, float):
            # The option has another type for another class.
            try:
                return self.kind(given)
            except ValueError:
                raise ParameterError(self.name, given, "an integer" if self.whole else "a number") from None
        return given


def values_of(options: Iterable[Option], field: str, values: object) -> list[Any]:
    """Return the values of a scan over a field, as integers if the field is an integer.

    Raises:
        ParameterError: a value is not a finite number, or not an integer although the field is one.

    Example:
        >>> @dataclass
        ... class Walk:
        ...     steps: int = parameter("how many", 10)
        >>> values_of(options_in(Walk), "steps", [1.0, 2.0])
        [1, 2]
    """
    # Imported here because the command line imports this module and does not need NumPy for --help.
    from glassformer.core.checks import real_numbers

    numbers = [float(value) for value in real_numbers(field, values).ravel()]
    if not any(option.whole for option in options if option.field == field):
        return numbers
    for number in numbers:
        if not number.is_integer():
            raise ParameterError(field, number, "whole numbers, for example 1,2,3 or 1:3:3")
    return [int(number) for number in numbers]


def options_in(*kinds: type) -> list[Option]:
    """Return the options of dataclasses, without repetition.

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
        # Unlike dataclasses.fields, this includes the InitVar fields.
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
        **{key: one.metadata[key] for key in ("usual", "begin", "among", "opens_file", "named") if key in one.metadata},
    )
