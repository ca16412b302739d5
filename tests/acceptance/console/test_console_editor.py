"""Proposing is an editor, in a real browser: the text survives, the plan stands beside it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.peers.console import Console
from support.process.command import run
from support.process.server import Server
from support.samples.deployment import user
from support.samples.updates import Api, together

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.acceptance

AREA = "#manifest-text"

# A file of a person, dropped on an element of the page.
DROP = """([selector, name, bytes]) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([new Uint8Array(bytes)], name));
    const options = { dataTransfer: transfer, bubbles: true, cancelable: true };
    const event = new DragEvent("drop", options);
    document.querySelector(selector).dispatchEvent(event);
    return event.defaultPrevented;
}"""


def to(page: "Page", path: str) -> None:
    answer = page.goto(f"{page.url.split('/d/')[0]}/d/prod/{path}")
    assert answer is not None
    assert answer.status == 200, page.inner_text("main")


def plan(page: "Page") -> None:
    with page.expect_navigation():
        page.click("text=Show the plan")


def drop(page: "Page", selector: str, name: str, content: bytes) -> None:
    assert page.evaluate(DROP, [selector, name, list(content)])


def test_the_text_survives_every_way_back(
    tmp_path: Path, consoles: Callable[..., Console], opened: "Callable[..., Page]"
) -> None:
    broken, good = "Packages:\n  app:\n   - x: [", together(word="another").decode()
    with Server(tmp_path / "data") as server:
        with server.client() as client:
            assert client.set_manifest(together()).status == 200
        page = opened(consoles(server, "alice"))
        to(page, "updates")
        page.fill(AREA, broken)
        plan(page)  # an error
        assert page.input_value(AREA) == broken
        page.go_back()
        assert page.input_value(AREA) == broken
        page.fill(AREA, good)
        page.click("nav >> text=History")  # at once, before the text is kept by time
        page.wait_for_url("**/history")
        page.click("nav >> text=Updates")
        page.wait_for_selector(AREA)
        assert page.input_value(AREA) == good
        page.reload()
        assert page.input_value(AREA) == good
        page.click("text=Start from the manifest in force")
        page.wait_for_selector("text=Bring back the text before")
        assert "Packages:" in page.input_value(AREA)
        page.click("text=Bring back the text before")
        page.wait_for_function(f"() => document.querySelector('{AREA}')?.value.includes('another')")
        assert page.input_value(AREA) == good
        plan(page)
        # Another user is faster. The text is not lost to the conflict.
        with server.client(user("bob")) as bob:
            assert Api(2).update(bob, together(word="faster")).status == 200
        page.click("text=Propose this plan")
        page.wait_for_selector(".beside-text [role=alert]")
        assert page.input_value(AREA) == good
        assert "not proposed" in page.inner_text(".beside-text")
        with server.client(user("bob")) as bob:
            assert Api(2).cancel(bob).status == 200
        to(page, "updates")
        assert page.input_value(AREA) == good
        plan(page)
        page.click("text=Propose this plan")
        page.wait_for_selector("text=The update is proposed")
        with server.client(user("bob")) as bob:
            assert Api(2).acknowledge(bob, together(word="another")).status == 200
        to(page, "updates")
        assert page.input_value(AREA) == ""


def test_the_plan_stands_beside_the_text_and_belongs_to_this_text(
    deployment: Server, consoles: Callable[..., Console], opened: "Callable[..., Page]"
) -> None:
    text = together(word="another").decode()
    page = opened(consoles(deployment, "alice"))
    to(page, "updates")
    page.fill(AREA, text)
    plan(page)
    left, right = page.locator(AREA).bounding_box(), page.locator(".plan").bounding_box()
    assert left is not None
    assert right is not None
    assert right["x"] >= left["x"] + left["width"]
    assert right["y"] < left["y"] + left["height"]
    assert "1 to change" in page.inner_text(".plan")
    assert page.is_enabled("text=Propose this plan")
    page.type(AREA, " ")
    assert page.is_disabled("button.propose")
    assert page.is_visible("text=The text has changed since this plan")
    # A page without the script could still send it. The digest protects.
    page.fill(AREA, text.replace("another", "third"))
    page.eval_on_selector("button.propose", "(each) => { each.disabled = false; }")
    page.click("button.propose")
    page.wait_for_selector(".beside-text [role=alert]")
    assert "plan has changed since the review" in page.inner_text(".beside-text")
    assert "1 to change" in page.inner_text(".plan")
    with deployment.client(user("alice")) as alice:
        assert Api(2).pending(alice).status == 404


def test_problems_have_the_lines_of_the_command(
    deployment: Server,
    consoles: Callable[..., Console],
    opened: "Callable[..., Page]",
    tmp_path: Path,
) -> None:
    text = together(word="another").decode()
    page = opened(consoles(deployment, "alice"))
    for broken in (
        "Packages:\n  app:\n   - x: [",
        '{"Packages": {',
        "Users:\n  me:\n    Certificate: |\n-----BEGIN CERTIFICATE-----\n",
        text.replace('"Packages": {', '"Packages": {\n\n"b": {"UniqeID": "00"},', 1),
    ):
        (tmp_path / "manifest").write_text(broken)
        checked = json.loads(run("manifest", "check", "manifest", "--json", folder=tmp_path).out)
        lines = sorted(each["line"] for each in checked["problems"])
        to(page, "updates")
        page.fill(AREA, broken)
        plan(page)
        shown = page.locator(".to-line").all_inner_texts()
        page.click(".to-line >> nth=0")
        selected = page.eval_on_selector(
            AREA, "(each) => each.value.slice(0, each.selectionStart).split('\\n').length"
        )
        assert shown == [f"Line {each}" for each in lines]
        assert selected == lines[0]
        assert page.inner_text(".gutter b >> nth=0") == str(selected)


def test_files_are_dropped_anywhere_on_the_page(
    deployment: Server, consoles: Callable[..., Console], opened: "Callable[..., Page]"
) -> None:
    page = opened(consoles(deployment, "alice"))
    to(page, "updates")
    drop(page, "h1", "a.yaml", "Packages: {ä: {}}\n".encode())
    page.wait_for_function(f"() => document.querySelector('{AREA}')?.value")
    assert page.input_value(AREA) == "Packages: {ä: {}}\n"
    drop(page, ".beside-text", "latin.yaml", "ä".encode("latin-1"))
    page.wait_for_selector("#file-error:not([hidden])")
    assert "latin.yaml is not UTF-8 text" in page.inner_text("#file-error")
    assert page.input_value(AREA) == "Packages: {ä: {}}\n"


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_moves_under_the_pointer_when_a_confirmation_opens(
    width: int, tmp_path: Path, consoles: Callable[..., Console], opened: "Callable[..., Page]"
) -> None:
    with Server(tmp_path / "data") as server:
        with server.client() as client:
            assert client.set_manifest(together()).status == 200
        with server.client(user("alice")) as alice:
            assert Api(2).update(alice, together(word="another")).status == 200
        page = opened(consoles(server, "bob"), viewport={"width": width, "height": 900})
        moved = {}
        for word in ("Approve…", "Cancel…"):
            to(page, "updates")
            button = page.locator(f"summary:text('{word}')")
            button.scroll_into_view_if_needed()
            box = button.bounding_box()
            assert box is not None
            at = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
            page.mouse.click(*at)
            page.wait_for_selector(".confirm[open]")
            under = page.evaluate("([x, y]) => document.elementFromPoint(x, y).innerText", list(at))
            confirm = page.locator(".confirm[open] form > button").bounding_box()
            assert confirm is not None
            assert 0 <= confirm["y"] <= 900 - confirm["height"]  # visible without scrolling
            moved[word] = button.bounding_box() != box, under
            page.mouse.dblclick(*at)
        assert page.inner_text("h2 >> nth=0") == "An update waits for your agreement"

    assert moved == {word: (False, word) for word in moved}
