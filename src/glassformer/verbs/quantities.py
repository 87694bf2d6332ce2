"""Quantities that have a target or are compared: columns of the limits of a learner."""

from __future__ import annotations

from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.results import Table
from glassformer.learners.base import Theory

QUANTITIES = (
    *("error", "label_error", "prediction_error", "plugin_error", "label_mse", "label_brier", "test_loss"),
    *("test_error", "new_task_error", "training_error"),
)
"""Quantities that may have a target or be compared: columns of the limits of a learner."""


def require_quantity(quantity: str) -> None:
    """Raise unless there is such a quantity.

    Example:
        >>> require_quantity("eror")
        Traceback (most recent call last):
        ...
        glassformer.core.errors.ParameterError: quantity = 'eror' is not allowed: expected one of error, label_error, \
prediction_error, plugin_error, label_mse, label_brier, test_loss, test_error, new_task_error, training_error; did you \
mean error?
    """
    if quantity not in QUANTITIES:
        raise ParameterError("quantity", quantity, f"one of {', '.join(QUANTITIES)}")


def column_of(quantity: str, theory: Theory, table: Table) -> str:
    """Return the column of a quantity in the limits of a learner.

    Of linear labels of one matrix the error of predictions is that of the signal.

    Args:
        quantity: the quantity.
        theory: of the learner.
        table: its limits.

    Raises:
        IncompatibleError: the limits do not have it.
    """
    if quantity in table.columns:
        return quantity
    if quantity == "prediction_error" and theory.model.channel.labels.linear:
        return "error"
    available = " or ".join(name for name in QUANTITIES if name in table.columns)
    raise IncompatibleError(
        f"quantity = {quantity} is not among the limits of {theory.learner.name} on {theory.model.name} (channel "
        f"{theory.model.channel.label}): use {available}"
    )
