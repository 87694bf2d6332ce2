"""The one contract for a link of the user's own: from the fields of one sample to its label."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from glassformer.core.errors import LinkError
from glassformer.core.estimate import Array


@dataclass(frozen=True)
class Trial:
    """On how many samples a link is tried, and which labels it may give."""

    tried: int = 7  # random ones on which ways to evaluate it are compared: not as many as tokens in a test
    searched: int = 1024  # on which it must be finite, or tried one by one to find where it fails
    wider: float = 4.0  # standard deviations at which it is tried before it is taken for constant
    few: int = 256  # for which it is compiled
    many: int = 8192  # the same of more samples
    least: float = 1e-100  # size of labels whose squares, and ratios of them, double precision holds
    most: float = 1e100  # the same at most


_POLICY = Trial()


@dataclass(frozen=True)
class Link:
    """A function of the fields of one sample returning its label, made safe to evaluate on many samples.

    The function may be written with NumPy, jax.numpy or plain Python. Where it gives the same labels for whole arrays
    of samples, along the first axis or (after NumPy's indexing of the first axes) along the last, or compiled, it is
    evaluated so; else sample by sample. A function that only works on whole arrays, shape (n, ...), is taken as that.

    Args:
        function: as given.
        shape: shape of the fields of one sample, ``()`` for a number.
        slot: the parameter as which the user gave it.
        symmetric: whether the fields of a sample are a symmetric matrix.

    Raises:
        LinkError: it is not callable, fails, gives two labels for one field, or labels that are no real numbers or
            too large or small to be squared.

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
            raise self.refused("a callable link function")
        unfit = unfit_size(self(self._random_fields(_POLICY.tried)))
        if unfit:
            raise self.refused(*unfit)

    @property
    def name(self) -> str:
        """What files and messages call it."""
        return function_name(self.function)

    @property
    def label_shape(self) -> tuple[int, ...]:
        """Shape of the label of one sample."""
        return self._way[1]

    @property
    def vectorised(self) -> bool:
        """Whether many samples are evaluated at once."""
        return self._way[2]

    def __call__(self, fields: Array) -> Array:
        """Labels, shape (..., *label_shape), of fields of shape (..., *shape)."""
        fields = np.asarray(fields, dtype=float)
        leading = fields.shape[: fields.ndim - len(self.shape)]
        flat = fields.reshape(-1, *self.shape)
        if len(flat) == 0:
            return np.zeros((*leading, *self.label_shape))
        evaluate, label_shape, _ = self._way
        try:
            labels = _quietly(evaluate, flat)
        except Exception as error:
            raise self._failure(flat, error) from error
        if labels.shape != (len(flat), *label_shape):
            shape = labels.shape[1:]
            raise self.refused(f"labels of one shape (here {label_shape}, elsewhere {shape})")
        return labels.reshape(*leading, *label_shape)

    def refused(self, allowed: str, remedy: str = "") -> LinkError:
        """The error that says what this link should have been."""
        return LinkError(self.slot, self.function, allowed, remedy)

    def require_finite(self) -> None:
        """Raise unless labels of random normal fields are finite, and differ from one another."""
        fields = self._random_fields(_POLICY.searched)
        labels = self(fields)
        bad = ~np.all(np.isfinite(labels.reshape(_POLICY.searched, -1)), axis=1)
        if np.any(bad):
            remedy = f"guard divisions, logarithms and roots (it is not at {_written(fields[bad][0])})"
            raise self.refused("finite labels for normal fields", remedy)
        # What is rare among normal fields is not among those of a wider law.
        if np.all(labels == labels[0]) and np.all(self(_POLICY.wider * fields) == labels[0]):
            raise self.refused("a link that depends on its fields", "the labels of a constant one say nothing")

    def _random_fields(self, samples: int) -> Array:
        fields = np.random.default_rng(5).standard_normal((samples, *self.shape))
        return (fields + np.swapaxes(fields, -1, -2)) / np.sqrt(2) if self.symmetric else fields

    @property
    def _wanted(self) -> str:
        if self.shape == ():
            return "a link function returning one real number per field"
        return f"a link from fields of shape {self.shape}, in NumPy or such that JAX can trace it, to real numbers"

    def _failure(self, fields: Array, error: Exception) -> LinkError:
        """What happened, and at which field: found one by one, for a function of arrays does not tell."""
        if "jax" in sys.modules:
            from glassformer.numerics.jax_settings import require_backend

            require_backend()
        for sample in fields[: _POLICY.searched]:
            try:
                _quietly(self._one, sample)
            except Exception as own:
                return self.refused(f"a link that works at {_written(sample)}", _words(own))
        return self.refused(f"a link that works on {len(fields)} samples", _words(error))

    def _one(self, sample: Array) -> Any:
        """The label of one sample, as the function returns it."""
        given = np.array(sample) if self.shape else float(sample)
        try:
            return self.function(given)
        except IndexError:
            # JAX would take the last field for one that is not there.
            raise
        except Exception:
            # JAX functions may need arrays of JAX: z.at[0].set(...) has no counterpart in NumPy.
            if not self.shape or "jax" not in sys.modules:
                raise
            import jax.numpy as jnp

            return self.function(jnp.asarray(given))

    @cached_property
    def _way(self) -> tuple[Callable[[Array], Array], tuple[int, ...], bool]:
        """How labels of a batch are found, the shape of one, and whether that is done at once."""
        probe = self._random_fields(_POLICY.tried)
        try:
            # The first call may be the one that imports JAX, whose precision is set for the calls that follow.
            _quietly(self._one, probe[0])
            single = [_quietly(self._one, sample) for sample in probe]
            again = [_quietly(self._one, sample) for sample in probe]
        except Exception as error:
            return self._of_arrays(probe, error)
        first, second = (np.stack(self._checked(labels, probe)) for labels in (single, again))
        if not np.array_equal(first, second, equal_nan=True):
            place = int(np.argmax(np.any((first != second).reshape(_POLICY.tried, -1), axis=1)))
            raise self._random(probe[place])
        for evaluate in _ways(self.function, _is_jax(single[0])):
            try:
                labels = _quietly(evaluate, probe)
            except Exception:
                # A function of one sample need not work on many; one by one it does.
                continue
            if labels.shape == first.shape and np.allclose(labels, first, rtol=1e-9, atol=1e-12, equal_nan=True):
                return evaluate, first.shape[1:], True
        return self._one_by_one, first.shape[1:], False

    def _of_arrays(self, probe: Array, error: Exception) -> tuple[Callable[[Array], Array], tuple[int, ...], bool]:
        """A function that fails on one sample but treats the samples of an array one by one."""
        try:
            (evaluate,) = list(_ways(self.function, False))[:1]
            whole, again = (_quietly(evaluate, probe) for _ in range(2))
            parts = np.concatenate([_quietly(evaluate, probe[k : k + 1]) for k in range(_POLICY.tried)])
            works = whole.shape == parts.shape and np.allclose(whole, parts, rtol=1e-9, atol=1e-12, equal_nan=True)
        except Exception:
            works = False
        if not works:
            raise self._failure(probe, error) from error
        if not np.array_equal(whole, again, equal_nan=True):
            raise self._random(probe[0])
        return evaluate, whole.shape[1:], True

    def _one_by_one(self, fields: Array) -> Array:
        return np.stack(self._checked([self._one(sample) for sample in fields], fields))

    def _random(self, sample: Array) -> LinkError:
        return self.refused(
            "a link that gives one label for one field",
            f"it gives two at {_written(sample)}: put randomness into the label noise",
        )

    def _checked(self, labels: list[Any], fields: Array) -> list[Array]:
        """Labels as doubles, all of one shape."""
        arrays = []
        for label, sample in zip(labels, fields, strict=True):
            try:
                arrays.append(_real(label))
            except (TypeError, ValueError) as error:
                raise self.refused(self._wanted, f"at {_written(sample)} it returns {_written(label)}") from error
            if arrays[-1].shape != arrays[0].shape:
                raise self.refused("labels of one shape", f"it returns shapes {arrays[0].shape} and {arrays[-1].shape}")
        return arrays


def unfit_size(labels: Array) -> tuple[str, ...]:
    """What is allowed and what helps, where labels that are neither zero nor infinite are too large or small."""
    sizes = np.abs(labels[np.isfinite(labels) & (labels != 0)])
    size = float(np.median(sizes)) if sizes.size else 1.0
    if _POLICY.least < size < _POLICY.most:
        return ()
    remedy = f"theirs is about {size:.0e}: rescale them, and their noise with them"
    return f"labels of a size between {_POLICY.least:g} and {_POLICY.most:g}", remedy


def function_name(function: Any) -> str:
    """The name of a function, or of the class of a callable object.

    Example:
        >>> from functools import partial
        >>> function_name(np.tanh), function_name(partial(np.tanh))
        ('tanh', 'tanh')
    """
    inner = getattr(function, "func", function)
    return str(getattr(inner, "__name__", type(inner).__name__))


def _ways(function: Callable[..., Any], jax_made: bool) -> Iterator[Callable[[Array], Array]]:
    """Evaluations of a batch to try, the fastest first; each takes a copy, for a function may write into its fields."""
    if jax_made:
        yield _compiled(function)
        return
    yield lambda fields: _real(function(np.array(fields)))
    yield lambda fields: np.moveaxis(_real(function(np.array(np.moveaxis(fields, 0, -1)))), -1, 0)
    if "jax" in sys.modules:
        yield _compiled(function)


def _compiled(function: Callable[..., Any]) -> Callable[[Array], Array]:
    """A function that JAX can trace, compiled for batches of few different lengths."""
    import jax

    from glassformer.numerics.cached_jit import CachedJit

    batched = CachedJit(lambda fields, function: jax.vmap(function)(fields), function=function)

    def part(fields: Array) -> Array:
        length = _POLICY.few if len(fields) <= _POLICY.few else _POLICY.many
        padded = np.concatenate([fields, np.repeat(fields[-1:], length - len(fields), axis=0)])
        return _real(batched(padded))[: len(fields)]

    return lambda fields: np.concatenate(
        [part(fields[k : k + _POLICY.many]) for k in range(0, len(fields), _POLICY.many)]
    )


def _quietly(function: Callable[[Any], Any], fields: Any) -> Any:
    """A call in double precision, without warnings about overflow."""
    if "jax" not in sys.modules:
        with np.errstate(all="ignore"):
            return function(fields)
    from glassformer.numerics.jax_settings import jax_settings

    with np.errstate(all="ignore"), jax_settings(required=False):
        return function(fields)


def _is_jax(label: Any) -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(label, jax.Array)


def _real(label: Any) -> Array:
    """Real numbers as doubles."""
    values = np.asarray(label)
    if values.dtype.kind not in "biuf":
        raise TypeError(f"{values.dtype} is no type of real numbers")
    return values.astype(float)


def _words(error: Exception) -> str:
    text = str(error).splitlines()[0] if str(error) else ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _written(fields: Any) -> str:
    """Fields or a label in one short line."""
    if isinstance(fields, np.ndarray | np.floating):
        return "field = " + " ".join(np.array2string(np.asarray(fields), precision=6).split())
    text = " ".join(repr(fields).split())
    return text if len(text) <= 60 else text[:57] + "..."
