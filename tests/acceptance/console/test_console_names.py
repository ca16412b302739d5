"""Names with invisible characters, on pages of the console and in the output of commands."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from support.peers.console import Console, ask, cookie_of, csrf_of
from support.process.server import Server
from support.samples.updates import Document, together

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.acceptance

CHARACTERS = "\u202e\u2066\u200b\ufeff\u00ad\u3164"
NAMES = [f"x{char}y" for char in CHARACTERS]
FORGED = "one, two"


def odd_names(content: Document) -> None:
    for name in [*NAMES, FORGED]:
        content["Packages"][name] = content["Packages"]["app"]
        content.setdefault("Secrets", {})[name] = {"Type": "plain", "UserDefined": True}
    content["Roles"]["odd"] = {
        "ResourceType": "Secrets",
        "ResourceNames": [*NAMES, FORGED],
        "Actions": ["ReadSecret", "WriteSecret"],
    }
    content["Users"]["alice"]["Roles"].append("odd")


def test_invisible_characters_are_escaped_on_every_page(
    tmp_path: Path, consoles: Callable[..., Console]
) -> None:
    with Server(tmp_path / "data") as server:
        with server.client() as client:
            assert client.set_manifest(together(odd_names)).status == 200
        found = consoles(server, "alice")
        cookie = cookie_of(found)

        for path in (
            "manifest?section=Packages",
            "manifest?section=Secrets",
            "manifest?section=Roles",
            "manifest/picture",
            "manifest/source?as=json",
            "manifest/source?as=yaml",
        ):
            page = ask(found, f"/d/prod/{path}", cookie)
            assert page.status == 200
            assert not set(CHARACTERS) & set(page.text), path
            assert r"x\u202ey" in page.text
            assert r"x\u200by" in page.text

        table = ask(found, "/d/prod/secrets", cookie).text
        for name in NAMES:
            shown = name.encode("unicode_escape").decode()
            # The form needs the exact name. People see the escaped name.
            button = f'data-secret="{name}" data-name="{shown}"'
            assert table.count(name) == table.count(button) == 2
            picture = f"/d/prod/manifest/picture?section=Secrets&of={quote(name)}"
            assert f"<strong>{shown}</strong>" in ask(found, picture, cookie).text

        own = {**cookie, "origin": found.address}
        token = csrf_of(found, cookie)
        wrote = ask(
            found, "/d/prod/secrets/write", own, csrf=token, secret=NAMES[0], text="a value"
        )
        assert wrote.text.startswith('{"next":"/d/prod/secrets?done=')
        read = ask(found, "/d/prod/secrets/read", own, csrf=token, secret=NAMES[0])
        assert "a value" in read.text
        drawn = ask(found, "/d/prod/manifest/picture", cookie).text
        assert "alice has the role odd" in drawn
        assert f"&#34;{FORGED}&#34;" in drawn


def test_dialogs_and_lists_of_a_browser_show_escaped_names(
    tmp_path: Path, consoles: Callable[..., Console], opened: "Callable[..., Page]"
) -> None:
    shown = [name.encode("unicode_escape").decode() for name in NAMES]
    with Server(tmp_path / "data") as server:
        with server.client() as client:
            assert client.set_manifest(together(odd_names)).status == 200
        page = opened(consoles(server, "alice"))
        base = page.url.removesuffix("trust")
        page.goto(f"{base}secrets")
        titles = {}
        for action, title in (("upload", "#uploading-title"), ("reveal", "#revealed-title")):
            page.click(f"tr:has-text({json.dumps(shown[0])}) button.{action}")
            page.wait_for_selector(title)
            titles[action] = page.inner_text(title)
            page.keyboard.press("Escape")
        page.goto(f"{base}updates")
        page.fill("#manifest-text", together(odd_names, word="another").decode())
        page.click("text=Show the plan")
        page.wait_for_selector(".plan")
        missing = page.inner_text("dt:text('Not uploaded yet') + dd")
        plan = page.inner_text(".plan")

    assert titles == {"upload": f"Upload {shown[0]}", "reveal": shown[0]}
    assert json.dumps(FORGED) in missing
    assert all(name in missing for name in shown)
    assert not set(CHARACTERS) & set(plan)
