"""A coordinator with users, secrets and workloads, and a browser."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from msgspec.structs import replace
from support.peers.console import Console, chromium, console, context_of
from support.process.server import Server
from support.samples.updates import together

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page


_PATIENCE: Final = 120_000  # milliseconds for one step of a browser: machines are busy


_FOLDER: Final = Path(__file__).parent
_open: "Final[list[Browser]]" = []
_ends: Final = ExitStack()


@pytest.fixture
def browser() -> "Browser":
    """Return the browser of all successive tests in this folder. A start takes a second."""
    if not _open:
        _open.append(_ends.enter_context(chromium()))
    return _open[0]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Iterator[None]:
    """Close the browser before a test elsewhere.

    While the browser is open, Playwright has an event loop in this thread.
    """
    try:
        yield
    finally:
        if nextitem is None or _FOLDER not in nextitem.path.parents:
            _open.clear()
            _ends.close()


@pytest.fixture(scope="session")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A coordinator that alice, bob and carol may update; tests leave it as it is."""
    with Server(tmp_path_factory.mktemp("deployment") / "data") as server:
        with server.client() as client:
            assert client.set_manifest(together()).status == 200
        yield server


@pytest.fixture
def consoles(tmp_path: Path) -> Iterator[Callable[..., Console]]:
    """Start a console for a person at a coordinator; all end with the test."""
    with ExitStack() as ends:

        def begin(server: Server, person: str = "", *words: str, **settings: str) -> Console:
            home = tmp_path / f"home-{person or 'anonymous'}"
            home.mkdir()
            contexts = {"prod": replace(context_of(server, home, person), **settings)}
            return ends.enter_context(console(home, contexts, *words))

        yield begin


@pytest.fixture
def opened(browser: "Browser") -> "Iterator[Callable[..., Page]]":
    """Open a console's link in a browser of its own; what pages report as errors fails the test."""
    with ExitStack() as ends:
        errors: list[str] = []

        def keep(told: "ConsoleMessage") -> None:
            # Pages that say what was refused have such a status themselves.
            if told.type == "error" and not re.search("status of (400|409|502)", told.text):
                errors.append(told.text)

        def begin(found: Console, **settings: object) -> "Page":
            context = ends.enter_context(browser.new_context(**settings))  # type: ignore[arg-type]
            context.set_default_timeout(_PATIENCE)
            page = context.new_page()
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.on("console", keep)
            page.goto(found.link)
            page.wait_for_url("**/trust")
            return page

        yield begin
        assert errors == []
