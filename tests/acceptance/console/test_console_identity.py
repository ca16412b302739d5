"""Identity, copies of secrets, and the lock, in a real browser."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from support.peers.console import Console
from support.process.server import Server
from support.samples.deployment import user

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.acceptance

PAGES = ("trust", "manifest", "updates", "secrets", "history", "recovery", "keys")


def to(page: "Page", path: str) -> None:
    answer = page.goto(f"{page.url.split('/d/')[0]}/d/prod/{path}")
    assert answer is not None
    assert answer.status == 200, page.inner_text("main")


def test_every_page_shows_the_identity(
    deployment: Server, consoles: Callable[..., Console], opened: "Callable[..., Page]"
) -> None:
    alice = opened(consoles(deployment, "alice"))
    nobody = opened(consoles(deployment))
    for path in PAGES:
        to(alice, path)
        assert alice.inner_text(".top .you") == "You: alice"
    to(nobody, "manifest")
    assert nobody.inner_text(".top .you") == "You: anonymous"


def test_a_secret_is_copied_and_lock_closes_secrets_in_all_tabs(
    deployment: Server, consoles: Callable[..., Console], opened: "Callable[..., Page]"
) -> None:
    value = "canary 91e0"
    with deployment.client(user("writer")) as writer:
        assert writer.upload({"note": value.encode()}).status == 200
    first = opened(
        consoles(deployment, "writer"), permissions=["clipboard-read", "clipboard-write"]
    )
    to(first, "secrets")
    second = first.context.new_page()
    second.goto(first.url)
    second.click("button.reveal")
    second.click("button.copy-secret")
    second.wait_for_selector("text=Copied")
    assert second.evaluate("navigator.clipboard.readText()") == value

    first.click("#lock")

    second.wait_for_selector("#locked[open]")
    assert value not in second.content()
    for page in (first, second):
        assert page.inner_text("#locked").startswith("Locked")
        assert "You locked this console." in page.inner_text("#locked")
        assert page.locator("nav a").count() == 0
