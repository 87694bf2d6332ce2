"""Minimising a training error by gradients, step by step in compiled blocks, on whatever device JAX finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax  # type: ignore[import-untyped]

from glassformer.integral import Array
from glassformer.settings import Training
from glassformer.solution import Status

# Steps between two looks at the training error; looks over which it must still fall by a share to go on.
_BLOCK, _LOOKS, _FALLING = 100, 20, 0.01
# Halvings of the learning rate after a divergence, and the growth of the training error that counts as one; halvings
# where the training error no longer falls.
_HALVINGS, _DIVERGED, _COOLINGS = 8, 1e3, 6
# Fall that the gradient promises, over the looks and at the usual rate after all halvings, of what counts as a floor.
_DRIVEN = 0.1

Loss = Callable[[Any, Any], Any]
"""``loss(parameters, data)``: training errors of independent starts, shape (starts,)."""


@dataclass(frozen=True)
class Trained:
    """Where training ended.

    Attributes:
        parameters: a tree of arrays, the starts along the first axes.
        loss: training error of every start, shape (starts,).
        steps: gradient steps taken.
        learning_rate: what was used at the end, after halvings.
        status: converged at the floor, or where it no longer falls; else why it stopped.
        history: training errors after every block of steps, shape (blocks, starts), the start first.
        residual: share by which the largest training error fell over the last looks.
    """

    parameters: Any
    loss: Array
    steps: int
    learning_rate: float
    status: Status
    history: Array
    residual: float


def train(
    loss: Loss,
    parameters: Any,
    data: Any,
    power: float,
    settings: Training,
    defaults: tuple[str, float],
    watch: Callable[[int, Any, Array], None] | None = None,
) -> Trained:
    """Descend the training errors of all starts at once until they are at their floor or no longer fall.

    Args:
        loss: traceable; the same object at every call, or it is compiled again.
        parameters: initial parameters, a tree of arrays.
        data: a tree of arrays, what the loss takes beside the parameters.
        power: training error of predicting zero, against which the floor is measured.
        settings: optimizer, learning rate, steps allowed.
        defaults: optimizer and learning rate where the settings leave them open.
        watch: called with steps taken, parameters and training errors at the start and after every block.
    """
    name = settings.optimizer or defaults[0]
    rate = settings.learning_rate or defaults[1]
    for _ in range(_HALVINGS):
        found = _attempt(loss, parameters, data, power, settings, (name, rate), defaults[1], watch)
        if found.status is not Status.NON_FINITE:
            break
        rate *= 0.5
    return found


def _attempt(
    loss: Loss,
    parameters: Any,
    data: Any,
    power: float,
    settings: Training,
    way: tuple[str, float],
    usual: float,
    watch: Callable[[int, Any, Array], None] | None,
) -> Trained:
    name, rate = way
    optimizer = _optimizer(name, rate, settings.momentum, settings.weight_decay)
    state, first = optimizer.init(parameters), np.asarray(loss(parameters, data))
    history, steps, status = [first], 0, Status.ITERATION_LIMIT
    begun, coolings, reached = 0, 0, np.inf
    power = max(power, float(np.max(first)))
    if watch is not None:
        watch(0, parameters, first)
    while steps < settings.max_steps:
        block = min(_BLOCK, settings.max_steps - steps)
        parameters, state, errors = _block(loss, optimizer, parameters, state, data, block)
        steps += block
        history.append(np.asarray(errors))
        worst = float(np.max(history[-1]))
        if not np.isfinite(worst) or worst > _DIVERGED * power:
            status = Status.NON_FINITE
            break
        if watch is not None:
            watch(steps, parameters, history[-1])
        if worst <= settings.floor * power:
            status = Status.CONVERGED
            break
        if _flat(history[begun:]):
            # Just below the edge of stability the training error may hover: a shorter step tells whether it is a floor.
            total = float(np.sum(history[-1]))
            if coolings == _COOLINGS or total > (1 - _FALLING) * reached:
                slow = _slope(loss, parameters, data) * usual / 2**_COOLINGS
                status = Status.CONVERGED if slow * _BLOCK * _LOOKS <= _DRIVEN else Status.ITERATION_LIMIT
                break
            reached, begun, coolings, rate = total, len(history), coolings + 1, 0.5 * rate
            optimizer = _optimizer(name, rate, settings.momentum, settings.weight_decay)
    fall = _fall(history) if len(history) > 1 else 1.0
    return Trained(parameters, history[-1], steps, rate, status, np.array(history), fall)


def _flat(history: list[Array]) -> bool:
    """True when no start's training error fell by a hundredth over the last looks, nor faster than before."""
    if len(history) <= 2 * _LOOKS:
        return False
    ends = [np.asarray(history[-1 - k * _LOOKS]) for k in range(3)]
    now, before = ends[1] - ends[0], ends[2] - ends[1]
    return bool(np.all(now <= _FALLING * ends[1]) and np.all(now <= np.abs(before)))


def _fall(history: list[Array]) -> float:
    old, new = history[max(-len(history), -1 - _LOOKS)], history[-1]
    return float(np.max((old - new) / np.where(old > 0, old, 1.0)))


def _slope(loss: Loss, parameters: Any, data: Any) -> float:
    """Relative fall of the training error per unit of learning rate: no floor where this is large."""
    value, gradient = jax.value_and_grad(lambda p: jnp.sum(loss(p, data)))(parameters)
    square = sum(float(jnp.sum(part**2)) for part in jax.tree.leaves(gradient))
    return square / max(float(value), 1e-300)


@lru_cache(maxsize=32)
def _optimizer(name: str, rate: float, momentum: float, decay: float) -> Any:
    """The same object for the same settings: it is part of what is compiled."""
    rule = optax.adam(rate) if name == "adam" else optax.sgd(rate, momentum=momentum or None)
    # The share that decays is that of a step: it goes with the learning rate.
    return optax.chain(rule, optax.add_decayed_weights(-rate * decay)) if decay else rule


@partial(jax.jit, static_argnames=("loss", "optimizer", "steps"))
def _block(loss: Loss, optimizer: Any, parameters: Any, state: Any, data: Any, steps: int) -> Any:
    def total(parameters: Any) -> Any:
        return jnp.sum(loss(parameters, data))

    def step(_: int, carried: Any) -> Any:
        parameters, state = carried
        change, state = optimizer.update(jax.grad(total)(parameters), state, parameters)
        return optax.apply_updates(parameters, change), state

    parameters, state = jax.lax.fori_loop(0, steps, step, (parameters, state))
    return parameters, state, loss(parameters, data)
