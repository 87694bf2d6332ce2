"""Thresholds against a parameter of the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from glassformer.core.checks import require_arguments
from glassformer.core.display import DisplayMixin, heading
from glassformer.core.errors import ParameterError
from glassformer.core.options import options_in, values_of
from glassformer.core.progress import track
from glassformer.core.results import plain
from glassformer.models.base import Model, require_theory
from glassformer.state_evolution.thresholds import Thresholds, thresholds


@dataclass(frozen=True, eq=False)
class PhaseDiagram(DisplayMixin):
    """Thresholds at each value of one parameter.

    Attributes:
        model: short name of the model.
        parameter: the parameter that varies.
        values: its values.
        thresholds: what :func:`~glassformer.state_evolution.thresholds.thresholds` finds at each.
    """

    model: str
    parameter: str
    values: Sequence[float]
    thresholds: Sequence[Thresholds]
    drawing = "plot_phase_diagram"

    @property
    def title(self) -> str:
        return heading(self.model, self.parameters)

    @property
    def parameters(self) -> dict[str, Any]:
        """Of the model, those that stand still."""
        return {name: value for name, value in self.thresholds[0].parameters.items() if name != self.parameter}

    @property
    def names(self) -> list[str]:
        """Of all thresholds, in order: a layer more may bring more of them."""
        return list(dict.fromkeys(entry.name for one in self.thresholds for entry in one.entries))

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per threshold and value."""
        return [
            {self.parameter: value, "threshold": entry["name"], **{k: v for k, v in entry.items() if k != "name"}}
            for value, found in zip(self.values, self.thresholds, strict=True)
            for entry in found.to_dict()["thresholds"]
        ]

    def curve(self, name: str) -> np.ndarray[Any, Any]:
        """Sample ratio of the threshold ``name`` at each value; NaN where there is none, or none that is finite."""
        alpha = self._of_threshold(name, "alpha")
        return np.where(np.isfinite(alpha), alpha, np.nan)

    def curve_error(self, name: str) -> np.ndarray[Any, Any]:
        """Absolute errors of :meth:`curve`."""
        return self._of_threshold(name, "error_estimate")

    def _of_threshold(self, name: str, field: str) -> np.ndarray[Any, Any]:
        found = [[getattr(entry, field) for entry in one.entries if entry.name == name] for one in self.thresholds]
        return np.array([values[0] if values else np.nan for values in found], dtype=float)

    def to_dict(self) -> dict[str, Any]:
        """The diagram as the command line writes it in JSON."""
        fixed = plain(self.parameters)
        return {"model": self.model, "parameters": fixed, "parameter": self.parameter, "points": self.rows()}

    def display_frame(self) -> Any:
        """Ratios that are never reached as infinite, those that do not apply as not known."""
        return self.to_pandas().assign(alpha=[entry.alpha for found in self.thresholds for entry in found.entries])

    def to_pandas(self) -> Any:
        """A data frame with one row per threshold and value."""
        import pandas

        return pandas.DataFrame(self.rows())


def phase_diagram(model: Model, parameter: str, values: ArrayLike) -> PhaseDiagram:
    """Thresholds of a model as one of its parameters takes several values.

    Args:
        model: where all other parameters are taken from.
        parameter: name of a field of the model, for instance ``"skip"``.
        values: what it takes, shape (points,); whole numbers for a parameter that takes no others, as ``"depth"``.

    Raises:
        ParameterError: no such parameter, a value that it does not allow, or one value twice.
        IncompatibleError: values that do not go with the model, as noise where the channel has no closed form with it.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> diagram = phase_diagram(BilinearSequenceRegression(beta=1, rho=0.5), "rho", [0.25, 0.5])
        >>> diagram.curve("perfect_recovery")
        array([0.4375, 0.75  ])
    """
    require_arguments(phase_diagram, locals())
    if parameter not in {field.name for field in fields(cast(Any, model))}:
        raise ParameterError("parameter", parameter, f"a parameter of {type(model).__name__}")
    listed = values_of(options_in(type(model)), parameter, values)
    if not listed or len(set(listed)) < len(listed):
        raise ParameterError(parameter, listed, "at least one value, all of them different")
    models = [model.varied(**{parameter: value}) for value in listed]
    for one in models:
        require_theory(one)
    found = [thresholds(one) for one in track(models, f"thresholds over {parameter}")]
    return PhaseDiagram(model.name, parameter, listed, found)
