"""A console process of a user, and the user's browser."""

import http.client
import json
import os
import shutil
import signal
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from http.cookies import SimpleCookie
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlencode, urlsplit

import pytest
from msgspec.structs import replace

from keyhouse.client.contexts import Contexts, SavedContext, write
from support.process.server import PATIENCE, Server
from support.process.start import Started, start
from support.samples.deployment import user

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = [
    "Answer",
    "Console",
    "ask",
    "chromium",
    "console",
    "context_of",
    "cookie_of",
    "csrf_of",
    "with_profile",
]

CHROMIUM: Final = shutil.which("chromium")
_ENGINE: Final = shutil.which("chromium-headless-shell") or CHROMIUM
"""Chromium without windows: it draws pages in less than half of the time."""


class Console:
    """A running console process with the home folder of its user."""

    def __init__(self, output: IO[bytes], home: Path, process: Started) -> None:
        self._output = output
        self.process = process
        self.home = home
        self.link = self.next_link()
        self.port = urlsplit(self.link).port or 0
        self.address = f"http://127.0.0.1:{self.port}"

    def next_link(self) -> str:
        """Wait for the next printed link, and return the link."""
        found: str = json.loads(self._output.readline())["link"]
        return found

    @property
    def errors(self) -> str:
        """The text on standard error."""
        return (self.home / "console.err").read_text()


def context_of(server: Server, home: Path, person: str = "") -> SavedContext:
    """Return the context of ``server`` for ``person``; the user's files are written into ``home``.

    Without ``person`` the context has no user.
    """
    machine = server.data / "simulation"
    found = SavedContext(
        address=f"127.0.0.1:{server.port}",
        attestation=str(machine / "attestation.json"),
        simulation_root=str(machine / "root.pem"),
        memory=str(home / "memory.json"),
    )
    if not person:
        return found
    (home / "user.crt").write_bytes(user(person).pem)
    (home / "user.key").write_bytes(user(person).key_pem)
    return replace(found, cert=str(home / "user.crt"), key=str(home / "user.key"))


@contextmanager
def console(
    home: Path,
    contexts: dict[str, SavedContext],
    *words: str,
    current: str = "prod",
    **variables: str,
) -> Iterator[Console]:
    """Run `keyhouse console` with ``contexts``, for a user with the home folder ``home``."""
    write(home / ".config" / "keyhouse" / "contexts.toml", Contexts(current, contexts))
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as output, (home / "console.err").open("ab") as errors:
        with os.fdopen(writing, "wb") as said:
            process = start(
                ("console", "--json", *words),
                output=said,
                errors=errors,
                environment={"HOME": str(home), **variables},
                folder=home,
            )
        try:
            yield Console(output, home, process)
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0


@contextmanager
def chromium() -> "Iterator[Browser]":
    """Run Chromium without windows. Skip the test if Chromium is missing, except in CI."""
    if _ENGINE is None and not os.environ.get("CI"):
        pytest.skip("chromium is not installed: scripts/ci-packages")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**_launched(_ENGINE))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def with_profile(browser: "Browser", folder: Path) -> "Iterator[Page]":
    """Open a page of the complete Chromium with a profile in ``folder``.

    The engine without windows has no history.
    """
    if CHROMIUM is None and not os.environ.get("CI"):
        pytest.skip("chromium is not installed: scripts/ci-packages")
    options = _launched(CHROMIUM)
    with browser.browser_type.launch_persistent_context(folder, **options) as context:
        yield context.new_page()


def _launched(program: str | None) -> dict[str, Any]:
    return {
        "executable_path": program or "chromium",
        "chromium_sandbox": os.geteuid() != 0,  # root has no sandbox
        "args": ["--disable-dev-shm-usage"],  # /dev/shm is small in some containers
    }


class Answer(NamedTuple):
    """An answer of the console."""

    status: int
    headers: Mapping[str, str]
    text: str


def ask(
    found: Console, path: str, headers: Mapping[str, str] | None = None, **fields: str
) -> Answer:
    """Send a request to the console as a program does; ``fields`` make it a form."""
    body = urlencode(fields) if fields else None
    with closing(http.client.HTTPConnection("127.0.0.1", found.port, timeout=30)) as connection:
        connection.request("POST" if fields else "GET", path, body, dict(headers or {}))
        answer = connection.getresponse()
        got = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, got, answer.read().decode())


def cookie_of(found: Console) -> dict[str, str]:
    """Open the link as a browser does; return the header with the session's cookie."""
    parts = urlsplit(found.link)
    answer = ask(found, f"{parts.path}?{parts.query}")
    assert answer.status == 200
    kept = SimpleCookie(answer.headers["set-cookie"])
    (name,) = kept
    assert kept[name]["httponly"]
    assert kept[name]["samesite"] == "strict"
    return {"cookie": f"{name}={kept[name].value}"}


def csrf_of(found: Console, cookie: Mapping[str, str]) -> str:
    """Return the CSRF token of the session's forms."""
    page = ask(found, "/d/prod/trust", cookie).text
    return page.split('data-csrf="')[1].split('"')[0]
