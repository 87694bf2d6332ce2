"""Tables of results: columns over a sample ratio, with the parameters and the status of every row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from glassformer.core.errors import ConvergenceError
from glassformer.core.integral import Array
from glassformer.core.showing import ShownOfModel
from glassformer.core.solution import Status

if TYPE_CHECKING:
    import pandas
    import xarray


@dataclass(frozen=True, eq=False)
class Table(ShownOfModel):
    """Rows over ``alpha``: what :func:`limits`, :func:`landscape` and :func:`simulate` return.

    Two results are equal, and share a hash, where all that they hold is equal, NaN included.

    Attributes:
        model: short name of the model.
        parameters: what defines the computation, by name.
        columns: one array per quantity, all of the same length, of numbers, vectors or matrices; the first is
            ``alpha``.
        status: one :class:`Status` per row.
        notes: sentences a reader of the numbers should know.

    Example:
        >>> table = Table(
        ...     "bsr", {"beta": 1.0}, {"alpha": np.array([0.5]), "error": np.array([0.2])}, [Status.CONVERGED]
        ... )
        >>> table.to_dict()["points"]
        [{'alpha': 0.5, 'error': 0.2, 'status': 'converged'}]
        >>> table.to_pandas().shape
        (1, 3)
        >>> table.to_xarray()["error"].dims
        ('alpha',)
    """

    model: str
    parameters: dict[str, Any]
    columns: dict[str, Array]
    status: Sequence[Status]
    notes: Sequence[str] = field(default_factory=list)

    drawing = "plot_limits"

    @property
    def remarks(self) -> Sequence[str]:
        return self.notes

    @property
    def converged(self) -> bool:
        """True when every row converged."""
        return all(status.ok for status in self.status)

    def __getitem__(self, name: str) -> Array:
        return self.columns[name]

    def raise_unless_converged(self, accepted: Sequence[Status] = (Status.CONVERGED,)) -> Table:
        """Return ``self``, or raise :class:`ConvergenceError` with the first status that is not accepted."""
        for status in self.status:
            if status not in accepted:
                raise ConvergenceError(status, self)
        return self

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per row; numbers that are not finite become None, as JSON has no word for them."""
        listed = {name: _listed(column) for name, column in self.columns.items()}
        return [
            {**{name: column[i] for name, column in listed.items()}, "status": str(status)}
            for i, status in enumerate(self.status)
        ]

    def to_dict(self) -> dict[str, Any]:
        """The table as the command line writes it in JSON."""
        document = {"model": self.model, "parameters": plain(self.parameters), "points": self.rows()}
        return {**document, "notes": list(self.notes)} if self.notes else document

    def to_pandas(self) -> pandas.DataFrame:
        """A data frame with a ``status`` column and one column per entry of a matrix; parameters in ``attrs``."""
        import pandas

        columns = {name: part for column in self.columns.items() for name, part in scalars(*column).items()}
        frame = pandas.DataFrame({**columns, "status": [str(status) for status in self.status]})
        frame.attrs = {"model": self.model, **self.parameters}
        return frame

    def to_xarray(self) -> xarray.Dataset:
        """A data set with dimension ``alpha``, or ``point`` where a sample ratio occurs more than once."""
        import xarray

        unique = len(np.unique(self.columns["alpha"])) == len(self.columns["alpha"])
        dimension = "alpha" if unique else "point"
        variables: dict[str, Any] = {
            name: ((dimension, "row", "column")[: np.ndim(column)], column) for name, column in self.columns.items()
        }
        variables["status"] = (dimension, np.array([str(status) for status in self.status], dtype=object))
        return xarray.Dataset(variables, attrs={"model": self.model, **self.parameters}).set_coords("alpha")


@dataclass(frozen=True, eq=False)
class Branches(Table):
    """Fixed points followed up and down in the sample ratio."""

    drawing = "plot_branches"


@dataclass(frozen=True, eq=False)
class Steps(Table):
    """Errors after every step, one sample ratio after the other."""

    drawing = "plot_trajectory"


def scalars(name: str, column: Array) -> dict[str, Array]:
    """The entries of a column of vectors or matrices, each under its name with its indices from 1."""
    column = np.asarray(column)
    places = np.ndindex(column.shape[1:])
    return {"_".join([name, *(str(k + 1) for k in place)]): column[(slice(None), *place)] for place in places}


def _listed(column: Array) -> Any:
    """The column as lists in types that JSON knows."""
    values = np.asarray(column)
    ready = values.dtype.kind in "iub" or (values.dtype.kind == "f" and np.all(np.isfinite(values)))
    return values.tolist() if ready else plain(column)


def plain(value: Any) -> Any:
    """``value`` in types that JSON knows; numbers that are not finite become None."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(item) for item in value]
    if isinstance(value, Status):
        return str(value)
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value
