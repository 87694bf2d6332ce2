"""The grid of a sweep: its axes, its points with their keys, and its tasks."""

from __future__ import annotations

import hashlib
import itertools
import math
import uuid
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from glassformer import __version__
from glassformer.core.accuracy import Accuracy, refuse_unused
from glassformer.core.errors import IncompatibleError, ParameterError, RenamedError, UnidentifiedError
from glassformer.core.frozen import set_fields
from glassformer.core.hashing import identity, identity_or_none
from glassformer.core.parsing import parse_grid
from glassformer.core.renamed import WithRenamedArguments, renamed
from glassformer.core.resources import require_resources
from glassformer.learners.base import Learner, accuracy_used
from glassformer.models.base import Model, require_one_unit
from glassformer.models.registry import MODELS, build, model_type, resolve_parameter
from glassformer.sweeps.learner_entry import LearnerEntry

VERBS = ("limits", "thresholds", "plan", "trajectory", "simulate", "compare")
# Verbs that find sample ratios, and have no axis of them.
_WITHOUT_ALPHA = ("thresholds", "plan")
# Entries of the runs of each verb that has some, with their usual values. Without a usual d, runs are optional.
_RUNS: dict[str, dict[str, Any]] = {
    "simulate": {"d": 100, "instances": 1, "seed": 0, "storage": None},
    "trajectory": {"d": None, "instances": 4, "seed": 0, "storage": None},
    "compare": {"d": None, "instances": 4, "seed": 0},
    "plan": {"d": None},
}
# Further arguments of verbs.
_OPTIONS: dict[str, tuple[str, ...]] = {
    "plan": ("target", "quantity"),
    "trajectory": ("steps", "start"),
    "compare": ("quantity",),
}
OPTION_NAMES = tuple(dict.fromkeys(name for names in _OPTIONS.values() for name in names))
_UNITS = {"rho": "r/d", "beta": "L/d", "noise": "variance of the label noise", "d": "token dimension"}
# Version of the content of records and of the way they are computed.
FORMAT = 3
# Memory of a point with its record, in bytes (measured).
_POINT_BYTES = 4000


@dataclass(frozen=True)
class GridPoint:
    """One point of a grid: its coordinates, and a key of everything that determines its value."""

    coordinates: dict[str, Any]
    key: str


@dataclass(frozen=True)
class Task:
    """Points that are computed in one call: they differ in ``alpha`` at most.

    The name is the key of the first point of the whole group, and stays when points are left out.
    """

    name: str
    verb: str
    model: str
    parameters: dict[str, Any]
    learner: LearnerEntry
    runs: dict[str, Any]
    accuracy: dict[str, Any]
    options: dict[str, Any]
    points: tuple[GridPoint, ...]
    folder: str | None = None

    @property
    def alpha(self) -> list[float]:
        """Sample ratios of the points; empty where there is no such axis."""
        return [point.coordinates["alpha"] for point in self.points if "alpha" in point.coordinates]


@dataclass(frozen=True)
class Grid(WithRenamedArguments):
    """One verb on a grid of parameters; see :class:`~glassformer.Sweep`, which also runs it."""

    model: str
    grid: Mapping[str, Sequence[Any] | str]
    verb: str = "limits"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    learner: Any = "gamp"
    runs: Mapping[str, Any] = field(default_factory=dict)
    accuracy: Mapping[str, Any] | Accuracy = field(default_factory=dict)
    target: float | None = None
    quantity: str | None = None
    steps: int | None = None
    start: str | None = None
    folder: str | None = None

    def __post_init__(self) -> None:
        # Imported here: pydantic is slow to import, and not needed without a sweep.
        from glassformer.sweeps.types import check, one_of

        check("model", self.model, one_of(MODELS))
        check("verb", self.verb, one_of(VERBS))
        for name in ("parameters", "grid", "runs"):
            check(name, getattr(self, name), Mapping[str, Any])
        self._check_options()
        self._check_runs()
        learners = self._checked_learners()
        self._check_accuracy()
        axes = self._checked_axes()
        self._check_size(axes)
        set_fields(self, grid=axes)
        # An error in the fixed parameters is reported now, and not at every point.
        model = self._first_model()
        self._check_effect(model, learners)
        widths = axes.get("rho", [])
        if 0 in widths and max(widths) > 0:
            ends = [0, max(widths)]
            require_one_unit("rho", ends, [self._first_model(rho=rho) for rho in ends])

    # --- checks -------------------------------------------------------------------------------------------------------

    def _check_options(self) -> None:
        from glassformer.sweeps.types import OPTIONS, check

        allowed = _OPTIONS.get(self.verb, ())
        for name in OPTION_NAMES:
            value = getattr(self, name)
            if value is None:
                continue
            if name not in allowed:
                owners = " and ".join(verb for verb, names in _OPTIONS.items() if name in names)
                raise ParameterError(name, value, f"no value: it belongs to {owners}, not to {self.verb}")
            check(name, value, OPTIONS[name])
        if "target" in allowed and self.target is None:
            raise ParameterError("target", None, f"a value: {self.verb} needs one")

    def _check_runs(self) -> None:
        from glassformer.sweeps.types import RUNS, check

        allowed = _RUNS.get(self.verb, {})
        for name, value in {**self.runs, **self.grid}.items():
            if name in RUNS and name not in allowed:
                owners = ", ".join(verb for verb, names in _RUNS.items() if name in names)
                raise ParameterError(name, value, f"no value: it belongs to {owners}, not to {self.verb}")
        for name, value in self.runs.items():
            if name not in RUNS:
                if sentence := renamed(name, "runs"):
                    raise RenamedError(sentence)
                text = f"one of {', '.join(allowed)}" if allowed else f"no value: {self.verb} has no runs"
                raise ParameterError(name, value, text, self._table_of(name))
            check(name, value, RUNS[name])
            if "d" not in {**self.runs, **self.grid} and allowed["d"] is None:
                raise ParameterError(name, value, "no value without the token dimension d of the runs")
        for name in ("instances", "seed"):
            if name in self.grid:
                raise ParameterError(name, self.grid[name], "a fixed number: instances have consecutive seeds")

    def _checked_learners(self) -> list[Learner]:
        from glassformer.sweeps.types import check

        several = isinstance(self.learner, list | tuple)
        if several != (self.verb == "compare") or (several and not self.learner):
            allowed = "a list of learners, in a file tables [[learner]]" if self.verb == "compare" else "one learner"
            raise ParameterError("learner", self.learner, f"{allowed}, for verb {self.verb}")
        found = []
        for entry in self._entries:
            types, values = self._setting_types(entry), entry.values(self._folder)
            for name, value in entry.settings.items():
                if entry.given is None:
                    if name not in types:
                        known = ", ".join(types) or "there are none"
                        text = f"one of the settings of {entry.name} for {self.verb}: {known}"
                        raise ParameterError(name, value, text, self._table_of(name))
                    check(name, values[name], types[name])
            found.append(entry.resolve(self._folder, self._dimension))
        contents = [identity_or_none(one) or id(one) for one in found]
        if len(set(contents)) < len(contents):
            raise ParameterError("learner", [str(entry) for entry in self._entries], "learners that differ")
        return found

    def _check_accuracy(self) -> None:
        from glassformer.sweeps.types import check, of_settings

        if not isinstance(self.accuracy, Accuracy):
            check("accuracy", self.accuracy, Mapping[str, Any])
        types = of_settings(Accuracy)
        for name, value in self._given_accuracy.items():
            if name not in types:
                raise ParameterError(name, value, f"one of {', '.join(types)}", self._table_of(name))
            check(name, value, types[name])
        Accuracy(**self._given_accuracy)

    def _checked_axes(self) -> dict[str, list[Any]]:
        """Return the values along each axis of the grid."""
        from glassformer.sweeps.types import RUNS, Ratio, check, is_integer_type, list_of, of_model

        without = self.verb in _WITHOUT_ALPHA
        if without == ("alpha" in self.grid):
            raise ParameterError("grid", list(self.grid), f"{'no' if without else 'an'} axis alpha, for {self.verb}")
        axes = {name: _axis(name, values) for name, values in self.grid.items()}
        for name in axes:
            if name in self.parameters or name in self.runs:
                raise ParameterError(name, axes[name], "either an axis of the grid or a fixed value, not both")
        # Names that are unknown here are refused by the model, which names its own.
        types = {**of_model(self.model), **RUNS, "alpha": Ratio}
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
        return axes

    def _check_size(self, axes: Mapping[str, Sequence[Any]]) -> None:
        sizes = {name: len(values) for name, values in axes.items()}
        if self.verb == "simulate":
            sizes["instances"] = self._runs["instances"]
        largest = max(sizes, key=lambda name: sizes[name], default="grid")
        needed = _POINT_BYTES * math.prod(sizes.values()) * len(self._entries)
        require_resources(largest, sizes.get(largest), needed, "split the grid into several sweeps", what="points")

    def _check_effect(self, model: Model, learners: Sequence[Learner]) -> None:
        """Raise for an accuracy without effect, and for training of one's own without runs."""
        used = {*model.accuracy_defaults}
        for learner in learners:
            used |= {*accuracy_used(learner, self.verb)}
            if learner.info.family == "own" and not (self.verb in ("simulate", "compare") and self._has_runs):
                text = "use verb simulate, or compare with the token dimension d of runs"
                raise IncompatibleError(f"training of one's own ({learner.name}) is measured only: {text}")
        names = ", ".join(learner.name for learner in learners)
        refuse_unused(Accuracy(**self._given_accuracy), used, f"{self.verb} of {names} on {model.name}")

    def _setting_types(self, entry: LearnerEntry) -> dict[str, Any]:
        """Return the types of the settings of a learner that change what is computed."""
        if entry.is_own or self.verb in ("simulate", "compare") or (self.verb == "trajectory" and self._has_runs):
            return entry.types()
        return entry.types(entry.theory_settings(steps=self.verb == "trajectory"))

    def _table_of(self, name: str) -> str:
        """Return the remedy for an entry in a wrong table; empty if no table has it."""
        from glassformer.sweeps.types import RUNS, of_model, of_settings

        tables = {
            "parameters": of_model(self.model),
            "runs": RUNS,
            "learner": {name: None for entry in self._entries for name in self._setting_types(entry)},
            "accuracy": of_settings(Accuracy),
            "sweep": dict.fromkeys(OPTION_NAMES),
        }
        found = next((table for table, names in tables.items() if name in names), None)
        others = ", or of [grid] if it varies" if found == "parameters" else ""
        return f"{name} is an entry of the table [{found}]{others}" if found else ""

    # --- parts --------------------------------------------------------------------------------------------------------

    @property
    def _folder(self) -> Path | None:
        return Path(self.folder) if self.folder else None

    @property
    def _entries(self) -> list[LearnerEntry]:
        """The learner, or the learners of verb compare."""
        given = self.learner if self.verb == "compare" else [self.learner]
        return [LearnerEntry.of(one) for one in given]

    @property
    def _given_accuracy(self) -> dict[str, Any]:
        return self.accuracy.given if isinstance(self.accuracy, Accuracy) else dict(self.accuracy)

    @property
    def _has_runs(self) -> bool:
        usual = _RUNS.get(self.verb, {})
        return bool(usual) and (usual["d"] is not None or "d" in self.runs or "d" in self.grid)

    @property
    def _runs(self) -> dict[str, Any]:
        """All values of the runs except for those on the grid; empty without runs."""
        values = {**_RUNS[self.verb], **self.runs} if self._has_runs else {}
        return {name: value for name, value in values.items() if value is not None and name not in self.grid}

    @property
    def _options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in OPTION_NAMES if getattr(self, name) is not None}

    def _first_model(self, **other: object) -> Any:
        """Return the model at the first point, with other parameters if given."""
        first = {n: values[0] for n, values in self.grid.items() if n not in ("alpha", *_RUNS["simulate"])}
        return build(self.model, {**self.parameters, **first, **other}, self._folder)

    @property
    def axes(self) -> dict[str, list[Any]]:
        """Values along each axis of the results, the axis of seeds or learners included."""
        axes = {name: list(values) for name, values in self.grid.items()}
        if self.verb == "simulate":
            axes["seed"] = [self._runs["seed"] + k for k in range(self._runs["instances"])]
        if self.verb == "compare":
            axes["learner"] = self._entries
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
        runs = {name: value for name, value in self._runs.items() if name not in axes}
        if self.verb == "simulate":
            # The seed of each instance is a coordinate.
            runs.pop("instances")
        learner = {} if "learner" in axes else {"learner": self._entries[0]}
        fixed = {name: self._content(name, value) for name, value in {**self.parameters, **runs, **learner}.items()}
        common = identity(FORMAT, __version__, self.verb, self.model, self._given_accuracy, self._options)
        points = []
        for place in itertools.product(*varied):
            # A fixed parameter and an axis of one value give the same key.
            contents = {**fixed, **{name: content for name, _, content in place}}
            text = common + "".join(f";{name}={contents[name]}" for name in sorted(contents))
            key = hashlib.sha256(text.encode()).hexdigest()[:24]
            points.append(GridPoint({name: value for name, value, _ in place}, key))
        return points

    @property
    def _dimension(self) -> int | None:
        """The first token dimension of runs, for learners that refer to one; keys have the dimension of every point."""
        found = self.grid["d"][0] if "d" in self.grid else self.runs.get("d")
        return None if found is None else int(found)

    def _content(self, name: str, value: object) -> str:
        """Return the identity of a value, for keys; for a value without identity, a unique text."""
        if isinstance(value, LearnerEntry):
            return _identity_or_unique(f"this {name}", value.resolve(self._folder, self._dimension))
        return _identity_or_unique(f"this {name}", resolve_parameter(name, value, self._folder))

    def tasks(self, points: Sequence[GridPoint]) -> Iterator[Task]:
        """Yield points in groups that are computed together: batches over ``alpha``, or single ratios of runs."""
        batch = 1 if self._has_runs else model_type(self.model).ratios_per_call
        groups: dict[tuple[Any, ...], list[GridPoint]] = {}
        for point in points:
            # Points along alpha share the objects of the other axes. Different functions may look equal in words.
            others = tuple((name, id(value)) for name, value in point.coordinates.items() if name != "alpha")
            groups.setdefault(others, []).append(point)
        for group in groups.values():
            for begin in range(0, len(group), batch):
                together = tuple(group[begin : begin + batch])
                own = {name: value for name, value in together[0].coordinates.items() if name != "alpha"}
                learner = own.pop("learner", self._entries[0])
                runs = {name: own.pop(name) for name in _RUNS["simulate"] if name in own}
                yield Task(
                    name=together[0].key,
                    verb=self.verb,
                    model=self.model,
                    parameters={**self.parameters, **own},
                    learner=learner,
                    runs={**self._runs, **runs},
                    accuracy=self._given_accuracy,
                    options=self._options,
                    points=together,
                    folder=self.folder,
                )

    def to_dict(self) -> dict[str, Any]:
        """Return the sweep in types of JSON; functions by their names."""
        units = {**_UNITS, "alpha": str(self._first_model().parameters.get("alpha", ""))}
        learners = [json_values({"name": entry.name, **entry.settings}) for entry in self._entries]
        return {
            "model": self.model,
            "verb": self.verb,
            "learner": learners if self.verb == "compare" else learners[0],
            "parameters": json_values(self.parameters),
            "axes": {name: axis_labels(values) for name, values in self.axes.items()},
            "units": {name: units[name] for name in self.axes if units.get(name)},
            "runs": json_values(self._runs),
            "accuracy": json_values(self._given_accuracy),
            "options": json_values(self._options),
        }


# --- values along axes ------------------------------------------------------------------------------------------------


def _axis(name: str, values: object) -> list[Any]:
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


def _identity_or_unique(what: str, *parts: object) -> str:
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


def _json_value(value: object) -> Any:
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
