"""A computation on a grid of parameters: its axes, its points and their keys, and its file in TOML."""

from __future__ import annotations

import hashlib
import itertools
import math
import os
import tomllib
import uuid
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glassformer import __version__
from glassformer.core.errors import ParameterError, UnidentifiedError, in_file
from glassformer.core.files import user_path
from glassformer.core.hashing import identity, identity_or_none
from glassformer.core.parsing import parse_grid
from glassformer.core.resources import require_resources
from glassformer.learners.registry import learner, learner_type, parse_settings
from glassformer.models.base import require_one_unit
from glassformer.models.registry import MODELS, build, model_type, resolve_parameter

if TYPE_CHECKING:
    import xarray

    from glassformer.sweeps.run import Progress

COMPUTATIONS = ("limits", "thresholds", "simulate")
_SIMULATION = {"learner": "gamp", "d": 100, "instances": 1, "seed": 0, "storage": "float64"}
_UNITS = {"rho": "r/d", "beta": "L/d", "noise": "variance of the label noise", "d": "token dimension"}
# Version of the content of records and of the way they are computed.
FORMAT = 2
# Memory of a point with its record, in bytes (measured).
_POINT_BYTES = 4000
# Fields of a sweep and the tables of a file that hold them, names in the table [sweep], and the largest file in bytes,
# more than any grid that fits into memory.
_TABLES = {"parameters": "parameters", "grid": "grid", "simulation": "simulate", "settings": "settings"}
_GENERAL = ("model", "compute", "learner")
_LARGEST_FILE = 2**24


@dataclass(frozen=True)
class GridPoint:
    """One point of a sweep: its coordinates, and a key of everything that determines its value."""

    coordinates: dict[str, Any]
    key: str


@dataclass(frozen=True)
class Task:
    """Points that are computed in one call: they differ in ``alpha`` at most.

    The name is the key of the first point of the whole group, and stays when points are left out.
    """

    name: str
    compute: str
    model: str
    parameters: dict[str, Any]
    simulation: dict[str, Any]
    settings: dict[str, Any]
    learner: str
    points: tuple[GridPoint, ...]
    folder: str | None = None

    @property
    def alpha(self) -> list[float]:
        """Sample ratios of the points; empty where there is no such axis."""
        return [point.coordinates["alpha"] for point in self.points if "alpha" in point.coordinates]


@dataclass(frozen=True)
class Sweep:
    r"""One computation on a grid.

    Args:
        model: its name in the table of models.
        grid: values of everything that varies, by name, each a list, or a text ``"start:stop:count"``: ``alpha``,
            parameters of the model, for simulations also ``d``.
        compute: ``"limits"``, ``"thresholds"`` or ``"simulate"``.
        parameters: parameters of the model that do not vary.
        simulation: ``algorithm``, ``d``, ``instances``, ``seed`` and ``storage`` of simulations; instance ``k`` has the
            seed ``seed + k``, and ``seed`` is the last axis of the results.
        settings: settings of the algorithm, or of the learner; as on the command line, ``"best"`` is the best strength
            and ``"FILE.py:FUNCTION"`` a loss.
        learner: name of the learner whose limits or thresholds are computed.
        folder: folder of the files named in ``parameters`` and ``settings``.

    Raises:
        ParameterError: an unknown or missing name, or a value out of range.
        IncompatibleError: parameters that exclude each other, or sample ratios in different units (``rho = 0`` beside
            others).

    Example:
        >>> sweep = Sweep("bsr", {"rho": [0.2, 0.5], "alpha": "0.1:1:10"}, parameters={"beta": 1})
        >>> sweep.shape, len(list(sweep.tasks(sweep.points)))
        ((2, 10), 2)
    """

    model: str
    grid: Mapping[str, Sequence[Any] | str]
    compute: str = "limits"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    simulation: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    learner: str = "gamp"
    folder: str | None = None

    def __post_init__(self) -> None:
        # Imported here: pydantic is slow to import, and not needed without a sweep.
        from glassformer.sweeps.types import (
            SIMULATION,
            Ratio,
            check,
            is_integer_type,
            list_of,
            of_model,
            one_of,
        )

        check("model", self.model, one_of(MODELS))
        check("compute", self.compute, one_of(COMPUTATIONS))
        for name in ("parameters", "grid", "simulation", "settings"):
            check(name, getattr(self, name), Mapping[str, Any])
        self._check_simulation()
        self._check_settings()
        if (self.compute == "thresholds") == ("alpha" in self.grid):
            allowed = "no alpha" if self.compute == "thresholds" else "an axis alpha"
            raise ParameterError("grid", list(self.grid), f"{allowed}, to compute {self.compute}")
        axes = {name: _axis(name, values) for name, values in self.grid.items()}
        for name in axes:
            if name in self.parameters or name in self.simulation:
                raise ParameterError(name, axes[name], "either an axis of the grid or a fixed value, not both")
        # Names that are unknown here are refused by the model, which names its own.
        types = {**of_model(self.model), **SIMULATION, "alpha": Ratio}
        for name in {**self.parameters, **axes}.keys() - types.keys():
            if remedy := self._table_of(name):
                raise ParameterError(name, {**self.parameters, **axes}[name], "a parameter of the model", remedy)
        for name in types.keys() & self.parameters.keys():
            check(name, self.parameters[name], types[name])
        for name in types.keys() & axes.keys():
            if isinstance(self.grid[name], str) and is_integer_type(types[name]):
                axes[name] = [int(value) if value.is_integer() else value for value in axes[name]]
            check(name, axes[name], list_of(types[name]))
        if "alpha" in axes:
            axes["alpha"] = [float(value) for value in axes["alpha"]]
        sizes = {name: len(values) for name, values in axes.items()}
        if self.compute == "simulate":
            sizes["instances"] = self._simulation["instances"]
        largest = max(sizes, key=lambda name: sizes[name], default="grid")
        needed = _POINT_BYTES * math.prod(sizes.values())
        require_resources(largest, sizes.get(largest), needed, "split the grid into several sweeps", what="points")
        object.__setattr__(self, "grid", axes)
        # An error in the fixed parameters is reported now, and not at every point.
        self._first_model()
        widths = axes.get("rho", [])
        if 0 in widths and max(widths) > 0:
            ends = [0, max(widths)]
            require_one_unit("rho", ends, [self._first_model(rho=rho) for rho in ends])

    def _check_simulation(self) -> None:
        from glassformer.sweeps.types import SIMULATION, check

        if self.compute != "simulate":
            for name, value in {**self.simulation, **self.grid}.items():
                if name in self.simulation or name in _SIMULATION:
                    raise ParameterError(name, value, f"no value: it belongs to simulate, not to {self.compute}")
        for name, value in self.simulation.items():
            if name not in _SIMULATION:
                raise ParameterError(name, value, f"one of {', '.join(_SIMULATION)}", self._table_of(name))
            check(name, value, SIMULATION[name])
        for name in ("instances", "seed"):
            if name in self.grid:
                raise ParameterError(name, self.grid[name], "a fixed number: instances have consecutive seeds")
        check("learner", self.learner, SIMULATION["learner"])
        if self.compute == "simulate" and self.learner != "gamp":
            raise ParameterError(
                "learner", self.learner, "no value: simulations name their algorithm in the table [simulate]"
            )

    def _check_settings(self) -> None:
        from glassformer.sweeps.types import check

        allowed, values = self._setting_types(), self._parsed_settings()
        for name, value in self.settings.items():
            if name not in allowed:
                what = "the settings" if self.compute == "simulate" else f"the settings of the {self.compute}"
                known = ", ".join(allowed) or "there are none"
                raise ParameterError(name, value, f"one of {what} of {self._algorithm}: {known}", self._table_of(name))
            check(name, values[name], allowed[name])
        learner(self._algorithm, **values)

    def _setting_types(self) -> dict[str, Any]:
        """Return the types of the settings of the learner that change what is computed."""
        from glassformer.sweeps.types import of_settings

        kind = learner_type(self._algorithm)
        types = of_settings(kind)
        return types if self.compute == "simulate" else {name: types[name] for name in kind.info.limit_settings or ()}

    def _table_of(self, name: str) -> str:
        """Return the remedy for an entry in a wrong table; empty if no table has it."""
        from glassformer.sweeps.types import of_model

        tables = {"parameters": of_model(self.model), "simulate": _SIMULATION, "settings": self._setting_types()}
        found = next((table for table, names in tables.items() if name in names), None)
        others = ", or of [grid] if it varies" if found == "parameters" else ""
        return f"{name} is an entry of the table [{found}]{others}" if found else ""

    @classmethod
    def from_toml(cls, path: str | Path, links: Sequence[str | Path] = ()) -> Sweep:
        """Read a sweep from a file.

        Its tables are ``[sweep]`` (model, compute, learner), ``[parameters]``, ``[grid]``, ``[simulate]`` and
        ``[settings]``.

        Args:
            path: the file.
            links: Python files that it may name, as ``FILE.py:FUNCTION`` relative to itself. Only the code of these
                files is run.

        Raises:
            ParameterError: the file cannot be read, does not describe a sweep, or names a file that is not in
                ``links``.
            IncompatibleError: parameters that exclude each other.
        """
        file = user_path(path)
        document = _read_toml(file)
        with in_file(path):
            return cls(**_arguments_of(document, file.parent, links))

    def run(self, store: str | Path, workers: int = 1, scheduler: str | None = None, retry: bool = False) -> Progress:
        """Compute the points that have no record yet; see :func:`~glassformer.sweeps.run.run_sweep`."""
        from glassformer.sweeps.run import run_sweep

        return run_sweep(self, store, workers, scheduler, retry)

    @staticmethod
    def collect(store: str | Path) -> xarray.Dataset:
        """Return the records of a store as one data set; see :func:`~glassformer.sweeps.collect.collect`."""
        from glassformer.sweeps.collect import collect

        return collect(store)

    @property
    def _folder(self) -> Path | None:
        return Path(self.folder) if self.folder else None

    @property
    def _simulation(self) -> dict[str, Any]:
        return {**_SIMULATION, **self.simulation} if self.compute == "simulate" else {}

    @property
    def _algorithm(self) -> str:
        return str(self._simulation.get("learner", self.learner))

    def _parsed_settings(self) -> dict[str, Any]:
        return parse_settings(self._algorithm, self.settings, self._folder)

    def _first_model(self, **other: Any) -> Any:
        """Return the model at the first point, with other parameters if given."""
        first = {n: values[0] for n, values in self.axes.items() if n not in ("alpha", *_SIMULATION)}
        return build(self.model, {**self.parameters, **first, **other}, self._folder)

    @property
    def axes(self) -> dict[str, list[Any]]:
        """Values along each axis of the results, the axis of seeds included."""
        axes = {name: list(values) for name, values in self.grid.items()}
        if self.compute == "simulate":
            first, count = (self._simulation[name] for name in ("seed", "instances"))
            axes["seed"] = [first + k for k in range(count)]
        return axes

    @property
    def shape(self) -> tuple[int, ...]:
        """Points along each axis."""
        return tuple(len(values) for values in self.axes.values())

    @property
    def points(self) -> list[GridPoint]:
        """All points, the last axis running fastest."""
        axes = self.axes
        varied = [[(name, value, self._content(name, value)) for value in values] for name, values in axes.items()]
        simulation = {name: value for name, value in self._simulation.items() if name not in ("instances", *axes)}
        # Keys do not contain the default learner, so that records made before there were others stay valid.
        whose = {} if self.learner == _SIMULATION["learner"] else {"learner": self.learner}
        fixed = {name: self._content(name, value) for name, value in {**self.parameters, **simulation, **whose}.items()}
        settings = self._parsed_settings()
        common = _identity_or_unique("these settings", FORMAT, __version__, self.compute, self.model, settings)
        points = []
        for place in itertools.product(*varied):
            # A fixed parameter and an axis of one value give the same key.
            contents = {**fixed, **{name: content for name, _, content in place}}
            text = common + "".join(f";{name}={contents[name]}" for name in sorted(contents))
            key = hashlib.sha256(text.encode()).hexdigest()[:24]
            points.append(GridPoint({name: value for name, value, _ in place}, key))
        return points

    def _content(self, name: str, value: Any) -> str:
        """Return the identity of a value, for keys; for a value without identity, a unique text."""
        return _identity_or_unique(f"this {name}", resolve_parameter(name, value, self._folder))

    def tasks(self, points: Sequence[GridPoint]) -> Iterator[Task]:
        """Yield points in groups that are computed together: batches over ``alpha``, or single simulations."""
        batch = 1 if self.compute == "simulate" else model_type(self.model).ratios_per_call
        groups: dict[tuple[Any, ...], list[GridPoint]] = {}
        for point in points:
            # Points along alpha share the objects of the other axes. Different functions may look equal in words.
            others = tuple((name, id(value)) for name, value in point.coordinates.items() if name != "alpha")
            groups.setdefault(others, []).append(point)
        for group in groups.values():
            for begin in range(0, len(group), batch):
                together = tuple(group[begin : begin + batch])
                own = {name: value for name, value in together[0].coordinates.items() if name != "alpha"}
                simulation = {name: own.pop(name, value) for name, value in self._simulation.items()}
                yield Task(
                    name=together[0].key,
                    compute=self.compute,
                    model=self.model,
                    parameters={**self.parameters, **own},
                    simulation=simulation,
                    settings=dict(self.settings),
                    learner=self.learner,
                    points=together,
                    folder=self.folder,
                )

    def to_dict(self) -> dict[str, Any]:
        """Return the sweep in types of JSON; functions by their names."""
        units = {**_UNITS, "alpha": str(self._first_model().parameters.get("alpha", ""))}
        return {
            "model": self.model,
            "compute": self.compute,
            "learner": self.learner,
            "parameters": json_values(self.parameters),
            "axes": {name: axis_labels(values) for name, values in self.axes.items()},
            "units": {name: units[name] for name in self.axes if units.get(name)},
            "simulation": json_values(self._simulation),
            "settings": json_values(self.settings),
        }


# --- values along axes ------------------------------------------------------------------------------------------------


def _axis(name: str, values: Any) -> list[Any]:
    """Return the values of an axis, given as a list of different values or ``"start:stop:count"``."""
    found: list[Any]
    if isinstance(values, str) and ":" in values:
        found = list(parse_grid(name, values))
    elif isinstance(values, list | tuple | np.ndarray):
        found = [value.item() if isinstance(value, np.generic) else value for value in values]
    else:
        raise ParameterError(name, values, "a list of values, or start:stop:count")
    if not found or len({identity_or_none(value) or id(value) for value in found}) < len(found):
        raise ParameterError(name, values, "at least one value, all of them different")
    return found


def _identity_or_unique(what: str, *parts: Any) -> str:
    """Return the identity of the parts, or a unique text with a warning if they have none."""
    try:
        return identity(*parts)
    except UnidentifiedError as error:
        text = f"points of {what} are valid for this run only: its content cannot be identified ({error})"
        warnings.warn(text, RuntimeWarning, stacklevel=2)
        return uuid.uuid4().hex


def json_values(named: Mapping[str, Any]) -> dict[str, Any]:
    """Return values in types of JSON; functions by their names."""
    return {name: _json_value(value) for name, value in named.items()}


def _json_value(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_json_value(part) for part in value]
    return getattr(value, "__name__", None) or str(value).split(" at 0x")[0]


def axis_labels(values: Sequence[Any]) -> list[Any]:
    """Return the values of an axis in types of JSON; equal names are followed by a part of the identity of the value.

    Example:
        >>> [len(label) for label in axis_labels([lambda z: z, lambda z: 2 * z])], axis_labels([0.5, abs])
        ([15, 15], [0.5, 'abs'])
    """
    plain = [_json_value(value) for value in values]
    return [
        f"{label} {(identity_or_none(value) or str(turn))[:6]}" if plain.count(label) > 1 else label
        for turn, (label, value) in enumerate(zip(plain, values, strict=True))
    ]


# --- files in TOML ----------------------------------------------------------------------------------------------------


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            # At most this number of bytes is read, since a pipe or a device may have no end.
            content = file.read(_LARGEST_FILE + 1)
        if len(content) > _LARGEST_FILE:
            raise ValueError(f"it has more than {_LARGEST_FILE} bytes")
        return tomllib.loads(content.decode("utf-8-sig"))
    except RecursionError:
        raise ParameterError("sweep", path.name, "a file in TOML (it is nested too deeply)") from None
    except (OSError, ValueError) as error:
        raise ParameterError("sweep", path.name, f"a file in TOML ({error})") from None


def _arguments_of(document: dict[str, Any], folder: Path, links: Sequence[str | Path]) -> dict[str, Any]:
    """Return the arguments of :class:`Sweep` from a document, which names files relative to its folder."""
    from glassformer.sweeps.types import check

    for name in document:
        if name not in ("sweep", *_TABLES.values()):
            raise ParameterError(name, document[name], "the tables sweep, parameters, grid, simulate and settings")
        check(name, document[name], dict[str, Any])
    general = document.get("sweep", {})
    for name in ("model", "compute"):
        if name not in general:
            raise ParameterError(name, None, "a value in the table [sweep]")
    for name, value in general.items():
        if name not in _GENERAL:
            raise ParameterError(name, value, "model, compute and learner in the table [sweep]")
    tables = {key: document.get(name, {}) for key, name in _TABLES.items()}
    # The code of a named file is run. Only files that the user of the sweep names too are allowed.
    trusted, named = {os.path.realpath(user_path(link)) for link in links}, set()
    entries = [entry for table in ("parameters", "grid", "settings") for entry in tables[table].items()]
    for name, text in (text for entry in entries for text in _texts(*entry)):
        file = user_path(text.rpartition(":")[0], folder)
        if file.is_file() and os.path.realpath(file) not in trusted:
            raise ParameterError(
                name, text, "a file that you also name yourself, since its code is run", f"add --link {file}"
            )
        named.add(os.path.realpath(file))
    for link in links:
        if os.path.realpath(user_path(link)) not in named:
            raise ParameterError("link", str(link), "a file that the sweep names", "leave it out")
    return {**general, **tables, "folder": os.path.realpath(folder)}


def _texts(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield all texts in a value, texts in lists included, with the name of the entry."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(name, item)
