"""Errors, one class for each mistake of a user; messages name the parameter, its value and what is allowed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Protocol, Self


class GlassformerError(Exception):
    """Base class of every error the package raises on purpose."""


class ParameterError(GlassformerError, ValueError):
    """A parameter lies outside its allowed range.

    Args:
        name: the parameter as the user wrote it.
        value: the value received.
        allowed: the allowed range, in words or as an interval.
        remedy: what to do instead, optional.

    Example:
        >>> print(ParameterError("rho", -1.0, "rho > 0"))
        rho = -1.0 is not allowed: expected rho > 0
    """

    def __init__(self, name: str, value: object, allowed: str, remedy: str = "") -> None:
        self.name, self.value, self.allowed, self.remedy = name, value, allowed, remedy
        text = f"{name} = {_short(value)} is not allowed: expected {allowed}"
        super().__init__(f"{text}; {remedy}" if remedy else text)

    def named(self, name: str) -> Self:
        """Return the same error for another name of the parameter."""
        return type(self)(name, self.value, self.allowed, self.remedy)


class DataError(ParameterError):
    """Observed data have the wrong shape, do not match each other, or are not finite."""


class DataWarning(UserWarning):
    """Observed data contradict an assumption: they are used, but the theory of the result may be wrong."""


class LinkError(ParameterError):
    """A link function of the user fails, is random, or returns values that no label can have."""


class IncompatibleError(GlassformerError, ValueError):
    """Two choices exclude each other, or a part cannot do what it is asked for."""


class BackendError(GlassformerError, RuntimeError):
    """JAX cannot start as its environment asks; the message names the variable."""


class UnidentifiedError(GlassformerError):
    """The content of a function or object cannot be read: its results are computed, but not cached.

    Example:
        >>> error = UnidentifiedError("what a generator holds cannot be seen")
        >>> error.within("link")
        >>> print(error)
        link: what a generator holds cannot be seen
    """

    def __init__(self, reason: str) -> None:
        self.reason, self.places = reason, list[str]()
        super().__init__(reason)

    def within(self, place: str) -> None:
        """Prepend the name of the part that holds the object."""
        self.places.insert(0, place)

    def __str__(self) -> str:
        return f"{', '.join(self.places)}: {self.reason}" if self.places else self.reason


class Remedied(Protocol):
    """A status with remedies."""

    def remedy_for(self, parameters: Mapping[str, Any]) -> str:
        """Return one sentence for the user of a result with these parameters."""


class ConvergenceError(GlassformerError, RuntimeError):
    """A solver ended without a result that can be trusted.

    The attribute ``solution`` holds the unconverged result; ``throw=False`` returns it instead of raising.
    """

    def __init__(self, status: Remedied, solution: object) -> None:
        self.status, self.solution = status, solution
        remedy = status.remedy_for(getattr(solution, "parameters", {}))
        super().__init__(f"{status}: {remedy} (pass throw=False to receive the unconverged result)")


def no_data_error(limit: str, remedy: str) -> IncompatibleError:
    """Return the error for simulations of a limit of infinite or vanishing ratios."""
    return IncompatibleError(f"{limit} is a limit without data: {remedy}")


@contextlib.contextmanager
def in_file(path: object) -> Iterator[None]:
    """Add the name of a file to errors about its content.

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


def _short(value: object) -> str:
    try:
        text = repr(value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value)
    except ValueError:
        # Python refuses to write integers of thousands of digits.
        text = f"<{type(value).__name__}>"
    text = " ".join(text.split())
    # The end of a path is as informative as its beginning.
    return text if len(text) <= 80 else f"{text[:37]}...{text[-40:]}"
