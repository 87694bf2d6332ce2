"""Tables of results over the sample ratio, with parameters, statuses and notes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from glassformer.core.display import ModelDisplayMixin, displayed_parameters, first_columns
from glassformer.core.errors import ConvergenceError, IncompatibleError, ParameterError
from glassformer.core.estimate import Array
from glassformer.core.status import Status

if TYPE_CHECKING:
    import pandas
    import xarray
    from matplotlib.axes import Axes


# An error estimate above this share of the error is called wide. Errors below the second number are not checked.
_WIDE, _VANISHING = 0.2, 1e-3


@dataclass(frozen=True, eq=False)
class Table(ModelDisplayMixin):
    """Rows over ``alpha``: what :func:`limits`, :func:`landscape` and :func:`simulate` return.

    Two results are equal and have the same hash if all their content is equal, NaN included.

    Attributes:
        model: short name of the model.
        parameters: the parameters of the computation, by name.
        columns: one array per quantity, all of the same length, of numbers, vectors or matrices; the first is
            ``alpha``.
        status: one :class:`Status` per row; ``table["status"]`` has their names.
        notes: notes on the numbers, such as missing values and their remedy.

    Example:
        >>> table = Table(
        ...     "bsr", {"beta": 1.0}, {"alpha": np.array([0.5]), "error": np.array([0.2])}, [Status.CONVERGED]
        ... )
        >>> table.to_dict()["points"]
        [{'alpha': 0.5, 'error': 0.2, 'status': 'converged'}]
        >>> table.to_pandas().shape
        (1, 3)
        >>> list(table), "overlap" in table
        (['alpha', 'error', 'status'], False)
        >>> table["status"]
        array(['converged'], dtype=object)
        >>> table.to_xarray()["error"].dims
        ('alpha',)
    """

    model: str
    parameters: dict[str, Any]
    columns: dict[str, Array]
    status: Sequence[Status]
    notes: Sequence[str] = field(default_factory=list)

    drawing = "plot_limits"

    def plot(
        self,
        path: str | Path | None = None,
        size: tuple[float, float] | None = None,
        theme: str = "light",
        *,
        ax: Axes | None = None,
        runs: Table | None = None,
    ) -> Any:
        """Draw the table as :meth:`~glassformer.core.display.DisplayMixin.plot` does, with simulations as points.

        Args:
            path: the file to which the figure is saved. Its ending determines the format.
            size: width and height in inches.
            theme: ``"light"`` or ``"dark"``.
            ax: axes of Matplotlib to draw in. By default a new figure is made. Results on the same axes have
                their own colours, and are named by what they differ in.
            runs: the result of :func:`~glassformer.simulate` of the same model. It is drawn as points with standard
                errors next to the line of limits; next to a spectrum, with ``keep=("singular_values",)``, as a
                histogram.

        Raises:
            IncompatibleError: the runs belong to another model or have no singular values, or this table was not
                returned by ``limits`` or ``spectrum``.
        """
        if runs is None:
            return self._draw(path, size, theme, ax)
        self._require_runs(runs)
        return self._draw(path, size, theme, ax, runs=runs)

    def _require_runs(self, runs: Table) -> None:
        """Raise unless the runs are simulations of the model of this table, and this table is one of limits."""
        if self.drawing != "plot_limits" or not hasattr(runs, "instances"):
            raise IncompatibleError(
                "runs are drawn as points next to a line of limits: use limits(...).plot(runs=simulate(...))"
            )
        common = [name for name in displayed_parameters(self.parameters) if name in runs.parameters]
        differ = [name for name in common if _text(self.parameters[name]) != _text(runs.parameters[name])]
        if self.model != runs.model or differ:
            values = (f"{name} = {self.parameters[name]} and {runs.parameters[name]}" for name in differ)
            what = ", ".join(values) or f"{self.model} and {runs.model}"
            raise IncompatibleError(f"limits and runs are of different models ({what}): simulate the same model")

    @property
    def display_columns(self) -> Sequence[str]:
        """The sample ratio, the error, its uncertainty, the theory, and the status."""
        names = [name for name in _DISPLAYED_FIRST if name in self.columns and np.ndim(self.columns[name]) == 1]
        others = [name for name, column in self.columns.items() if np.ndim(column) == 1 and name not in names]
        return first_columns([*names, *others, "status"])

    def known_columns(self, names: Iterable[str]) -> list[str]:
        """Return those of the names that are columns, without errors of a single row, which are those of the signal.

        Example:
            >>> table = Table("smi", {}, {"error": [0.5], "row_error": [[0.5]], "label_error": [0.2]}, [])
            >>> table.known_columns(["row_error", "label_error", "cosine"])
            ['label_error']
        """
        there = [name for name in names if name in self.columns]
        return [name for name in there if not (name.startswith("row_") and np.size(self.columns[name][0]) == 1)]

    @property
    def remarks(self) -> Sequence[str]:
        return self.notes

    @property
    def main(self) -> str:
        """Column that is drawn: the error of the signal, or of the predictions where no signal is estimated."""
        return "error" if "error" in self.columns else "test_error"

    @property
    def converged(self) -> bool:
        """True when every row converged."""
        return all(status.ok for status in self.status)

    def __getitem__(self, name: str) -> Array:
        if name not in self:
            raise KeyError(f"no column {name!r}: there are {', '.join(self)}")
        if name == "status":
            return np.array([str(status) for status in self.status], dtype=object)
        return self.columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter([*self.columns, "status"])

    def __contains__(self, name: object) -> bool:
        return name in list(self)

    def raise_unless_converged(self, accepted: Sequence[Status] = (Status.CONVERGED,)) -> Table:
        """Return ``self``, or raise :class:`ConvergenceError` with the first status that is not accepted."""
        for status in self.status:
            if status not in accepted:
                raise ConvergenceError(status, self)
        return self

    def rows(self) -> list[dict[str, Any]]:
        """Return one dictionary per row. Non-finite numbers become None, since JSON does not have them."""
        listed = {name: _listed(column) for name, column in self.columns.items()}
        return [
            {**{name: column[i] for name, column in listed.items()}, "status": str(status)}
            for i, status in enumerate(self.status)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the table as the command line writes it in JSON."""
        document = {"model": self.model, "parameters": to_json_types(self.parameters), "points": self.rows()}
        return {**document, "notes": list(self.notes)} if self.notes else document

    def to_pandas(self) -> pandas.DataFrame:
        """Return a data frame with one column per entry of a matrix and ``status``; parameters in ``attrs``."""
        import pandas

        columns = {name: part for column in self.columns.items() for name, part in scalar_columns(*column).items()}
        frame = pandas.DataFrame({**columns, "status": self["status"]})
        frame.attrs = {"model": self.model, **self.parameters}
        return frame

    def to_xarray(self) -> xarray.Dataset:
        """Return an xarray data set with dimension ``alpha``, or ``point`` if a sample ratio is repeated."""
        import xarray

        unique = len(np.unique(self.columns["alpha"])) == len(self.columns["alpha"])
        dimension = "alpha" if unique else "point"
        variables: dict[str, Any] = {
            name: ((dimension, "row", "column")[: np.ndim(column)], column) for name, column in self.columns.items()
        }
        variables["status"] = (dimension, self["status"])
        return xarray.Dataset(variables, attrs={"model": self.model, **self.parameters}).set_coords("alpha")


# Columns that are displayed first, if the table has them.
_DISPLAYED_FIRST = (
    "alpha",
    "iteration",
    "error",
    "test_error",
    "new_task_error",
    "label_error",
    "error_up",
    "error_down",
    "two_branches",
    "standard_error",
    "theory",
    "measured_error",
    "measured_standard_error",
    "overlap",
    "free_entropy",
    "error_estimate",
)


def _text(value: object) -> str:
    """Return the value of a parameter as text."""
    return str(to_json_types(value))


@dataclass(frozen=True, eq=False)
class Branches(Table):
    """Fixed points continued upwards and downwards in the sample ratio."""

    drawing = "plot_branches"


@dataclass(frozen=True, eq=False)
class Steps(Table):
    """Errors after each step of an iteration, for one sample ratio after the other."""

    drawing = "plot_trajectory"


class _Named(Protocol):
    """Interface of an entry of a result: a sample ratio with a name."""

    @property
    def name(self) -> str:
        """The name of the entry."""

    @property
    def alpha(self) -> float:
        """The sample ratio. Infinite if it is never reached, NaN if it is undefined."""

    def to_dict(self) -> dict[str, Any]:
        """Return the entry in types of JSON."""


E = TypeVar("E", bound=_Named)


class NamedEntries(ModelDisplayMixin, Mapping[str, E]):
    """A result that maps names to its entries, in their order.

    Attributes:
        entries: the entries.

    Raises:
        ParameterError: there is no entry of this name.
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

    def get(self, name: str, default: object = None) -> Any:
        """Return the entry of this name, or a default if there is none."""
        return next((entry for entry in self.entries if entry.name == name), default)

    def display_frame(self) -> pandas.DataFrame:
        """Return the displayed data frame. alpha is infinite if it is never reached, and NaN if it is undefined."""
        return self.to_pandas().assign(alpha=[entry.alpha for entry in self.entries])

    def to_pandas(self) -> pandas.DataFrame:
        """Return a data frame with one row per entry."""
        import pandas

        return pandas.DataFrame([entry.to_dict() for entry in self.entries])

    def to_xarray(self) -> xarray.Dataset:
        """Return an xarray data set with dimension ``name``."""
        return self.to_pandas().set_index("name").to_xarray()


def wide_error_bars(alpha: Array, error: Array, estimate: Array, parameters: Mapping[str, Any]) -> list[str]:
    """Return a note on the largest relative error estimate, if it exceeds a fifth.

    Errors below 0.001 are not checked.

    Example:
        >>> (note,) = wide_error_bars(np.array([0.5]), np.array([0.143]), np.array([0.125]), {"points": 64})
        >>> note
        'wide error bar: the error estimate 0.125 at alpha = 0.5 is 87 % of the error 0.143. Raise points = 64'
    """
    error, estimate = np.abs(np.asarray(error)), np.asarray(estimate)
    wide = np.isfinite(error) & np.isfinite(estimate) & (estimate > np.maximum(_WIDE * error, _VANISHING))
    if not wide.any():
        return []
    share = np.where(wide, estimate / np.maximum(error, _VANISHING), 0.0)
    k, others = int(np.argmax(share)), int(np.sum(wide)) - 1
    remedy = "Move alpha away from a threshold"
    if "points" in parameters:
        remedy = f"Raise points = {parameters['points']}"
    more = f"; {others} more value{'s have' if others > 1 else ' has'} a wide bar" if others else ""
    return [
        f"wide error bar: the error estimate {estimate[k]:.3g} at alpha = {alpha[k]:.4g} is {100 * share[k]:.0f} % of "
        f"the error {error[k]:.3g}. {remedy}{more}"
    ]


def error_column(name: str, kind: str = "error_estimate") -> str:
    """Return the name of the column with the error estimate, or the standard error, of another one.

    Example:
        >>> error_column("error"), error_column("label_error"), error_column("cosine", "standard_error")
        ('error_estimate', 'label_error_estimate', 'cosine_standard_error')
    """
    return f"{name.removesuffix('error').rstrip('_')}_{kind}".lstrip("_")


def scalar_columns(name: str, column: Array) -> dict[str, Array]:
    """Return the entries of a column of vectors or matrices by name, with indices from 1."""
    column = np.asarray(column)
    places = np.ndindex(column.shape[1:])
    return {"_".join([name, *(str(k + 1) for k in place)]): column[(slice(None), *place)] for place in places}


def _listed(column: Array) -> Any:
    """Return the column as lists in types of JSON. Columns of finite numbers are converted at once."""
    values = np.asarray(column)
    ready = values.dtype.kind in "iub" or (values.dtype.kind == "f" and np.all(np.isfinite(values)))
    return values.tolist() if ready else to_json_types(column)


def to_json_types(value: object) -> Any:
    """Return ``value`` in types of JSON. Non-finite numbers become None."""
    if isinstance(value, dict):
        return {key: to_json_types(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [to_json_types(item) for item in value]
    if isinstance(value, Status):
        return str(value)
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value


def name_or_value(value: object) -> Any:
    """Return the name of a function, a loss or a penalty, which JSON cannot represent, and any other value unchanged.

    Example:
        >>> name_or_value(abs), name_or_value("square"), name_or_value(0.5)
        ('abs', 'square', 0.5)
    """
    if not (callable(value) or is_dataclass(value)):
        return value
    return getattr(value, "name", None) or getattr(value, "__name__", None) or type(value).__name__
