"""What every simulation shares: its table, its instances, whole numbers of samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer import __version__
from glassformer.core.checkpoints import Checkpoint, Keeper
from glassformer.core.checks import require_integer, require_name
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.fingerprint import code_of
from glassformer.core.integral import Array
from glassformer.core.progress import track
from glassformer.core.resources import require_resources
from glassformer.core.results import Table, plain
from glassformer.core.settings import Descent, MultiPass, Regularised, Training
from glassformer.core.solution import Status
from glassformer.models import FiniteSize
from glassformer.models.designs.generated import GeneratedDesign

# Inputs that are drawn again whenever they are needed, or shared out over devices.
GENERATED, SHARDED = "generated", "sharded"
STORAGE = ("float64", "float32", SHARDED, GENERATED)
# Algorithms, and the settings of each.
SETTINGS: dict[str, type] = {
    "gamp": Descent,
    "ridge": Regularised,
    "nuclear-norm": Regularised,
    "gd": Training,
    "averaged-gd": Training,
    "sgd": MultiPass,
}


# What a run takes in memory when it is over, and steps of one that is drawn again at each.
_RUN_BYTES, _STEPS = 2000, 50


@dataclass(frozen=True)
class Simulation(Table):
    """A :class:`~glassformer.core.results.Table` that also keeps every run, in ``instances[point][instance]``."""

    instances: Sequence[Sequence[Any]] = field(default_factory=list)

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per sample ratio, with the list of its runs."""
        rows = super().rows()
        for row, runs in zip(rows, self.instances, strict=True):
            row["instances"] = [plain(vars(run)) for run in runs]
        return rows


@dataclass(frozen=True)
class Experiment:
    """What is drawn and learned from.

    Attributes:
        model: as it was asked for.
        size: the model at a finite size.
        alpha: sample ratios asked for.
        d: token dimension.
        instances: runs per sample ratio.
        seed: of the first instance.
        algorithm: what learns.
        storage: precision of the inputs.
        settings: of the algorithm.
        keeper: where finished runs and the state of unfinished ones are kept.
    """

    model: Any
    size: FiniteSize[Any]
    alpha: Array
    d: int
    instances: int
    seed: int
    algorithm: str
    storage: str
    settings: Any
    keeper: Keeper

    @property
    def samples(self) -> NDArray[np.int64]:
        """Whole numbers of samples, at least one each."""
        return whole_samples(self.alpha, self.size, self.d)

    @property
    def realised(self) -> Array:
        """The sample ratios that these are."""
        return np.asarray(self.samples / self.size.unit)

    def runs(self, kind: type, learn: Callable[[Any, int, Checkpoint], Any]) -> list[list[Any]]:
        """``learn(design, seed, checkpoint)``, a ``kind``, of every instance at every sample ratio.

        An instance is one growing data set, drawn where a run of it is not kept already.
        """
        self._require_resources()
        samples = self.samples
        if self.storage in (GENERATED, SHARDED) and self.algorithm != "gamp":
            raise IncompatibleError(
                f"storage {self.storage} is for algorithm gamp, {self.algorithm} needs its inputs in one array: "
                "use float64 or float32"
            )
        designs, runs = _Designs(self), [list[Any]() for _ in samples]
        pairs = [(k, point) for k in range(self.instances) for point in range(len(samples))]
        for k, point in track(pairs, f"{self.instances} instances at {len(samples)} sample ratios, d = {self.d}"):
            n, seed = int(samples[point]), self.seed + k
            one = partial(_learned, learn, designs, n, seed)
            runs[point].append(self.keeper.run(kind, self.identity(n, seed), one))
        return runs

    def _require_resources(self) -> None:
        """Raise if runs, inputs or labels would not fit into memory, or drawing the inputs again would not end."""
        runs = float(self.instances) * len(self.alpha)
        require_resources("instances", self.instances, _RUN_BYTES * runs, "simulate fewer at a time", what="runs")
        largest, (length, d) = float(np.max(self.alpha)), self.size.input_shape
        entries = largest * self.size.unit * length * d
        kept = 0 if self.storage == GENERATED else 4 if self.storage in ("float32", SHARDED) else 8
        # Labels, fields and what is derived of them: numbers for each entry of a label.
        label = float(math.prod(self.size.model.channel.label_shape))
        memory, work = kept * entries + 64 * largest * self.size.unit * label, _STEPS * entries
        remedy = "use a smaller d or alpha, storage float32, or for gamp storage generated"
        name, value = ("d", self.d) if largest <= 1 else ("alpha", largest)
        name, value = ("tokens", length) if label > 8 * d else (name, value)
        require_resources(name, value, memory, remedy, work, "inputs")

    def identity(self, samples: int, seed: int) -> dict[str, Any]:
        """All that determines a run."""
        finite = self.size.model
        return {
            "version": __version__,
            "model": finite.name,
            "parameters": {name: repr(value) for name, value in finite.parameters.items()},
            "code": code_of(finite),
            "algorithm": self.algorithm,
            "settings": {name: repr(value) for name, value in vars(self.settings).items()},
            "d": self.d,
            "samples": samples,
            "seed": seed,
            "storage": self.storage,
        }

    def table(self, columns: dict[str, Array], runs: list[list[Any]]) -> Simulation:
        """The table of the runs; the status of a row is that of its first run that did not converge."""
        own, finite = self.model.parameters, self.size.model.parameters
        given = {name: value for name, value in vars(self.settings).items() if value is not None}
        settings = {"algorithm": self.algorithm, "d": self.d, "seed": self.seed, "storage": self.storage, **given}
        return Simulation(
            model=self.model.name,
            parameters={**own, **settings},
            columns={"alpha": self.alpha, **columns, "alpha_realised": self.realised},
            status=[next((run.status for run in point if not run.status.ok), Status.CONVERGED) for point in runs],
            notes=[] if finite == own else [f"theory at the realised ratios {finite}"],
            instances=runs,
        )


class _Designs:
    """The design of one instance at a time, drawn when it is first needed."""

    def __init__(self, experiment: Experiment) -> None:
        self._experiment, self._seed = experiment, -1
        self._design: Any = None

    def of(self, seed: int, samples: int) -> Any:
        """Its first samples, of as many as the largest sample ratio needs."""
        if seed != self._seed:
            self._design = None
            self._design, self._seed = self._drawn(seed, int(self._experiment.samples.max())), seed
        return self._design.first(samples)

    def _drawn(self, seed: int, samples: int) -> Any:
        size, storage = self._experiment.size, self._experiment.storage
        if storage == GENERATED:
            return GeneratedDesign(size.design, (seed, 1), samples, size.input_shape)
        kept = "float32" if storage == SHARDED else storage
        design: Any = size.design.sample(samples, size.input_shape, np.random.default_rng([seed, 1]), kept)
        if storage != SHARDED:
            return design
        from glassformer.models.designs.sharded import ShardedDesign

        return ShardedDesign(design)


def _learned(learn: Callable[..., Any], designs: _Designs, samples: int, seed: int, checkpoint: Checkpoint) -> Any:
    return learn(designs.of(seed, samples), seed, checkpoint)


def drawn(model: Any, design: Any, shape: tuple[int, ...], seed: int) -> tuple[Array, Array]:
    """The teacher, of the given shape, and the labels of one instance."""
    signal = model.prior.sample(shape, np.random.default_rng([seed, 0]))
    return signal, model.channel.sample(design.forward(signal, 0), np.random.default_rng([seed, 2]))


def collected(runs: list[list[Any]], name: str) -> Array:
    """One field of all runs, shape (points, instances, ...)."""
    return np.array([[getattr(run, name) for run in point] for point in runs])


def checked_settings(settings: Any, kind: type, algorithm: str) -> Any:
    """The settings of an algorithm, its defaults where none are given; those of another one are refused."""
    if settings is None:
        return kind()
    if not isinstance(settings, kind):
        raise ParameterError("settings", type(settings).__name__, f"{kind.__name__} for algorithm {algorithm}")
    return settings


def standard_error(samples: Array) -> Array:
    """Standard error of the mean over the last axis; NaN for a single sample."""
    count = samples.shape[1]
    if count == 1:
        return np.full(len(samples), np.nan)
    return np.asarray(np.std(samples, axis=1, ddof=1) / np.sqrt(count))


def whole_samples(alpha: Array, size: FiniteSize[Any], d: int) -> NDArray[np.int64]:
    """Whole numbers of samples, at least one each."""
    for value in alpha[np.rint(alpha * size.unit) < 1]:
        raise ParameterError("alpha", float(value), f"at least one sample at d = {d}, so alpha >= {1 / size.unit:.3g}")
    return np.rint(alpha * size.unit).astype(np.int64)


def require_whole_numbers(d: int, instances: int, seed: int, algorithm: str) -> None:
    """Raise unless sizes and seed are whole numbers and the algorithm is known."""
    require_integer("d", d, 2)
    require_integer("instances", instances)
    if not isinstance(seed, int | np.integer) or isinstance(seed, bool) or seed < 0:
        raise ParameterError("seed", seed, "an integer >= 0")
    require_name("algorithm", algorithm, SETTINGS)
