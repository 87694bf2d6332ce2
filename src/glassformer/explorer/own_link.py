"""The tab of a link of one's own: a function from a file that the command line named, or from the page if it may."""

from __future__ import annotations

import html
import io
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import panel as pn

from glassformer.core.errors import GlassformerError, LinkError
from glassformer.explorer.answer import Request
from glassformer.explorer.model_tab import ModelTab
from glassformer.explorer.question import SHAPE, beginning, built, offered
from glassformer.explorer.updates import on_next_tick
from glassformer.explorer.work import Scheduler
from glassformer.models.registry import MODELS, function_from, options_of

_EXAMPLE = '''import jax.numpy as jnp


def link(z):
    """From the fields z of one sequence, shape (directions, tokens), to its label."""
    return jnp.tanh(z[0, 0])
'''
_WITHOUT = (
    "No link is given. Start with <code>glassformer explore --link FILE.py:FUNCTION</code> to look at a function of "
    "your own, or with <code>--allow-code</code> to write one into this page: without it the page runs no code."
)


# Most indices and tokens with which a function is tried.
_MOST = 4


@dataclass(frozen=True)
class LinkSource:
    """What the command line said.

    Attributes:
        function: the link, if a file was named.
        name: ``FILE.py:FUNCTION``.
        family: the model that it is a link of.
        code: whether code written into the page may run.
    """

    function: Callable[..., Any] | None = None
    name: str = ""
    family: str = ""
    code: bool = False


def families() -> list[str]:
    """Models that take a link.

    Example:
        >>> families()
        ['bsr', 'aim', 'smi']
    """
    return [name for name in MODELS if any(option.field == "link" for option in options_of(name))]


def shape_of(function: Callable[..., Any], family: str, texts: Mapping[str, str]) -> dict[str, str]:
    """Indices and tokens with which a function works as a link and its labels depend on the fields.

    Those that are asked for are tried first, then ever larger ones; empty where the family has neither, or none works.

    Example:
        >>> shape_of(lambda z: z[0, 0] * z[1, 0], "smi", {})
        {'indices': '2', 'tokens': '1'}
    """
    start = {**beginning(family), **texts}
    names = [option.field for option in offered(family) if option.field in SHAPE]
    sizes = sorted(product(range(1, _MOST + 1), repeat=len(names)), key=lambda size: (prod(size), size[::-1]))
    for size in [tuple(start[name] for name in names), *sizes] if names else []:
        shape = {name: str(one) for name, one in zip(names, size, strict=True)}
        try:
            built(family, {**start, **shape}, function)
        except LinkError:
            continue
        except GlassformerError:
            # Something else is wrong, and the page says so.
            pass
        return shape
    return {}


class OwnLink:
    """A choice of the family, the function, and a bench about both.

    Args:
        given: what the command line said.
        asked: what an address said.
        bench: makes a bench of a family with a link.
        moved: called when what is asked has changed.
        later: has a function called in the thread of the page.
    """

    def __init__(
        self,
        given: LinkSource,
        asked: dict[str, str],
        model_tab: Callable[[str, dict[str, str], tuple[Any, str]], ModelTab],
        moved: Callable[[], None],
        later: Scheduler,
    ) -> None:
        self._link, self._make, self._moved, self._later = (given.function, given.name), model_tab, moved, later
        # An address may say what is asked of a link that has yet to be written.
        self._asked = {name: text for name, text in asked.items() if name != "tab"}
        family = asked.get("family") or given.family
        known = families()
        self._family = pn.widgets.Select(
            name="labels of the model", options=known, value=family if family in known else known[-1], width=200
        )
        self._place, self._status_html = pn.Column(sizing_mode="stretch_width"), pn.pane.HTML("", margin=(0, 8))
        self.model_tab: ModelTab | None = None
        self.view = pn.Column(self._family, *self._source(given.code), self._status_html, self._place)
        self.view.sizing_mode = "stretch_width"
        self._family.param.watch(lambda _: on_next_tick(self._open, {}), "value")
        self._open(asked)

    @property
    def texts(self) -> dict[str, str]:
        """What is asked, the family included."""
        asked = self._asked if self.model_tab is None else self.model_tab.texts
        return {**asked, "family": self._family.value}

    def _source(self, allowed: bool) -> list[Any]:
        if not allowed:
            said = f"Labels are <code>{html.escape(self._link[1])}</code>." if self._link[0] else _WITHOUT
            return [pn.pane.HTML(f"<p>{said}</p>", margin=(0, 8), sizing_mode="stretch_width")]
        self._code = pn.widgets.TextAreaInput(name="Python code", value=_EXAMPLE, rows=8, sizing_mode="stretch_width")
        self._function = pn.widgets.TextInput(name="name of the function", value="link", width=200)
        use = pn.widgets.Button(name="Run this code", button_type="primary")
        use.on_click(lambda _: on_next_tick(self._use))
        keep = pn.widgets.FileDownload(
            callback=lambda: io.BytesIO(self._code.value.encode()), filename="link.py", label="Download link.py",
            auto=True, embed=False,
        )  # fmt: skip
        return [self._code, pn.FlexBox(self._function, use, keep, align_items="end")]

    def _use(self) -> None:
        """Run the code as the file that it will be on the command line."""
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "link.py").write_text(self._code.value)
            name = f"link.py:{self._function.value}"
            try:
                self._link = function_from(name, Path(folder)), name
            except GlassformerError as error:
                self._status_html.object = f'<p role="alert" class="refused">{html.escape(str(error))}</p>'
                return
        self._status_html.object = ""
        self._open(self._asked if self.model_tab is None else self.model_tab.texts)

    def _open(self, asked: dict[str, str]) -> None:
        if self._link[0] is None:
            self._moved()
            return
        # The page is there before the function is called.
        self._status_html.object = '<p role="status" class="told">Trying the function on fields of several shapes</p>'
        self._later(partial(self._make_bench, asked))

    def _make_bench(self, asked: dict[str, str]) -> None:
        if self.model_tab is not None:
            self.model_tab.end()
        function, family = self._link[0], self._family.value
        assert function is not None
        shape = shape_of(function, family, asked)
        self._status_html.object = _shape_text(shape) if shape else ""
        self.model_tab = self._make(family, {**asked, **shape}, self._link)
        self._place[:] = [self.model_tab.view]
        self._moved()

    def neighbours(self) -> list[Request]:
        """What may be asked next."""
        return [] if self.model_tab is None else self.model_tab.neighbours()

    def end(self) -> None:
        """Compute nothing more."""
        if self.model_tab is not None:
            self.model_tab.end()


def _shape_text(shape: Mapping[str, str]) -> str:
    sizes = html.escape(" and ".join(f"{name} = {text}" for name, text in shape.items()))
    return f'<p class="told">The function is taken for one of fields with {sizes}. Change them if it is not.</p>'
