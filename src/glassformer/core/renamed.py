"""Words that have a new name: one table for Python, the command line and sweep files.

An old word is an error that says the new one; none of them works any more.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import ParamSpec, Self, TypeVar

from glassformer.core.errors import RenamedError

RENAMED = {
    # Public functions and classes.
    "follow": "trajectory",
    "follow_branches": "hysteresis",
    "Iteration": "Accuracy",
    "run_sweep": "Sweep.run",
    "collect": "Sweep.collect",
    "AbsoluteChannel": "glassformer.channels.AbsoluteChannel",
    "GaussianChannel": "glassformer.channels.GaussianChannel",
    "LinkChannel": "glassformer.channels.LinkChannel",
    "ScalarChannel": "glassformer.channels.ScalarChannel",
    "SignChannel": "glassformer.channels.SignChannel",
    "DataError": "glassformer.errors.DataError",
    "DataWarning": "glassformer.errors.DataWarning",
    "ParameterError": "glassformer.errors.ParameterError",
    "DenseDesign": "glassformer.designs.DenseDesign",
    "EstimatedModel": "glassformer.data_analysis.EstimatedModel",
    "cross_validate": "glassformer.data_analysis.cross_validate",
    "diagnose": "glassformer.data_analysis.diagnose",
    "estimate_model": "glassformer.data_analysis.estimate_model",
    "leave_one_out": "glassformer.data_analysis.leave_one_out",
    "risk_path": "glassformer.data_analysis.risk_path",
    "RectangularLaw": "glassformer.laws.RectangularLaw",
    "SymmetricLaw": "glassformer.laws.SymmetricLaw",
    "nuclear_norm_threshold": "glassformer.laws.nuclear_norm_threshold",
    "Solution": "glassformer.results.Solution",
    "Table": "glassformer.results.Table",
    "MatrixPenalty": "glassformer.penalties.ElasticNet",
    "WeightPenalty": "glassformer.penalties.ElasticNet",
    "RowPenalty": "glassformer.penalties.Penalty",
    "row_penalty": "glassformer.penalties.penalty_of",
    "gamp": "glassformer.learners.gamp.gamp",
    "vamp": "glassformer.learners.vamp.vamp",
    "least_nuclear_norm": "glassformer.learners.nuclear_norm.least_nuclear_norm",
    "ridge_error": "glassformer.learners.ridge.ridge_error",
    "best_nuclear_norm": "glassformer.risk.nuclear_norm.best_nuclear_norm",
    "nuclear_norm_risk": "glassformer.risk.nuclear_norm.nuclear_norm_risk",
    "conjugate_overlap": "glassformer.bayes_optimal.conjugate_overlap.conjugate_overlap",
    "state_evolution": "glassformer.bayes_optimal.solve.state_evolution",
    "subspace_threshold": "glassformer.bayes_optimal.staircase.subspace_threshold",
    "vector_state_evolution": "glassformer.bayes_optimal.vector_state_evolution.vector_state_evolution",
    "online_sgd": "glassformer.dynamics.online_sgd.online_sgd",
    # Arguments of functions and classes.
    "algorithm=": "learner=",
    "settings=": "learner=, an object with its settings",
    "points=": "an argument of functions such as limits: accuracy=glassformer.Accuracy(points=...)",
    "tolerance=": "an argument of functions such as limits: accuracy=glassformer.Accuracy(tolerance=...)",
    "max_iterations=": "an argument of functions such as limits: accuracy=glassformer.Accuracy(max_iterations=...)",
    "trajectories=": "an argument of functions such as limits: accuracy=glassformer.Accuracy(trajectories=...)",
    "landscape points=": "overlaps=",
    "overlap=": "start=, for instance start='overlap:0.3'",
    "DeepAttention tied=": "untied=, the opposite",
    "convention=": "left out: steps always descend the sum of the losses, and SGD.published(d) is that of the paper",
    "nesterov=": 'momentum="nesterov:0.9"',
    "init=": 'start="prior" or start="small:0.001"',
    "small=": 'start="small:0.001"',
    "SGD overlap=": 'start="overlap:0.3"',
    "OnlineSGD overlap=": 'start="overlap:0.3"',
    "SGD looks=": "record_every=, the steps between two entries of the history",
    "OnlineSGD looks=": "record_every=, the steps between two entries of the history",
    "GradientDescent starts=": "initialisations=",
    "GradientDescent max_steps=": "steps=",
    "RegularisedRisk start=": "branch=",
    "RowRisk start=": "branch=",
    "Sweep compute=": "verb=",
    "Sweep simulation=": "runs=",
    "Sweep settings=": "learner=, a name with settings, for instance {'name': 'risk', 'strength': 0.1}",
    # Tables and entries of the files of sweeps.
    "[simulate]": "[runs]",
    "[settings]": "[learner], a name with settings",
    "sweep compute": "verb",
    "sweep learner": "name in the table [learner]",
    "runs learner": "name in the table [learner]",
    "runs algorithm": "name in the table [learner]",
    # Options of the command line.
    "--data-points": "--points",
    "--field-points": "--points",
    "trajectory --overlap": "--start overlap:X",
    "trajectory --start-overlap": "--start overlap:X",
    "--algorithm": "--learner",
    "landscape --points": "--overlaps",
    "plan --target-error": "--target",
    "plan --error": "--target",
    "plan --target-label-error": "--target ... --quantity label_error",
    "simulate --theory-alpha": "compare ... --run-alpha",
    "--convention": "left out: steps always descend the sum of the losses (the paper's: --learner sgd:published)",
    "--gradient-steps": "--steps",
    "--init": "--start prior or --start small:0.001",
    "--small": "--start small:0.001",
    "--start-overlap": "--start overlap:0.3",
    "--looks": "--record-every, the steps between two entries of the history",
    "--starts": "--initialisations",
    "--nesterov": "--momentum nesterov:0.9",
}
"""What to write now, by the old word: a name, an argument ``NAME=``, an option ``--NAME``, a table ``[NAME]``.

A word that is old in one place alone has the place in front of it: ``landscape --points``, ``SGD start=``.
"""


def new_word(word: str, *places: str) -> str | None:
    """Return what replaces an old word; None for a word that is not old.

    Args:
        word: the word.
        places: where it was given, such as a command or a class, the closest first.

    Example:
        >>> new_word("--algorithm", "simulate")
        '--learner'
        >>> new_word("--learner") is None
        True
    """
    keys = (*(f"{place} {word}" for place in places), word)
    return next((RENAMED[key] for key in keys if key in RENAMED), None)


def renamed(word: str, *places: str) -> str | None:
    """Return the sentence on an old word; None for a word that is not old.

    Example:
        >>> renamed("follow")
        'follow is now trajectory'
    """
    new = new_word(word, *places)
    return None if new is None else f"{word.rstrip('=')} is now {new.rstrip('=')}"


P = ParamSpec("P")
R = TypeVar("R")


def refuse_old_arguments(given: Iterable[str], *places: str) -> None:
    """Raise if an argument has a name that is old.

    Args:
        given: names of the arguments.
        places: the function or class, and those it derives from.

    Raises:
        RenamedError: it says the new name.

    Example:
        >>> refuse_old_arguments(["algorithm"], "simulate")
        Traceback (most recent call last):
        ...
        glassformer.core.errors.RenamedError: algorithm is now learner
    """
    for name in given:
        sentence = renamed(f"{name}=", *places)
        if sentence is not None:
            raise RenamedError(sentence)


class WithRenamedArguments:
    """A data class whose constructor says the new name of an argument whose name is old."""

    def __new__(cls, *arguments: object, **named: object) -> Self:
        # Before the constructor, which would not know the name.
        old = named.keys() - getattr(cls, "__dataclass_fields__", {}).keys()
        if old:
            refuse_old_arguments(sorted(old), *(kind.__name__ for kind in cls.__mro__))
        return super().__new__(cls)


def verb(function: Callable[P, R]) -> Callable[P, R]:
    """Return a public function that says the new name of an argument whose name is old, and which ones it needs."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def called(*arguments: P.args, **named: P.kwargs) -> R:
        try:
            signature.bind(*arguments, **named)
        except TypeError as error:
            refuse_old_arguments(named, function.__name__)
            call = ", ".join(str(one) for one in signature.parameters)
            raise TypeError(f"{function.__name__}: {error}; its arguments are {call}") from None
        return function(*arguments, **named)

    return called
