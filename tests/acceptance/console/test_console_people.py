"""What people see and decide in the console, without what only a browser does."""

import base64
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from support.peers.console import Answer, Console, ask, console, context_of, cookie_of, csrf_of
from support.peers.joined import asked_to_join
from support.process.server import Server
from support.process.softhsm import LIBRARY, PIN, TOKEN, needs_engine, on_token
from support.public_log import published_by
from support.samples.deployment import user
from support.samples.updates import Api, together

from keyhouse.client.contexts import SavedContext
from keyhouse.manifest import fingerprint
from keyhouse.transparency.leaf import UpdateApprovedLeaf

pytestmark = pytest.mark.acceptance

WRONG = "90817263"  # as a PIN


class Visitor:
    """Someone who has opened a console's link, and reads the deployment ``prod``."""

    def __init__(self, found: Console) -> None:
        self._found = found
        self._cookie = cookie_of(found)
        self._own: Mapping[str, str] = {**self._cookie, "origin": found.address}

    def get(self, path: str) -> str:
        """Return the page, without its line breaks."""
        answer = ask(self._found, f"/d/prod/{path}", self._cookie)
        assert answer.status == 200, answer.text
        return " ".join(answer.text.split())

    def post(self, path: str, **fields: str) -> Answer:
        """Send a form of this page."""
        token = csrf_of(self._found, self._cookie)
        return ask(self._found, f"/d/prod/{path}", self._own, csrf=token, **fields)


def hidden(page: str, name: str) -> str:
    """Return the value of a hidden field."""
    return page.split(f'name="{name}" value="')[1].split('"', maxsplit=1)[0]


def test_refused_workloads_are_shown_with_the_reason_and_what_to_do(
    deployment: Server, consoles: Callable[..., Console]
) -> None:
    for _ in range(2):
        assert asked_to_join(deployment, "<b>missing", "<i>one").answer is None

    visitor = Visitor(consoles(deployment, "alice"))
    page = visitor.get("workloads?show=refused")
    assert "the manifest has no marble type &#34;&lt;b&gt;missing&#34;" in page
    assert "types are case-sensitive." in page
    assert '<td data-label="Times">2 <small>since <time datetime="' in page
    assert "&lt;i&gt;one" in page
    assert "has only its own refusals" in page
    assert "Nothing contains" in visitor.get("workloads?show=refused&q=nothing+like+it")
    assert 'Refused <span class="count">' in visitor.get("workloads")


def test_a_manifest_that_the_log_lacks_is_in_nobodys_way(
    tmp_path: Path, consoles: Callable[..., Console]
) -> None:
    """One with values of secrets is not in the log; the form names the newest earlier one."""

    def with_a_value(document: dict[str, Any]) -> None:
        document["Secrets"]["given"] = {
            "Type": "plain",
            "UserDefined": True,
            "Private": "Y2FuYXJ5",
        }

    first, second = together(with_a_value, UpdateThreshold=1), together(UpdateThreshold=1)
    with Server(tmp_path / "data") as server:
        with server.client() as client:
            assert client.set_manifest(first).status == 200
        with server.client(user("alice")) as alice:
            assert Api(2).update(alice, second).status == 200
        visitor = Visitor(consoles(server, "alice"))
        lacking = fingerprint(first)
        assert lacking in visitor.get("manifest/compare")
        sides = {"left_version": lacking, "right_version": lacking, "right": "text"}
        sides["right_text"] = together(word="other", UpdateThreshold=1).decode()
        shown = visitor.post("manifest/compare", left="in force", **sides)
        assert (shown.status, "Side by side" in shown.text) == (200, True)
        refused = visitor.post("manifest/compare", left="earlier", **sides)
        assert (refused.status, "Choose the file of the manifest" in refused.text) == (404, True)


@needs_engine
def test_a_key_on_a_token_approves_an_update(tmp_path: Path) -> None:
    """The certificate is in a file: only the key's first use shows whether the PIN is right."""

    def bob_has_a_token(document: dict[str, Any]) -> None:
        document["Users"]["bob"]["Certificate"] = on_token("EC").pem.decode()

    goal, pin = together(bob_has_a_token, word="second"), PIN.reveal().decode()
    with Server(tmp_path / "data") as server:
        bob = on_a_token(context_of(server, tmp_path), tmp_path)
        with server.client() as client:
            assert client.set_manifest(together(bob_has_a_token)).status == 200
        with server.client(user("alice")) as alice:
            assert Api(2).update(alice, goal).status == 200
        with console(tmp_path, {"prod": bob}, SOFTHSM2_CONF=os.environ["SOFTHSM2_CONF"]) as found:
            visitor = Visitor(found)
            assert "Your key is locked" in visitor.get("trust")
            refused = visitor.post("unlock", password=WRONG)
            assert (refused.status, WRONG in refused.text) == (400, False)
            assert "The token rejects the PIN" in refused.text
            assert "Your key is locked" in visitor.get("trust")
            assert visitor.post("unlock", password=pin).status == 303
            assert "<strong>bob</strong>" in visitor.get("trust")
            shown = visitor.get("updates")
            reviewed = {name: hidden(shown, name) for name in ("plan", "pending")}
            assert visitor.post("updates/approve", **reviewed).status == 303
            assert "No update is pending" in visitor.get("updates")
            assert pin not in found.errors
        with server.client() as client:
            in_force = client.get("/api/v2/manifest").data["manifest"]
            leaves = published_by(client).leaves
    assert base64.b64decode(in_force) == goal
    (approved,) = (leaf for leaf in leaves if isinstance(leaf, UpdateApprovedLeaf))
    assert approved.user == "bob"
    assert approved.approval


def on_a_token(context: SavedContext, home: Path) -> SavedContext:
    """Return ``context`` for the user whose key is on the token, and certificate in a file."""
    file, certificate = home / "token.json", home / "token.crt"
    file.write_text(json.dumps({"Path": str(LIBRARY), "TokenLabel": TOKEN}))
    certificate.write_bytes(on_token("EC").pem)
    return replace(context, pkcs11_config=str(file), pkcs11_key_label="EC", cert=str(certificate))
