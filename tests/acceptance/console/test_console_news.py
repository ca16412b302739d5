"""The header and the menu announce news on every page, in a real browser."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.peers.console import Console
from support.process.server import Server
from support.samples.deployment import user
from support.samples.updates import Api, together

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.acceptance


def test_a_pending_update_and_an_unreachable_coordinator_are_announced(
    tmp_path: Path, consoles: Callable[..., Console], opened: "Callable[..., Page]"
) -> None:
    with Server(tmp_path / "data") as server:
        with server.client() as client:
            assert client.set_manifest(together()).status == 200
        bob = opened(consoles(server, "bob"))
        bob.goto(bob.url.replace("/trust", "/keys"))
        assert bob.locator(".badge").count() == 0
        with server.client(user("alice")) as alice:
            assert Api(2).update(alice, together(word="another")).status == 200
        bob.wait_for_selector("nav .badge")
        announced = bob.inner_text("nav .badge")
        heading = bob.inner_text("h1")
    bob.wait_for_selector(".top.gone")
    header = bob.inner_text(".top.gone")

    assert announced.startswith("1")
    assert "waits for your agreement" in announced
    assert heading == "Who can know the keys"
    assert "Not reachable since" in header
    assert "verified" not in header
