"""Models: each is a prior, a design and a channel, put together from the parameters its users know."""

from glassformer.models.attention_indexed import AttentionIndexed
from glassformer.models.base import FiniteSize, Model, counting_threshold
from glassformer.models.bilinear import BilinearSequenceRegression

__all__ = [
    "AttentionIndexed",
    "BilinearSequenceRegression",
    "FiniteSize",
    "Model",
    "counting_threshold",
]
