"""Errors, one class for each kind of mistake. Messages name the parameter, its value and the allowed values."""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol, Self


class GlassformerError(Exception):
    """Base class of all errors that the package raises deliberately."""


class ParameterError(GlassformerError, ValueError):
    """A parameter lies outside its allowed range.

    Args:
        name: name of the parameter, as the user wrote it.
        value: its value.
        allowed: the allowed values, in words or as an interval.
        remedy: what the user can do instead, optional.

    Example:
        >>> print(ParameterError("rho", -1.0, "rho > 0"))
        rho = -1.0 is not allowed: expected rho > 0
        >>> import numpy as np
        >>> print(ParameterError("spectrum", (np.float64(2.0), 1.0), "eigenvalues of mean one"))
        spectrum = (2.0, 1.0) is not allowed: expected eigenvalues of mean one
        >>> print(ParameterError("learner", "rigde", "one of gamp, ridge"))
        learner = 'rigde' is not allowed: expected one of gamp, ridge; did you mean ridge?
    """

    def __init__(self, name: str, value: object, allowed: str, remedy: str = "") -> None:
        self.name, self.value, self.allowed, self.remedy = name, value, allowed, remedy
        text = f"{name} = {_short(value)} is not allowed: expected {allowed}"
        opening, _, words = allowed.partition("one of ")
        if not remedy and not opening and isinstance(value, str):
            remedy = did_you_mean(value, words.split(", "))
        super().__init__(f"{text}; {remedy}" if remedy else text)

    def named(self, name: str) -> Self:
        """Return the same error for another name of the parameter."""
        return type(self)(name, self.value, self.allowed, self.remedy)


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """Return the question whether another word was meant, the most similar one; empty if none is like it.

    Example:
        >>> did_you_mean("rigde", ["gamp", "ridge"]), did_you_mean("newton", ["gamp", "ridge"])
        ('did you mean ridge?', '')
    """
    close = difflib.get_close_matches(word, list(words), 1)
    return f"did you mean {close[0]}?" if close else ""


class DataError(ParameterError):
    """Observed data have the wrong shape, do not match each other, or are not finite."""


class DataWarning(UserWarning):
    """Observed data contradict an assumption. The data are used, but theoretical predictions may be wrong."""


class LinkError(ParameterError):
    """A user's link function fails, is random, or returns values that are not valid labels."""


class IncompatibleError(GlassformerError, ValueError):
    """Two choices exclude each other, or a part does not support the requested computation."""


class RenamedError(GlassformerError, TypeError):
    """A word has a new name, which the message says."""


class BackendError(GlassformerError, RuntimeError):
    """JAX cannot start with the present environment. The message names the variable."""


class UnidentifiedError(GlassformerError):
    """The content of a function or object cannot be read. Its results are computed, but not cached.

    Example:
        >>> error = UnidentifiedError("the state of a generator cannot be read")
        >>> error.within("link")
        >>> print(error)
        link: the state of a generator cannot be read
    """

    def __init__(self, reason: str) -> None:
        self.reason, self.places = reason, list[str]()
        super().__init__(reason)

    def within(self, place: str) -> None:
        """Prepend the name of the part that contains the object."""
        self.places.insert(0, place)

    def __str__(self) -> str:
        return f"{', '.join(self.places)}: {self.reason}" if self.places else self.reason


class Remedied(Protocol):
    """Interface of a status that has remedies."""

    def remedy_for(self, parameters: Mapping[str, Any]) -> str:
        """Return the remedy, a sentence, for a result with these parameters."""


# Notes of a result that the message of an error repeats.
_NOTES = 2


class ConvergenceError(GlassformerError, RuntimeError):
    """A solver stopped without convergence.

    The attribute ``result`` holds the unconverged result, such as a table. With ``throw=False`` it is returned instead.
    The message contains its first notes, which may say more about the cause than the status.
    """

    def __init__(self, status: Remedied, result: object) -> None:
        self.status, self.result = status, result
        remedy = status.remedy_for(getattr(result, "parameters", {}))
        parts = [f"{status}: {remedy}", *list(getattr(result, "notes", ()))[:_NOTES]]
        super().__init__(f"{'; '.join(parts)} (pass throw=False to receive the unconverged result)")


def no_data_error(limit: str, remedy: str) -> IncompatibleError:
    """Return the error for simulations at infinite or vanishing ratios, for which no finite data exist."""
    return IncompatibleError(f"simulation needs a finite size, {limit} has none: {remedy}")


@contextlib.contextmanager
def in_file(path: object) -> Iterator[None]:
    """Prepend the name of a file to errors about its content.

    Example:
        >>> with in_file("sweep.toml"):
        ...     raise ParameterError("rho", -1, "rho > 0")
        Traceback (most recent call last):
        ...
        glassformer.core.errors.ParameterError: sweep.toml: rho = -1 is not allowed: expected rho > 0
    """
    try:
        yield
    except ParameterError as error:
        raise error.named(f"{path}: {error.name}") from error.__cause__
    except IncompatibleError as error:
        raise IncompatibleError(f"{path}: {error}") from error.__cause__
    except RenamedError as error:
        raise RenamedError(f"{path}: {error}") from error.__cause__


def _short(value: object) -> str:
    try:
        text = repr(value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value)
    except ValueError:
        # Python refuses to convert integers with thousands of digits to text.
        text = f"<{type(value).__name__}>"
    # Without addresses in memory, and numbers of NumPy as numbers.
    text = re.sub(r"np\.\w+\(([^()]*)\)", r"\1", re.sub(r" at 0x[0-9a-fA-F]+", "", " ".join(text.split())))
    # Keep the end as well: the end of a path is as informative as its beginning.
    return text if len(text) <= 80 else f"{text[:37]}...{text[-40:]}"
