"""Names of the version before lead somewhere, with a note."""

import importlib
import importlib.util

import pytest

from glassformer.core.deprecated import MERGED, MOVED, _Moved


@pytest.mark.parametrize("place", sorted(set(MOVED.values())))
def test_every_former_module_has_a_home(place):
    assert importlib.util.find_spec(f"glassformer.{place}") is not None


@pytest.mark.parametrize(("module", "former"), [(module, name) for module in MERGED for name in MERGED[module]])
def test_what_was_merged_has_its_former_names(module, former):
    with pytest.warns(DeprecationWarning, match=f"glassformer.{module} is now"):
        _Moved().exec_module(
            importlib.util.module_from_spec(importlib.util.spec_from_loader(f"glassformer.{module}", loader=None))
        )
    assert callable(getattr(importlib.import_module(f"glassformer.{MOVED[module]}"), former))


@pytest.mark.parametrize("name", ["Channel", "Descent", "MultiPass", "Regularised", "Training"])
def test_former_names_at_the_root_lead_to_the_new_ones(name):
    with pytest.warns(DeprecationWarning, match="the former name goes with the next version"):
        assert getattr(importlib.import_module("glassformer"), name) is not None


def test_former_attributes_lead_to_the_new_ones():
    prior = importlib.import_module("glassformer").BilinearSequenceRegression(rho=0.5).prior
    for part, old, new in (
        (prior, "dimension", 0.75),
        (prior.in_rows, "dimension", 0.75),
        (prior.in_rows, "moment", 1),
    ):
        with pytest.warns(DeprecationWarning, match=f"{old} is now"):
            assert getattr(part, old) == new
