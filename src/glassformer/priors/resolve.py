"""Conversion of the argument ``prior=`` of models to the prior of the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from glassformer.core.checks import real_numbers
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.frozen import set_fields
from glassformer.priors.base import Prior, ScalarPrior
from glassformer.priors.law import Law
from glassformer.priors.laws import NAMES, Gaussian, law_of
from glassformer.priors.rows import GaussianRowsPrior, SpectrumRowsPrior
from glassformer.priors.separable import SeparablePrior
from glassformer.random_matrices.given import Spectrum, spectrum_of

# Means below the first number are rounding; the error before any data may differ from one by the second (conventions).
_ROUNDING, _START = 1e-9, 1e-6

_AnyPrior = TypeVar("_AnyPrior", bound=Prior)


def resolve_prior(prior: _AnyPrior, law: Law | None = None) -> _AnyPrior:
    """Mark a prior as the model's own choice, with the law of its weights where the user gave one, and return it.

    A copy of the model with other parameters (``dataclasses.replace``) receives the prior of the first one. It chooses
    anew if that was the model's own choice; a prior that the user gave is kept, or refused.
    """
    set_fields(prior, _selected_from=law or Gaussian())
    return prior


def requested_prior(given: object) -> object:
    """Return the argument that the user gave: for a model's own choice, the law from which it was made."""
    return getattr(given, "_selected_from", given)


def named(prior: Prior) -> dict[str, str]:
    """Return the parameter ``prior`` of tables; none where the model chose standard normal weights.

    Example:
        >>> named(rows_prior(None, 2, 1, 0.0)), named(rows_prior("rademacher", 2, 1, 0.0))
        ({}, {'prior': 'rademacher'})
    """
    given = requested_prior(prior)
    if isinstance(given, Law):
        return {} if given.rotational else {"prior": given.label}
    return {"prior": repr(given)}


def rows_prior(
    given: object, rows: int, heads: int, side_information: float, spectrum: Sequence[float] | None = None
) -> Prior:
    """Return the prior of the rows of a multi-index model.

    Args:
        given: None for standard normal weights; the name of a law or a :class:`~glassformer.priors.law.Law`, of
            every weight; or a finished prior of as many rows.
        rows: of the model.
        heads: of the model.
        side_information: of the model.
        spectrum: of the covariance of the features; None for independent ones.

    Raises:
        ParameterError: no such law, or not for so many rows.
        IncompatibleError: a law with a mean, or a finished prior that is not the model's.

    Example:
        >>> rows_prior("rademacher", 2, 1, 0.0)
        SeparablePrior(law=Rademacher(), count=2, heads=1, side_information=0.0)
    """
    wanted = requested_prior(given)
    if isinstance(wanted, Prior) and not isinstance(wanted, ScalarPrior):
        side = side_information / (1 - side_information)
        if (wanted.rows, wanted.degrees, wanted.side) != (rows, 1 / heads, side):
            raise IncompatibleError(
                f"prior = {wanted!r} and the model's {rows} rows, {heads} heads and side_information = "
                f"{side_information} exclude each other: give the law of a weight"
            )
        return wanted
    law = Gaussian() if wanted is None else centred(wanted)
    if spectrum is not None:
        if not law.rotational or side_information:
            other = f"prior = {law.label}" if side_information == 0 else f"side_information = {side_information}"
            raise IncompatibleError(f"{other} and feature_spectrum exclude each other: give one of them")
        return resolve_prior(SpectrumRowsPrior(tuple(real_numbers("feature_spectrum", spectrum).ravel()), rows))
    if law.rotational:
        return resolve_prior(GaussianRowsPrior(rows, heads, side_information))
    return resolve_prior(SeparablePrior(law, rows, heads, side_information), law)


def lone_spectrum(given: object, **others: object) -> Spectrum:
    """Return the spectrum that a user gave.

    Args:
        given: see :func:`~glassformer.random_matrices.given.spectrum_of`.
        others: parameters by name that a spectrum excludes; a prior may be the one that the model made of it.

    Raises:
        ParameterError: it is none.
        IncompatibleError: one of the others is given as well.

    Example:
        >>> lone_spectrum([1.0, 2.0], rho=None).values
        (1.0, 2.0)
    """
    for name, value in others.items():
        if value is not None and not isinstance(value, Gaussian):
            raise IncompatibleError(f"{name} = {value} and spectrum exclude each other: give one of them")
    return spectrum_of(given)


def centred(given: object) -> Law:
    """Return the law that ``prior=`` is or names, if it has no mean.

    Raises:
        ParameterError: no such law.
        IncompatibleError: it has a mean.

    Example:
        >>> from glassformer.priors.laws import Discrete
        >>> centred(Discrete([0, 2]))
        Traceback (most recent call last):
        ...
        glassformer.core.errors.IncompatibleError: prior = discrete:0.0@0.5,2.0@0.5 has the mean 1, which channels \
do not include: centre the weights, for instance by Discrete.standardised, and add the mean in the link
    """
    law = law_of(given)
    if abs(law.mean) > _ROUNDING:
        raise IncompatibleError(
            f"prior = {law.label} has the mean {law.mean:g}, which channels do not include: centre the weights, for "
            "instance by Discrete.standardised, and add the mean in the link"
        )
    return law


def matrix_prior(given: object, degrees: float) -> ScalarPrior:
    """Check a finished prior of a matrix, and return it.

    Args:
        given: the prior.
        degrees: free entries per unit of the sample size, 1 for any matrix and 1/2 for symmetric ones.

    Raises:
        ParameterError: it is no such prior, or its error before any data is not one.

    Example:
        >>> from glassformer.priors.bilinear import GaussianMatrixPrior
        >>> matrix_prior(GaussianMatrixPrior(), 1.0)
        GaussianMatrixPrior()
    """
    if not isinstance(given, ScalarPrior):
        allowed = f"one of {', '.join(NAMES)}, a law, or a finished ScalarPrior of the matrix"
        raise ParameterError("prior", given, allowed)
    if given.degrees != degrees:
        kind = "symmetric" if degrees == 0.5 else "not symmetric"
        raise ParameterError("prior", given, f"a prior of matrices that are {kind} (degrees = {degrees:g})")
    if not given.extensive:
        allowed = "a prior whose sample sizes are per entry of the matrix"
        raise ParameterError("prior", given, allowed, "for negligible width give rho = 0, or width, instead of prior")
    found = given.mmse(np.array([0.0, 1.0])).value
    if np.shape(found) != (2,) or not (abs(found[0] - 1) < _START and 0 <= found[1] <= 1):
        allowed = "a prior whose mmse takes shape (batch,), is one before any data and falls"
        raise ParameterError("prior", given, allowed, f"at q_hat = 0 and 1 it returns {found}")
    return given
