"""Stochastic gradient descent on the weights of a network, several passes over the same data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from glassformer.core.settings import decay_rate, positive, positive_integer, setting
from glassformer.learners.base import FitResult
from glassformer.learners.descent import RowDescent, kind_of_start, small_start

if TYPE_CHECKING:
    from glassformer.core.estimate import Array
    from glassformer.core.results import Table
    from glassformer.learners.data_set import DataSet
    from glassformer.learners.online_sgd import OnlineSGD


@dataclass(frozen=True)
class SGD(RowDescent):
    r"""Gradient descent on batches of samples, several passes over the same data.

    Every step descends :math:`\frac1d\sum_{\mu\in B}\|\hat y_\mu - y_\mu\|^2 + \frac w{2d}\|W\|^2`.

    Args:
        learning_rate: None for 15, as published for deep attention, on the squared error over ``d``.
        weight_decay: ``w``; None for 0.07, as published.
        init: ``"prior"``, standard normal weights, or ``"small"``, ``small`` times as large.
        small: size of a small initialisation.
        batch: samples per batch.
        repeats: gradient steps on every batch.
        passes: passes over the data.
        looks: entries of the history per pass.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> SGD(batch=0)
        Traceback (most recent call last):
        ...
        glassformer.core.errors.ParameterError: batch = 0 is not allowed: expected an integer >= 1
    """

    title: ClassVar[str] = "stochastic gradient descent"
    continues: ClassVar[bool] = True

    learning_rate: float | None = setting(None, "length of a step (default 15)", positive)
    weight_decay: float | None = setting(None, "weight w of w |W|^2/(2d) beside the loss (default 0.07)", decay_rate)
    init: str = kind_of_start()
    small: float = small_start()
    batch: int = setting(200, "samples per batch", positive_integer)
    repeats: int = setting(3, "gradient steps on every batch", positive_integer)
    passes: int = setting(40, "passes over the data", positive_integer)
    looks: int = setting(8, "entries of the history per pass", positive_integer)

    def theory(self, model: Any, alpha: Array, optimum: Table | None = None) -> Array | str:
        return "several passes over the same samples have no closed equations"

    def fresh(self, d: int) -> OnlineSGD:
        """Online descent by steps of the same length and decay: the equations of this one, were no sample seen twice.

        Example:
            >>> found = SGD(learning_rate=15.0, batch=200, weight_decay=0.07).fresh(500)
            >>> found.learning_rate, found.batch, round(found.weight_decay, 4)
            (12.0, 200, 0.0875)
        """
        from glassformer.learners.algorithms.row_descent import DECAY, LEARNING_RATE
        from glassformer.learners.online_sgd import OnlineSGD

        rate = LEARNING_RATE if self.learning_rate is None else self.learning_rate
        decay = DECAY if self.weight_decay is None else self.weight_decay
        return OnlineSGD(
            learning_rate=2 * self.batch * rate / d,
            batch=self.batch,
            weight_decay=decay * d / (2 * self.batch),
            init=self.init,
            small=self.small,
        )

    def learn(self, model: Any, data: DataSet) -> FitResult:
        from glassformer.learners.algorithms.row_descent import row_descent

        rng = data.rng
        start = self.size * rng.standard_normal(model.signal_shape(data.design))

        def watch(weights: Array) -> dict[str, Any]:
            return data.followed(model, weights)

        link, kept = model.traceable_label, data.checkpoint
        return row_descent(data.design, data.labels, link, start, self, rng, watch, kept).reached
