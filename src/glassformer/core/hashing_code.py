"""What the code of a function says and which names it reads, from its instructions."""

from __future__ import annotations

import dis
import hashlib
from functools import lru_cache
from types import CodeType
from typing import NamedTuple

_GLOBALS = ("LOAD_GLOBAL", "LOAD_NAME")
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "IMPORT_FROM")


class CodeWords(NamedTuple):
    """What one code object says, those inside it included.

    Attributes:
        digest: of instructions, constants and names; where the code stands does not count.
        names: global names that it reads.
        attributes: names that it looks up in objects and modules.
        imports: modules that it imports, each with the level of a relative import.
    """

    digest: str
    names: tuple[str, ...]
    attributes: frozenset[str]
    imports: tuple[tuple[str, int], ...]


@lru_cache(maxsize=1024)
def code_words(code: CodeType) -> CodeWords:
    """The words of a code object; equal code has equal ones.

    Example:
        >>> code_words((lambda z: scale * z.real).__code__)[1:3]
        (('scale',), frozenset({'real'}))
    """
    names: set[str] = set()
    attributes: set[str] = set()
    imports: set[tuple[str, int]] = set()
    text: list[str] = []
    _read(code, text, names, attributes, imports)
    digest = hashlib.sha256(" ".join(text).encode()).hexdigest()
    return CodeWords(digest, tuple(sorted(names)), frozenset(attributes), tuple(sorted(imports)))


def _read(
    code: CodeType, text: list[str], names: set[str], attributes: set[str], imports: set[tuple[str, int]]
) -> None:
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    variables = (code.co_names, code.co_varnames, code.co_cellvars, code.co_freevars)
    text += [code.co_code.hex(), getattr(code, "co_exceptiontable", b"").hex(), repr(counts), repr(variables)]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _read(constant, text, names, attributes, imports)
        else:
            text.append(_constant(constant))
    # The level and the list of names of an import are the two constants loaded before it.
    loaded: list[object] = [0, None]
    for step in dis.get_instructions(code):
        if step.opname in _GLOBALS:
            names.add(step.argval)
        elif step.opname in _ATTRIBUTES:
            attributes.add(step.argval)
        elif step.opname == "IMPORT_NAME":
            level = loaded[-2]
            imports.add((step.argval, level if isinstance(level, int) else 0))
        if step.opname in ("LOAD_CONST", "LOAD_SMALL_INT"):
            loaded.append(step.argval)


def _constant(value: object) -> str:
    """A constant with the order of its elements, where it has none, made the same in every process."""
    if isinstance(value, frozenset):
        return f"set {sorted(map(_constant, value))}"
    if isinstance(value, tuple):
        return f"tuple {list(map(_constant, value))}"
    return repr(value)
