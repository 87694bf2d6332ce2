"""Interactive figures in the browser."""

from __future__ import annotations

import argparse

from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.link_parsing import function_from
from glassformer.models.registry import MODELS


def add(parser: argparse.ArgumentParser) -> None:
    """The first model, a link function, and the address of the page."""
    parser.add_argument("model", nargs="?", metavar="MODEL", help=f"{', '.join(MODELS)} (default bsr)")
    text = "function of one sample that gives the labels of bsr, aim or smi; its file is run"
    parser.add_argument("--link", metavar="FILE.py:FUNCTION", help=text)
    text = "run Python code that is typed into the page (default: it is refused)"
    parser.add_argument("--allow-code", action="store_true", help=text)
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1 (default: any free port)")
    parser.add_argument("--no-browser", action="store_true", help="print the address and open no browser")
    parser.add_argument("--check", action="store_true", help="start the server, make one page, and stop")


def run(options: argparse.Namespace) -> int:
    """Serve the page until interrupted."""
    if options.model is not None and options.model not in MODELS:
        raise ParameterError("model", options.model, f"one of {', '.join(MODELS)}")
    if not 0 <= options.port < 2**16:
        raise ParameterError("port", options.port, "a number from 0 to 65535")
    function = None if options.link is None else function_from(options.link)
    try:
        from glassformer.explorer.own_link import LINK, LinkSource
        from glassformer.explorer.server import check, serve
    except ModuleNotFoundError as error:
        raise IncompatibleError(f"explore needs {error.name}: pip install 'glassformer[explore]'") from None
    given = LinkSource(function, options.link or "", options.model or "", options.allow_code)
    first = LINK if options.link else options.model or ""
    if options.check:
        check(first, options.port, given)
    else:
        serve(first, options.port, not options.no_browser, given)
    return 0
