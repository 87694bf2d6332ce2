"""The law of the singular values of estimates: moments, atoms, and runs."""

from __future__ import annotations

import numpy as np
import pytest

from glassformer import (
    Accuracy,
    AttentionIndexed,
    BilinearSequenceRegression,
    GradientDescent,
    IncompatibleError,
    NuclearNorm,
    RegularisedRisk,
    SequenceMultiIndex,
    limits,
    simulate,
    spectrum,
    trajectory,
)
from glassformer.core.errors import ParameterError

LINEAR = BilinearSequenceRegression(rho=0.3, noise=0.1)
ASKED = {
    "bayes": (LINEAR, 0.5, "gamp"),
    "long": (BilinearSequenceRegression(beta=2, rho=0.3, noise=0.1), 0.5, "gamp"),
    "wide": (BilinearSequenceRegression(beta=0.5, rho=0.3, noise=0.1), 0.5, "nuclear-norm"),
    "ridge": (LINEAR, 0.5, "ridge"),
    "nuclear": (LINEAR, 0.5, NuclearNorm(strength=0.1)),
    "interpolator": (LINEAR, 0.5, NuclearNorm(strength=0.0)),
    "elastic": (LINEAR, 0.5, RegularisedRisk("square", "elastic", 0.3)),
    "logistic": (BilinearSequenceRegression(rho=0.3, channel="sign"), 1.5, RegularisedRisk("logistic", "nuclear", 0.3)),
    "attention": (AttentionIndexed(rho=0.3, noise=0.1, channel="linear"), 0.2, "gamp"),
    "trace": (
        AttentionIndexed(rho=0.3, noise=0.1, channel="linear"),
        0.2,
        RegularisedRisk("square", "trace", 0.1),
    ),
    "given values": (BilinearSequenceRegression(noise=0.1, spectrum=np.linspace(0, 2, 5)), 0.5, NuclearNorm(0.1)),
}


@pytest.mark.parametrize("name", ASKED)
def test_moments_atom_and_mass_are_those_of_the_limits(name):
    model, alpha, learner = ASKED[name]
    law, limit = spectrum(model, alpha, learner), limits(model, [alpha], learner)
    power = limit["power" if "power" in limit.columns else "overlap"].ravel()[0]
    # A mean over the singular values of the smaller side, in units in which errors are counted.
    beta = model.parameters.get("beta", 1.0)
    unit = min(beta, 1 / beta) ** 0.5
    assert law.moment(2) * unit == pytest.approx(power, rel=1e-9)
    assert law.moment(0) == pytest.approx(1, abs=1e-7)
    if "rank" in limit.columns:
        assert law.atom == pytest.approx(1 - limit["rank"][0], abs=1e-7)
    finite = np.isfinite(law["density"])
    assert np.trapezoid(law["density"][finite], law["value"][finite]) + law.atom == pytest.approx(1, abs=0.01)
    assert law["value"].max() <= law.edges.max() * (1 + 1e-9)


def test_the_law_of_the_teacher_is_beside_it():
    law = spectrum(LINEAR, 0.9, "gamp")
    assert 0.2 < np.trapezoid(law["prior_density"], law["value"]) < 0.3
    assert np.isnan(spectrum(*ASKED["given values"])["prior_density"]).all()


@pytest.mark.parametrize("learner", ["gamp", "ridge"])
def test_values_of_runs_approach_the_law(learner):
    law, far = spectrum(LINEAR, 0.5, learner), []
    for d in (12, 48):
        runs = simulate(LINEAR, [0.5], learner, d=d, instances=4, keep=("singular_values",))
        assert runs.instances[0][0].singular_values.shape == (1, d)
        far.append(law.distance(runs.of_instances("singular_values")))
    assert far[1] < 0.5 * far[0] < 0.1


def test_pictures_have_histograms_of_runs(tmp_path):
    law = spectrum(LINEAR, 0.5, NuclearNorm(0.1))
    runs = simulate(LINEAR, [0.5], NuclearNorm(0.1), d=12, instances=2, keep=("singular_values",))
    law.plot(tmp_path / "law.png", runs=runs)
    assert (tmp_path / "law.png").stat().st_size > 3000
    with pytest.raises(IncompatibleError, match="keep"):
        law.plot(tmp_path / "law.png", runs=simulate(LINEAR, [0.5], "ridge", d=12, instances=2))


def test_what_has_no_law_is_refused_with_the_remedy():
    rows = SequenceMultiIndex(lambda Z: Z[0, 0], 1, noise=0.1)
    with pytest.raises(IncompatibleError, match="use learner gamp, ridge or risk"):
        spectrum(LINEAR, 0.5, "vamp")
    with pytest.raises(IncompatibleError, match="use bsr or aim"):
        spectrum(rows, 0.5, "gamp")
    with pytest.raises(IncompatibleError, match="rows"):
        simulate(rows, [0.5], d=10, keep=("singular_values",))
    with pytest.raises(ParameterError, match="alpha"):
        spectrum(LINEAR, 0.0)


def spiked(model, **settings):
    """Return a model with a teacher of rank two among a thousand dimensions."""
    return model(noise=0.1, spectrum=np.repeat([0.0, 1.0, 2.0], [998, 1, 1]), **settings)


@pytest.mark.parametrize(
    ("model", "learner"),
    [
        (spiked(BilinearSequenceRegression), "ridge"),
        (spiked(BilinearSequenceRegression), NuclearNorm(strength=0.1)),
        (spiked(BilinearSequenceRegression, beta=3.0), "ridge"),
        (spiked(AttentionIndexed, channel="linear"), RegularisedRisk("square", "trace", 0.1)),
    ],
)
def test_outliers_are_where_spikes_in_noise_are(model, learner):
    limit, law = limits(model, [0.05], learner), spectrum(model, 0.05, learner)
    noise, beta = float(limit["effective_noise"][0]), model.parameters.get("beta", 1.0)
    assert len(law.outliers) == 2
    for outlier in law.outliers:
        x = outlier.teacher
        # Squared overlaps of the longer and of the shorter side with one value x in noise (arXiv:1103.2221).
        sides = [(1 - noise**2 / x**4) / (1 + noise * ratio / x**2) for ratio in (beta**0.5, beta**-0.5)]
        assert outlier.overlap == pytest.approx(np.sqrt(np.prod(sides)), rel=0.01)
        assert outlier.share == pytest.approx(1e-3, rel=1e-6)
    assert law.outliers[1].teacher == pytest.approx(2 * law.outliers[0].teacher)


def test_spikes_below_the_noise_make_no_outliers():
    assert len(spectrum(spiked(BilinearSequenceRegression), 0.004, "ridge").outliers) == 1
    assert spectrum(LINEAR, 0.5, "ridge").outliers == ()


def test_directions_see_the_teacher():
    bayes, ridge = spectrum(LINEAR, 0.5, "gamp"), spectrum(LINEAR, 0.5, "ridge")
    assert bayes["teacher_value"] == pytest.approx(bayes["value"])
    overlap = float(limits(LINEAR, [0.5], "ridge")["overlap"][0])
    assert float(ridge.weights @ (ridge["value"] * ridge["teacher_value"])) == pytest.approx(overlap, rel=1e-6)


def test_a_narrow_student_keeps_the_largest_values():
    law = spectrum(LINEAR, 0.5, RegularisedRisk("square", "nuclear", 0.05, student_rho=0.1))
    assert law.atom == pytest.approx(0.9, abs=1e-6)
    assert law["value"].min() > 1


def test_descent_has_a_law_after_every_step():
    """After many steps with decay that of the risk; runs have the same values at any time."""
    descent = GradientDescent("sgd", 0.2)
    accuracy = Accuracy(matrix_size=60, draws=3)
    law = spectrum(LINEAR, 0.5, descent, step=5, accuracy=accuracy)
    after = trajectory(LINEAR, [0.5], descent, steps=5, accuracy=accuracy)
    assert law.moment(2) == pytest.approx(after["power"][-1], rel=0.1)
    assert law.atom == pytest.approx(0.7, abs=0.02)
    assert np.trapezoid(law["density"], law["value"]) + law.atom == pytest.approx(1, abs=0.1)
    runs = simulate(
        *(LINEAR, [0.5], GradientDescent("sgd", 0.2, steps=5, explore=0)),
        **{"d": 40, "instances": 3, "keep": ("singular_values",), "throw": False},
    )
    assert law.distance(runs.of_instances("singular_values")) < 0.04
    with pytest.raises(IncompatibleError, match="give step"):
        spectrum(LINEAR, 0.5, GradientDescent("sgd", 0.2, steps=5))
    with pytest.raises(IncompatibleError, match="leave it out"):
        spectrum(LINEAR, 0.5, "ridge", step=3)
    with pytest.raises(IncompatibleError, match="use learner gd"):
        spectrum(LINEAR, 0.5, "averaged-gd", step=3)
