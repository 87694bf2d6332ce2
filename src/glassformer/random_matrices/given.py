"""Spectra given by users: arrays, files of numbers, power laws."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from glassformer.core.checks import require_integer
from glassformer.core.errors import GlassformerError, ParameterError
from glassformer.core.estimate import Array
from glassformer.core.files import user_path

# Values that differ by less than this share of the largest count as one (rounding of files of numbers).
_SAME = 1e-12
# Number of values of a power law whose COUNT is not given, and the largest number allowed.
COUNT, _MOST = 100, 20_000
POWER_LAW = "power-law:EXPONENT[:COUNT]"


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues or singular values, all of the same weight; any scale.

    Args:
        values: in any order; repeated ones are multiple.
        name: name in tables; by default a digest of the values.

    Raises:
        ParameterError: there are no values, too many, or one is not finite.

    Example:
        >>> Spectrum([2, 1, 1])
        Spectrum('3 values, ef4df1d8')
    """

    values: tuple[float, ...]
    name: str = ""

    def __init__(self, values: ArrayLike, name: str = "") -> None:
        try:
            numbers = np.sort(np.asarray(values, dtype=float).ravel())
        except (TypeError, ValueError):
            raise ParameterError("spectrum", values, "numbers") from None
        if not (0 < len(numbers) <= _MOST and np.all(np.isfinite(numbers))):
            raise ParameterError("spectrum", f"{len(numbers)} values", f"1 to {_MOST} finite numbers")
        object.__setattr__(self, "values", tuple(numbers.tolist()))
        digest = hashlib.sha256(numbers.tobytes()).hexdigest()[:8]
        object.__setattr__(self, "name", name or f"{len(numbers)} values, {digest}")

    def __repr__(self) -> str:
        return f"Spectrum({self.name!r})"

    def atoms(self) -> tuple[Array, Array]:
        """Return distinct values, ascending, and their weights.

        Example:
            >>> Spectrum([2, 1, 1, 0]).atoms()
            (array([0., 1., 2.]), array([0.25, 0.5 , 0.25]))
        """
        values = np.array(self.values)
        distinct = np.diff(values) > _SAME * np.max(np.abs(values))
        starts = np.flatnonzero(np.concatenate([[True], distinct]))
        counts = np.diff(np.append(starts, len(values)))
        return values[starts], counts / len(values)

    def resized(self, count: int) -> Spectrum:
        """Return the spectrum with ``count`` values: each is repeated, or neighbours are replaced by their mean.

        Example:
            >>> Spectrum([1.0, 3.0]).resized(4).sized(4), Spectrum([1.0, 2.0, 5.0, 6.0]).resized(2).values
            (array([1., 1., 3., 3.]), (1.5, 5.5))
        """
        require_integer("count", count)
        if count == len(self.values):
            return self
        # The integral of the quantile function, which is linear between multiples of one over their number.
        edges = np.linspace(0, 1, len(self.values) + 1)
        total = np.concatenate([[0.0], np.cumsum(self.values)]) / len(self.values)
        means = np.diff(np.interp(np.linspace(0, 1, count + 1), edges, total)) * count
        return self if count % len(self.values) == 0 else Spectrum(means, f"{self.name}, as {count} values")

    def sized(self, count: int) -> Array:
        """Return ``count`` values, a multiple of the number of values."""
        return np.repeat(self.values, count // len(self.values))


def power_law(exponent: float, count: int = COUNT) -> Spectrum:
    r"""Return the values :math:`k^{-\gamma}`, ``k`` from 1 to ``count``.

    Args:
        exponent: :math:`\gamma`.
        count: how many; the spectrum is that of matrices with so many dimensions, or a multiple of them.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> power_law(1.0, 4).values
        (0.25, 0.3333333333333333, 0.5, 1.0)
    """
    require_integer("count", count)
    if not (np.isfinite(exponent) and 0 <= exponent <= 20):
        raise ParameterError("exponent", exponent, "a number from 0 to 20")
    return Spectrum(np.arange(1.0, min(count, _MOST + 1) + 1) ** -exponent, f"power-law:{exponent:g}:{count}")


def spectrum_of(given: object, folder: Path | None = None) -> Spectrum:
    """Return the spectrum given by the parameter ``spectrum``.

    Args:
        given: a :class:`Spectrum`, numbers, ``"power-law:EXPONENT"`` or ``"power-law:EXPONENT:COUNT"``, or the name of
            a file of numbers (text, one or several per line, or ``.npy``), of which nothing is executed.
        folder: what the path of such a file is relative to.

    Raises:
        ParameterError: it is none of these.

    Example:
        >>> spectrum_of("power-law:1.25:400")
        Spectrum('power-law:1.25:400')
        >>> spectrum_of([1.0, 2.0]).values
        (1.0, 2.0)
        >>> spectrum_of("power-law")
        Traceback (most recent call last):
        ...
        glassformer.core.errors.ParameterError: spectrum = 'power-law' is not allowed: expected numbers, a file of \
numbers, or power-law:EXPONENT[:COUNT]; there is no file ...
    """
    if isinstance(given, Spectrum):
        return given
    if not isinstance(given, str | Path):
        if not isinstance(given, Sequence | np.ndarray):
            raise ParameterError("spectrum", given, f"numbers, a file of numbers, or {POWER_LAW}")
        return Spectrum(np.asarray(given))
    kind, *numbers = str(given).split(":")
    if kind == "power-law" and 1 <= len(numbers) <= 2:
        try:
            return power_law(float(numbers[0]), *map(int, numbers[1:]))
        except GlassformerError:
            raise
        except ValueError:
            raise ParameterError("spectrum", given, f"{POWER_LAW}, two numbers") from None
    return _from_file(given, user_path(given, folder))


def _from_file(given: str | Path, path: Path) -> Spectrum:
    if not path.is_file():
        raise ParameterError(
            "spectrum", str(given), f"numbers, a file of numbers, or {POWER_LAW}", f"there is no file {path.absolute()}"
        )
    try:
        values = (
            np.load(path, allow_pickle=False)
            if path.suffix == ".npy"
            else np.array(path.read_text().replace(",", " ").split(), dtype=float)
        )
    except (OSError, ValueError) as error:
        raise ParameterError("spectrum", str(given), f"a file of numbers ({error})") from error
    return Spectrum(values)
