"""The choice of learners that are drawn beside the Bayes-optimal one: those that the model at hand fits."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import panel as pn

from glassformer.explorer.collapsible import Collapsible

_TITLE = "Learners with a theory, beside the Bayes-optimal one"


class LearnerChoice:
    """Boxes to tick, and why some are not there.

    Args:
        among: all learners that have a theory.
        ticked: those that are asked for at the start, apart by commas.
        changed: called with those that are ticked from now on.
    """

    def __init__(self, among: Sequence[str], ticked: str, changed: Callable[[str], None]) -> None:
        self._among = among
        self._boxes = pn.widgets.CheckBoxGroup(
            name="learners with a theory",
            options=list(among),
            value=[name for name in ticked.split(",") if name in among],
            margin=(0, 8),
        )
        self._boxes.param.watch(lambda event: changed(",".join(event.new)), "value")
        self._refused = Collapsible("Learners that are not for this model", visible=False)
        self._title = pn.pane.HTML(_TITLE, margin=(0, 8))
        self.view = pn.Column(self._title, self._boxes, self._refused.view, sizing_mode="stretch_width")

    def offer(self, refused: Mapping[str, str]) -> None:
        """Leave out those that do not go with the model, and say why."""
        fitting = [name for name in self._among if name not in refused]
        if fitting != self._boxes.options:
            ticked = [name for name in self._boxes.value if name in fitting]
            self._boxes.param.update(options=fitting, value=ticked, visible=bool(fitting))
            self._title.object = _TITLE if fitting else f"{_TITLE}: none for this model"
        self._refused.view.visible = bool(refused)
        self._refused.show(partial(_reasons, refused))


def _reasons(refused: Mapping[str, str]) -> str:
    return "".join(f'<p class="told">{html.escape(name)}: {html.escape(why)}</p>' for name, why in refused.items())
