"""A server for this machine alone."""

from __future__ import annotations

from typing import Any

from tornado.httputil import HTTPServerRequest
from tornado.routing import Matcher, Rule
from tornado.web import RequestHandler

from glassformer.explore.page import STYLE, page

ADDRESS = "127.0.0.1"


class OtherHost(Matcher):
    """Requests to another host than this machine, or from pages of one, whose name was made to point here."""

    def __init__(self, allowed: list[str]) -> None:
        self._allowed = allowed

    def match(self, request: HTTPServerRequest) -> dict[str, Any] | None:
        origin = request.headers.get("Origin", f"http://{request.host}")
        here = request.host in self._allowed and origin.removeprefix("http://") in self._allowed
        return None if here else {}


class Refusal(RequestHandler):
    """What they get."""

    def prepare(self) -> None:
        self.set_status(403)
        self.finish("glassformer explore answers to this machine alone: use the address that it printed\n")


def server(port: int = 0, first: str = "bsr") -> Any:
    """A server that listens on 127.0.0.1 and answers nobody else, not yet started.

    Args:
        port: 0 for any that is free.
        first: the tab that is open at first.
    """
    import panel as pn

    pn.extension(raw_css=[STYLE])
    made = pn.io.server.get_server(lambda: page(first), port=port, address=ADDRESS, title="glassformer explorer")
    allowed = [f"{name}:{made.port}" for name in (ADDRESS, "localhost")]
    application = made._tornado
    application.websocket_origins.update(allowed)
    application.default_router.rules.insert(0, Rule(OtherHost(allowed), Refusal))
    return made


def serve(first: str, port: int, show: bool) -> None:
    """Answer until interrupted."""
    made = server(port, first)
    made.start()
    place = f"http://{ADDRESS}:{made.port}/"
    print(f"glassformer explorer at {place} (Ctrl-C stops it)", flush=True)
    if show:
        made.show("/")
    made.run_until_shutdown()
