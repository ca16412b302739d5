"""Build pages: find the deployment, render the template, and explain errors.

Long lists are divided into pages, so a browser never receives ten thousand rows.
"""

import functools
import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from keyhouse.base.errors import ForbiddenError, KeyhouseError, NotFoundError, RefusedError
from keyhouse.client import CallRefusedError, TrustError, UnreachableError
from keyhouse.console.deployments import ConsoleDeployment, Deployments, InRecoveryError
from keyhouse.console.guard import Gate
from keyhouse.console.live import Streams
from keyhouse.views.visible import listed, visible

SECTIONS: Final = {
    "trust": "Trust",
    "manifest": "Manifest",
    "updates": "Updates",
    "secrets": "Secrets",
    "workloads": "Workloads",
    "history": "History",
    "recovery": "Recovery",
    "keys": "Who can know the keys",
}
"""The pages of a deployment, in the order of the menu."""

# Sections with pages of their own before the first manifest.
_WITHOUT_MANIFEST: Final = frozenset({"", "trust"})
_ROWS: Final = 100
# A hint can begin with a command.
_COMMANDS: Final = frozenset({"keyhouse", "scripts", "chmod", "openssl"})


class Page(msgspec.Struct, frozen=True):
    """A part of a list of ``total`` rows. ``first`` is the number of its first row, from 1.

    ``previous`` and ``next`` are links to the parts before and after, or "" without such a part.
    """

    rows: tuple[Any, ...]
    total: int
    first: int  # from 1
    previous: str
    next: str

    @property
    def last(self) -> int:
        """The number of the last row of this part, from 1; 0 without rows."""
        return self.first + len(self.rows) - 1


def paged(request: Request, rows: Sequence[Any]) -> Page:
    """Return a part of ``rows``, 100 at most, for the query parameter ``page`` of ``request``.

    The parameter counts from 1. A missing or invalid parameter means the first part.
    """
    text = request.query_params.get("page", "1")
    most = max(1, -(-len(rows) // _ROWS))
    number = min(int(text), most) if text.isascii() and text.isdigit() and text != "0" else 1
    start = (number - 1) * _ROWS
    return Page(
        tuple(rows[start : start + _ROWS]),
        len(rows),
        start + 1,
        _link(request, number - 1) if number > 1 else "",
        _link(request, number + 1) if number < most else "",
    )


def _link(request: Request, number: int) -> str:
    kept = [(name, value) for name, value in request.query_params.items() if name != "page"]
    return "?" + urlencode([*kept, ("page", str(number))])


class Console:
    """The deployments, templates, streams and ``gate`` that all pages of the console share.

    ``first`` is the context to begin with, or "", as for ``Deployments``.
    """

    def __init__(self, gate: Gate, first: str, *, read_only: bool) -> None:
        self.gate = gate
        self.read_only = read_only
        self.deployments = Deployments(first, read_only=read_only)
        self.streams = Streams()
        self._templates = Environment(
            loader=PackageLoader("keyhouse.console"),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=_visible,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= {
            "exact": escape,
            "lines": _lines,
            "listed": listed,
            "sentence": _sentence,
        }

    def html(self, template: str, values: dict[str, Any]) -> str:
        """Return the HTML of the file ``template`` with ``values`` filled in."""
        return self._templates.get_template(template).render(values)


def _visible(value: Any) -> Any:
    """Return the ``value`` of an expression in a template with invisible characters escaped.

    HTML and values other than texts stay unchanged.
    """
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _lines(text: str) -> str:
    """Return ``text`` as HTML. Invisible characters are escaped, but line ends stay."""
    return escape("\n".join(map(visible, text.split("\n"))))


def _sentence(text: str) -> str:
    """Return the message ``text`` as a sentence: with a capital letter and a full stop.

    The first word stays unchanged if it can be a name, for example ``Packages.app``.
    """
    first = re.match(r"[a-z]+(?=[ ,])", text)
    if first and first[0] not in _COMMANDS:
        text = text[0].upper() + text[1:]
    return text if not text or text.endswith((".", "!", "?", ":")) else f"{text}."


class TemplateView(msgspec.Struct, frozen=True):
    """The answer of a handler: a template's name without ``.html``, its values, an HTTP status."""

    template: str
    values: dict[str, Any] = {}
    status: int = 200


Handler = Callable[[Request, ConsoleDeployment], Awaitable[TemplateView | Response]]


def console_of(request: Request) -> Console:
    """Return the console that serves ``request``."""
    console: Console = request.app.state.console
    return console


def fields_of(request: Request) -> dict[str, str]:
    """Return the fields of the form in ``request``, which the guard has checked."""
    fields: dict[str, str] = request.state.fields
    return fields


def redirect(deployment: ConsoleDeployment, section: str) -> Response:
    """Return a redirect to the page ``section``, as the answer to a change.

    So a reload of the page does not repeat the change.
    """
    return RedirectResponse(f"/d/{deployment.name}/{section}", 303)


def page(section: str) -> Callable[[Handler], Callable[[Request], Awaitable[Response]]]:
    """Return a decorator that turns a handler into an endpoint of the web application.

    The handler receives the deployment, and returns a view or an answer. ``section`` is the
    selected section of the menu. An error of the handler becomes a page with the next step.
    """

    def decorate(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        @functools.wraps(handler)
        async def endpoint(request: Request) -> Response:
            deployment: ConsoleDeployment | None = None
            try:
                deployment = console_of(request).deployments.find(request.path_params["name"])
                if section in _WITHOUT_MANIFEST or await deployment.has_manifest():
                    found = await handler(request, deployment)
                else:
                    found = TemplateView("empty")
            except InRecoveryError as error:
                found = TemplateView("recovering", {"offer": error.offer})
            except TrustError as error:
                if deployment is None:
                    raise
                found = await _untrusted(deployment, error)
            except KeyhouseError as error:
                found = _problem(error, deployment)
            if isinstance(found, Response):
                return found
            if deployment is not None:
                await deployment.identify()
            return rendered(request, section, deployment, found)

        return endpoint

    return decorate


def change(section: str) -> Callable[[Handler], Callable[[Request], Awaitable[Response]]]:
    """Return a decorator like ``page``, for a handler that changes a deployment.

    A read-only console refuses the change. ``section`` as for ``page``.
    """

    def decorate(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        @functools.wraps(handler)
        async def allowed(
            request: Request, deployment: ConsoleDeployment
        ) -> TemplateView | Response:
            if console_of(request).read_only:
                raise ForbiddenError(
                    "this console is read-only", hint="start the console without --read-only"
                )
            return await handler(request, deployment)

        return page(section)(allowed)

    return decorate


def rendered(
    request: Request, section: str, deployment: ConsoleDeployment | None, view: TemplateView
) -> HTMLResponse:
    """Return a page with the answer ``view`` of a handler, and with header and menu.

    ``section``: the selected section of the menu. ``deployment``: None for a page of the whole
    console. ``request`` has the session.
    """
    console = console_of(request)
    frame = {
        "sections": SECTIONS,
        "section": section,
        "deployment": deployment,
        "contexts": tuple(console.deployments.read()),
        "read_only": console.read_only,
        "csrf": request.state.session.csrf,
        "idle": int(console.gate.idle),
        "now": datetime.now(UTC),
    }
    return HTMLResponse(
        console.html(f"{view.template}.html", {**frame, **view.values}), view.status
    )


async def _untrusted(deployment: ConsoleDeployment, error: TrustError) -> TemplateView:
    """Return the page about ``error``, a failed verification, and distrust the coordinator.

    If a fresh quote proves that the coordinator waits for its recovery, return the page about the
    recovery instead.
    """
    offer = await deployment.find_recovery()
    if offer is not None:
        return TemplateView("recovering", {"offer": offer})
    deployment.distrust = error
    return TemplateView("distrust", {"error": error}, 502)


def status_of(error: KeyhouseError) -> int:
    """Return the HTTP status of the page about ``error``."""
    if isinstance(error, CallRefusedError):
        return error.http_status
    if isinstance(error, UnreachableError):
        return 502
    return 404 if isinstance(error, NotFoundError) else 400


def _problem(error: KeyhouseError, deployment: ConsoleDeployment | None) -> TemplateView:
    """Return the page about ``error``, with its HTTP status.

    ``deployment`` is None if the console did not find a deployment.
    """
    if isinstance(error, UnreachableError) and deployment is not None:
        deployment.mark_unreachable()
    problems = getattr(error, "problems", ())
    values = {"error": error, "problems": problems, "refused": isinstance(error, RefusedError)}
    return TemplateView("problem", values, status_of(error))
