"""State evolution: fixed points, limits, thresholds and free entropies of every model.

Python names this package and its central function alike, as soon as a module of the package is imported. So the package
can be called: ``glassformer.state_evolution(model, alpha)`` is
:func:`glassformer.state_evolution.solve.state_evolution`.

Example:
    >>> import glassformer
    >>> model = glassformer.BilinearSequenceRegression(beta=1, rho=float("inf"), noise=0.0)
    >>> glassformer.state_evolution(model, [0.25, 0.5]).value.round(6)
    array([0.75, 0.5 ])
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glassformer.core.solution import Solution


class _CallablePackage(ModuleType):
    @property
    def __wrapped__(self) -> Callable[..., Solution]:
        """The function, for :func:`inspect.signature` and :func:`inspect.unwrap`."""
        from glassformer.state_evolution.solve import state_evolution

        return state_evolution

    def __call__(self, *args: Any, **options: Any) -> Solution:
        return self.__wrapped__(*args, **options)


sys.modules[__name__].__class__ = _CallablePackage
