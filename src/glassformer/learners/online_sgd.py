"""Stochastic gradient descent on the weights of a network, every sample seen once: equations, and runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from glassformer.core.checks import is_number
from glassformer.core.errors import IncompatibleError
from glassformer.core.settings import decay_rate, positive, positive_integer, setting, unit_interval
from glassformer.learners.base import FitResult
from glassformer.learners.descent import RowDescent, kind_of_start, small_start

if TYPE_CHECKING:
    from collections.abc import Sequence

    from glassformer.core.estimate import Array
    from glassformer.core.results import Table
    from glassformer.dynamics.online_sgd import Pace, Start
    from glassformer.learners.data_set import DataSet

# Cosine with which even labels begin where neither it nor a dimension is given: that of a guess in 10^6 dimensions.
_GUESS = 1e-3


@dataclass(frozen=True)
class OnlineSGD(RowDescent):
    r"""Gradient descent on batches of fresh samples: one pass, each sample seen once.

    Equation :eq:`online-sgd` of the documentation.

    Every step descends :math:`\frac1{2b}\sum_{\mu\in B}\|\hat y_\mu - y_\mu\|^2` by :math:`\eta` and shrinks the
    weights by :math:`\eta w/d`. After ``n`` samples the time is :math:`t = n/(bd) = \alpha/b`. The one pass ends with
    the samples: a run that does not diverge counts as converged, whatever it has learned. It diverges where the power
    of a row ends tenfold above the teacher's or the start's, and twice above what it was at half the time.

    Args:
        learning_rate: :math:`\eta`.
        batch: ``b``, samples per step.
        weight_decay: ``w``.
        init: ``"prior"``, standard normal weights, or ``"small"``, ``small`` times as large.
        small: size of a small initialisation.
        overlap: cosine similarity of the start with the truth, by an oracle; None for a random start.
        looks: entries of the history.
        points: sampled fields of each of eight sets in its equations, a power of two.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> import numpy as np
        >>> from glassformer import SequenceMultiIndex
        >>> model = SequenceMultiIndex(lambda z: z[:, 0], indices=2, points=32)  # error 2 exp(-(2 eta - eta^2/b) t)
        >>> OnlineSGD(learning_rate=0.5, batch=1, points=64).theory(model, np.array([0.0, 2.0])).round(3).tolist()
        [2.0, 0.446]
    """

    title: ClassVar[str] = "online stochastic gradient descent"
    papers: ClassVar[tuple[str, ...]] = ("saad1995on",)
    storages: ClassVar[tuple[str, ...]] = ("generated", "float64", "float32")
    follows_start: ClassVar[bool] = True
    instead: ClassVar[str] = "trajectory, which has its equations in time, or simulate"
    in_trajectory: ClassVar[tuple[str, ...]] = (
        "learning_rate",
        "batch",
        "weight_decay",
        "init",
        "small",
        "overlap",
        "points",
    )

    learning_rate: float = setting(1.0, "length of a step on the mean of a batch (default 1)", positive)
    batch: int = setting(4, "samples per step (default 4)", positive_integer)
    weight_decay: float = setting(
        0.0, "weight decay: steps shrink the weights by rate * decay / d (default 0)", decay_rate
    )
    init: str = kind_of_start()
    small: float = small_start()
    overlap: float | None = setting(
        None, "cosine of the start with the truth, by an oracle", unit_interval, "start_overlap"
    )
    looks: int = setting(50, "entries of the history", positive_integer)
    points: int = setting(
        2048, "sampled fields of each set in the equations, a power of two", positive_integer, "field_points"
    )

    @property
    def pace(self) -> Pace:
        """One step of it."""
        from glassformer.dynamics.online_sgd import Pace

        return Pace(self.learning_rate, self.batch, self.weight_decay)

    def theory(self, model: Any, alpha: Array, optimum: Table | None = None) -> Array | str:
        import numpy as np

        from glassformer.dynamics.online_sgd import online_sgd

        if self.overlap is None and model.channel.even:
            return "a random start of even labels is left in a time that grows with d: trajectory --d follows it"
        order = np.argsort(alpha)
        times = np.asarray(alpha, dtype=float)[order] / self.batch
        error = np.empty(len(times))
        error[order] = online_sgd(model, times, self.pace, self._start(model, None), self.points).error.value
        return error

    def trajectory(self, model: Any, alpha: Array, steps: int, overlap: Any = None) -> Table | str:
        from glassformer.dynamics.online_sgd import online_trajectory

        self.require(model)
        start = self._start(model, overlap) if overlap is None or is_number(overlap) else overlap
        return online_trajectory(model, alpha, steps, self.pace, start, self.points)

    def _start(self, model: Any, cosine: float | None) -> Start:
        """The start of a cosine, or of the learner's own; even labels never leave zero, and begin with a guess."""
        from glassformer.dynamics.online_sgd import cosine_start

        channel = model.channel
        asked = self._cosine(cosine)
        return cosine_start(channel.rows, _GUESS * channel.even if asked is None else asked, self.size)

    def followed(self, steps: int, overlap: float | None = None) -> OnlineSGD:
        return replace(self, looks=steps, overlap=self._cosine(overlap))

    def _cosine(self, given: float | None) -> float | None:
        if given is not None and self.overlap is not None:
            raise IncompatibleError(
                f"overlap = {given:g} and start_overlap = {self.overlap:g} exclude each other: both are of the start"
            )
        return self.overlap if given is None else given

    def beginning(
        self, model: Any, d: int, overlap: float | None, histories: Sequence[Sequence[dict[str, Any]]]
    ) -> Start:
        """Where the runs began."""
        from glassformer.dynamics.online_sgd import Start

        return Start.of_runs(histories)

    def learn(self, model: Any, data: DataSet) -> FitResult:
        from glassformer.learners.algorithms.fresh_batches import fresh_batches

        teacher, gram = data.teacher, model.prior.gram
        start = self.size * self._mixed(data.rng.standard_normal(model.signal_shape(data.design)), teacher)

        def watch(weights: Array) -> dict[str, Any]:
            if teacher is None:
                return {}
            followed = data.followed(model, weights)
            powers = {"power": gram(weights, weights), "teacher": gram(teacher, teacher)}
            return {**followed, "overlap": gram(weights, teacher), **powers}

        return fresh_batches(data.design, data.labels, model.traceable_label, start, self, watch).reached

    def _mixed(self, random: Array, teacher: Array | None) -> Array:
        """Weights of power one, of the overlap with the teacher that was asked for."""
        if self.overlap is None:
            return random
        if teacher is None:
            raise IncompatibleError("overlap = the start's with the truth needs the true signal: use overlap = None")
        rest: float = (1 - self.overlap**2) ** 0.5
        return self.overlap * teacher + rest * random
