"""An explorer in the browser."""

from __future__ import annotations

import argparse


def add(parser: argparse.ArgumentParser) -> None:
    """Which model first, a function of one's own, and where the page is."""
    from glassformer.models.registry import MODELS

    parser.add_argument("model", nargs="?", metavar="MODEL", help=f"{', '.join(MODELS)} (default bsr)")
    parser.add_argument("--port", type=int, default=0, help="of 127.0.0.1 (default any that is free)")
    parser.add_argument("--no-browser", action="store_true", help="print the address, and open nothing")
    parser.add_argument("--check", action="store_true", help="start, ask for the page once, and stop")


def run(options: argparse.Namespace) -> int:
    """Serve the page until interrupted."""
    from glassformer.explore.server import serve

    serve(options.model or "bsr", options.port, not options.no_browser)
    return 0
