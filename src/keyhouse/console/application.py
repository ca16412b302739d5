"""The console as a web application: routes, static files, and the login by a link."""

import contextlib
from collections.abc import AsyncIterator
from importlib.resources import files
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route

from keyhouse.base.errors import KeyhouseError
from keyhouse.console.guard import EVENTS, OPEN, Guard, cookie_name
from keyhouse.console.page import SECTIONS, Console, TemplateView, console_of, rendered
from keyhouse.console.pages import (
    editor,
    history,
    keys,
    manifest,
    recovery,
    revocations,
    secrets,
    trust,
    updates,
    workloads,
)
from keyhouse.views.visible import visible

_TYPES: Final = {
    "console.css": "text/css",
    "console.js": "text/javascript",
    "theme.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
_COME_IN: Final = """<!doctype html><html lang="en"><meta charset="utf-8">
<meta http-equiv="refresh" content="0;url=/"><title>Keyhouse</title><p><a href="/">Continue</a></p>
"""


def application(console: Console, port: int) -> Guard:
    """Return the web application of ``console``, behind the checks of ``Guard``.

    A request must name the address 127.0.0.1 or localhost, with ``port``.
    """

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await console.deployments.close()

    app = Starlette(routes=[*_own_routes(), *_routes_at("/d/{name}")], lifespan=lifespan)
    app.state.console = console
    app.state.port = port
    return Guard(app, console.gate, port)


def _own_routes() -> list[Route]:
    """Return the routes for the whole console, such as the login and static files."""
    return [
        Route("/", first_page),
        Route(OPEN, open_session),
        Route("/here", keep_session_open),
        Route("/lock", lock, methods=["POST"]),
        Route("/favicon.ico", icon),
        Route("/static/{file}", static),
    ]


def _routes_at(at: str) -> list[Route]:
    """Return the routes for a deployment, below the path ``at``."""
    return [
        Route(at, to_trust),
        Route(f"{at}/news", trust.news),
        Route(f"{at}/stream", stream),
        Route(f"{at}/trust", trust.show),
        Route(f"{at}/trust/verify", trust.verify, methods=["POST"]),
        Route(f"{at}/unlock", trust.unlock, methods=["POST"]),
        Route(f"{at}/manifest", manifest.show),
        Route(f"{at}/manifest/picture", manifest.picture),
        Route(f"{at}/manifest/source", manifest.source),
        Route(f"{at}/manifest/compare", manifest.compare, methods=["GET", "POST"]),
        Route(f"{at}/manifest/compare/older", manifest.older, methods=["POST"]),
        Route(f"{at}/updates", updates.show),
        Route(f"{at}/updates/text", editor.keep, methods=["POST"]),
        Route(f"{at}/updates/plan", editor.show),
        Route(f"{at}/updates/plan", editor.plan, methods=["POST"]),
        Route(f"{at}/updates/propose", editor.show),
        Route(f"{at}/updates/propose", editor.propose, methods=["POST"]),
        Route(f"{at}/updates/approve", updates.approve, methods=["POST"]),
        Route(f"{at}/updates/cancel", updates.cancel, methods=["POST"]),
        Route(f"{at}/updates/result/{{result}}", updates.result),
        Route(
            f"{at}/updates/result/{{result}}/secrets", updates.recovery_secrets, methods=["POST"]
        ),
        Route(f"{at}/secrets", secrets.show),
        Route(f"{at}/secrets/read", secrets.read, methods=["POST"]),
        Route(f"{at}/secrets/write", secrets.write, methods=["POST"]),
        Route(f"{at}/workloads", workloads.show),
        Route(f"{at}/workloads/living", revocations.show),
        Route(f"{at}/workloads/revoked", revocations.revoked),
        Route(f"{at}/workloads/revoke", revocations.ask),
        Route(f"{at}/workloads/revoke", revocations.revoke, methods=["POST"]),
        Route(f"{at}/history", history.show),
        Route(f"{at}/history/older", history.older, methods=["POST"]),
        Route(f"{at}/history/evidence", history.evidence),
        Route(f"{at}/keys", keys.show),
        Route(f"{at}/recovery", recovery.show),
        Route(f"{at}/recovery/completed", recovery.acknowledge, methods=["POST"]),
        Route(f"{at}/recovery/shares", recovery.shares, methods=["POST"]),
    ]


async def open_session(request: Request) -> Response:
    """Answer a request of the link in the terminal with the cookie of a new session.

    A link works once.
    """
    session = console_of(request).gate.open(request.query_params.get("token", ""))
    if session is None:
        return PlainTextResponse(
            "This link has been used, or a newer one is in the terminal.\n", 403
        )
    console_of(request).streams.end("replaced")
    # Answer a page instead of a redirect. The cookie is SameSite=Strict: after a redirect, a
    # browser that came from another site would not send the cookie.
    answer = HTMLResponse(_COME_IN)
    answer.set_cookie(
        cookie_name(request.app.state.port),
        session.cookie,
        httponly=True,
        samesite="strict",
        path="/",
    )
    return answer


async def lock(request: Request) -> Response:
    """End the session of the browser, and all streams of its pages."""
    console_of(request).gate.lock()
    console_of(request).streams.end("locked")
    return PlainTextResponse("Locked. A new link is in the terminal.\n")


async def keep_session_open(request: Request) -> Response:
    """Answer with an empty body. The request itself begins the idle time of the session again.

    The script of a page sends this request while a person is active on the page.
    """
    del request
    return Response(status_code=204)


async def stream(request: Request) -> Response:
    """Return a stream of events for an open page: a new number after each change of its content."""
    console = console_of(request)
    try:
        deployment = console.deployments.find(request.path_params["name"])
    except KeyhouseError as error:
        return PlainTextResponse(f"{visible(error.message)}\n", 404)
    section, since = (request.query_params.get(each, "") for each in ("section", "since"))
    session = request.state.session
    events = console.streams.events(
        deployment.live,
        section if section in SECTIONS else "",
        int(since) if since.isascii() and since.isdigit() else -1,
        is_open=lambda: console.gate.is_open(session),
    )
    return StreamingResponse(events, media_type=EVENTS)


async def first_page(request: Request) -> Response:
    """Redirect to the deployment of the context in use; without contexts, show how to add one."""
    console = console_of(request)
    known = console.deployments.read()
    name = console.deployments.current if console.deployments.current in known else ""
    if not known:
        return rendered(request, "", None, TemplateView("empty"))
    return RedirectResponse(f"/d/{name or next(iter(known))}/trust", 303)


async def to_trust(request: Request) -> Response:
    """Redirect to the page Trust, the first page of a deployment."""
    return RedirectResponse(f"/d/{request.path_params['name']}/trust", 303)


async def icon(request: Request) -> Response:
    """Return the icon of the console, under the name that browsers request: favicon.ico."""
    del request
    return _file("icon.svg")


async def static(request: Request) -> Response:
    """Return a static file of the console: a style sheet, a script or the icon."""
    name = request.path_params["file"]
    if name not in _TYPES:
        return PlainTextResponse("there is no such file\n", 404)
    return _file(name)


def _file(name: str) -> Response:
    content = files("keyhouse.console").joinpath("static", name).read_bytes()
    return Response(content, media_type=_TYPES[name])
