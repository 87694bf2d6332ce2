"""Exponents of every row: those of links of one index, and of several."""

from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest

from glassformer import BilinearSequenceRegression, IncompatibleError, SequenceMultiIndex
from glassformer.bayes_optimal.bounds import growth_bound, information_bound
from glassformer.bayes_optimal.row_exponents import row_exponents
from glassformer.channels.link.exponents import link_exponents
from glassformer.errors import ParameterError

SIZES = {"samples": 2**17, "largest": 4}


@pytest.mark.slow
@pytest.mark.parametrize(
    "link",
    [lambda z: z**3 - 3 * z, lambda z: z**2, np.tanh, lambda z: z**2 * np.exp(-(z**2))],
    ids=["cubic", "square", "tanh", "bell"],
)
def test_one_index_has_those_of_its_link(link):
    found = row_exponents(SequenceMultiIndex(lambda z: link(z[0, 0]), 1, 1), **SIZES)
    assert found["row 1"] == link_exponents(link)


@pytest.mark.slow
def test_every_row_has_its_own():
    model = SequenceMultiIndex(lambda z: jnp.array([z[0, 0], z[1, 0] ** 2, z[1, 0] * z[2, 0]]), 3, 1, noise=0.1)
    found = row_exponents(model, **SIZES)
    assert [one.information for one in found.values()] == [1, 2, np.inf]
    assert [one.generative for one in found.values()] == [1, 2, 2]


@pytest.mark.slow
def test_rows_that_enter_only_in_products_have_no_exponent():
    found = row_exponents(SequenceMultiIndex(lambda z: jnp.sign(z[0, 0] * z[1, 0] * z[2, 0]), 3, 1), **SIZES)
    assert all(one == (np.inf, np.inf) for one in found.values())


def test_arguments():
    model = SequenceMultiIndex(lambda z: z[0, 0] + z[1, 0], 2, 1, noise=0.1)
    for name, value in (("largest", 0), ("samples", 100)):
        with pytest.raises(ParameterError, match=name):
            row_exponents(model, **{name: value})


def test_models_without_theory_are_refused():
    correlated = BilinearSequenceRegression(rho=0.5, token_correlation=0.5)
    with pytest.raises(IncompatibleError, match="token_correlation"):
        row_exponents(correlated)
    for bound in (partial(information_bound, variance=np.eye(1), direction=np.ones(1)), growth_bound):
        with pytest.raises(IncompatibleError, match="token_correlation"):
            bound(correlated)
