"""Labels that are right or wrong: what every channel says of them."""

from __future__ import annotations

from typing import Any

from glassformer.core.defaults import default_property
from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array


class Decisions:
    """Of a channel whose labels take few values, or are positions of maxima."""

    label: Any

    discrete = default_property(
        False, "True when labels without their own noise take few values, or are positions of maxima."
    )
    classes = default_property(
        False, "True when numbers of discrete labels are names, whose squared differences mean nothing."
    )

    def truth(self, fields: Array) -> Array:
        """Discrete labels of fields, without their own noise, shape (n, ...).

        Raises:
            IncompatibleError: labels are not discrete.
        """
        raise IncompatibleError(f"labels of channel {self.label} are not discrete: no label is right or wrong")

    def decided(self, mean: Array, variance: Any) -> Array:
        """The most probable one of them, of fields with these means and one variance, a number or shape (P, P).

        Of labels of several entries the most probable entries.

        Raises:
            IncompatibleError: labels are not discrete.
        """
        del variance
        return self.truth(mean)
