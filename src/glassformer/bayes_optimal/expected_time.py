"""Expected work and time of computations with sampled posteriors, for progress bars and refusals."""

from __future__ import annotations

from glassformer.channels.sampled_error_bars import REPLICAS
from glassformer.core.resources import usable_cores
from glassformer.models.base import Model

# Averages over all data points that a result usually takes (measured for attention networks): the limits at one sample
# ratio, one overlap of a landscape, and the thresholds of one row.
AVERAGES = {"limits": 3.0, "landscape": 4.0, "thresholds": 8.0}
# The first iterations take this many data points per replica, however few there are, and as much work as this many
# averages over them (measured).
_FIRST_POINTS, _FIRST_AVERAGES = 64, 10.0


def expected_work(model: Model, result: str, count: float) -> float | None:
    """Return the expected work of ``count`` results of a kind in ``AVERAGES``, in the units of ``Channel.work``.

    None if averages are not sampled.
    """
    return _averages(model, result, count) * model.channel.inference.work if model.channel.inference.sampled else None


def expected_seconds(model: Model, result: str, count: float, posteriors: float = 0.0) -> float:
    """Return the expected time of these results and of further posteriors of single data points, on all cores.

    Zero if averages are not sampled, or the time of a posterior is unknown.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> expected_seconds(BilinearSequenceRegression(beta=1, rho=0.5), "limits", 100)
        0.0
    """
    channel = model.channel
    if not channel.inference.sampled:
        return 0.0
    posteriors += _averages(model, result, count) * REPLICAS * channel.inference.points
    return posteriors * channel.inference.posterior_seconds / usable_cores()


def _averages(model: Model, result: str, count: float) -> float:
    channel = model.channel
    return count * (
        AVERAGES[result] + channel.labels.discrete + _FIRST_AVERAGES * _FIRST_POINTS / channel.inference.points
    )
