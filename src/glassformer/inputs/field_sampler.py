"""Laws of the fields along the rows of the teacher that are given by a sampler."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array
from glassformer.inputs.drawn_fields import DrawnFields
from glassformer.inputs.hidden_states import HiddenStates
from glassformer.inputs.law import FieldLaw


class FieldSampler(FieldLaw):
    r"""Any law of the fields :math:`Z = W^*X^T/\sqrt d`, shape (P, L), given by a function that draws from it.

    Equation :eq:`hidden-states` of the documentation, without a list of states.

    The tokens of a sample have components along the rows of the teacher such that its fields are drawn from this law.
    In all directions that are orthogonal to the rows the tokens are independent standard normal, and independent of the
    fields. Labels are a function of the fields, with or without noise.

    Risk, descent and online descent average over drawn fields: their errors fall with the square root of the number of
    ``points`` or ``trajectories`` of an :class:`~glassformer.Accuracy`. Bayes-optimal learning needs the density of the
    fields, which a sampler does not give: it is refused. A law with finitely many shifts is a
    :class:`~glassformer.inputs.mixture.Mixture`, which has it.

    A law of one's own derives from this class, as a frozen dataclass. Its fields are parameters of the model, such as
    ``inputs.degrees`` below.

    Attributes:
        symmetric: whether permutations and sign changes of the rows that leave labels unchanged also leave the law
            unchanged. Errors are then those after the best of them. The default is that the identity alone does.

    Example:
        >>> from dataclasses import dataclass
        >>> from glassformer import RegularisedRisk, SequenceMultiIndex, limits
        >>> @dataclass(frozen=True)
        ... class HeavyTails(FieldSampler):
        ...     '''Independent fields with the law of Student.'''
        ...
        ...     degrees: float = 5.0
        ...     label = "heavy tails"
        ...
        ...     def draw(self, rng, samples, rows, tokens):
        ...         return rng.standard_t(self.degrees, (samples, rows, tokens))
        >>> model = SequenceMultiIndex(lambda z: z[0, 0], noise=0.1, inputs=HeavyTails())
        >>> bool(limits(model, [2.0], RegularisedRisk("square", strength=0.1))["error"][0] < 0.1)
        True
    """

    symmetric: bool = False

    @abstractmethod
    def draw(self, rng: np.random.Generator, samples: int, rows: int, tokens: int) -> Array:
        """Return the fields of independent samples, shape (samples, P, L)."""

    def drawn(self, rows: int, tokens: int) -> DrawnFields:
        return DrawnFields(self.draw, rows, tokens, self.label, bool(self.symmetric))

    def states(self, rows: int, tokens: int) -> HiddenStates:
        """Raise, since a sampler has no hidden states.

        Raises:
            IncompatibleError: always.
        """
        raise IncompatibleError(f"inputs = {self.label} are drawn by a sampler and have no hidden states: give Mixture")
