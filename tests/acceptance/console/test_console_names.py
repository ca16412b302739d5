"""Names with invisible characters, on pages of the console and in the output of commands."""

from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from support.peers.console import Console, ask, cookie_of, csrf_of
from support.process.server import Server
from support.samples.updates import Document, together

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
