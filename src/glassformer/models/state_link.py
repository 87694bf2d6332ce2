"""Links of the fields and of the hidden state of a sample."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from glassformer.core.arrays import AnyArray


@dataclass(frozen=True)
class StateLink:
    """A link of two arguments at one hidden state, as a function of the fields alone.

    Attributes:
        link: function of the fields, shape (P, L), and the number of the state.
        state: the state: the place of the hidden token, or the number of the class.

    Example:
        >>> import numpy as np
        >>> float(StateLink(lambda z, place: z[0, place], 1)(np.array([[1.0, 2.0]])))
        2.0
    """

    link: Callable[..., Any]
    state: int

    def __call__(self, fields: AnyArray) -> Any:
        return self.link(fields, self.state)

    @property
    def __name__(self) -> str:
        return str(getattr(self.link, "__name__", repr(self.link)))


def takes_state(link: Callable[..., Any]) -> bool:
    """Return whether a link requires a second argument, the hidden state.

    Example:
        >>> takes_state(lambda z: z), takes_state(lambda z, place: z), takes_state(lambda z, scale=2: z)
        (False, True, False)
    """
    try:
        parameters = inspect.signature(link).parameters.values()
    except (TypeError, ValueError):
        # Functions written in C have no signature; they take the fields alone.
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(one.kind in kinds and one.default is one.empty for one in parameters) > 1
