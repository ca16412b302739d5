"""Recovery mode and completed recovery in a real browser: states with pages of their own."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.peers.console import Console
from support.process.server import Client, Server
from support.samples.recovery import ciphertexts_of, hand_in, holders, recoverable

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.acceptance


def to(page: "Page", path: str) -> None:
    answer = page.goto(f"{page.url.split('/d/')[0]}/d/prod/{path}")
    assert answer is not None
    assert answer.status == 200, page.inner_text("main")


@pytest.mark.parametrize("memory", [True, False])
def test_a_recovery_is_a_state_and_no_attack(
    memory: bool,  # noqa: FBT001 a parameter of the test
    tmp_path: Path,
    consoles: Callable[..., Console],
    opened: "Callable[..., Page]",
) -> None:
    keys = holders(2)
    settings = {} if memory else {"memory": "none"}
    server = Server(tmp_path / "data")
    with server, server.client() as client:
        shares = ciphertexts_of(client.set_manifest(recoverable(keys)))
        page = opened(consoles(server, "admin", **settings))
    (tmp_path / "data" / "sealed_key").unlink()

    with server, server.client() as client:
        waiting = {}
        for path in ("trust", "secrets", "recovery"):
            to(page, path)
            waiting[path] = page.inner_text(".top") + page.inner_text("main")
            assert page.inner_text("nav .badge").startswith("0/2")
        red = page.locator(".distrust, .pill.red").count()
        for key in keys:
            submit(client, key.name, shares, keys)
        to(page, "recovery")
        recovered = page.inner_text("main")
        to(page, "trust")
        trusted = page.inner_text(".top") + page.inner_text("main")
        assert page.inner_text("nav .badge") == "done"
        page.click(".top .pill.green")
        page.click("text=Close this message")
        page.wait_for_selector("text=2 of 2 holders are needed")

    for text in waiting.values():
        assert "Recovery mode" in text
        assert "This coordinator waits for its recovery" in text
    assert red == 0
    assert "The coordinator is recovered" in recovered
    assert "the root is the root of the recovered state" in recovered
    assert "Recovered" in trusted
    assert "A simulated quote verifies" in trusted


def submit(client: Client, name: str, shares: dict[str, bytes], keys: list) -> None:  # type: ignore[type-arg]
    (key,) = (each for each in keys if each.name == name)
    share = key.share(shares[name])
    assert hand_in(client, share, key.sign(share)).status == 200


def test_another_deployment_after_a_recovery_is_not_trusted(
    tmp_path: Path, consoles: Callable[..., Console], opened: "Callable[..., Page]"
) -> None:
    """Without a memory: the console itself compares the root with the root of the lost state."""
    keys = holders(2)
    server = Server(tmp_path / "data")
    with server, server.client() as client:
        assert client.set_manifest(recoverable(keys)).status == 200
        page = opened(consoles(server, "admin", memory="none"))
    (tmp_path / "data" / "sealed_key").unlink()

    with server, server.client() as client:
        to(page, "recovery")
        assert client.set_manifest(recoverable(keys)).status == 200  # a new deployment
        page.goto(page.url)
        assert "Not trusted" in page.inner_text(".distrust h2")
        assert "the lost state had" in page.inner_text(".distrust")
