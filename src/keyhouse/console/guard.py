"""Check every request before a page receives the request, and add headers to every answer.

The attacks, and the defence of the console against each:

==========================  ====================================================================
another user's program      refused at accept (``keyhouse.console.connections``)
DNS rebinding               ``Host`` is this address and port, exactly
a foreign page              ``Sec-Fetch-Site``; ``Origin`` of each change; a ``SameSite`` cookie
a forged form               a token of the session in each change
an injected script          no inline script or style, nothing from elsewhere
copies on the machine       no answer is cached
==========================  ====================================================================
"""

import hmac
import secrets
from collections.abc import Callable, Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_BYTES: Final = 32  # of random in a token, chosen: 256 bits cannot be guessed


class BrowserSession:
    """The session of a browser that opened a link.

    The browser sends ``cookie`` with each request, and ``csrf`` with each form. ``used`` is the
    time of the last use in monotonic seconds, and begins as ``now``.
    """

    __slots__ = ("cookie", "csrf", "used")

    def __init__(self, now: float) -> None:
        self.cookie = secrets.token_urlsafe(_BYTES)
        self.csrf = secrets.token_urlsafe(_BYTES)
        self.used = now


class Gate:
    """The unused link in the terminal, and the session of the browser that opened a link.

    A session ends after ``idle`` seconds without use. ``clock`` returns monotonic seconds.
    """

    def __init__(self, idle: float, clock: Callable[[], float]) -> None:
        self.idle = idle
        self._clock = clock
        self._link = ""
        self._sessions: list[BrowserSession] = []

    def new_link(self) -> str:
        """Return the token of a new link. An earlier unused link becomes invalid."""
        self._link = secrets.token_urlsafe(_BYTES)
        return self._link

    def open(self, token: str) -> BrowserSession | None:
        """Begin a session if ``token`` is the token of the unused link; return None otherwise.

        A new session makes the link invalid, and ends an earlier session.
        """
        if not self._link or not _same(token, self._link):
            return None
        self._link = ""
        session = BrowserSession(self._clock())
        # A second browser ends the session of the first browser.
        self._sessions = [session]
        return session

    def session(self, cookie: str, *, is_activity: bool) -> BrowserSession | None:
        """Return the session with the cookie value ``cookie``, or None after its end.

        ``is_activity``: a person caused the request, so the idle time begins again.
        """
        now = self._clock()
        self._sessions = [each for each in self._sessions if now - each.used < self.idle]
        for each in self._sessions:
            if _same(cookie, each.cookie):
                if is_activity:
                    each.used = now
                return each
        return None

    def is_open(self, session: BrowserSession) -> bool:
        """Return whether ``session`` has not ended. This call is not a use of the session."""
        return self.session(session.cookie, is_activity=False) is session

    def is_csrf(self, session: BrowserSession, token: str) -> bool:
        """Return whether ``token`` is the token for forms of ``session``."""
        return _same(token, session.csrf)

    def lock(self) -> None:
        """End all sessions."""
        self._sessions = []

    @property
    def is_locked(self) -> bool:
        """Whether there is neither a session nor an unused link, so the user needs a new link."""
        now = self._clock()
        return not self._link and not any(now - each.used < self.idle for each in self._sessions)


def _same(given: str, known: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), known.encode())


HOST: Final = "127.0.0.1"
OPEN: Final = "/open"
REFRESH: Final = "keyhouse-refresh"
"""A request header that scripts send for requests without an action of the user."""

EVENTS: Final = "text/event-stream"
"""The media type of streams. A browser opens them without an action of the user, too."""

_STATIC: Final = "/static/"
# Bytes of a form: a manifest of 16 MiB, percent-encoded in part.
_LARGEST: Final = 24 << 20
# With no-referrer, the Origin of a page's own forms would be null (Fetch standard).
_HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self';"
    " img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none';"
    " frame-ancestors 'none'",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def cookie_name(port: int) -> str:
    """Return the name of the session's cookie. The name contains the console's ``port``.

    Servers on all ports of a host share their cookies, so equal names would collide.
    """
    return f"keyhouse-console-{port}"


class Guard:
    """Protects the web application ``app`` of the console, on ``port`` of the loopback address.

    The guard refuses each request that fails a check of this module (see the table above). ``gate``
    has the unused link, and the session of the browser.
    """

    def __init__(self, app: ASGIApp, gate: Gate, port: int) -> None:
        self._app = app
        self._gate = gate
        self._port = port
        self._hosts = {f"{HOST}:{port}", f"localhost:{port}"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the application if it passes all checks, else answer with a refusal.

        The parameters are those of ASGI.
        """
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError(f"the console accepts HTTP requests only, this is {scope['type']!r}")

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
            await send(message)

        refusal = self._refusal(scope) or await self._admitted(scope, receive)
        await (refusal or self._app)(scope, receive, with_headers)

    def _refusal(self, scope: Scope) -> PlainTextResponse | None:
        """Return None if the headers in ``scope`` are those of a page of this console.

        Otherwise, return a refusal.
        """
        headers = Headers(scope=scope)
        if headers.get("host", "") not in self._hosts:
            return _no(
                f"this console has only the address http://{HOST}:{self._port}; open it there"
            )
        if scope["method"] not in {"GET", "HEAD", "POST"}:
            return PlainTextResponse("only GET and POST\n", 405)
        site = headers.get("sec-fetch-site", "none")
        if site not in {"none", "same-origin"} and scope["path"] != OPEN:
            return _no("another site sent this request; open the console by its own address")
        if scope["method"] == "POST" and not self._is_own(headers.get("origin", "")):
            return _no("a change must come from a page of this console")
        return None

    def _is_own(self, origin: str) -> bool:
        return origin.removeprefix("http://") in self._hosts and origin.startswith("http://")

    async def _admitted(self, scope: Scope, receive: Receive) -> PlainTextResponse | None:
        """Store the session of the request, and the fields of a form, in ``scope``.

        Return a refusal if there is no session, and for a form that is too large or has a wrong
        token. ``receive`` reads the body.
        """
        if scope["path"] == OPEN or scope["path"].startswith(_STATIC):
            return None
        headers = Headers(scope=scope)
        session = self._gate.session(
            _cookie(headers.get("cookie", ""), cookie_name(self._port)),
            is_activity=REFRESH not in headers and headers.get("accept") != EVENTS,
        )
        if session is None:
            return PlainTextResponse(
                "Locked. A new link is in the terminal in which keyhouse console runs.\n", 401
            )
        fields: dict[str, str] = {}
        if scope["method"] == "POST":
            body = await _body(Request(scope, receive))
            if body is None:
                return PlainTextResponse("Refused: the form has more than 24 MiB.\n", 413)
            fields = _fields(body)
            if not self._gate.is_csrf(session, fields.pop("csrf", "")):
                return _no("the page belongs to an older session; load the page again")
        scope["state"] = {**scope.get("state", {}), "session": session, "fields": fields}
        return None


def _no(why: str) -> PlainTextResponse:
    return PlainTextResponse(f"Refused: {why}.\n", 403)


def _cookie(header: str, name: str) -> str:
    try:
        found = SimpleCookie(header).get(name)
    except CookieError:
        return ""
    return found.value if found is not None else ""


async def _body(request: Request) -> bytes | None:
    """Return the body of ``request``, or None for more than 24 MiB.

    The body stays in memory: it can contain values of secrets.
    """
    parts, size = list[bytes](), 0
    async for part in request.stream():
        size += len(part)
        if size > _LARGEST:
            return None
        parts.append(part)
    return b"".join(parts)


def _fields(body: bytes) -> dict[str, str]:
    """Return the fields in ``body``, a form (``application/x-www-form-urlencoded``).

    A field that occurs twice is left out. The result is empty for an unreadable form.
    """
    try:
        found = parse_qs(body.decode("ascii"), keep_blank_values=True, errors="strict")
    except (UnicodeDecodeError, ValueError):
        return {}
    return {name: values[0] for name, values in found.items() if len(values) == 1}
