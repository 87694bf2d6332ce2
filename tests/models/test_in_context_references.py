"""References for regression in context: predictors that know the law, or the list, of the tasks."""

import numpy as np
import pytest

from glassformer import IncompatibleError, InContextRegression, Ridge, limits
from glassformer.learners.ridge import ridge_error
from glassformer.models.in_context_references import in_context_references, layer_errors


def test_the_best_predictor_for_new_tasks_is_ridge_on_the_context():
    for context, noise in ((1.0, 0.25), (3.0, 0.01), (0.4, 1.0)):
        found = in_context_references(InContextRegression(context, 0.5, noise))["best_for_new_tasks"]
        assert found.new_task_error == pytest.approx(noise + ridge_error(context, noise), rel=1e-10)


@pytest.mark.parametrize(
    ("given", "errors"), [((1, 0.5, 0.25), (0.40188, 1.12712)), ((2, 2, 0.1), (0.17629, 0.20793))], ids=str
)
def test_ridge_with_the_covariance_of_the_tasks(given, errors):
    """Runs at d = 400 had 0.40253(81), 1.1352(41), and 0.17677(34), 0.20953(64)."""
    found = in_context_references(InContextRegression(*given))["covariance_of_tasks"]
    assert tuple(round(error, 5) for error in found) == errors


def test_one_layer_is_the_limit_of_many_sequences():
    model = InContextRegression(2, 0.5, 0.1)
    many = limits(model, [1e9], Ridge(0))
    found = in_context_references(model)
    assert found["one_layer"].test_error == pytest.approx(many["test_error"][0], rel=1e-8)
    assert found["one_layer"].new_task_error == pytest.approx(many["new_task_error"][0], rel=1e-8)
    # Nothing beats the list of tasks on training tasks, and nothing the law of new tasks on new ones.
    assert found["list_of_tasks"].test_error < found["covariance_of_tasks"].test_error < found["one_layer"].test_error
    assert found["best_for_new_tasks"].new_task_error <= min(one.new_task_error for one in found.values())


def test_steps_end_at_the_fixed_point():
    model = InContextRegression(2, 0.5, 0.1)
    trained, new = layer_errors(model, 1000)
    assert len(trained) < 1000
    assert np.all(np.diff(trained[:6]) < 0)
    assert tuple(in_context_references(model)["covariance_of_tasks"]) == (trained[-1], new[-1])


def test_other_contexts_are_refused():
    for given in ({"context": np.inf}, {"test_context": 3.0}, {"test_noise": 0.3}, {"test_spectrum": (0.5, 1.5)}):
        with pytest.raises(IncompatibleError):
            in_context_references(InContextRegression(**{"context": 2.0, **given}))
