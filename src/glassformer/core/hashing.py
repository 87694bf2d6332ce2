"""Hash of everything that determines a result (settings, models, arrays and functions), by content.

Hashes of pickles do not work. Pickles of equal functions depend on line numbers, on the order of sets in the process
and on which equal strings are one object, and pickling does not refuse functions that read files.
"""

from __future__ import annotations

import builtins
import copyreg
import dataclasses
import dis
import functools
import hashlib
import importlib
import sys
import sysconfig
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path, PurePath
from types import CodeType, FunctionType, GetSetDescriptorType, MappingProxyType, MemberDescriptorType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from glassformer.core.errors import UnidentifiedError

# Functions and names of methods that read data which the instructions of a function do not show.
_READERS = frozenset({"open", "eval", "exec", "compile", "globals", "input", "__import__"})
_FILE_READERS = frozenset(
    {"load", "loadtxt", "genfromtxt", "fromfile", "memmap", "read_text", "read_bytes", "read_csv"}
)
# Types whose repr shows the full content.
_ATOMS = {type(None), bool, int, complex, str, bytes, slice, range, type(...), type(NotImplemented)}
_FOLDERS = {f"{sysconfig.get_path(name)}/" for name in ("stdlib", "platstdlib", "purelib", "platlib")}
_INSTALLED = (f"{Path(__file__).parents[1]}/", "<frozen ", *sorted(_FOLDERS))


def identity(*parts: object) -> str:
    """Return a hash of 24 hexadecimal digits, the same in every process, of everything that determines a result.

    Dataclasses are hashed by class and fields, numbers exactly (1 and 1.0 are equal), arrays by content.
    Functions are hashed by their instructions, defaults, closure values and the globals that they read, recursively.
    The same holds for partial, bound and compiled functions and for callable objects. Code of this package and of other
    installed packages is hashed by the version of the package.

    Raises:
        UnidentifiedError: an object has a state that cannot be read (a generator, an open file, code that reads files).

    Example:
        >>> identity({"a": 1, "b": [2.5]}) == identity({"b": [2.5], "a": 1.0})
        True
        >>> identity(lambda z, *, k=1: k * z) == identity(lambda z, *, k=2: k * z)
        False
    """
    return _digest(parts, in_function=False)


def identity_or_none(*parts: object) -> str | None:
    """Return the :func:`identity`, or None if an object cannot be identified.

    Example:
        >>> identity_or_none(n for n in [1]) is None
        True
    """
    try:
        return identity(*parts)
    except UnidentifiedError:
        return None


def _digest(value: object, in_function: bool) -> str:
    content = _Content(in_function)
    try:
        content.add(value)
    except UnidentifiedError:
        raise
    except Exception as error:
        # Foreign objects may raise anything when their content is read.
        raise UnidentifiedError(f"{type(error).__name__} while its content was read ({error})") from error
    return hashlib.sha256(" ".join(content.words).encode()).hexdigest()[:24]


class _Content:
    """Collects the words that describe the content of a value and distinguish it from every other value.

    Attributes:
        words: the words collected so far.
        in_function: whether the value belongs to a function. There 1 and 1.0 differ, and so do a list and a tuple.
    """

    def __init__(self, in_function: bool) -> None:
        self.words: list[str] = []
        self.in_function = in_function
        # Functions, classes and other objects by their memory address, each with a number. If an object occurs again,
        # its number is added instead, so that cycles end.
        self._numbers: dict[tuple[Any, ...], tuple[int, Any]] = {}

    def add(self, value: Any) -> None:
        """Add the words of a value."""
        kind = type(value)
        if kind in _ATOMS or isinstance(value, PurePath):
            self.words.append(f"{kind.__name__} {value!r}")
        elif kind is float:
            whole = not self.in_function and value.is_integer()
            self.words.append(f"int {int(value)!r}" if whole else f"float {value.hex()}")
        elif kind in (list, tuple):
            self._add_all(kind.__name__ if self.in_function else "sequence", value)
        elif kind in (dict, MappingProxyType):
            # The result of a function may depend on the order; settings do not.
            items = value.items() if self.in_function else sorted(value.items(), key=lambda item: repr(item[0]))
            self._add_all("mapping", (part for item in items for part in item))
        elif kind in (set, frozenset):
            self.words.append(f"set {sorted(_digest(part, in_function=True) for part in value)}")
        elif isinstance(value, np.generic) and not self.in_function and not isinstance(value.item(), np.generic):
            self.add(value.item())
        elif isinstance(value, np.generic) or kind is np.ndarray or _is_device_array(value):
            self._add_array(kind.__name__, np.asarray(value))
        elif dataclasses.is_dataclass(kind) and kind.__module__.startswith("glassformer."):
            # Only fields count, not cached values that are derived from them.
            self._add_class(kind)
            for field in dataclasses.fields(value):
                self._add_named(field.name, getattr(value, field.name))
            self.words.append("end")
        elif isinstance(value, ModuleType):
            self._add_module(value, None)
        elif name := _installed_name(value):
            self.words.append(name)
        elif not self._is_known(value):
            before, self.in_function = self.in_function, True
            if isinstance(value, FunctionType):
                self._add_function(value)
            elif isinstance(value, type):
                self._add_class(value)
            else:
                self._add_object(value)
            self.in_function = before

    def _is_known(self, value: object, *more: object) -> bool:
        """Add the number of an object, and return whether the same object occurred before."""
        key = (id(value), *more)
        known = key in self._numbers
        if not known:
            # Hold a reference to the object, so that its memory address is not used again.
            self._numbers[key] = (len(self._numbers), value)
        self.words.append(f"object {self._numbers[key][0]}")
        return known

    def _add_all(self, name: str, parts: Iterable[Any]) -> None:
        self.words.append(f"{name} (")
        for part in parts:
            self.add(part)
        self.words.append(")")

    def _add_named(self, name: str, value: object, attributes: frozenset[str] | None = None) -> None:
        """Add an object under a name, which errors then mention."""
        self.words.append(name)
        try:
            if isinstance(value, ModuleType):
                self._add_module(value, attributes)
            else:
                self.add(value)
        except UnidentifiedError as error:
            error.within(name)
            raise

    def _add_array(self, name: str, value: np.ndarray[Any, Any]) -> None:
        self.words.append(f"{name} {value.dtype.descr if value.dtype.names else value.dtype.str} {value.shape}")
        if value.dtype.hasobject:
            self.add(value.ravel().tolist())
        else:
            self.words.append(hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest())

    def _add_function(self, function: FunctionType) -> None:
        code, namespace = function.__code__, function.__globals__
        module = namespace.get("__name__", "")
        version = version_of(module, code.co_filename)
        self.words.append(f"function {_read_code(code).digest} {module if version else 'here'} {version}")
        if not version:
            self._add_globals(code, namespace)
        # A function that an installed module defines is determined by the version and by its closure.
        if not version or "<locals>" in code.co_qualname:
            for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
                try:
                    content = cell.cell_contents
                except ValueError:
                    self.words.append("empty")
                else:
                    self._add_named(name, content)
            self.add((function.__defaults__, function.__kwdefaults__, vars(function)))

    def _add_globals(self, code: CodeType, namespace: dict[str, Any]) -> None:
        """Add the globals and modules that a user's function reads."""
        _, names, attributes, imports = _read_code(code)
        hidden = sorted(_READERS.intersection(names).difference(namespace) | _FILE_READERS.intersection(attributes))
        if hidden:
            raise UnidentifiedError(f"it calls {hidden[0]}, which reads data that cannot be hashed")
        self.words.append(f"python {sys.version_info[:2]}")
        for name in sorted(names):
            if name in namespace:
                self._add_named(name, namespace[name], attributes)
            elif not hasattr(builtins, name):
                self.words.append(f"missing {name}")
        for name, level in sorted(imports):
            package = namespace.get("__package__") or namespace.get("__name__", "").rpartition(".")[0]
            self._add_named(name, importlib.import_module("." * level + name, package), attributes)

    def _add_module(self, module: ModuleType, attributes: frozenset[str] | None) -> None:
        """Add a module by its version. A user's module is added by the attributes that are read, or by all if None."""
        version = version_of(module.__name__)
        self.words.append(f"module {module.__name__} {version}")
        if version or self._is_known(module, attributes):
            return
        content = {name: value for name, value in vars(module).items() if not name.startswith("__")}
        for name in sorted(content if attributes is None else attributes.intersection(content)):
            self._add_named(name, content[name], attributes)

    def _add_class(self, kind: type) -> None:
        """Add the name and version of a class. A user's class is added with its methods."""
        version = version_of(kind.__module__)
        self.words.append(f"class {kind.__module__} {kind.__qualname__} {version}")
        if version:
            return
        self.add(kind.__bases__)
        for name, part in sorted(vars(kind).items()):
            kept_by_python = name == "_abc_impl" or isinstance(part, MemberDescriptorType | GetSetDescriptorType)
            special = name.startswith("__") and name.endswith("__") and not callable(part)
            if not (kept_by_python or special):
                self._add_named(name, part)

    def _add_object(self, value: object) -> None:
        """Add the state of an object of any class, as pickling and copying do."""
        kind = type(value)
        if isinstance(value, property | functools.cached_property):
            self.add([kind, *(getattr(value, name, None) for name in ("fget", "fset", "fdel", "func"))])
            return
        wrapped, call = getattr(value, "__wrapped__", None), getattr(kind, "__call__", None)  # noqa: B004
        if callable(wrapped) and not isinstance(call, FunctionType) and version_of(kind.__module__):
            # A function that an installed package has compiled or cached, or a static or class method.
            compiled: Any = value.__getstate__() or {}
            self.add([kind, wrapped, compiled.get("static_argnums"), compiled.get("static_argnames")])
            return
        held = getattr(value, "__dict__", {})
        derived = {name for name in held if isinstance(getattr(kind, name, None), functools.cached_property)}
        self.add([kind, {name: part for name, part in held.items() if name not in derived}])
        try:
            parts = copyreg.dispatch_table[kind](value) if kind in copyreg.dispatch_table else value.__reduce_ex__(4)
        except TypeError:
            parts = ""
        if isinstance(parts, str):
            raise UnidentifiedError(f"the state of a {kind.__name__} cannot be read")
        function, arguments, state, *items = (*parts, None, None, None)[:5]
        if isinstance(state, tuple) and len(state) == 2:
            state = state[1]  # slots, beside the dictionary
        elif isinstance(state, dict) and state.keys() == held.keys():
            state = None
        self.add([function, arguments, state, *(part if part is None else list(part) for part in items)])


class _CodeFacts(NamedTuple):
    """Content of a code object and of the code objects in it, without positions in the source."""

    digest: str
    names: frozenset[str]  # globals that it reads
    attributes: frozenset[str]  # names that it looks up in objects and modules
    imports: frozenset[tuple[str, int]]  # modules that it imports, with the level of a relative import


@functools.lru_cache(maxsize=1024)
def _read_code(code: CodeType) -> _CodeFacts:
    names, attributes, imports = set[str](), set[str](), set[tuple[str, int]]()
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    variables = (code.co_names, code.co_varnames, code.co_cellvars, code.co_freevars)
    words = [code.co_code.hex(), code.co_exceptiontable.hex(), repr((counts, variables))]
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            facts = _read_code(inner)
            words.append(facts.digest)
            names |= facts.names
            attributes |= facts.attributes
            imports |= facts.imports
        else:
            words.append(_constant(inner))
    # The level and the list of names of an import are the two constants loaded before it.
    loaded: list[Any] = [0, None]
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            names.add(step.argval)
        elif step.opname in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "IMPORT_FROM"):
            attributes.add(step.argval)
        elif step.opname == "IMPORT_NAME":
            imports.add((step.argval, loaded[-2] if isinstance(loaded[-2], int) else 0))
        elif step.opname in ("LOAD_CONST", "LOAD_SMALL_INT"):
            loaded.append(step.argval)
    digest = hashlib.sha256(" ".join(words).encode()).hexdigest()
    return _CodeFacts(digest, frozenset(names), frozenset(attributes), frozenset(imports))


def _constant(value: object) -> str:
    """Return a constant as text. Sets are sorted, since their order differs between processes."""
    if isinstance(value, frozenset):
        return f"set {sorted(map(_constant, value))}"
    return f"tuple {list(map(_constant, value))}" if isinstance(value, tuple) else repr(value)


def _is_device_array(value: object) -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.Array)


def _installed_name(value: object) -> str:
    """Return the name and version under which an installed module contains this object, or an empty string."""
    name = str(getattr(value, "__qualname__", None) or getattr(value, "__name__", ""))
    module = getattr(value, "__module__", None)
    for home in ("numpy", "scipy.special") if isinstance(value, np.ufunc) else (str(module),):
        version = version_of(home)
        found: Any = sys.modules.get(home)
        for part in name.split("."):
            found = getattr(found, part, None)
        if version and found is value:
            return f"named {home} {name} {version}"
    return ""


def version_of(module: str, file: str = "") -> str:
    """Return the name and version of the package of a module. Return an empty string for a user's module.

    Args:
        module: the name of the module.
        file: the file of the code, if it may differ from the file of the module (typed or generated code).

    Example:
        >>> import numpy as np
        >>> version_of("numpy.linalg") == f"numpy {np.__version__}", version_of("links", "/home/me/links.py")
        (True, '')
    """
    top = module.partition(".")[0]
    # A part of a compiled module has no file of its own.
    files = (getattr(sys.modules.get(name), "__file__", None) for name in (module, top))
    path = file or next(filter(None, files), "")
    installed = path.startswith(_INSTALLED) or "/site-packages/" in path or "/dist-packages/" in path
    return _package_version(top) if installed or module in sys.builtin_module_names else ""


@functools.lru_cache(maxsize=1024)
def _package_version(top: str) -> str:
    if top in sys.stdlib_module_names:
        return f"python {'.'.join(map(str, sys.version_info[:3]))}"
    version = getattr(sys.modules.get(top), "__version__", None)
    if version is None:
        try:
            version = metadata.version(top)
        except metadata.PackageNotFoundError:
            version = "installed"
    return f"{top} {version}"
