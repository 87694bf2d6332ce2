"""Nuclear-norm regularisation in the limit of large sizes: published numbers, identities, data."""

import numpy as np
import pytest

from glassformer import (
    BilinearSequenceRegression,
    IncompatibleError,
    NuclearNorm,
    RegularisedRisk,
    Ridge,
    limits,
    simulate,
)
from glassformer.errors import ParameterError
from glassformer.laws import nuclear_norm_threshold
from glassformer.learners.ridge import ridge_error
from glassformer.random_matrices.rectangular import RectangularLaw
from glassformer.risk.nuclear_norm import best_nuclear_norm, nuclear_norm_risk

# beta, rho, alpha, noise, strength; error, training error.
ROWS = [
    ((1, 0.3, 0.5, 0.0, 0.1), 0.24076464, 0.01607258),
    ((1, 0.3, 1.5, 0.5, 1.0), 0.26032458, 0.45888930),
    ((2, 0.5, 0.8, 0.2, 0.3), 0.30321773, 0.10901130),
    ((0.5, 0.25, 0.8, 0.2, 0.3), 0.30321773, 0.10901130),
    ((1, 0.3, 0.5, 0.1, 0.0), 0.44624148, 0.0),
]


@pytest.mark.slow
@pytest.mark.parametrize(("parameters", "error", "training"), ROWS)
def test_known_numbers(parameters, error, training):
    found = nuclear_norm_risk(*parameters)
    assert found.error == pytest.approx(error, abs=1e-7)
    assert found.training_error == pytest.approx(training, abs=1e-7)
    noise, alpha = parameters[3], parameters[2]
    assert found.effective_noise == pytest.approx((noise + found.error) / alpha, rel=1e-9)


@pytest.mark.slow
def test_the_best_strength():
    best = best_nuclear_norm(1, 0.3, 0.5, 0.1)
    assert best.error == pytest.approx(0.37289523, abs=1e-7)
    assert best.strength == pytest.approx(0.1158, abs=1e-4)
    assert nuclear_norm_risk(1, 0.3, 0.5, 0.1, 1.02 * best.strength).error > best.error
    # The operator norm of the noise, the former default, is far too strong; at the best strength ridge is behind.
    assert nuclear_norm_risk(1, 0.3, 0.5, 0.1, 2 * np.sqrt(0.05)).error == pytest.approx(0.481, abs=1e-3)
    assert best_nuclear_norm(2, 0.5, 0.8, 0.2).error < ridge_error(0.8, 0.2)


def test_ends():
    threshold = nuclear_norm_threshold(1, 0.3)
    assert best_nuclear_norm(1, 0.3, threshold + 1e-9, 0.0).error == 0
    assert 0 < nuclear_norm_risk(1, 0.3, threshold - 0.03, 0.0, 0.0).error < 0.005
    assert nuclear_norm_risk(1, 0.3, 0.5, 0.1, 5.0).error == pytest.approx(1)
    assert nuclear_norm_risk(1, 0.3, 1.5, 0.1, 0.0).error == pytest.approx(ridge_error(1.5, 0.1, 0.0))
    assert nuclear_norm_risk(1, 0.3, 1.0, 0.1, 0.0).error == np.inf
    for name in ("beta", "rho", "alpha", "noise", "strength"):
        with pytest.raises(ParameterError, match=f"^{name} = "):
            nuclear_norm_risk(**{"beta": 1, "rho": 0.3, "alpha": 0.5, "noise": 0.1, "strength": 0.1, name: -1.0})


@pytest.mark.parametrize(("beta", "rho", "noise"), [(1.0, 0.3, 0.7), (2.0, 0.5, 0.05), (5.0, 2.0, 1e-3)])
def test_nodes_of_the_law(beta, rho, noise):
    """Moments and the optimal denoiser do not depend on the cut, and the free checks of the risk hold."""
    law, cut = RectangularLaw(beta, rho, noise), 0.9
    mmse = law.mmse().value[0]
    for place in (0.0, cut, 100.0):
        s, weight, shrunk = (part[0] for part in law.nodes(place))
        weight = weight / np.sqrt(beta)
        assert weight @ s**2 == pytest.approx(1 + noise, rel=1e-12)
        assert 1 - weight @ shrunk**2 == pytest.approx(mmse, abs=1e-12)
    s, weight, shrunk = (part[0] for part in law.nodes(cut))
    inside = s[(s > 1e-6) & (weight > 0)][::40]
    np.testing.assert_allclose(law.denoise(inside), shrunk[(s > 1e-6) & (weight > 0)][::40], rtol=1e-8)
    weight, kept = weight / np.sqrt(beta), np.maximum(s - cut, 0)
    error = mmse + weight @ (kept - shrunk) ** 2
    degrees = weight @ (kept * (s - shrunk)) / noise
    assert error == pytest.approx(noise * (2 * degrees - 1) + weight @ np.minimum(s, cut) ** 2, abs=1e-10)
    assert error == pytest.approx(1 - 2 * weight @ (kept * shrunk) + weight @ kept**2, abs=1e-10)


@pytest.mark.slow
def test_in_a_simulation():
    model = BilinearSequenceRegression(beta=1, rho=0.3, noise=0.1)
    result = simulate(model, [0.5], "nuclear-norm", d=30, instances=4)
    assert result["theory"][0] == pytest.approx(0.37289523, abs=1e-7)
    assert abs(result["relative_error"][0] - result["theory"][0]) < 4 * result["relative_standard_error"][0] + 0.01
    stronger = simulate(model, [0.5], NuclearNorm(strength=0.447), d=30, instances=1)
    assert stronger["theory"][0] == pytest.approx(0.481, abs=1e-3)
    narrow = simulate(BilinearSequenceRegression(width=1), [2.0], "nuclear-norm", d=10, instances=1)
    assert np.isnan(narrow["theory"][0])
    assert "give rho" in narrow.notes[-1]


@pytest.mark.parametrize("learner", [Ridge, NuclearNorm])
def test_labels_that_are_not_linear_have_no_strength_from_their_noise(learner):
    model = BilinearSequenceRegression(rho=0.3, channel="sign")
    with pytest.raises(IncompatibleError, match="no best strength for labels of channel sign: give a strength, or use"):
        limits(model, [1.0], learner())
    given = limits(model, [1.0], learner(0.5))
    risk = limits(model, [1.0], RegularisedRisk("square", learner.penalty, 0.5))
    np.testing.assert_array_equal(given["label_error"], risk["label_error"])
