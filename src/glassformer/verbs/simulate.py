"""Errors of learners on simulated data, compared with the theory of the same finite sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from glassformer.bayes_optimal.limits import bayes_optimal_limits
from glassformer.bayes_optimal.solve import validated_alpha
from glassformer.core.accuracy import Accuracy
from glassformer.core.checkpoints import CheckpointFolder
from glassformer.core.checks import is_whole, require_arguments, require_integer
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.estimate import Array
from glassformer.core.files import user_path
from glassformer.core.renamed import verb
from glassformer.core.status import Status
from glassformer.learners.base import IN_ANY_FORM, IN_ONE_ARRAY, Learner
from glassformer.learners.own import Estimator
from glassformer.learners.registry import require_compatible, resolve_learner
from glassformer.models import Model
from glassformer.numerics.quasi_random import confidence_factor
from glassformer.verbs.instances import KEPT, Experiment, Run, Simulation, standard_error
from glassformer.verbs.question import asked
from glassformer.verbs.storage import usual_storage

# Fields of a run whose means are columns, and errors with a standard error and a Bayes-optimal counterpart.
_MEANS = (
    *("overlap", "power", "cosine", "training_error", "training_loss", "test_loss", "free_energy", "rank"),
    "early_stopped_error",
)
_COMPARED = ("row", "prediction", "plugin", "label", "state", "state_with_label", "test", "new_task")
# A mean is far from theory if the distance exceeds the first number (the error before any data is 1) and this share of
# the theory, whatever the standard error is; or the 95 % interval and the second share of the theory (conventions).
_FAR, _RELATIVELY_FAR = 0.1, 0.05
# With at least this number of instances the 95 % interval is close to two standard errors, and distances are given in
# standard errors.
_MANY = 10


@verb
def simulate(
    model: Model,
    alpha: ArrayLike,
    learner: str | Learner | Callable[..., Any] | Estimator = "gamp",
    *,
    d: int = 100,
    instances: int = 4,
    seed: int = 0,
    storage: str | None = None,
    checkpoint: str | Path | None = None,
    keep: Sequence[str] = (),
    throw: bool = False,
    accuracy: Accuracy | None = None,
) -> Simulation:
    r"""Draw teachers and data, fit a learner to them, and compare its errors with theory.

    Instance ``k`` uses the seed ``seed + k`` at every sample ratio, and unless inputs are revealed a larger sample
    begins with the smaller one: along ``alpha`` an instance is one growing data set. Theory is evaluated at the ratios
    that whole numbers allow (:math:`L/d`, :math:`r/d`, :math:`n/(dL)`); the column ``alpha_realised`` and the
    parameters record them.

    Args:
        model: the teacher, known to the student.
        alpha: sample ratios, shape (points,), in the model's unit.
        d: token dimension; ``L = round(beta d)``.
        instances: independent runs per sample ratio.
        seed: a non-negative integer.
        learner: a learner, for instance :class:`~glassformer.Ridge`, or its name: ``"gamp"``; for linear labels of
            bilinear sequence regression also ``"ridge"`` and ``"nuclear-norm"``; for bilinear sequence regression and
            attention-indexed models ``"risk"`` (regularised risk of labels that increase with their fields), ``"gd"``
            (gradient descent on the factors) and ``"averaged-gd"`` (its mean over several starts); for deep attention
            and multi-index models ``"sgd"``, and ``"online-sgd"``, which sees every sample once.
        storage: ``"float64"``; ``"float32"`` for half the memory and time; for learners that see inputs through
            products also ``"revealed"``, Gaussian inputs that are never drawn, only revealed along the directions that
            the learner looks at, with exactly the law of stored ones, or ``"revealed-float32"`` for half the memory;
            for attention indices ``"revealed-equivalent"``, Gaussian fields in place of those of tokens, whose errors
            differ by terms of order ``1/d`` (two tokens) or ``1/sqrt(d)``; for message passing also ``"sharded"``,
            single precision distributed over all devices of JAX; for message passing and ``"online-sgd"`` also
            ``"generated"``, for inputs that are drawn again from their seed whenever they are needed. By default
            float64 up to 2 GB, and beyond it revealed inputs where learner and model allow them; the parameters of the
            result name it.
        checkpoint: a folder for finished runs and, every 20 seconds, the state of training in progress. The same call
            continues from it; the result is that of an uninterrupted call.
        keep: what runs keep beside numbers: ``"estimates"``, ``"teacher"`` and ``"singular_values"`` of estimates that
            are matrices, arrays of every :class:`Run`.
        throw: raise an error if a run did not converge. By default, unlike :func:`~glassformer.limits`, the row keeps
            the status, since single runs may fail.
        accuracy: tolerance and iteration limit of the runs; points of sampled averages, and trajectories of the
            equations of descent, for runs and theory.

    Returns:
        :class:`Simulation` with these columns:

        - ``alpha`` and ``alpha_realised``;
        - ``error``, the mean over instances, its ``standard_error`` (NaN for a single instance) and its ``interval``,
          the half width of the 95 % confidence interval by Student's distribution: 12.7 standard errors for two
          instances, 3.18 for four;
        - ``theory``, the error of the learner in the limit of large sizes (NaN if it is not known; a note says why),
          its ``theory_error_estimate``, and ``theory_bayes_optimal``;
        - ``relative_error``, the summed error over the summed power of the teachers, which fluctuates, with its
          standard error;
        - those of ``training_error``, ``training_loss``, ``rank``, ``early_stopped_error`` (the least error during
          training), ``overlap``, ``power`` (of estimated rows), ``cosine``, ``test_loss`` (of a student on new labels)
          and ``free_energy`` (the risk over the dimension) that model and learner have;
        - ``row_error``; for labels that are numbers ``prediction_error`` and ``plugin_error``, on new labels without
          their noise, in the unit of :func:`~glassformer.bayes_optimal.limits.limits`; for discrete labels
          ``label_error``, the share of wrong ones (positions found by ``argmax`` or ``argmin`` are classes, and have
          this error alone). Each has a standard error (``prediction_standard_error``) and, if they are known, the value
          of the learner in the limit of large sizes (``prediction_theory``) and the Bayes-optimal one
          (``prediction_bayes_optimal``). Training of one's own claims no signal: it has these errors alone, and their
          distances ``prediction_above_optimum`` and ``label_above_optimum`` from the Bayes-optimal ones;
        - for message passing on inputs with hidden states ``state_error`` and ``state_with_label_error``, the shares of
          states of new samples that are not the most probable ones given their inputs, and given inputs and label, with
          standard errors and theory as above.

        All runs count in the means, whatever their status; the status of a row is that of its first run that did not
        converge. Single runs are in ``instances[point][instance]``, or ``of_instances("error")``. A note names the mean
        that is furthest from theory, with the likely reason, if it is far: by a tenth of the error before any data and
        of the theory, or beyond its interval and by a twentieth of the theory.

    Raises:
        ParameterError: an argument is out of range, or the inputs would not fit into memory.
        IncompatibleError: the model has no finite size, or the learner cannot run on it.
        DataError: the checkpoint cannot be written.
        ConvergenceError: with ``throw``, a run did not converge.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> model = BilinearSequenceRegression(beta=1, rho=0.2, noise=0.1)
        >>> result = simulate(model, [0.6], d=30, instances=2, seed=1)
        >>> bool(abs(result["error"][0] - result["theory"][0]) < 0.1)
        True
    """
    require_arguments(simulate, locals())
    model, chosen = asked(model, resolve_learner(learner, d), accuracy, "simulate")
    experiment = experiment_of(model, alpha, d, instances, seed, chosen, storage, checkpoint, keep)
    found = _table(experiment, experiment.runs())
    if throw:
        found.raise_unless_converged()
    return found


def _table(experiment: Experiment, runs: list[list[Run]]) -> Simulation:
    """Return the table of the runs, beside the theory of their learner and the Bayes-optimal one."""
    size, learner, ratios = experiment.size.model, experiment.learner, experiment.realised
    unknown, optimum, minima = size.theory_unavailable_reason, None, ""
    notes: list[str] = []
    if unknown is None and (reason := size.channel.fields.density_unavailable_reason):
        notes.append(f"Bayes-optimal errors: not known. Their theory {reason}")
    elif unknown is None:
        optimum = bayes_optimal_limits(size, ratios, throw=False)
        notes += optimum.notes
    notes += experiment.size.remarks
    theory: Mapping[str, Array] = {}
    try:
        # Tolerances are those of the runs.
        known = learner.usual_except(("points", "trajectories")).theory(size)
        theory, minima = known.of_runs(ratios, optimum), known.other_minima
    except IncompatibleError as error:
        notes.append(unknown or f"no theory of {learner.name}: {error}")
    notes += [f"theory of {learner.name}: {note}" for note in theory.get("notes", ()) if note not in notes]
    strength = getattr(learner, "strength", None)
    notes += _unsettled_theory(ratios, theory, {"learner": learner.name, "strength": strength})
    found = zip(optimum["alpha"], optimum.status, strict=True) if optimum else ()
    bistable = [f"{a:g}" for a, status in found if status is Status.BISTABLE]
    if bistable:
        notes.append(
            f"hard phase at alpha = {', '.join(bistable)}: message passing stays above the Bayes-optimal error"
        )
    columns = _columns(runs, theory, optimum.columns if optimum else {})
    notes += few_instances(experiment.instances)
    notes += far_from_theory(_compared(columns, size.row_names), ratios, runs, experiment.d, minima)
    return experiment.table(columns, runs, notes)


def experiment_of(
    model: Model,
    alpha: ArrayLike,
    d: int,
    instances: int,
    seed: int,
    learner: Learner,
    storage: str | None = None,
    checkpoint: str | Path | None = None,
    keep: Sequence[str] = (),
) -> Experiment:
    """Check the arguments of :func:`simulate` and return its experiment; nothing is drawn yet."""
    alpha = validated_alpha(alpha)
    require_integer("d", d, 2)
    require_integer("instances", instances)
    # Seeds may be arbitrarily large: nothing is computed with them.
    if not is_whole(seed, 0):
        raise ParameterError("seed", seed, "an integer >= 0")
    if storage is not None and (not isinstance(storage, str) or storage not in IN_ANY_FORM):
        others = ", ".join(form for form in IN_ANY_FORM if form not in IN_ONE_ARRAY)
        raise ParameterError("storage", storage, f"None, float64 or float32, and for some learners {others}")
    if not set(map(str, keep)) <= set(KEPT):
        raise ParameterError("keep", keep, f"some of {', '.join(KEPT)}")
    if keep and checkpoint is not None:
        raise IncompatibleError(
            f"keep = {tuple(keep)} and checkpoint exclude each other: arrays of runs are not stored"
        )
    require_compatible(learner, model)
    if "singular_values" in keep and model.overlap_shape:
        raise IncompatibleError(f"keep = singular_values is for signals of one matrix, and {model.name} has rows")
    keeper = CheckpointFolder(None if checkpoint is None else user_path(checkpoint))
    own, size = learner.completed(model), model.at_size(d)
    storage = storage or usual_storage(own, size, float(np.max(alpha)) * size.unit)
    return Experiment(model, size, alpha, d, instances, seed, own, storage, keeper, tuple(keep))


def _columns(runs: list[list[Run]], theory: Mapping[str, Array], optimum: Mapping[str, Array]) -> dict[str, Array]:
    """Return the errors of the runs, those of the learner's theory and the Bayes-optimal ones; NaN if unknown."""
    unknown = np.full(len(runs), np.nan)
    # Fields that every run has, shape (points, instances, ...).
    known = {}
    for name in ("error", "prior_error", *_MEANS, *(f"{name}_error" for name in _COMPARED)):
        values = [[getattr(run, name) for run in point] for point in runs]
        if all(value is not None for point in values for value in point):
            known[name] = np.array(values, dtype=float)
    columns = {}
    if "error" in known:
        errors, powers = known["error"], known["prior_error"]
        relative = errors.sum(axis=1) / powers.sum(axis=1)
        columns = {
            "error": errors.mean(axis=1),
            "standard_error": standard_error(errors),
            "interval": confidence_factor(errors.shape[1]) * standard_error(errors),
            "theory": theory.get("error", unknown),
            "theory_bayes_optimal": optimum.get("error", unknown),
            "theory_error_estimate": theory.get("error_estimate", unknown),
            "relative_error": relative,
            "relative_standard_error": standard_error(errors - relative[:, None] * powers) / powers.mean(axis=1),
        }
    columns |= {name: known[name].mean(axis=1) for name in _MEANS if name in known}
    # Of learners that estimate no signal theory may have the training error as well.
    training = ("training",) if "error" not in known and "training_error" in theory else ()
    for name in (*_COMPARED, *training):
        if (error := f"{name}_error") in known:
            columns[error] = known[error].mean(axis=1)
            columns[f"{name}_standard_error"] = standard_error(known[error])
            # If the label is the field, prediction and plug-in estimate are equal, and theory has one error for both.
            columns |= {f"{name}_theory": theory[error]} if error in theory else {}
            columns |= {f"{name}_bayes_optimal": optimum[error]} if error in optimum else {}
            if "error" not in columns and error in optimum:
                columns[f"{name}_above_optimum"] = columns[error] - optimum[error]
    if "prediction_error" in columns and "label_noise" in optimum:
        columns["label_noise"] = optimum["label_noise"]
    return columns


def _compared(columns: dict[str, Array], rows: Sequence[str]) -> list[tuple[str, Array, Array, Array, Array]]:
    """Return the errors to compare with theory: of each row if there are several, else of the signal."""
    if "error" not in columns:
        if "test_theory" not in columns:
            return []
        test = [columns[f"test_{name}"] for name in ("error", "standard_error", "theory")]
        return [("the test error", *test, np.zeros_like(test[0]))]  # type: ignore[list-item]
    estimate = columns["theory_error_estimate"]
    if len(rows) == 1 or "row_theory" not in columns or np.array(columns["row_theory"]).shape[1:] != (len(rows),):
        return [("the error", columns["error"], columns["standard_error"], columns["theory"], estimate)]
    parts = [columns[name] for name in ("row_error", "row_standard_error", "row_theory")]
    return [(f"the error of {row}", *(part[:, k] for part in parts), estimate) for k, row in enumerate(rows)]  # type: ignore[misc]


def _unsettled_theory(alpha: Array, theory: Mapping[str, Array], parameters: Mapping[str, object]) -> list[str]:
    """Return a note on each status of theory that is neither ``converged`` nor ``bistable``."""
    statuses = list(theory.get("status", ()))
    notes = []
    for status in dict.fromkeys(statuses):
        if status not in (Status.CONVERGED, Status.BISTABLE):
            where = ", ".join(f"{a:g}" for a, one in zip(alpha, statuses, strict=True) if one is status)
            notes.append(f"theory at alpha = {where} is {status}: {status.remedy_for(parameters)}")
    return notes


def few_instances(instances: int) -> list[str]:
    """Return a note on standard errors of few instances; none for many."""
    if not 1 < instances < _MANY:
        return []
    factor = confidence_factor(instances)
    return [f"standard errors are from {instances} instances: 95 % intervals are {factor:.3g} times as wide"]


def far_from_theory(
    rows: Sequence[tuple[str, Array, Array, Array, Array]],
    alpha: Array,
    runs: Sequence[Sequence[Run]],
    d: int,
    cause: str = "",
) -> list[str]:
    """Return a note on the mean that is furthest from theory, with the likely reason; none if all are close.

    Args:
        rows: name, means, standard errors, theory and its error estimates of each quantity, shape (points,).
        alpha: sample ratios.
        runs: the runs at each of them.
        d: dimension of the runs.
        cause: why runs of any size may differ from theory; empty where they do not.
    """
    found = []
    for name, mean, error, theory, estimate in rows:
        for k in range(len(alpha)):
            if not np.isfinite(theory[k]):
                # Errors without bound have no distance from runs that diverge as well.
                continue
            gap = abs(mean[k] - theory[k])
            interval = confidence_factor(len(runs[k])) * error[k] + np.nan_to_num(estimate[k])
            beyond = error[k] > 0 and gap > interval and gap > _RELATIVELY_FAR * abs(theory[k])
            if gap > _FAR * max(1.0, abs(theory[k])) or beyond:
                found.append((gap, k, name, float(mean[k]), float(error[k]), float(theory[k])))
    if not found:
        return []
    gap, k, name, mean_k, error_k, theory_k = max(found)
    more = len(found) - 1
    others = f". {more} more value{'s are' if more > 1 else ' is'} far from theory" if more else ""
    side = "above" if mean_k > theory_k else "below"
    many = error_k > 0 and len(runs[k]) >= _MANY
    chance = f" ({gap / error_k:.2g} standard errors)" if many else ""
    text = f"far from theory: {name} at alpha = {alpha[k]:.4g} is {mean_k:.3g}, {gap:.2g} {side} theory{chance}. "
    return [text + _reason(runs[k], gap, error_k, d, cause) + others]


def _reason(runs: Sequence[Run], gap: float, error: float, d: int, cause: str) -> str:
    """Return the likely reason why a mean is far from theory."""
    failed = [run for run in runs if not run.status.ok]
    size = f"finite size: theory is the limit of large d, and d = {d}"
    if cause:
        return f"{cause[0].upper()}{cause[1:]}. Or {size}"
    if failed:
        statuses = ", ".join(sorted({str(run.status) for run in failed}))
        return f"{len(failed)} of {len(runs)} runs ended as {statuses}. Or {size}"
    if len(runs) == 1:
        return f"One instance has no standard error: add instances. Or {size}"
    interval = confidence_factor(len(runs)) * error
    if gap <= interval:
        return f"The 95 % interval of {len(runs)} instances is +- {interval:.2g}: add instances. Or {size}"
    return f"The distance exceeds the 95 % interval of {len(runs)} instances. Likely cause: {size}"
