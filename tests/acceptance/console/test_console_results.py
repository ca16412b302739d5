"""The page after each decisive action: its result and the next step, in a real browser."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.peers.console import Console
from support.process.server import Server
from support.samples.updates import together

from keyhouse.manifest import fingerprint

if TYPE_CHECKING:
    from playwright.sync_api import Dialog, Page

pytestmark = pytest.mark.acceptance


def to(page: "Page", path: str) -> None:
    answer = page.goto(f"{page.url.split('/d/')[0]}/d/prod/{path}")
    assert answer is not None
    assert answer.status == 200, page.inner_text("main")


def propose(page: "Page", raw: bytes) -> None:
    to(page, "updates")
    page.fill("#manifest-text", raw.decode())
    page.click("text=Show the plan")
    page.click("text=Propose this plan")
    page.wait_for_selector(".result")


def test_each_decision_about_an_update_ends_on_its_result(
    tmp_path: Path, consoles: Callable[..., Console], opened: "Callable[..., Page]"
) -> None:
    goal = together(word="another")
    with Server(tmp_path / "data") as server:
        with server.client() as client:
            assert client.set_manifest(together()).status == 200
        alice, bob = opened(consoles(server, "alice")), opened(consoles(server, "bob"))

        propose(alice, together(word="dropped"))
        proposed = alice.inner_text(".result")
        to(alice, "updates")
        alice.click("text=Cancel…")
        alice.click("text=Cancel the update")
        alice.wait_for_selector("text=The update is cancelled")
        cancelled = alice.inner_text(".result")
        alice.click("text=Propose another update")
        alice.wait_for_selector("#manifest-text")
        propose(alice, goal)
        to(bob, "updates")
        bob.click("text=Approve…")
        bob.click("text=Approve this plan")
        bob.wait_for_selector("text=The update is in force")
        in_force, agreed = bob.inner_text(".result"), bob.inner_text(".result .people")
        bob.reload()
        reloaded = bob.inner_text(".result .people")

    assert "ask bob or carol to open the page updates" in proposed.lower()
    assert fingerprint(together(word="dropped")) in cancelled
    assert "for all users" in cancelled
    assert fingerprint(goal) in in_force
    assert agreed.split() == ["alice", "agreed,", "signed", "bob", "agreed,", "signed"]
    assert reloaded == agreed


def test_new_recovery_secrets_are_offered_and_not_left_in_silence(
    tmp_path: Path, consoles: Callable[..., Console], opened: "Callable[..., Page]"
) -> None:
    first, second = (
        together(updaters=["alice"], holders=each, UpdateThreshold=1) for each in ("a", "ab")
    )
    questions: list[str] = []

    def stay(dialog: "Dialog") -> None:
        questions.append(dialog.type)
        dialog.dismiss()

    with Server(tmp_path / "data") as server:
        with server.client() as client:
            assert client.set_manifest(first).status == 200
        alice = opened(consoles(server, "alice"))
        propose(alice, second)
        result = alice.inner_text(".result")
        alice.on("dialog", stay)
        alice.click("nav >> text=History")
        stayed = alice.url
        alice.remove_listener("dialog", stay)
        alice.once("dialog", lambda dialog: dialog.accept())
        alice.click("nav >> text=History")
        alice.wait_for_url("**/history")
        alice.click("text=Download the new recovery secrets")
        alice.wait_for_selector(".result")
        with alice.expect_download() as waiting:
            alice.click("button:text('Download the new recovery secrets')")
        kept = json.loads(Path(waiting.value.path()).read_text())
        to(alice, "history")
        reminders = alice.get_by_text("Download the new recovery secrets").count()

    assert "The update is in force" in result
    assert "The old shares do not decrypt the state on the disk any more" in result
    assert questions == ["beforeunload"]
    assert "/updates/result/" in stayed
    assert sorted(kept["RecoverySecrets"]) == ["a", "b"]
    assert reminders == 0


def test_an_upload_ends_with_its_result(
    tmp_path: Path, consoles: Callable[..., Console], opened: "Callable[..., Page]"
) -> None:
    with Server(tmp_path / "data") as server:
        with server.client() as client:
            assert client.set_manifest(together()).status == 200
        page = opened(consoles(server, "writer"))
        to(page, "secrets")
        assert "no value yet" in page.inner_text("tbody tr >> nth=0")
        page.click("button.upload")
        page.fill("#upload-form textarea", "four")
        page.click("#upload-form button.primary")
        page.wait_for_selector(".notice.green")
        result = page.inner_text(".notice.green")

    assert "The new value of “note” is stored" in result
    assert "writer uploaded 4 bytes" in result
    assert "next activation" in result
