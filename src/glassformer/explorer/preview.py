"""A first look at a curve whose points take long: what message passing reaches, with few sampled data points.

Its error bars are those of so few. It is drawn until the numbers of the library are there, and cannot be taken along.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from glassformer.bayes_optimal.limits import mean_error
from glassformer.bayes_optimal.solve import first_look
from glassformer.core.results import Table
from glassformer.core.status import Status
from glassformer.explorer.answer import Answer


def previews(model: Any, alpha: list[float]) -> Iterator[Table]:
    """Ever more points; none where a first look is no shorter.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> list(previews(BilinearSequenceRegression(rho=0.5), [0.5]))
        []
    """
    rows, status = list[tuple[float, float, float]](), list[Status]()
    for ratio, found in first_look(model, alpha):
        rows.append((ratio, mean_error(found.value)[0], found.error_estimate[0]))
        status += found.status
        columns = dict(zip(("alpha", "error", "error_estimate"), np.array(rows).T, strict=True))
        yield Table(model.name, model.parameters, columns, list(status))


def preview_answer(content: Any, look: Table, count: int) -> Answer:
    """What a page says of it, and nothing to take along."""
    said = f"A first look at {len(look['alpha'])} of {count} sample ratios, with few sampled data points: what message "
    said += "passing reaches, within the bars. The curve follows, and with it what can be taken along."
    return Answer(content, look.to_pandas(), said, "", "", _nothing, first_look=True)


def _nothing(path: Any) -> None:
    """There is no picture of a first look."""
