"""Phase diagrams: thresholds as functions of one parameter of the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from glassformer.bayes_optimal.expected_time import expected_work
from glassformer.bayes_optimal.threshold_results import Thresholds
from glassformer.core.accuracy import Accuracy
from glassformer.core.checks import require_arguments
from glassformer.core.display import DisplayMixin, heading
from glassformer.core.errors import ParameterError
from glassformer.core.options import options_in, values_of
from glassformer.core.progress import progress, track
from glassformer.core.renamed import verb
from glassformer.core.results import to_json_types
from glassformer.learners.base import Learner
from glassformer.learners.registry import names, resolve_learner
from glassformer.models.base import Model, require_one_unit, require_theory
from glassformer.verbs.thresholds import thresholds


@dataclass(frozen=True, eq=False)
class PhaseDiagram(DisplayMixin):
    """Thresholds at each value of one parameter.

    Attributes:
        model: short name of the model.
        parameter: name of the parameter that varies.
        values: values of this parameter.
        thresholds: thresholds of the model at each value.
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
        """Parameters of the model that do not vary."""
        return {
            name: value
            for name, value in self.thresholds[0].parameters.items()
            if name != self.parameter.partition(".")[0]
        }

    @property
    def names(self) -> list[str]:
        """Names of all thresholds, in order; their number may depend on the parameter."""
        return list(dict.fromkeys(entry.name for one in self.thresholds for entry in one.entries))

    def rows(self) -> list[dict[str, Any]]:
        """Return one dictionary per threshold and value."""
        return [
            {self.parameter: value, "threshold": entry["name"], **{k: v for k, v in entry.items() if k != "name"}}
            for value, one in zip(self.values, self.thresholds, strict=True)
            for entry in one.to_dict()["thresholds"]
        ]

    def curve(self, name: str) -> np.ndarray[Any, Any]:
        """Return the sample ratio of the threshold ``name`` at each value, NaN where it is infinite or undefined."""
        alpha = self._of_threshold(name, "alpha")
        return np.where(np.isfinite(alpha), alpha, np.nan)

    def curve_error(self, name: str) -> np.ndarray[Any, Any]:
        """Return the absolute errors of :meth:`curve`."""
        return self._of_threshold(name, "error_estimate")

    def _of_threshold(self, name: str, field: str) -> np.ndarray[Any, Any]:
        values_by_point = [
            [getattr(entry, field) for entry in one.entries if entry.name == name] for one in self.thresholds
        ]
        return np.array([values[0] if values else np.nan for values in values_by_point], dtype=float)

    def to_dict(self) -> dict[str, Any]:
        """Return the diagram as the command line writes it in JSON."""
        fixed = to_json_types(self.parameters)
        return {"model": self.model, "parameters": fixed, "parameter": self.parameter, "points": self.rows()}

    def display_frame(self) -> Any:
        """Return the data frame with infinite ratios for thresholds never reached, and NaN for undefined ones."""
        return self.to_pandas().assign(alpha=[entry.alpha for one in self.thresholds for entry in one.entries])

    def to_pandas(self) -> Any:
        """Return a data frame with one row per threshold and value."""
        import pandas

        return pandas.DataFrame(self.rows())


@verb
def phase_diagram(
    model: Model,
    parameter: str,
    values: ArrayLike,
    learner: str | Learner = "gamp",
    *,
    accuracy: Accuracy | None = None,
) -> PhaseDiagram:
    """Return the thresholds of a learner at several values of one of the parameters of a model.

    Args:
        model: model with all other parameters.
        parameter: name of a field of the model, for instance ``"skip"``, or of a field of one of its parts, for
            instance ``"inputs.signal"``.
        values: values of the parameter, shape (points,); integers for integer parameters, for instance ``"depth"``.
        learner: a learner whose thresholds are known, or its name.
        accuracy: points of sampled averages.

    Raises:
        ParameterError: there is no such parameter, or a value is not allowed or given twice.
        IncompatibleError: a value is incompatible with the model, for instance noise for a noiseless channel, or the
            values have sample ratios in different units (``rho = 0`` beside others).

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> diagram = phase_diagram(BilinearSequenceRegression(beta=1, rho=0.5), "rho", [0.25, 0.5])
        >>> diagram.curve("perfect_recovery")
        array([0.4375, 0.75  ])
    """
    require_arguments(phase_diagram, locals())
    if parameter.partition(".")[0] not in {field.name for field in fields(cast(Any, model))}:
        raise ParameterError("parameter", parameter, f"a parameter of {type(model).__name__}")
    listed = values_of(options_in(type(model)), parameter, values)
    if not listed or len(set(listed)) < len(listed):
        raise ParameterError(parameter, listed, "at least one value, all of them different")
    models = [model.varied(**{parameter: value}) for value in listed]
    for one in models:
        if not resolve_learner(learner).theory(one).of_features:
            require_theory(one)
    require_one_unit(parameter, listed, models)
    optimal = resolve_learner(learner).name == names()[0]
    works = [expected_work(one, "thresholds", one.prior.rows) if optimal else None for one in models]
    if None in works:
        results = [thresholds(one, learner, accuracy=accuracy) for one in track(models, f"thresholds over {parameter}")]
    else:
        with progress(f"thresholds over {parameter}", sum(work or 0.0 for work in works)):
            results = [thresholds(one, learner, accuracy=accuracy) for one in models]
    return PhaseDiagram(model.name, parameter, listed, results)
