"""Message passing with the denoiser of another width: its fixed points."""

import numpy as np
import pytest

from glassformer import AttentionIndexed, BilinearSequenceRegression, limits
from glassformer.core.errors import IncompatibleError
from glassformer.models.priors.bilinear import BilinearPrior
from glassformer.theory.assumed_width import assumed_prior_limits

MODEL = BilinearSequenceRegression(beta=1, rho=0.3, noise=0.1)


@pytest.mark.parametrize(("rho", "error"), [(0.3, 0.3553), (0.5, 0.3730), (1.0, 0.4275)])
def test_known_errors(rho, error):
    table = assumed_prior_limits(MODEL, [0.5], BilinearPrior(1.0, rho))
    assert table.converged
    assert np.isclose(table["error"][0], error, atol=6e-5)


def test_the_right_width_is_the_optimum_and_no_other_is_better():
    optimum = limits(MODEL, [0.7])["error"][0]
    errors = [assumed_prior_limits(MODEL, [0.7], BilinearPrior(1.0, rho))["error"][0] for rho in (0.25, 0.3, 0.36)]
    assert np.isclose(errors[1], optimum, rtol=1e-8)
    assert min(errors[0], errors[2]) > optimum + 1e-4


def test_what_has_no_such_theory_is_refused():
    for model in (
        BilinearSequenceRegression(beta=1, rho=0.3, channel="sign"),
        AttentionIndexed(rho=0.3, tokens=1, channel="linear", noise=0.1),
    ):
        with pytest.raises(IncompatibleError):
            assumed_prior_limits(model, [0.5], BilinearPrior(1.0, 0.3))
