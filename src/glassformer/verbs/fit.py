"""An estimate from one's own data, and its predictions."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from glassformer.core.accuracy import Accuracy
from glassformer.core.checkpoints import Checkpoint, CheckpointFolder
from glassformer.core.checks import is_whole, require_arguments
from glassformer.core.errors import ConvergenceError, DataWarning, ParameterError
from glassformer.core.estimate import Array
from glassformer.core.files import user_path
from glassformer.core.hashing import identity
from glassformer.core.renamed import verb
from glassformer.core.status import Status
from glassformer.designs.base import Design
from glassformer.learners.base import FitResult, Learner
from glassformer.learners.data_assumptions import violations
from glassformer.learners.data_set import DataSet
from glassformer.learners.data_validation import design_of, validate_data
from glassformer.learners.registry import require_compatible
from glassformer.models.base import Model
from glassformer.priors.base import Side
from glassformer.verbs.question import asked


@dataclass(frozen=True, eq=False)
class Fit:
    """What a learner found in data.

    Attributes:
        model: the assumed model of the labels.
        learner: the learner, with all its settings.
        result: estimates, status, and what else the learner reports.
    """

    model: Model
    learner: Learner
    result: FitResult = field(repr=False)

    @property
    def status(self) -> Status:
        """Status of the fit."""
        return self.result.status

    @property
    def converged(self) -> bool:
        """Whether the fit converged."""
        return self.status.ok

    @property
    def estimate(self) -> Array:
        """The estimate of the signal, the mean of equally good ones."""
        return np.asarray(np.mean(self.result.estimates, axis=0))

    @property
    def claimed_error(self) -> float | None:
        """The learner's own estimate of the error of its estimate, if it has one."""
        return self.result.claimed_error

    def predict(self, X: Design | ArrayLike) -> Array:
        """Return the labels of new inputs, shape (samples, ...): the most probable ones, or their posterior means.

        Args:
            X: inputs, of the same sizes as those that were fitted.

        Raises:
            DataError: the inputs have a wrong type or shape, or are not finite.
        """
        return self.result.predicted(self.model, design_of(self.model, X))


@verb
def fit(
    model: Model,
    X: Design | ArrayLike,
    y: ArrayLike,
    learner: str | Learner = "gamp",
    *,
    seed: int = 0,
    side: Side | None = None,
    checkpoint: str | Path | None = None,
    throw: bool = True,
    accuracy: Accuracy | None = None,
) -> Fit:
    r"""Return what a learner finds in data, with predictions for new inputs.

    The estimators of :mod:`glassformer.sklearn` also choose scales, noise and strengths by themselves.

    Args:
        model: the assumed model of the labels.
        X: inputs, an array of shape (samples, tokens, d) (for untied attention the query tokens before the key tokens),
            or a :class:`~glassformer.designs.base.Design`. The type float32 is preserved.
        y: labels as the model draws them, shape (samples, ...). Booleans become +1 and -1 for channels with these
            labels, and 1 and 0 otherwise.
        learner: a learner or its name.
        seed: of everything random in the learner.
        side: side information on the signal, for models that have it.
        checkpoint: a folder for the state of training in progress, from which the same call continues.
        throw: raise an error if the fit did not converge. The error carries the fit.
        accuracy: tolerance and iteration limit of the fit, and points of sampled scores.

    Returns:
        :class:`Fit` with ``estimate``, ``status``, ``claimed_error`` and ``predict``.

    Warns:
        DataWarning: inputs are not independent standard normal numbers, which learners with a theory assume.

    Raises:
        DataError: inputs or labels are not finite numbers, or do not match each other or the model.
        IncompatibleError: the learner cannot run on this model.
        ConvergenceError: with ``throw``, the fit did not converge.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> rng = np.random.default_rng(0)
        >>> model = BilinearSequenceRegression(beta=1, rho=0.2, noise=0.1)
        >>> signal, X = model.prior.sample((20, 20), rng), rng.standard_normal((500, 20, 20))
        >>> y = np.einsum("nld,ld->n", X, signal) / 20 + 0.1**0.5 * rng.standard_normal(500)
        >>> found = fit(model, X[:400], y[:400])
        >>> bool(np.mean((found.predict(X[400:]) - y[400:]) ** 2) < 0.3 * np.var(y[400:]))
        True
    """
    require_arguments(fit, locals(), but=("X", "y"))
    if not is_whole(seed, 0):
        raise ParameterError("seed", seed, "an integer >= 0")
    model, chosen = asked(model, learner, accuracy, "fit")
    require_compatible(chosen, model)
    design, labels = validate_data(model, X, y)
    chosen = chosen.completed(model)
    for finding in violations(next(design.parts(0))):
        warnings.warn(str(finding), DataWarning, stacklevel=3)
        break
    kept = _checkpoint(checkpoint, model, chosen, design, labels[0], seed)
    found = chosen.learn(model, DataSet(design, labels[0], seed, kept, side))
    kept.clear()
    result = Fit(model, chosen, found)
    if throw and not found.status.ok:
        raise ConvergenceError(found.status, result)
    return result


def _checkpoint(folder: str | Path | None, *parts: Any) -> Checkpoint:
    """Return the checkpoint of everything that determines a fit."""
    if folder is None:
        return Checkpoint()
    keeper = CheckpointFolder(user_path(folder))
    return Checkpoint(None if keeper.folder is None else keeper.folder / f"{identity(*parts)}.npz")
