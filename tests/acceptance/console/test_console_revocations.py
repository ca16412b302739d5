"""The pages about certificates of workloads, and a revocation with its result, in a browser."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.living.channel import RunningWorkload
from support.living.deployment import channel_manifest, upload
from support.peers.console import Console, ask, cookie_of
from support.process.server import Server
from support.samples.deployment import user

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.acceptance

PAGES = ("workloads/living", "workloads/revoked")
# Cells of tables that are not wholly inside of the window.
CUT = """() => [...document.querySelectorAll("main td, main tbody th, main label")]
  .filter((each) => {
    const box = each.getBoundingClientRect();
    return box.width && (box.left < 0 || box.right > innerWidth || box.width < 40);
}).map((each) => each.textContent)"""


def manifest() -> bytes:
    """Return a living manifest, which ``alice`` may update."""
    raw = json.loads(channel_manifest())
    raw["Users"]["alice"] = {"Certificate": user("alice").pem.decode(), "Roles": ["admin"]}
    raw["Roles"]["admin"] = {"ResourceType": "Manifest", "Actions": ["UpdateManifest"]}
    return json.dumps(raw).encode()


@pytest.fixture(name="server")
def _server(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path / "living") as server:
        with server.client() as client:
            assert client.set_manifest(manifest()).status == 200
        upload(server, bytes(16))
        yield server


def to(page: "Page", path: str) -> None:
    answer = page.goto(f"{page.url.split('/d/')[0]}/d/prod/{path}")
    assert answer is not None
    assert answer.status == 200, page.inner_text("main")


def rows(page: "Page") -> list[list[str]]:
    """Return the texts of the table of workloads, without the column of buttons."""
    return [
        [cell.inner_text().strip() for cell in row.locator("th, td").all()]
        for row in page.locator(".scroll >> nth=0 >> tbody tr").all()
    ]


def test_a_user_revokes_a_workload_and_sees_the_result(
    server: Server, consoles: Callable[..., Console], opened: "Callable[..., Page]"
) -> None:
    first, second = (RunningWorkload(server.mesh_port, name) for name in ("app", "other"))
    first.renew()
    page = opened(consoles(server, "writer"))
    page.click("nav >> text=Workloads")
    page.wait_for_url("**/workloads/living")
    found = {row[1]: row for row in rows(page)}
    assert {each: found[each][0] for each in found} == {first.uuid: "app", second.uuid: "other"}
    assert (found[first.uuid][2], found[second.uuid][2]) == ("current", "not renewed yet")
    assert page.locator(f"tr:has-text('{first.uuid}') time").count() == 1
    assert "in force" in page.inner_text(".card >> nth=0")

    page.click(f"tr:has-text('{first.uuid}') >> text=Revoke…")
    page.wait_for_selector("fieldset")
    asked = page.inner_text("main")
    assert first.uuid in asked
    assert "until it ends" in asked
    page.fill("input[name=reason]", "the key leaked")
    page.click("button.danger")
    page.wait_for_selector(".result")
    result = page.inner_text(".result")
    assert f"Revoked: the workload {first.uuid} of app" in result
    assert "writer revoked" in result
    assert "refuses 1 certificate from now on" in result
    assert "Other workloads accept it until its end" in result
    found = {row[1]: row for row in rows(page)}
    assert found[first.uuid][2] == "revoked"
    assert page.locator(f"tr:has-text('{first.uuid}') >> text=Revoke…").count() == 0
    page.reload()
    assert page.inner_text(".result h2") == result.partition("\n")[0]
    to(page, "workloads/revoked")
    ((marble_type, uuid, *_),) = rows(page)
    assert (marble_type, uuid) == ("app", first.uuid)
    with server.client(user("writer")) as client:
        line = json.loads(client.get("/api/v2/update").data["updateLog"][-1])
    assert (line["user"], line["uuid"], line["reason"]) == ("writer", first.uuid, "the key leaked")


def test_a_user_revokes_a_type_and_sees_only_the_own_types(
    server: Server, consoles: Callable[..., Console], opened: "Callable[..., Page]"
) -> None:
    RunningWorkload(server.mesh_port, "app")
    other = RunningWorkload(server.mesh_port, "other")
    other.renew()
    page = opened(consoles(server, "reader"))
    to(page, "workloads/living")
    assert [row[1] for row in rows(page)] == [other.uuid]
    page.click("text=Revoke…")
    page.check("input[value=type]")
    assert page.locator("input[value=platform]").count() == 0
    page.click("button.danger")
    page.wait_for_selector(".result")
    assert "Revoked: all workloads of other so far" in page.inner_text(".result")
    ((_, _, state, *_),) = rows(page)
    assert state == "has to renew"


def test_the_history_has_revocations_and_marble_roots(
    server: Server, consoles: Callable[..., Console], opened: "Callable[..., Page]"
) -> None:
    with server.client(user("writer")) as client:
        body = {"scope": "platform", "platform": "ab" * 16, "reason": "broken"}
        assert client.post("/api/v2/revocations", body).status == 200
    page = opened(consoles(server, "alice"))
    to(page, "history?kind=trust")
    text = page.inner_text("main")
    assert "Workloads revoked" in text
    assert "Marble roots changed" in text
    to(page, "workloads/revoked")
    assert "writer" in page.inner_text("main")
    to(page, "workloads/living")
    assert page.locator("text=Revoke…").count() == 0
    assert page.locator("nav.choice a").all_inner_texts() == [
        "Joined",
        "Refused",
        "Certificates",
        "Revoked",
    ]


def test_the_pages_fit_a_narrow_window(
    server: Server, consoles: Callable[..., Console], opened: "Callable[..., Page]"
) -> None:
    workload = RunningWorkload(server.mesh_port, "app")
    with server.client(user("writer")) as client:
        for body in (
            {"scope": "platform", "platform": "ab" * 64},
            {"scope": "type", "marbleType": "app"},
        ):
            assert client.post("/api/v2/revocations", body).status == 200
    page = opened(consoles(server, "writer"), viewport={"width": 390, "height": 844})
    asking = f"workloads/revoke?type=app&uuid={workload.uuid}&platform={'ab' * 64}"
    for path in (*PAGES, asking):
        to(page, path)
        assert page.locator("main td, main label").count() > 0, path
        assert page.locator(".danger").first.is_visible() is (path != "workloads/revoked"), path
        assert page.evaluate(CUT) == [], path
        assert page.evaluate("document.documentElement.scrollWidth") == 390, path


def test_a_console_without_the_right_or_to_read_only_does_not_revoke(
    server: Server, consoles: Callable[..., Console]
) -> None:
    workload = RunningWorkload(server.mesh_port, "app")
    asking = f"/d/prod/workloads/revoke?type=app&uuid={workload.uuid}"
    reader = consoles(server, "reader")  # who may revoke another type
    answer = ask(reader, asking, cookie_of(reader))
    assert answer.status == 404
    assert "RevokeWorkload" in answer.text
    nobody = consoles(server, "nobody")
    answer = ask(nobody, "/d/prod/workloads/living", cookie_of(nobody))
    assert answer.status == 403
    looking = consoles(server, "alice", "--read-only")
    answer = ask(looking, asking, cookie_of(looking))
    assert "read-only" in answer.text
