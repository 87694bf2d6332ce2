"""Forms in which the inputs of runs are kept: in one array, divided, drawn again, or revealed."""

from __future__ import annotations

from typing import Any

from glassformer.core.errors import IncompatibleError
from glassformer.core.random_streams import random_stream
from glassformer.designs.base import Design
from glassformer.designs.generated import GeneratedDesign
from glassformer.learners.base import REVEALED, Learner
from glassformer.learners.registry import learners_with_storage
from glassformer.models import FiniteSize

GENERATED, SHARDED, EQUIVALENT = "generated", "sharded", "revealed-equivalent"
# Inputs of more bytes than this are revealed by default, where the learner needs only products with them.
LARGEST_STORED = 2e9
# Bytes of one number in memory, by storage; others have eight.
_BYTES = {GENERATED: 0, "float32": 4, SHARDED: 4}
# Numbers held for each sample and each coordinate of revealed inputs at least: two blocks of directions and images.
_DIRECTIONS = 64


def usual_storage(learner: Learner, size: FiniteSize, samples: float) -> str:
    """Return float64 for inputs of up to :data:`LARGEST_STORED` bytes, and beyond it revealed inputs where possible."""
    tokens, d = size.input_shape
    small = 8 * samples * tokens * d <= LARGEST_STORED
    return "float64" if small or not size.design.revealable or "revealed" not in learner.info.storages else "revealed"


def require_storage(storage: str, learner: Learner) -> None:
    """Raise unless a learner can use inputs in this form.

    Raises:
        IncompatibleError: it needs the inputs in one array.
    """
    if storage not in learner.info.storages:
        raise IncompatibleError(
            f"storage {storage} is for learner {' or '.join(learners_with_storage(storage))}, {learner.name} needs its "
            f"inputs in one array: use {' or '.join(learner.info.storages)}"
        )


def memory_and_work(storage: str, size: FiniteSize, samples: float) -> tuple[float, float]:
    """Return the bytes that inputs take at least, and the number of operations of one product with them."""
    tokens, d = size.input_shape
    if storage in REVEALED:
        # A lower bound: memory is checked again while directions are revealed.
        numbers = _DIRECTIONS * (samples + tokens * d)
        return (4 if storage.endswith("float32") else 8) * numbers, numbers
    entries = samples * tokens * d
    return _BYTES.get(storage, 8) * entries, entries


def drawn_inputs(storage: str, size: FiniteSize, samples: int, seed: int) -> Design:
    """Return the inputs of one instance. Unless they are revealed, more samples of a seed begin like fewer."""
    kind, shape = size.design, size.input_shape
    if storage == GENERATED:
        return GeneratedDesign(kind, (seed, 1), samples, shape)
    if storage in REVEALED:
        # Another stream for each number of samples, so that runs along sample ratios are independent.
        rng = random_stream(seed, 1, samples)
        if storage == EQUIVALENT:
            return kind.reveal_equivalent(samples, shape, rng)
        return kind.reveal(samples, shape, rng, "float32" if storage.endswith("float32") else "float64")
    design: Any = kind.sample(samples, shape, random_stream(seed, 1), "float32" if storage == SHARDED else storage)
    if storage != SHARDED:
        return design
    from glassformer.designs.sharded import ShardedDesign

    return ShardedDesign(design)
