"""Base classes and common settings of the learners that descend gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.settings import positive, setting
from glassformer.learners.base import Learner

# Default size of a small initialisation.
_SMALL = 1e-3


class Descent(Learner):
    """Gradient descent from a random start."""

    trained_property: ClassVar[str]
    """Property of a model that defines what is trained; it raises an error for models that cannot be trained."""
    init: str
    small: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.init == "prior" and self.small != _SMALL:
            raise ParameterError("small", self.small, "no value with init = prior", "give init = small as well")

    @property
    def initial_size(self) -> float:
        """Standard deviation of the initial parameters."""
        return 1.0 if self.init == "prior" else self.small

    def check(self, model: Any) -> None:
        # Raises an error for models that cannot be trained.
        getattr(model, self.trained_property)


class RowDescent(Descent):
    """Gradient descent on the rows of a model's weights, with the model's own label function."""

    trained_property: ClassVar[str] = "traceable_label"

    def check(self, model: Any) -> None:
        super().check(model)
        refuse_side_information(model)
        if model.prior.whitens:
            raise IncompatibleError(
                "needs unwhitened features, and those of a model with feature_spectrum are drawn whitened"
            )


def refuse_side_information(model: Any) -> None:
    """Raise for a model with side information: the learner learns from samples alone.

    Raises:
        IncompatibleError: there is some; the message completes the sentence "learner NAME ...".
    """
    if model.prior.side > 0:
        raise IncompatibleError(
            f"learns from samples only and cannot use side_information = {model.side_information:g}"
        )


def squared_errors(weights: Any, inputs: Any, labels: Any, link: Callable[[Any], Any]) -> Any:
    r"""Return :math:`\sum_\mu\|g(WX_\mu^T/\sqrt d) - y_\mu\|^2`, traceable, for labels of shape (samples, entries)."""
    import jax
    import jax.numpy as jnp

    fields = jnp.swapaxes(inputs @ weights.T, 1, 2) / np.sqrt(inputs.shape[-1])
    predicted = jax.vmap(link)(fields).reshape(len(inputs), -1)
    return jnp.sum((predicted - labels) ** 2)


def initialisation() -> Any:
    """Return the setting ``init``."""
    return setting("prior", "prior (as large as the teacher) or small", _check_initialisation)


def small_size() -> Any:
    """Return the setting ``small``."""
    return setting(_SMALL, "size of a small initialisation", positive)


def _check_initialisation(name: str, value: Any, optional: bool) -> None:
    del optional
    if value not in ("prior", "small"):
        raise ParameterError(name, value, "prior or small")
