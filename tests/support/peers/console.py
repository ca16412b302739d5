"""A console as one person runs it, and their browser."""

import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final
from urllib.parse import urlsplit

import pytest
from msgspec.structs import replace

from keyhouse.client.contexts import Context, Contexts, write
from support.process.server import Server
from support.process.start import start
from support.samples.deployment import user

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["Console", "chromium", "console", "context_of"]

CHROMIUM: Final = shutil.which("chromium")


class Console:
    """A running console. ``errors``: what it has printed on standard error."""

    def __init__(self, output: IO[bytes], home: Path) -> None:
        self._output = output
        self.home = home
        self.link = self.next_link()
        self.port = urlsplit(self.link).port or 0
        self.address = f"http://127.0.0.1:{self.port}"

    def next_link(self) -> str:
        """Return the next link that it prints; wait for it."""
        found: str = json.loads(self._output.readline())["link"]
        return found

    @property
    def errors(self) -> str:
        """What it has printed on standard error."""
        return (self.home / "console.err").read_text()


def context_of(server: Server, home: Path, person: str = "") -> Context:
    """Return the context of ``server`` for ``person``, whose files are written into ``home``."""
    machine = server.data / "simulation"
    found = Context(
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
    home: Path, contexts: dict[str, Context], *words: str, current: str = "prod"
) -> Iterator[Console]:
    """Run `keyhouse console` with ``contexts``, for a user whose home is ``home``."""
    write(home / ".config" / "keyhouse" / "contexts.toml", Contexts(current, contexts))
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as output, (home / "console.err").open("ab") as errors:
        with os.fdopen(writing, "wb") as said:
            process = start(
                ("console", "--json", *words),
                output=said,
                errors=errors,
                environment={"HOME": str(home)},
                folder=home,
            )
        try:
            yield Console(output, home)
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0


@contextmanager
def chromium() -> "Iterator[Browser]":
    """Run Debian's Chromium without a window; the test is skipped where it is missing."""
    if CHROMIUM is None and not os.environ.get("CI"):
        pytest.skip("chromium is not installed: scripts/ci-packages")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        sandbox = os.geteuid() != 0  # which root has none of
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM or "chromium",
            chromium_sandbox=sandbox,
            args=["--disable-dev-shm-usage"],  # which is small in some containers
        )
        try:
            yield browser
        finally:
            browser.close()
