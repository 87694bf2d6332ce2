"""Runs of a learner on simulated data: one run, the table of all runs, and the experiment that computes them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from glassformer import __version__
from glassformer.core.checkpoints import Checkpoint, CheckpointFolder
from glassformer.core.errors import ParameterError, UnidentifiedError
from glassformer.core.estimate import Array
from glassformer.core.hashing import identity
from glassformer.core.progress import track
from glassformer.core.random_streams import random_stream
from glassformer.core.resources import require_resources
from glassformer.core.results import Table, name_or_value, to_json_types
from glassformer.core.status import Status
from glassformer.learners.base import REVEALED, FitResult, FitStatus, Learner
from glassformer.learners.data_set import DataSet
from glassformer.models import FiniteSize
from glassformer.models.comparison import NewInputs
from glassformer.numerics.decompositions import spectral_values
from glassformer.priors.signals import side_observation
from glassformer.verbs.storage import drawn_inputs, memory_and_work, require_storage

if TYPE_CHECKING:
    import xarray

# Arrays that runs keep if they are asked to.
KEPT = ("estimates", "teacher", "singular_values")
# Memory of a finished run in bytes, its least work in operations (a tenth of a second), and the steps that are assumed
# for a run whose inputs are drawn again at each step (measured, to an order of magnitude).
_RUN_BYTES, _RUN_WORK, _STEPS = 2000, 1.2e8, 50


@dataclass(frozen=True, kw_only=True)
class Run(FitStatus):
    r"""One run: the seed that repeats it bit by bit, its errors and its status.

    It has the attributes of :class:`~glassformer.learners.base.FitStatus` too; those that a model does not have are
    None.

    Attributes:
        seed: of teacher, inputs, noise and everything random in the learner.
        error: squared error of the signal, as the model normalises it, up to signs that the labels do not determine;
            for models of several rows the mean over rows, for several starts the mean over them.
        prior_error: the error before any data; 1 on average. Both are None where no signal is claimed.
        row_error: error of each row, shape (P,).
        overlap: inner products of estimated with true rows, shape (P, P).
        power: inner products of estimated rows, for students of their own, shape (P, P).
        cosine: cosine similarity of each estimated row with its true one.
        prediction_error: squared error of the posterior mean of new labels, without the noise of the labels; counted as
            in theory, per label, or for one attention layer per token.
        plugin_error: squared error of the labels of the estimated rows on new samples.
        label_error: share of new discrete labels, without their noise, that differ from the most probable ones.
        state_error: share of hidden states of new samples that are not the most probable ones given their inputs.
        state_with_label_error: the same given inputs and label.
        test_loss: mean loss of a student of its own on new labels.
        test_error: squared error on new noisy labels; in context on those of the training tasks.
        new_task_error: the same on labels of new tasks.
        estimates: equally good estimates of the signal along the first axis, if they are kept.
        teacher: the true signal, if it is kept.
        singular_values: of the estimates, in units of :math:`(dL)^{1/4}`, or eigenvalues of symmetric matrices, if they
            are kept.
    """

    seed: int
    error: float | None = None
    prior_error: float | None = None
    row_error: Array | None = None
    overlap: Array | None = None
    power: Array | None = None
    cosine: Array | None = None
    prediction_error: float | None = None
    plugin_error: float | None = None
    label_error: float | None = None
    state_error: float | None = None
    state_with_label_error: float | None = None
    test_loss: float | None = None
    test_error: float | None = None
    new_task_error: float | None = None
    estimates: Array | None = None
    teacher: Array | None = None
    singular_values: Array | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers that are not None, by name."""
        return {name: value for name, value in vars(self).items() if value is not None and name not in KEPT}


@dataclass(frozen=True, eq=False)
class Simulation(Table):
    """A :class:`~glassformer.core.results.Table` with all runs.

    Attributes:
        instances: every :class:`Run`, as ``instances[point][instance]``; in JSON, a list ``instances`` of every point.

    Example:
        >>> from glassformer import BilinearSequenceRegression, Ridge, simulate
        >>> runs = simulate(BilinearSequenceRegression(rho=0.5), [0.3, 0.6], Ridge(0.1), d=10, instances=4)
        >>> runs.of_instances("error").shape, str(runs.instances[1][3].status)
        ((2, 4), 'converged')
        >>> runs.to_xarray()["instance_error"].dims
        ('alpha', 'instance')
    """

    instances: Sequence[Sequence[Run]] = field(default_factory=list, repr=False)
    drawing = "plot_simulation"

    def of_instances(self, name: str) -> NDArray[Any]:
        """Return one attribute of all runs, such as ``"error"`` or ``"seed"``, shape (points, instances, ...).

        Raises:
            ParameterError: the runs do not have it.
        """
        values = [[getattr(run, name, None) for run in point] for point in self.instances]
        if any(value is None for point in values for value in point):
            known = [one.name for one in fields(Run) if one.name in self._of_all]
            raise ParameterError("name", name, f"one of {', '.join(known)}")
        if name == "status":
            return np.array([[str(value) for value in point] for point in values], dtype=object)
        return np.array(values)

    @property
    def _of_all(self) -> set[str]:
        """Names of the fields that every run has."""
        named = (set(run.to_dict()) - {"history"} for point in self.instances for run in point)
        return set.intersection(*named) if self.instances else set()

    def to_xarray(self) -> xarray.Dataset:
        """Return the data set of the table, with the values of every run as ``instance_error`` and so on."""
        found = super().to_xarray()
        dimension = found["status"].dims[0]
        for name in sorted(self._of_all):
            values = self.of_instances(name)
            found[f"instance_{name}"] = ((dimension, "instance", "row", "column")[: values.ndim], values)
        return found

    def rows(self) -> list[dict[str, Any]]:
        """Return one dictionary per sample ratio, with the list of its runs."""
        rows = super().rows()
        for row, runs in zip(rows, self.instances, strict=True):
            row["instances"] = [to_json_types(run.to_dict()) for run in runs]
        return rows


@dataclass(frozen=True)
class Experiment:
    """Everything that determines the runs of a simulation.

    Attributes:
        model: the model that the user gave.
        size: the model at a finite size.
        alpha: requested sample ratios.
        d: token dimension.
        instances: runs per sample ratio.
        seed: seed of the first instance.
        learner: with all its settings.
        storage: form in which the inputs are stored.
        checkpoints: the folder of finished runs and of the state of unfinished ones.
        keep: names of the arrays that runs keep.
    """

    model: Any
    size: FiniteSize
    alpha: Array
    d: int
    instances: int
    seed: int
    learner: Learner
    storage: str
    checkpoints: CheckpointFolder
    keep: tuple[str, ...] = ()

    @cached_property
    def samples(self) -> NDArray[np.int64]:
        """Numbers of samples, at least one each."""
        unit = self.size.unit
        for value in self.alpha[np.rint(self.alpha * unit) < 1]:
            allowed = f"at least one sample at d = {self.d}, so alpha >= {1 / unit:.3g}"
            raise ParameterError("alpha", float(value), allowed)
        return np.rint(self.alpha * unit).astype(np.int64)

    @property
    def realised(self) -> Array:
        """The sample ratios of these numbers of samples."""
        return np.asarray(self.samples / self.size.unit)

    def runs(self) -> list[list[Run]]:
        """Run every instance at every sample ratio, on one growing data set per instance; finished runs are read."""
        self._require_resources()
        samples = self.samples
        require_storage(self.storage, self.learner)
        designs, runs, shared = _Designs(self), [list[Run]() for _ in samples], self._identity()
        pairs = [(k, point) for k in range(self.instances) for point in range(len(samples))]
        for k, point in track(pairs, f"{self.instances} instances at {len(samples)} sample ratios, d = {self.d}"):
            n, seed = int(samples[point]), self.seed + k
            own = None if shared is None else {**shared, "samples": n, "seed": seed}
            runs[point].append(self.checkpoints.run(Run, own, partial(self._run, designs, n, seed)))
        return runs

    def learned(self) -> tuple[Array, FitResult]:
        """Return the teacher of the first instance, and the fit to the largest number of samples."""
        self._require_resources()
        return self._fit(_Designs(self), int(self.samples.max()), self.seed, None)

    def _fit(
        self, designs: _Designs, samples: int, seed: int, checkpoint: Checkpoint | None
    ) -> tuple[Array, FitResult]:
        """Draw a teacher and its labels, and fit the learner to them."""
        model, design = self.size.model, designs.of(seed, samples)
        signal = model.prior.sample(model.signal_shape(design), random_stream(seed, 0))
        design, labels = model.labelled(design, signal, random_stream(seed, 2))
        side = side_observation(model.prior, signal, random_stream(seed, 3))
        if design.revealed and checkpoint is not None:
            checkpoint = replace(checkpoint, part=design)
        return signal, self.learner.learn(model, DataSet(design, labels, seed, checkpoint, side, signal))

    def _run(self, designs: _Designs, samples: int, seed: int, checkpoint: Checkpoint) -> Run:
        """Fit one instance and measure its errors."""
        model = self.size.model
        signal, found = self._fit(designs, samples, seed, checkpoint)
        new = NewInputs(self.size.design, self.size.input_shape, (seed, 4), model.channel.fields)
        reached: dict[str, Any] = {one.name: getattr(found, one.name) for one in fields(FitStatus)}
        arrays = {"estimates": found.estimates, "teacher": signal}
        kept: dict[str, Any] = {name: np.asarray(arrays[name]) for name in self.keep if name in arrays}
        if "singular_values" in self.keep:
            kept["singular_values"] = spectral_values(found.estimates, model.matrix_prior.symmetric)
        return Run(seed=seed, **reached, **found.measured(model, signal, new), **kept)

    def _require_resources(self) -> None:
        """Raise if a teacher, runs, inputs or labels would not fit into memory, or take too long."""
        self.model.require_teacher(self.d)
        runs = float(self.instances) * len(self.alpha)
        memory, work = _RUN_BYTES * runs, _RUN_WORK * runs
        require_resources("instances", self.instances, memory, "simulate fewer at a time", work, what="runs")
        largest, (length, d) = float(np.max(self.alpha)), self.size.input_shape
        memory, work = memory_and_work(self.storage, self.size, largest * self.size.unit)
        # Labels and fields: a few numbers for each entry of a label.
        label = float(math.prod(self.size.model.channel.labels.shape))
        memory, work = memory + 64 * largest * self.size.unit * label, _STEPS * work
        remedy = "use a smaller d or alpha, storage float32, or for gamp storage revealed or generated"
        name, value = ("d", self.d) if largest <= 1 else ("alpha", largest)
        name, value = ("tokens", length) if label > 8 * d else (name, value)
        require_resources(name, value, memory, remedy, work, "inputs")

    def _identity(self) -> dict[str, Any] | None:
        """Return everything that determines the runs but samples and seed; None if it cannot be identified."""
        try:
            content = identity(self.size, self.learner)
        except UnidentifiedError as error:
            if self.checkpoints.folder is not None:
                text = f"runs are computed but not stored: model or learner cannot be identified ({error})"
                warnings.warn(text, RuntimeWarning, stacklevel=2)
            return None
        return {
            "version": __version__,
            "model": self.size.model.name,
            "parameters": {name: repr(value) for name, value in self.size.model.parameters.items()},
            "learner": self.learner.name,
            "settings": {name: repr(value) for name, value in self.learner.settings.items()},
            "content": content,
            "d": self.d,
            "storage": self.storage,
        }

    def table(self, columns: dict[str, Array], runs: list[list[Run]], notes: Sequence[str]) -> Simulation:
        """Return the table of the runs; the status of a row is that of its first run that did not converge."""
        own, finite = self.model.parameters, self.size.model.parameters
        chosen = {name: value for name, value in self.learner.settings.items() if value is not None}
        given = {name: name_or_value(value) for name, value in chosen.items()}
        settings = {"learner": self.learner.name, "d": self.d, "seed": self.seed, "storage": self.storage, **given}
        return Simulation(
            model=self.model.name,
            parameters={**own, **settings},
            columns={"alpha": self.alpha, **columns, "alpha_realised": self.realised},
            status=[first_failure(run.status for run in point) for point in runs],
            notes=[*_finite_ratios(own, finite, self.model.theory_unavailable_reason is None), *notes],
            instances=runs,
        )


@dataclass
class _Designs:
    """The design of one instance at a time, drawn when it is first used.

    Attributes:
        experiment: what determines the inputs.
        key: seed and number of samples of the present design.
        design: the present one.
    """

    experiment: Experiment
    key: tuple[int, int] = (-1, 0)
    design: Any = None

    def of(self, seed: int, samples: int) -> Any:
        """Return the first samples of the instance with this seed."""
        experiment = self.experiment
        drawn = samples if experiment.storage in REVEALED else int(experiment.samples.max())
        if (seed, drawn) != self.key:
            # Released before the next one is drawn: two would not fit into memory.
            self.design = None
            self.design, self.key = drawn_inputs(experiment.storage, experiment.size, drawn, seed), (seed, drawn)
        return self.design.first(samples)


def first_failure(statuses: Iterable[Status]) -> Status:
    """Return the first status of runs that did not converge, ``converged`` if all did."""
    return next((one for one in statuses if not one.ok), Status.CONVERGED)


def standard_error(samples: Array) -> Array:
    """Return the standard error of the mean over the second axis; NaN for a single sample."""
    count = samples.shape[1]
    if count == 1:
        return np.full_like(samples[:, 0], np.nan)
    return np.asarray(np.std(samples, axis=1, ddof=1) / np.sqrt(count))


def _finite_ratios(asked: dict[str, Any], finite: dict[str, Any], theory: bool) -> list[str]:
    """Return a note on the parameters that rounding to whole tokens, directions or samples changes."""
    changed = {name: value for name, value in finite.items() if asked.get(name) != value}
    if not changed:
        return []
    values = (
        f"{name} = {value:.6g}" if isinstance(value, float) else f"{name} = {value}" for name, value in changed.items()
    )
    return [f"{'theory' if theory else 'data'} at the ratios of this finite size: {', '.join(values)}"]
