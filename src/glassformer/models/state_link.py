"""Links of the fields and of the hidden state of a sample."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.channels.link.contract import Link
from glassformer.core.arrays import AnyArray

# Random fields on which links are compared.
_TRIALS = 64


@dataclass(frozen=True)
class StateLink:
    """A link of two arguments at one hidden state, as a function of the fields alone.

    Attributes:
        link: function of the fields, shape (P, L), and the number of the state.
        state: the state: the place of the hidden token, or the number of the class.

    Example:
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


def token_orders(links: Sequence[Callable[[Any], Any]], indices: int, tokens: int) -> tuple[tuple[int, ...], ...]:
    """Return the orders of the tokens in which the first link is each of the links; empty if there are none.

    The link of state ``k`` is then the first one with the tokens 0 and ``k`` exchanged: it treats the hidden place as a
    place like any other, and one channel serves all states.

    Example:
        >>> token_orders([StateLink(lambda z, place: z[0, place], k) for k in range(3)], 1, 3)
        ((0, 1, 2), (1, 0, 2), (2, 1, 0))
    """
    if len(links) != tokens or tokens == 1:
        return ()
    fields = np.random.default_rng(4).standard_normal((_TRIALS, indices, tokens))
    first = Link(links[0], (indices, tokens))
    orders = []
    for state, link in enumerate(links):
        order = list(range(tokens))
        order[0], order[state] = state, 0
        if not np.allclose(Link(link, (indices, tokens))(fields), first(fields[:, :, order]), rtol=1e-9, atol=1e-12):
            return ()
        orders.append(tuple(order))
    return tuple(orders)
