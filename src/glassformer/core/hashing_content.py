"""Words for the content of any value, function or object, which tell it apart from every other."""

from __future__ import annotations

import builtins
import copyreg
import dataclasses
import enum
import functools
import hashlib
import importlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import PurePath
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np

from glassformer.core.errors import UnidentifiedError
from glassformer.core.hashing_code import code_words
from glassformer.core.hashing_objects import (
    installed,
    is_derived,
    is_device_array,
    is_importable,
    is_own_data,
    is_wrapper,
    is_written,
    name_of,
)
from glassformer.core.provenance import version_of_code, version_of_module

# Functions, and methods by name, through which code reads what cannot be seen in it.
_HIDDEN = frozenset({"open", "eval", "exec", "compile", "globals", "input", "__import__"})
_FILES = frozenset({"load", "loadtxt", "genfromtxt", "fromfile", "memmap", "read_text", "read_bytes", "read_csv"})


class ContentReader:
    """Turns values into words that tell them apart."""

    def __init__(self) -> None:
        self.words: list[str] = []
        # Functions, classes and foreign objects in the order in which they were met, and their places in it: met
        # again, the place says which one it is, and cycles end.
        self._met: list[Any] = []
        self._places: dict[int, int] = {}
        # Collections count by content; only inside themselves they are met again.
        self._open: dict[int, int] = {}
        # In a function 1 and 1.0 differ, and so do a list and a tuple.
        self._strict = False

    def read(self, value: Any) -> None:
        """Add the words of a value."""
        reader = _READERS.get(type(value))
        if reader is None:
            reader = next((reader for kind, reader in _FAMILIES if isinstance(value, kind)), ContentReader._object)
        reader(self, value)

    def _is_again(self, value: Any) -> bool:
        """Whether this very object was met before."""
        place = self._places.setdefault(id(value), len(self._met))
        if place < len(self._met):
            self.words.append(f"again {place}")
            return True
        self._met.append(value)
        return False

    def _inside(self, value: Any, parts: Iterable[tuple[str, Any]], attributes: frozenset[str] | None = None) -> None:
        """Read what is in a collection, once: parts with their names, if they have any."""
        if id(value) in self._open:
            self.words.append(f"itself {self._open[id(value)]}")
            return
        self._open[id(value)] = len(self._open)
        self.words.append("(")
        for name, part in parts:
            if name:
                self._part(name, part, attributes)
            else:
                self.read(part)
        self.words.append(")")
        del self._open[id(value)]

    @contextmanager
    def _strictly(self) -> Iterator[None]:
        before, self._strict = self._strict, True
        yield
        self._strict = before

    def _part(self, name: str, value: Any, attributes: frozenset[str] | None = None) -> None:
        """Something that has a name, which errors then mention."""
        self.words.append(name)
        try:
            if isinstance(value, ModuleType):
                self._module(value, attributes)
            else:
                self.read(value)
        except UnidentifiedError as error:
            error.within(name)
            raise

    # Plain values.

    def _plain(self, value: Any) -> None:
        self.words.append(f"{type(value).__name__} {value!r}")

    def _float(self, value: float) -> None:
        whole = not self._strict and value.is_integer()
        self.words.append(f"int {int(value)!r}" if whole else f"float {value.hex()}")

    def _scalar(self, value: np.generic) -> None:
        item = value.item()
        if self._strict or isinstance(item, np.generic):
            self.words.append(f"scalar {value.dtype.str} {value.tobytes().hex()}")
        else:
            self.read(item)

    def _array(self, value: np.ndarray[Any, Any]) -> None:
        kind = value.dtype.descr if value.dtype.names else value.dtype.str
        self.words.append(f"array {kind} {value.shape}")
        if value.dtype.hasobject:
            self._sequence(value.ravel().tolist())
        else:
            self.words.append(hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest())

    def _path(self, value: PurePath) -> None:
        self.words.append(f"path {str(value)!r}")

    def _member(self, value: enum.Enum) -> None:
        self.words.append(f"member {value.name}")
        self._class(type(value))

    # Collections.

    def _sequence(self, value: list[Any] | tuple[Any, ...]) -> None:
        self.words.append(type(value).__name__ if self._strict else "sequence")
        self._inside(value, (("", part) for part in value))

    def _mapping(self, value: Mapping[Any, Any]) -> None:
        self.words.append("mapping")
        # Functions may depend on the order; settings do not.
        items = list(value.items()) if self._strict else sorted(value.items(), key=lambda item: repr(item[0]))
        self._inside(value, (("", part) for item in items for part in item))

    def _set(self, value: Any) -> None:
        self.words.append(f"set {sorted(_alone(part) for part in value)}")

    # Functions.

    def _function(self, function: FunctionType) -> None:
        if self._is_again(function):
            return
        code, namespace = function.__code__, function.__globals__
        home = version_of_code(code.co_filename, namespace.get("__name__", ""))
        self.words.append(f"function {code_words(code).digest}")
        with self._strictly():
            if home:
                self.words.append(f"{namespace['__name__']} {home}")
            else:
                self._globals(code, namespace)
            # What an installed module defines has its version; what it makes in a call holds what it was made from.
            if not home or "<locals>" in code.co_qualname:
                self._cells(function)
                self.read((function.__defaults__, function.__kwdefaults__, vars(function)))

    def _cells(self, function: FunctionType) -> None:
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                content = cell.cell_contents
            except ValueError:
                self.words.append("empty")
            else:
                self._part(name, content)

    def _globals(self, code: CodeType, namespace: dict[str, Any]) -> None:
        """What a function of the user reads."""
        words = code_words(code)
        hidden = sorted(_HIDDEN.intersection(words.names).difference(namespace) | _FILES.intersection(words.attributes))
        if hidden:
            raise UnidentifiedError(f"it calls {hidden[0]}, and what that reads cannot be seen")
        self.words.append(f"python {sys.version_info[:2]}")
        for name in words.names:
            if name in namespace:
                self._part(name, namespace[name], words.attributes)
            elif not hasattr(builtins, name):
                self.words.append(f"missing {name}")
        for name, level in words.imports:
            package = namespace.get("__package__") or namespace.get("__name__", "").rpartition(".")[0]
            self._part(name, importlib.import_module("." * level + name, package), words.attributes)

    def _module(self, module: ModuleType, attributes: frozenset[str] | None = None) -> None:
        """One of the user's by what is read of it, or by everything where that is unknown."""
        home = version_of_module(module.__name__)
        self.words.append(f"module {module.__name__} {home}")
        if home:
            return
        content = {name: value for name, value in vars(module).items() if not name.startswith("__")}
        names = sorted(content if attributes is None else attributes.intersection(content))
        self._inside(module, ((name, content[name]) for name in names), attributes)

    def _partial(self, value: functools.partial[Any]) -> None:
        self._made("partial", value.func, value.args, value.keywords, vars(value))

    def _method(self, value: MethodType) -> None:
        self._made("method", value.__func__, value.__self__)

    def _property(self, value: property) -> None:
        self._made("property", value.fget, value.fset, value.fdel)

    def _of_class(self, value: Any) -> None:
        self._made(type(value).__name__, value.func if is_derived(value) else value.__func__)

    def _made(self, name: str, *parts: Any) -> None:
        self.words.append(name)
        with self._strictly():
            self.read(parts)

    def _builtin(self, value: Any) -> None:
        owner = getattr(value, "__self__", None)
        self.words.append(f"builtin {value.__name__}")
        if owner is not None and not isinstance(owner, ModuleType):
            with self._strictly():
                self.read(owner)
        else:
            self.words.append(installed(value))

    def _descriptor(self, value: Any) -> None:
        self.words.append(f"descriptor {value.__name__}")
        self._class(value.__objclass__)

    # Classes and other objects.

    def _class(self, kind: type) -> None:
        """By its name and the version of its package, or with the code of its methods if it is the user's."""
        home = version_of_module(kind.__module__)
        self.words.append(f"class {kind.__module__} {kind.__qualname__} {home}")
        if home or self._is_again(kind):
            return
        with self._strictly():
            self.read(kind.__bases__)
            for name, part in sorted(vars(kind).items()):
                if is_written(name, part):
                    self._part(name, part)

    def _object(self, value: Any) -> None:
        if is_own_data(value):
            # Equal ones are one, however often each occurs; derived values do not count.
            self._class(type(value))
            self._inside(value, ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value)))
        elif is_importable(value):
            self.words.append(f"named {name_of(value)} {installed(value)}")
        elif is_device_array(value):
            self.words.append("jax")
            self._array(np.asarray(value))
        elif not self._is_again(value):
            with self._strictly():
                self._state(value)

    def _state(self, value: Any) -> None:
        """What an object of a foreign class holds."""
        kind = type(value)
        self._class(kind)
        if is_wrapper(value):
            state = value.__getstate__() or {}
            self.read((value.__wrapped__, state.get("static_argnums"), state.get("static_argnames")))
            return
        derived = {name for base in kind.__mro__ for name, part in vars(base).items() if is_derived(part)}
        self.read({name: part for name, part in getattr(value, "__dict__", {}).items() if name not in derived})
        try:
            made = copyreg.dispatch_table[kind](value) if kind in copyreg.dispatch_table else value.__reduce_ex__(4)
        except TypeError:
            made = ""
        if isinstance(made, str):
            raise UnidentifiedError(f"what a {kind.__name__} holds cannot be seen")
        function, arguments, state, *items = (*made, None, None, None)[:5]
        # Slots come beside the dictionary, which was read.
        state = state[1] if isinstance(state, tuple) and len(state) == 2 else state
        state = None if state is getattr(value, "__dict__", None) else state
        self.read((function, arguments, state, *(part if part is None else list(part) for part in items)))


_Read = Callable[[ContentReader, Any], None]
_READERS: dict[type, _Read] = {
    **dict.fromkeys((type(None), bool, int, complex, str, bytes, slice, range), ContentReader._plain),
    **dict.fromkeys((type(...), type(NotImplemented)), ContentReader._plain),
    float: ContentReader._float,
    **dict.fromkeys((list, tuple), ContentReader._sequence),
    **dict.fromkeys((dict, type(vars(object))), ContentReader._mapping),
    **dict.fromkeys((set, frozenset), ContentReader._set),
    np.ndarray: ContentReader._array,
    FunctionType: ContentReader._function,
    MethodType: ContentReader._method,
    functools.partial: ContentReader._partial,
    property: ContentReader._property,
    **dict.fromkeys((staticmethod, classmethod, functools.cached_property), ContentReader._of_class),
    **dict.fromkeys((BuiltinFunctionType, MethodWrapperType), ContentReader._builtin),
    **dict.fromkeys((WrapperDescriptorType, MethodDescriptorType), ContentReader._descriptor),
}
_FAMILIES: tuple[tuple[type, _Read], ...] = (
    (enum.Enum, ContentReader._member),
    (type, ContentReader._class),
    (np.generic, ContentReader._scalar),
    (PurePath, ContentReader._path),
    (ModuleType, ContentReader._module),
)


def _alone(value: Any) -> str:
    reader = ContentReader()
    with reader._strictly():
        reader.read(value)
    return " ".join(reader.words)
