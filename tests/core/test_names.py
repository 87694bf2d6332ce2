"""What is said of a name that does not exist, of an argument that is missing, and of a word like an allowed one."""

from __future__ import annotations

import pytest

import glassformer
from glassformer import BilinearSequenceRegression, compare, limits
from glassformer.errors import ParameterError

MODEL = BilinearSequenceRegression(beta=1, rho=0.3)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("follow", "follow is now trajectory"),
        ("SequenceMultiindex", "did you mean SequenceMultiIndex?"),
        ("BSR", "did you mean BilinearSequenceRegression?"),
        ("quantum", "no attribute 'quantum'$"),
    ],
)
def test_a_name_that_does_not_exist_says_which_one_does(name, said):
    with pytest.raises(AttributeError, match=said):
        getattr(glassformer, name)


def test_public_modules_need_no_import_of_their_own():
    assert glassformer.losses.Hinge.__name__ == "Hinge"
    with pytest.raises(AttributeError):
        _ = glassformer._losses
    with pytest.raises(AttributeError, match="did you mean Hinge"):
        _ = glassformer.losses.hinge


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: limits(MODEL),
            "limits: missing a required argument: 'alpha'; its arguments are model, alpha, learner",
        ),
        (lambda: limits(MODEL, [0.5], "risk", loss="x"), "limits: .* 'loss'; its arguments are model, alpha, learner"),
    ],
)
def test_a_call_with_other_arguments_lists_them(call, said):
    with pytest.raises(TypeError, match=said):
        call()


def test_a_word_like_an_allowed_one_is_asked_for():
    with pytest.raises(ParameterError, match=r"one of gamp, .*; did you mean sgd\?"):
        limits(MODEL, [0.5], "sdg")
    with pytest.raises(ParameterError, match=r"online-sgd$"):
        limits(MODEL, [0.5], "perceptron")
    with pytest.raises(ParameterError, match=r"learners = 'ridge' is not allowed: expected a list"):
        compare(MODEL, [0.5], "ridge")
