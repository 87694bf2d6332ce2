"""What a sweep computes, and its points."""

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

from glassformer import __version__
from glassformer.core.errors import ParameterError, UnidentifiedError, in_file
from glassformer.core.hashing import identity
from glassformer.core.resources import require_resources
from glassformer.experiments.sweeps.axes import labels, plain_values, values_of
from glassformer.learners.registry import learner, learner_type, settings_meant
from glassformer.models.registry import MODELS, build, meant, model_type

COMPUTATIONS = ("limits", "thresholds", "simulate")
_SIMULATION = {"algorithm": "gamp", "d": 100, "instances": 1, "seed": 0, "storage": "float64"}
_UNITS = {"rho": "r/d", "beta": "L/d", "noise": "variance of the label noise", "d": "token dimension"}
# Version of what records hold and of how they are computed.
FORMAT = 2


@dataclass(frozen=True)
class Point:
    """One point of a sweep: where it is, and a key of all that determines its value."""

    coordinates: dict[str, Any]
    key: str


@dataclass(frozen=True)
class Task:
    """Points that are computed in one call: they differ in ``alpha`` at most. ``name`` stays when some are left out."""

    name: str
    compute: str
    model: str
    parameters: dict[str, Any]
    simulation: dict[str, Any]
    settings: dict[str, Any]
    learner: str
    points: tuple[Point, ...]
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
        grid: values by the name of what varies, each a list, or a text ``"start:stop:count"``: ``alpha``, parameters of
            the model, for simulations also ``d``.
        compute: ``"limits"``, ``"thresholds"`` or ``"simulate"``.
        parameters: of the model, those that do not vary.
        simulation: ``algorithm``, ``d``, ``instances``, ``seed`` and ``storage`` of simulations; instance ``k`` has the
            seed ``seed + k``, and ``seed`` is the last axis of the results.
        settings: of the algorithm, or of the learner; as on the command line, ``"best"`` is the best strength and
            ``"FILE.py:FUNCTION"`` a loss.
        learner: whose limits or thresholds, in the table of learners.
        folder: what files named in ``parameters`` and ``settings`` are relative to.

    Raises:
        ParameterError: an unknown or missing name, or a value out of range.

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
        # Slow to import, and of no use to who computes no sweep.
        from glassformer.experiments.sweeps.types import SIMULATION, Ratio, check, list_of, of_model, one_of

        check("model", self.model, one_of(MODELS))
        check("compute", self.compute, one_of(COMPUTATIONS))
        for name in ("parameters", "grid", "simulation", "settings"):
            check(name, getattr(self, name), Mapping[str, Any])
        self._check_simulation()
        if (self.compute == "thresholds") == ("alpha" in self.grid):
            allowed = "no alpha" if self.compute == "thresholds" else "an axis alpha"
            raise ParameterError("grid", list(self.grid), f"{allowed}, to compute {self.compute}")
        axes = {name: values_of(name, values) for name, values in self.grid.items()}
        for name in axes:
            if name in self.parameters or name in self.simulation:
                raise ParameterError(name, axes[name], "either an axis of the grid or a fixed value, not both")
        types = {**of_model(self.model), **SIMULATION, "alpha": Ratio}
        # Names that are not known here are left to the model, which tells its own.
        for name in types.keys() & self.parameters.keys():
            check(name, self.parameters[name], types[name])
        for name in types.keys() & axes.keys():
            check(name, axes[name], list_of(types[name]))
        if "alpha" in axes:
            axes["alpha"] = [float(value) for value in axes["alpha"]]
        self._require_memory(axes)
        object.__setattr__(self, "grid", axes)
        # A mistake in the fixed parameters is better found now than in every point.
        self.built({**self.parameters, **self._first_of_model()})

    def _check_simulation(self) -> None:
        from glassformer.experiments.sweeps.types import SIMULATION, check, of_settings

        others = {**self.simulation, **{n: v for n, v in self.grid.items() if n in _SIMULATION}}
        for name, value in others.items() if self.compute != "simulate" else ():
            raise ParameterError(name, value, f"nothing: it belongs to simulate, not to {self.compute}")
        for name, value in self.simulation.items():
            if name not in _SIMULATION:
                raise ParameterError(name, value, f"one of {', '.join(_SIMULATION)}")
            check(name, value, SIMULATION[name])
        for name in ("instances", "seed"):
            if name in self.grid:
                raise ParameterError(name, self.grid[name], "a fixed number: instances follow each other's seeds")
        check("learner", self.learner, SIMULATION["algorithm"])
        if self.compute == "simulate" and self.learner != "gamp":
            raise ParameterError(
                "learner", self.learner, "nothing: what simulates is the algorithm of table [simulate]"
            )
        algorithm = self._simulation.get("algorithm", self.learner)
        kind = learner_type(algorithm)
        allowed = of_settings(kind)
        if self.compute != "simulate":
            allowed = {name: allowed[name] for name in kind.in_theory}
        meant_by = settings_meant(algorithm, self.settings, self._place)
        for name, value in self.settings.items():
            if name not in allowed:
                what = f"the settings of {algorithm}" if self.compute == "simulate" else f"those of its {self.compute}"
                raise ParameterError(name, value, f"one of {what}: {', '.join(allowed) or 'there are none'}")
            check(name, meant_by[name], allowed[name])
        learner(algorithm, **meant_by)

    def _require_memory(self, axes: Mapping[str, Sequence[Any]]) -> None:
        """Raise if the points alone would fill the memory."""
        sizes = {name: len(values) for name, values in axes.items()}
        if self.compute == "simulate":
            sizes["instances"] = self._simulation["instances"]
        largest = max(sizes, key=lambda name: sizes[name], default="grid")
        needed = _POINT_BYTES * math.prod(sizes.values())
        require_resources(largest, sizes.get(largest), needed, "split the grid into several sweeps", what="points")

    @classmethod
    def from_toml(cls, path: str | Path, links: Sequence[str | Path] = ()) -> Sweep:
        """Read a sweep from a file.

        Its tables are ``[sweep]`` (model, compute, learner), ``[parameters]``, ``[grid]``, ``[simulate]`` and
        ``[settings]``.

        Args:
            path: the file.
            links: Python files that it may name, as ``FILE.py:FUNCTION`` relative to itself. Their code is run, that of
                no other.

        Raises:
            ParameterError: the file cannot be read, does not describe a sweep, or names a file that is not in
                ``links``.
            IncompatibleError: parameters that exclude each other.
        """
        from glassformer.experiments.sweeps.document import arguments_of, read

        document = read(Path(path))
        with in_file(path):
            return cls(**arguments_of(document, Path(path).parent, links))

    def built(self, parameters: Mapping[str, Any]) -> Any:
        """The model with these parameters."""
        return build(self.model, parameters, self._place)

    @property
    def _place(self) -> Path | None:
        return Path(self.folder) if self.folder else None

    @property
    def axes(self) -> dict[str, list[Any]]:
        """Values along each axis of the results, that of seeds included."""
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
    def _simulation(self) -> dict[str, Any]:
        return {**_SIMULATION, **self.simulation} if self.compute == "simulate" else {}

    @property
    def points(self) -> list[Point]:
        """All points, the last axis running fastest."""
        axes = self.axes
        varied = [[(name, value, self._word(name, value)) for value in values] for name, values in axes.items()]
        simulation = {name: value for name, value in self._simulation.items() if name not in ("instances", *axes)}
        # The first of learners goes without saying: what was kept before there were others stays known.
        whose = {} if self.learner == _SIMULATION["algorithm"] else {"learner": self.learner}
        fixed = {name: self._word(name, value) for name, value in {**self.parameters, **simulation, **whose}.items()}
        settings = settings_meant(self._simulation.get("algorithm", self.learner), self.settings, self._place)
        common = identity(FORMAT, __version__, self.compute, self.model, settings)
        found = []
        for place in itertools.product(*varied):
            # Whether a parameter is fixed or an axis of one value makes no difference.
            words = {**fixed, **{name: word for name, _, word in place}}
            text = common + "".join(f";{name}={words[name]}" for name in sorted(words))
            key = hashlib.sha256(text.encode()).hexdigest()[:24]
            found.append(Point({name: value for name, value, _ in place}, key))
        return found

    def _word(self, name: str, value: Any) -> str:
        """What tells a value in a key; where its content cannot be told, a word that never comes again."""
        try:
            return identity(meant(name, value, self._place))
        except UnidentifiedError as error:
            text = (
                f"points of this {name} are kept for this run only, for what determines them cannot be told ({error})"
            )
            warnings.warn(text, RuntimeWarning, stacklevel=2)
            return uuid.uuid4().hex

    def _first_of_model(self) -> dict[str, Any]:
        return {n: values[0] for n, values in self.axes.items() if n not in ("alpha", *_SIMULATION)}

    def tasks(self, points: Sequence[Point]) -> Iterator[Task]:
        """All points in groups that are computed together: theory in batches over ``alpha``, simulations one by one."""
        batch = 1 if self.compute == "simulate" else model_type(self.model).together

        def rest(point: Point) -> str:
            return repr({name: value for name, value in point.coordinates.items() if name != "alpha"})

        groups: dict[str, list[Point]] = {}
        for point in points:
            groups.setdefault(rest(point), []).append(point)
        for group in groups.values():
            for begin in range(0, len(group), batch):
                yield self._task(tuple(group[begin : begin + batch]))

    def _task(self, points: tuple[Point, ...]) -> Task:
        own = {name: value for name, value in points[0].coordinates.items() if name != "alpha"}
        simulation = {name: own.pop(name, value) for name, value in self._simulation.items()}
        parameters = {**self.parameters, **own}
        return Task(
            name=points[0].key,
            compute=self.compute,
            model=self.model,
            parameters=parameters,
            simulation=simulation,
            settings=dict(self.settings),
            learner=self.learner,
            points=points,
            folder=self.folder,
        )

    def to_dict(self) -> dict[str, Any]:
        """The sweep in types that JSON knows; functions by their names."""
        return {
            "model": self.model,
            "compute": self.compute,
            "learner": self.learner,
            "parameters": plain_values(self.parameters),
            "axes": {name: labels(values) for name, values in self.axes.items()},
            "units": self._units(),
            "simulation": plain_values(self._simulation),
            "settings": plain_values(self.settings),
        }

    def _units(self) -> dict[str, str]:
        """Units of the axes that have one; that of the sample ratio is the model's."""
        model = self.built({**self.parameters, **self._first_of_model()})
        units = {**_UNITS, "alpha": str(model.parameters.get("alpha", ""))}
        return {name: units[name] for name in self.axes if units.get(name)}


# What a point takes in memory, its record included.
_POINT_BYTES = 4000
