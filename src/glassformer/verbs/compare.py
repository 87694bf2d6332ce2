"""Several learners on one model: their errors in theory and in runs, in one table and one picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from glassformer.bayes_optimal.solve import validated_alpha
from glassformer.channels.labelling import is_predictable
from glassformer.core.accuracy import Accuracy, refuse_unused
from glassformer.core.checks import require_arguments
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.estimate import Array
from glassformer.core.renamed import verb
from glassformer.core.results import Table, error_column
from glassformer.core.status import Status
from glassformer.learners.base import Learner, Theory, accuracy_used
from glassformer.learners.labels import learner_label, settings_label
from glassformer.learners.registry import require_compatible, resolve_learner
from glassformer.models.base import Model
from glassformer.verbs.instances import Simulation
from glassformer.verbs.quantities import QUANTITIES, column_of, require_quantity
from glassformer.verbs.simulate import simulate

# Ratios at which runs are done where none are given.
_RUNS = 6
# What the curves of message passing are called in a legend.
_NAMES = {"bayes_optimal": "Bayes-optimal", "message_passing": "message passing"}


class ComparedCurve(NamedTuple):
    """One curve, or the marks of runs of one learner.

    Attributes:
        label: in legends.
        runs: whether they are runs.
        alpha: sample ratios.
        value: the quantity.
        bar: its error estimate in theory, its standard error in runs.
        status: of each ratio.
    """

    label: str
    runs: bool
    alpha: Array
    value: Array
    bar: Array
    status: Sequence[Status]


@dataclass(frozen=True, eq=False, kw_only=True)
class Comparison(Table):
    """Errors of several learners, a :class:`~glassformer.core.results.Table` of one row per learner and sample ratio.

    Its columns are ``alpha``, ``learner`` (as in the legend), ``kind`` (``theory`` or ``runs``), the quantity, and
    ``bar``: the error estimate of theory, the standard error of runs.

    Attributes:
        quantity: what is compared.
        curves: the curves of theory and the marks of runs, in the order of the learners.
    """

    quantity: str
    curves: tuple[ComparedCurve, ...]
    drawing = "plot_comparison"


@verb
def compare(
    model: Model,
    alpha: ArrayLike,
    learners: Sequence[Any],
    *,
    d: int | None = None,
    run_alpha: ArrayLike | None = None,
    instances: int = 4,
    seed: int = 0,
    quantity: str = "error",
    throw: bool = False,
    accuracy: Accuracy | None = None,
) -> Comparison:
    """Return what several learners reach: their theory and, at a size ``d``, runs on data.

    Args:
        model: the teacher.
        alpha: sample ratios of theory, shape (points,).
        learners: a list of learners, their names, or training of one's own (a function ``fit(X, y, rng) -> predict``
            or an estimator). Message passing, ``"gamp"``, is drawn with the Bayes-optimal error, from which its own
            differs in a hard phase.
        d: token dimension of runs; None for theory alone.
        run_alpha: sample ratios of runs; by default six of ``alpha``.
        instances: independent runs per sample ratio.
        seed: of the first instance.
        quantity: ``"error"``, or ``"label_error"``, ``"prediction_error"`` and others that all learners have.
        throw: raise an error if a row did not converge. The error carries the table.
        accuracy: tolerances and sizes of samples; values that a learner does not have are left out for it.

    Returns:
        :class:`Comparison`, whose ``plot`` draws each learner in a colour of its own. Notes say which learners have no
        theory.

    Raises:
        ParameterError: an argument is out of range.
        IncompatibleError: a learner cannot run on this model, or has neither theory nor runs.
        ConvergenceError: with ``throw``, a row did not converge.

    Example:
        >>> from glassformer import BilinearSequenceRegression, Ridge
        >>> model = BilinearSequenceRegression(beta=1, rho=0.3, noise=0.1)
        >>> found = compare(model, [0.5, 1.0], ["gamp", Ridge(), "nuclear-norm"])
        >>> found.to_pandas().pivot(index="alpha", columns="learner", values="error").round(3).columns.tolist()
        ['Bayes-optimal', 'nuclear norm, best strength', 'ridge, strength 0.1']
    """
    require_arguments(compare, locals(), but=("d",))
    if not learners:
        raise ParameterError("learners", learners, "a list of learners, such as ['gamp', Ridge()]")
    require_quantity(quantity)
    ratios, own = validated_alpha(alpha), model.at_accuracy(accuracy)
    chosen = [resolve_learner(one, d).at_accuracy(accuracy) for one in learners]
    used = {*model.accuracy_defaults, *(name for one in chosen for name in accuracy_used(one, "compare"))}
    refuse_unused(accuracy, used, f"{', '.join(one.name for one in chosen)} on {model.name}")
    _require_claims(quantity, model, chosen)
    if d is None and run_alpha is not None:
        raise IncompatibleError("run_alpha is for runs: give their token dimension d")
    _require_runs_or_theory(own, chosen, d)
    places = _places(ratios) if run_alpha is None else validated_alpha(run_alpha)
    curves, notes, tables = list[ComparedCurve](), list[str](), list[Table]()
    for learner in chosen:
        label = _NAMES["message_passing"] if learner.name == "gamp" else settings_label(learner)
        try:
            theory = learner.theory(own)
            # Message passing begins without data, others need some.
            table = theory.limits(ratios if learner.info.family == "Bayes-optimal" else ratios[ratios > 0])
            label = learner_label(table.parameters) if "penalty" in table.parameters else label
            curves += _of_theory(theory, table, column_of(quantity, theory, table), label)
            tables.append(table)
        except IncompatibleError as error:
            if d is None:
                raise
            notes.append(f"no theory of {learner.name}: {error}")
        if d is not None:
            runs = simulate(own, places, learner, d=d, instances=instances, seed=seed)
            curves.append(_of_runs(learner, runs, quantity, label))
            tables.append(runs)
    notes += dict.fromkeys(note for table in tables for note in table.notes)
    found = _table(own, quantity, tuple(_named(curves)), notes, {"d": d, "instances": instances, "seed": seed})
    if throw:
        found.raise_unless_converged(accepted=(Status.CONVERGED, Status.BISTABLE))
    return found


def _require_claims(quantity: str, model: Model, learners: Sequence[Learner]) -> None:
    """Raise, before anything is computed, for the error of a signal that training of one's own does not claim."""
    allowed = {"label_error": model.channel.labels.discrete, "prediction_error": is_predictable(model.channel)}
    own = next((one for one in learners if one.info.family == "own"), None)
    if own is not None and not allowed.get(quantity, False):
        there = " or ".join(name for name, has in allowed.items() if has) or "none: labels have no error here"
        raise ParameterError("quantity", quantity, f"{there} beside {own.name}, which predicts labels")


def _require_runs_or_theory(model: Model, learners: Sequence[Learner], d: int | None) -> None:
    """Raise, before anything is computed, for a learner that cannot run, or without runs for one without theory."""
    for learner in learners:
        if d is None:
            learner.theory(model)
        else:
            require_compatible(learner, model)


def _places(ratios: Array) -> Array:
    """Return some of the ratios, all of them positive."""
    positive = ratios[ratios > 0]
    if len(positive) <= _RUNS:
        return positive
    return np.asarray(positive[np.unique(np.linspace(0, len(positive) - 1, _RUNS).round().astype(int))])


def _of_theory(theory: Theory, table: Table, quantity: str, label: str) -> list[ComparedCurve]:
    """Return the curves of a learner, the second one of message passing where it differs from the first."""
    optimal = "algorithmic_error" in table.columns
    curves = list[ComparedCurve]()
    for name, (value, known, estimate) in theory.curves(table, quantity).items():
        if not optimal:
            label_here = label
        elif name == "bayes_optimal" or np.max(np.abs(value - curves[0].value)) > 1e-6:
            label_here = _NAMES[name]
        else:
            continue
        exact = known is not value and error_column(quantity, "standard_error") not in table.columns
        bar = table.columns.get(error_column(quantity, "standard_error"), np.zeros_like(value) if exact else estimate)
        curves.append(ComparedCurve(label_here, False, table["alpha"], value, bar, table.status))
        if not optimal:
            break
    return curves


def _of_runs(learner: Learner, runs: Simulation, quantity: str, label: str) -> ComparedCurve:
    """Return the marks of the runs of a learner."""
    if quantity not in runs.columns:
        available = [name for name in QUANTITIES if name in runs.columns]
        raise ParameterError("quantity", quantity, f"one of {', '.join(available)} for runs of {learner.name}")
    bar = runs[error_column(quantity, "standard_error")]
    return ComparedCurve(label, True, runs["alpha_realised"], runs[quantity], bar, runs.status)


def _named(curves: Sequence[ComparedCurve]) -> list[ComparedCurve]:
    """Return curves with numbers after labels that are equal."""
    count, seen = Counter((one.label, one.runs) for one in curves), Counter[tuple[str, bool]]()
    named = []
    for one in curves:
        key = (one.label, one.runs)
        seen[key] += 1
        named.append(one._replace(label=f"{one.label} ({seen[key]})") if count[key] > 1 else one)
    return named


def _table(
    model: Model, quantity: str, curves: tuple[ComparedCurve, ...], notes: list[str], sizes: dict[str, Any]
) -> Comparison:
    repeated = [np.full(len(one.alpha), one.label, dtype=object) for one in curves]
    kinds = [np.full(len(one.alpha), "runs" if one.runs else "theory", dtype=object) for one in curves]
    return Comparison(
        model=model.name,
        parameters={**model.parameters, **({} if sizes["d"] is None else sizes), "quantity": quantity},
        columns={
            "alpha": np.concatenate([one.alpha for one in curves]),
            "learner": np.concatenate(repeated),
            "kind": np.concatenate(kinds),
            quantity: np.concatenate([one.value for one in curves]),
            "bar": np.concatenate([one.bar for one in curves]),
        },
        status=[status for one in curves for status in one.status],
        notes=notes,
        quantity=quantity,
        curves=curves,
    )
