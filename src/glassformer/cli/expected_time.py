"""Refusal of commands that take long, before they start, with the time that they would take."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from glassformer.core.errors import ParameterError

if TYPE_CHECKING:
    from glassformer.models.base import Model

# Longest time, in seconds, of a command that starts without being asked to (a convention).
_LONGEST = 600.0
# Sizes of a model that may be to blame for a long time.
_SIZES = ("depth", "heads", "tokens", "layers", "indices")


def require_short_time(
    options: argparse.Namespace, model: Model, seconds: float, varied: str = "alpha", values: int = 1
) -> None:
    """Raise if a command is expected to take more than ten minutes, unless the number of data points is given.

    Args:
        options: those of the command.
        model: the model with these options.
        seconds: expected time.
        varied: parameter with several values, one result each.
        values: their number. It is to blame where one result alone would not take long.

    Raises:
        ParameterError: it would take longer; the message has the time and the remedies.
    """
    if seconds <= _LONGEST or getattr(options, "accuracy_points", None) is not None:
        return
    sizes = {name: getattr(model, name) for name in _SIZES if hasattr(options, f"model_{name}")}
    if hasattr(options, "instances"):
        # Runs take as long as they have samples.
        sizes["alpha"] = max(options.alpha)
    if seconds / values <= _LONGEST and values > max(sizes.values()):
        sizes = {varied: f"<{values} values>"}
    name = max(sizes, key=sizes.__getitem__)
    needed = f"{seconds / 60:.0f} minutes" if seconds < 2 * 3600 else f"{seconds / 3600:.3g} hours"
    expected = f"at most {_LONGEST / 60:.0f} minutes of computing (about {needed} needed, on all cores)"
    smaller = "a smaller d, fewer instances, " if hasattr(options, "instances") else ""
    smaller += "fewer values, " if values > 1 else ""
    remedy = f"use {smaller}fewer layers, heads, tokens or --points; to wait, give --points {model.accurate('points')}"
    raise ParameterError(name, sizes[name], expected, remedy)
