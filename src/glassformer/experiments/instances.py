"""What every simulation shares: its table, its instances, whole numbers of samples."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer import __version__
from glassformer.core.checkpoints import Checkpoint, Keeper
from glassformer.core.checks import is_whole, require_integer
from glassformer.core.errors import IncompatibleError, ParameterError, UnidentifiedError
from glassformer.core.fingerprint import identity
from glassformer.core.integral import Array
from glassformer.core.progress import track
from glassformer.core.resources import require_resources
from glassformer.core.results import Table, plain
from glassformer.core.solution import Status
from glassformer.learners.base import Learner
from glassformer.learners.registry import taking
from glassformer.models import FiniteSize
from glassformer.models.designs.generated import GeneratedDesign

# Inputs that are drawn again whenever they are needed, or shared out over devices.
GENERATED, SHARDED = "generated", "sharded"
# What a run takes in memory when it is over, and steps of one that is drawn again at each.
_RUN_BYTES, _STEPS = 2000, 50


@dataclass(frozen=True)
class Run:
    r"""One run: its seed (from which it can be repeated bit by bit), what it reached and how it ended.

    What a model or a learner does not have is None.

    Attributes:
        seed: of teacher, inputs, noise and everything random in the learner.
        error: squared error of the signal, as the model normalises it, up to signs that labels are blind to; for models
            of several rows the mean over rows, for several starts the mean over them.
        prior_error: the error before any data; 1 on average.
        status: how the run ended.
        iterations: steps taken.
        residual: what is left of the learner's own condition of convergence.
        claimed_error: the learner's own estimate of ``error``.
        nishimori_ratio: measured over predicted residual variance; 1 for a run that can be trusted.
        damping: damping at the end.
        training_error: mean squared residual on the samples learned from.
        early_stopped_error: least error along the way, by an oracle that knows the teacher.
        row_error: error of each row, shape (P,).
        overlap: inner products of estimated with true rows, shape (P, P).
        cosine: cosine similarity of each estimated row with its true one.
        prediction_error: squared error on new labels of their average over the claimed posterior, the labels' own noise
            left out.
        plugin_error: squared error on new labels of those that the estimated rows would have.
        history: snapshots along the way, as dictionaries.
    """

    seed: int
    error: float
    prior_error: float
    status: Status
    iterations: int
    residual: float
    claimed_error: float | None = None
    nishimori_ratio: float | None = None
    damping: float | None = None
    training_error: float | None = None
    early_stopped_error: float | None = None
    row_error: Array | None = None
    overlap: Array | None = None
    cosine: Array | None = None
    prediction_error: float | None = None
    plugin_error: float | None = None
    history: Sequence[dict[str, Any]] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """What there is of it, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class Simulation(Table):
    """A :class:`~glassformer.core.results.Table` that also keeps every run, in ``instances[point][instance]``."""

    instances: Sequence[Sequence[Run]] = field(default_factory=list)

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per sample ratio, with the list of its runs."""
        rows = super().rows()
        for row, runs in zip(rows, self.instances, strict=True):
            row["instances"] = [plain(run.to_dict()) for run in runs]
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
        settings: the learner, all its settings filled in.
        storage: how the inputs are kept.
        keeper: where finished runs and the state of unfinished ones are kept.
    """

    model: Any
    size: FiniteSize
    alpha: Array
    d: int
    instances: int
    seed: int
    settings: Learner
    storage: str
    keeper: Keeper

    @property
    def algorithm(self) -> str:
        """Name of the learner."""
        return self.settings.name

    @property
    def samples(self) -> NDArray[np.int64]:
        """Whole numbers of samples, at least one each."""
        return whole_samples(self.alpha, self.size, self.d)

    @property
    def realised(self) -> Array:
        """The sample ratios that these are."""
        return np.asarray(self.samples / self.size.unit)

    def runs(self, learn: Callable[[Any, int, Checkpoint], Run]) -> list[list[Run]]:
        """``learn(design, seed, checkpoint)`` of every instance at every sample ratio.

        An instance is one growing data set, drawn where a run of it is not kept already.
        """
        self._require_resources()
        samples = self.samples
        if self.storage in (GENERATED, SHARDED) and self.storage not in self.settings.storages:
            raise IncompatibleError(
                f"storage {self.storage} is for algorithm {' or '.join(taking(self.storage))}, {self.algorithm} needs "
                f"its inputs in one array: use {' or '.join(self.settings.storages)}"
            )
        designs, runs = _Designs(self), [list[Run]() for _ in samples]
        pairs = [(k, point) for k in range(self.instances) for point in range(len(samples))]
        for k, point in track(pairs, f"{self.instances} instances at {len(samples)} sample ratios, d = {self.d}"):
            n, seed = int(samples[point]), self.seed + k
            one = partial(_learned, learn, designs, n, seed)
            runs[point].append(self.keeper.run(Run, self.identity(n, seed), one))
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

    def identity(self, samples: int, seed: int) -> dict[str, Any] | None:
        """All that determines a run; None if that cannot be told."""
        if self._content is None:
            return None
        return {
            "version": __version__,
            "model": self.size.model.name,
            "parameters": {name: repr(value) for name, value in self.size.model.parameters.items()},
            "algorithm": self.algorithm,
            "settings": {name: repr(value) for name, value in vars(self.settings).items()},
            "content": self._content,
            "d": self.d,
            "samples": samples,
            "seed": seed,
            "storage": self.storage,
        }

    @cached_property
    def _content(self) -> str | None:
        """The identity of the model at its finite size and of the settings, what users wrote included."""
        try:
            return identity(self.size, self.settings)
        except UnidentifiedError as error:
            if self.keeper.folder is not None:
                text = f"runs are computed and not kept, for what determines them cannot be told ({error})"
                warnings.warn(text, RuntimeWarning, stacklevel=2)
            return None

    def table(self, columns: dict[str, Array], runs: list[list[Run]], notes: Sequence[str]) -> Simulation:
        """The table of the runs; the status of a row is that of its first run that did not converge."""
        own, finite = self.model.parameters, self.size.model.parameters
        given = {name: value for name, value in vars(self.settings).items() if value is not None}
        settings = {"algorithm": self.algorithm, "d": self.d, "seed": self.seed, "storage": self.storage, **given}
        return Simulation(
            model=self.model.name,
            parameters={**own, **settings},
            columns={"alpha": self.alpha, **columns, "alpha_realised": self.realised},
            status=[next((run.status for run in point if not run.status.ok), Status.CONVERGED) for point in runs],
            notes=[*([] if finite == own else [f"theory at the realised ratios {finite}"]), *notes],
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


def collected(runs: list[list[Run]], name: str) -> Array | None:
    """One field of all runs, shape (points, instances, ...); None where one run does not have it."""
    values = [[getattr(run, name) for run in point] for point in runs]
    return None if any(value is None for point in values for value in point) else np.array(values, dtype=float)


def standard_error(samples: Array) -> Array:
    """Standard error of the mean over the second axis; NaN for a single sample."""
    count = samples.shape[1]
    if count == 1:
        return np.full_like(samples[:, 0], np.nan)
    return np.asarray(np.std(samples, axis=1, ddof=1) / np.sqrt(count))


def whole_samples(alpha: Array, size: FiniteSize, d: int) -> NDArray[np.int64]:
    """Whole numbers of samples, at least one each."""
    for value in alpha[np.rint(alpha * size.unit) < 1]:
        raise ParameterError("alpha", float(value), f"at least one sample at d = {d}, so alpha >= {1 / size.unit:.3g}")
    return np.rint(alpha * size.unit).astype(np.int64)


def require_whole_numbers(d: int, instances: int, seed: int) -> None:
    """Raise unless sizes and seed are whole numbers."""
    require_integer("d", d, 2)
    require_integer("instances", instances)
    # Seeds are never multiplied with anything: they may be of any length.
    if not is_whole(seed, 0):
        raise ParameterError("seed", seed, "an integer >= 0")
