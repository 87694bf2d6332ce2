"""Plans over the width of the student."""

from __future__ import annotations

import functools
import json

import numpy as np
import pytest

from glassformer import BilinearSequenceRegression, IncompatibleError, RegularisedRisk, limits, plan
from glassformer.cli import main
from glassformer.core.errors import ParameterError
from glassformer.verbs import width_plan

LINEAR = BilinearSequenceRegression(rho=0.1, noise=0.2)
NUCLEAR = RegularisedRisk("square", "nuclear", 0.05)


ALPHA = 0.5


@functools.cache
def computed():
    full = float(limits(LINEAR, [ALPHA], NUCLEAR)["error"][0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(width_plan, "_WIDTHS", 0.5 ** np.array([1.5, 2.0, 2.5]))
        patch.setattr(width_plan, "_ACCURACY", 0.05)
        return full, width_plan.plan_width(LINEAR, NUCLEAR, "error", full, ALPHA)


@pytest.mark.slow
def test_the_best_width_has_the_least_error_and_reaches_the_target_first(tmp_path):
    full, found = computed()
    assert found["error"][-1] == full and found["student_rho"][-1] == 1
    assert np.all(np.diff(found["student_rho"]) > 0)
    at = int(np.argmin(found["error"]))
    assert found.best == found["student_rho"][at] == pytest.approx(0.1, rel=0.2)
    assert found.gain == full / found["error"][at] > 1.9
    narrow = limits(LINEAR, [found.needed], NUCLEAR.varied(student_rho=found.best))["error"][0]
    assert found.needed < ALPHA and narrow == pytest.approx(full, rel=0.1)
    assert f"best width {found.best:.3g} d" in str(found)
    found.plot(tmp_path / "widths.png")
    assert (tmp_path / "widths.png").stat().st_size > 3000


@pytest.mark.slow
def test_plans_over_widths_are_written(capsys, monkeypatch):
    monkeypatch.setattr("glassformer.verbs.plan.plan", lambda *_, over, **__: computed()[1] if over else None)
    assert (
        main(["plan", "bsr", "--rho", "0.1", "--target", "0.3", "--learner", "risk", "--over", "student_rho", "--json"])
        == 0
    )
    written = json.loads(capsys.readouterr().out)
    assert written["schema"].startswith("glassformer/width-plan") and written["best"] == computed()[1].best


def test_what_cannot_be_planned_is_refused():
    with pytest.raises(ParameterError, match="over"):
        plan(LINEAR, 0.3, NUCLEAR, over="student_width")
    with pytest.raises(IncompatibleError, match="use learner risk"):
        plan(LINEAR, 0.3, "gamp", over="student_rho")
    with pytest.raises(IncompatibleError, match="reach"):
        plan(LINEAR, 1e-9, RegularisedRisk("square", "ridge", 5.0), over="student_rho")
