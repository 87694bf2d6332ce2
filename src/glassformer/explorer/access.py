"""Access to the page: the secret in its address, the headers of every response, and a log without the secret."""

from __future__ import annotations

import hmac
import logging
import re
from functools import partial
from traceback import walk_tb
from typing import Any

from tornado.httputil import HTTPHeaders, HTTPServerRequest
from tornado.routing import Matcher, Rule
from tornado.web import OutputTransform, RequestHandler

_LOCAL = ("127.0.0.1", "localhost")
# First parts of paths that need no secret: files of Bokeh and Panel, which everybody can download elsewhere.
_PUBLIC = ("static", "favicon.ico")
# Longest line of the log: a message of any length may be part of one.
_LONGEST = 500


def protect(application: Any, port: int, secret: str) -> None:
    """Let an application of Tornado answer only to this machine, and only below the path ``/SECRET``.

    Every other request, that of a websocket included, gets status 403; only the files of Bokeh and Panel need no
    secret. All responses forbid frames, other sources of scripts, and a ``Referer`` header.
    """
    hosts = [f"{name}:{port}" for name in _LOCAL]
    application.websocket_origins.update(hosts)
    application.default_router.rules.insert(0, Rule(Unauthorised(port, secret), Refusal))
    application.add_transform(partial(SecurityHeaders, _headers(hosts)))


class Unauthorised(Matcher):
    """Requests to another host, from a page of another host, or without the secret."""

    def __init__(self, port: int, secret: str) -> None:
        self._port, self._secret = port, secret
        self._hosts = [f"{name}:{port}" for name in _LOCAL]

    def match(self, request: HTTPServerRequest) -> dict[str, Any] | None:
        reason = self._reason(request)
        return None if reason is None else {"target_kwargs": {"reason": reason}}

    def _reason(self, request: HTTPServerRequest) -> str | None:
        origin = request.headers.get("Origin", f"http://{request.host}").removeprefix("http://")
        for host in (request.host, origin):
            if host not in self._hosts and host.partition(":")[0] in _LOCAL:
                return (
                    f"{host} is not allowed: the explorer listens at port {self._port}. Behind an ssh tunnel the ports "
                    f"at both ends must match: ssh -L {self._port}:127.0.0.1:{self._port} HOST"
                )
            if host not in self._hosts:
                return "The explorer answers to this machine alone: use the address that it printed."
        given = request.path.removeprefix("/").partition("/")[0]
        # The time of this comparison does not depend on how much of the secret is right.
        if given in _PUBLIC or hmac.compare_digest(given.encode(), self._secret.encode()):
            return None
        return (
            "The address lacks the secret of this explorer: use the address that it printed. The query of an older "
            "address, from the question mark on, may be appended to it."
        )


class Refusal(RequestHandler):
    """Status 403 with the reason."""

    def initialize(self, reason: str) -> None:
        self._refusal = reason

    def prepare(self) -> None:
        self.set_status(403)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(f"{self._refusal}\n")


class SecurityHeaders(OutputTransform):
    """Adds headers to every response."""

    def __init__(self, added: dict[str, str], request: HTTPServerRequest) -> None:
        self._added = added

    def transform_first_chunk(
        self, status_code: int, headers: HTTPHeaders, chunk: bytes, finishing: bool
    ) -> tuple[int, HTTPHeaders, bytes]:
        headers.update(self._added)
        return status_code, headers, chunk


def _headers(hosts: list[str]) -> dict[str, str]:
    """Headers that keep the page to itself."""
    policy = {
        "default-src": "'none'",
        # Bokeh's page holds one inline script; Panel compiles its templates and imports its components from blobs.
        "script-src": "'self' 'unsafe-inline' 'unsafe-eval' blob:",
        "style-src": "'self' 'unsafe-inline'",
        "img-src": "'self' data: blob:",
        "font-src": "'self' data:",
        "connect-src": " ".join(["'self'", "blob:", *(f"ws://{host}" for host in hosts)]),
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    return {
        "Content-Security-Policy": "; ".join(f"{name} {sources}" for name, sources in policy.items()),
        "X-Frame-Options": "DENY",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Resource-Policy": "same-origin",
    }


class LogFilter(logging.Filter):
    """Replaces the secret, shortens lines, and drops tracebacks in which this package has no frame.

    Such a traceback is that of a malformed message, which Tornado or Bokeh refused; its first line says so.
    """

    def __init__(self, secret: str) -> None:
        super().__init__()
        self._secret = secret

    def filter(self, record: logging.LogRecord) -> bool:
        text = re.sub(r"\s+", " ", record.getMessage()).replace(self._secret, "SECRET")
        if record.exc_info and not _in_package(record.exc_info[2]):
            error = record.exc_info[1]
            text, record.exc_info, record.exc_text = f"{text} ({error!r})", None, None
        record.msg, record.args = text[:_LONGEST], None
        return True


def _in_package(traceback: Any) -> bool:
    package = __name__.partition(".")[0]
    return any(frame.f_globals.get("__name__", "").partition(".")[0] == package for frame, _ in walk_tb(traceback))


def filter_logs(secret: str) -> None:
    """Have all handlers of the log of this process filtered."""
    handlers = [handler for name in ("", "bokeh", "panel") for handler in logging.getLogger(name).handlers]
    for handler in {*handlers, logging.lastResort}:
        if handler is not None:
            handler.addFilter(LogFilter(secret))
