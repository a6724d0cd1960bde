"""`evalkit label`: the label page as a marimo app, for people who have a token each. Needs the extra ``label``."""

from __future__ import annotations

import logging
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import uvicorn
from marimo import create_asgi_app
from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Message, Receive, Scope, Send

from evalkit.core.printable_text import one_line
from evalkit.errors import ConfigError

_pages: dict[str, Callable[[], Any]] = {}
_log = logging.getLogger("uvicorn.error")
_FOLDER = str(Path(__file__).parent).encode()
_FILE = r"[\w-][\w.-]*"
_NEEDED = {
    "GET": rf"/|/health|/assets/{_FILE}|/@file/\d+-{_FILE}|/favicon\.ico|/manifest\.json|/[\w-]+\.png",
    "POST": r"/api/kernel/set_model_value",
    "WEBSOCKET": r"/ws",
}
"""The addresses that a page needs. marimo has a hundred others, for code, files, packages, terminals and exports."""
_MOST_BYTES, _SOCKET_BYTES = 1_000_000, 65_536
_MOST_REQUESTS, _PER_SECOND, _FOR_A_SOCKET = 4000, 40, 120
"""Per person: requests at once (a page takes about 330), how many come back per second, what a new kernel costs."""
_SAFE = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'self' data: blob: 'unsafe-inline' 'unsafe-eval'; object-src 'none'; "
    "base-uri 'self'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_KEPT_BACK = (b"cookie", b"origin", b"referer", b"authorization", b"marimo-session-id", b"marimo-stable-session-id")
_LOOK = (
    "<style>[data-testid='notebook-actions-dropdown'] { display: none } #App > div { padding: 0 16px }"
    "#root:not(:has(marimo-anywidget))::after { content: 'The page is loading …'; padding: 16px }</style>"
)
_AGAIN = '<meta http-equiv="refresh" content="0;url=./">'
_WHY = {
    401: "<p>This address does not open the page. Please ask the person who sent it to you for a new one: an address "
    "holds until the page is started again.</p>",
    403: "<p>Open the page by the address that was printed for you: under another name it does not open.</p>",
    429: "<p>The page was loaded too often. Wait a minute, then load it again.</p>",
}


def page_of(request: Any) -> object:
    """The page of the person whose request opened the app, as the gate named them.

    Each session of marimo has a thread, but one list holds the widgets of all: a message that comes through the session
    of somebody else, who knows the id of this widget, is dropped.
    """
    page, thread = _pages[request.user["username"]](), threading.get_ident()
    page.comm.on_msg(lambda message: page.widget._handle_msg(message) if threading.get_ident() == thread else None)
    page.widget.set_state = lambda _: None  # a screen sends actions and changes nothing else
    return page


class Gate:
    """ASGI middleware that lets people with a token through, and only to what their page needs of marimo.

    A token in the address is changed for a folder and a cookie, which open nothing without each other. A browser sends
    the cookie to every port of the host, but of that folder only, whose name no other server knows. marimo sees none of
    the three. A browser chooses the six letters by which marimo knows its session; the gate puts the person's own mark
    before them, so nobody reaches another's session.
    """

    def __init__(self, tokens: Mapping[str, str], host: str, port: int) -> None:
        self._tokens, self._cookie = tokens, f"evalkit_label_{port}"
        self._keys = {who: f"{secrets.token_urlsafe(24)}/{secrets.token_urlsafe(24)}" for who in tokens}
        self.app: Any = None
        names = "|".join(map(re.escape, (host, "localhost", socket.gethostname())))
        # a site whose own name points here (DNS rebinding) has none of these
        self._hosts = re.compile(rf"({names}|[\d.]+|\[[\da-f:.]+\])(:\d+)?", re.IGNORECASE)
        self._left: dict[str, tuple[float, float]] = {}

    def before(self, app: Any) -> Gate:
        """Stand before this app."""
        self.app = app
        return self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it."""
        visit = HTTPConnection(scope)
        is_new = scope.get("method") == "GET" and scope["path"] == "/" and "token" in visit.query_params
        secret, keys = visit.query_params.getlist("token"), self._tokens
        if not is_new:
            folder, _, rest = scope["path"][1:].partition("/")
            secret, keys = [folder, *self._cookies(visit)], self._keys
            visit = HTTPConnection({**scope, "path": f"/{rest}", "raw_path": f"/{rest}".encode()})
        key_given = "/".join(secret).encode()
        person = next((who for who, key in keys.items() if secrets.compare_digest(key_given, key.encode())), "")
        path, sent, head = visit.scope["path"], list[str](), list[Message]()

        async def send_safely(message: Message) -> None:
            if message["type"].endswith("http.response.start"):
                headers = MutableHeaders(scope=message)
                headers.update(_SAFE)
                # a reload needs none of marimo's 300 files again
                if path.startswith("/assets/") and message["status"] == 200:
                    headers["Cache-Control"] = "private, max-age=86400"
                head.append(message)  # sent with its body: marimo begins to send files that it does not have
                return
            while head:
                await send(head.pop())
            sent.append(message["type"])
            if path == "/" and "body" in message:  # where evalkit is installed is nobody's business
                message["body"] = message["body"].replace(_FOLDER, b"-" * len(_FOLDER))
            await send(message)

        answer: Response
        if status := self._refused(visit, person):
            # a browser keeps a strict cookie back where a link of another site led here, but not at the next step
            is_led = status == 401 and not is_new and visit.headers.get("sec-fetch-site") == "cross-site"
            answer = HTMLResponse(_AGAIN * is_led + _WHY.get(status, ""), status)
        elif is_new:
            folder, _, cookie = self._keys[person].partition("/")
            answer = RedirectResponse(f"/{folder}/", 303)
            answer.set_cookie(self._cookie, cookie, path=f"/{folder}/", httponly=True, samesite="strict")
        else:
            answer = Response(status_code=404 if path.startswith("/@file/") else 500)
            try:
                await self.app(self._inner(visit, person), receive, send_safely)
            except Exception as problem:  # noqa: BLE001  # what a browser sends is no reason for a traceback
                head.clear()
                _log.warning("%s from %s: %s", one_line(path), person, one_line(str(problem))[:200])
        if not sent:
            await answer(scope, receive, send_safely)

    def _cookies(self, visit: HTTPConnection) -> list[str]:
        pairs = [pair.strip().partition("=") for pair in ";".join(visit.headers.getlist("cookie")).split(";")]
        return [value for name, _, value in pairs if name == self._cookie]

    def _refused(self, visit: HTTPConnection, person: str) -> int:
        """The status with which a request is refused; 0 if it is not."""
        kind, headers = visit.scope.get("method", "WEBSOCKET"), visit.headers
        host, origins = "\n".join(headers.getlist("host")), headers.getlist("origin")
        if not self._hosts.fullmatch(host) or any(origin.partition("://")[2] != host for origin in origins):
            return 403
        if not person:
            return 401
        if kind not in _NEEDED:
            return 405
        if not re.fullmatch(_NEEDED[kind], visit.scope["path"], re.ASCII):
            return 404
        if kind != "GET" and not origins:
            return 403
        size = headers.get("content-length", "x" if kind == "POST" else "0") + "x" * ("transfer-encoding" in headers)
        if not size.isdecimal() or int(size) > _MOST_BYTES * (kind == "POST"):
            return 413
        requests_left, since = self._left.get(person, (_MOST_REQUESTS, 0.0))
        now, cost = time.monotonic(), _FOR_A_SOCKET if kind == "WEBSOCKET" else 1
        requests_left = min(_MOST_REQUESTS, requests_left + (now - since) * _PER_SECOND) - cost
        self._left[person] = max(requests_left, 0.0), now
        return 429 if requests_left < 0 else 0

    def _inner(self, visit: HTTPConnection, person: str) -> dict[str, Any]:
        """The request without what identifies the person, who is named as its user."""
        mark = sha256(person.encode()).hexdigest()[:16]
        headers = [pair for pair in visit.headers.raw if pair[0].lower() not in _KEPT_BACK]
        if session_id := visit.headers.get("marimo-session-id"):
            headers.append((b"marimo-session-id", f"{mark}{session_id}".encode("latin-1")))
        session_id = visit.query_params.get("session_id")
        query = urlencode({"session_id": f"{mark}{session_id}"} if session_id else {}).encode()
        return {**visit.scope, "headers": headers, "query_string": query, "user": {"username": person}}


def serve(
    pages: Mapping[str, Callable[[], Any]], host: str, port: int, opened: Callable[[dict[str, str]], None]
) -> None:
    """Serve each person's page until Ctrl+C; `opened` gets the address of each person.

    Raises
    ------
    ConfigError
        If the port is in use, or the host is not one of this machine.
    """
    try:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except (OSError, OverflowError) as problem:
        why = str(getattr(problem, "strerror", None) or problem).partition(" (while")[0]
        raise ConfigError(f"{host} port {port} cannot be opened ({why}); pass another --port or --host") from None
    port, tokens = listening.getsockname()[1], {who: secrets.token_urlsafe(24) for who in pages}
    gate, file = Gate(tokens, host, port), str(Path(__file__).with_name("label_app.py"))
    app = create_asgi_app(quiet=True, html_head=_LOOK).with_app(path="", root=file, middleware=[gate.before]).build()
    marimo_state = gate.app.state
    marimo_state.config_manager = marimo_state.config_manager.with_overrides({"display": {"theme": "system"}})

    class Server(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            await marimo_state.session_manager.shutdown()  # else its threads keep the process
            await super().shutdown(sockets)

    _pages.update(pages)
    name = socket.gethostname() if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    opened({who: f"http://{name}:{port}/?token={token}" for who, token in tokens.items()})
    limits: dict[str, Any] = {"ws_max_size": _SOCKET_BYTES, "timeout_graceful_shutdown": 2, "proxy_headers": False}
    settings = uvicorn.Config(app, lifespan="off", log_level="warning", access_log=False, server_header=False, **limits)
    try:
        Server(settings).run(sockets=[listening])
    except KeyboardInterrupt:
        return
