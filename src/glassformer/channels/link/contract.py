"""Links of users: functions from the fields of one sample to its label, checked and made safe to evaluate."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from glassformer.core.errors import LinkError
from glassformer.core.estimate import Array

Function = Callable[[Array], Array]

# Number of random samples on which evaluations of a link are compared (unlike any number of tokens in use, so that a
# wrong axis is noticed), and number of samples on which labels must be finite.
_COMPARED, _CHECKED_SAMPLES = 7, 1024
# A link that is constant on normal fields is also tested on fields of this standard deviation.
_WIDER = 4.0
# Batch lengths for which a link is compiled.
_SHORT_BATCH, _LONG_BATCH = 256, 8192
# Allowed range of the typical label: squares and ratios of squares must not overflow double precision.
_SMALLEST_LABEL, _LARGEST_LABEL = 1e-100, 1e100

CHECKED = 8.0  # a link of one field must be finite up to this |h|, which a normal field exceeds with probability 1e-15
OVERFLOW = 1e150  # replaces non-finite values at larger fields
_FINE = np.linspace(-CHECKED, CHECKED, 8001)


class _Evaluation(NamedTuple):
    """A way to compute the labels of a batch, the shape of one label, and whether one call computes the whole batch."""

    batch: Function
    label_shape: tuple[int, ...]
    vectorised: bool


@dataclass(frozen=True)
class Link:
    """A function from the fields of one sample to its label, made safe to evaluate on many samples.

    The function may be written with NumPy, jax.numpy or plain Python. A batch is evaluated in one call if that gives
    the same labels as one sample at a time: with the samples along the first axis, along the last axis, or compiled by
    JAX. Otherwise it is evaluated one sample at a time. A function that only works on arrays of shape (n, ...) is
    accepted as well.

    Args:
        function: the user's function.
        shape: shape of the fields of one sample, ``()`` for a number.
        slot: name of the parameter through which the user passed the function, for messages.
        symmetric: whether the fields of a sample are a symmetric matrix.

    Raises:
        LinkError: the function is not callable, fails, is random, or returns labels that are not real numbers or are
            too large or too small to be squared.

    Example:
        >>> Link(lambda h: 1 if h > 0 else -1)(np.array([-2.0, 3.0]))
        array([-1.,  1.])
        >>> link = Link(lambda z: z[0] * z[1, 0], (2, 3))
        >>> link.label_shape, link(np.ones((5, 2, 3))).shape, link.vectorised
        ((3,), (5, 3), True)
    """

    function: Callable[..., Any]
    shape: tuple[int, ...] = ()
    slot: str = "link"
    symmetric: bool = False

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise self.error("a callable link function")
        problem = label_size_problem(self(self._random_fields(_COMPARED)))
        if problem:
            raise self.error(*problem)

    @property
    def name(self) -> str:
        """Name of the function in files and messages."""
        return function_name(self.function)

    @property
    def label_shape(self) -> tuple[int, ...]:
        """Shape of the label of one sample."""
        return self._evaluation.label_shape

    @property
    def vectorised(self) -> bool:
        """Whether one call evaluates many samples."""
        return self._evaluation.vectorised

    def __call__(self, fields: Array) -> Array:
        """Return labels of shape (..., *label_shape) for fields of shape (..., *shape)."""
        fields = np.asarray(fields, dtype=float)
        leading = fields.shape[: fields.ndim - len(self.shape)]
        flat = fields.reshape(-1, *self.shape)
        if len(flat) == 0:
            return np.zeros((*leading, *self.label_shape))
        evaluate, label_shape, _ = self._evaluation
        try:
            labels = _call(evaluate, flat)
        except Exception as error:
            raise self._failure(flat, error) from error
        if labels.shape != (len(flat), *label_shape):
            raise self.error(f"labels of one shape (here {label_shape}, elsewhere {labels.shape[1:]})")
        return labels.reshape(*leading, *label_shape)

    def error(self, allowed: str, remedy: str = "") -> LinkError:
        """Return the error that names this link and states what is allowed."""
        return LinkError(self.slot, self.function, allowed, remedy)

    def require_finite(self) -> None:
        """Raise unless the labels of random normal fields are finite and not all equal."""
        fields = self._random_fields(_CHECKED_SAMPLES)
        labels = self(fields)
        bad = ~np.all(np.isfinite(labels.reshape(_CHECKED_SAMPLES, -1)), axis=1)
        if np.any(bad):
            remedy = f"guard divisions, logarithms and roots (it is not at {_format(fields[bad][0])})"
            raise self.error("finite labels for normal fields", remedy)
        # A value that is rare for normal fields is frequent for wider fields.
        if np.all(labels == labels[0]) and np.all(self(_WIDER * fields) == labels[0]):
            raise self.error("a link that depends on its fields", "constant labels carry no information")

    def _random_fields(self, samples: int) -> Array:
        fields = np.random.default_rng(5).standard_normal((samples, *self.shape))
        return (fields + np.swapaxes(fields, -1, -2)) / np.sqrt(2) if self.symmetric else fields

    def _failure(self, fields: Array, error: Exception) -> LinkError:
        """Return the error with the first field at which the function fails."""
        if "jax" in sys.modules:
            from glassformer.numerics.jax_settings import require_backend

            require_backend()
        for sample in fields[:_CHECKED_SAMPLES]:
            try:
                _call(self._label, sample)
            except Exception as own:
                return self.error(f"a link that works at {_format(sample)}", _describe(own))
        return self.error(f"a link that works on {len(fields)} samples", _describe(error))

    def _label(self, sample: Array) -> Any:
        """Return the label of one sample as the function returns it."""
        given = np.array(sample) if self.shape else float(sample)
        try:
            return self.function(given)
        except IndexError:
            # JAX would silently replace an index that is out of bounds by the last one.
            raise
        except Exception:
            # Some functions need JAX arrays: z.at[0].set(...) does not exist in NumPy.
            if not self.shape or "jax" not in sys.modules:
                raise
            import jax.numpy as jnp

            return self.function(jnp.asarray(given))

    @cached_property
    def _evaluation(self) -> _Evaluation:
        probe = self._random_fields(_COMPARED)
        try:
            # The first call may import JAX. Its precision is set for the following calls.
            _call(self._label, probe[0])
            single = [_call(self._label, sample) for sample in probe]
            again = [_call(self._label, sample) for sample in probe]
        except Exception as error:
            return self._whole_array_evaluation(probe, error)
        first, second = (np.stack(self._as_arrays(labels, probe)) for labels in (single, again))
        if not np.array_equal(first, second, equal_nan=True):
            place = int(np.argmax(np.any((first != second).reshape(_COMPARED, -1), axis=1)))
            raise self._randomness_error(probe[place])
        for evaluate in _batch_evaluations(self.function, _is_jax(single[0])):
            try:
                labels = _call(evaluate, probe)
            except Exception:
                # A function of one sample need not work on a batch.
                continue
            if same_labels(labels, first):
                return _Evaluation(evaluate, first.shape[1:], True)
        return _Evaluation(self._one_by_one, first.shape[1:], False)

    def _whole_array_evaluation(self, probe: Array, error: Exception) -> _Evaluation:
        """Accept a function that fails on one sample if it treats the samples of an array independently."""
        try:
            evaluate = next(_batch_evaluations(self.function, False))
            whole, again = (_call(evaluate, probe) for _ in range(2))
            parts = np.concatenate([_call(evaluate, probe[k : k + 1]) for k in range(_COMPARED)])
            works = same_labels(whole, parts)
        except Exception:
            works = False
        if not works:
            raise self._failure(probe, error) from error
        if not np.array_equal(whole, again, equal_nan=True):
            raise self._randomness_error(probe[0])
        return _Evaluation(evaluate, whole.shape[1:], True)

    def _one_by_one(self, fields: Array) -> Array:
        return np.stack(self._as_arrays([self._label(sample) for sample in fields], fields))

    def _randomness_error(self, sample: Array) -> LinkError:
        remedy = f"it gives two at {_format(sample)}: put randomness into the label noise"
        return self.error("a link that gives one label for one field", remedy)

    def _as_arrays(self, labels: list[Any], fields: Array) -> list[Array]:
        """Convert labels to doubles and require that they have one shape."""
        allowed = "a link function returning one real number per field"
        if self.shape != ():
            allowed = (
                f"a link from fields of shape {self.shape}, in NumPy or such that JAX can trace it, to real numbers"
            )
        arrays = []
        for label, sample in zip(labels, fields, strict=True):
            try:
                arrays.append(_real(label))
            except (TypeError, ValueError) as error:
                raise self.error(allowed, f"at {_format(sample)} it returns {_format(label)}") from error
            if arrays[-1].shape != arrays[0].shape:
                raise self.error("labels of one shape", f"it returns shapes {arrays[0].shape} and {arrays[-1].shape}")
        return arrays


def same_labels(labels: Array, others: Array) -> bool:
    """Return whether two evaluations of a link agree, in shape and up to rounding relative to the size of labels.

    Example:
        >>> same_labels(np.array([1e-20, 2e-20]), np.array([1e-20, 3e-20]))
        False
    """
    if labels.shape != others.shape:
        return False
    size = np.max(np.abs(others), initial=0.0, where=np.isfinite(others))
    return np.allclose(labels, others, rtol=1e-9, atol=1e-12 * size, equal_nan=True)


def label_size_problem(labels: Array) -> tuple[str, ...]:
    """Return the allowed sizes and the remedy if labels are too large or too small to be squared, else None."""
    sizes = np.abs(labels[np.isfinite(labels) & (labels != 0)])
    size = float(np.median(sizes)) if sizes.size else 1.0
    if _SMALLEST_LABEL < size < _LARGEST_LABEL:
        return ()
    remedy = f"a typical one is {size:.0e}: rescale labels and noise"
    return f"labels of a size between {_SMALLEST_LABEL:g} and {_LARGEST_LABEL:g}", remedy


def function_name(function: object) -> str:
    """Return the name of a function, or of the class of a callable object.

    Example:
        >>> from functools import partial
        >>> function_name(np.tanh), function_name(partial(np.tanh))
        ('tanh', 'tanh')
    """
    inner = getattr(function, "func", function)
    return str(getattr(inner, "__name__", type(inner).__name__))


def array_link(function: Callable[..., object], slot: str = "channel") -> Function:
    """Return a link of one field as a function of arrays, with finite double precision output of the same shape.

    Args:
        function: a function of one field, of an array of fields (NumPy or JAX), or of (1, 1) matrices of one field.
        slot: name of the parameter through which the user passed the function, for messages.

    Raises:
        LinkError: the function is not callable, fails, is random or constant, does not return one real number per
            field, or is not finite for |h| <= 8.

    Example:
        >>> array_link(lambda h: 1 if h > 0 else -1)(np.array([-2.0, 3.0]))
        array([-1.,  1.])
    """
    safe = function if isinstance(function, Link) else Link(function, slot=slot)
    if safe.label_shape != ():
        raise safe.error("a link function returning one real number per field", f"it returns {safe.label_shape}")
    probe = np.linspace(-CHECKED, CHECKED, 33)
    bad = ~np.isfinite(safe(probe.reshape(-1, *safe.shape)))
    if np.any(bad):
        raise safe.error(f"a link function finite for |h| <= {CHECKED:g}", f"it is not at h = {probe[bad][0]:g}")
    if np.ptp(safe(probe.reshape(-1, *safe.shape))) == 0 and np.ptp(safe(_FINE.reshape(-1, *safe.shape))) == 0:
        raise safe.error("a link function that depends on its field", "constant labels carry no information")

    def link(h: Array) -> Array:
        h = np.asarray(h, dtype=float)
        values = safe(h.reshape(*h.shape, *safe.shape))
        # Fields far outside have negligible probability. Their values do not matter, but must not be NaN.
        return np.asarray(np.nan_to_num(values, nan=OVERFLOW, posinf=OVERFLOW, neginf=-OVERFLOW))

    return link


def _batch_evaluations(function: Callable[..., Any], uses_jax: bool) -> Iterator[Function]:
    """Yield ways to evaluate a batch, the fastest first.

    Each passes a copy, because a function may modify its argument.
    """
    if uses_jax:
        yield _compiled(function)
        return
    yield lambda fields: _real(function(np.array(fields)))
    yield lambda fields: np.moveaxis(_real(function(np.array(np.moveaxis(fields, 0, -1)))), -1, 0)
    if "jax" in sys.modules:
        yield _compiled(function)


def _compiled(function: Callable[..., Any]) -> Function:
    """Compile a traceable function for two batch lengths, to which all batches are padded."""
    import jax

    from glassformer.numerics.cached_jit import CachedJit

    batched = CachedJit(lambda fields, function: jax.vmap(function)(fields), function=function)

    def padded(fields: Array) -> Array:
        length = _SHORT_BATCH if len(fields) <= _SHORT_BATCH else _LONG_BATCH
        full = np.concatenate([fields, np.repeat(fields[-1:], length - len(fields), axis=0)])
        return _real(batched(full))[: len(fields)]

    return lambda fields: np.concatenate(
        [padded(fields[k : k + _LONG_BATCH]) for k in range(0, len(fields), _LONG_BATCH)]
    )


def _call(function: Callable[[Array], Any], fields: Array) -> Any:
    """Call a function in double precision, without warnings about overflow.

    Raises:
        RuntimeError: the function asks Python to end.
    """
    settings: AbstractContextManager[None] = nullcontext()
    if "jax" in sys.modules:
        from glassformer.numerics.jax_settings import jax_settings

        settings = jax_settings(required=False)
    with np.errstate(all="ignore"), settings:
        try:
            return function(fields)
        except SystemExit as error:
            raise RuntimeError(f"it calls sys.exit({error.code!r})") from error


def _is_jax(label: object) -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(label, jax.Array)


def _real(label: ArrayLike) -> Array:
    values = np.asarray(label)
    if values.dtype.kind not in "biuf":
        raise TypeError(f"{values.dtype} is not a real number type")
    return values.astype(float)


def _describe(error: Exception) -> str:
    text = str(error).splitlines()[0] if str(error) else ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _format(fields: object) -> str:
    """Format fields or a label in one short line."""
    if isinstance(fields, np.ndarray | np.floating):
        return "field = " + " ".join(np.array2string(np.asarray(fields), precision=6).split())
    text = " ".join(repr(fields).split())
    return text if len(text) <= 60 else text[:57] + "..."
